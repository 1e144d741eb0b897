"""Marginal values: what one more unit would save, by solving the relaxation again with it.

In the relaxation numbers of hosts are fractions; the plan itself changes in steps, so these values
say where to look, and a what-if says what is to be had. A dual value alone is only a bound: it says
what the first bit of a unit saves at most, and where there are several, as for hosts that the plan
does without, it may be far from what a unit saves. So the relaxation is solved again with one unit
more of each thing, from its last basis. The optimum is convex in what is limited, so what a unit
saves lies between the dual value after it and the one before: where a unit is tiny, as one euro of
a budget, the two tell it better than the difference of two large costs.

Where there is no time for that, or the problem is so large that the decomposition knows its
relaxation only to a gap, a value is an estimate by duals, with the range that is proved.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.models.right_sizing.arrays import Extensive, extensive
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.result import Sensitivity
from alloc.solving.right_sizing.state import linear_relaxation, money_unit

if TYPE_CHECKING:
    from alloc.models.right_sizing.first_stage import FirstStage
    from alloc.solving.right_sizing.relaxation import Relaxation

_LEAST = 1e-9
"""Dual values and differences below it are the solver's tolerance, in units of money."""
_LAST_S = 0.05
"""Seconds for a program that begins when time is up: a small one still ends."""
_MAX_COLUMNS = 150_000
"""Columns up to which the relaxation is solved as one program: that takes a few seconds."""
MORE_DEMAND = 0.01
"""One more of a class's demand is so much more of it in all scenarios and quarters."""
_MORE_JOBS = "% of its jobs"
_SITE_LIMITS = (
    ("C2", "rack_units", "rack unit"),
    ("C3", "ports", "port"),
    ("C4", "power_kw", "kW"),
)


def _no_positions() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class _Limit:
    """Something of which there can be one unit more: rows of the relaxation, and by how much.

    Parameters
    ----------
    kind, name, quarter, unit
        As in `Sensitivity`; the quarter is its period.
    rows, step
        Rows, and what one unit more adds to their right-hand sides.
    least
        What one more saves at least, whatever else: 0 of a limit; of a host, which must be kept,
        less than 0; None where it is not known.
    """

    kind: str
    name: str
    quarter: int | None
    unit: str
    rows: Ints
    step: float
    least: float | None
    counted: Ints = field(default_factory=_no_positions)
    """Of a host, the rows (C6) that say with it how many hosts an open pool has."""
    opened: Ints = field(default_factory=_no_positions)
    """For each of these, the column of whether the pool is open."""

    def sensitivity(
        self, saving: float | None, lower: float | None = None, upper: float | None = None
    ) -> Sensitivity:
        """Return the value as one of the limit, proved unless a range is given."""
        if lower is None and upper is None:
            lower = upper = saving
        return _sensitivity(self.kind, self.name, self.quarter, self.unit, saving, lower, upper)


def _sensitivity(
    kind: str,
    name: str,
    quarter: int | None,
    unit: str,
    saving: float | None,
    lower: float | None = None,
    upper: float | None = None,
) -> Sensitivity:
    """Return what one more does to the cost, given what it saves and the proved range of that."""
    least, most = (None if end is None else 0.0 - end for end in (upper, lower))
    value = None if saving is None else 0.0 - saving
    is_exact = saving is None or lower == saving == upper
    return Sensitivity(kind, name, 1.0, unit, value, quarter, least, most, is_exact)


def is_small(data: SizingData) -> bool:
    """Return whether the relaxation can be solved as one program in a few seconds."""
    scenarios, quarters = data.demand.shape[:2]
    columns = len(data.modes) + len(data.rental_options) + len(data.kinds)
    return columns * int(data.bands.count) * int(scenarios) * int(quarters) <= _MAX_COLUMNS


def marginal_values(data: SizingData, seconds: float) -> tuple[Sensitivity, ...]:
    """Return what one more unit of each limit, host and class saves; none if there is no time.

    Parameters
    ----------
    data
        The problem.
    seconds
        Wall time for all of them, seconds.
    """
    relaxed = _Relaxed(data, seconds)
    if relaxed.cost is None:
        return ()
    found = [relaxed.saved(limit) for limit in _limits(data, relaxed.row_of)]
    return (*(one for one in found if one is not None), *_hosts(data, relaxed), *_demand(relaxed))


def estimates_of_cuts(
    state: Relaxation, duals: tuple[Array, Array], slack: float
) -> tuple[Sensitivity, ...]:
    """Return marginal values by the duals of a decomposition's master, with what is proved of them.

    The master's optimum is a bound on the relaxation's, and stays one with a unit more; the cost of
    any plan is one from the other side. So no unit saves more than its dual value and what lies
    between the two.

    Parameters
    ----------
    state
        The relaxation, solved to a gap.
    duals
        Dual values of its master's rows and cuts at the optimum.
    slack
        Cost of the best plan less the master's optimum, in units of money; infinite without a plan.
    """
    data, unit = state.data, state.unit
    rows, cuts = duals
    begin = len(state.first.row_lower)
    blocks = np.zeros((*state.setting.shape, state.blocks.num_rows))
    for row in np.flatnonzero(np.abs(cuts) > _LEAST).tolist():
        w, t, k = state.cuts_of_duals[row]
        blocks[w, t] += cuts[row] * state.pool.dual[k, : state.blocks.num_rows]

    def row_of(family: str) -> Ints:
        if family == "C16":
            return begin + np.arange(len(state.setting.budgets))
        if family == "carbon":
            return np.zeros((data.num_quarters, 0), dtype=np.int64)
        return np.arange(*state.first.rows[family].indices(begin))

    def saved(limit: _Limit) -> Sensitivity:
        if limit.kind == "carbon":
            at = blocks[:, limit.quarter, state.blocks.family["carbon"]]
            estimate = unit * float(at.sum())
        else:
            estimate = -unit * limit.step * float(rows[limit.rows].sum())
        estimate = max(estimate, limit.least or 0.0) if limit.kind != "host" else estimate
        upper = estimate + unit * slack if math.isfinite(slack) else None
        return limit.sensitivity(estimate, limit.least, upper)

    found = [saved(limit) for limit in _limits(data, row_of)]
    best: dict[str, Sensitivity] = {}
    for limit in _host_limits(data, state.first):
        value = saved(limit)
        known = best.get(limit.name)
        if known is None or (value.value or 0.0) < (known.value or 0.0):
            best[limit.name] = value
    family = state.blocks.family["demand"]
    costs = (blocks * state.blocks.right_hand_sides())[:, :, family].sum(axis=(0, 1))
    for c, job_class in enumerate(data.problem.classes):
        own = [k for k, (of, _) in enumerate(state.blocks.demand_rows) if of == c]
        estimate = -MORE_DEMAND * unit * float(costs[own].sum())
        found.append(_sensitivity("demand", job_class.name, None, _MORE_JOBS, estimate))
    return (*found, *best.values())


class _Relaxed:
    """The linear relaxation as one program, solved again and again from its last basis."""

    def __init__(self, data: SizingData, seconds: float) -> None:
        self.data, self.unit = data, money_unit(data)
        self._until = time.perf_counter() + seconds
        self.form: Extensive = extensive(data, unit=self.unit)
        self._model = linear_relaxation(self.form.model)
        self._program = LinearProgram(self._model)
        self.cost, self.duals = self._optimum(self._program)
        self._basis = self._program.basis()

    def row_of(self, family: str) -> Ints:
        """Return the rows of a family of constraints; of carbon, quarter after quarter."""
        rows = self.form.model.rows
        if family != "carbon":
            return np.arange(*rows[family].indices(10**9))
        begin = rows["blocks"].start + self.form.blocks.family["carbon"].start
        scenarios, quarters = self.form.shape[:2]
        at = begin + self.form.blocks.num_rows * np.arange(scenarios * quarters)
        return np.asarray(at.reshape(scenarios, quarters).T)

    def bound(self, limit: _Limit) -> float:
        """Return what one more unit saves at most, by the duals of the optimum; money.

        Of a host that counts as owned in (C6), this is so where its pool is open, and else it saves
        less: there its row takes back what the dual value of the host promises.
        """
        return -self.unit * limit.step * float(self.duals[limit.rows].sum())

    def saved(self, limit: _Limit) -> Sensitivity | None:
        """Return what one more unit saves; None if the relaxation has no solution with it."""
        assert self.cost is not None
        bound = self.bound(limit)
        if limit.least == 0.0 and bound <= _LEAST * self.unit * abs(limit.step):
            return limit.sensitivity(0.0)
        if self._time_is_up():
            return limit.sensitivity(bound, limit.least, bound)
        self._change(limit, limit.step)
        self._program.set_basis(self._basis)
        cost, duals = self._optimum(self._program)
        self._change(limit, 0.0)
        if cost is None:
            return limit.sensitivity(bound, limit.least, bound) if self._time_is_up() else None
        # Of a convex cost: the slope at the end of the unit, and that at its beginning.
        less = float(duals[limit.rows].sum() - duals[limit.counted].sum())
        after = -self.unit * limit.step * less
        saving = min(max(self.unit * (self.cost - cost), after), bound)
        return limit.sensitivity(saving if limit.least is None else max(saving, limit.least))

    def saved_by(self, changed: SizingData) -> float | None:
        """Return what a change of the problem saves, money, minus infinity if no plan has it.

        None if there is no time to find out.
        """
        assert self.cost is not None
        form = extensive(changed, unit=self.unit)
        if self._time_is_up():
            return None
        program = LinearProgram(linear_relaxation(form.model))
        program.set_basis(self._basis)
        cost, _ = self._optimum(program)
        if cost is None:
            return None if self._time_is_up() else -math.inf
        return self.unit * (self.cost - cost)

    def _time_is_up(self) -> bool:
        return time.perf_counter() > self._until

    def _change(self, limit: _Limit, step: float) -> None:
        """Let there be so much more of what is limited."""
        self._set(limit.rows, step)
        self._set(limit.counted, -step)
        for row, column in zip(limit.counted.tolist(), limit.opened.tolist(), strict=True):
            known = float(self._model.matrix[row, column])
            self._program.set_coefficient(row, column, known - step)

    def _set(self, rows: Ints, step: float) -> None:
        at, model = rows.ravel(), self._model
        self._program.set_row_bounds(at, model.row_lower[at] + step, model.row_upper[at] + step)

    def _optimum(self, program: LinearProgram) -> tuple[float | None, Array]:
        """Return optimum and dual values, or None without one in time."""
        found = program.solve(max(self._until - time.perf_counter(), _LAST_S))
        return (None, np.zeros(0)) if found is None else (found.value, found.duals)


def _limits(data: SizingData, row_of: Callable[[str], Ints]) -> Iterator[_Limit]:
    """Return every limit of the problem that can be raised."""
    problem, unit = data.problem, money_unit(data)
    whens = [*range(len(problem.quarter_budgets)), *([None] * (problem.budget is not None))]
    for when, row in zip(whens, row_of("C16"), strict=True):
        yield _Limit("budget", "", when, problem.currency, np.array([row]), 1 / unit, 0.0)
    for family, of_site, name in _SITE_LIMITS:
        limited = [site.name for site in problem.sites if getattr(site, of_site) is not None]
        rows = row_of(family).reshape(len(limited), data.num_quarters)
        for site, own in zip(limited, rows, strict=True):
            yield _Limit(of_site, site, None, name, own, 1.0, 0.0)
    if problem.carbon_caps_kg:
        for t, own in enumerate(row_of("carbon")):
            # Each is at least minus the cap.
            yield _Limit("carbon", "", t, "kg", own, -1.0, 0.0)


def _host_limits(data: SizingData, first: FirstStage) -> Iterator[_Limit]:
    """One more host that is there already, in all quarters, at every site where it can stand.

    It is not bought, but it costs what owned hosts cost: upkeep and energy, or its fee.
    """
    problem = data.problem
    caps = bool(problem.carbon_caps_kg or problem.quarter_budgets or problem.budget is not None)
    rows = np.arange(*first.rows["C1"].indices(len(first.row_lower))).reshape(first.hosts.shape)
    in_pools = np.arange(*first.rows["C6"].indices(len(first.row_lower)))
    counted = in_pools.reshape(-1, data.num_quarters)
    level_of = {k: i for i, level in enumerate(data.levels) for k in level.host_groups}
    for k, (group, own) in enumerate(zip(data.host_groups, rows, strict=True)):
        offer, site = data.offer(group), problem.sites[group.site]
        kept = "reserved, its fee paid" if offer.terms == "reserved" else "owned, its upkeep paid"
        each = float(data.running_cost[k] + data.reserved_cost(k)) / data.host_unit
        keeping = each * float(data.discount.sum())
        full = [
            getattr(site, field) is not None and size > 0
            for field, size in (
                ("rack_units", offer.rack_units),
                ("ports", offer.ports),
                ("power_kw", offer.busy_kw),
            )
        ]
        least = None if caps or any(full) else -keeping
        one, what = 1 / data.host_unit, f'host at "{site.name}", {kept}'
        rows_and_columns = (counted[level_of[k]], first.open[level_of[k]]) if data.spares else ()
        yield _Limit("host", offer.name, None, what, own, one, least, *rows_and_columns)


def _hosts(data: SizingData, relaxed: _Relaxed) -> Iterator[Sensitivity]:
    """Value one more host of each offer, at the site where it saves most and has room."""
    of_offer: dict[str, list[_Limit]] = defaultdict(list)
    for limit in _host_limits(data, relaxed.form.first):
        of_offer[limit.name].append(limit)
    for limits in of_offer.values():
        best: Sensitivity | None = None
        for limit in sorted(limits, key=relaxed.bound, reverse=True):
            if best is not None and best.value is not None and relaxed.bound(limit) <= -best.value:
                break
            found = relaxed.saved(limit)
            if found is not None and (best is None or (found.value or 0) < (best.value or 0)):
                best = found
        if best is not None:
            yield best


def _demand(relaxed: _Relaxed) -> Iterator[Sensitivity]:
    """Value one per cent more of each class, in bands of hours and assumed pools as they are."""
    problem = relaxed.data.problem
    for job_class in problem.classes:
        name = job_class.name
        more = problem.replace(
            scenarios=tuple(
                dataclasses.replace(
                    scenario,
                    arrivals={
                        **scenario.arrivals,
                        name: tuple((1 + MORE_DEMAND) * a for a in scenario.arrivals[name]),
                    },
                )
                for scenario in problem.scenarios
            ),
        )
        saving = relaxed.saved_by(SizingData(more, like=relaxed.data))
        if saving is None:
            return
        value = None if math.isinf(saving) else saving
        yield _sensitivity("demand", name, None, _MORE_JOBS, value, value, value)
