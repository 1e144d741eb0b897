"""Replay: the pools of a plan in the simulator, to see whether the goals hold there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alloc.comparison.intervals import Interval, mean_interval
from alloc.errors import worker_deaths
from alloc.planning.gang_queue import start_times
from alloc.planning.pools import Operation, Pool, Regime
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.registry import make_scheduler
from alloc.simulation import simulate
from alloc.solving.processes import worker_processes
from alloc.topology import Host, HostType, Topology
from alloc.units import HOUR_S, require_count, require_non_negative
from alloc.workload import Configuration, Job, rigid_gang

# Parts of the replayed time that are not measured: the queue builds up, and then nobody follows.
_WARM_UP = 0.2
_RUN_OUT = 0.05
# Jobs of the rarest class with a goal that a replication should see, and by how much it may grow.
_ENOUGH = 30
_MAX_TIMES = 5
# Times that the jobs of a pool make way for others in a replication, whatever its number of jobs:
# for less the GPUs busy hardly change, and what they were at the beginning is all that is seen. In
# pools of 4,000 GPUs a fifth of it passed plans that in the long run keep two thirds of a promise.
_TURNS = 5
# Jobs up to which that makes a replication longer, a fifth of a second of its queue: where very
# many short jobs come beside a few long ones, five turns of the long ones are millions of jobs.
_MAX_JOBS_TO_TURN = 200_000
# Batches of replications until a goal is surely kept or missed; then the mean of all decides.
# Four times the replications make the interval half as wide.
_MAX_BATCHES = 4
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
        otherwise hardly come; and as many as it takes for the jobs of a pool to make way for others
        five times, up to 200,000.
    replications
        Independent replications of each pool, 2 or more: their spread gives the interval. Up to
        four times as many while an interval has the goal within it (a sequential test).
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
        The fraction that did, or the hours on average, with the 95 % interval of so many
        replications; that they went on while it had the goal within it is not allowed for.
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

    @property
    def is_sure(self) -> bool:
        """Whether the whole 95 % interval is on the side of the goal that the mean is on."""
        low, high = self.value.low, self.value.high
        if low is None or high is None:
            return not math.isfinite(self.value.mean) or self.jobs == 0
        if self.in_hours:
            return high <= self.wanted or low > self.wanted
        return low >= self.wanted or high < self.wanted


Floats = npt.NDArray[np.float64]
Waits = Mapping[str, Floats]
"""Of each class with a goal the hours that its measured jobs waited or took."""


def replay(
    operation: Operation,
    settings: ReplaySettings,
    *,
    draw: int = 0,
    enough_jobs: int | None = None,
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
    enough_jobs
        Jobs after which no more replications begin, two or more being done: for a search over many
        numbers of GPUs. None: as many as `ReplaySettings` says.

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
        _MAX_BATCHES * settings.replications
    )
    runs: list[Waits] = []
    found: tuple[Measured, ...] = ()
    jobs = 0
    for count, seed in enumerate(seeds, start=1):
        waits, arrived = _replicate(operation, settings, seed)
        runs.append(waits)
        jobs += arrived
        is_enough = enough_jobs is not None and jobs >= enough_jobs and count >= 2
        if count % settings.replications and not is_enough:
            continue
        found = _judged(operation, runs)
        # One goal that is surely missed decides for the pool.
        is_sure = all(m.is_sure for m in found) or any(m.is_sure and not m.holds for m in found)
        if is_sure or is_enough:
            break
    return found


def _judged(operation: Operation, runs: Sequence[Waits]) -> tuple[Measured, ...]:
    """Return what the classes with a goal met, over all replications so far."""
    found = []
    goals = {s.job_class.name: s.job_class.goal for s in operation.streams}
    for name, goal in sorted(goals.items()):
        samples = [run[name] for run in runs if name in run and len(run[name])]
        if goal is None or not samples:
            # Or so rare that none came: nothing is known, and next to nothing was promised.
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
    """Return the replay of several pools, in parallel if the settings say so.

    Parameters
    ----------
    operations
        The pools.
    settings
        How they are replayed, and in how many processes.
    draw
        Which draw of arrivals and run times, 0 or more.
    """
    if settings.workers == 1 or len(operations) < 2:
        return tuple(replay(operation, settings, draw=draw) for operation in operations)
    import joblib

    calls = [joblib.delayed(replay)(operation, settings, draw=draw) for operation in operations]
    with worker_processes(settings.workers) as parallel, worker_deaths("replay"):
        return tuple(parallel(calls))


def _replicate(
    operation: Operation, settings: ReplaySettings, seed: np.random.SeedSequence
) -> tuple[Waits, int]:
    """Return what the jobs of one replication waited or took, and how many jobs there were."""
    arrivals_s, members, work_s = _jobs(operation, settings, np.random.default_rng(seed))
    gangs = np.array([stream.gpus for stream in operation.streams])[members]
    if settings.scheduler == "fifo" and not settings.options:
        drawn = zip(arrivals_s.tolist(), work_s.tolist(), gangs.tolist(), strict=True)
        starts_s = np.array(start_times(operation.gpus, drawn))
        ends_s = starts_s + work_s
    else:
        starts_s, ends_s = _simulated(operation, settings, arrivals_s, members, work_s)
    end_s = arrivals_s[-1]
    seen = (arrivals_s >= _WARM_UP * end_s) & (arrivals_s <= (1 - _RUN_OUT) * end_s)
    found: dict[str, list[Floats]] = {}
    for i, stream in enumerate(operation.streams):
        goal = stream.job_class.goal
        if goal is not None:
            own = seen & (members == i)
            until_s = starts_s if goal.measure == "wait" else ends_s
            hours = (until_s[own] - arrivals_s[own]) / HOUR_S
            found.setdefault(stream.job_class.name, []).append(hours)
    # A wait of nothing may come out a round-off above it.
    waits = {name: np.concatenate(hours) - 1e-9 for name, hours in found.items()}
    return waits, len(arrivals_s)


def _jobs(
    operation: Operation, settings: ReplaySettings, rng: np.random.Generator
) -> tuple[Floats, npt.NDArray[np.int64], Floats]:
    """Return of each job when it arrives, the stream it is of and how long it runs, seconds.

    The jobs first that run when the replay begins, and what is left of them: as many as if there
    were no limit, which is a Poisson number of each stream. A pool that began empty would not be
    full by the time that is measured, where more jobs run at once than arrive until then. Long run
    times are under way more often than they arrive, by how long they are (of a log-normal
    distribution that is one with a larger mean), and are seen at any moment of theirs alike.
    """
    rates = np.array([stream.jobs_per_hour for stream in operation.streams])
    hours = np.array([stream.hours for stream in operation.streams])
    rarest = min(s.jobs_per_hour for s in operation.streams if s.job_class.goal is not None)
    wanted = math.ceil(_ENOUGH * rates.sum() / rarest)
    count = min(max(settings.jobs, wanted), _MAX_TIMES * settings.jobs)
    turning = min(_TURNS * rates.sum() * operation.turn_hours, _MAX_JOBS_TO_TURN)
    count = max(count, math.ceil(turning))
    count = min(count, max(math.ceil(_MAX_HOURS * rates.sum()), 2))
    gaps_h = rng.exponential(1 / rates.sum(), count)
    members = rng.choice(len(rates), size=count, p=rates / rates.sum())
    spread = math.sqrt(math.log1p(settings.variation**2))
    stretch = np.exp(spread * rng.standard_normal(count) - spread**2 / 2)
    running = np.repeat(np.arange(len(rates)), rng.poisson(rates * hours))
    rng.shuffle(running)
    left = np.exp(spread * rng.standard_normal(len(running)) + spread**2 / 2)
    left *= rng.uniform(size=len(running))
    arrivals_s = np.concatenate([np.zeros(len(running)), np.cumsum(gaps_h) * HOUR_S])
    work_s = np.concatenate([hours[running] * left, hours[members] * stretch]) * HOUR_S
    return arrivals_s, np.concatenate([running, members]), work_s


def _simulated(
    operation: Operation,
    settings: ReplaySettings,
    arrivals_s: Floats,
    members: npt.NDArray[np.int64],
    work_s: Floats,
) -> tuple[Floats, Floats]:
    """Return when jobs start and complete with a scheduler, seconds; infinite if they never do."""
    gangs: dict[int, tuple[Configuration, ...]] = {
        stream.gpus: (rigid_gang(stream.gpus),) for stream in operation.streams
    }
    jobs = []
    for i, member in enumerate(members):
        stream = operation.streams[member]
        jobs.append(
            Job(
                id=f"{i}",
                arrival_s=float(arrivals_s[i]),
                work=float(work_s[i]),
                configurations=gangs[stream.gpus],
                elasticity="rigid",
                preemptible=stream.job_class.interruptible,
                model=stream.job_class.name,
                tenant=None,
            )
        )
    instance = Instance(str(operation.pool), _topology(operation), tuple(jobs))
    scheduler = make_scheduler(settings.scheduler, **settings.options)
    result = simulate(instance, scheduler, rng=0, check=False)

    def times(of: Mapping[str, float | None]) -> Floats:
        return np.array([math.inf if (s := of[job.id]) is None else s for job in jobs])

    return times(result.start_s), times(result.completion_s)


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
