"""Capacity planning: which hosts to buy, reserve and rent for a forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alloc.instances.planning import generate_planning
from alloc.instances.recipes import RecipeFamily
from alloc.problems.right_sizing import PlanningProblem

EXAMPLES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
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
"""Id of each example of the documentation and the page, a line for people, and its arguments."""

_TINY: dict[str, Any] = {
    "num_host_types": 2,
    "num_sites": 2,
    "num_quarters": 2,
    "num_classes": 2,
    "num_scenarios": 2,
    "gpus": 40.0,
    "bands": 2,
}
_SMALL: dict[str, Any] = {
    "num_host_types": 4,
    "num_sites": 2,
    "num_quarters": 3,
    "num_classes": 4,
    "num_scenarios": 2,
    "gpus": 120.0,
    "bands": 3,
}
_MEDIUM: dict[str, Any] = {
    "num_host_types": 10,
    "num_sites": 3,
    "num_quarters": 6,
    "num_classes": 15,
    "num_scenarios": 8,
    "gpus": 600.0,
}
_LARGE: dict[str, Any] = {
    "num_host_types": 20,
    "num_sites": 5,
    "num_quarters": 8,
    "num_classes": 50,
    "num_scenarios": 20,
    "gpus": 3000.0,
}


def size(problem: PlanningProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {
        "host_types": len({offer.host.name for offer in problem.offers}),
        "sites": len(problem.sites),
        "quarters": problem.num_quarters,
        "classes": len(problem.classes),
        "scenarios": len(problem.scenarios),
    }


def _family(
    name: str, about: str, common: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]
) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "right_sizing",
        "cost",
        generate_planning,
        size,
        variants,
        common,
        ("GPUs, prices and energy: the tables of alloc.instances.planning, with their sources",),
        stored=True,
    )


FAMILIES = (
    _family(
        "planning-tiny",
        "2 host types, 2 sites, half a year: seconds",
        _TINY,
        [
            {"seed": 1},
            {"failures": 1, "seed": 2},
            {"epsilon": 0.5, "goals": False, "seed": 3},
            {"carbon_price_per_kg": 0.1, "seed": 4},
            {"own": 0.6, "num_scenarios": 3, "seed": 5},
        ],
    ),
    _family(
        "planning-small",
        "4 host types, 2 sites, three quarters",
        _SMALL,
        [
            {"seed": 11},
            {"failures": 1, "carbon_price_per_kg": 0.1, "seed": 12},
            {"budget_share": 2.0, "own": 0.6, "seed": 13},
            {"num_scenarios": 4, "epsilon": 0.25, "seed": 14},
            {"num_classes": 6, "failures": 1, "seed": 15},
        ],
    ),
    _family(
        "planning-medium",
        "10 host types, 3 sites, a year and a half",
        _MEDIUM,
        [
            {"seed": 21},
            {"failures": 1, "seed": 22},
            {"epsilon": 0.125, "seed": 23},
            {"own": 0.5, "seed": 24},
            {"carbon_price_per_kg": 0.1, "seed": 25},
        ],
    ),
    _family(
        "planning-large",
        "20 host types, 5 sites, two years, 50 classes, 20 scenarios",
        _LARGE,
        [
            {"seed": 1},
            {"failures": 1, "seed": 1},
            {"failures": 1, "epsilon": 0.1, "seed": 3},
            {"own": 0.5, "seed": 4},
            {"failures": 2, "seed": 5},
        ],
    ),
)
