"""Improving an allocation of F5: a few hosts at a time, exactly.

Counts over equal hosts do not see that the CPU of one host runs out beside idle GPUs. A few hosts
are therefore emptied, and filled again to the optimum from what stood there and what waits, host by
host; what is gained is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.certificate import OPTIMALITY_GAP, is_within
from alloc.models.sharing.arrays import PLACES_ALL, array_model, listed_columns, sense_of
from alloc.models.sharing.data import sharing_data
from alloc.models.sharing.unrolling import allocation_of
from alloc.objectives import objective as named_objective
from alloc.problems.allocation.instance import Instance, Tenant, misfit
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.solving.outcome import Settings
from alloc.solving.sharing.pattern_generation import relax, whole_gap
from alloc.units import MILLI

_HOSTS = 3
"""Hosts emptied at a time; the sub-problems then take HiGHS well under a second."""
_PER_SHAPE = 40
"""Waiting jobs of one shape offered to a few hosts; more could hardly stand there."""
_SUB_LIMIT_S = 2.0
"""Wall time of the integer program of a few hosts, seconds: one that takes longer is to leave time
for other hosts."""
_CORE = 200
"""Patterns that they may use: few hosts need few, and the program is to end within its seconds."""
_PATIENCE = 40
"""Rounds without gain after which the search ends, on large clusters once round all hosts: every
host has had its turn by then."""


def improve(
    instance: Instance,
    objective: str,
    allocation: Allocation,
    bound: float,
    settings: Settings,
    report: Callable[[str], None],
    offer: Callable[[Allocation], object],
) -> None:
    """Improve an allocation until it meets the bound, time is up, or nothing is gained any more.

    Parameters
    ----------
    instance
        The problem.
    objective
        What to optimise: ``weight_placed`` or ``gpus_used``.
    allocation
        Where to start.
    bound
        The value at which there is nothing left to gain.
    settings
        Time limit and seed.
    report
        Takes a line of progress.
    offer
        Takes each better allocation as soon as it is found.
    """
    rng = np.random.default_rng(settings.seed)
    measure = named_objective(objective)
    value = start = measure.evaluate(instance, allocation)
    misses = rounds = 0
    patience = max(_PATIENCE, instance.topology.num_hosts // _HOSTS)
    while settings.seconds_left() > 0.2 and misses < patience:
        if is_within(value, bound, OPTIMALITY_GAP):
            break
        rounds += 1
        hosts = _draw_hosts(instance, allocation, rng)
        if not hosts:
            break
        changed = _refill(instance, objective, allocation, hosts, settings)
        new = math.nan if changed is None else measure.evaluate(instance, changed)
        better = new > value if sense_of(objective) == "max" else new < value
        if changed is not None and (better or new == value):
            # Equal values are taken too: they lead away from where the search stands still.
            allocation, value = changed, new
            if better:
                offer(changed)
        misses = 0 if better else misses + 1
    report(f"{rounds} rounds of refilling {_HOSTS} hosts: {start:g} becomes {value:g}")


def _draw_hosts(instance: Instance, allocation: Allocation, rng: np.random.Generator) -> list[int]:
    """Draw a few hosts of one GPU type that hold only jobs which stand on those hosts alone."""
    index = instance.topology.host_index
    spread: set[int] = set()
    for a in allocation.assignments:
        if len({task.host for task in a.tasks}) > 1:
            spread.update(index[task.host] for task in a.tasks)
    types = instance.topology.gpu_types
    able = [h for h in range(instance.topology.num_hosts) if h not in spread]
    if not able:
        return []
    # A type by how many of its hosts there are, so that every host is as likely.
    kind = types[able[int(rng.integers(len(able)))]]
    alike = [h for h in able if types[h] == kind]
    return sorted(rng.choice(alike, min(_HOSTS, len(alike)), replace=False).tolist())


def _refill(
    instance: Instance,
    objective: str,
    allocation: Allocation,
    hosts: list[int],
    settings: Settings,
) -> Allocation | None:
    """Fill some hosts again to the optimum; None when nothing was found in time."""
    ids = {instance.topology.hosts[h].id for h in hosts}
    kept: list[Assignment] = []
    freed: list[str] = []
    for a in allocation.assignments:
        if any(task.host in ids for task in a.tasks):
            freed.append(a.job)
        else:
            kept.append(a)
    runs = {a.job for a in allocation.assignments}
    whole = instance.topology
    left = whole.totals - sum(
        (np.array(instance.job(a.job).configurations[a.configuration].demand) for a in kept), 0
    )
    topology = whole.replace(
        hosts=tuple(whole.hosts[h] for h in hosts),
        resources=whole.cluster_amounts(np.maximum(left, 0)),
    )
    jobs = [instance.job(name) for name in freed]
    if objective not in PLACES_ALL:
        fits: dict[int, bool] = {}
        offered: dict[tuple[int, float, str | None], int] = {}
        for job in instance.jobs:
            if job.id in runs:
                continue
            key = (id(job.configurations), job.weight, job.tenant)
            if offered.get(key, 0) >= _PER_SHAPE:
                continue
            if key[0] not in fits:
                fits[key[0]] = any(
                    c.rate > 0 and misfit(topology, c) is None for c in job.configurations
                )
            if fits[key[0]]:
                offered[key] = offered.get(key, 0) + 1
                jobs.append(job)
    if not jobs:
        return None
    sub = Instance(
        instance.name,
        topology,
        tuple(jobs),
        tenants=_quotas_left(instance, kept, topology.num_gpus),
        running=tuple(
            a
            for a in instance.running
            if a.job in {j.id for j in jobs} and all(t.host in ids for t in a.tasks)
        ),
    )
    data = sharing_data(sub, aggregate=False, states=objective == "reconfigurations")
    if not data.listed:
        return None
    all_run = objective in PLACES_ALL
    relaxed = relax(
        data, listed_columns(data), objective, all_run=all_run, settings=settings, report=_nothing
    )
    columns = relaxed.core(_CORE)
    model = array_model(data, columns, objective, all_run=all_run)
    seconds = min(settings.seconds_left(), _SUB_LIMIT_S)
    gap = whole_gap(data, objective, relaxed.bound, 1e-3)
    raw = highs.solve(model, SolverOptions(seconds, settings.seed, settings.workers, gap=gap))
    if raw.values is None:
        return None
    found = allocation_of(data, [(c.group, c.pattern) for c in columns], raw.values)
    if found is None:
        return None
    both = sorted([*kept, *found.assignments], key=lambda a: instance.job_index[a.job])
    return Allocation(tuple(both))


def _nothing(line: str) -> None:
    """Say nothing: there are too many small relaxations to report."""


def _quotas_left(instance: Instance, kept: list[Assignment], num_gpus: int) -> tuple[Tenant, ...]:
    """Return the tenants with what the jobs that stay leave of their quotas."""
    left = {tenant.name: tenant.gpu_quota_milli for tenant in instance.tenants}
    for a in kept:
        job = instance.job(a.job)
        if job.tenant in left:
            left[job.tenant] -= job.configurations[a.configuration].demand[0]
    # A quota above the few hosts is none, and one below a hundredth of a GPU is nothing.
    most = num_gpus * MILLI
    return tuple(
        Tenant(name, min(milli, most) if milli >= MILLI // 100 else 0)
        for name, milli in left.items()
    )
