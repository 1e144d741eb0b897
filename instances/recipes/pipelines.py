"""Pipelines: which layers of a language model each device of a row runs."""

from __future__ import annotations

from typing import Any

from alloc.instances.pipelines import transformer_pipeline
from alloc.instances.recipes import RecipeFamily
from alloc.problems.pipeline.problem import PipelineProblem


def pipeline(name: str, **parameters: Any) -> PipelineProblem:
    """Return a pipeline of a name; see `alloc.instances.pipelines.transformer_pipeline`.

    Parameters
    ----------
    name
        Name of the problem.
    parameters
        Those of the generator.
    """
    return transformer_pipeline(**parameters).replace(name=name)


def size(problem: PipelineProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {"layers": len(problem.layers), "stages": problem.num_stages}


FAMILIES = (
    RecipeFamily(
        "pipelines-transformers",
        "language models of 1 to 405 billion parameters on 4 to 16 devices",
        "pipeline",
        "bottleneck",
        pipeline,
        size,
        [
            {"model": "gpt-1b", "num_devices": 4, "num_micro_batches": 16, "tensor": 1},
            {"model": "llama-8b", "num_devices": 4, "num_micro_batches": 16, "tensor": 4,
             "order": "interleaved", "chunks": 4, "data": 16},
            {"model": "gpt-20b", "num_devices": 8, "num_micro_batches": 32, "tensor": 2,
             "order": "gpipe", "data": 8},
            {"model": "gpt-20b", "num_devices": 12, "num_micro_batches": 48, "tensor": 2,
             "slow_devices": 5, "seed": 4},
            {"model": "gpt-175b", "num_devices": 16, "num_micro_batches": 64, "data": 4},
            {"model": "llama-405b", "num_devices": 16, "num_micro_batches": 16, "data": 128},
        ],
        {},
        (
            "times and memory of layers: Narayanan et al., SC 2021; Korthikanti et al., MLSys 2023",
            "memory of parameters: Rajbhandari et al., SC 2020",
            "speed: data sheets of H100 and A100 at 40 % of the peak, as Llama 3 405B reached",
        ),
    ),
)  # fmt: skip
