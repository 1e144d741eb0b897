"""Plans: what is ordered and when, how the work is served in every scenario, and what is proved."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from alloc.certificate import Certificate
from alloc.problems.answers import Answer
from alloc.serialisation import document_format


@dataclass(frozen=True)
class Order:
    """Hosts bought or reserved.

    Parameters
    ----------
    offer
        Name of the offer.
    site
        Name of the site.
    quarter
        Quarter of the order, counted from 0; they serve after the offer's lead time.
    count
        Number of hosts, 1 or more.
    """

    offer: str
    site: str
    quarter: int
    count: int


@dataclass(frozen=True)
class Rental:
    """Hosts rented by the hour in a band of hours.

    The bands are those of `alloc.problems.right_sizing.bands.bands_of`.

    Parameters
    ----------
    scenario
        Name of the scenario.
    quarter
        Quarter, counted from 0.
    band
        Band of hours, counted from 0.
    offer
        Name of the offer.
    site
        Name of the site.
    hosts
        Mean number of hosts.
    """

    scenario: str
    quarter: int
    band: int
    offer: str
    site: str
    hosts: float


@dataclass(frozen=True)
class Share:
    """Jobs of a class that run in one way at one site.

    Parameters
    ----------
    scenario
        Name of the scenario.
    quarter
        Quarter, counted from 0.
    band
        Band of hours, counted from 0.
    job_class
        Name of the class.
    option
        Position in the class's options, counted from 0.
    site
        Name of the site.
    spot
        Whether on spot hosts.
    jobs_per_hour
        Rate, mean over the hours of the band.
    """

    scenario: str
    quarter: int
    band: int
    job_class: str
    option: int
    site: str
    spot: bool
    jobs_per_hour: float


@dataclass(frozen=True)
class Unserved:
    """Jobs that a waived scenario leaves unserved.

    Parameters
    ----------
    scenario
        Name of the scenario.
    quarter
        Quarter, counted from 0.
    band
        Band of hours; ``None`` for a deferrable class.
    job_class
        Name of the class.
    jobs_per_hour
        Rate, mean over the hours of the band or quarter.
    """

    scenario: str
    quarter: int
    band: int | None
    job_class: str
    jobs_per_hour: float


@dataclass(frozen=True)
class Plan:
    """A plan: one set of orders, and for every scenario how the work is served.

    Parameters
    ----------
    orders
        What is bought and reserved, the same in all scenarios.
    waived
        Names of the scenarios in which work may go unserved.
    rentals
        Hosts rented by the hour.
    shares
        Where and how the jobs run.
    unserved
        Jobs not served, in waived scenarios only.
    """

    orders: tuple[Order, ...]
    waived: tuple[str, ...] = ()
    rentals: tuple[Rental, ...] = field(default=(), repr=False)
    shares: tuple[Share, ...] = field(default=(), repr=False)
    unserved: tuple[Unserved, ...] = field(default=(), repr=False)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the plan as a JSON document, and write it if a path is given."""
        return document_format(Plan).write(self, path)

    @staticmethod
    def from_json(text: str | bytes) -> Plan:
        """Read a plan from the text of a JSON document."""
        return document_format(Plan).parse(text)


@dataclass(frozen=True)
class CostBreakdown:
    """Expected money by what it is spent on; an income is negative.

    Parameters
    ----------
    purchase, reserved, maintenance
        For orders, and owned hosts where they cost.
    on_demand, spot
        For hosts rented by the hour.
    energy, carbon
        For the energy of owned and bought hosts with cooling, and the carbon price on it.
    residual
        What bought hosts are worth at the end of the plan, 0 or less.
    loss
        For jobs that waived scenarios leave unserved.
    """

    purchase: float = 0.0
    reserved: float = 0.0
    maintenance: float = 0.0
    on_demand: float = 0.0
    spot: float = 0.0
    energy: float = 0.0
    carbon: float = 0.0
    residual: float = 0.0
    loss: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all parts."""
        return float(sum(dataclasses.astuple(self)))


@dataclass(frozen=True)
class MarginalValue:
    """What one more unit of something would save in the linear relaxation, hosts in fractions.

    Parameters
    ----------
    kind
        ``budget``, ``rack_units``, ``ports``, ``power_kw``, ``carbon``, ``host`` or ``demand``.
    name
        The site, offer or class; empty for the budget of the whole plan.
    quarter
        Quarter; ``None``: all together.
    unit
        Unit of which there would be one more.
    saving
        Expected discounted money saved, negative if it costs; ``None``: no plan has one more. An
        estimate unless lower and upper are equal to it.
    lower
        Proved to be saved at least; ``None``: nothing is proved.
    upper
        Proved to be saved at most; ``None``: nothing is proved.
    """

    kind: str
    name: str
    quarter: int | None
    unit: str
    saving: float | None
    lower: float | None = None
    upper: float | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the saving is proved, not estimated."""
        return self.saving is None or self.lower == self.saving == self.upper


@dataclass(frozen=True)
class Relief:
    """One limit of an infeasible problem that is given way.

    Parameters
    ----------
    kind
        ``demand``, ``goal``, ``budget``, ``rack_units``, ``ports``, ``power_kw`` or ``carbon``.
    name
        The class or site; empty for budgets and carbon.
    scenario
        The scenario in which it is short, or None if in all.
    quarter
        Quarter; ``None``: all together.
    amount
        How much is missing, rounded up to four digits; 1 for a goal that is given up.
    unit
        Unit of the amount.
    sentence
        The same for people.
    way
        Number of the way out that it belongs to, from 0, the one that gives way least first. All
        reliefs of a way are needed together; one way is enough: each was applied
        (`alloc.problems.right_sizing.repairs.apply_reliefs`), and the problem solved again.
    least
        Whether it is proved that no way of these kinds gives way less: of limits and demand, in
        hosts and to four digits; of goals, that none of those given up can be kept.
    """

    kind: str
    name: str
    scenario: str | None
    quarter: int | None
    amount: float
    unit: str
    sentence: str
    way: int = 0
    least: bool = True


@dataclass(frozen=True)
class PlanResult(Answer[Plan]):
    """A plan with what is proved about it.

    Parameters
    ----------
    plan
        The best plan found, or ``None``.
    certificate
        Its expected discounted cost, and the proved bound.
    costs
        What the cost is made of, discounted; None without a plan.
    assumptions
        What the plan takes for granted.
    marginals
        What one more unit of each resource saves, in the relaxation.
    conflict
        For an infeasible problem, what is missing.
    reliefs
        For an infeasible problem, the limits that may give way; see `Relief.way`.
    log
        What the method reports, one line a step.
    """

    plan: Plan | None
    certificate: Certificate
    costs: CostBreakdown | None = None
    assumptions: tuple[str, ...] = ()
    marginals: tuple[MarginalValue, ...] = ()
    conflict: str | None = None
    reliefs: tuple[Relief, ...] = ()
    log: tuple[str, ...] = ()

    def replace(self, **changes: Any) -> PlanResult:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def ways_out(self) -> tuple[str, ...]:
        """For an infeasible problem, what would be enough: a sentence for each way."""
        ways = dict.fromkeys(relief.way for relief in self.reliefs)
        return tuple(
            "; and ".join(relief.sentence for relief in self.reliefs if relief.way == way)
            for way in ways
        )

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the result as a JSON document, and write it if a path is given."""
        return document_format(PlanResult).write(self, path)

    @staticmethod
    def from_json(text: str | bytes) -> PlanResult:
        """Read a result from the text of a JSON document."""
        return document_format(PlanResult).parse(text)
