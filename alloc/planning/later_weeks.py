"""Later weeks: the jobs of a trace as they came, on the hosts of a plan of the weeks before.

A replay of a plan draws jobs of the forecast; whether the forecast was right only the weeks after
it can say. Every class is sent to the pools in the parts that the plan of the first quarter sends
it, job by job in turn, and each job runs as long as it did, divided by the speed of the GPUs there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
from alloc.planning.gang_queue import start_times
from alloc.planning.pools import Pool, operations_of
from alloc.planning.replay import ReplaySettings
from alloc.planning.template import MEASURE_FROM, UNFORESEEN
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.schedulers.registry import make_scheduler
from alloc.simulation import simulate
from alloc.topology import Host, HostType, Topology
from alloc.units import HOUR_S, MILLI
from alloc.workload import Job, rigid_gang

_WARM_UP = 0.2
"""Part of the time that is not measured where the instance does not say it: the hosts fill up."""
_ROUND_OFF_H = 1e-9
"""Above the rounding of times of years: a job that waits just as long as it may keeps its goal."""


@dataclass(frozen=True)
class Kept:
    """How a class kept its goal in the later weeks.

    Parameters
    ----------
    job_class
        Name of the class.
    jobs
        Jobs measured, over all pools.
    goal
        What was promised, in words.
    wanted
        The fraction of jobs that was to keep the goal, or the most hours on average.
    value
        The fraction that did, or the hours on average; infinite if a job never ran.
    in_hours
        Whether these are hours.
    """

    job_class: str
    jobs: int
    goal: str
    wanted: float
    value: float
    in_hours: bool

    @property
    def holds(self) -> bool:
        """Whether the goal was kept."""
        return self.value <= self.wanted if self.in_hours else self.value >= self.wanted


@dataclass(frozen=True)
class LaterWeeks:
    """What the jobs of the later weeks met on the hosts of a plan.

    Parameters
    ----------
    weeks
        Weeks measured.
    gpus
        GPUs of the plan in its first quarter; of hosts rented by the hour the most in any hour.
    planned_gpus, came_gpus
        Mean load that the plan was made for, and that came, in GPUs of the plan.
    kept
        The classes with a goal of which jobs came, in the order of the problem.
    unforeseen
        Jobs that came and are like none of the history.
    idle
        The classes with a goal of which no job came.
    """

    weeks: float
    gpus: int
    planned_gpus: float
    came_gpus: float
    kept: tuple[Kept, ...]
    unforeseen: int = 0
    idle: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every goal that could be measured was kept, and there was one."""
        return bool(self.kept) and all(one.holds for one in self.kept)

    @property
    def sentence(self) -> str:
        """What came of it, for people."""
        good = sum(one.holds for one in self.kept)
        missed = ", ".join(
            f'"{one.job_class}" ({_figures(one)})' for one in self.kept if not one.holds
        )
        said = f"{good} of {len(self.kept)} classes keep their goals" + (
            f"; missed: {missed}" if missed else ""
        )
        if self.idle:
            said += f"; no job of {len(self.idle)} more came"
        if not self.kept:
            said = "no job of a class with a goal came, so there was nothing to measure"
        new = f", {self.unforeseen} jobs like none before among it" if self.unforeseen else ""
        return (
            f"in the {self.weeks:.3g} weeks that followed, {said}. The load was "
            f"{self.came_gpus:.0f} GPUs{new}, planned for {self.planned_gpus:.0f}, on {self.gpus} "
            "GPUs."
        )


def _figures(one: Kept) -> str:
    if one.in_hours:
        return f"{one.value:.3g} h on average, {one.wanted:.3g} h promised"
    return f"{100 * one.value:.3g} % of jobs, {100 * one.wanted:.3g} % promised"


def replay_later_weeks(
    problem: PlanningProblem, plan: Plan, later: Instance, settings: ReplaySettings
) -> LaterWeeks:
    """Return how the goals hold for the jobs of later weeks on the hosts of a plan.

    Parameters
    ----------
    problem, plan
        The plan, of which the first quarter counts.
    later
        The jobs, each with its class as ``model`` and a configuration for every GPU type, as
        `alloc.planning.template.make_template` writes them.
    settings
        The policy of every pool; the rest of it is about jobs that are drawn.

    Raises
    ------
    InstanceError
        If jobs name no class of the problem.
    """
    classes = {one.name: one for one in problem.classes}
    require_classes(problem, later)
    hosts = _hosts(problem, plan)
    parts = _parts(problem, plan)
    totals = {pool: sum(size * count for size, count in of.items()) for pool, of in hosts.items()}
    gpus = {pool: float(total) for pool, total in totals.items() if total}
    jobs = sorted(later.jobs, key=lambda job: job.arrival_s)
    span_s = jobs[-1].arrival_s - jobs[0].arrival_s
    begin_s = _measured_from(later, jobs[0].arrival_s + _WARM_UP * span_s)
    of_pool: defaultdict[Pool, list[tuple[Job, float]]] = defaultdict(list)
    sent: defaultdict[tuple[str, Pool], int] = defaultdict(int)
    found: defaultdict[str, list[float]] = defaultdict(list)
    load_s = 0.0
    for job in jobs:
        name = str(job.model)
        # What was not planned for goes where the GPUs are.
        ways = parts.get(name) or gpus
        if not ways:
            if job.arrival_s >= begin_s:
                found[name].append(math.inf)
            continue
        pool = min(ways, key=lambda pool: ((sent[name, pool] + 1) / ways[pool], pool))
        sent[name, pool] += 1
        run_s = _run_s(job, pool)
        if pool.spot and name in classes:
            run_s *= 1 + classes[name].spot_overhead
        of_pool[pool].append((job, run_s))
        if job.arrival_s >= begin_s:
            load_s += run_s * _gpus(job)
    for pool, members in of_pool.items():
        starts_s, ends_s = _times(hosts.get(pool, {}), members, pool, settings)
        for (job, _), start_s, end_s in zip(members, starts_s, ends_s, strict=True):
            if job.arrival_s >= begin_s:
                one = classes.get(str(job.model))
                is_jct = one is not None and one.goal is not None and one.goal.measure == "jct"
                until_s = end_s if is_jct else start_s
                found[str(job.model)].append((until_s - job.arrival_s) / HOUR_S - _ROUND_OFF_H)
    measured_s = max(jobs[-1].arrival_s - begin_s, 1.0)
    return LaterWeeks(
        weeks=measured_s / (168 * HOUR_S),
        gpus=round(sum(gpus.values())),
        planned_gpus=_planned(problem, plan),
        came_gpus=load_s / measured_s,
        kept=tuple(
            _kept(one, found[one.name])
            for one in problem.classes
            if one.goal is not None and found.get(one.name)
        ),
        unforeseen=len(found.get(UNFORESEEN, ())),
        idle=tuple(
            one.name for one in problem.classes if one.goal is not None and not found.get(one.name)
        ),
    )


def require_classes(problem: PlanningProblem, later: Instance) -> None:
    """Refuse jobs that a plan of a problem cannot be checked on.

    Parameters
    ----------
    problem
        The problem that is planned.
    later
        Jobs of the weeks held out.

    Raises
    ------
    InstanceError
        If they name a class that the problem has not, or cannot run on GPUs of a type that is
        planned.
    """
    classes = {one.name for one in problem.classes}
    strange = sorted({str(job.model) for job in later.jobs} - {*classes, UNFORESEEN})
    if strange:
        raise InstanceError(
            f'later weeks: jobs are of class "{strange[0]}", which the problem has not; hold weeks '
            "out with `alloc plan init --hold-out`, and leave the names of the classes as they are."
        )
    _measured_from(later, 0.0)
    types = {option.gpu_type for one in problem.classes for option in one.options}
    for job in later.jobs:
        runs_on = {way.gpu_type for way in job.configurations if way.rate > 0}
        missing = set() if None in runs_on else types - runs_on
        if missing:
            raise InstanceError(
                f'later weeks: job "{job.id}" has no configuration for GPUs of type '
                f'"{min(missing)}"; hold weeks out with `alloc plan init --hold-out` and the price '
                "sheet of the problem."
            )


def _measured_from(later: Instance, default: float) -> float:
    """Return the second from which jobs are measured, as the instance says or by default."""
    text = later.description.get(MEASURE_FROM)
    if text is None:
        return default
    try:
        second = float(text)
    except ValueError:
        second = math.nan
    if not 0 <= second <= max(job.arrival_s for job in later.jobs):
        raise InstanceError(
            f'later weeks: the description says "{MEASURE_FROM}": "{text[:40]}", at which no job '
            "is left to measure; give a number of seconds before the last arrival."
        )
    return second


def _kept(one: JobClass, hours: Sequence[float]) -> Kept:
    goal = one.goal
    assert goal is not None
    if goal.fraction is None:
        value, wanted = float(np.mean(hours)), goal.hours
    else:
        value = sum(hour <= goal.hours for hour in hours) / len(hours)
        wanted = goal.fraction
    return Kept(one.name, len(hours), goal.sentence, wanted, value, goal.fraction is None)


def _hosts(problem: PlanningProblem, plan: Plan) -> dict[Pool, dict[int, int]]:
    """Return the hosts of each pool in the first quarter, by their GPUs."""
    found: defaultdict[Pool, dict[int, int]] = defaultdict(dict)
    for operation in operations_of(problem, plan):
        if operation.regime.quarter == 0:
            own = found[operation.pool]
            for gpus, count in operation.hosts.items():
                own[gpus] = max(own.get(gpus, 0), count)
    return found


def _parts(problem: PlanningProblem, plan: Plan) -> dict[str, dict[Pool, float]]:
    """Return for each class the jobs per hour that go to each pool in the first quarter, means."""
    found: defaultdict[str, defaultdict[Pool, float]] = defaultdict(lambda: defaultdict(float))
    likely = {scenario.name: scenario.probability for scenario in problem.scenarios}
    hours = bands_of(problem).hours
    for share in plan.shares:
        if share.quarter == 0 and share.jobs_per_hour > 0:
            option = problem.classes[problem.class_index[share.job_class]].options[share.option]
            pool = Pool(option.gpu_type, share.site, share.spot)
            weight = likely[share.scenario] * float(hours[share.band] / hours.sum())
            found[share.job_class][pool] += weight * share.jobs_per_hour
    return {name: dict(of) for name, of in found.items()}


def _planned(problem: PlanningProblem, plan: Plan) -> float:
    """Return the mean load of the first quarter by the forecast, in GPUs of the plan's pools."""
    likely = {scenario.name: scenario.probability for scenario in problem.scenarios}
    hours = bands_of(problem).hours
    return math.fsum(
        likely[operation.regime.scenario]
        * float(hours[operation.regime.band] / hours.sum())
        * operation.load
        for operation in operations_of(problem, plan)
        if operation.regime.quarter == 0
    )


def _gpus(job: Job) -> int:
    return int(job.configurations[0].demand[0] // MILLI)


def _run_s(job: Job, pool: Pool) -> float:
    """Return how long a job runs on the GPUs of a pool, seconds."""
    return job.work / next(
        way.rate
        for way in job.configurations
        if way.gpu_type in (None, pool.gpu_type) and way.rate > 0
    )


def _times(
    hosts: Mapping[int, int],
    members: Sequence[tuple[Job, float]],
    pool: Pool,
    settings: ReplaySettings,
) -> tuple[list[float], list[float]]:
    """Return when jobs start and complete in a pool, seconds; infinite if they never do."""
    gpus = sum(size * count for size, count in hosts.items())
    fitting = [(job, run_s) for job, run_s in members if _gpus(job) <= gpus]
    if not fitting or (settings.scheduler == "fifo" and not settings.options):
        drawn = [(job.arrival_s, run_s, _gpus(job)) for job, run_s in fitting]
        found = start_times(gpus, drawn)
        starts = {job.id: start for (job, _), start in zip(fitting, found, strict=True)}
        ends = {job.id: starts[job.id] + run_s for job, run_s in fitting}
    else:
        result = simulate(
            Instance(str(pool), _topology(hosts, pool), tuple(_rigid(*one) for one in fitting)),
            make_scheduler(settings.scheduler, **settings.options),
            rng=0,
            check=False,
        )
        starts = {key: at for key, at in result.start_s.items() if at is not None}
        ends = {key: at for key, at in result.completion_s.items() if at is not None}
    return (
        [starts.get(job.id, math.inf) for job, _ in members],
        [ends.get(job.id, math.inf) for job, _ in members],
    )


def _rigid(job: Job, run_s: float) -> Job:
    gang = (rigid_gang(_gpus(job)),)
    return job.replace(work=run_s, configurations=gang, elasticity="rigid", tenant=None)


def _topology(hosts: Mapping[int, int], pool: Pool) -> Topology:
    kinds = tuple(HostType(f"{gpus}-gpu-host", gpus, pool.gpu_type) for gpus in hosts)
    every = tuple(
        Host(f"{gpus}-gpu-{i}", f"{gpus}-gpu-host")
        for gpus, count in hosts.items()
        for i in range(count)
    )
    return Topology(str(pool), kinds, every)
