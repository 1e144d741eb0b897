"""Settling: the hosts that a plan needs while its jobs stay where they are.

A solve with buffers moves jobs about, and each mix of jobs requires other capacity than the one its
buffers are for. Once it is settled where jobs go, it is known what every pool requires, in each
scenario, quarter and band of hours; what is left to choose is how many hosts are ordered and
rented: an integer program that is separate for each pool but for what sites hold. So a plan gets
all that it requires at once, and a pool that kept its goals meets the same jobs in the next replay.

Parameters
----------
h, regime
    Number of a rental option; scenario, quarter and band of hours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from alloc.backends import highs
from alloc.families import family_of
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.data import SizingData
from alloc.models.right_sizing.first_stage import FirstStage, first_stage
from alloc.models.right_sizing.reading import read_orders
from alloc.planning.buffers import Knowledge
from alloc.planning.capacity import gpus_to_ask
from alloc.planning.hosts_program import HostsProgram, MoreRows, solved
from alloc.planning.pools import Operation, Pool, Regime, operations_of
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.demand import Tightening
from alloc.problems.right_sizing.plan import Plan, Rental, Share
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Limits, Result
from alloc.solving.certify import certify
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.right_sizing.first_stage_completion import FirstStageCompletion
from alloc.solving.right_sizing.state import BACKEND, money_unit
from alloc.verification.right_sizing import verify_plan

# Costs of the dearest GPU that one costs which a pool requires and cannot have: above those of any
# host, of which a part may be no use, and costs still span few digits.
_PENALTY = 10.0
# Rented hosts, in the unit of demand, below which they are the solver's round-off.
_ROUND_OFF = 1e-7

Needs = dict[tuple[Pool, Regime], float]
"""GPUs that a pool needs in a regime."""


def settled(
    problem: PlanningProblem,
    knowledge: Knowledge,
    result: Result[Plan],
    seconds: float,
    jobs: Plan | None = None,
) -> Result[Plan] | None:
    """Return a plan with the hosts that its pools require, its jobs staying where they are.

    Parameters
    ----------
    problem
        The problem without buffers.
    knowledge
        What is known of what pools require.
    result
        A plan of the problem, perhaps with buffers.
    seconds
        Wall time of the integer program, more than 0.
    jobs
        A plan with other places for the jobs of the result; None: they stay.

    Returns
    -------
    Result or None
        Checked, without a bound, and with the limit of the result; None where sites have no room,
        or other limits are broken.

    Raises
    ------
    KeyboardInterrupt
        If it comes meanwhile: the solver of the program returns at Ctrl-C.
    """
    limits = Limits(seconds=seconds)
    settings = Settings.of(limits)
    jobs = result.require_solution() if jobs is None else jobs
    plan = Settling(problem, knowledge).settle(jobs, seconds)
    if plan is None or verify_plan(problem, plan):
        return None
    limit = result.certificate.limit
    outcome = Outcome(plan, -math.inf, "none", BACKEND, highs.version(), limit=limit)
    return certify(family_of(problem), problem, "cost", outcome, settings)


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
        self._pools = {
            self._pool(p, spot): p for p in range(len(self.data.pools)) for spot in (False, True)
        }
        self.rentals: dict[Pool, list[int]] = defaultdict(list)
        for h, rental in enumerate(self.data.rental_options):
            self.rentals[self._pool(rental.pool, rental.spot)].append(h)

    def settle(self, plan: Plan, seconds: float) -> Plan | None:
        """Return the plan with the hosts that its pools require, or None if there is none.

        Parameters
        ----------
        plan
            A plan; its hosts are of no account.
        seconds
            Wall time, more than 0.
        """
        plan = self._within_spot(plan)
        room = {
            (Pool(gpu_type, site, spot), Regime(*moment)): gpus
            for (moment, gpu_type, site, spot), gpus in account(self.problem, plan).room.items()
        }
        required = self.required(operations_of(self.problem, plan))
        needs = room | {at: max(gpus, room.get(at, 0.0)) for at, gpus in required.items()}
        return self._with_hosts(plan, needs, room, seconds)

    def position(self, pool: Pool) -> int:
        """Return where a pool is among those of the problem."""
        return self._pools[pool]

    def _pool(self, position: int, spot: bool) -> Pool:
        pool = self.data.pools[position]
        return Pool(pool.gpu_type, self.problem.sites[pool.site].name, spot)

    def most(self, h: int, regime: Regime) -> float:
        """Return how many hosts a rental option has in a regime."""
        rental = self.data.rental_options[h]
        if not (rental.spot and math.isfinite(rental.most)):
            return rental.most * self.data.gpu_unit
        w = self.problem.scenario_index[regime.scenario]
        part = float(self.data.spot_available[w, regime.quarter])
        return rental.most * part * self.data.gpu_unit

    # What is required -------------------------------------------------------------------------

    def required(self, operations: Sequence[Operation]) -> Needs:
        """Return what pools with a goal require in each regime."""
        return {
            (one.pool, one.regime): gpus_to_ask(
                one.streams, self.knowledge.required(one), self._host_gpus(one)
            )
            for one in operations
            if one.has_goal
        }

    def _host_gpus(self, operation: Operation) -> int:
        """Return the GPUs of the largest host of a pool, of those to be had if it has none."""
        if operation.hosts:
            return max(operation.hosts)
        return self.largest_host(operation.pool)

    def largest_host(self, pool: Pool) -> int:
        """Return the GPUs of the largest host to be had in a pool."""
        at = self._pools[pool]
        groups = [self.data.offer(g).gpus for g in self.data.host_groups if g.pool == at]
        rented = [self.data.rental_options[h].gpus for h in self.rentals[pool]]
        return max([*groups, *map(int, rented)], default=1)

    # Where spot hosts are too few -------------------------------------------------------------

    def _within_spot(self, plan: Plan) -> Plan:
        """Return a plan in which spot hosts are enough for what their pools require.

        Where they are not, a part of every class goes to where most of it runs on firm hosts.
        """
        spot = {
            (one.pool, one.regime): one
            for one in operations_of(self.problem, plan)
            if one.pool.spot
        }
        stays = {}
        for at, gpus in self.required(list(spot.values())).items():
            had = math.fsum(
                self.most(h, at[1]) * self.data.rental_options[h].gpus for h in self.rentals[at[0]]
            )
            if gpus > had:
                stays[at] = _part_within(spot[at], gpus, had)
        return self._moved(plan, stays) if stays else plan

    def _moved(self, plan: Plan, stays: Mapping[tuple[Pool, Regime], float]) -> Plan:
        """Return a plan of which only a part stays in some pools.

        Parameters
        ----------
        plan
            The plan.
        stays
            The part of each class that stays in a pool in a regime, 0 to 1; 1 in others.
        """
        firm = self._firm_places(plan)
        rates: dict[Share, float] = defaultdict(float)
        for share in plan.shares:
            at = self.pool_of(share), Regime(share.scenario, share.quarter, share.band)
            part = stays.get(at, 1.0) if share.job_class in firm else 1.0
            rates[replace(share, jobs_per_hour=0.0)] += part * share.jobs_per_hour
            if part < 1.0:
                option, site = firm[share.job_class]
                there = replace(share, option=option, site=site, spot=False, jobs_per_hour=0.0)
                rates[there] += (1.0 - part) * share.jobs_per_hour
        shares = (replace(share, jobs_per_hour=rate) for share, rate in rates.items() if rate > 0)
        return replace(plan, shares=tuple(shares))

    def pool_of(self, share: Share) -> Pool:
        """Return the pool that jobs are sent to."""
        job_class = self.problem.classes[self.problem.class_index[share.job_class]]
        return Pool(job_class.options[share.option].gpu_type, share.site, share.spot)

    def _firm_places(self, plan: Plan) -> dict[str, tuple[int, str]]:
        """Return of each class the option and site that most of it runs in on firm hosts.

        Of one that runs on none, those of the pool to which most jobs of others come.
        """
        own: dict[tuple[str, int, str], float] = defaultdict(float)
        of_pool: dict[Pool, float] = defaultdict(float)
        for share in plan.shares:
            if not share.spot:
                own[share.job_class, share.option, share.site] += share.jobs_per_hour
                of_pool[self.pool_of(share)] += share.jobs_per_hour
        found: dict[str, tuple[tuple[float, float], tuple[int, str]]] = {}
        for mode in self.data.modes:
            if not mode.spot:
                name = self.problem.classes[mode.job_class].name
                pool = self._pool(mode.pool, False)
                wish = own.get((name, mode.option, pool.site), 0.0), of_pool.get(pool, 0.0)
                if name not in found or wish > found[name][0]:
                    found[name] = wish, (mode.option, pool.site)
        return {name: place for name, (_, place) in found.items()}

    # Hosts ------------------------------------------------------------------------------------

    def _with_hosts(self, plan: Plan, needs: Needs, room: Needs, seconds: float) -> Plan | None:
        """Return a plan with the cheapest hosts that give pools what they need.

        Of firm hosts no fewer than the model's room; of what is required besides, as many as sites
        hold.
        """
        built = self.hosts_program(plan, needs, room)
        raw = solved(built.model, seconds)
        if raw is None or raw.values is None:
            return None
        data, first, rentals = built.data, built.first, list(built.on_spot)
        for column, h, regime in built.rented:
            rentals += self._rental(h, regime, float(raw.values[column]) * data.gpu_unit)
        orders = tuple(read_orders(data, first, raw.values))
        return replace(plan, orders=orders, rentals=tuple(rentals))

    def hosts_program(self, plan: Plan, needs: Needs, room: Needs) -> HostsProgram:
        """Return the integer program of the cheapest hosts that give pools what they need.

        Parameters
        ----------
        plan
            The plan, whose jobs stay where they are.
        needs, room
            GPUs that pools are to have, and of these what the plan's model asks for in any case.
        """
        data = SizingData(self._with_room_for(plan, needs))
        first = first_stage(data)
        # As in the first stage, GPUs and rented hosts are neither huge nor tiny numbers.
        unit, penalty = data.gpu_unit, self.penalty() * data.gpu_unit
        usable = {pool: first.usable[p] for pool, p in self._pools.items()}
        rentals: list[Rental] = []
        lack: list[int] = []
        program = MoreRows(*first.matrix.shape)
        rented: list[tuple[int, int, Regime]] = []
        row_of: dict[tuple[Pool, Regime | int], int] = {}
        largest: dict[tuple[Pool, int], tuple[float, float]] = {}
        for at, gpus in needs.items():
            pool, regime = at
            if pool.spot:
                rentals += self._on_spot(pool, regime, gpus)
            elif self.rentals[pool]:
                entries = [(int(usable[pool][regime.quarter]), 1.0)]
                for h in self.rentals[pool]:
                    option = data.rental_options[h]
                    most = min(self.most(h, regime), gpus / option.gpus) / unit
                    column = program.column(self.price(h, regime) * unit, most)
                    entries.append((column, option.gpus))
                    rented.append((column, h, regime))
                if all(math.isfinite(self.most(h, regime)) for h in self.rentals[pool]):
                    lacking = max(gpus - room.get(at, 0.0), 0.0) / unit
                    lack.append(program.column(penalty, lacking))
                    entries.append((lack[-1], 1.0))
                row_of[pool, regime] = program.row(entries, gpus / unit)
            else:
                known = largest.get((pool, regime.quarter), (0.0, 0.0))
                room_there = max(known[1], room.get(at, 0.0))
                largest[pool, regime.quarter] = max(known[0], gpus), room_there
        for (pool, quarter), (gpus, least) in largest.items():
            column = program.column(penalty, max(gpus - least, 0.0) / unit)
            lack.append(column)
            entries = [(int(usable[pool][quarter]), 1.0), (column, 1.0)]
            row_of[pool, quarter] = program.row(entries, gpus / unit)
        model = program.model(first, money_unit(data))
        self._open(model, data, first, plan, largest)
        if len(first.waive):
            waived = [float(scenario.name in plan.waived) for scenario in self.problem.scenarios]
            model.lower[first.waive] = model.upper[first.waive] = waived
        return HostsProgram(data, first, model, tuple(rented), tuple(rentals), row_of, tuple(lack))

    def _with_room_for(self, plan: Plan, needs: Needs) -> PlanningProblem:
        """Return the problem with margins that let pools have as many hosts as they need.

        What a pool is of use for at most is taken to be its jobs' room and margin: the first stage
        has no room for more.
        """
        most: dict[Pool, float] = defaultdict(float)
        for (pool, _), gpus in needs.items():
            most[pool] = max(most[pool], gpus)
        names = {self.pool_of(share): share.job_class for share in plan.shares}
        more = [
            Tightening(names[pool], pool.gpu_type, pool.site, margin=gpus)
            for pool, gpus in most.items()
            if not pool.spot and pool in names
        ]
        return self.problem.replace(tightening=self.problem.tightening + tuple(more))

    def _open(
        self,
        model: ArrayModel,
        data: SizingData,
        first: FirstStage,
        plan: Plan,
        needed: Collection[tuple[Pool, int]],
    ) -> None:
        """Leave open what a plan has open, and pools in which nothing can be rented.

        Where hosts may fail, what is open is by far the hardest of what hosts there are to be.
        """
        completion = FirstStageCompletion(data, first)
        known = completion.complete(completion.from_plan(plan))
        for i, level in enumerate(data.levels):
            pool = self._pool(level.pool, False)
            for t in range(data.num_quarters):
                column = first.open[i, t]
                if column >= 0 and known[column] > 0.5:
                    model.lower[column] = 1.0
                elif column >= 0 and (pool, t) not in needed:
                    model.upper[column] = 0.0

    def price(self, h: int, regime: Regime) -> float:
        """Return expected discounted money for a host of a rental option in a regime."""
        data = self.data
        weight = data.probability[self.problem.scenario_index[regime.scenario]]
        weight *= data.discount[regime.quarter] * data.bands.hours[regime.band]
        price = self.problem.offers[data.rental_options[h].offer].price
        return float(price * weight)

    def penalty(self) -> float:
        """Return money for a GPU that a pool lacks in a quarter, where hosts run to the end."""
        data, hours = self.data, self.problem.quarter_hours
        each = [o.price / o.gpus * (hours if o.is_hourly else 1.0) for o in self.problem.offers]
        run = [
            float(data.running_cost[k]) / (data.host_unit * data.offer(group).gpus)
            for k, group in enumerate(data.host_groups)
        ]
        return _PENALTY * (max(each) + data.num_quarters * max(run, default=0.0))

    def _on_spot(self, pool: Pool, regime: Regime, gpus: float) -> list[Rental]:
        """Return rentals of so many GPUs on spot hosts, the cheapest first, or of all there are."""
        found = []
        for h in self.rentals[pool]:
            each = self.data.rental_options[h].gpus
            hosts = min(gpus / each, self.most(h, regime))
            found += self._rental(h, regime, hosts)
            gpus -= hosts * each
        return found

    def _rental(self, h: int, regime: Regime, hosts: float) -> list[Rental]:
        """Return a rental of so many hosts, or none where they are round-off."""
        if hosts <= _ROUND_OFF * self.data.gpu_unit:
            return []
        rental = self.data.rental_options[h]
        offer = self.problem.offers[rental.offer].name
        site = self.problem.sites[rental.site].name
        return [Rental(regime.scenario, regime.quarter, regime.band, offer, site, hosts)]


def _part_within(operation: Operation, required: float, had: float) -> float:
    """Return the part of a pool's load with which it requires no more than there is.

    What is required beyond the load is taken to be in proportion to its square root (square-root
    staffing). No part of a gang runs: where the largest has no room, all leave.
    """
    if had < max(stream.gpus for stream in operation.streams):
        return 0.0
    beyond = max(required - operation.load, 0.0)
    root = (math.sqrt(beyond**2 + 4 * operation.load * had) - beyond) / (2 * operation.load)
    return min(root**2, 1.0)
