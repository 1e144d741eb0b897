"""An instance with stages as a project: what each stage uses, counted for the whole cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping

from alloc.errors import UnsupportedFeatureError, nearest
from alloc.problems.allocation.instance import Instance, misfit
from alloc.problems.allocation.stages import graph_of
from alloc.problems.project import Activity, Mode, ProjectJob, ProjectProblem, Resource
from alloc.workload import Configuration, Job

OBJECTIVES: Mapping[str, str] = {
    "weighted_jct": "weighted_jct",
    "mean_jct": "weighted_jct",
    "makespan": "makespan",
    "tardiness": "weighted_tardiness",
}
"""The objective of a project that stands for one of a schedule."""


def project_from_instance(instance: Instance, objective: str) -> tuple[ProjectProblem, float]:
    """Return an instance as a project, and what its objective leaves out.

    Every schedule of the instance in which each stage runs once and without a pause is a schedule
    of the project that costs no more than it does: hosts become capacities of the whole cluster and
    of each GPU type, quotas become capacities too, and restart costs, slots, deadlines and the
    horizon are left out. So a bound of the project is one of the instance.

    Parameters
    ----------
    instance
        The instance, with stages or without.
    objective
        One of `OBJECTIVES`.

    Returns
    -------
    problem
        The project: an activity for each job of the instance unfolded, a mode for each of its
        `usable` configurations, in their order.
    offset
        What is added to the project's value, in the objective's unit.

    Raises
    ------
    UnsupportedFeatureError
        If the objective is another.
    InstanceError
        If a job has no usable configuration, or run times differ by more than a project takes.
    """
    if objective not in OBJECTIVES:
        raise UnsupportedFeatureError(
            f'project: does not take the objective "{objective}" of schedules'
            f"{nearest(objective, OBJECTIVES, ';')} take one of: {', '.join(OBJECTIVES)}."
        )
    parts, graph, ways = instance.unfolded.jobs, graph_of(instance), usable(instance)
    jobs, offset = [], 0.0
    for job in instance.jobs:
        weight = 1 / len(instance.jobs) if objective == "mean_jct" else job.weight
        due = job.due_date_s
        if due is not None and due < job.arrival_s:
            # It is late from its arrival on, whatever is done.
            if objective == "tardiness":
                offset += weight * (job.arrival_s - due)
            due = job.arrival_s
        jobs.append(ProjectJob(job.id, job.arrival_s, weight, due))
    resources = _resources(instance)
    activities = tuple(
        Activity(
            part.id,
            tuple(
                Mode(part.work_left / c.rate, _uses(instance, part, c, resources))
                for c in (part.configurations[at] for at in ways[k])
            ),
            tuple(parts[p].id for p in graph.before[k]),
            instance.jobs[graph.owner[k]].id,
        )
        for k, part in enumerate(parts)
    )
    units = {
        name: math.gcd(*(m.uses.get(name, 0) for a in activities for m in a.modes)) or 1
        for name in resources
    }
    return ProjectProblem(
        instance.name,
        tuple(
            Activity(
                a.id,
                tuple(
                    Mode(m.duration_s, {n: amount // units[n] for n, amount in m.uses.items()})
                    for m in a.modes
                ),
                a.predecessors,
                a.job,
            )
            for a in activities
        ),
        tuple(Resource(name, capacity // units[name]) for name, capacity in resources.items()),
        tuple(jobs),
    ), offset


def usable(instance: Instance) -> list[list[int]]:
    """Return which configurations each job of the instance unfolded can complete in, by position.

    They do work, stand on the empty cluster, and are within the quota of the job's tenant.
    """
    quota = {t.name: t.gpu_quota_milli + t.borrowing_milli for t in instance.tenants}
    # Stages of one kind share their configurations: each is looked at once.
    stands: dict[int, bool] = {}
    found: list[list[int]] = []
    for part in instance.unfolded.jobs:
        most = math.inf if part.tenant is None else quota.get(part.tenant, math.inf)
        found.append([])
        for c, configuration in enumerate(part.configurations):
            if id(configuration) not in stands:
                stands[id(configuration)] = misfit(instance.topology, configuration) is None
            if configuration.rate > 0 and stands[id(configuration)]:
                found[-1] += [c] if configuration.demand[0] <= most else []
    return found


def runs_once(instance: Instance) -> bool:
    """Return whether each stage of every schedule runs once, as an activity of a project does.

    A stage that may not pause may still go on at once on other hosts. That costs no less of the
    cluster as a whole, which is all that a project counts.
    """
    return not instance.running and all(
        not part.preemptible and (part.elasticity != "malleable" or len(part.configurations) == 1)
        for part in instance.unfolded.jobs
    )


def _resources(instance: Instance) -> dict[str, int]:
    """Return what there is in the whole cluster, by name."""
    topology = instance.topology
    found = dict(zip(instance.resource_names, topology.totals.tolist(), strict=True))
    types = {c.gpu_type for job in instance.unfolded.jobs for c in job.configurations} - {None}
    for gpu_type in sorted(map(str, types)):
        of_type = [t == gpu_type for t in topology.gpu_types]
        found[_of_type(gpu_type)] = int(topology.capacity[of_type, 0].sum())
    for tenant in instance.tenants:
        found[_of_tenant(tenant.name)] = tenant.gpu_quota_milli + tenant.borrowing_milli
    return found


def _uses(
    instance: Instance, job: Job, configuration: Configuration, resources: Mapping[str, int]
) -> dict[str, int]:
    demand = configuration.demand
    found = dict(zip(instance.resource_names, demand, strict=True))
    if configuration.gpu_type is not None:
        found[_of_type(configuration.gpu_type)] = demand[0]
    if job.tenant is not None and _of_tenant(job.tenant) in resources:
        found[_of_tenant(job.tenant)] = demand[0]
    return {name: amount for name, amount in found.items() if amount}


def _of_type(gpu_type: str) -> str:
    return f"GPU of type {gpu_type}"


def _of_tenant(tenant: str) -> str:
    return f"quota of {tenant}"
