"""Jobs in operation: how long they still take on what, when they are due, when they may end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.units import require_finite, require_non_negative, require_positive, require_time


@dataclass(frozen=True)
class EarlyStop:
    """A chance that a job ends before its work is done, as early stopping does.

    Parameters
    ----------
    fraction
        Part of the remaining work after which the job may end, between 0 and 1.
    probability
        Chance that it ends just then, seen from now, more than 0 and at most 1.
    """

    fraction: float
    probability: float

    def __post_init__(self) -> None:
        for field in ("fraction", "probability"):
            require_finite(getattr(self, field), "an early stop", field)
        if not 0 < self.fraction < 1 or not 0 < self.probability <= 1:
            raise InstanceError(
                f"an early stop after {self.fraction:g} of the work with probability "
                f"{self.probability:g} cannot be; the fraction lies between 0 and 1, and so does "
                "the probability."
            )


@dataclass(frozen=True)
class OperationJob:
    """A job that runs on one node.

    Parameters
    ----------
    id
        Unique name.
    duration_s
        For each type of node, the time that the remaining work takes there on 1, 2, ... GPUs,
        seconds; None where the job cannot run so. Types that are left out cannot run it.
    due_date_s
        Completion beyond it is tardiness, seconds since the start; after the arrival.
    tardiness_cost_per_h
        Money per hour of tardiness, 0 or more.
    arrival_s
        When it was submitted, seconds since the start; not in the future.
    restart_s
        Time added before it gets on with its work, unless it goes on as it runs now, on the same
        type of node and as many GPUs (which of the identical nodes does not matter). 0 for a job
        that has not started.
    stops
        Chances that it ends early, in order of their fractions; together at most 1.
    """

    id: str
    duration_s: Mapping[str, tuple[float | None, ...]]
    due_date_s: float
    tardiness_cost_per_h: float
    arrival_s: float = 0.0
    restart_s: float = 0.0
    stops: tuple[EarlyStop, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise InstanceError("a job has an empty id; give every job a unique id.")
        where = f'job "{self.id}"'
        for field in ("due_date_s", "arrival_s", "restart_s"):
            require_time(getattr(self, field), where, field)
        require_non_negative(self.tardiness_cost_per_h, where, "tardiness_cost_per_h")
        if self.due_date_s <= self.arrival_s:
            raise InstanceError(
                f"{where}: due_date_s {self.due_date_s:g} is not after its arrival "
                f"{self.arrival_s:g}; a job is due after it arrives."
            )
        possible = False
        for node_type, times in self.duration_s.items():
            for g, time in enumerate(times, 1):
                if time is None:
                    continue
                field = f'duration_s on "{node_type}" with {g} GPUs'
                require_positive(time, where, field)
                require_time(time, where, field)
                possible = True
        if not possible:
            raise InstanceError(
                f"{where}: has no duration on any type of node; give at least one, in duration_s."
            )
        _check_stops(self.stops, where)


def _check_stops(stops: Sequence[EarlyStop], where: str) -> None:
    fractions = [stop.fraction for stop in stops]
    if sorted(set(fractions)) != fractions:
        raise InstanceError(
            f"{where}: early stops come after {', '.join(f'{f:g}' for f in fractions)} of the "
            "work; put them in order, each fraction once."
        )
    if (total := sum(stop.probability for stop in stops)) > 1 + 1e-9:
        raise InstanceError(
            f"{where}: the probabilities of its early stops add up to {total:g}; together they "
            "are at most 1."
        )
