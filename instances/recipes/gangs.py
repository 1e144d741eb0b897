"""Gangs in continuous time: a queue that a scheduler orders, and its optimum.

Rigid ones with the sizes and durations of traces; moldable ones that choose GPUs and GPU type, as
in Saturn's joint choice of parallelism, GPUs, node and start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alloc.instances.generators import PHILLY_GPUS, PHILLY_RUN_S, generate_gangs
from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import below, between
from alloc.instances.recipes.elastic import size
from alloc.instances.recipes.mixes import ITP_GPUS, ITP_RUN_S, ITP_SOURCE
from alloc.problems.allocation.instance import Instance
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, TaskGroup

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


_SIZES = (1, 2, 4, 8)
"""GPUs of a configuration: powers of two, as profiled for parallel training."""
_TYPES = ("a100-sxm-40gb", "v100-sxm2-16gb")


def moldable(
    name: str, *, num_jobs: int, num_hosts: int, seed: int, gpu_types: int = 1, span_s: int = 0
) -> Instance:
    """Return moldable gangs, each on one host of eight GPUs, with run times in whole seconds.

    A job of w seconds on one GPU takes w / n^e on n, with an exponent of its own; on the second GPU
    type so many times longer, with a factor of its own.

    Parameters
    ----------
    name
        Name of the instance.
    num_jobs, num_hosts
        Jobs, and hosts, which take the GPU types in turn.
    seed
        Seed of the draws.
    gpu_types
        1 or 2.
    span_s
        Arrivals are whole seconds from 0 to less than this; 0: all are there at the start.
    """
    rng = np.random.default_rng(seed)
    kinds = tuple(HostType(kind, 8, kind) for kind in _TYPES[:gpu_types])
    hosts = tuple(Host(f"host-{h}", _TYPES[h % gpu_types]) for h in range(num_hosts))
    jobs = []
    for j in range(num_jobs):
        work = float(60 * (5 + below(rng, 116)))
        scaling, arrival = between(rng, 0.55, 0.97), float(below(rng, span_s) if span_s else 0)
        slower = (1.0, between(rng, 1.3, 3.0))
        weight = (1.0, 2.0, 4.0)[below(rng, 3)]
        ways = tuple(
            Configuration(
                (TaskGroup("worker", size, MILLI),),
                work / math.ceil(round(work * slower[k] / size**scaling, 6)),
                kind.gpu_type if gpu_types > 1 else None,
                "host",
            )
            for k, kind in enumerate(kinds)
            for size in _SIZES
        )
        jobs.append(
            Job(
                f"job-{j}",
                arrival,
                work,
                ways,
                weight=weight,
                elasticity="moldable",
                preemptible=False,
            )
        )
    ordered = tuple(sorted(jobs, key=lambda job: job.arrival_s))
    return Instance(name, Topology(name, kinds, hosts), ordered)


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
    RecipeFamily(
        "gangs-moldable",
        "4 to 12 moldable gangs on 1 to 3 hosts of eight GPUs, of one GPU type or two",
        "moldable",
        "makespan",
        moldable,
        size,
        [
            {"num_jobs": 4, "num_hosts": 1, "seed": 1},
            {"num_jobs": 6, "num_hosts": 1, "seed": 2},
            {"num_jobs": 8, "num_hosts": 2, "gpu_types": 2, "seed": 3},
            {"num_jobs": 8, "num_hosts": 2, "gpu_types": 2, "span_s": 3600, "seed": 4},
            {"num_jobs": 12, "num_hosts": 2, "seed": 21},
            {"num_jobs": 12, "num_hosts": 3, "gpu_types": 2, "span_s": 1800, "seed": 5},
        ],
        {},
        (
            "joint choice of GPUs, host and start: Saturn's question; see docs/moldable.md",
            "run times, scaling, weights and arrivals: ours",
        ),
    ),
)
