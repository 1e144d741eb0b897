"""Relief: jobs leave pools that cannot have the hosts that these require.

Where jobs stay, a pool may lack capacity whatever is paid: its machine room is full, or a cloud has
no more hosts. Some of its jobs then have to run elsewhere. What a pool requires is concave in its
load, so its tangent at the plan is never too low: a linear program that charges pools by their
tangents says how many jobs of which class go from which full pool to where others of the class are,
in each regime, together with the hosts that are ordered and rented for them. Where it finds no
way, a class comes to a pool where it is not yet: the one that costs least for what it relieves, as
the tangent says nothing of what the first jobs there require. Then it is solved again. If there is
time, the same is done with what whole classes require in place of tangents, and the cheaper counts.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from alloc.backends.linear_program import LinearProgram, LinearSolution
from alloc.errors import OutOfTime
from alloc.formulation import Array, ArrayModel
from alloc.planning.buffers import Knowledge
from alloc.planning.pools import Pool, operations_of
from alloc.planning.quick_needs import NO_JOBS, Ints, QuickNeeds
from alloc.planning.settling import Settling
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.solving.right_sizing.state import money_unit

# GPUs that a pool may lack: a replay does not see half a GPU. So many spot hosts are left free.
_LITTLE = 0.5
# Linear programs at most. Most plans need four: one that finds what is lacking, one that moves jobs
# to where others of their class are, and two after new places.
_MAX_PROGRAMS = 8
# Parts of a class by which slopes are taken. The first is a tangent; of less the table of quick
# needs is too coarse. The second says what is lost with the last gang of a class: where pools hold
# few gangs, plans may cost a tenth less by it. On planning-large/01 they cost a twentieth more.
_STEPS = (0.1, 1.0)
# Parts of a class that a new place is tried with, the first that relieves enough is taken.
_PARTS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
# Part of a class in a pool below which it is not moved: round-off of the linear program.
_ROUND_OFF = 1e-3
# Part of what a pool lacks that a new place for one of its classes has to relieve: less is a place
# more, and as much still to do.
_LEAST_RELIEF = 0.1
# New places in a go for a pool in a quarter; what is lacking then, the next program finds.
_MAX_PLACES = 6
# No pool is as large: no limit.
_NO_LIMIT = 1e6

At = tuple[Pool, int]
"""A pool in a quarter."""


def relieved(
    problem: PlanningProblem, knowledge: Knowledge, plan: Plan, seconds: float
) -> Plan | None:
    """Return a plan of which no pool requires more than it can have, as far as that was found.

    Parameters
    ----------
    problem
        The problem without buffers.
    knowledge
        What is known of what pools require.
    plan
        A plan of the problem.
    seconds
        Wall time, more than 0.

    Returns
    -------
    Plan or None
        Its hosts are those of before: `alloc.planning.settling` finds others. None where every pool
        can have what it requires, or nothing was found.
    """
    began = time.monotonic()
    found, value = None, math.inf
    for step in _STEPS:
        relief = _Relief(problem, knowledge, plan, step)
        other = relief.plan(began + seconds)
        if other is None and math.isfinite(relief.value):
            return None  # nothing is lacking
        if found is None or (other is not None and relief.value < value):
            found, value = other, relief.value
        if time.monotonic() - began > seconds / len(_STEPS):
            break
    return found


class _Relief:
    def __init__(
        self, problem: PlanningProblem, knowledge: Knowledge, plan: Plan, step: float
    ) -> None:
        self.problem, self.step = problem, step
        self.value = math.inf
        """What the hosts of the last program cost, if no pool lacks any and needs are correct."""
        self.settling = Settling(problem, knowledge)
        self.needs = QuickNeeds(self.settling.data, plan)
        self._touched: set[Pool] = set()
        """Pools from which or to which jobs moved since needs were corrected."""
        self.needs.correct(self.settling.required(operations_of(problem, plan)))
        firm = {
            (pool, regime): float(gpus)
            for pool, by_regime in self.needs.needs.items()
            if not pool.spot
            for regime, gpus in zip(self.needs.regimes, by_regime, strict=True)
        }
        self.hosts = self.settling.hosts_program(plan, firm, {})
        self.gpu_unit, self.money = self.hosts.data.gpu_unit, money_unit(self.hosts.data)
        self.energy = _energy(self.needs) / self.money

    def _correct(self) -> None:
        """Correct what pools need by the formula, where jobs moved since the last time."""
        plan, touched = self.needs.moved_plan(), self._touched
        shares = tuple(share for share in plan.shares if self.settling.pool_of(share) in touched)
        operations = operations_of(self.problem, replace(plan, shares=shares))
        self.needs.correct(self.settling.required(operations))
        self._touched = set()

    def plan(self, ends: float) -> Plan | None:
        """Return a plan without lacks, or None."""
        chosen: set[At] = set()
        is_corrected, has_moved = True, False
        began, longest = time.monotonic(), 0.0
        for _ in range(_MAX_PROGRAMS):
            now = time.monotonic()
            longest, began = max(longest, now - began), now
            if now + longest > ends:
                break
            program = _Program(self, sorted(chosen))
            try:
                solution = program.solve(ends - time.monotonic())
            except OutOfTime:
                break
            has_moved |= self._move(program, solution)
            lacks = program.lacks(solution)
            if not lacks and is_corrected:
                self.value = solution.value
                break
            if not lacks:
                # The table was corrected for the jobs of before.
                self._correct()
                is_corrected = True
                continue
            is_corrected = False
            known = {at: gpus for at, gpus in lacks.items() if at in chosen}
            chosen |= lacks.keys()
            prices = program.prices(solution)
            for (pool, quarter), gpus in known.items():
                has_moved |= self._open(pool, quarter, gpus, prices, lacks)
        return self.needs.moved_plan() if has_moved else None

    def _move(self, program: _Program, solution: LinearSolution) -> bool:
        """Move jobs as a program says, and return whether any were."""
        rates, before = self.needs.rates, self.needs.rates.copy()
        touched: set[Pool] = set()
        for i, j, regimes, columns in program.moves:
            part = solution.values[columns]
            part = np.where(part < _ROUND_OFF, 0.0, np.where(part > 1 - _ROUND_OFF, 1.0, part))
            moved = np.minimum(part * before[i, regimes], rates[i, regimes])
            if moved.any():
                rates[i, regimes] -= moved
                rates[j, regimes] += moved
                touched |= {self.needs.pool[i], self.needs.pool[j]}
        self.needs.refresh(touched)
        self._touched |= touched
        return bool(touched)

    def _open(
        self,
        pool: Pool,
        quarter: int,
        lacking: Array,
        prices: dict[Pool, Array],
        lacks: dict[At, Array],
    ) -> bool:
        """Send classes of a pool that lacks GPUs to pools where they are not yet.

        Parameters
        ----------
        pool, quarter
            Which, and when.
        lacking
            GPUs that it lacks in each regime.
        prices
            Money for a GPU in each regime.
        lacks
            Pools that lack GPUs: none is sent there.

        Returns
        -------
        bool
            Whether any were sent.
        """
        needs = self.needs
        usual = _usual(prices, needs.quarter)
        regimes = np.flatnonzero(needs.quarter == quarter)
        left = lacking[regimes]
        goal = needs.needs[pool] + _LITTLE
        goal[regimes] -= left
        done: list[tuple[int, int, Ints, Array]] = []
        for _ in range(_MAX_PLACES):
            regimes, left = regimes[left > _LITTLE], left[left > _LITTLE]
            ways = []
            for i in needs.modes_of[pool] if len(regimes) else ():
                here = needs.rates[i, regimes]
                if not here.any():
                    continue
                part, relief = self._relief(pool, i, regimes, left)
                got = float(np.minimum(relief, left).sum())
                for j in needs.others(i) if got > _LEAST_RELIEF * left.sum() else ():
                    there = needs.pool[j]
                    if (there, quarter) not in lacks:
                        rates = {j: needs.rates[j, regimes] + part * here}
                        more = needs.need(there, regimes, rates) - needs.needs[there][regimes]
                        # Prices are 0 where there is room now, not where more come.
                        now = float(np.maximum(prices[there][regimes], 0.0) @ more)
                        paid = max(now, usual * float(more.max()))
                        ways.append((paid / got, i, j, part))
            if not ways:
                break
            _, i, j, part = min(ways)
            before = needs.needs[pool][regimes]
            done.append((i, j, regimes, part * needs.rates[i, regimes]))
            self._shift(*done[-1])
            left = left - (before - needs.needs[pool][regimes])
        # What came first may be more than the last leaves to do.
        for i, j, at, moved in done[:-1]:
            for back in _PARTS[::-1]:
                self._shift(i, j, at, -back * moved)
                if (needs.needs[pool][at] <= goal[at]).all():
                    break
                self._shift(i, j, at, back * moved)
        return bool(done)

    def _shift(self, mode: int, other: int, regimes: Ints, rates: Array) -> None:
        """Send so many jobs an hour to another pool, or back."""
        needs = self.needs
        needs.rates[mode, regimes] -= rates
        needs.rates[other, regimes] = np.maximum(needs.rates[other, regimes] + rates, 0.0)
        pools = {needs.pool[mode], needs.pool[other]}
        needs.refresh(pools)
        self._touched |= pools

    def _relief(self, pool: Pool, mode: int, regimes: Ints, left: Array) -> tuple[float, Array]:
        """Return the part of a class that leaves a pool, and the GPUs that it no longer needs."""
        here, before = self.needs.rates[mode, regimes], self.needs.needs[pool][regimes]
        for part in _PARTS:
            relief = before - self.needs.need(pool, regimes, {mode: (1 - part) * here})
            if (relief >= left).all():
                break
        return part, relief


class _Program:
    """The linear program of the moves out of some pools, and of the hosts for them."""

    def __init__(self, relief: _Relief, chosen: Sequence[At]) -> None:
        self.relief, self.needs = relief, relief.needs
        hosts = relief.hosts.model
        self.num_rows, self.num_columns = hosts.matrix.shape
        self.row_lower, self.upper = [hosts.row_lower.copy()], [hosts.upper.copy()]
        self.cost = [hosts.cost]
        self.entries: list[tuple[Ints, Ints, Array]] = []
        self.row_of: dict[Pool, Ints] = {}
        self.lacking: dict[Pool, Ints] = {}
        self.moves: list[tuple[int, int, Ints, Ints]] = []
        """Modes from and to, regimes, and columns of the part of the jobs that moves."""
        self._hosts(chosen)
        for pool, quarter in chosen:
            self._moves(pool, np.flatnonzero(self.needs.quarter == quarter))

    def _columns(self, cost: Array, upper: Array) -> Ints:
        self.cost.append(cost)
        self.upper.append(upper)
        self.num_columns += len(cost)
        return np.arange(self.num_columns - len(cost), self.num_columns)

    def _rows(self, lower: Array) -> Ints:
        self.row_lower.append(lower)
        self.num_rows += len(lower)
        return np.arange(self.num_rows - len(lower), self.num_rows)

    def _enter(self, rows: Ints, columns: Ints, values: Array) -> None:
        self.entries.append((rows, columns, np.broadcast_to(values, rows.shape)))

    def _hosts(self, chosen: Sequence[At]) -> None:
        """Add what pools need in each regime, and what they may lack.

        Of hosts there are only whole ones: where pools lacked GPUs, a site may hold one less.
        """
        relief, needs, settling = self.relief, self.needs, self.relief.settling
        first, unit = relief.hosts.first, relief.gpu_unit
        count = len(needs.regimes)
        # Other columns say what is lacking, and hosts are rented for other jobs too.
        self.upper[0][list(relief.hosts.lacking)] = 0.0
        for column, h, regime in relief.hosts.rented:
            self.upper[0][column] = min(settling.most(h, regime), _NO_LIMIT) / unit
        penalty = settling.penalty() * unit / relief.money
        rows_of: dict[Pool, dict[object, int]] = defaultdict(dict)
        for (pool, when), row in relief.hosts.row_of.items():
            rows_of[pool][when] = row
        for pool, gpus in needs.needs.items():
            least = gpus / unit
            if pool.spot:
                rows = self._rows(least + self._free(pool) / unit)
                for h in settling.rentals[pool]:
                    price = [settling.price(h, regime) for regime in needs.regimes]
                    most = [min(settling.most(h, regime), _NO_LIMIT) for regime in needs.regimes]
                    columns = self._columns(
                        np.array(price) * unit / relief.money, np.array(most) / unit
                    )
                    each = float(settling.data.rental_options[h].gpus)
                    self._enter(rows, columns, np.array(each))
            elif settling.rentals[pool]:
                rows = np.array([rows_of[pool][regime] for regime in needs.regimes])
                self.row_lower[0][rows] = least
            else:
                # One row a quarter would not do: jobs move in some regimes.
                self.row_lower[0][list(rows_of[pool].values())] = -np.inf
                size = settling.largest_host(pool) / unit
                for full, quarter in chosen:
                    if full == pool:
                        least[(needs.quarter == quarter) & (gpus > 0)] += size
                rows = self._rows(least)
                usable = first.usable[settling.position(pool)]
                self._enter(rows, usable[needs.quarter], np.array(1.0))
            self.row_of[pool] = rows
            self.lacking[pool] = self._columns(
                np.full(count, penalty), np.full(count, _NO_LIMIT / unit)
            )
            self._enter(rows, self.lacking[pool], np.array(1.0))

    def _free(self, pool: Pool) -> float:
        """Return the GPUs of spot hosts that are left free: a host where gangs take several."""
        needs = self.needs
        gangs = {int(needs.gpus[i]) for i in needs.modes_of[pool] if needs.rates[i].any()}
        size = self.relief.settling.largest_host(pool)
        return _LITTLE if size % max(math.gcd(*gangs), 1) == 0 else float(size)

    def _moves(self, pool: Pool, quarter: Ints) -> None:
        """Add moves out of a pool, in regimes of a quarter, to where the class is too."""
        needs, unit, step = self.needs, self.relief.gpu_unit, self.relief.step
        for i in needs.modes_of[pool]:
            regimes = quarter[needs.rates[i, quarter] > NO_JOBS]
            others = [j for j in needs.others(i) if (needs.rates[j, regimes] > NO_JOBS).any()]
            if not others:
                continue
            here = needs.rates[i, regimes]
            rest = needs.need(pool, regimes, {i: (1 - step) * here})
            leaves = (needs.needs[pool][regimes] - rest) / step
            once = self._rows(np.full(len(regimes), -1.0))
            for j in others:
                there, comes = needs.pool[j], needs.rates[j, regimes] > NO_JOBS
                to = regimes[comes]
                with_more = needs.need(there, to, {j: needs.rates[j, to] + step * here[comes]})
                arrives = (with_more - needs.needs[there][to]) / step
                cost = here[comes] * (self.relief.energy[j, to] - self.relief.energy[i, to])
                columns = self._columns(cost, np.ones(len(to)))
                self._enter(self.row_of[pool][to], columns, leaves[comes] / unit)
                self._enter(self.row_of[there][to], columns, -arrives / unit)
                self._enter(once[comes], columns, np.array(-1.0))
                self.moves.append((i, j, to, columns))

    def solve(self, seconds: float) -> LinearSolution:
        """Solve it.

        Raises
        ------
        OutOfTime
            If the time was too short for it.
        """
        if seconds <= 0:
            raise OutOfTime
        rows, columns, values = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        shape = self.num_rows, self.num_columns
        matrix = self.relief.hosts.model.matrix.tocoo()
        matrix = sparse.coo_array(
            (
                np.concatenate([matrix.data, values]),
                (np.concatenate([matrix.row, rows]), np.concatenate([matrix.col, columns])),
            ),
            shape,
        )
        given = self.relief.hosts.model
        lower, upper = np.concatenate(self.row_lower), np.concatenate(self.upper)
        more_rows = np.full(shape[0] - len(given.row_upper), np.inf)
        model = ArrayModel(
            sense="min",
            cost=np.concatenate(self.cost),
            matrix=matrix.tocsr(),
            row_lower=lower,
            row_upper=np.concatenate([given.row_upper, more_rows]),
            lower=np.concatenate([given.lower, np.zeros(shape[1] - len(given.lower))]),
            upper=upper,
            integer=np.zeros(shape[1], dtype=bool),
        )
        program = LinearProgram(model)
        found = program.solve(seconds, stop_on_interrupt=True)
        if program.interrupted:
            raise KeyboardInterrupt
        if found is None:
            raise OutOfTime
        return found

    def lacks(self, solution: LinearSolution) -> dict[At, Array]:
        """Return the GPUs that pools lack in each regime, by pool and quarter."""
        found = {}
        for pool, columns in self.lacking.items():
            gpus = solution.values[columns] * self.relief.gpu_unit
            for quarter in range(self.needs.data.num_quarters):
                in_quarter = np.where(self.needs.quarter == quarter, gpus, 0.0)
                if in_quarter.max() > _LITTLE:
                    found[pool, quarter] = in_quarter
        return found

    def prices(self, solution: LinearSolution) -> dict[Pool, Array]:
        """Return the money, in its unit, for a GPU more of a pool in each regime."""
        unit = self.relief.gpu_unit
        return {pool: solution.duals[rows] / unit for pool, rows in self.row_of.items()}


def _usual(prices: dict[Pool, Array], quarter: Ints) -> float:
    """Return what a GPU costs in a quarter, in the median pool and quarter."""
    each = [np.bincount(quarter, np.maximum(price, 0.0)) for price in prices.values()]
    return float(np.median(np.concatenate(each)))


def _energy(needs: QuickNeeds) -> Array:
    """Return the money for a job an hour, for what the thriftiest hosts there draw beyond idle.

    In each mode and regime; expected, discounted.
    """
    data = needs.data
    found = np.zeros(needs.rates.shape)
    kw: dict[int, float] = {}
    for kind in data.kinds:
        kw[kind.pool] = min(kind.kw_per_gpu, kw.get(kind.pool, kind.kw_per_gpu))
    scenario = data.problem.scenario_index
    hours = np.array(
        [
            data.probability[scenario[regime.scenario]]
            * data.discount[regime.quarter]
            * data.bands.hours[regime.band]
            for regime in needs.regimes
        ]
    )
    bands = np.array([regime.band for regime in needs.regimes])
    for i, mode in enumerate(data.modes):
        if mode.pool in kw and not mode.spot:
            price = data.energy_cost[data.pools[mode.pool].site][bands]
            found[i] = kw[mode.pool] * needs.gpus[i] * needs.hours[i] * price * hours
    return found
