"""Jobs that are graphs of stages on a cluster of GPUs: ours, in the shape of Decima's.

Decima's jobs are queries of up to a few dozen stages that arrive one after the other and share a
pool of executors (H. Mao et al., SIGCOMM 2019, section 7.1, doi:10.1145/3341302.3342080). Here a
stage runs once, on a number of GPUs that is chosen at its start; on g of them it is g^a times as
fast, a below 1. The numbers are our own.
"""

from __future__ import annotations

import math

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance
from alloc.problems.project import Activity, Mode, ProjectJob, ProjectProblem, Resource
from alloc.problems.project_front import priced
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI, require_count, require_positive
from alloc.workload import Configuration, Job, Stage, TaskGroup

_STAGE_S = (30.0, 600.0)
"""Shortest and longest stage on one GPU, drawn evenly in its logarithm."""
_EXPONENT = (0.6, 1.0)
"""How speed grows with GPUs: from a stage that mostly waits to one that scales perfectly."""
_SKIPS = 0.3
"""Share of further edges between stages that are not next to each other."""
_SLACK = (1.5, 4.0)
"""Due date after the release, in times of the longest path on the most GPUs."""


def generate_dags(
    name: str = "dags",
    *,
    num_jobs: int = 10,
    stages: tuple[int, int] = (2, 3),
    num_gpus: int = 10,
    sizes: tuple[int, ...] = (1, 2, 4),
    mean_gap_s: float = 60.0,
    seed: int = 0,
) -> ProjectProblem:
    """Return jobs of a few stages each, with releases, weights and due dates.

    Parameters
    ----------
    name
        Name of the problem.
    num_jobs
        Jobs, 1 or more.
    stages
        Fewest and most stages of a job, 1 or more.
    num_gpus
        GPUs of the cluster, 1 or more.
    sizes
        GPUs on which a stage can run; those beyond the cluster are left out.
    mean_gap_s
        Mean time between two releases, seconds, above 0.
    seed
        Random seed.

    Raises
    ------
    InstanceError
        If a number makes no sense.
    """
    require_count(num_jobs, name, "num_jobs", least=1)
    require_count(num_gpus, name, "num_gpus", least=1)
    require_count(stages[0], name, "stages", least=1)
    require_positive(mean_gap_s, name, "mean_gap_s")
    usable = [size for size in sizes if 1 <= size <= num_gpus]
    if stages[1] < stages[0] or not usable:
        raise InstanceError(
            f"{name}: stages are {stages} and sizes {sizes}; give the fewest stages first, and "
            f"sizes from 1 to {num_gpus}."
        )
    rng = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(math.log(low) + math.log(high / low) * rng.random()))

    jobs, activities, now = [], [], 0.0
    for j in range(num_jobs):
        count = stages[0] + int(rng.random() * (stages[1] - stages[0] + 1))
        path = [0.0] * count
        for k in range(count):
            work, exponent = between(*_STAGE_S), between(*_EXPONENT)
            modes = tuple(Mode(round(work / g**exponent, 1), {"gpu": g}) for g in usable)
            # A tree, so that every stage hangs together with the others, and some edges more.
            first = int(rng.random() * k)
            before = [p for p in range(k) if p == first or rng.random() < _SKIPS / k]
            path[k] = modes[-1].duration_s + max((path[p] for p in before), default=0.0)
            ids = tuple(f"job-{j}/{p}" for p in before)
            activities.append(Activity(f"job-{j}/{k}", modes, ids, f"job-{j}"))
        due = now + max(path) * between(*_SLACK)
        weight = (1.0, 1.0, 2.0, 4.0)[int(rng.random() * 4)]
        jobs.append(ProjectJob(f"job-{j}", round(now, 1), weight, round(due, 1)))
        now += -mean_gap_s * math.log(1 - rng.random())
    return ProjectProblem(name, tuple(activities), (Resource("gpu", num_gpus),), tuple(jobs))


def generate_priced(
    name: str = "priced",
    *,
    num_tasks: int = 12,
    machines: tuple[int, ...] = (2, 2, 1),
    edges: float = 0.1,
    step: float = 0.1,
    seed: int = 0,
) -> ProjectProblem:
    """Return tasks for machines of several types, of which faster ones cost more for each task.

    A task runs on one machine of a type that it chooses; machines of type k are about 2^k times as
    fast as those of type 0, for each task by a factor of its own, and cost 3^k an hour. Times are
    whole minutes. The resource ``cost`` counts the money for the time in use.

    Parameters
    ----------
    name
        Name of the problem.
    num_tasks
        Tasks, 1 or more.
    machines
        Machines of each type, 1 or more each.
    edges
        Share of pairs of tasks of which the first ends before the second starts, 0 to 1.
    step
        As in `alloc.problems.project_front.priced`.
    seed
        Random seed.

    Raises
    ------
    InstanceError
        If a number makes no sense.
    """
    require_count(num_tasks, name, "num_tasks", least=1)
    for k, number in enumerate(machines):
        require_count(number, name, f"machines[{k}]", least=1)
    rng = np.random.default_rng(seed)
    tasks = []
    for j in range(num_tasks):
        work = math.exp(rng.uniform(math.log(600.0), math.log(7200.0)))
        modes = tuple(
            Mode(60.0 * max(1, round(work / 60 / 2**k * rng.uniform(0.8, 1.25))), {f"type-{k}": 1})
            for k in range(len(machines))
        )
        before = tuple(f"task-{p}" for p in range(j) if rng.random() < edges)
        tasks.append(Activity(f"task-{j}", modes, before))
    types = tuple(Resource(f"type-{k}", number) for k, number in enumerate(machines))
    prices = {f"type-{k}": 3.0**k for k in range(len(machines))}
    return priced(ProjectProblem(name, tuple(tasks), types), prices, step=step)


def generate_staged(
    name: str = "staged",
    *,
    num_jobs: int = 10,
    stages: tuple[int, int] = (2, 3),
    num_hosts: int = 5,
    gpus_per_host: int = 2,
    sizes: tuple[int, ...] = (1, 2, 4),
    mean_gap_s: float = 60.0,
    move_s: float = 0.0,
    seed: int = 0,
) -> Instance:
    """Return the jobs of `generate_dags` as an instance, whose stages run on hosts.

    A stage does not pause and keeps the number of GPUs that it starts with.

    Parameters
    ----------
    name
        Name of the instance.
    num_jobs, stages, sizes, mean_gap_s, seed
        As in `generate_dags`.
    num_hosts, gpus_per_host
        The cluster, 1 or more each.
    move_s
        Time that a GPU takes to move from one job to another, seconds, 0 or more.

    Raises
    ------
    InstanceError
        If a number makes no sense.
    """
    require_count(num_hosts, name, "num_hosts", least=1)
    require_count(gpus_per_host, name, "gpus_per_host", least=1)
    problem = generate_dags(
        name,
        num_jobs=num_jobs,
        stages=stages,
        num_gpus=num_hosts * gpus_per_host,
        sizes=sizes,
        mean_gap_s=mean_gap_s,
        seed=seed,
    )
    box = HostType("box", gpus_per_host, "a100-sxm-40gb")
    hosts = tuple(Host(f"host-{h}", box.name) for h in range(num_hosts))
    of_job: dict[str, list[Stage]] = {}
    for activity in problem.activities:
        # The work is the time on one GPU, and the rate how many times as fast a mode is.
        work = activity.modes[0].duration_s
        ways = tuple(
            Configuration((TaskGroup("worker", mode.uses["gpu"], MILLI),), work / mode.duration_s)
            for mode in activity.modes
        )
        before = tuple(p.removeprefix(f"{activity.job}/") for p in activity.predecessors)
        its = of_job.setdefault(activity.job, [])
        its.append(Stage(activity.id.removeprefix(f"{activity.job}/"), work, ways, before))
    return Instance(
        name,
        Topology(f"{num_hosts} hosts of {gpus_per_host} GPUs", (box,), hosts),
        tuple(
            Job(
                job.id,
                job.release_s,
                weight=job.weight,
                due_date_s=job.due_date_s,
                elasticity="moldable",
                preemptible=False,
                stages=tuple(of_job[job.id]),
            )
            for job in problem.jobs
        ),
        move_s=move_s,
        description={"generator": "generate_staged", "seed": str(seed)},
    )
