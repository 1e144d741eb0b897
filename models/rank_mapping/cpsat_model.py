"""Rank mapping in CP-SAT: the count model."""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from alloc.clock import check_time
from alloc.formulation import Array, CpSatModel
from alloc.models.rank_mapping.counts import CountProblem, Counts

_LARGEST_COEFFICIENT = 10**9
"""Costs are scaled to integers up to this; whole numbers up to it stay as they are."""


def cpsat_counts(problem: CountProblem, known: tuple[int, ...] | None = None) -> CpSatModel:
    """Return the count model; its variables are x of the open levels, domain by domain.

    Levels at which every boundary is cut in any case need no variables: they only leave room.

    Parameters
    ----------
    problem
        The counts.
    known
        Boundaries that some solution cuts at each level, if one is known. Where a single cut takes
        longer than all of its cuts, none is made; otherwise it would set the unit of all costs.
    """
    model = cp_model.CpModel()
    levels, stages = range(problem.open_levels), range(problem.stages)
    boundaries = range(problem.stages - 1)
    x = [
        [
            [model.new_int_var(0, problem.cells(level), f"x[{level},{v},{p}]") for p in stages]
            for v in range(len(problem.domains.parent[level]))
        ]
        for level in levels
    ]
    y = {
        (level, b): model.new_bool_var(f"y[{level},{b}]")
        for level in levels[1:]
        for b in boundaries
    }
    z = {level: model.new_bool_var(f"z[{level}]") for level in levels[1:]}
    for p in stages:
        model.add(x[0][0][p] == 1)  # (C1)
    for level in levels[:-1]:
        for v, own in enumerate(x[level]):
            check_time()
            inside = [x[level + 1][u] for u in problem.domains.children(level, v)]
            for p in stages:  # (C2)
                model.add(sum(row[p] for row in inside) == problem.split(level) * own[p])
    for row, room in zip(x[-1], problem.capacities()[len(x) - 1].tolist(), strict=True):
        model.add(sum(row) <= room)  # (C3)
    for (level, b), cut in y.items():
        check_time()
        for row in x[level]:  # (C4)
            model.add(row[b + 1] == row[b]).only_enforce_if(~cut)
        if level + 1 < len(x):
            model.add_implication(cut, y[level + 1, b])  # (C5)
        model.add_implication(cut, z[level])  # (C6)
    for level, least in enumerate(problem.least_cuts()[: len(x)]):
        if least:
            model.add(sum(y[level, b] for b in boundaries) >= least)
    f, extra = problem.boundary_s, problem.micro_batches - 1
    cost = {level: 2 * (f[level - 1] - f[level]) for level in levels[1:]}
    if known is not None:
        seconds = sum(c * (known[n] + extra * (known[n] > 0)) for n, c in cost.items())
        for level in [n for n, c in cost.items() if c * (1 + extra) > seconds * (1 + 1e-9)]:
            del cost[level]
            model.add(z[level] == 0)
    scale = _scale(max([*cost.values(), 0.0]) * max(1, extra))
    weight = {level: round(value * scale) for level, value in cost.items()}
    model.minimize(
        sum(value * y[level, b] for level, value in weight.items() for b in boundaries)
        + sum(value * extra * z[level] for level, value in weight.items())
    )
    flat = tuple(x[level][v][p] for level in levels for v in range(len(x[level])) for p in stages)
    # All boundaries are cut at the levels further in.
    constant = 2 * (len(boundaries) + extra) * f[len(x) - 1] if boundaries else 0.0
    terms = (len(boundaries) + extra) * len(cost)
    return CpSatModel(model, flat, "min", scale, constant, 0.5 * terms / scale)


def counts_of(problem: CountProblem, values: Array) -> Counts:
    """Return x of all levels from the values of the model's variables.

    Parameters
    ----------
    problem
        The data of the count model.
    values
        Values of its variables, integers up to rounding.
    """
    found: Counts = []
    start = 0
    for parent in problem.domains.parent[: problem.open_levels]:
        size = len(parent) * problem.stages
        block = values[start : start + size].reshape(len(parent), problem.stages)
        found.append(np.rint(block).astype(np.int64))
        start += size
    return problem.extended(found)


def _scale(largest: float) -> float:
    return _LARGEST_COEFFICIENT / largest if largest > 0 else 1.0
