"""Replay: the pools of a plan in the simulator, to see whether the goals hold there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alloc.comparison.intervals import Interval, mean_interval
from alloc.errors import worker_deaths
from alloc.planning.pools import Operation, Pool, Regime
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.registry import make_scheduler
from alloc.simulation import simulate
from alloc.solving.processes import worker_processes
from alloc.topology import Host, HostType, Topology
from alloc.units import require_count, require_non_negative
from alloc.workload import Configuration, Job, rigid_gang

HOUR_S = 3600.0
# Parts of the replayed time that are not measured: the pool fills up, and then runs dry.
_WARM_UP = 0.2
_RUN_OUT = 0.05
# Jobs of the rarest class with a goal that a replication should see, and by how much it may grow.
_ENOUGH = 30
_MAX_TIMES = 5
# Forty years: a pool with few jobs is replayed with fewer.
_MAX_HOURS = 350_000.0


@dataclass(frozen=True)
class ReplaySettings:
    """How a plan is replayed.

    Parameters
    ----------
    scheduler
        Policy of every pool, a name of `alloc.schedulers.registry`.
    options
        Its options.
    jobs
        Jobs that arrive in each replication; up to five times as many if a class with a goal would
        otherwise hardly come.
    replications
        Independent replications of each pool, 2 or more: their spread gives the interval.
    regimes
        Regimes of each pool that are replayed, those in which its GPUs are shortest.
    variation
        Coefficient of variation of the run times of a class; 0: all its jobs run as long as its
        option says.
    seed
        Seed of arrivals and run times.
    workers
        Processes; results do not depend on it.
    """

    scheduler: str = "fifo"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    jobs: int = 1000
    replications: int = 4
    regimes: int = 2
    variation: float = 0.0
    seed: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        require_count(self.jobs, "replay", "jobs", least=20)
        require_count(self.replications, "replay", "replications", least=2)
        require_count(self.regimes, "replay", "regimes", least=1)
        require_count(self.workers, "replay", "workers", least=1)
        require_non_negative(self.variation, "replay", "variation")
        # An unknown name is refused before anything is solved.
        make_scheduler(self.scheduler, **self.options)


@dataclass(frozen=True)
class Measured:
    """What the jobs of a class met in a pool.

    Parameters
    ----------
    job_class, pool, regime
        Who, where and when.
    jobs
        Jobs measured, over all replications.
    goal
        What was promised, in words.
    wanted
        The fraction of jobs that was to keep the goal, or the most hours on average.
    value
        The fraction that did, or the hours on average, with its 95 % interval.
    holds
        Whether the goal holds, by the mean over the replications.
    in_hours
        Whether `wanted` and `value` are hours (a goal on the mean), not fractions of jobs.
    """

    job_class: str
    pool: Pool
    regime: Regime
    jobs: int
    goal: str
    wanted: float
    value: Interval
    holds: bool
    in_hours: bool


def replay(
    operation: Operation, settings: ReplaySettings, *, draw: int = 0
) -> tuple[Measured, ...]:
    """Return what every class with a goal met in a pool, class by class.

    Jobs arrive as Poisson streams at the rates of the plan, as rigid gangs on the GPUs of their
    option; the scheduler sees arrivals and completions in continuous time and knows the run times.

    Parameters
    ----------
    operation
        The pool, its hosts and what arrives.
    settings
        How it is replayed.
    draw
        Which draw of arrivals and run times, 0 or more; draws are independent of each other.

    Raises
    ------
    SimulationError
        If the scheduler breaks a rule or stalls.
    """
    with_goal = [stream for stream in operation.streams if stream.job_class.goal is not None]
    if not with_goal:
        return ()
    if _largest_gang(operation) > operation.gpus:
        return _nothing_runs(operation)
    seeds = np.random.SeedSequence([settings.seed, draw, *_entropy(operation)]).spawn(
        settings.replications
    )
    runs = [_replicate(operation, settings, seed) for seed in seeds]
    found = []
    for name in sorted({stream.job_class.name for stream in with_goal}):
        (goal,) = {s.job_class.goal for s in with_goal if s.job_class.name == name}
        assert goal is not None
        samples = [run[name] for run in runs if name in run and len(run[name])]
        if not samples:
            # So rare that none came: nothing is known, and next to nothing was promised.
            continue
        if goal.fraction is None:
            value = mean_interval([float(np.mean(sample)) for sample in samples])
            wanted, holds = goal.hours, value.mean <= goal.hours
        else:
            value = _share_interval([float(np.mean(s <= goal.hours)) for s in samples])
            wanted, holds = goal.fraction, value.mean >= goal.fraction
        found.append(
            Measured(
                job_class=name,
                pool=operation.pool,
                regime=operation.regime,
                jobs=sum(len(sample) for sample in samples),
                goal=goal.sentence,
                wanted=wanted,
                value=value,
                holds=holds,
                in_hours=goal.fraction is None,
            )
        )
    return tuple(found)


def replay_all(
    operations: Sequence[Operation], settings: ReplaySettings, *, draw: int = 0
) -> tuple[tuple[Measured, ...], ...]:
    """Return the replay of several pools, in parallel if the settings say so."""
    if settings.workers == 1 or len(operations) < 2:
        return tuple(replay(operation, settings, draw=draw) for operation in operations)
    import joblib

    calls = [joblib.delayed(replay)(operation, settings, draw=draw) for operation in operations]
    with worker_processes(settings.workers) as parallel, worker_deaths("replay"):
        return tuple(parallel(calls))


def _replicate(
    operation: Operation, settings: ReplaySettings, seed: np.random.SeedSequence
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return for each class with a goal the hours that its measured jobs waited or took."""
    rng = np.random.default_rng(seed)
    instance, members = _instance(operation, settings, rng)
    result = simulate(
        instance, make_scheduler(settings.scheduler, **settings.options), rng=0, check=False
    )
    end_s = max(job.arrival_s for job in instance.jobs)
    found: dict[str, list[float]] = {}
    for job, stream in zip(instance.jobs, members, strict=True):
        goal = operation.streams[stream].job_class.goal
        if goal is None:
            continue
        hours = found.setdefault(operation.streams[stream].job_class.name, [])
        if not _WARM_UP * end_s <= job.arrival_s <= (1 - _RUN_OUT) * end_s:
            continue
        times = result.start_s if goal.measure == "wait" else result.completion_s
        until_s = times[job.id]
        hours.append(math.inf if until_s is None else (until_s - job.arrival_s) / HOUR_S)
    # A wait of nothing may come out a round-off above it.
    return {name: np.array(hours) - 1e-9 for name, hours in found.items()}


def _instance(
    operation: Operation, settings: ReplaySettings, rng: np.random.Generator
) -> tuple[Instance, list[int]]:
    """Return the pool as an instance, and the stream of each of its jobs."""
    rates = np.array([stream.jobs_per_hour for stream in operation.streams])
    rarest = min(s.jobs_per_hour for s in operation.streams if s.job_class.goal is not None)
    wanted = math.ceil(_ENOUGH * rates.sum() / rarest)
    count = min(max(settings.jobs, wanted), _MAX_TIMES * settings.jobs)
    count = min(count, max(math.ceil(_MAX_HOURS * rates.sum()), 2))
    gaps_h = rng.exponential(1 / rates.sum(), count)
    arrivals_s = np.cumsum(gaps_h) * HOUR_S
    members = rng.choice(len(rates), size=count, p=rates / rates.sum())
    spread = math.sqrt(math.log1p(settings.variation**2))
    stretch = np.exp(spread * rng.standard_normal(count) - spread**2 / 2)
    gangs: dict[int, tuple[Configuration, ...]] = {
        stream.gpus: (rigid_gang(stream.gpus),) for stream in operation.streams
    }
    jobs = []
    for i, (arrival_s, member) in enumerate(zip(arrivals_s, members, strict=True)):
        stream = operation.streams[member]
        jobs.append(
            Job(
                id=f"{i}",
                arrival_s=float(arrival_s),
                work=float(stream.hours * HOUR_S * stretch[i]),
                configurations=gangs[stream.gpus],
                elasticity="rigid",
                preemptible=stream.job_class.interruptible,
                model=stream.job_class.name,
                tenant=None,
            )
        )
    return Instance(str(operation.pool), _topology(operation), tuple(jobs)), [
        int(member) for member in members
    ]


def _topology(operation: Operation) -> Topology:
    kinds = tuple(
        HostType(f"{gpus}-gpu-host", gpus, operation.pool.gpu_type) for gpus in operation.hosts
    )
    hosts = tuple(
        Host(f"{gpus}-gpu-{i}", f"{gpus}-gpu-host")
        for gpus, count in operation.hosts.items()
        for i in range(count)
    )
    return Topology(str(operation.pool), kinds, hosts)


def _share_interval(shares: Sequence[float]) -> Interval:
    """Return the interval of a mean share of jobs, which lies between 0 and 1."""
    found = mean_interval(shares)
    return dataclasses.replace(
        found,
        low=None if found.low is None else max(found.low, 0.0),
        high=None if found.high is None else min(found.high, 1.0),
    )


def _largest_gang(operation: Operation) -> int:
    return max(stream.gpus for stream in operation.streams)


def _nothing_runs(operation: Operation) -> tuple[Measured, ...]:
    """Return what classes meet in a pool that cannot hold their largest gang: nobody is served."""
    found = []
    for stream in operation.streams:
        goal = stream.job_class.goal
        if goal is None:
            continue
        mean = math.inf if goal.fraction is None else 0.0
        found.append(
            Measured(
                job_class=stream.job_class.name,
                pool=operation.pool,
                regime=operation.regime,
                jobs=0,
                goal=goal.sentence,
                wanted=goal.hours if goal.fraction is None else goal.fraction,
                value=Interval(mean, None, None, 0),
                holds=False,
                in_hours=goal.fraction is None,
            )
        )
    return tuple(found)


def _entropy(operation: Operation) -> tuple[int, ...]:
    """Return numbers that tell pools and regimes apart, so that each has jobs of its own."""
    text = f"{operation.pool}|{operation.regime}".encode()
    return tuple(int.from_bytes(text[i : i + 4], "little") for i in range(0, len(text), 4))
