"""Changes to a planning problem: what a what-if asks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from alloc.errors import InstanceError, nearest
from alloc.problems.right_sizing.demand import JobClass, Scenario
from alloc.problems.right_sizing.goals import ServiceGoal
from alloc.problems.right_sizing.headroom import with_margins_by_hour
from alloc.problems.right_sizing.offers import HostOffer, Owned
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.problems.right_sizing.series import Series
from alloc.units import (
    format_number,
    require_count,
    require_finite,
    require_non_negative,
    require_positive,
)

Part = TypeVar("Part", HostOffer, JobClass)

RACK_UNITS = 42.0
"""Height of a rack, rack units."""


class Change(Protocol):
    """Something that might be otherwise."""

    @property
    def sentence(self) -> str:
        """The change in words."""
        ...

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the change."""
        ...


@dataclass(frozen=True)
class Demand:
    """More or fewer jobs.

    Parameters
    ----------
    factor
        By what arrivals are multiplied, 0 or more.
    job_class
        Name of a class, or None for all.
    """

    factor: float
    job_class: str | None = None

    def __post_init__(self) -> None:
        require_non_negative(self.factor, "change of demand", "factor")

    @property
    def sentence(self) -> str:
        """The change in words."""
        whose = "all jobs" if self.job_class is None else f'jobs of class "{self.job_class}"'
        return f"{_percent(self.factor)} {whose}"

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the arrivals multiplied."""
        if self.job_class is not None:
            _require(self.job_class, problem.class_index, "job class")
        return problem.replace(
            scenarios=tuple(
                dataclasses.replace(
                    scenario,
                    arrivals={
                        name: _times(rates, self.factor)
                        if self.job_class in (None, name)
                        else rates
                        for name, rates in scenario.arrivals.items()
                    },
                )
                for scenario in problem.scenarios
            )
        )


@dataclass(frozen=True)
class Hosts:
    """Owned hosts that are there or are not, without a purchase; what keeping them costs is paid.

    Parameters
    ----------
    offer, site
        What they are, and where.
    count
        How many more; below 0 so many are lost.
    """

    offer: str
    site: str
    count: int

    def __post_init__(self) -> None:
        require_count(abs(self.count), "change of hosts", "count", least=1)

    @property
    def sentence(self) -> str:
        """The change in words."""
        how = "more" if self.count > 0 else "fewer"
        return f'{abs(self.count)} {how} owned hosts of "{self.offer}" at "{self.site}"'

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the hosts added, or taken from those that stay longest."""
        offer = _offer(problem, self.offer)
        _require(self.site, problem.site_index, "site")
        if self.count > 0:
            more = Owned(self.offer, self.site, self.count, offer.service_quarters)
            return problem.replace(owned=(*problem.owned, more))
        owned = _without(problem.owned, self.offer, self.site, -self.count)
        return problem.replace(owned=owned)


@dataclass(frozen=True)
class LostRack:
    """A rack of owned hosts that is lost, with its space.

    Parameters
    ----------
    offer, site
        What stands in it, and where.
    rack_units
        Height of the rack.
    """

    offer: str
    site: str
    rack_units: float = RACK_UNITS

    def __post_init__(self) -> None:
        require_positive(self.rack_units, "lost rack", "rack_units")

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f'a rack of "{self.offer}" lost at "{self.site}"'

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem without the rack and the hosts that filled it, or all there are."""
        offer = _offer(problem, self.offer)
        _require(self.site, problem.site_index, "site")
        if offer.rack_units <= 0:
            raise InstanceError(
                f'what if: offer "{offer.name}" takes no rack units, so its hosts stand in no rack '
                "of yours; lose a number of hosts instead."
            )
        there = sum(
            hosts.count
            for hosts in problem.owned
            if (hosts.offer, hosts.site) == (self.offer, self.site)
        )
        full = max(math.floor(self.rack_units / offer.rack_units), 1)
        if there == 0:
            raise InstanceError(
                f'what if: no host of "{self.offer}" is owned at "{self.site}", so no rack of them '
                "can be lost; name one of the owned hosts."
            )
        sites = tuple(
            dataclasses.replace(site, rack_units=max(site.rack_units - self.rack_units, 0.0))
            if site.name == self.site and site.rack_units is not None
            else site
            for site in problem.sites
        )
        owned = _without(problem.owned, self.offer, self.site, min(full, there))
        return problem.replace(sites=sites, owned=owned)


@dataclass(frozen=True)
class ClosedSite:
    """A site that is no longer there, nor what is owned there.

    Parameters
    ----------
    site
        Its name.
    """

    site: str

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f'site "{self.site}" closed'

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem without the site."""
        _require(self.site, problem.site_index, "site")
        sites = tuple(site for site in problem.sites if site.name != self.site)
        if not sites:
            raise InstanceError(f'what if: "{self.site}" is the only site; a plan needs one.')
        for part, kind in ((problem.offers, "offer"), (problem.classes, "job class")):
            for owner in part:
                if set(owner.sites) == {self.site}:
                    raise InstanceError(
                        f'what if: {kind} "{owner.name}" has no site but "{self.site}"; give it '
                        "another site before closing that one."
                    )
        return problem.replace(
            sites=sites,
            offers=tuple(_leave(offer, self.site) for offer in problem.offers),
            classes=tuple(_leave(job_class, self.site) for job_class in problem.classes),
            owned=tuple(hosts for hosts in problem.owned if hosts.site != self.site),
            tightening=tuple(part for part in problem.tightening if part.site != self.site),
        )


@dataclass(frozen=True)
class NoMore:
    """Remove an offer; owned hosts of it stay.

    Parameters
    ----------
    offer
        Its name.
    """

    offer: str

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f'"{self.offer}" no longer offered'

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem in which none of it can be had."""
        return _with_offer(problem, self.offer, most_hosts=0)


@dataclass(frozen=True)
class Price:
    """Change the price of an offer.

    Parameters
    ----------
    offer
        Its name.
    factor
        By what the price is multiplied, 0 or more.
    """

    offer: str
    factor: float

    def __post_init__(self) -> None:
        require_non_negative(self.factor, "change of price", "factor")

    @property
    def sentence(self) -> str:
        """The change in words."""
        return f'{_percent(self.factor)} price of "{self.offer}"'

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the price multiplied."""
        price = _offer(problem, self.offer).price * self.factor
        return _with_offer(problem, self.offer, price=price)


@dataclass(frozen=True)
class EnergyPrice:
    """Another price of energy.

    Parameters
    ----------
    factor
        By what it is multiplied, 0 or more.
    site
        Name of a site, or None for all.
    """

    factor: float
    site: str | None = None

    def __post_init__(self) -> None:
        require_non_negative(self.factor, "change of the energy price", "factor")

    @property
    def sentence(self) -> str:
        """The change in words."""
        where = "" if self.site is None else f' at "{self.site}"'
        return f"{_percent(self.factor)} price of energy{where}"

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the price of energy multiplied."""
        if self.site is not None:
            _require(self.site, problem.site_index, "site")
        return problem.replace(
            sites=tuple(
                dataclasses.replace(
                    site, energy_price_per_kwh=_times(site.energy_price_per_kwh, self.factor)
                )
                if self.site in (None, site.name)
                else site
                for site in problem.sites
            )
        )


@dataclass(frozen=True)
class Budget:
    """Another budget.

    Parameters
    ----------
    amount
        Money over all quarters, 0 or more, or None without limit.
    """

    amount: float | None

    def __post_init__(self) -> None:
        if self.amount is not None:
            require_non_negative(self.amount, "change of the budget", "amount")

    @property
    def sentence(self) -> str:
        """The change in words."""
        return "no budget" if self.amount is None else f"a budget of {self.amount:,.0f}"

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the budget."""
        return problem.replace(budget=self.amount)


@dataclass(frozen=True)
class Goal:
    """Another goal of a class.

    Parameters
    ----------
    job_class
        Its name.
    goal
        The goal, or None for none.
    """

    job_class: str
    goal: ServiceGoal | None

    @property
    def sentence(self) -> str:
        """The change in words."""
        what = "no goal" if self.goal is None else self.goal.sentence
        return f'class "{self.job_class}": {what}'

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the goal."""
        _require(self.job_class, problem.class_index, "job class")
        return problem.replace(
            classes=tuple(
                dataclasses.replace(job_class, goal=self.goal)
                if job_class.name == self.job_class
                else job_class
                for job_class in problem.classes
            )
        )


@dataclass(frozen=True)
class NewTeam:
    """Classes of jobs that join.

    Parameters
    ----------
    classes
        The classes, with names that are not taken.
    jobs_per_hour
        Rate of each of them, quarter by quarter, the same in all scenarios.
    """

    classes: tuple[JobClass, ...]
    jobs_per_hour: Mapping[str, Series] = dataclasses.field(hash=False)

    def __post_init__(self) -> None:
        own = [job_class.name for job_class in self.classes]
        for name in self.jobs_per_hour:
            if name not in own:
                # Otherwise it would change the arrivals of a class that is there already.
                raise InstanceError(
                    f'new team: jobs_per_hour names "{name}", which is none of its classes'
                    f"{nearest(name, own) or '; give the rates of its own classes only.'}"
                )

    @property
    def sentence(self) -> str:
        """The change in words."""
        return "a new team with " + ", ".join(f'"{c.name}"' for c in self.classes)

    def apply(self, problem: PlanningProblem) -> PlanningProblem:
        """Return the problem with the classes."""
        return problem.replace(
            classes=(*problem.classes, *self.classes),
            scenarios=tuple(self._joined(scenario) for scenario in problem.scenarios),
        )

    def _joined(self, scenario: Scenario) -> Scenario:
        return dataclasses.replace(scenario, arrivals={**scenario.arrivals, **self.jobs_per_hour})


def apply_all(problem: PlanningProblem, changes: Sequence[Change]) -> PlanningProblem:
    """Return the problem with all the changes, one after the other.

    Parameters
    ----------
    problem
        The problem before.
    changes
        What is to be otherwise.

    Raises
    ------
    InstanceError
        If a change names what is not there, or leaves a problem that is none.
    """
    changed = problem
    for change in changes:
        changed = change.apply(changed)
    return with_margins_by_hour(changed, problem)


def _percent(factor: float) -> str:
    require_finite(factor, "change", "factor")
    return f"{'+' if factor >= 1 else ''}{format_number(100 * (factor - 1))} %"


def _times(values: Sequence[float], factor: float) -> Series:
    return tuple(value * factor for value in values)


def _require(name: str, known: Mapping[str, int], kind: str) -> None:
    if name not in known:
        raise InstanceError(
            f'what if: unknown {kind} "{name}"'
            f"{nearest(name, known) or '; known: ' + ', '.join(sorted(known)[:20]) + '.'}"
        )


def _offer(problem: PlanningProblem, name: str) -> HostOffer:
    _require(name, problem.offer_index, "offer")
    return problem.offers[problem.offer_index[name]]


def _with_offer(problem: PlanningProblem, name: str, **changes: float) -> PlanningProblem:
    changed = _offer(problem, name)
    return problem.replace(
        offers=tuple(
            dataclasses.replace(offer, **changes) if offer is changed else offer  # type: ignore[arg-type]
            for offer in problem.offers
        )
    )


def _leave(part: Part, site: str) -> Part:
    return dataclasses.replace(part, sites=tuple(name for name in part.sites if name != site))


def _without(owned: Sequence[Owned], offer: str, site: str, count: int) -> tuple[Owned, ...]:
    """Return the owned hosts without so many; those that stay longest go first."""
    there = [hosts for hosts in owned if (hosts.offer, hosts.site) == (offer, site)]
    if sum(hosts.count for hosts in there) < count:
        raise InstanceError(
            f'what if: {count} owned hosts of "{offer}" at "{site}" cannot be lost, there are '
            f"{sum(hosts.count for hosts in there)}; lose at most so many."
        )
    left = {id(hosts): hosts.count for hosts in there}
    for hosts in sorted(there, key=lambda hosts: -hosts.quarters_left):
        lost = min(count, hosts.count)
        left[id(hosts)] -= lost
        count -= lost
    return tuple(
        dataclasses.replace(hosts, count=left.get(id(hosts), hosts.count))
        for hosts in owned
        if left.get(id(hosts), hosts.count) > 0
    )
