"""GPU sharing: MIG slices that are worth something each, and shares on the fewest GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import below, pick
from alloc.instances.recipes.elastic import size_of_cluster
from alloc.instances.recipes.mixes import OPENB_GPU_MILLI, OPENB_SOURCE
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster, mig_profiles
from alloc.workload import Configuration, Job, TaskGroup

MIG_MIXES: Mapping[str, Sequence[float]] = {
    "small": (0.40, 0.05, 0.12, 0.20, 0.13, 0.07, 0.03),
    "large": (0.20, 0.05, 0.12, 0.25, 0.20, 0.10, 0.08),
    "even": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
}
"""Shares of the seven profiles, smallest first. No mix of requests for slices has been published;
these are ours."""
_CPU_MILLI = 2_000
"""CPU that a request brings along, of the 16,000 that a GPU of the hosts has: never what is scarce
on seven slices."""


def _hosts(name: str, num_gpus: int, gpu_type: str) -> Any:
    per_host = min(num_gpus, 8)
    host = HostType(f"{per_host} x {gpu_type}", per_host, gpu_type, per_host * 16_000, 2_097_152)
    return flat_cluster(name, host, num_gpus // per_host)


def mig_requests(
    name: str,
    *,
    num_gpus: int,
    num_requests: int,
    gpu_type: str = "h100-sxm-80gb",
    mix: str = "small",
    weights: int = 5,
    seed: int = 0,
) -> Instance:
    """Return requests for one MIG slice each, more than fit.

    Parameters
    ----------
    name
        Name of the instance.
    num_gpus, num_requests
        Size; of more than eight GPUs every eight are a host.
    gpu_type
        A GPU type with MIG.
    mix
        One of `MIG_MIXES`.
    weights
        Weights are drawn from 1 to this.
    seed
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    shares = dict(zip(mig_profiles(gpu_type), MIG_MIXES[mix], strict=True))
    ways = {
        profile: (
            Configuration((TaskGroup("slice", 1, cpu_milli=_CPU_MILLI, mig_profile=profile),), 1.0),
        )
        for profile in shares
    }
    jobs = tuple(
        Job(
            f"request-{k:05d}",
            0.0,
            1.0,
            ways[pick(rng, shares)],
            weight=1.0 + below(rng, weights),
            elasticity="rigid",
        )
        for k in range(num_requests)
    )
    return Instance(name, _hosts(name, num_gpus, gpu_type), jobs)


def shared_pods(
    name: str, *, num_gpus: int, num_pods: int, gpu_type: str = "a100-sxm-80gb", seed: int = 0
) -> Instance:
    """Return pods with openb's shares of a GPU; all of them have to run.

    Parameters
    ----------
    name
        Name of the instance.
    num_gpus, num_pods
        Size; GPUs enough for all pods.
    gpu_type
        What the GPUs are called.
    seed
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    ways = {
        milli: (Configuration((TaskGroup("pod", 1, gpu_milli=milli, cpu_milli=1_000),), 1.0),)
        for milli in OPENB_GPU_MILLI
    }
    jobs = tuple(
        Job(f"pod-{k:05d}", 0.0, 1.0, ways[pick(rng, OPENB_GPU_MILLI)], elasticity="rigid")
        for k in range(num_pods)
    )
    return Instance(name, _hosts(name, num_gpus, gpu_type), jobs)


_MIG = "profiles and places of slices: NVIDIA Multi-Instance GPU User Guide (R580); mixes: ours"


def _mig(name: str, about: str, variants: Sequence[Mapping[str, Any]]) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "sharing",
        "weight_placed",
        mig_requests,
        size_of_cluster,
        variants,
        sources=(_MIG,),
    )


def _shares(name: str, about: str, variants: Sequence[Mapping[str, Any]]) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "sharing",
        "gpus_used",
        shared_pods,
        size_of_cluster,
        variants,
        {},
        (OPENB_SOURCE,),
    )


_H200 = "h200-sxm-141gb"

FAMILIES = (
    _mig(
        "sharing-mig-tiny",
        "8 to 12 requests for slices of 2 or 3 GPUs, for brute force",
        [
            {"num_gpus": 2, "num_requests": 8, "seed": 1},
            {"num_gpus": 2, "num_requests": 8, "mix": "large", "seed": 2},
            {"num_gpus": 2, "num_requests": 10, "mix": "even", "seed": 3},
            {"num_gpus": 3, "num_requests": 12, "mix": "even", "gpu_type": _H200, "seed": 4},
            {"num_gpus": 2, "num_requests": 10, "gpu_type": "a100-sxm-40gb", "seed": 5},
        ],
    ),
    _mig(
        "sharing-mig",
        "requests for slices of 64 to 1,000 GPUs",
        [
            {"num_gpus": 64, "num_requests": 300, "seed": 11},
            {"num_gpus": 64, "num_requests": 300, "mix": "large", "gpu_type": _H200, "seed": 12},
            {"num_gpus": 256, "num_requests": 1500, "mix": "even", "weights": 50, "seed": 13},
            {"num_gpus": 512, "num_requests": 4000, "gpu_type": "a100-sxm-80gb", "seed": 14},
            {"num_gpus": 1000, "num_requests": 10000, "weights": 1000, "seed": 15},
        ],
    ),
    _shares(
        "sharing-shares",
        "pods with openb's shares of a GPU, on the fewest GPUs",
        [
            {"num_gpus": 16, "num_pods": 12, "seed": 21},
            {"num_gpus": 64, "num_pods": 60, "seed": 22},
            {"num_gpus": 256, "num_pods": 250, "seed": 23},
            {"num_gpus": 1000, "num_pods": 1000, "seed": 24},
            {"num_gpus": 4000, "num_pods": 4000, "seed": 25},
        ],
    ),
)
