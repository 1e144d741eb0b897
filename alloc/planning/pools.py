"""Pools in operation: a plan taken apart into pools, each with its hosts and its jobs.

Parameters
----------
problem
    The problem that was planned.
plan
    Its plan.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alloc.problems.right_sizing.accounting import hosts_in_service
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem

# Rates and mean numbers of hosts come from a linear program; below this they are its round-off.
_ROUND_OFF = 1e-7
# Mean GPUs busy below which a stream is no more than that: its jobs would come once in years.
_NEGLIGIBLE_GPUS = 1e-3


@dataclass(frozen=True, order=True)
class Pool:
    """GPUs of one type at one site that jobs share.

    Parameters
    ----------
    gpu_type, site
        Names.
    spot
        Whether its hosts are rented on spot terms.
    """

    gpu_type: str
    site: str
    spot: bool

    def __str__(self) -> str:
        return f"{self.gpu_type} at {self.site}{' (spot)' if self.spot else ''}"


@dataclass(frozen=True, order=True)
class Regime:
    """When a pool works: in one scenario, one quarter and one band of hours.

    Parameters
    ----------
    scenario
        Name of the scenario.
    quarter, band
        Counted from 0.
    """

    scenario: str
    quarter: int
    band: int

    def __str__(self) -> str:
        return f"scenario {self.scenario}, quarter {self.quarter}, band {self.band}"


@dataclass(frozen=True)
class Stream:
    """Jobs of one class that arrive at a pool.

    Parameters
    ----------
    job_class
        The class.
    option
        Position of the option that its jobs run in.
    hours
        Run time of a job there, hours; on spot hosts longer than the option says.
    jobs_per_hour
        Rate.
    """

    job_class: JobClass
    option: int
    hours: float
    jobs_per_hour: float

    @property
    def gpus(self) -> int:
        """GPUs of a job."""
        return self.job_class.options[self.option].gpus

    @property
    def load(self) -> float:
        """GPUs busy on average."""
        return self.gpus * self.hours * self.jobs_per_hour


@dataclass(frozen=True)
class Operation:
    """A pool in a regime: its hosts and what arrives.

    Parameters
    ----------
    pool, regime
        Which and when.
    hosts
        Hosts by number of GPUs. Hosts rented by the hour are rounded up; the spare hosts, which
        may be down, are not among them.
    streams
        What arrives.
    own_gpus
        GPUs of those of its hosts that are there in every regime of the quarter: not rented.
    """

    pool: Pool
    regime: Regime
    hosts: Mapping[int, int]
    streams: tuple[Stream, ...]
    own_gpus: int = 0

    @property
    def gpus(self) -> int:
        """GPUs of its hosts."""
        return sum(gpus * count for gpus, count in self.hosts.items())

    @property
    def load(self) -> float:
        """GPUs busy on average."""
        return math.fsum(stream.load for stream in self.streams)

    @property
    def variance(self) -> float:
        """Variance of the GPUs busy with Poisson arrivals and no limit: gangs add more."""
        return math.fsum(stream.gpus * stream.load for stream in self.streams)

    @property
    def turn_hours(self) -> float:
        """Hours in which jobs make way for others: the mean run time, by their part in variance."""
        return math.fsum(s.gpus * s.load * s.hours for s in self.streams) / self.variance

    @property
    def has_goal(self) -> bool:
        """Whether jobs with a goal come."""
        return any(stream.job_class.goal is not None for stream in self.streams)


def operations_of(problem: PlanningProblem, plan: Plan) -> tuple[Operation, ...]:
    """Return every pool of a plan in every regime in which jobs are sent to it."""
    streams: dict[tuple[Pool, Regime], list[Stream]] = defaultdict(list)
    for share in plan.shares:
        job_class = problem.classes[problem.class_index[share.job_class]]
        option = job_class.options[share.option]
        pool = Pool(option.gpu_type, share.site, share.spot)
        hours = option.hours * (1 + (job_class.spot_overhead if share.spot else 0.0))
        if share.jobs_per_hour * hours * option.gpus <= _NEGLIGIBLE_GPUS:
            continue
        streams[pool, Regime(share.scenario, share.quarter, share.band)].append(
            Stream(job_class, share.option, hours, share.jobs_per_hour)
        )
    hosts = _hosts(problem, plan)
    operations = []
    for (pool, regime), found in sorted(streams.items(), key=lambda item: item[0]):
        # A pool to which less than one job comes in a quarter has no queue to speak of.
        if math.fsum(stream.jobs_per_hour for stream in found) * problem.quarter_hours < 1:
            continue
        own, rented = hosts[pool, None, regime.quarter], hosts[pool, regime, None]
        there = _without_spares(_sum(own, rented), 0 if pool.spot else problem.failures, own)
        gpus = sum(size * count for size, count in there.items())
        hired = sum(size * count for size, count in rented.items())
        operations.append(Operation(pool, regime, there, tuple(found), max(gpus - hired, 0)))
    return tuple(operations)


def goals_of(problem: PlanningProblem, plan: Plan) -> list[tuple[str, Pool]]:
    """Return the classes with a goal and the pools that a plan sends their jobs to, however few."""
    found = set()
    for share in plan.shares:
        job_class = problem.classes[problem.class_index[share.job_class]]
        if job_class.goal is not None and share.jobs_per_hour > _ROUND_OFF:
            option = job_class.options[share.option]
            found.add((job_class.name, Pool(option.gpu_type, share.site, share.spot)))
    return sorted(found)


def too_large(operations: Sequence[Operation]) -> dict[tuple[str, Pool], tuple[int, int]]:
    """Return the classes whose jobs take more GPUs than a pool that they are sent to has.

    Returns
    -------
    dict
        Of each class and pool the GPUs of a job and those of the pool, where these are fewest.
    """
    found: dict[tuple[str, Pool], tuple[int, int]] = {}
    for operation in operations:
        for stream in operation.streams:
            if stream.gpus > operation.gpus:
                key = stream.job_class.name, operation.pool
                known = found.get(key)
                if known is None or operation.gpus < known[1]:
                    found[key] = stream.gpus, operation.gpus
    return found


def tightest(operations: Sequence[Operation], each: int = 1) -> tuple[Operation, ...]:
    """Return for every pool the regimes in which its GPUs are shortest, for all with a goal.

    Those first in which jobs with a goal come: in the others there is nothing to miss. By the load
    and two standard deviations of the number of GPUs busy, over the GPUs there are: at the same
    load, gangs need more than single GPUs. With Poisson arrivals and no limit the variance is the
    sum of load times gang. Then, of each class with a goal that comes in none of these, the
    tightest regime in which it does: nothing is known of a class that was never replayed.

    Parameters
    ----------
    operations
        As from `operations_of`.
    each
        Regimes of each pool; more where a class with a goal comes in none of so many.
    """
    by_pool: dict[Pool, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_pool[operation.pool].append(operation)
    chosen: list[Operation] = []
    for _, found in sorted(by_pool.items()):
        seen: set[str] = set()
        order = sorted(found, key=lambda o: (not o.has_goal, -_tightness(o), o.regime))
        for i, operation in enumerate(order):
            names = {s.job_class.name for s in operation.streams if s.job_class.goal is not None}
            if i < each or not names <= seen:
                chosen.append(operation)
                seen |= names
    return tuple(chosen)


def tightest_by_band(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Return, of those with a goal, the tightest of each pool in each quarter and band of hours."""
    chosen: dict[tuple[Pool, int, int], tuple[float, Operation]] = {}
    for operation in operations:
        if operation.has_goal:
            at = operation.pool, operation.regime.quarter, operation.regime.band
            tight = _tightness(operation)
            if at not in chosen or tight > chosen[at][0]:
                chosen[at] = tight, operation
    return tuple(operation for _, operation in chosen.values())


def _tightness(operation: Operation) -> float:
    if not operation.gpus:
        return math.inf
    return (operation.load + 2 * math.sqrt(operation.variance)) / operation.gpus


Counts = dict[int, int]


def _hosts(
    problem: PlanningProblem, plan: Plan
) -> defaultdict[tuple[Pool, Regime | None, int | None], Counts]:
    """Return hosts by GPUs: in service by (pool, None, quarter), rented by (pool, regime, None)."""
    found: defaultdict[tuple[Pool, Regime | None, int | None], Counts] = defaultdict(dict)
    for (name, site), counts in hosts_in_service(problem, plan).items():
        offer = problem.offers[problem.offer_index[name]]
        pool = Pool(offer.gpu_type, site, spot=False)
        for quarter, count in enumerate(counts):
            own = found[pool, None, quarter]
            own[offer.gpus] = own.get(offer.gpus, 0) + round(count)
    for rental in plan.rentals:
        if rental.hosts <= _ROUND_OFF:
            continue
        offer = problem.offers[problem.offer_index[rental.offer]]
        pool = Pool(offer.gpu_type, rental.site, offer.terms == "spot")
        hired = found[pool, Regime(rental.scenario, rental.quarter, rental.band), None]
        hired[offer.gpus] = hired.get(offer.gpus, 0) + math.ceil(rental.hosts - _ROUND_OFF)
    return found


def _sum(first: Counts, second: Counts) -> Counts:
    return {gpus: first.get(gpus, 0) + second.get(gpus, 0) for gpus in first.keys() | second.keys()}


def _without_spares(hosts: Counts, spares: int, own: Counts) -> Counts:
    """Return the hosts without the spare ones: the largest that are in service."""
    left = dict(hosts)
    for gpus in sorted(own, reverse=True):
        down = min(spares, own[gpus])
        left[gpus] -= down
        spares -= down
    return {gpus: count for gpus, count in sorted(left.items()) if count}
