"""`place`: the best placement of a queue on a cluster as it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.certificate import Result
from alloc.errors import AllocError, CertificateError
from alloc.instance import Affinity, Instance, Tenant
from alloc.solution import Allocation
from alloc.solving.gang import decide_for
from alloc.solving.solver import AUTO, solve
from alloc.topology import HostType, Topology
from alloc.units import MILLI
from alloc.verification import initial_violations, verify
from alloc.verification.violation import Violation
from alloc.workload import NO_RULES, Job

DEFAULT_GOAL = "gpus_placed then moves"
"""As many GPUs in use as possible, and as few moves for that as it takes."""
_MOST_REASONS = 100


@dataclass(frozen=True)
class Placement:
    """A placement, and what was wrong before it.

    Parameters
    ----------
    result
        The placement with its certificate. `Allocation.unplaced` gives for each job that waits the
        reason it cannot start beside the others.
    broken
        The rules that the running jobs broke before anything was decided.
    repaired
        Whether the placement removes them; otherwise the jobs concerned stay as they are.
    """

    result: Result
    broken: tuple[Violation, ...] = ()
    repaired: bool = False


def place(
    instance: Instance,
    goal: str = DEFAULT_GOAL,
    *,
    backend: str = AUTO,
    repair: bool = False,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Placement:
    """Place the waiting jobs of an instance, and move running ones where it allows that.

    Parameters
    ----------
    instance
        The cluster, what runs (`running`) and may be moved (`moves`), and the queue.
    goal
        Objectives, as `alloc.objectives.parse_goal` reads them.
    backend
        ``"auto"`` or a general solver; as in `alloc.solve`.
    repair
        Running jobs may break rules from the start: an over-full host, a split gang. By default
        such jobs are left exactly as they are, and so is what they break. With repair every rule
        holds in the end; put ``moves`` first in the goal to repair at least cost.
    time_limit_s, seed, workers, progress
        As in `alloc.solve`.

    Raises
    ------
    CertificateError
        If the answer breaks a rule that was kept before.
    """
    broken = tuple(initial_violations(instance))
    problem = instance if repair or not broken else _leave_alone(instance, broken)
    result = solve(
        problem,
        "placement",
        backend,
        objective=goal,
        time_limit_s=time_limit_s,
        seed=seed,
        workers=workers,
        progress=progress,
    )
    if isinstance(result.solution, Allocation):
        accepted: Sequence[Violation] = () if repair else broken
        wrong = verify(instance, result.solution, accept=accepted)
        if wrong:
            raise CertificateError(f"the placement breaks a rule: {wrong[0]}")
        reasons = _reasons(problem, result.solution)
        solution = dataclasses.replace(result.solution, unplaced=reasons)
        certificate = result.certificate.replace(fingerprint=instance.fingerprint)
        result = dataclasses.replace(result, solution=solution, certificate=certificate)
    return Placement(result, broken, repair and bool(broken))


def _reasons(instance: Instance, allocation: Allocation) -> dict[str, str]:
    """Return for each job without hosts why it cannot start beside the others."""
    placed = allocation.configuration_of
    waiting = [job for job in instance.jobs if job.id not in placed]
    settled = instance.replace(running=allocation.assignments, moves=None)
    reasons = {}
    for k, job in enumerate(waiting):
        reason = "there is no room for it beside the others"
        if k < _MOST_REASONS:
            try:
                explanation = decide_for(settled, job.id).explanation
            except AllocError as error:
                reasons[job.id] = str(error)
                continue
            reason = (
                "it would fit, but the goal is better without it"
                if explanation is None
                else explanation.sentence
            )
        reasons[job.id] = reason
    return reasons


def _leave_alone(instance: Instance, broken: Sequence[Violation]) -> Instance:
    """Return the instance with the jobs that break rules pinned, and those rules made to hold.

    Hosts are as large as what is on them, quotas as large as what is held, and the jobs concerned
    have no rules: they stay where they are, so none of this gives room to anybody else.
    """
    named = {identity for violation in broken for identity in violation.ids}
    fixed = {
        a.job
        for a in instance.running
        if a.job in named or any(task.host in named for task in a.tasks)
    }
    tenants = {job.tenant for job in instance.jobs if job.tenant in named}
    cohorts = {t.cohort for t in instance.tenants if t.cohort in named and t.cohort is not None}
    tenants |= {t.name for t in instance.tenants if t.cohort in cohorts}
    running = {a.job for a in instance.running}
    fixed |= {job.id for job in instance.jobs if job.tenant in tenants and job.id in running}
    return instance.replace(
        topology=_grown(instance),
        jobs=tuple(_pinned(job) if job.id in fixed else job for job in instance.jobs),
        tenants=_grown_quotas(instance, cohorts),
        affinities=tuple(a for a in instance.affinities if not _is_broken(a, broken)),
    )


def _pinned(job: Job) -> Job:
    configurations = tuple(
        dataclasses.replace(c, within=None, gpu_type=None) for c in job.configurations
    )
    return job.replace(configurations=configurations, placement=NO_RULES, preemptible=False)


def _grown(instance: Instance) -> Topology:
    """Return the topology with over-full hosts as large as what is on them."""
    topology = instance.topology
    used = np.zeros_like(topology.capacity)
    for a in instance.running:
        groups = {g.role: g for g in instance.job(a.job).configurations[a.configuration].tasks}
        for task in a.tasks:
            used[topology.host_index[task.host]] += task.count * np.array(groups[task.role].demand)
    types = {t.name: t for t in topology.host_types}
    hosts = list(topology.hosts)
    for h in np.flatnonzero((used > topology.capacity).any(axis=1)):
        kind = topology.host_type(hosts[h])
        gpus, cpu, memory = np.maximum(used[h], topology.capacity[h]).tolist()
        large = HostType(
            f"{kind.name} with what is on {hosts[h].id}",
            -(-gpus // MILLI),
            kind.gpu_type or ("generic" if gpus else None),
            cpu,
            memory,
        )
        types[large.name] = large
        hosts[h] = dataclasses.replace(hosts[h], type=large.name)
    return topology.replace(host_types=tuple(types.values()), hosts=tuple(hosts))


def _grown_quotas(instance: Instance, cohorts: set[str]) -> tuple[Tenant, ...]:
    """Return the tenants with quotas of at least what they hold, and no more in full cohorts."""
    held = dict.fromkeys((t.name for t in instance.tenants), 0)
    for a in instance.running:
        job = instance.job(a.job)
        if job.tenant in held:
            held[job.tenant] += job.configurations[a.configuration].demand[0]

    def quota(tenant: Tenant) -> int:
        if tenant.cohort in cohorts:
            return held[tenant.name]
        return max(tenant.gpu_quota_milli, held[tenant.name] - tenant.borrowing_milli)

    return tuple(dataclasses.replace(t, gpu_quota_milli=quota(t)) for t in instance.tenants)


def _is_broken(affinity: Affinity, broken: Sequence[Violation]) -> bool:
    return any(
        violation.code == affinity.kind and set(violation.ids) & set(affinity.jobs)
        for violation in broken
    )
