"""Rigid gangs in continuous time: a queue that a scheduler orders, and its optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alloc.instances.generators import PHILLY_GPUS, PHILLY_RUN_S, generate_gangs
from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.elastic import size
from alloc.instances.recipes.mixes import ITP_GPUS, ITP_RUN_S, ITP_SOURCE
from alloc.problems.allocation.instance import Instance

_PHILLY_SOURCE = "Philly: job table of Jeon et al., ATC 2019 (CC-BY-4.0), 82,247 jobs"


def queue(name: str, *, trace: str, **parameters: Any) -> Instance:
    """Return gangs with the sizes and durations of a trace, drawn apart from each other.

    Parameters
    ----------
    name
        Name of the instance.
    trace
        ``philly`` or ``itp``.
    parameters
        The others of `alloc.instances.generate_gangs`.
    """
    gpus, run_s = {"philly": (PHILLY_GPUS, PHILLY_RUN_S), "itp": (ITP_GPUS, ITP_RUN_S)}[trace]
    held = parameters["num_hosts"] * parameters.get("gpus_per_host", 8)
    sizes = {number: share for number, share in gpus.items() if number <= held}
    # Whole minutes: times that add up exactly, whatever the order.
    quantiles = [(share, round(seconds / 60) * 60.0) for share, seconds in run_s]
    return generate_gangs(name, gpus=sizes, run_s=quantiles, **parameters)


def _family(
    name: str, about: str, common: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]
) -> RecipeFamily:
    sources = (_PHILLY_SOURCE, ITP_SOURCE, "arrival rates: ours")
    return RecipeFamily(
        name, about, "malleable", "weighted_jct", queue, size, variants, common, sources
    )


FAMILIES = (
    _family(
        "gangs-small",
        "8 rigid gangs on 2 hosts of eight GPUs, sizes and durations of two traces",
        {"num_jobs": 8, "num_hosts": 2},
        [
            {"trace": "philly", "arrivals": "start", "seed": 1},
            {"trace": "itp", "arrivals": "start", "seed": 2},
            {"trace": "philly", "arrivals_per_slot": 0.5, "weights": "classes", "seed": 3},
            {"trace": "itp", "arrivals_per_slot": 0.05, "weights": "classes", "seed": 4},
            {"trace": "itp", "arrivals": "start", "num_jobs": 12, "seed": 5},
        ],
    ),
    _family(
        "gangs-medium",
        "200 rigid gangs on 8 hosts of eight GPUs",
        {"num_jobs": 200, "num_hosts": 8},
        [
            {"trace": "philly", "arrivals_per_slot": 0.5, "seed": 11},
            {"trace": "philly", "arrivals_per_slot": 1.0, "weights": "classes", "seed": 12},
            {"trace": "itp", "arrivals_per_slot": 0.2, "seed": 13},
            {"trace": "itp", "arrivals_per_slot": 0.4, "weights": "classes", "seed": 14},
            {"trace": "itp", "arrivals": "start", "seed": 15},
        ],
    ),
)
