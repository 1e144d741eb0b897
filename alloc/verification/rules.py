"""Rules about domains: where the tasks of one job, and of jobs together, may stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alloc.problems.allocation.instance import Affinity, Instance
from alloc.problems.allocation.solution import Run, TaskPlacement
from alloc.topology import Topology
from alloc.topology.topology import HOST
from alloc.verification.violation import Violation
from alloc.workload import NO_RULES, Configuration, Job

OUTSIDE = -1
"""What `Topology.domain_of_host` says of a host that stands in no domain of a level."""


def check_rules(
    instance: Instance, job: Job, configuration: Configuration, tasks: Sequence[TaskPlacement]
) -> Iterator[Violation]:
    """Yield which of a job's own placement rules its tasks break; all hosts are known.

    A host outside every domain of a level keeps neither a required level nor a slice, and breaks
    no spread.

    Parameters
    ----------
    instance
        The cluster.
    job
        A job of the instance; its `placement` has the rules.
    configuration
        The configuration that the tasks are of.
    tasks
        Where all of them stand.
    """
    rules = job.placement
    if rules == NO_RULES or not tasks:
        return
    topology = instance.topology
    if rules.required is not None:
        yield from _check_required(topology, job.id, rules.required, tasks)
    ruled = {group.role for group in configuration.ruled_groups}
    for cut in rules.slices:
        for role in sorted(ruled):
            counts = _counts(topology, cut.level, [t for t in tasks if t.role == role])
            odd = counts.pop(OUTSIDE, 0) + sum(n % cut.size for n in counts.values())
            if odd:
                yield Violation(
                    "slice",
                    (job.id, cut.level, role),
                    odd,
                    "tasks",
                    f'job "{job.id}": {odd} of its {role} tasks belong to slices of {cut.size} '
                    f"that no single {cut.level} holds whole.",
                )
    for limit in rules.spread:
        counts = _counts(topology, limit.level, [t for t in tasks if t.role in ruled])
        for k, n in sorted(counts.items()):
            if k != OUTSIDE and n > limit.most:
                name = _domain_name(topology, limit.level, k)
                yield Violation(
                    "spread",
                    (job.id, name),
                    n - limit.most,
                    "tasks",
                    f'job "{job.id}" has {n} tasks in {limit.level} "{name}", but at most '
                    f"{limit.most} may stand in one {limit.level}.",
                )


def _check_required(
    topology: Topology, job_id: str, level: str, tasks: Sequence[TaskPlacement]
) -> Iterator[Violation]:
    counts = _counts(topology, level, tasks)
    outside = counts.pop(OUTSIDE, 0)
    parts = len(counts) + (outside > 0)
    if parts > 1 or outside:
        names = [f'"{_domain_name(topology, level, k)}"' for k in sorted(counts)]
        names += ["hosts outside any"] if outside else []
        yield Violation(
            "required_level",
            (job_id, level),
            parts - 1 if counts else 1,
            "domains",
            f'job "{job_id}" must stand in one {level}, but stands in {_listed(names)}.',
        )


def check_affinities(instance: Instance, runs: Sequence[Run]) -> Iterator[Violation]:
    """Yield the affinities that jobs break, each at its worst moment.

    Parameters
    ----------
    instance
        The problem.
    runs
        Runs of its jobs in known configurations.
    """
    if not instance.affinities:
        return
    of_job: dict[str, list[Run]] = {}
    for run in runs:
        of_job.setdefault(run.job, []).append(run)
    for affinity in instance.affinities:
        held = [run for job in affinity.jobs for run in of_job.get(job, ())]
        check = _check_together if affinity.kind == "together" else _check_apart
        worst: dict[tuple[str, ...], Violation] = {}
        for now in sorted({run.start_s for run in held}):
            domains = _domains(
                instance.topology,
                affinity.level,
                [run for run in held if run.start_s <= now < run.end_s],
            )
            for found in check(instance.topology, affinity, domains):
                if found.ids not in worst or worst[found.ids].amount < found.amount:
                    worst[found.ids] = found
        yield from worst.values()


def _check_together(
    topology: Topology, affinity: Affinity, domains: dict[int, set[str]]
) -> Iterator[Violation]:
    if len(domains) > 1 or OUTSIDE in domains:
        names = [
            f'"{_domain_name(topology, affinity.level, k)}"'
            for k in sorted(domains)
            if k != OUTSIDE
        ]
        names += ["hosts outside any"] if OUTSIDE in domains else []
        yield Violation(
            "together",
            # Named by the jobs that run: one that joins them is in a new violation of its own.
            (affinity.level, *sorted(set().union(*domains.values()))),
            max(len(domains) - 1, 1),
            "domains",
            f"jobs {', '.join(affinity.jobs)} must stand together in one {affinity.level}, but "
            f"stand in {_listed(names)}.",
        )


def _check_apart(
    topology: Topology, affinity: Affinity, domains: dict[int, set[str]]
) -> Iterator[Violation]:
    for k, jobs in sorted(domains.items()):
        if k == OUTSIDE or len(jobs) < 2:
            continue
        name = _domain_name(topology, affinity.level, k)
        both = sorted(jobs)
        yield Violation(
            "apart",
            (name, *both),
            len(jobs) - 1,
            "jobs",
            f'jobs {", ".join(both)} must stand apart, but {affinity.level} "{name}" holds tasks '
            "of all of them.",
        )


def _domains(topology: Topology, level: str, runs: Sequence[Run]) -> dict[int, set[str]]:
    """Return which jobs have tasks in each domain of a level."""
    table, index = topology.domain_of_host[level], topology.host_index
    found: dict[int, set[str]] = {}
    for run in runs:
        for task in run.tasks:
            if task.host in index:
                found.setdefault(int(table[index[task.host]]), set()).add(run.job)
    return found


def _counts(topology: Topology, level: str, tasks: Sequence[TaskPlacement]) -> dict[int, int]:
    """Return the number of tasks in each domain of a level."""
    table, index = topology.domain_of_host[level], topology.host_index
    counts: dict[int, int] = {}
    for task in tasks:
        k = int(table[index[task.host]])
        counts[k] = counts.get(k, 0) + task.count
    return counts


def _domain_name(topology: Topology, level: str, k: int) -> str:
    """Return the id of the k-th host or domain, as `Topology.domain_of_host` counts them."""
    return topology.hosts[k].id if level == HOST else topology.domains[k].id


def _listed(names: Sequence[str]) -> str:
    """Return a few names as words."""
    shown = list(names[:3]) + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
