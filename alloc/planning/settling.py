"""Settling: the hosts that a plan needs while its jobs stay where they are.

A solve with buffers moves jobs about, and each mix of jobs requires other capacity than the one its
buffers were measured by. Once it is known where jobs go, what every pool requires is known too, in
each scenario, quarter and band of hours; left to decide is how many hosts are ordered and rented: a
small integer program, separate for each pool but for what sites hold. So a plan gets all it
requires at once, and a pool that kept its goals looks the same in the next replay.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.families import family_of
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.first_stage import first_stage
from alloc.planning.buffers import Knowledge
from alloc.planning.capacity import gpus_to_ask
from alloc.planning.pools import Operation, Pool, Regime, operations_of
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.plan import Order, Plan, Rental, Share
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Limits, Result
from alloc.solving.certify import certify
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.right_sizing.state import BACKEND
from alloc.verification.right_sizing import verify_plan

# Prices of the dearest GPU that a GPU costs which a pool requires and cannot have: any host that
# can be had is cheaper, and costs of so many digits are no trouble to a solver.
_PENALTY = 10.0
# Relative gap of the hosts: a tenth of that of the plans.
_GAP = 1e-3
# Rates that are no jobs, relative to those that there are.
_ROUND_OFF = 1e-9

Needs = dict[tuple[Pool, Regime], float]
"""GPUs that a pool is to have in a regime."""


def settled(
    problem: PlanningProblem, knowledge: Knowledge, result: Result[Plan], seconds: float
) -> Result[Plan] | None:
    """Return a plan with the hosts that its pools require, its jobs staying where they are.

    Parameters
    ----------
    problem
        The problem that the plan is of, without buffers; that of the result.
    knowledge
        What is known of what pools require.
    result
        The plan.
    seconds
        Wall time of the integer program, more than 0.

    Returns
    -------
    Result or None
        Checked, and without a bound; None where sites have no room, or other limits are broken.
    """
    limits = Limits(seconds=seconds)
    plan = Settling(problem, knowledge).settle(result.require_solution(), limits.seconds)
    if plan is None or verify_plan(problem, plan):
        return None
    outcome = Outcome(plan, -math.inf, "none", BACKEND, highs.version(), limit="time")
    return certify(family_of(problem), problem, "cost", outcome, Settings.of(limits))


class Settling:
    """Settles plans of a problem.

    Parameters
    ----------
    problem
        The problem, without buffers.
    knowledge
        What is known of what pools require.
    """

    def __init__(self, problem: PlanningProblem, knowledge: Knowledge) -> None:
        self.problem, self.knowledge = problem, knowledge
        self.data = SizingData(problem)
        self.first = first_stage(self.data)

    def settle(self, plan: Plan, seconds: float) -> Plan | None:
        """Return the plan with the hosts that its pools require, or None if there is none."""
        plan = self._within_spot(plan)
        rooms = {
            (Pool(gpu_type, site, spot), Regime(*moment)): gpus
            for (moment, gpu_type, site, spot), gpus in account(self.problem, plan).room.items()
        }
        needs = dict(rooms)
        for at, (_, gpus) in self._required(operations_of(self.problem, plan)).items():
            needs[at] = max(needs.get(at, 0.0), gpus)
        return self._with_hosts(plan, needs, rooms, seconds)

    # What is required -------------------------------------------------------------------------

    def _required(
        self, operations: Sequence[Operation]
    ) -> dict[tuple[Pool, Regime], tuple[Operation, float]]:
        """Return what pools with a goal require in each regime."""
        found = {}
        for one in operations:
            if one.has_goal:
                size = max(one.hosts, default=0) or self._host_gpus(one.pool)
                gpus = gpus_to_ask(one.streams, self.knowledge.required(one), size)
                found[one.pool, one.regime] = one, gpus
        return found

    def _host_gpus(self, pool: Pool) -> int:
        site = self.problem.site_index[pool.site]
        sizes = [
            self.problem.offers[o.offer].gpus
            for o in (*self.data.host_groups, *self.data.rental_options)
            if self.problem.offers[o.offer].gpu_type == pool.gpu_type and o.site == site
        ]
        return max(sizes, default=1)

    # Spot hosts -------------------------------------------------------------------------------

    def _spot_gpus(self) -> dict[tuple[Pool, str, int], float]:
        """Return the GPUs to be had on spot hosts by pool, scenario and quarter."""
        found: dict[tuple[Pool, str, int], float] = defaultdict(float)
        for rental in self.data.rental_options:
            if rental.spot:
                pool = self._pool(rental.pool, spot=True)
                for w, scenario in enumerate(self.problem.scenarios):
                    for t in range(self.data.num_quarters):
                        part = self.data.spot_available[w, t] if math.isfinite(rental.most) else 1
                        had = rental.gpus * rental.most * part * self.data.gpu_unit
                        found[pool, scenario.name, t] += had
        return found

    def _pool(self, position: int, *, spot: bool) -> Pool:
        pool = self.data.pools[position]
        return Pool(pool.gpu_type, self.problem.sites[pool.site].name, spot)

    def _within_spot(self, plan: Plan) -> Plan:
        """Return a plan in which pools of spot hosts have room for what they require.

        Where they have not, a part of every class goes to where most of it runs on firm hosts.
        """
        had = self._spot_gpus()
        stays: dict[tuple[Pool, Regime], float] = {}
        spot = [one for one in operations_of(self.problem, plan) if one.pool.spot]
        for at, (operation, gpus) in self._required(spot).items():
            most = had[at[0], at[1].scenario, at[1].quarter]
            gang = max(stream.gpus for stream in operation.streams)
            if gpus > most:
                beyond = max(gpus - operation.load, 0.0)
                root = math.sqrt(beyond**2 + 4 * operation.load * most) - beyond
                stays[at] = (root / (2 * operation.load)) ** 2 if most >= gang else 0.0
        if not stays:
            return plan
        firm: dict[str, dict[tuple[int, str], float]] = defaultdict(lambda: defaultdict(float))
        for share in plan.shares:
            if not share.spot:
                firm[share.job_class][share.option, share.site] += share.jobs_per_hour
        shares: dict[tuple[object, ...], Share] = {}

        def add(share: Share) -> None:
            key = tuple(
                getattr(share, name)
                for name in ("scenario", "quarter", "band", "job_class", "option", "site", "spot")
            )
            rate = share.jobs_per_hour
            if key in shares:
                rate += shares[key].jobs_per_hour
            shares[key] = replace(share, jobs_per_hour=rate)

        for share in plan.shares:
            job_class = self.problem.classes[self.problem.class_index[share.job_class]]
            pool = Pool(job_class.options[share.option].gpu_type, share.site, share.spot)
            part = stays.get((pool, Regime(share.scenario, share.quarter, share.band)), 1.0)
            places = firm[share.job_class]
            if part >= 1 or not places:
                add(share)
                continue
            if part > 0:
                add(replace(share, jobs_per_hour=part * share.jobs_per_hour))
            option, site = max(places, key=lambda place: places[place])
            rate = (1 - part) * share.jobs_per_hour
            add(replace(share, option=option, site=site, spot=False, jobs_per_hour=rate))
        return replace(plan, shares=tuple(shares.values()))

    # Hosts ------------------------------------------------------------------------------------

    def _with_hosts(
        self, plan: Plan, needs: Needs, rooms: Needs, seconds: float
    ) -> Plan | None:
        """Return a plan with the cheapest hosts that give pools what they need."""
        data, first, problem = self.data, self.first, self.problem
        rentals: list[Rental] = []
        pools = {self._pool(p, spot=False): p for p in range(len(data.pools))}
        options: dict[Pool, list[int]] = defaultdict(list)
        for h, rental in enumerate(data.rental_options):
            options[self._pool(rental.pool, spot=rental.spot)].append(h)
        hours = data.bands.hours
        had = self._spot_gpus()
        columns: list[tuple[float, float]] = []
        names: list[tuple[int, Regime]] = []
        rows: list[tuple[list[tuple[int, float]], float]] = []
        begin = len(first.cost)
        most_of: dict[tuple[Pool, int], float] = defaultdict(float)
        dearest = max(
            [o.price / o.gpus * (1 if o.is_hourly else 1 / problem.quarter_hours) for o in problem.offers]
        )
        for (pool, regime), gpus in needs.items():
            if pool.spot:
                left = gpus
                for h in options[pool]:
                    rental = data.rental_options[h]
                    w = problem.scenario_index[regime.scenario]
                    part = data.spot_available[w, regime.quarter] if math.isfinite(rental.most) else 1
                    hosts = min(left / rental.gpus, rental.most * part * data.gpu_unit)
                    if hosts > 0:
                        rentals.append(self._rental(h, regime, hosts))
                        left -= hosts * rental.gpus
                continue
            if not options[pool]:
                at = pool, regime.quarter
                most_of[at] = max(most_of[at], gpus)
                continue
            weight = (
                float(data.probability[problem.scenario_index[regime.scenario]])
                * float(data.discount[regime.quarter])
                * float(hours[regime.band])
            )
            entries = [(int(first.usable[pools[pool], regime.quarter]), data.gpu_unit)]
            for h in options[pool]:
                rental = data.rental_options[h]
                price = problem.offers[rental.offer].price
                most = rental.most * data.gpu_unit
                columns.append((price * weight, min(most, gpus / rental.gpus + 1)))
                names.append((h, regime))
                entries.append((begin + len(columns) - 1, float(rental.gpus)))
            rows.append((entries, gpus))
        room_of: dict[tuple[Pool, int], float] = defaultdict(float)
        for (pool, regime), gpus in rooms.items():
            room_of[pool, regime.quarter] = max(room_of[pool, regime.quarter], gpus)
        for (pool, quarter), gpus in most_of.items():
            entries = [(int(first.usable[pools[pool], quarter]), data.gpu_unit)]
            price = _PENALTY * dearest * problem.quarter_hours
            columns.append((price, max(gpus - room_of[pool, quarter], 0.0)))
            names.append((-1, Regime("", quarter, 0)))
            entries.append((begin + len(columns) - 1, 1.0))
            rows.append((entries, gpus))
        num = begin + len(columns)
        at_rows = [i for i, (entries, _) in enumerate(rows) for _ in entries]
        at_columns = [c for entries, _ in rows for c, _ in entries]
        values = [v for entries, _ in rows for _, v in entries]
        own = sparse.hstack(
            [first.matrix, sparse.csr_array((first.matrix.shape[0], len(columns)))]
        )
        added = sparse.coo_array((values, (at_rows, at_columns)), (len(rows), num))
        unit = max(sum(abs(first.cost)) / max(len(first.cost), 1), 1.0)
        cost = np.concatenate([first.cost, np.array([c for c, _ in columns])]) / unit
        lower = np.concatenate([first.lower, np.zeros(len(columns))])
        upper = np.concatenate([first.upper, np.array([u for _, u in columns])])
        if len(first.waive):
            waived = [float(s.name in plan.waived) for s in problem.scenarios]
            lower[first.waive] = upper[first.waive] = waived
        model = ArrayModel(
            sense="min",
            cost=cost,
            matrix=sparse.vstack([own, added], format="csr"),
            row_lower=np.concatenate([first.row_lower, [gpus for _, gpus in rows]]),
            row_upper=np.concatenate([first.row_upper, np.full(len(rows), np.inf)]),
            lower=lower,
            upper=upper,
            integer=np.concatenate([first.integer, np.zeros(len(columns), dtype=bool)]),
        )
        raw = highs.solve(model, SolverOptions(seconds, 0, 1, gap=_GAP))
        if raw.values is None:
            return None
        for (h, regime), hosts in zip(names, raw.values[begin:].tolist(), strict=True):
            if h >= 0 and hosts > _ROUND_OFF:
                rentals.append(self._rental(h, regime, hosts))
        orders = []
        for k, group in enumerate(data.host_groups):
            for t in range(data.num_quarters):
                column = first.order[k, t]
                count = round(float(raw.values[column]) * data.host_unit) if column >= 0 else 0
                if count > 0:
                    offer, site = data.offer(group).name, problem.sites[group.site].name
                    orders.append(Order(offer, site, t, count))
        return replace(plan, orders=tuple(orders), rentals=tuple(rentals))

    def _rental(self, h: int, regime: Regime, hosts: float) -> Rental:
        rental = self.data.rental_options[h]
        offer = self.problem.offers[rental.offer].name
        site = self.problem.sites[rental.site].name
        return Rental(regime.scenario, regime.quarter, regime.band, offer, site, hosts)
