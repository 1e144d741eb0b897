"""Recipes of the stored instances: for each id, a generator and its parameters.

A family keeps its size and varies the load, from almost none to several times what the cluster can
do at once: the arrival rate, the demand of a task and how far a job scales set the load. One
instance of each larger family keeps DL2's own lengths, and some have weights or rough tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from alloc.instances.dl2 import JOB_TYPES
from alloc.instances.generators import GENERATORS
from alloc.problems.allocation.instance import Instance

_GPU_MODELS = [model for model, job_type in JOB_TYPES.items() if job_type.uses_gpu]
_LARGE_TASKS = {"gpus_per_worker": 2, "task_cpu_milli": 4000}
# A server then holds two tasks, one of them a GPU worker: twice the load.


@dataclass(frozen=True)
class Recipe:
    """How a stored instance is made.

    Parameters
    ----------
    id
        ``family/NN``; the name of the instance.
    generator
        Name of the generator in `GENERATORS`.
    parameters
        Its keyword arguments, seed included; values that JSON can hold.
    """

    id: str
    generator: str
    parameters: Mapping[str, Any]

    @property
    def family(self) -> str:
        """The family, the part of the id before the slash."""
        return self.id.partition("/")[0]

    def make(self) -> Instance:
        """Generate the instance."""
        return GENERATORS[self.generator](self.id, **self.parameters)


def recipes() -> Iterator[Recipe]:
    """Yield the recipe of every stored instance, in the order of the manifest."""
    for family, (common, variants) in _FAMILIES.items():
        for number, variant in enumerate(variants, start=1):
            yield Recipe(f"{family}/{number:02d}", "generate_elastic", {**common, **variant})


_TINY = [
    {"num_jobs": 3, "num_hosts": 3, "arrivals": "uniform", "arrivals_per_slot": 1, "seed": 101},
    {"num_jobs": 4, "num_hosts": 3, "arrivals": "poisson", "arrivals_per_slot": 2, "seed": 102},
    {"num_jobs": 3, "num_hosts": 2, "arrivals": "start", "max_ps": 3, "seed": 103},
    {"num_jobs": 4, "num_hosts": 2, "arrivals": "start", "weights": "classes", "seed": 104},
    {
        "num_jobs": 5,
        "num_hosts": 2,
        "arrivals": "poisson",
        "arrivals_per_slot": 2,
        "run_slots": [0.4, 1.4],
        "seed": 105,
    },
    {
        "num_jobs": 3,
        "num_hosts": 2,
        "arrivals": "start",
        "max_workers": 3,
        "max_ps": 3,
        "table": "rough",
        "weights": "classes",
        "compute_scale": 4.0,
        "seed": 106,
    },
    {"num_jobs": 4, "num_hosts": 2, "arrivals": "start", **_LARGE_TASKS, "seed": 107},
    {
        "num_jobs": 3,
        "num_hosts": 2,
        "arrivals": "bursty",
        "arrivals_per_slot": 1,
        "max_workers": 3,
        "compute_scale": 16.0,
        "seed": 108,
    },
]

_SMALL = [
    {"arrivals": "uniform", "arrivals_per_slot": 0.4, "run_slots": [1.0, 3.0], "seed": 201},
    {"arrivals": "poisson", "arrivals_per_slot": 1.0, "compute_scale": 4.0, "seed": 202},
    {"arrivals": "start", "table": "rough", "weights": "classes", "seed": 203},
    {
        "arrivals": "bursty",
        "arrivals_per_slot": 1.5,
        "compute_scale": 4.0,
        "table": "gaps",
        "weights": "classes",
        "seed": 204,
    },
    {"arrivals": "poisson", "arrivals_per_slot": 1.5, "max_epochs": 3500, "seed": 205},
    {
        "arrivals": "start",
        "run_slots": [1.0, 4.0],
        "compute_scale": 4.0,
        "table": "coarse",
        "seed": 206,
    },
    {
        "arrivals": "start",
        "run_slots": [1.0, 3.0],
        "compute_scale": 4.0,
        "table": "rough",
        **_LARGE_TASKS,
        "seed": 207,
    },
    {
        "arrivals": "start",
        "run_slots": [1.0, 2.0],
        "compute_scale": 8.0,
        "table": "plateaus",
        **_LARGE_TASKS,
        "seed": 218,
    },
]

_MEDIUM = [
    {"arrivals": "uniform", "arrivals_per_slot": 3, "table": "coarse", "seed": 301},
    {
        "arrivals": "poisson",
        "arrivals_per_slot": 6,
        "max_epochs": 3500,
        "table": "coarse",
        "seed": 302,
    },
    {
        "arrivals": "poisson",
        "arrivals_per_slot": 10,
        "compute_scale": 4.0,
        "table": "rough",
        "weights": "classes",
        **_LARGE_TASKS,
        "seed": 303,
    },
    {
        "arrivals": "diurnal",
        "arrivals_per_slot": 5,
        "slots_per_day": 12,
        "compute_scale": 16.0,
        "table": "gaps",
        **_LARGE_TASKS,
        "seed": 304,
    },
    {
        "arrivals": "bursty",
        "arrivals_per_slot": 10,
        "compute_scale": 16.0,
        "weights": "classes",
        "models": _GPU_MODELS,
        **_LARGE_TASKS,
        "seed": 305,
    },
    {
        "arrivals": "start",
        "run_slots": [2.0, 6.0],
        "compute_scale": 16.0,
        "table": "plateaus",
        "models": _GPU_MODELS,
        **_LARGE_TASKS,
        "seed": 306,
    },
    {
        "arrivals": "start",
        "run_slots": [3.0, 6.0],
        "compute_scale": 50.0,
        "table": "rough",
        **_LARGE_TASKS,
        "seed": 307,
    },
]

_LARGE = [
    {"arrivals": "poisson", "arrivals_per_slot": 10, "table": "coarse", "seed": 401},
    {
        "arrivals": "uniform",
        "arrivals_per_slot": 10,
        "max_epochs": 3500,
        "table": "coarse",
        "seed": 402,
    },
    {
        "arrivals": "diurnal",
        "arrivals_per_slot": 20,
        "slots_per_day": 12,
        "compute_scale": 50.0,
        "table": "gaps",
        **_LARGE_TASKS,
        "seed": 403,
    },
    {
        "arrivals": "bursty",
        "arrivals_per_slot": 30,
        "compute_scale": 16.0,
        "table": "plateaus",
        "weights": "classes",
        "models": _GPU_MODELS,
        **_LARGE_TASKS,
        "seed": 404,
    },
    {
        "arrivals": "start",
        "run_slots": [2.0, 6.0],
        "compute_scale": 50.0,
        "table": "coarse",
        **_LARGE_TASKS,
        "seed": 405,
    },
    {
        "arrivals": "start",
        "run_slots": [4.0, 6.0],
        "compute_scale": 100.0,
        "table": "rough",
        "models": _GPU_MODELS,
        **_LARGE_TASKS,
        "seed": 406,
    },
]

_FAMILIES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "elastic-tiny": (
        {"slot_s": 300.0, "max_workers": 2, "max_ps": 2, "run_slots": [0.5, 2.0]},
        _TINY,
    ),
    "elastic-small": (
        {"num_jobs": 10, "num_hosts": 6, "max_workers": 8, "max_ps": 8, "run_slots": [1.0, 5.0]},
        _SMALL,
    ),
    "elastic-medium": (
        {"num_jobs": 60, "num_hosts": 96, "max_workers": 16, "max_ps": 16, "run_slots": [1.0, 8.0]},
        _MEDIUM,
    ),
    "elastic-large": (
        {
            "num_jobs": 200,
            "num_hosts": 500,
            "max_workers": 16,
            "max_ps": 16,
            "run_slots": [1.0, 8.0],
        },
        _LARGE,
    ),
}
