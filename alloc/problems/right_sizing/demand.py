"""Demand: classes of jobs, how they can run, and scenarios of how many arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from alloc.errors import InstanceError
from alloc.problems.right_sizing.goals import ServiceGoal
from alloc.problems.right_sizing.series import Series, require_hourly, require_quarterly
from alloc.units import require_count, require_finite, require_non_negative, require_positive


@dataclass(frozen=True)
class JobOption:
    """One way to run a job: measured, never assumed.

    Parameters
    ----------
    gpu_type
        GPU type.
    gpus
        GPUs held, 1 or more.
    hours
        Hours from start to completion, above 0.
    """

    gpu_type: str
    gpus: int
    hours: float

    def __post_init__(self) -> None:
        where = f'option on "{self.gpu_type}"'
        require_count(self.gpus, where, "gpus", least=1)
        require_positive(self.hours, where, "hours")

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of one job."""
        return self.gpus * self.hours


@dataclass(frozen=True)
class JobClass:
    """Jobs that are alike for planning.

    Parameters
    ----------
    name
        Unique name.
    options
        The ways to run a job, at least one.
    goal
        What its jobs are promised; ``None``: only that they are served.
    sites
        Names of the sites where its data may lie; empty: all.
    interruptible
        Whether its jobs may run on spot hosts.
    spot_overhead
        Work repeated and restarts on spot hosts, as a fraction of the work.
    critical
        Whether it is served even in a scenario that is waived.
    deferrable
        Whether its jobs may be shifted to other hours.
    hourly_profile
        Arrivals by hour in relation to each other: 1, 24 or 168 values, not all 0.
    loss_per_job
        What a job costs that is left unserved, money.
    tenant
        Name of its tenant.
    """

    name: str
    options: tuple[JobOption, ...]
    goal: ServiceGoal | None = None
    sites: tuple[str, ...] = ()
    interruptible: bool = False
    spot_overhead: float = 0.0
    critical: bool = False
    deferrable: bool = False
    hourly_profile: Series = (1.0,)
    loss_per_job: float = 0.0
    tenant: str | None = None

    def __post_init__(self) -> None:
        where = f'job class "{self.name}"'
        if not self.name:
            raise InstanceError("a job class has an empty name; name it.")
        if not self.options:
            raise InstanceError(f"{where}: has no options; give at least one way to run a job.")
        require_non_negative(self.spot_overhead, where, "spot_overhead")
        require_non_negative(self.loss_per_job, where, "loss_per_job")
        require_hourly(self.hourly_profile, where, "hourly_profile", "weight")
        if not sum(self.hourly_profile) > 0:
            raise InstanceError(
                f"{where}: hourly_profile is 0 at every hour; leave it out if arrivals are even."
            )
        if self.goal is not None:
            fastest = min(option.hours for option in self.options)
            longest = self.goal.wait_hours(fastest)
            if longest < 0:
                raise InstanceError(
                    f"{where}: its goal is a JCT of {self.goal.hours:g} h, and its fastest option "
                    f"runs {fastest:g} h; give a longer goal or a faster option."
                )
            if longest == 0 and self.goal.fraction is None:
                raise InstanceError(
                    f"{where}: its goal leaves no time to wait, and in any pool some job waits, so "
                    "the mean is above 0; give a longer goal, a faster option, or a fraction of "
                    "the jobs that start at once."
                )

    def at(self, site: str) -> bool:
        """Return whether its jobs may run at a site."""
        return not self.sites or site in self.sites


@dataclass(frozen=True)
class Scenario:
    """One way the future may go.

    Parameters
    ----------
    name
        Unique name.
    probability
        Its probability; those of all scenarios sum to 1.
    arrivals
        For each job class its jobs per hour, quarter by quarter, mean over the hours.
    spot_availability
        Fraction of each spot offer's ``most_hosts`` that can be had, quarter by quarter; empty: all
        of them. Of an offer without ``most_hosts`` any number can be had in any case.
    """

    name: str
    probability: float
    arrivals: Mapping[str, Series] = field(hash=False)
    spot_availability: Series = ()

    def __post_init__(self) -> None:
        where = f'scenario "{self.name}"'
        if not self.name:
            raise InstanceError("a scenario has an empty name; name it.")
        require_finite(self.probability, where, "probability")
        if not 0 < self.probability <= 1 + 1e-9:
            raise InstanceError(
                f"{where}: probability is {self.probability:g}; it is above 0 and at most 1."
            )

    def require_quarters(self, num_quarters: int) -> None:
        """Refuse series that have not one number for every quarter."""
        where = f'scenario "{self.name}"'
        for name, series in self.arrivals.items():
            require_quarterly(series, num_quarters, where, f'arrivals of "{name}"', "rate")
        if self.spot_availability:
            require_quarterly(
                self.spot_availability, num_quarters, where, "spot_availability", "fraction"
            )
            for quarter, value in enumerate(self.spot_availability):
                if value > 1:
                    raise InstanceError(
                        f"{where}: spot_availability is {value:g} at quarter {quarter}; it is a "
                        "fraction of the offer's most_hosts, at most 1."
                    )


TighteningKey = tuple[str, str, str, bool]
"""Class, GPU type, site, and whether spot hosts are meant."""


class MarginKey(NamedTuple):
    """What a margin is kept for.

    Parameters
    ----------
    job_classes
        Names of one or two classes: it is kept in quarters in which jobs of all of them are sent to
        the pool.
    gpu_type, site, spot
        The pool, and whether its spot hosts are meant.
    """

    job_classes: frozenset[str]
    gpu_type: str
    site: str
    spot: bool


@dataclass(frozen=True)
class Tightening:
    """More room for a class in a pool than the queueing formula asks for.

    The replay of a plan in the simulator asks for it where goals are missed.

    Parameters
    ----------
    job_class
        Name of the class.
    gpu_type
        GPU type of the pool.
    site
        Site of the pool.
    factor
        By what the class's headroom there is multiplied, 1 or more; from
        `alloc.problems.right_sizing.headroom.KEPT_OUT` on the class is kept out.
    margin
        GPUs that the pool keeps beyond the room for its load in quarters in which jobs of the class
        are sent there, 0 or more. Of several margins the largest counts.
    spot
        Whether it is about the spot hosts of the pool; else about the others.
    beside
        Name of another class: the margin is kept only in quarters in which jobs of that class are
        sent there too. ``None``: whatever else is sent there.
    quarter
        The only quarter in which the margin is kept, counted from 0. ``None``: in every quarter.
    bands
        Part of the margin that the pool keeps in each band of hours (`bands_of`), 0 to 1 and 1 in
        one of them; by night less work may need another margin. It is said of all margins of the
        pool: in each band the largest part counts. Empty: all of it in every band.
    """

    job_class: str
    gpu_type: str
    site: str
    factor: float = 1.0
    margin: float = 0.0
    spot: bool = False
    beside: str | None = None
    quarter: int | None = None
    bands: Series = ()

    def __post_init__(self) -> None:
        where = f'tightening of "{self.job_class}" on "{self.gpu_type}" at "{self.site}"'
        require_finite(self.factor, where, "factor")
        if self.factor < 1:
            raise InstanceError(
                f"{where}: factor is {self.factor:g}; it multiplies the headroom, so it is 1 or "
                "more."
            )
        require_non_negative(self.margin, where, "margin")
        if self.beside is not None and (self.beside == self.job_class or self.factor != 1):
            raise InstanceError(
                f'{where}: beside is "{self.beside}", with a factor of {self.factor:g}; it names '
                "another class, and goes with a margin only."
            )
        if self.quarter is not None:
            require_count(self.quarter, where, "quarter", least=0)
            if self.factor != 1:
                raise InstanceError(
                    f"{where}: quarter is {self.quarter}, with a factor of {self.factor:g}; it "
                    "goes with a margin only."
                )
        for part in self.bands:
            require_non_negative(part, where, "bands")
        if self.bands and (self.factor != 1 or self.margin == 0 or max(self.bands) != 1):
            raise InstanceError(
                f"{where}: bands is {self.bands}, with a factor of {self.factor:g} and a margin of "
                f"{self.margin:g}; it says which part of a margin is kept in each band of hours, 1 "
                "at most and in one of them, and goes with a margin only."
            )

    @property
    def key(self) -> TighteningKey:
        """The class, GPU type, site, and whether spot hosts are meant."""
        return self.job_class, self.gpu_type, self.site, self.spot

    @property
    def margin_key(self) -> MarginKey:
        """Which jobs make the pool keep the margin."""
        return MarginKey(
            frozenset({self.job_class} if self.beside is None else {self.job_class, self.beside}),
            self.gpu_type,
            self.site,
            self.spot,
        )
