"""Accounting: what a plan has in service, needs, draws and costs, from the problem alone.

Plain Python and numpy; the checker, the solver's answer and the reports all use it.

Parameters
----------
problem
    What can be had, what must be served, and within which limits.
plan
    Orders, rentals and shares of classes; its names must be those of the problem.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.problems.right_sizing.bands import Bands, bands_of
from alloc.problems.right_sizing.headroom import (
    headroom,
    margin_parts,
    margins,
    reference_gpus,
    tightening_factors,
)
from alloc.problems.right_sizing.offers import HostOffer
from alloc.problems.right_sizing.plan import CostBreakdown, Plan
from alloc.problems.right_sizing.problem import PlanningProblem

Array = npt.NDArray[np.float64]
Place = tuple[str, str]
"""Names of an offer and a site, or of a GPU type and a site."""
Moment = tuple[str, int, int]
"""Scenario, quarter and band."""

_SENT = 1e-5
"""Part of a class's jobs from which on they are said to be sent to a pool: solvers round."""


@dataclass(frozen=True, eq=False)
class PlanAccount:
    """What a plan comes to.

    Parameters
    ----------
    hosts
        Hosts in service of each (offer, site), by quarter.
    usable
        GPUs of each (GPU type, site) that can be counted on, by quarter: those of its hosts less
        the spare ones.
    busy
        GPUs busy, mean, of each (moment, GPU type, site, spot).
    room
        GPUs needed so that goals are kept, of each (moment, GPU type, site, spot), with the margin
        of the pool.
    rented
        GPUs rented by the hour, of each (moment, GPU type, site, spot).
    costs
        Expected discounted money.
    spent
        Expected money of each quarter, not discounted, shape (quarters,).
    scenario_spent
        Money of each quarter in each scenario, not discounted, shape (scenarios, quarters).
    carbon_kg
        Carbon dioxide in each scenario and quarter, kg, shape (scenarios, quarters).
    """

    hosts: dict[Place, Array]
    usable: dict[Place, Array]
    busy: dict[tuple[Moment, str, str, bool], float]
    room: dict[tuple[Moment, str, str, bool], float]
    rented: dict[tuple[Moment, str, str, bool], float]
    costs: CostBreakdown
    spent: Array
    scenario_spent: Array
    carbon_kg: Array


def account(problem: PlanningProblem, plan: Plan, bands: Bands | None = None) -> PlanAccount:
    """Return what a plan comes to; its names must be those of the problem.

    Parameters
    ----------
    bands
        The bands of hours of the problem, if they are known already.
    """
    return _Ledger(problem, plan, bands_of(problem) if bands is None else bands).close()


def hosts_in_service(problem: PlanningProblem, plan: Plan) -> dict[Place, Array]:
    """Return the hosts in service of each (offer, site), by quarter."""
    found: dict[Place, Array] = defaultdict(lambda: np.zeros(problem.num_quarters))
    for hosts in problem.owned:
        found[hosts.offer, hosts.site][: hosts.quarters_left] += hosts.count
    for order in plan.orders:
        offer = problem.offers[problem.offer_index[order.offer]]
        first = order.quarter + offer.lead_time_quarters
        found[order.offer, order.site][first : first + offer.service_quarters] += order.count
    return dict(found)


def mean_hosts(problem: PlanningProblem, plan: Plan) -> dict[Place, Array]:
    """Return the hosts of each (offer, site) by quarter: in service, or rented by the hour.

    Of rented hosts it is the mean over scenarios and hours.
    """
    found = hosts_in_service(problem, plan)
    likely = {scenario.name: scenario.probability for scenario in problem.scenarios}
    hours = bands_of(problem).hours
    for rental in plan.rentals:
        counts = found.setdefault((rental.offer, rental.site), np.zeros(problem.num_quarters))
        share = float(hours[rental.band] / hours.sum())
        counts[rental.quarter] += likely[rental.scenario] * share * rental.hosts
    return {place: counts for place, counts in found.items() if counts.any()}


def usable_gpus(problem: PlanningProblem, hosts: dict[Place, Array]) -> dict[Place, Array]:
    """Return the GPUs of each (GPU type, site) that can be counted on, by quarter.

    With spare hosts, those larger than a size may be left out of account, if that pays: the spare
    hosts are as large as the largest one counted.

    Parameters
    ----------
    hosts
        Hosts of each (offer, site), shape (quarters,).
    """
    sizes: dict[Place, dict[int, Array]] = defaultdict(dict)
    for (name, site), count in hosts.items():
        offer = problem.offers[problem.offer_index[name]]
        level = sizes[offer.gpu_type, site]
        level[offer.gpus] = level.get(offer.gpus, 0.0) + count * offer.gpus
    found = {}
    for place, levels in sizes.items():
        best = np.zeros(problem.num_quarters)
        total = np.zeros(problem.num_quarters)
        for size in sorted(levels):
            total = total + levels[size]
            best = np.maximum(best, total - problem.failures * size)
        found[place] = best
    return found


class _Ledger:
    """Books money, energy and carbon, scenario by scenario and quarter by quarter."""

    def __init__(self, problem: PlanningProblem, plan: Plan, bands: Bands) -> None:
        self.problem, self.plan, self.bands = problem, plan, bands
        self.hosts = hosts_in_service(problem, plan)
        self.shape = (len(problem.scenarios), problem.num_quarters)
        self.probability = np.array([s.probability for s in problem.scenarios])
        self.discount = np.array([problem.discount(t) for t in range(problem.num_quarters)])
        self.money: dict[str, Array] = defaultdict(lambda: np.zeros(self.shape))
        self.carbon = np.zeros(self.shape)

    def close(self) -> PlanAccount:
        residual = self._orders()
        self._standing()
        rented = self._rentals()
        busy, room = self._loads()
        self._energy(busy, rented)
        self._losses()
        weight = self.probability[:, None] * self.discount
        expected = {name: float((weight * value).sum()) for name, value in self.money.items()}
        end = self.problem.discount(self.problem.num_quarters)
        total = sum(self.money.values(), np.zeros(self.shape))
        return PlanAccount(
            self.hosts,
            usable_gpus(self.problem, self.hosts),
            busy,
            room,
            rented,
            CostBreakdown(**expected, residual=-end * residual),
            self.probability @ total,
            total,
            self.carbon,
        )

    def _offer(self, name: str) -> HostOffer:
        return self.problem.offers[self.problem.offer_index[name]]

    def _orders(self) -> float:
        """Book what is bought; return what is left of it at the end."""
        residual = 0.0
        for order in self.plan.orders:
            offer = self._offer(order.offer)
            if offer.terms != "purchase":
                continue
            self.money["purchase"][:, order.quarter] += order.count * offer.price
            end = order.quarter + offer.lead_time_quarters + offer.service_quarters
            left = min(max(end - self.problem.num_quarters, 0), offer.service_quarters)
            share = left / offer.service_quarters
            residual += order.count * offer.price * offer.residual_fraction * share
        return residual

    def _standing(self) -> None:
        """Book reservations, maintenance, and what hosts draw without load."""
        for (name, site), count in self.hosts.items():
            offer = self._offer(name)
            if offer.terms == "reserved":
                self.money["reserved"] += count * offer.price
            self.money["maintenance"] += count * offer.maintenance_per_quarter
            for band, hours in enumerate(self.bands.hours):
                kwh = count * offer.idle_kw * float(hours)
                self._draw(site, band, slice(None), slice(None), kwh)

    def _draw(
        self, site: str, band: int, scenario: int | slice, quarter: int | slice, kwh: float | Array
    ) -> None:
        """Book energy that hosts draw; the site draws PUE times as much."""
        s = self.problem.site_index[site]
        kwh = kwh * self.problem.sites[s].pue
        carbon = kwh * float(self.bands.carbon[s, band])
        self.money["energy"][scenario, quarter] += kwh * float(self.bands.energy_price[s, band])
        self.money["carbon"][scenario, quarter] += carbon * self.problem.carbon_price_per_kg
        self.carbon[scenario, quarter] += carbon

    def _rentals(self) -> dict[tuple[Moment, str, str, bool], float]:
        rented: dict[tuple[Moment, str, str, bool], float] = defaultdict(float)
        for rental in self.plan.rentals:
            offer = self._offer(rental.offer)
            spot = offer.terms == "spot"
            moment = rental.scenario, rental.quarter, rental.band
            rented[moment, offer.gpu_type, rental.site, spot] += rental.hosts * offer.gpus
            at = self.problem.scenario_index[rental.scenario], rental.quarter
            hours = float(self.bands.hours[rental.band])
            self.money["spot" if spot else "on_demand"][at] += rental.hosts * hours * offer.price
        return dict(rented)

    def _loads(self) -> tuple[dict[tuple[Moment, str, str, bool], float], ...]:
        busy: dict[tuple[Moment, str, str, bool], float] = defaultdict(float)
        room: dict[tuple[Moment, str, str, bool], float] = defaultdict(float)
        pool_gpus, factors = reference_gpus(self.problem), tightening_factors(self.problem)
        known: dict[tuple[str, int, bool], float | None] = {}
        for share in self.plan.shares:
            job_class = self.problem.classes[self.problem.class_index[share.job_class]]
            option = job_class.options[share.option]
            kind = share.job_class, share.option, share.spot
            if kind not in known:
                known[kind] = headroom(self.problem, job_class, share.option, pool_gpus, share.spot)
            load = share.jobs_per_hour * option.gpu_hours
            if share.spot:
                load *= 1 + job_class.spot_overhead
            moment = share.scenario, share.quarter, share.band
            key = moment, option.gpu_type, share.site, share.spot
            busy[key] += load
            factor = factors.get((share.job_class, *key[1:]), 1.0)
            # An option too slow for the goal needs no room that would help.
            room[key] += load * factor * (known[kind] or 1.0)
        parts = margin_parts(self.problem, self.bands.count)
        for (quarter, gpu_type, site, spot), margin in self._margins().items():
            for scenario in self.problem.scenarios:
                for band, part in enumerate(parts[gpu_type, site, spot]):
                    room[(scenario.name, quarter, band), gpu_type, site, spot] += part * margin
        return dict(busy), dict(room)

    def _margins(self) -> dict[tuple[int, str, str, bool], float]:
        """Return the margin of each (quarter, GPU type, site, spot) to which such jobs are sent."""
        sent: defaultdict[tuple[int, str, str, bool], set[str]] = defaultdict(set)
        most = {
            name: max(max(s.arrivals[name]) for s in self.problem.scenarios)
            for name in self.problem.class_index
        }
        for share in self.plan.shares:
            job_class = self.problem.classes[self.problem.class_index[share.job_class]]
            gpu_type = job_class.options[share.option].gpu_type
            if share.jobs_per_hour > _SENT * most[share.job_class]:
                sent[share.quarter, gpu_type, share.site, share.spot].add(share.job_class)
        found: dict[tuple[int, str, str, bool], float] = {}
        for key, by_quarter in margins(self.problem).items():
            for quarter, margin in enumerate(by_quarter):
                pool = quarter, key.gpu_type, key.site, key.spot
                if key.job_classes <= sent[pool]:
                    found[pool] = max(found.get(pool, 0.0), margin)
        return found

    def _energy(
        self,
        busy: dict[tuple[Moment, str, str, bool], float],
        rented: dict[tuple[Moment, str, str, bool], float],
    ) -> None:
        """Book what firm hosts draw under load: rented ones are busy first, then the thriftiest."""
        standing: dict[Place, list[tuple[float, HostOffer, Array]]] = defaultdict(list)
        for (name, site), count in self.hosts.items():
            offer = self._offer(name)
            kw = (offer.busy_kw - offer.idle_kw) / offer.gpus
            standing[offer.gpu_type, site].append((kw, offer, count))
        for rows in standing.values():
            rows.sort(key=lambda row: row[0])
        for key, load in busy.items():
            (scenario, quarter, band), gpu_type, site, spot = key
            if spot:
                continue
            left = load - rented.get(key, 0.0)
            kwh = 0.0
            for kw, offer, count in standing.get((gpu_type, site), ()):
                if left <= 0:
                    break
                served = min(left, float(count[quarter]) * offer.gpus)
                kwh += served * kw * float(self.bands.hours[band])
                left -= served
            self._draw(site, band, self.problem.scenario_index[scenario], quarter, kwh)

    def _losses(self) -> None:
        total = float(self.bands.hours.sum())
        for part in self.plan.unserved:
            job_class = self.problem.classes[self.problem.class_index[part.job_class]]
            hours = total if part.band is None else float(self.bands.hours[part.band])
            at = self.problem.scenario_index[part.scenario], part.quarter
            self.money["loss"][at] += part.jobs_per_hour * hours * job_class.loss_per_job
