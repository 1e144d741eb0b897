"""Checkpointing: after which phases the state of a pre-training run is saved."""

from __future__ import annotations

from typing import Any

from alloc.instances.checkpointing import pretraining
from alloc.instances.recipes import RecipeFamily
from alloc.problems.checkpointing import CheckpointProblem


def run(name: str, **parameters: Any) -> CheckpointProblem:
    """Return a run of a name; see `alloc.instances.checkpointing.pretraining`.

    Parameters
    ----------
    name
        Name of the problem.
    parameters
        Those of the generator.
    """
    return pretraining(**parameters).replace(name=name)


def size(problem: CheckpointProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {"phases": len(problem.phases)}


FAMILIES = (
    RecipeFamily(
        "checkpointing-pretraining",
        "10 to 2,000 phases of pre-training on 512 to 65,536 GPUs",
        "checkpointing",
        "expected_time",
        run,
        size,
        [
            {"num_gpus": 512, "num_phases": 10, "seed": 1},
            {"num_gpus": 2_048, "num_phases": 50, "seed": 2},
            {"num_gpus": 16_384, "num_phases": 200, "seed": 3},
            {"num_gpus": 16_384, "num_phases": 1_000, "seed": 4},
            {"num_gpus": 65_536, "num_phases": 2_000, "seed": 5},
        ],
        {},
        ("rate of failures: Llama Team, arXiv:2407.21783, section 3.3.4",),
    ),
)
