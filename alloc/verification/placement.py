"""Placement rules: each assignment by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.verification.rules import check_rules
from alloc.verification.violation import Violation
from alloc.workload import NO_RULES, Configuration


def check_assignment(
    instance: Instance, job_id: str, configuration_index: int, tasks: Sequence[TaskPlacement]
) -> Iterator[Violation]:
    """Yield what is wrong with a job running in a configuration on hosts, whatever else runs.

    Parameters
    ----------
    instance
        The problem.
    job_id
        Id of the job.
    configuration_index
        Position in the job's configurations, from 0.
    tasks
        Where its tasks are; empty where nothing is said about hosts.
    """
    position = instance.job_index.get(job_id)
    if position is None:
        yield Violation(
            "unknown_job",
            (job_id,),
            1,
            "job",
            # No guess at the right name: with another instance's solution every job is unknown,
            # and thousands of searches for near names take minutes.
            f'job "{job_id}" is not in the instance; is the solution for another one?',
        )
        return
    job = instance.jobs[position]
    configurations = job.configurations
    if not 0 <= configuration_index < len(configurations):
        yield Violation(
            "unknown_configuration",
            (job_id,),
            1,
            "configuration",
            f'job "{job_id}": configuration {configuration_index} is not one of its '
            f"{len(configurations)} configurations, counted from 0.",
        )
        return
    configuration = configurations[configuration_index]
    yield from _check_gang(job_id, configuration, tasks)
    index = instance.topology.host_index
    known = [task for task in tasks if task.host in index]
    if len(known) < len(tasks):
        for task in tasks:
            if task.host not in index:
                yield Violation(
                    "unknown_host",
                    (job_id, task.host),
                    1,
                    "host",
                    f'job "{job_id}" is on host "{task.host}", which is not in the topology.',
                )
    if not configuration.any_hosts:
        yield from _check_hosts(instance, job_id, configuration, known)
    if job.placement is not NO_RULES:
        yield from check_rules(instance, job, configuration, known)


def plain_assignments(instance: Instance) -> Callable[[Assignment], bool]:
    """Return a test that tells at a glance that `check_assignment` finds nothing wrong.

    It is for the many jobs that run anywhere and ask for no rules: all of their tasks are placed,
    and on hosts that there are. Of all others it says nothing.

    Parameters
    ----------
    instance
        The problem.
    """
    hosts, index, jobs = instance.topology.host_index, instance.job_index, instance.jobs
    # Jobs share configurations: what each wants is looked up once.
    wanted: dict[int, Mapping[str, int]] = {}

    def is_plain(assignment: Assignment) -> bool:
        position, c = index.get(assignment.job), assignment.configuration
        if position is None or jobs[position].placement is not NO_RULES:
            return False
        configurations = jobs[position].configurations
        if not 0 <= c < len(configurations):
            return False
        configuration = configurations[c]
        counts = wanted.get(id(configuration))
        if counts is None:
            counts = configuration.counts if configuration.any_hosts else {}
            wanted[id(configuration)] = counts
        if len(assignment.tasks) == 1:
            (task,) = assignment.tasks
            known = task.count >= 1 and task.host in hosts
            return known and len(counts) == 1 and counts.get(task.role) == task.count
        placed: dict[str, int] = {}
        for task in assignment.tasks:
            if task.count < 1 or task.host not in hosts:
                return False
            placed[task.role] = placed.get(task.role, 0) + task.count
        return bool(placed) and placed == counts

    return is_plain


def _check_gang(
    job_id: str, configuration: Configuration, tasks: Sequence[TaskPlacement]
) -> Iterator[Violation]:
    """Every task of the configuration is placed once, and nothing else."""
    placed: dict[str, int] = {}
    for task in tasks:
        placed[task.role] = placed.get(task.role, 0) + task.count
        if task.count < 1:
            yield Violation(
                "gang",
                (job_id, task.host),
                1 - task.count,
                "tasks",
                f'job "{job_id}" has {task.count} {task.role} tasks on host "{task.host}".',
            )
    if placed == configuration.counts:
        return
    for role in sorted(placed.keys() | {group.role for group in configuration.tasks}):
        wanted = configuration.num_tasks(role)
        if placed.get(role, 0) != wanted:
            yield Violation(
                "gang",
                (job_id,),
                abs(placed.get(role, 0) - wanted),
                "tasks",
                f'job "{job_id}" runs {configuration.label}, but {placed.get(role, 0)} {role} '
                f"tasks are placed instead of {wanted}.",
            )


def _check_hosts(
    instance: Instance, job_id: str, configuration: Configuration, tasks: Sequence[TaskPlacement]
) -> Iterator[Violation]:
    """Hosts have the GPU type and lie in one domain of the level that the rate supposes."""
    topology = instance.topology
    index = topology.host_index
    groups = {group.role: group for group in configuration.tasks}
    for task in tasks:
        gpu_type = topology.gpu_types[index[task.host]]
        if configuration.gpu_type is not None and gpu_type != configuration.gpu_type:
            yield Violation(
                "gpu_type",
                (job_id, task.host),
                task.count,
                "tasks",
                f'job "{job_id}" needs GPU type "{configuration.gpu_type}", but host '
                f'"{task.host}" has {gpu_type}.',
            )
        group = groups.get(task.role)
        if group is None or not group.shares_gpu:
            continue
        num_gpus = topology.host_type(topology.hosts[index[task.host]]).num_gpus
        if len(task.gpus) != task.count or any(not 0 <= g < num_gpus for g in task.gpus):
            yield Violation(
                "gpu_position",
                (job_id, task.host),
                task.count,
                "tasks",
                f'job "{job_id}": its {task.count} {task.role} tasks on host "{task.host}" share '
                f"GPUs, so each must name one of the host's {num_gpus} GPUs; named: "
                f"{list(task.gpus)}.",
            )
    if configuration.within is None or not tasks:
        return
    domains = topology.domain_of_host.get(configuration.within)
    held = {-1} if domains is None else {int(domains[index[task.host]]) for task in tasks}
    if len(held) > 1 or held == {-1}:
        yield Violation(
            "level",
            (job_id,),
            len(held),
            "domains",
            f'job "{job_id}" must lie in one {configuration.within}, but its tasks span '
            f"{len(held)} of them or lie outside any.",
        )
