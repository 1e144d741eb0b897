"""F4 in CP-SAT: the same columns and rows in integers."""

from __future__ import annotations

import math

import numpy as np
from ortools.sat.python import cp_model

from alloc.clock import check_time
from alloc.formulation import Array, ArrayModel, BuiltModel, CpSatModel
from alloc.models.placement.arrays import Reader, Starter
from alloc.models.placement.facts import Facts
from alloc.models.placement.measures import Expression, Measures
from alloc.models.placement.program import Program
from alloc.objectives import Held, WeightedSum, parse_level
from alloc.problems.allocation.instance import Instance

_LARGEST_SUM = 10**15
"""Objectives are scaled to integers whose sum stays below this: 64 bits hold all that CP-SAT makes
of them."""

_LARGEST_EXPONENT = 300
"""Of the scale: double precision ends at 308. Weights below 1e-286 are rounded, and the bound says
so."""

_TENS = tuple(10.0**k for k in range(10))
"""Powers of ten that weights as people write them need to be whole."""


def build_cpsat(instance: Instance, objective: str, held: tuple[Held, ...] = ()) -> BuiltModel:
    """Build a placement as a CP-SAT model.

    Parameters
    ----------
    instance
        The problem.
    objective
        A level of a goal.
    held
        Earlier levels and the values that they must keep.
    """
    level = parse_level(objective)
    program = Program(Facts(instance, (level, *(each.level for each in held))))
    measures = Measures(program, whole=True)
    goal = measures.of(level)
    kept = [(each, measures.of(each.level)) for each in held]
    arrays = program.builder.model(level.sense)
    model = cp_model.CpModel()
    columns = [
        model.new_int_var(round(low), round(high), f"c{n}")
        for n, (low, high) in enumerate(zip(arrays.lower, arrays.upper, strict=True))
    ]
    matrix = arrays.matrix.tocsr()
    for r in range(matrix.shape[0]):
        check_time()
        at = slice(matrix.indptr[r], matrix.indptr[r + 1])
        terms = [columns[c] for c in matrix.indices[at]]
        weights = [round(value) for value in matrix.data[at]]
        least, most = arrays.row_lower[r], arrays.row_upper[r]
        domain = cp_model.Domain(
            math.ceil(least) if math.isfinite(least) else cp_model.INT_MIN,
            math.floor(most) if math.isfinite(most) else cp_model.INT_MAX,
        )
        model.add_linear_expression_in_domain(
            cp_model.LinearExpr.weighted_sum(terms, weights), domain
        )
    for each, expression in kept:
        weights, scale, slack = _scaled(expression, arrays.upper)
        total = cp_model.LinearExpr.weighted_sum([columns[c] for c in expression.column], weights)
        limit = (each.limit - expression.constant) * scale
        slack += measures.rounding * _weight_of_balance(each.level) * scale
        if each.level.sense == "max":
            model.add(total >= math.ceil(limit - slack))
        else:
            model.add(total <= math.floor(limit + slack))
    weights, scale, slack = _scaled(goal, arrays.upper)
    total = cp_model.LinearExpr.weighted_sum([columns[c] for c in goal.column], weights)
    if level.sense == "max":
        model.maximize(total)
    else:
        model.minimize(total)
    rounding = slack / scale + measures.rounding * _weight_of_balance(level)
    cpsat = CpSatModel(
        model,
        tuple(columns),
        level.sense,
        scale,
        goal.constant,
        rounding,
        _trivial(goal, level, arrays),
    )
    return BuiltModel(cpsat, Reader(program), Starter(program))


def _trivial(goal: Expression, level: WeightedSum, arrays: ArrayModel) -> float:
    """Return the bound that the columns' own limits prove."""
    upwards = (goal.value > 0) == (level.sense == "max")
    ends = np.where(upwards, arrays.upper[goal.column], arrays.lower[goal.column])
    return float(goal.value @ ends) + goal.constant


def _weight_of_balance(level: WeightedSum) -> float:
    """Return the weight of the one objective whose parts are rounded."""
    return sum(weight for weight, term in level.terms if term.name == "balance")


def _scaled(expression: Expression, upper: Array) -> tuple[list[int], float, float]:
    """Return integer weights, their scale, and how far rounding may be off, in scaled units."""
    peak = float(np.abs(expression.value).max(initial=0.0))
    if peak == 0.0:
        return [0] * len(expression.column), 1.0, 0.0
    largest = float(np.abs(expression.value) @ upper[expression.column])
    least = float(np.abs(expression.value[expression.value != 0]).min())
    # What makes all of them whole: a power of ten, or one times what makes the smallest 1. Else the
    # largest power of ten, or part of one, whose sum fits.
    room = math.log10(_LARGEST_SUM) - math.log10(max(largest, peak))
    exponent = min(math.floor(room), _LARGEST_EXPONENT)
    exact = 10.0**exponent
    fitting = (scale for scale in (*_TENS, *(ten / least for ten in _TENS)) if scale <= exact)
    for scale in fitting:
        scaled = expression.value * scale
        if (np.abs(scaled - np.rint(scaled)) <= 1e-9 * np.abs(scaled)).all():
            exact = scale
            break
    whole = np.rint(expression.value * exact)
    off = np.abs(whole - expression.value * exact) @ upper[expression.column]
    return whole.astype(int).tolist(), exact, float(off)
