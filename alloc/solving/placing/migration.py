"""Ordering moves: from the running placement to another, never beyond what hosts can hold.

Moves whose target has room go first, as many at a time as fit. When none fits, running tasks wait
for each other in a circle: one of them then passes through a third host with room, or, where no
host has any, a preemptible task stops and starts again at the end. Every task is broken out of a
circle at most once, so the order is found after finitely many steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from alloc.errors import AllocError, UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.migration import Migration, Move
from alloc.problems.allocation.solution import Allocation, Assignment

Demand = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Pending:
    """Tasks still to move; `staged` ones have left their circle already."""

    move: Move
    demand: Demand
    staged: bool = False


def order_moves(instance: Instance, allocation: Allocation) -> Migration:
    """Return steps that turn the running placement into an allocation.

    Parameters
    ----------
    instance
        Its `running` is where tasks are now, within capacity.
    allocation
        Where they are to be. Running jobs that are not in it stop first; jobs that do not run yet
        start when the migration is over.

    Raises
    ------
    AllocError
        If tasks block each other, no host has room to stage one, and none of them may stop.
    UnsupportedFeatureError
        If tasks that move share GPUs or hold MIG slices, or a running job changes configuration.
    """
    free, pending, first = _open(instance, allocation)
    index = instance.topology.host_index
    steps: list[tuple[Move, ...]] = [first] if first else []
    while pending:
        done, left = _next_step(free, pending, index)
        if not done:
            done, left = _break_circle(instance, free, pending)
        for move, demand in done:
            if move.source is not None and move.target is not None:
                free[index[move.source]] += move.count * demand
        steps.append(tuple(move for move, _ in done))
        pending = left
    return Migration(tuple(steps), allocation)


def _open(
    instance: Instance, allocation: Allocation
) -> tuple[Demand, list[_Pending], tuple[Move, ...]]:
    """Return free capacity, the moves to make, and the stops that come before them."""
    free = instance.topology.capacity.copy()
    # A task that moves holds what is the cluster's own once, as it did before.
    on_host = np.ones(free.shape[1], dtype=np.int64)
    on_host[list(instance.topology.cluster_columns)] = 0
    index = instance.topology.host_index
    after = {a.job: a for a in allocation.assignments}
    pending: list[_Pending] = []
    stops: list[Move] = []
    for before in instance.running:
        job = instance.job(before.job)
        now = after.get(before.job)
        if now is not None and now.configuration != before.configuration:
            raise UnsupportedFeatureError(
                f'job "{job.id}": changes its configuration, which is a restart and no move; stop '
                "it first or keep its configuration."
            )
        groups = {g.role: g for g in job.configurations[before.configuration].tasks}
        held, wanted = _where(before), Counter[tuple[str, str]]() if now is None else _where(now)
        for (role, host), count in held.items():
            free[index[host]] -= count * on_host * np.array(groups[role].demand)
        for role, group in groups.items():
            leave = _differences(held, wanted, role)
            arrive = _differences(wanted, held, role)
            if leave and (group.shares_gpu or group.mig_profile):
                raise UnsupportedFeatureError(
                    f'job "{job.id}": its {role} tasks share GPUs or hold MIG slices; moves are '
                    "ordered for tasks with whole GPUs only."
                )
            demand = on_host * np.array(group.demand)
            if now is None:
                for host, count in leave:
                    stops.append(Move(job.id, role, count, host, None))
                    free[index[host]] += count * demand
                continue
            pending += [
                _Pending(Move(job.id, role, n, a, b), demand) for a, b, n in _pair(leave, arrive)
            ]
    return free, pending, tuple(stops)


def _where(assignment: Assignment) -> Counter[tuple[str, str]]:
    where: Counter[tuple[str, str]] = Counter()
    for task in assignment.tasks:
        where[task.role, task.host] += task.count
    return where


def _differences(
    more: Counter[tuple[str, str]], less: Counter[tuple[str, str]], role: str
) -> list[tuple[str, int]]:
    return [
        (host, n - less[r, host])
        for (r, host), n in more.items()
        if r == role and n > less[r, host]
    ]


def _pair(
    leave: list[tuple[str, int]], arrive: list[tuple[str, int]]
) -> list[tuple[str, str, int]]:
    """Pair tasks that leave with places they arrive at; tasks of a role are alike."""
    pairs = []
    leave, arrive = list(leave), list(arrive)
    while leave and arrive:
        (a, n), (b, m) = leave.pop(), arrive.pop()
        count = min(n, m)
        pairs.append((a, b, count))
        if n > count:
            leave.append((a, n - count))
        if m > count:
            arrive.append((b, m - count))
    return pairs


def _next_step(
    free: Demand, pending: list[_Pending], index: dict[str, int]
) -> tuple[list[tuple[Move, Demand]], list[_Pending]]:
    """Take the moves that fit at the same time; their targets' capacity is taken from `free`."""
    done: list[tuple[Move, Demand]] = []
    left: list[_Pending] = []
    # Large tasks first: small ones find room later too.
    for waiting in sorted(pending, key=lambda p: tuple(-p.demand)):
        move = waiting.move
        assert move.target is not None
        target = index[move.target]
        needed = waiting.demand > 0
        room = free[target][needed] // waiting.demand[needed]
        fit = int(min(move.count, room.min(initial=move.count)))
        if fit > 0:
            free[target] -= fit * waiting.demand
            done.append((replace(move, count=fit), waiting.demand))
        if fit < move.count:
            left.append(replace(waiting, move=replace(move, count=move.count - max(fit, 0))))
    return done, left


def _break_circle(
    instance: Instance, free: Demand, pending: list[_Pending]
) -> tuple[list[tuple[Move, Demand]], list[_Pending]]:
    """Stage one task on a third host, or stop one; the smallest that lets another move go."""
    index = instance.topology.host_index
    hosts = instance.topology.hosts
    order = sorted(range(len(pending)), key=lambda i: tuple(pending[i].demand))
    unstaged = [i for i in order if not pending[i].staged and pending[i].move.source is not None]
    helpful = [i for i in unstaged if _helps(free, pending, i, index)]
    for i in helpful or unstaged:
        waiting = pending[i]
        able = np.flatnonzero((free >= waiting.demand).all(axis=1))
        able = able[able != index[waiting.move.source or ""]]
        if able.size:
            # The fullest host that can: the others keep their room for the moves that wait.
            third = int(able[np.lexsort(free[able].T[::-1])[0]])
            free[third] -= waiting.demand
            first = replace(waiting.move, count=1, target=hosts[third].id)
            then = replace(waiting.move, count=1, source=hosts[third].id)
            return [(first, waiting.demand)], _without(pending, i, replace(waiting, move=then))
    for i in helpful or unstaged:
        waiting = pending[i]
        source = waiting.move.source
        if source is not None and instance.job(waiting.move.job).preemptible:
            free[index[source]] += waiting.demand
            stop = replace(waiting.move, count=1, target=None)
            start = replace(waiting.move, count=1, source=None)
            return [(stop, waiting.demand)], _without(pending, i, replace(waiting, move=start))
    names = ", ".join(sorted({p.move.job for p in pending}))
    raise AllocError(
        f"the moves of {names} block each other: no host has room to stage a task and none may "
        "stop; free a host or make one of the jobs preemptible."
    )


def _helps(free: Demand, pending: list[_Pending], i: int, index: dict[str, int]) -> bool:
    """Return whether some waiting move goes to the host that a task would leave, and then fits."""
    source = pending[i].move.source
    assert source is not None
    room = free[index[source]] + pending[i].demand
    return any(
        p.move.target == source and bool((p.demand <= room).all())
        for k, p in enumerate(pending)
        if k != i
    )


def _without(pending: list[_Pending], i: int, staged: _Pending) -> list[_Pending]:
    """Return the moves that wait with one task of the i-th replaced by its second half."""
    waiting = pending[i]
    rest = [p for k, p in enumerate(pending) if k != i]
    if waiting.move.count > 1:
        rest.append(replace(waiting, move=replace(waiting.move, count=waiting.move.count - 1)))
    return [*rest, replace(staged, staged=True)]
