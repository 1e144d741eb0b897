"""Rank mapping: which GPU of its placement runs which rank of a large language model's training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.placement import fabric
from alloc.problems.rank_mapping import RankMappingProblem
from alloc.topology import Topology
from alloc.topology.job_fabric import all_gpus, job_fabric
from alloc.workload.parallelism import transformer_parallelism

MODELS: Mapping[str, Mapping[str, int]] = {
    "gpt-3-175b": {"layers": 96, "hidden": 12_288, "sequence": 2_048, "vocabulary": 51_200},
    "llama-3-8b": {"layers": 32, "hidden": 4_096, "sequence": 8_192, "vocabulary": 128_256},
    "llama-3-70b": {"layers": 80, "hidden": 8_192, "sequence": 8_192, "vocabulary": 128_256},
    "mixtral-8x7b": {
        "layers": 32,
        "hidden": 4_096,
        "sequence": 4_096,
        "vocabulary": 32_000,
        "experts_per_token": 2,
    },
}
"""Models by name: layers, hidden size, sequence length, tokens of the vocabulary."""
_SOURCES = (
    "GPT-3 175B: Narayanan et al., SC 2021, doi:10.1145/3458817.3476209",
    "Llama 3: Llama Team, arXiv:2407.21783, table 3; vocabulary as released",
    "Mixtral 8x7B: Jiang et al., arXiv:2401.04088, table 1; sequence: ours",
    "degrees of parallelism and micro-batches: ours",
    "fabrics: as in alloc.instances.recipes.placement",
)


def training(
    name: str,
    *,
    model: str,
    degrees: Sequence[int],
    kind: str,
    shape: Sequence[int],
    host: str = "h100",
    scattered: float = 0.0,
    seed: int = 0,
) -> RankMappingProblem:
    """Return the ranks of a training job and the GPUs that it was given.

    Parameters
    ----------
    name
        Name of the problem.
    model
        One of `MODELS`.
    degrees
        Tensor, pipeline, data and, if there is a fourth, expert parallelism.
    kind, shape, host
        The cluster, see `alloc.instances.recipes.placement.fabric`.
    scattered
        Share of the hosts that others hold: the job stands on the first of those that are left, in
        uneven domains.
    seed
        Seed of the random numbers.
    """
    topology = fabric(name, kind, host, shape)
    tensor, pipeline, data, *expert = degrees
    job = transformer_parallelism(
        **MODELS[model],
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        expert=expert[0] if expert else 1,
        micro_batches=2 * pipeline,
    )
    gpus = _left(topology, scattered, seed) if scattered else list(all_gpus(topology))
    return RankMappingProblem(job_fabric(topology, gpus[: job.num_ranks]), job, name=name)


def _left(topology: Topology, taken: float, seed: int) -> list[str]:
    """Return the GPUs of the hosts that are left when each other one is taken by chance."""
    rng = np.random.default_rng(seed)
    left = {host.id for host in topology.hosts if rng.random() >= taken}
    return [gpu for gpu in all_gpus(topology) if gpu.rpartition("/")[0] in left]


def size(problem: RankMappingProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {"ranks": problem.parallelism.num_ranks, "gpus": problem.fabric.num_gpus}


def _family(name: str, about: str, variants: Sequence[Mapping[str, Any]]) -> RecipeFamily:
    return RecipeFamily(name, about, "rank_mapping", "step", training, size, variants, {}, _SOURCES)


_GPT, _LLAMA, _MOE = "gpt-3-175b", "llama-3-70b", "mixtral-8x7b"

FAMILIES = (
    _family(
        "ranks-small",
        "16 to 72 ranks of a model on two to nine hosts",
        [
            {"model": "llama-3-8b", "degrees": [2, 2, 4], "kind": "leaf-spine", "shape": [2, 1]},
            {"model": "llama-3-8b", "degrees": [4, 2, 4], "kind": "leaf-spine", "shape": [2, 2]},
            {"model": _MOE, "degrees": [1, 4, 8, 8], "kind": "rails", "shape": [2, 2]},
            {"model": _LLAMA, "degrees": [8, 4, 2], "kind": "leaf-spine", "shape": [4, 2]},
            {"model": "llama-3-8b", "degrees": [8, 1, 9], "kind": "nvl72", "shape": [1]},
        ],
    ),
    _family(
        "ranks-dense",
        "128 to 512 ranks on whole domains",
        [
            {"model": _LLAMA, "degrees": [8, 4, 4], "kind": "rails", "shape": [2, 8]},
            {"model": _LLAMA, "degrees": [4, 8, 8], "kind": "fat-tree", "shape": [2, 4, 4]},
            {"model": _GPT, "degrees": [8, 8, 8], "kind": "fat-tree", "shape": [4, 4, 4]},
            {"model": _MOE, "degrees": [2, 4, 64, 8], "kind": "rails", "shape": [2, 32]},
            {"model": _GPT, "degrees": [4, 8, 9], "kind": "nvl72", "shape": [4]},
        ],
    ),
    _family(
        "ranks-scattered",
        "128 to 512 ranks on what others have left",
        [
            {**variant, "scattered": 0.4, "seed": 1 + k}
            for k, variant in enumerate(
                (
                    {"model": _LLAMA, "degrees": [8, 4, 4], "kind": "rails", "shape": [4, 8]},
                    {"model": _LLAMA, "degrees": [4, 4, 8], "kind": "fat-tree", "shape": [4, 3, 4]},
                    {"model": _GPT, "degrees": [8, 8, 4], "kind": "fat-tree", "shape": [4, 4, 5]},
                    {"model": _MOE, "degrees": [2, 4, 32, 8], "kind": "rails", "shape": [8, 9]},
                    {"model": _GPT, "degrees": [8, 8, 8], "kind": "fat-tree", "shape": [4, 8, 5]},
                )
            )
        ],
    ),
    _family(
        "ranks-large",
        "2,048 to 8,192 ranks in a three-level fat tree",
        [
            {"model": _LLAMA, "degrees": [8, 8, 32], "kind": "fat-tree", "shape": [8, 8, 4]},
            {"model": _GPT, "degrees": [8, 16, 16], "kind": "fat-tree", "shape": [8, 8, 4]},
            {"model": _GPT, "degrees": [8, 16, 32], "kind": "fat-tree", "shape": [8, 8, 8]},
            {"model": _LLAMA, "degrees": [8, 16, 32], "kind": "fat-tree", "shape": [8, 8, 8]},
            {
                "model": _GPT,
                "degrees": [8, 16, 64],
                "kind": "fat-tree",
                "shape": [16, 8, 8],
                "host": "b200",
            },
        ],
    ),
)
