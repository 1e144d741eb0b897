"""The planning problem: what can be had, what must be served, and within which limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from alloc.errors import InstanceError, nearest
from alloc.problems import Problem
from alloc.problems.right_sizing.demand import JobClass, Scenario, Tightening
from alloc.problems.right_sizing.offers import HostOffer, Owned
from alloc.problems.right_sizing.series import Series, require_quarterly
from alloc.problems.right_sizing.sites import Site
from alloc.units import require_count, require_finite, require_non_negative, require_positive

PRICES = "prices"
"""Word of a description that says where offers, prices and sites are from."""
# Twenty years, beyond any forecast of demand; and the hours of a week, with a band for each.
_MAX_QUARTERS = 80
_MAX_BANDS = 168
# Probabilities are written with few digits.
_PROBABILITY_TOLERANCE = 1e-6


@dataclass(frozen=True)
class PlanningProblem(Problem):
    """What to buy or rent, where and when, so that a forecast of work meets its goals.

    Parameters
    ----------
    name
        Name for people.
    currency
        Currency of all money, for example "EUR".
    num_quarters
        Quarters planned.
    offers
        Hosts that can be had, names unique.
    sites
        Where they can stand, names unique.
    classes
        Classes of jobs, names unique.
    scenarios
        How the future may go; their probabilities sum to 1.
    owned
        Hosts in service when the plan begins.
    quarter_hours
        Hours in a quarter.
    budget
        Most money spent over all quarters, not discounted: orders, maintenance and the expected
        cost of running, losses of waived scenarios included; None without limit.
    quarter_budgets
        The same for each quarter; empty without limit.
    discount_rate
        Rate per quarter at which later money counts less: quarter t counts ``1 / (1 + rate)**t``.
    carbon_price_per_kg
        Money per kg of carbon dioxide.
    carbon_caps_kg
        Most carbon dioxide in each quarter, kg, in every scenario; empty without limit.
    failures
        Hosts that any pool can lose and still serve: every pool in use keeps so many spare hosts of
        the largest kind counted in it. Hosts rented by the hour are replaced and need none.
    epsilon
        Largest probability of scenarios that may be waived: in them work may go unserved.
    bands
        Most groups into which the hours of the week are put; hours in which everything is equal
        are one group in any case.
    utilisation
        Most load of a pool by classes without a goal, as a fraction.
    pool_gpus
        GPUs that a pool is taken to have when the queueing formula says how full it may be; None:
        the mean load in GPUs shared out over the sites (see `alloc.workload.queueing`).
    tightening
        Where more room is kept than the formula asks for.
    description
        Where the problem comes from; not part of the problem.
    """

    name: str
    currency: str
    num_quarters: int
    offers: tuple[HostOffer, ...]
    sites: tuple[Site, ...]
    classes: tuple[JobClass, ...]
    scenarios: tuple[Scenario, ...]
    owned: tuple[Owned, ...] = ()
    quarter_hours: float = 2190.0
    budget: float | None = None
    quarter_budgets: Series = ()
    discount_rate: float = 0.0
    carbon_price_per_kg: float = 0.0
    carbon_caps_kg: Series = ()
    failures: int = 0
    epsilon: float = 0.0
    bands: int = 4
    utilisation: float = 0.95
    pool_gpus: float | None = None
    tightening: tuple[Tightening, ...] = ()
    description: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        where = f'plan "{self.name}"'
        if not self.currency:
            raise InstanceError(f'{where}: currency is empty; name it, for example "EUR".')
        require_count(self.num_quarters, where, "num_quarters", least=1)
        if self.num_quarters > _MAX_QUARTERS:
            raise InstanceError(
                f"{where}: num_quarters is {self.num_quarters}; plan at most {_MAX_QUARTERS}."
            )
        self._require_numbers(where)
        for kind, parts in (
            ("offer", self.offers),
            ("site", self.sites),
            ("job class", self.classes),
            ("scenario", self.scenarios),
        ):
            _require_names(where, kind, [part.name for part in parts])
        self._require_currency()
        self._require_scenarios(where)
        self._require_known_names()
        for job_class in self.classes:
            self._require_servable(job_class)

    def _require_numbers(self, where: str) -> None:
        require_positive(self.quarter_hours, where, "quarter_hours")
        require_finite(self.discount_rate, where, "discount_rate")
        if not 0 <= self.discount_rate <= 1:
            raise InstanceError(
                f"{where}: discount_rate is {self.discount_rate:g} per quarter; give a fraction "
                "between 0 and 1, for example 0.02."
            )
        require_non_negative(self.carbon_price_per_kg, where, "carbon_price_per_kg")
        if self.budget is not None:
            require_non_negative(self.budget, where, "budget")
        if self.quarter_budgets:
            require_quarterly(
                self.quarter_budgets, self.num_quarters, where, "quarter_budgets", "budget"
            )
        if self.carbon_caps_kg:
            require_quarterly(
                self.carbon_caps_kg, self.num_quarters, where, "carbon_caps_kg", "mass"
            )
        require_count(self.failures, where, "failures")
        require_finite(self.epsilon, where, "epsilon")
        if not 0 <= self.epsilon < 1:
            raise InstanceError(
                f"{where}: epsilon is {self.epsilon:g}; it is a probability, 0 or more and below 1."
            )
        require_count(self.bands, where, "bands", least=1)
        if self.bands > _MAX_BANDS:
            raise InstanceError(
                f"{where}: bands is {self.bands}; a week has {_MAX_BANDS} hours, so give no more."
            )
        require_positive(self.utilisation, where, "utilisation")
        if self.utilisation > 1:
            raise InstanceError(
                f"{where}: utilisation is {self.utilisation:g}; it is a fraction, at most 1."
            )
        if self.pool_gpus is not None:
            require_positive(self.pool_gpus, where, "pool_gpus")

    def _require_currency(self) -> None:
        parts: tuple[HostOffer | Site, ...] = (*self.offers, *self.sites)
        for part in parts:
            if part.currency is not None and part.currency != self.currency:
                kind = "offer" if isinstance(part, HostOffer) else "site"
                raise InstanceError(
                    f'{kind} "{part.name}": its prices are in {part.currency}, and the plan is in '
                    f"{self.currency}; convert them, alloc knows no exchange rates."
                )

    def _require_scenarios(self, where: str) -> None:
        for scenario in self.scenarios:
            scenario.require_quarters(self.num_quarters)
        total = math.fsum(scenario.probability for scenario in self.scenarios)
        if abs(total - 1) > _PROBABILITY_TOLERANCE:
            raise InstanceError(
                f"{where}: the probabilities of its {len(self.scenarios)} scenarios sum to "
                f"{total:.6g}; they must sum to 1."
            )

    def _require_known_names(self) -> None:
        sites, offers = self.site_index, self.offer_index
        for offer in self.offers:
            _require_known(f'offer "{offer.name}"', "site", offer.sites, sites)
        for job_class in self.classes:
            _require_known(f'job class "{job_class.name}"', "site", job_class.sites, sites)
        for hosts in self.owned:
            where = f'owned hosts of offer "{hosts.offer}" at "{hosts.site}"'
            _require_known(where, "offer", (hosts.offer,), offers)
            _require_known(where, "site", (hosts.site,), sites)
            if self.offers[offers[hosts.offer]].is_hourly:
                raise InstanceError(
                    f"{where}: hosts rented by the hour are not owned; name an offer on the terms "
                    "purchase or reserved."
                )
        names = {job_class.name for job_class in self.classes}
        for scenario in self.scenarios:
            where = f'scenario "{scenario.name}"'
            _require_known(where, "job class", scenario.arrivals, names)
            for name in sorted(names - set(scenario.arrivals)):
                raise InstanceError(
                    f'{where}: has no arrivals of job class "{name}"; give its jobs per hour for '
                    "every quarter, 0 if there are none."
                )
        types = {offer.gpu_type for offer in self.offers}
        for part in self.tightening:
            where = f'tightening of "{part.job_class}"'
            _require_known(where, "job class", sorted(part.margin_key.job_classes), names)
            _require_known(where, "site", (part.site,), sites)
            _require_known(where, "GPU type", (part.gpu_type,), types)
            if part.quarter is not None and part.quarter >= self.num_quarters:
                raise InstanceError(
                    f"{where}: quarter is {part.quarter}; the problem has {self.num_quarters} "
                    "quarters, counted from 0."
                )
            if len(part.bands) > self.bands:
                raise InstanceError(
                    f'{where} on "{part.gpu_type}" at "{part.site}": bands has {len(part.bands)} '
                    f"values, and the plan puts hours into at most {self.bands} bands; give one "
                    "for each, or none."
                )

    def _require_servable(self, job_class: JobClass) -> None:
        types = {option.gpu_type for option in job_class.options}
        owned = {(hosts.offer, hosts.site) for hosts in self.owned}
        able = [
            offer
            for offer in self.offers
            if offer.gpu_type in types
            and any(
                job_class.at(site.name)
                and (offer.at(site.name) or (offer.name, site.name) in owned)
                for site in self.sites
            )
        ]
        where = f'job class "{job_class.name}"'
        if not able:
            raise InstanceError(
                f"{where}: no offer has GPUs of its types ({', '.join(sorted(types))}) at a site "
                "where it may run; add an offer, an option or a site."
            )
        if not job_class.interruptible and all(offer.terms == "spot" for offer in able):
            raise InstanceError(
                f"{where}: only spot offers can serve it, and it is not interruptible; add a firm "
                "offer, or let it be interrupted."
            )

    @cached_property
    def known_bands(self) -> list[Any]:
        """The bands of its hours: the memory of `alloc.problems.right_sizing.bands.bands_of`."""
        return []

    @cached_property
    def offer_index(self) -> Mapping[str, int]:
        """Position of each offer by name."""
        return {offer.name: i for i, offer in enumerate(self.offers)}

    @cached_property
    def site_index(self) -> Mapping[str, int]:
        """Position of each site by name."""
        return {site.name: i for i, site in enumerate(self.sites)}

    @cached_property
    def class_index(self) -> Mapping[str, int]:
        """Position of each job class by name."""
        return {job_class.name: i for i, job_class in enumerate(self.classes)}

    @cached_property
    def scenario_index(self) -> Mapping[str, int]:
        """Position of each scenario by name."""
        return {scenario.name: i for i, scenario in enumerate(self.scenarios)}

    def discount(self, quarter: int) -> float:
        """Return what a unit of money in a quarter counts."""
        return float((1 + self.discount_rate) ** -quarter)


def _require_names(where: str, kind: str, names: list[str]) -> None:
    if not names:
        raise InstanceError(f"{where}: has no {kind}; give at least one.")
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InstanceError(f'{where}: {times} parts are {kind} "{name}"; names are unique.')


def _require_known(where: str, kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            raise InstanceError(
                f'{where}: unknown {kind} "{name}"'
                f"{nearest(name, known) or '; known: ' + ', '.join(sorted(known)[:20]) + '.'}"
            )
