"""Quadratic assignment: stages that talk to each other go to places of a grid or a tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import below
from alloc.problems.quadratic_assignment import QuadraticAssignment

_LARGEST_FLOW = 9
"""Flows are drawn from 1 to this, one digit, as in the classical instances of QAPLIB."""


def grid(
    name: str, *, rows: int, columns: int, torus: bool = False, dense: float = 0.5, seed: int = 0
) -> QuadraticAssignment:
    """Return flows between as many things as a grid has places, with the grid's distances.

    Parameters
    ----------
    name
        Name of the problem.
    rows, columns
        The grid.
    torus
        Whether its edges meet, as in pods of a torus.
    dense
        Share of the pairs with a flow.
    seed
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    number = rows * columns
    flow = np.zeros((number, number))
    for i in range(number):
        for j in range(i):
            if rng.random() < dense:
                flow[i, j] = flow[j, i] = 1 + below(rng, _LARGEST_FLOW)
    at = np.array([divmod(place, columns) for place in range(number)])
    steps = np.abs(at[:, None, :] - at[None, :, :])
    if torus:
        steps = np.minimum(steps, np.array([rows, columns]) - steps)
    return QuadraticAssignment(name, flow, steps.sum(axis=2).astype(float))


def size(problem: QuadraticAssignment) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {"places": len(problem.flow)}


def _family(name: str, about: str, *variants: dict[str, Any]) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "quadratic_assignment",
        "cost",
        grid,
        size,
        variants,
        {},
        ("grid distances and small whole flows as in Nugent, Vollmann, Ruml, Oper. Res. 16, 1968",),
    )


FAMILIES = (
    _family(
        "assignment-small",
        "6 to 9 places, for enumeration",
        {"rows": 2, "columns": 3, "seed": 1},
        {"rows": 2, "columns": 4, "seed": 2},
        {"rows": 2, "columns": 4, "torus": True, "seed": 3},
        {"rows": 3, "columns": 3, "seed": 4},
        {"rows": 3, "columns": 3, "torus": True, "dense": 0.8, "seed": 5},
    ),
    _family(
        "assignment-large",
        "16 to 100 places",
        {"rows": 4, "columns": 4, "seed": 11},
        {"rows": 4, "columns": 4, "torus": True, "seed": 12},
        {"rows": 5, "columns": 6, "seed": 13},
        {"rows": 8, "columns": 8, "torus": True, "dense": 0.2, "seed": 14},
        {"rows": 10, "columns": 10, "dense": 0.1, "seed": 15},
    ),
)
