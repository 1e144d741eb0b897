"""Elastic training jobs on DL2's servers: workers and parameter servers change from slot to slot.

A family keeps its size and varies the load, from almost none to several times what the cluster can
do at once: the arrival rate, the demand of a task and how far a job scales set the load. One
instance of each larger family keeps DL2's own lengths, and some have weights or rough tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from alloc.instances.dl2 import JOB_TYPES
from alloc.instances.generators import generate_elastic
from alloc.instances.recipes import RecipeFamily
from alloc.problems.allocation.instance import Instance

_GPU_MODELS = [model for model, job_type in JOB_TYPES.items() if job_type.uses_gpu]
_LARGE_TASKS = {"gpus_per_worker": 2, "task_cpu_milli": 4000}
# A server then holds two tasks, one of them a GPU worker: twice the load.

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


_DL2 = (
    "servers, models, lengths, slots: Peng et al., DL2, IEEE TPDS 32(8), 2021, arXiv:1909.06040",
    "form of the speeds: Peng et al., Optimus, EuroSys 2018, doi:10.1145/3190508.3190517",
)


def size(instance: Instance) -> dict[str, int]:
    """Return the size of an instance, with the slots until the last job can be complete alone.

    Parameters
    ----------
    instance
        The instance.
    """
    found = size_of_cluster(instance)
    if instance.slot_s is not None:
        ends = ((job.arrival_s + job.min_run_s) / instance.slot_s for job in instance.jobs)
        found["slots"] = max(map(math.ceil, ends))
    return found


def size_of_cluster(instance: Instance) -> dict[str, int]:
    """Return the numbers of jobs, hosts and GPUs.

    Parameters
    ----------
    instance
        The instance.
    """
    topology = instance.topology
    return {"jobs": len(instance.jobs), "hosts": topology.num_hosts, "gpus": topology.num_gpus}


def _family(
    name: str, about: str, common: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]
) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "malleable",
        "weighted_jct",
        generate_elastic,
        size,
        variants,
        common,
        _DL2,
        stored=True,
    )


FAMILIES = (
    _family(
        "elastic-tiny",
        "3 to 5 jobs on 2 or 3 hosts, for brute force over all slot assignments",
        {"slot_s": 300.0, "max_workers": 2, "max_ps": 2, "run_slots": [0.5, 2.0]},
        _TINY,
    ),
    _family(
        "elastic-small",
        "10 jobs on 6 hosts, optima that can be proved",
        {"num_jobs": 10, "num_hosts": 6, "max_workers": 8, "max_ps": 8, "run_slots": [1.0, 5.0]},
        _SMALL,
    ),
    _family(
        "elastic-medium",
        "60 jobs on 96 hosts, DL2's smaller cluster",
        {"num_jobs": 60, "num_hosts": 96, "max_workers": 16, "max_ps": 16, "run_slots": [1.0, 8.0]},
        _MEDIUM,
    ),
    _family(
        "elastic-large",
        "200 jobs on 500 hosts, DL2's larger cluster",
        {
            "num_jobs": 200,
            "num_hosts": 500,
            "max_workers": 16,
            "max_ps": 16,
            "run_slots": [1.0, 8.0],
        },
        _LARGE,
    ),
)
