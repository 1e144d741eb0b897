"""Plans: what is ordered and when, how the work is served in every scenario."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from os import PathLike

from alloc.serialisation import document_format
from alloc.tabular import Tabular


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
class Plan(Tabular):
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
