"""Recipes of the planning problems: for each id the arguments of `generate_planning`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "planning-tiny/01": {**_TINY, "seed": 1},
    "planning-tiny/02": {**_TINY, "failures": 1, "seed": 2},
    "planning-tiny/03": {**_TINY, "epsilon": 0.5, "goals": False, "seed": 3},
    "planning-small/01": {**_SMALL, "seed": 11},
    "planning-small/02": {**_SMALL, "failures": 1, "carbon_price_per_kg": 0.1, "seed": 12},
    "planning-small/03": {**_SMALL, "budget_share": 2.0, "own": 0.6, "seed": 13},
    "planning-small/04": {**_SMALL, "num_scenarios": 4, "epsilon": 0.25, "seed": 14},
    "planning-medium/01": {**_MEDIUM, "seed": 21},
    "planning-medium/02": {**_MEDIUM, "failures": 1, "seed": 22},
    "planning-large/01": {**_LARGE, "seed": 1},
    "planning-large/02": {**_LARGE, "failures": 1, "seed": 1},
    "planning-large/03": {**_LARGE, "failures": 1, "epsilon": 0.1, "seed": 3},
}
"""Id of each problem with best known bounds, and its arguments: to measure solvers on."""
