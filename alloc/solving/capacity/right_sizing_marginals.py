"""Marginal values: what one more unit would save, from the duals of the linear relaxation.

The dual value of a limit is what the optimum of the relaxation changes by for a small change of the
limit. Numbers of hosts are whole, so the plan itself changes in steps: these values say where to
look, and a re-solve says what is to be had.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import highspy
import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.highs import highs_model, quiet_solver
from alloc.capacity.plan import MarginalValue
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.arrays import Extensive
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.first_stage import FirstStage

if TYPE_CHECKING:
    from alloc.solving.capacity.right_sizing_relaxation import Relaxation

_LEAST = 1e-9


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
    """

    first: Array
    budgets: Array
    blocks: Array


def marginals_of_cuts(state: Relaxation) -> tuple[MarginalValue, ...]:
    """Return the marginal values at the optimum of a decomposition's relaxation."""
    rows, cuts = state.master.duals()
    begin = len(state.first.row_lower)
    blocks = np.zeros((*state.setting.shape, state.blocks.num_rows))
    for row in np.flatnonzero(np.abs(cuts) > _LEAST).tolist():
        w, t, k = state.master.cuts[row]
        blocks[w, t] += cuts[row] * state.pool.dual[k]
    duals = Duals(state.unit * rows[:begin], rows[begin:], state.unit * blocks)
    return marginal_values(state.data, state.first, state.blocks, duals)


def marginals_of_form(
    data: SizingData, form: Extensive, unit: float, seconds: float
) -> tuple[MarginalValue, ...]:
    """Return the marginal values at the optimum of the extensive form's relaxation."""
    model = form.model
    relaxed = ArrayModel(**{**vars(model), "integer": np.zeros(len(model.cost), dtype=bool)})
    solver = quiet_solver(SolverOptions(seconds))
    solver.passModel(highs_model(relaxed))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return ()
    dual = np.array(solver.getSolution().row_dual)
    duals = Duals(
        unit * dual[: len(form.first.row_lower)],
        dual[model.rows["C16"]],
        unit * dual[model.rows["blocks"]].reshape(*form.shape[:2], -1),
    )
    return marginal_values(data, form.first, form.blocks, duals)


def marginal_values(
    data: SizingData, first: FirstStage, blocks: Blocks, duals: Duals
) -> tuple[MarginalValue, ...]:
    """Return what one more unit of each limit saves."""
    found = [
        *_budgets(data, duals),
        *_sites(data, first, duals),
        *_carbon(data, blocks, duals),
        *_hosts(data, first, duals),
        *_demand(data, blocks, duals),
    ]
    return tuple(found)


def _budgets(data: SizingData, duals: Duals) -> Iterator[MarginalValue]:
    currency = data.problem.currency
    quarters = range(len(data.problem.quarter_budgets))
    names = [*quarters, *([None] if data.problem.budget is not None else [])]
    for quarter, dual in zip(names, duals.budgets.tolist(), strict=True):
        yield MarginalValue("budget", "", quarter, currency, max(-dual, 0.0))


def _sites(data: SizingData, first: FirstStage, duals: Duals) -> Iterator[MarginalValue]:
    for name, field, unit in (
        ("C2", "rack_units", "rack unit"),
        ("C3", "ports", "port"),
        ("C4", "power_kw", "kW"),
    ):
        limited = [site.name for site in data.problem.sites if getattr(site, field) is not None]
        saved = -duals.first[first.rows[name]].reshape(len(limited), data.num_quarters)
        for site, saving in zip(limited, saved.sum(axis=1).tolist(), strict=True):
            yield MarginalValue(field, site, None, unit, max(saving, 0.0))


def _carbon(data: SizingData, blocks: Blocks, duals: Duals) -> Iterator[MarginalValue]:
    if data.problem.carbon_caps_kg:
        saved = duals.blocks[:, :, blocks.family["carbon"]].sum(axis=(0, 2))
        for quarter, saving in enumerate(saved.tolist()):
            yield MarginalValue("carbon", "", quarter, "kg", max(saving, 0.0))


def _hosts(data: SizingData, first: FirstStage, duals: Duals) -> Iterator[MarginalValue]:
    """Value a host that is given, in service in all quarters, at the site where it saves most."""
    worth = -duals.first[first.rows["C1"]].reshape(len(data.stands), data.num_quarters)
    best: dict[str, tuple[float, str]] = {}
    for stand, saving in zip(data.stands, worth.sum(axis=1).tolist(), strict=True):
        offer, site = data.offer(stand).name, data.problem.sites[stand.site].name
        if offer not in best or saving > best[offer][0]:
            best[offer] = (saving, site)
    for offer, (saving, site) in best.items():
        yield MarginalValue("host", offer, None, f'host given for nothing at "{site}"', saving)


def _demand(data: SizingData, blocks: Blocks, duals: Duals) -> Iterator[MarginalValue]:
    rows = blocks.family["demand"]
    cost = (duals.blocks * blocks.right_hand_sides())[:, :, rows].sum(axis=(0, 1))
    total = np.zeros(len(data.problem.classes))
    for (c, _), value in zip(blocks.demand_rows, cost.tolist(), strict=True):
        total[c] += value
    for job_class, value in zip(data.problem.classes, total.tolist(), strict=True):
        yield MarginalValue("demand", job_class.name, None, "1 % of its jobs", -0.01 * value)
