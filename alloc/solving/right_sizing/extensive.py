"""Right-sizing as one mixed-integer program: the extensive form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.interrupts import stoppable
from alloc.backends.linear_program import CLOSELY, LinearProgram
from alloc.backends.second_proof import search_and_solve
from alloc.certificate import BoundProof
from alloc.errors import UnsupportedFeatureError
from alloc.formulation import ArrayModel, RawResult, RawStatus
from alloc.models.right_sizing.arrays import Extensive, extensive
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.first_stage import first_stage
from alloc.models.right_sizing.reading import read_plan
from alloc.problems.right_sizing.plan import Plan
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.right_sizing.first_stage_completion import FirstStageCompletion
from alloc.solving.right_sizing.state import BACKEND, money_unit
from alloc.solving.right_sizing.strengthened import strengthened

_FOR_ROWS = 0.2
"""Of the time, for rows: where that is too little for a relaxation or two, they are no help."""
_LEAST_S = 0.05
"""For working out all else of a start, however little time there is: few take longer."""


def solve_extensive(
    data: SizingData, settings: Settings, gap: float, start: Plan | None = None
) -> Outcome[Plan]:
    """Return the best plan within the limits, and what is proved of every plan.

    Parameters
    ----------
    data
        The problem.
    settings
        Limits.
    gap
        Relative gap at which to stop, 0 or more.
    start
        A plan to begin with, or None.
    """
    unit = money_unit(data)
    form = extensive(data, first_stage(data, within_budgets=True), unit=unit)
    plain = _with_hosts_paid_when_ordered(form, unit)
    seconds = settings.seconds_left() * _FOR_ROWS
    with stoppable() as stop:
        model, bound = strengthened(data, form, plain, seconds, stop)
        known = None if start is None else _start(data, form, model, start, seconds)
        raw = _interrupted(known) if stop.pressed else _solve(model, plain, settings, gap, known)
    if raw.status != "infeasible" and raw.bound < bound:
        raw = replace(raw, bound=bound, bound_proof="recomputed")
    proof: BoundProof = raw.bound_proof if np.isfinite(raw.bound) else "none"
    infeasible = raw.status == "infeasible"
    plan = None if raw.values is None else _read(data, form, raw.values)
    return Outcome(plan, raw.bound * unit, proof, BACKEND, highs.version(), raw.limit, infeasible)


def _solve(
    model: ArrayModel, plain: ArrayModel, settings: Settings, gap: float, known: Array | None
) -> RawResult:
    """Solve a program with rows for open pools, and without them where HiGHS refuses it so."""
    options = SolverOptions(
        settings.seconds_left(),
        settings.seed,
        settings.workers,
        gap=gap,
        start=known,
        stoppable=True,
    )
    try:
        return search_and_solve(model, options)
    except UnsupportedFeatureError:
        if model is plain:
            raise
        left = replace(options, time_limit_s=settings.seconds_left())
        return search_and_solve(plain, left)


def _interrupted(known: Array | None) -> RawResult:
    """Return what there is when somebody presses Ctrl-C before the search."""
    values = known if known is not None and np.isfinite(known).all() else None
    status: RawStatus = "no_solution" if values is None else "feasible"
    return RawResult(status, values, None, -np.inf, "interrupt", "Interrupted", "none")


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


def _start(
    data: SizingData, form: Extensive, model: ArrayModel, plan: Plan, seconds: float
) -> Array:
    """Return a plan's integers as a start, with all else as a relaxation has it, or unknown."""
    first, completing = form.first, FirstStageCompletion(data, form.first)
    integers = completing.from_plan(plan)
    decided = np.concatenate([first.order[first.order >= 0], first.sent.ravel(), first.waive])
    fixed = np.concatenate([decided, first.open[first.open >= 0]])
    lower, upper = model.lower.copy(), model.upper.copy()
    lower[fixed] = upper[fixed] = completing.complete(integers)[fixed]
    program = LinearProgram(replace(model, lower=lower, upper=upper), tolerance=CLOSELY)
    # Not broken off by Ctrl-C: whoever gives a plan wants it back.
    found = program.solve(max(seconds, _LEAST_S))
    if found is not None:
        return found.cleaned
    values = np.full(len(model.cost), np.nan)
    values[decided] = integers[decided]
    return values
