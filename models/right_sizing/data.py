"""The data of right-sizing: a planning problem as pools, host groups, modes and rates.

Both models, and the methods in `alloc.solving.right_sizing`, read these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.models.right_sizing.margins import Destination, Margin, margins_of, parts_of
from alloc.models.right_sizing.parts import HostGroup, Level, Mode, Pool, PowerKind, RentalOption
from alloc.models.right_sizing.units import unit_of
from alloc.problems.right_sizing.bands import Bands, bands_of
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.headroom import (
    KEPT_OUT,
    headroom,
    reference_gpus,
    tightening_factors,
)
from alloc.problems.right_sizing.offers import HostOffer
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.problems.right_sizing.sites import SITE_LIMITS, Site

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BEYOND_USE = 1e-6
"""Part by which a host of more GPUs than its pool is ever asked for still exceeds that: for
rounding, and so little that a part of a host opens no more than that part of the pool."""


class SizingData:
    """A planning problem, numbered, in units in which its demand is neither huge nor tiny.

    GPUs are counted in `gpu_unit`, hosts that are owned or ordered in `host_unit`; money, energy,
    carbon and what sites hold are not. Where all demand together is less than a GPU, a solver's
    tolerances, 1e-7, would else be a visible part of it or all; where it is more than a billion
    GPUs, its rounding would. Powers of two are exact.

    Parameters
    ----------
    problem
        The problem.
    like
        Data of a problem that differs in its scenarios only, whose bands and pools to take.
    spared
        Whether there is room for the hosts that orders are rounded up by, and owned hosts that may
        fail are left out: where there are billions of hosts, bounds do without, and plans cannot.
    """

    def __init__(
        self, problem: PlanningProblem, like: SizingData | None = None, spared: bool = False
    ) -> None:
        self.problem = problem
        self.bands: Bands = bands_of(problem) if like is None else like.bands
        self.num_quarters = problem.num_quarters
        self.pool_gpus: float = reference_gpus(problem) if like is None else like.pool_gpus
        """GPUs that a pool is taken to have in the queueing formula."""
        self.base = np.array([min(o.gpu_hours for o in c.options) for c in problem.classes])
        """GPU-hours of a job in each class's leanest option, shape (classes,)."""
        arrivals = [[s.arrivals[c.name] for c in problem.classes] for s in problem.scenarios]
        demand = np.array(arrivals).transpose(0, 2, 1) * self.base
        self.gpu_unit: float = (
            unit_of(float(demand.sum(axis=2).max())) if like is None else like.gpu_unit
        )
        """GPUs in the unit in which demand, room and rented hosts are counted, a power of two."""
        self.host_unit = max(self.gpu_unit, 1.0)
        """Hosts in the unit in which they are owned and ordered; 1 where they are whole numbers."""
        self.spares = problem.failures if self.host_unit == 1 else 0
        """Hosts that may fail; beside billions they count only in what is ordered in the end."""
        self.demand = demand / self.gpu_unit
        """Mean demand, GPUs of the leanest option, shape (scenarios, quarters, classes)."""
        self.spot_available = np.array(
            [s.spot_availability or (1.0,) * self.num_quarters for s in problem.scenarios]
        )
        """Fraction of spot hosts to be had, shape (scenarios, quarters)."""
        self.probability = np.array([s.probability for s in problem.scenarios])
        self.discount = np.array([problem.discount(t) for t in range(self.num_quarters)])
        self.rounded_up = 1 + problem.failures if self.host_unit > 1 else 0
        """Hosts that come on top of each order: for rounding, and those that are spare."""
        self.kept_free = self.rounded_up if spared else 0
        """Hosts for which there must be room beside each order."""
        self._owned = self._owned_hosts(problem.failures if spared else 0)
        self.pools: tuple[Pool, ...] = self._pools()
        self._pool_of = {(p.gpu_type, p.site): i for i, p in enumerate(self.pools)}
        self.host_groups: tuple[HostGroup, ...] = self._host_groups()
        self.rental_options: tuple[RentalOption, ...] = self._rental_options()
        self.modes: tuple[Mode, ...] = self._modes()
        self.destinations: tuple[Destination, ...]
        self.margins: tuple[Margin, ...]
        may_run = {(w.job_class, w.pool, w.spot) for w in self.modes}
        self.destinations, self.margins = margins_of(problem, self._pool_of, may_run, self.gpu_unit)
        self.with_margin = tuple(sorted({(d.pool, d.spot) for d in self.destinations}))
        """Pools with a margin, and whether it is for their spot hosts."""
        self.margin_parts = parts_of(problem, self.bands.count, self._pool_of, self.with_margin)
        """Part of its margin that each of these keeps in each band."""
        self.kinds: tuple[PowerKind, ...] = self._kinds()
        self.levels: tuple[Level, ...] = self._levels()

    def offer(self, group: HostGroup) -> HostOffer:
        """Return the offer of a group."""
        return self.problem.offers[group.offer]

    def host_gpus(self, group: HostGroup) -> float:
        """Return the GPUs of a host of a group, without those that its pool is never asked for.

        With any hosts failing, a pool then serves all that it served before.
        """
        gpus = self.offer(group).gpus * (self.host_unit / self.gpu_unit)
        return min(gpus, self._gpus_of_use(group.pool))

    def _gpus_of_use(self, pool: int) -> float:
        """Return the GPUs that a pool may be asked for, infinite where it never is."""
        of_use = float(self.max_gpus[pool].max()) * (1 + _BEYOND_USE)
        return of_use if of_use > 0 else math.inf

    # What there is ---------------------------------------------------------------------------

    def _owned_hosts(self, spares: int) -> dict[tuple[int, int], Array]:
        found: dict[tuple[int, int], Array] = defaultdict(lambda: np.zeros(self.num_quarters))
        for hosts in self.problem.owned:
            key = self.problem.offer_index[hosts.offer], self.problem.site_index[hosts.site]
            count = max(hosts.count - spares, 0)
            found[key][: hosts.quarters_left] += count / self.host_unit
        return found

    def _wanted(self) -> set[tuple[str, int]]:
        """Return the (GPU type, site) where some class may run."""
        return {
            (option.gpu_type, s)
            for c in self.problem.classes
            for option in c.options
            for s, site in enumerate(self.problem.sites)
            if c.at(site.name)
        }

    def _pools(self) -> tuple[Pool, ...]:
        wanted = self._wanted()
        found = {
            (offer.gpu_type, s): None
            for s, site in enumerate(self.problem.sites)
            for i, offer in enumerate(self.problem.offers)
            if (i, s) in self._owned
            or (offer.at(site.name) and offer.most_hosts != 0 and (offer.gpu_type, s) in wanted)
        }
        return tuple(Pool(*key) for key in found)

    def _host_groups(self) -> tuple[HostGroup, ...]:
        wanted = self._wanted()
        found = []
        for s, site in enumerate(self.problem.sites):
            for i, offer in enumerate(self.problem.offers):
                if offer.is_hourly:
                    continue
                can_order = (
                    offer.at(site.name)
                    and offer.most_hosts != 0
                    and offer.lead_time_quarters < self.num_quarters
                    and (offer.gpu_type, s) in wanted
                    and not (self.kept_free and self._is_scarce(offer, site))
                )
                if can_order or (i, s) in self._owned:
                    owned = self._owned.get((i, s), np.zeros(self.num_quarters))
                    pool = self._pool_of[offer.gpu_type, s]
                    found.append(HostGroup(i, s, pool, owned, can_order))
        return tuple(found)

    def _is_scarce(self, offer: HostOffer, site: Site) -> bool:
        """Return whether there is less room than for a unit of hosts.

        A solver hardly tells so few from none, and those that come on top would be many of them.
        """
        if offer.most_hosts is not None and offer.most_hosts < self.host_unit:
            return True
        limits = ((getattr(site, field), offer.takes_up(field, site.pue)) for field in SITE_LIMITS)
        return any(limit is not None and limit < each * self.host_unit for limit, each in limits)

    def _rental_options(self) -> tuple[RentalOption, ...]:
        found = []
        for (gpu_type, s), pool in self._pool_of.items():
            site = self.problem.sites[s]
            for spot in (False, True):
                rows = [
                    RentalOption(
                        i,
                        s,
                        pool,
                        spot,
                        o.gpus,
                        o.price * self.gpu_unit,
                        math.inf if o.most_hosts is None else o.most_hosts / self.gpu_unit,
                    )
                    for i, o in enumerate(self.problem.offers)
                    if o.terms == ("spot" if spot else "on_demand")
                    and o.gpu_type == gpu_type
                    and o.at(site.name)
                    and o.most_hosts != 0
                ]
                # Of offers without limit, hosts being counted in fractions, the cheapest per GPU
                # is all that anybody rents.
                rows.sort(key=lambda rental: rental.price / rental.gpus)
                for rental in rows:
                    found.append(rental)
                    if math.isinf(rental.most):
                        break
        return tuple(found)

    def _modes(self) -> tuple[Mode, ...]:
        firm = {group.pool for group in self.host_groups} | {
            h.pool for h in self.rental_options if not h.spot
        }
        spot = {h.pool for h in self.rental_options if h.spot}
        factors = tightening_factors(self.problem)
        found = []
        for c, job_class in enumerate(self.problem.classes):
            if not self.demand[:, :, c].any():
                continue
            for p, pool in enumerate(self.pools):
                site = self.problem.sites[pool.site].name
                if not job_class.at(site):
                    continue
                for on_spot in (False, True) if job_class.interruptible else (False,):
                    factor = factors.get((job_class.name, pool.gpu_type, site, on_spot), 1.0)
                    if p in (spot if on_spot else firm) and factor < KEPT_OUT:
                        found += self._best(c, job_class, p, on_spot, factor)
        return tuple(found)

    def _best(
        self, c: int, job_class: JobClass, pool: int, spot: bool, factor: float
    ) -> list[Mode]:
        """Return the options of a class in a pool that no other beats in GPUs busy and needed."""
        modes = []
        for k, option in enumerate(job_class.options):
            if option.gpu_type != self.pools[pool].gpu_type:
                continue
            room = headroom(self.problem, job_class, k, self.pool_gpus, spot)
            if room is not None:
                overhead = 1 + job_class.spot_overhead if spot else 1.0
                busy = option.gpu_hours / float(self.base[c]) * overhead
                modes.append(Mode(c, k, pool, spot, busy, room * factor))
        modes.sort(key=lambda w: (w.gpus_per_unit, w.gpus_per_unit * w.room))
        kept: list[Mode] = []
        for mode in modes:
            if all(w.gpus_per_unit * w.room > mode.gpus_per_unit * mode.room for w in kept):
                kept.append(mode)
        return kept

    def _kinds(self) -> tuple[PowerKind, ...]:
        found: dict[tuple[int, float], list[int]] = defaultdict(list)
        for k, group in enumerate(self.host_groups):
            offer = self.offer(group)
            kw = (offer.busy_kw - offer.idle_kw) / offer.gpus * self.problem.sites[group.site].pue
            kw *= self.gpu_unit
            found[group.pool, kw].append(k)
        return tuple(PowerKind(pool, kw, tuple(at)) for (pool, kw), at in sorted(found.items()))

    def _levels(self) -> tuple[Level, ...]:
        found: list[Level] = []
        for p in range(len(self.pools)):
            by_size: dict[float, list[int]] = defaultdict(list)
            here = [k for k, group in enumerate(self.host_groups) if group.pool == p]
            for k, size in zip(here, self._sizes(here), strict=True):
                by_size[size].append(k)
            sizes = sorted(by_size, reverse=True)
            for i, size in enumerate(sizes):
                smaller = sizes[i + 1] if i + 1 < len(sizes) else 0
                found.append(Level(p, size, size - smaller, tuple(by_size[size])))
        return tuple(found)

    def _sizes(self, groups: list[int]) -> list[float]:
        """Return the GPUs that hosts of the groups of a pool count with in (C5)."""
        at = [self.host_groups[k] for k in groups]
        whole = [self.offer(group).gpus for group in at]
        if self.spares < 2 or len(set(whole)) < 2:
            return [self.host_gpus(group) for group in at]
        # (C5) takes all spare hosts to be as large as the largest, so how much larger it is counts.
        # What is left over is a multiple of the common divisor, which no pool has to be asked for.
        common = math.gcd(*whole) / self.gpu_unit
        part = min(self._gpus_of_use(at[0].pool) / common, 1.0)
        return [gpus / self.gpu_unit * part for gpus in whole]

    # Money and energy -------------------------------------------------------------------------

    @cached_property
    def energy_cost(self) -> Array:
        """Money for a kWh with its carbon, shape (sites, bands)."""
        return np.asarray(
            self.bands.energy_price + self.problem.carbon_price_per_kg * self.bands.carbon
        )

    @cached_property
    def idle_kw(self) -> Array:
        """Power of an idle host with cooling, kW, shape (host_groups,)."""
        sites = self.problem.sites
        each = [self.offer(s).idle_kw * sites[s.site].pue for s in self.host_groups]
        return np.array(each) * self.host_unit

    @cached_property
    def running_cost(self) -> Array:
        """Money for a host in service for a quarter: idle energy and upkeep, (host_groups,)."""
        sites = [group.site for group in self.host_groups]
        hourly = self.energy_cost[sites] @ self.bands.hours if sites else np.zeros(0)
        fixed = [self.offer(group).maintenance_per_quarter for group in self.host_groups]
        return np.asarray(self.idle_kw * hourly + np.array(fixed) * self.host_unit)

    @cached_property
    def idle_carbon(self) -> Array:
        """Carbon dioxide of an idle host in a quarter, kg, shape (host_groups,)."""
        sites = [group.site for group in self.host_groups]
        return np.asarray(self.idle_kw * (self.bands.carbon[sites] @ self.bands.hours))

    def reserved_cost(self, group: int) -> float:
        """Money for a host in service for a quarter by its reservation."""
        offer = self.offer(self.host_groups[group])
        return offer.price * self.host_unit if offer.terms == "reserved" else 0.0

    def order_cost(self, group: int, quarter: int) -> float:
        """Money for a host when it is ordered, 0 for reservations.

        Parameters
        ----------
        group
            Position of the host group.
        quarter
            Quarter of the order, from 0.
        """
        offer = self.offer(self.host_groups[group])
        return offer.price * self.host_unit if offer.terms == "purchase" else 0.0

    def residual(self, group: int, quarter: int) -> float:
        """Return what a host ordered in a quarter is worth at the end of the plan.

        Parameters
        ----------
        group
            Position of the host group.
        quarter
            Quarter of the order, from 0.
        """
        offer = self.offer(self.host_groups[group])
        if offer.terms != "purchase":
            return 0.0
        left = quarter + offer.lead_time_quarters + offer.service_quarters - self.num_quarters
        share = min(max(left / offer.service_quarters, 0.0), 1.0)
        return offer.price * self.host_unit * offer.residual_fraction * share

    def in_service(self, group: int, quarter: int) -> range:
        """Return the quarters in which a host ordered in a quarter is in service.

        Parameters
        ----------
        group
            Position of the host group.
        quarter
            Quarter of the order, from 0.
        """
        offer = self.offer(self.host_groups[group])
        first = quarter + offer.lead_time_quarters
        return range(first, min(first + offer.service_quarters, self.num_quarters))

    # What is needed at most -------------------------------------------------------------------

    @cached_property
    def at_once(self) -> Array:
        """Most of a class's demand in each band over its mean, shape (classes, bands).

        A deferrable class may come all in one band.
        """
        total = self.bands.hours.sum()
        found = self.bands.arrivals.copy()
        for c, job_class in enumerate(self.problem.classes):
            if job_class.deferrable:
                found[c] = total / self.bands.hours
        return np.asarray(found)

    @cached_property
    def demand_in_band(self) -> Array:
        """Most demand of each class in each band, GPUs of the leanest option, (classes, bands)."""
        return np.asarray(self.demand.max(axis=(0, 1))[:, None] * self.at_once)

    @cached_property
    def max_gpus(self) -> Array:
        """GPUs beyond which more firm ones in a pool are of no use, shape (pools, quarters)."""
        each = np.zeros((len(self.pools), len(self.problem.classes)))
        for mode in self.modes:
            if not mode.spot:
                need = mode.gpus_per_unit * mode.room
                each[mode.pool, mode.job_class] = max(each[mode.pool, mode.job_class], need)
        need = np.einsum("wtc,cb,pc->wtpb", self.demand, self.at_once, each, optimize=True)
        return np.asarray(need.max(axis=(0, 3), initial=0.0).T + self.max_margin(False))

    def margin_of(self, pool: int, spot: bool) -> int:
        """Return the position of a pool among those with a margin.

        Parameters
        ----------
        pool
            Position of the pool.
        spot
            Whether its spot part is meant.
        """
        return self.with_margin.index((pool, spot))

    def margins_kept(self, sent: Array) -> Array:
        """Return the margins that pools keep, shape (pools with one, quarters).

        `sent` says where jobs are sent, shape (destinations, quarters).
        """
        found = np.zeros((len(self.with_margin), self.num_quarters))
        for margin in self.margins:
            at = self.place_of(margin)
            kept = np.array(margin.gpus) * sent[list(margin.destinations)].min(axis=0)
            found[at] = np.maximum(found[at], kept)
        return found

    def place_of(self, margin: Margin) -> int:
        """Return the position of a margin's pool among those with one."""
        at = self.destinations[margin.destinations[0]]
        return self.margin_of(at.pool, at.spot)

    def max_margin(self, spot: bool) -> Array:
        """Return the largest margin of each pool, GPUs, shape (pools, quarters)."""
        found = np.zeros((len(self.pools), self.num_quarters))
        for margin in self.margins:
            pool, of_spot = self.with_margin[self.place_of(margin)]
            if of_spot == spot:
                found[pool] = np.maximum(found[pool], margin.gpus)
        return found

    @cached_property
    def spot_gpus(self) -> Array:
        """GPUs to be had on spot hosts in any scenario, shape (pools, quarters)."""
        found = np.zeros((len(self.pools), self.num_quarters))
        for rental in self.rental_options:
            if rental.spot and math.isinf(rental.most):
                found[rental.pool] = np.inf
            elif rental.spot:
                found[rental.pool] += rental.gpus * rental.most * self.spot_available.min(axis=0)
        return found

    def max_ordered(self, group: int) -> int:
        """Return a number of hosts of a group beyond which more are never of use.

        The limits of the site are left to their rows: a bound that says the same would share their
        dual value, and a scarce rack unit would look free.
        """
        at = self.host_groups[group]
        useful = math.ceil(float(self.max_gpus[at.pool].max()) / self.host_gpus(at) + 1e-9)
        return useful + self.spares
