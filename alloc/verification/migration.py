"""The checker of migrations: every step within capacity, and the end as promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.migration import Migration, Move
from alloc.problems.allocation.solution import Assignment
from alloc.verification.violation import Violation

Where = Counter[tuple[str, str, str]]


def verify_migration(instance: Instance, migration: Migration) -> list[Violation]:
    """Replay a migration step by step from the running placement.

    Parameters
    ----------
    instance
        Its `running` is the start.
    migration
        The steps, and the allocation they lead to. Jobs that do not run before may start in it.

    Returns
    -------
    list of Violation
        Empty when in every step each host has room for what stands on it and what arrives, no task
        leaves a host it is not on, only preemptible jobs stop or move, and the running jobs end
        where the allocation says. Rules on domains and quotas are those of the allocation:
        `alloc.verification.verify` checks them.
    """
    found: list[Violation] = []
    now = _where(instance.running)
    for number, step in enumerate(migration.steps, start=1):
        # A task that moves holds both hosts until the end of the step; one that stops lets go.
        during = Counter(now)
        for move in step:
            found += _check_move(instance, move, number)
            at = (move.job, move.role, move.source or "")
            if move.source is not None and now[at] < move.count:
                found.append(
                    Violation(
                        "move_source",
                        (move.job, move.source),
                        move.count - now[at],
                        "tasks",
                        f"step {number}: {move}, but only {max(now[at], 0)} are there.",
                    )
                )
            if move.source is not None:
                now[at] -= move.count
            if move.target is not None:
                now[move.job, move.role, move.target] += move.count
                during[move.job, move.role, move.target] += move.count
            elif move.source is not None:
                during[at] -= move.count
        found += _check_capacity(instance, during, number)
    running = {a.job for a in instance.running}
    final = _where(a for a in migration.allocation.assignments if a.job in running)
    for at in sorted({key for key in (*now, *final) if now[key] != final[key]}):
        found.append(
            Violation(
                "move_end",
                (at[0], at[2]),
                abs(now[at] - final[at]),
                "tasks",
                f'job "{at[0]}" ends with {now[at]} {at[1]} tasks on host "{at[2]}", but the '
                f"allocation has {final[at]}.",
            )
        )
    return found


def _where(assignments: Iterable[Assignment]) -> Where:
    where: Where = Counter()
    for a in assignments:
        for task in a.tasks:
            where[a.job, task.role, task.host] += task.count
    return where


def _check_move(instance: Instance, move: Move, number: int) -> list[Violation]:
    if move.job not in instance.job_index:
        return [
            Violation(
                "unknown_job",
                (move.job,),
                1,
                "job",
                f'step {number}: job "{move.job}" is not in the instance.',
            )
        ]
    found = []
    for host in (move.source, move.target):
        if host is not None and host not in instance.topology.host_index:
            found.append(
                Violation(
                    "unknown_host",
                    (move.job, host),
                    1,
                    "host",
                    f'step {number}: host "{host}" is not in the topology.',
                )
            )
    if not instance.job(move.job).preemptible:
        found.append(
            Violation(
                "pinned",
                (move.job,),
                move.count,
                "tasks",
                f"step {number}: {move}, but the job is not preemptible and stays where it is.",
            )
        )
    return found


def _check_capacity(instance: Instance, during: Where, number: int) -> list[Violation]:
    """Yield the hosts that hold more than they have while a step goes on."""
    topology = instance.topology
    used = np.zeros_like(topology.capacity)
    running = {a.job: a for a in instance.running}
    for (job, role, host), count in during.items():
        if job in running and host in topology.host_index and count > 0:
            configuration = instance.job(job).configurations[running[job].configuration]
            demand = next((g.demand for g in configuration.tasks if g.role == role), None)
            if demand is not None:
                used[topology.host_index[host]] += count * np.array(demand)
    names, over = topology.resource_names, used > topology.capacity
    # A task that moves holds what is the cluster's own once, as it did before.
    over[:, list(topology.cluster_columns)] = False
    return [
        Violation(
            "host_capacity",
            (topology.hosts[h].id, names[r]),
            int(used[h, r] - topology.capacity[h, r]),
            names[r],
            f'step {number}: host "{topology.hosts[h].id}" holds {used[h, r]} {names[r]} of '
            f"{topology.capacity[h, r]} while tasks move.",
        )
        for h, r in np.argwhere(over)
    ]
