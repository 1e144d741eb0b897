"""Marginal values: what one more unit would save, from the duals of the linear relaxation.

The dual value of a limit is what the optimum of the relaxation changes by for a small change of the
limit, where there is only one. Where there are several, as for hosts that the plan does without, a
solver names any of them, and more of the limit may save less: so the relaxation is solved again
with a little more of it. In the relaxation a class pays for a margin by the part of its jobs that
it sends, so that the value of its demand has a part of the margin in it. Numbers of hosts are
whole, so the plan itself changes in steps: these values say where to look, and a what-if says what
is to be had.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.capacity.plan import MarginalValue
from alloc.models.right_sizing.arrays import Extensive
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.models.right_sizing.first_stage import FirstStage

if TYPE_CHECKING:
    from alloc.solving.capacity.right_sizing_relaxation import Relaxation

_LEAST = 1e-9
_STEP = 0.01
"""How much more of a limit the relaxation is solved with again, in the limit's unit."""
_PATIENCE_S = 1.0
"""Seconds after which dual values stand as they are."""


class Slopes:
    """What more of a limit saves, by solving the relaxation again from its optimum.

    Parameters
    ----------
    program
        The relaxation.
    optimum
        Its optimal value.
    lower, upper
        Limits of its rows, at least of those that are asked about.
    """

    def __init__(self, program: LinearProgram, optimum: float, lower: Array, upper: Array) -> None:
        self._program, self._lower, self._upper = program, lower, upper
        self._basis = program.basis()
        self._optimum = optimum
        self._until = time.perf_counter() + _PATIENCE_S

    def saving(self, rows: Ints, dual: float) -> float:
        """Return what one more on the right-hand sides of rows saves, or `dual` out of time.

        Parameters
        ----------
        rows
            The rows, all of them together.
        dual
            What it saves by the dual values, which is never less.
        """
        if time.perf_counter() > self._until:
            return dual
        self._set(rows, _STEP)
        found = self._program.solve()
        self._set(rows, 0.0)
        self._program.set_basis(self._basis)
        return dual if found is None else min((self._optimum - found.value) / _STEP, dual)

    def end(self) -> None:
        """Leave the relaxation as it was."""
        self._program.solve()

    def _set(self, rows: Ints, step: float) -> None:
        self._program.set_row_bounds(rows, self._lower[rows] + step, self._upper[rows] + step)


@dataclass(frozen=True, eq=False)
class Duals:
    """Dual values of the relaxation, in money.

    Parameters
    ----------
    first
        Of the first stage's rows.
    budgets
        Of the budgets: those of the quarters, if there are, then that of the plan.
    blocks
        Of the blocks' rows, with probability and discount, shape (scenarios, quarters, rows).
    slopes
        What more of the first stage's limits and the budgets saves.
    unit
        Unit of money of the relaxation.
    budget_row
        Row of the first budget in the relaxation.
    """

    first: Array
    budgets: Array
    blocks: Array
    slopes: Slopes
    unit: float
    budget_row: int


def marginals_of_cuts(state: Relaxation) -> tuple[MarginalValue, ...]:
    """Return the marginal values at the optimum of a decomposition's relaxation."""
    value, rows, cuts = state.master.duals()
    begin = len(state.first.row_lower)
    blocks = np.zeros((*state.setting.shape, state.blocks.num_rows))
    for row in np.flatnonzero(np.abs(cuts) > _LEAST).tolist():
        w, t, k = state.master.cuts[row]
        blocks[w, t] += cuts[row] * state.pool.dual[k]
    first = state.first
    lower = np.concatenate([first.row_lower, np.full(len(rows) - begin, -np.inf)])
    upper = np.concatenate([first.row_upper, state.setting.budgets])
    slopes = Slopes(state.master.program, value, lower, upper)
    duals = Duals(
        state.unit * rows[:begin], rows[begin:], state.unit * blocks, slopes, state.unit, begin
    )
    return marginal_values(state.data, first, state.blocks, duals)


def marginals_of_form(
    data: SizingData, form: Extensive, unit: float, seconds: float
) -> tuple[MarginalValue, ...]:
    """Return the marginal values at the optimum of the extensive form's relaxation."""
    model = form.model
    program = LinearProgram(model)
    found = program.solve(seconds)
    if found is None:
        return ()
    dual = found.duals
    duals = Duals(
        unit * dual[: len(form.first.row_lower)],
        dual[model.rows["C16"]],
        unit * dual[model.rows["blocks"]].reshape(*form.shape[:2], -1),
        Slopes(program, found.value, model.row_lower, model.row_upper),
        unit,
        model.rows["C16"].start,
    )
    return marginal_values(data, form.first, form.blocks, duals)


def marginal_values(
    data: SizingData, first: FirstStage, blocks: Blocks, duals: Duals
) -> tuple[MarginalValue, ...]:
    """Return what one more unit of each limit saves."""
    found = (
        *_budgets(data, duals),
        *_sites(data, first, duals),
        *_carbon(data, blocks, duals),
        *_hosts(data, first, duals),
        *_demand(data, blocks, duals),
    )
    duals.slopes.end()
    return found


def _budgets(data: SizingData, duals: Duals) -> Iterator[MarginalValue]:
    currency = data.problem.currency
    quarters = range(len(data.problem.quarter_budgets))
    names = [*quarters, *([None] if data.problem.budget is not None else [])]
    for k, (quarter, dual) in enumerate(zip(names, duals.budgets.tolist(), strict=True)):
        saving = -dual
        if saving > _LEAST:
            # Money on both sides, in the same unit.
            saving = duals.slopes.saving(np.array([duals.budget_row + k]), saving)
        yield MarginalValue("budget", "", quarter, currency, max(saving, 0.0))


def _sites(data: SizingData, first: FirstStage, duals: Duals) -> Iterator[MarginalValue]:
    for name, field, unit in (
        ("C2", "rack_units", "rack unit"),
        ("C3", "ports", "port"),
        ("C4", "power_kw", "kW"),
    ):
        limited = [site.name for site in data.problem.sites if getattr(site, field) is not None]
        rows = _rows(data, first, name, len(limited))
        for k, site in enumerate(limited):
            yield MarginalValue(field, site, None, unit, max(_saving(duals, rows[k]), 0.0))


def _carbon(data: SizingData, blocks: Blocks, duals: Duals) -> Iterator[MarginalValue]:
    if data.problem.carbon_caps_kg:
        saved = duals.blocks[:, :, blocks.family["carbon"]].sum(axis=(0, 2))
        for quarter, saving in enumerate(saved.tolist()):
            yield MarginalValue("carbon", "", quarter, "kg", max(saving, 0.0))


def _hosts(data: SizingData, first: FirstStage, duals: Duals) -> Iterator[MarginalValue]:
    """Value a host that is there already, in all quarters, at the site where it saves most.

    It is not bought, but it costs what owned hosts cost: upkeep and energy, or its fee.
    """
    rows = _rows(data, first, "C1", len(data.stands))
    best: dict[str, tuple[float, str, str]] = {}
    most = -duals.first[rows].sum(axis=1)
    for k in np.argsort(-most, kind="stable").tolist():
        stand = data.stands[k]
        known = best.get(data.offer(stand).name)
        if known is not None and most[k] <= known[0]:
            continue
        saving = _saving(duals, rows[k])
        offer, site = data.offer(stand), data.problem.sites[stand.site].name
        if offer.name not in best or saving > best[offer.name][0]:
            how = (
                "reserved, its fee paid" if offer.terms == "reserved" else "owned, its upkeep paid"
            )
            best[offer.name] = (saving, site, how)
    for name, (saving, site, how) in best.items():
        yield MarginalValue("host", name, None, f'host at "{site}", {how}', saving)


def _rows(data: SizingData, first: FirstStage, name: str, owners: int) -> Ints:
    """Return the rows of a family, one line for each owner, its quarters in order."""
    rows = np.arange(*first.rows[name].indices(len(first.row_lower)))
    return rows.reshape(owners, data.num_quarters)


def _saving(duals: Duals, rows: Ints) -> float:
    """Return what one more of a limit in all quarters saves, money."""
    dual = -float(duals.first[rows].sum())
    if abs(dual) <= _LEAST * duals.unit:
        return dual
    return duals.unit * duals.slopes.saving(rows, dual / duals.unit)


def _demand(data: SizingData, blocks: Blocks, duals: Duals) -> Iterator[MarginalValue]:
    rows = blocks.family["demand"]
    cost = (duals.blocks * blocks.right_hand_sides())[:, :, rows].sum(axis=(0, 1))
    total = np.zeros(len(data.problem.classes))
    for (c, _), value in zip(blocks.demand_rows, cost.tolist(), strict=True):
        total[c] += value
    for job_class, value in zip(data.problem.classes, total.tolist(), strict=True):
        yield MarginalValue("demand", job_class.name, None, "1 % of its jobs", -0.01 * value)
