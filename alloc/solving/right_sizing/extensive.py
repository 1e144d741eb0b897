"""Right-sizing as one mixed-integer program: the extensive form handed to HiGHS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.interrupts import stoppable
from alloc.backends.second_proof import search_and_solve
from alloc.certificate import BoundProof
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.arrays import Extensive, extensive
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.reading import read_plan
from alloc.problems.right_sizing.plan import Plan
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.right_sizing.first_stage_completion import FirstStageCompletion
from alloc.solving.right_sizing.state import BACKEND, money_unit
from alloc.solving.right_sizing.strengthened import strengthened

_FOR_ROWS = 0.2
"""Of the time, for rows: where that is too little for a relaxation or two, they are no help."""


def solve_extensive(
    data: SizingData, settings: Settings, gap: float, start: Plan | None = None
) -> Outcome[Plan]:
    """Return the best plan within the limits, and the bound that HiGHS claims.

    Parameters
    ----------
    data
        The problem.
    settings
        Limits.
    gap
        Relative gap at which to stop, 0 or more.
    start
        A plan to start from, or None.
    """
    unit = money_unit(data)
    form = extensive(data, unit=unit)
    model = _with_hosts_paid_when_ordered(form, unit)
    with stoppable() as stop:
        model = strengthened(data, form, model, settings.seconds_left() * _FOR_ROWS, stop)
    if stop.pressed:
        return Outcome(None, -np.inf, "none", BACKEND, highs.version(), "interrupt", False)
    options = SolverOptions(
        settings.seconds_left(),
        settings.seed,
        settings.workers,
        gap=gap,
        start=None if start is None else _start(data, form, start),
        stoppable=True,
    )
    raw = search_and_solve(model, options)
    proof: BoundProof = raw.bound_proof if np.isfinite(raw.bound) else "none"
    infeasible = raw.status == "infeasible"
    plan = None if raw.values is None else _read(data, form, raw.values)
    bound = raw.bound * unit
    return Outcome(plan, bound, proof, BACKEND, highs.version(), raw.limit, infeasible)


def _with_hosts_paid_when_ordered(form: Extensive, unit: float) -> ArrayModel:
    """Return the model with what hosts in service cost as a cost of orders and, if owned, apart."""
    first, model = form.first, form.model
    cost, each = first.paid_when_ordered()
    owned = float(each @ first.row_lower[first.rows["C1"]])
    return replace(
        model,
        cost=np.concatenate([cost / unit, model.cost[len(cost) :]]),
        offset=model.offset + owned / unit,
    )


def _read(data: SizingData, form: Extensive, values: Array) -> Plan:
    first, running = form.split(values)
    return read_plan(data, form.first, form.blocks, first, running)


def _start(data: SizingData, form: Extensive, plan: Plan) -> Array:
    """Return the plan's integers as a start, everything else unknown."""
    first = form.first
    decided = np.concatenate([first.order[first.order >= 0], first.sent.ravel(), first.waive])
    values = np.full(len(form.model.cost), np.nan)
    values[decided] = FirstStageCompletion(data, first).from_plan(plan)[decided]
    return values
