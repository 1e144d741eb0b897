"""Planning problems by id: examples, made by recipe, and those stored with best known bounds.

Ids without a slash are the examples of the documentation and the page; ``planning-small/01`` and
its like are stored with a manifest (`alloc.instances.planning_stored`), to measure solvers on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alloc.capacity.problem import PlanningProblem
from alloc.errors import InstanceError, nearest
from alloc.instances.planning import generate_planning
from alloc.instances.planning_stored import load_planning, planning_manifest

RECIPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "planning-tiny": (
        "one room and a cloud, two GPU types, two quarters: seconds",
        {
            "num_quarters": 2,
            "num_classes": 3,
            "num_scenarios": 2,
            "gpus": 60.0,
            "seed": 1,
        },
    ),
    "planning-small": (
        "a year, five classes, three scenarios",
        {"gpus": 200.0, "seed": 2},
    ),
    "planning-spare": (
        "every pool can lose two hosts",
        {"failures": 2, "gpus": 160.0, "seed": 3},
    ),
    "planning-budget": (
        "a budget that renting everything would overrun",
        {"budget_share": 0.9, "gpus": 160.0, "num_scenarios": 4, "seed": 4},
    ),
    "planning-carbon": (
        "carbon has a price, energy differs by hour and site",
        {"carbon_price_per_kg": 0.2, "num_sites": 3, "gpus": 200.0, "seed": 5},
    ),
    "planning-chance": (
        "a tenth of the future may be waived",
        {"epsilon": 0.1, "num_scenarios": 10, "num_quarters": 3, "gpus": 120.0, "seed": 6},
    ),
    "planning-medium": (
        "two years, three sites, ten host types, twenty classes, ten scenarios",
        {
            "num_host_types": 10,
            "num_sites": 3,
            "num_quarters": 8,
            "num_classes": 20,
            "num_scenarios": 10,
            "gpus": 1000.0,
            "seed": 7,
        },
    ),
    "planning-large": (
        "two years, five sites, twenty host types, fifty classes, twenty scenarios",
        {
            "num_host_types": 20,
            "num_sites": 5,
            "num_quarters": 8,
            "num_classes": 50,
            "num_scenarios": 20,
            "gpus": 4000.0,
            "seed": 8,
        },
    ),
}
"""Id of each example, with a line for people and the arguments of `generate_planning`."""


def stored_planning_ids() -> tuple[str, ...]:
    """Return the ids of all planning problems: the examples, small ones first, and the stored."""
    return (*RECIPES, *(entry.id for entry in planning_manifest()))


def load_stored_planning(problem_id: str) -> PlanningProblem:
    """Return the planning problem of an id.

    Raises
    ------
    InstanceError
        If there is none.
    """
    known = stored_planning_ids()
    if problem_id not in known:
        raise InstanceError(
            f'no stored planning problem "{problem_id}"'
            f"{nearest(problem_id, known) or ';'} known: {', '.join(known)}."
        )
    if problem_id not in RECIPES:
        return load_planning(problem_id)
    line, arguments = RECIPES[problem_id]
    problem = generate_planning(problem_id, **arguments)
    return problem.replace(description={**problem.description, "about": line})
