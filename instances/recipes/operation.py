"""Operation: which nodes are on, and which job runs on how many GPUs of which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alloc.instances.operation import generate_operation
from alloc.instances.recipes import RecipeFamily
from alloc.problems.operation.problem import OperationProblem


def size(problem: OperationProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {
        "nodes": sum(pool.count for pool in problem.pools),
        "types": len(problem.types),
        "jobs": len(problem.jobs),
    }


_VARIANTS: Sequence[Mapping[str, Any]] = (
    {"kind": "cloud"},
    {"kind": "own"},
    {"kind": "cloud", "slack": [1.0, 2.0]},
    {"kind": "own", "slack": [1.0, 2.0]},
    {"kind": "cloud", "mean_hours": 12.0, "postponement_factor": 100.0},
)


def _family(name: str, about: str, first_seed: int, **common: Any) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "operation",
        "operation-cost",
        generate_operation,
        size,
        [{**variant, "seed": first_seed + k} for k, variant in enumerate(_VARIANTS)],
        common,
        ("nodes, prices and jobs: the tables of alloc.instances.operation, with their sources",),
    )


FAMILIES = (
    _family("operation-tiny", "4 jobs for 3 nodes", 1, num_nodes=3, num_jobs=4),
    _family("operation-small", "20 jobs for 10 nodes", 11, num_nodes=10, num_jobs=20),
    _family("operation-medium", "100 jobs for 50 nodes", 21, num_nodes=50, num_jobs=100),
    _family("operation-large", "1,000 jobs for 500 nodes", 31, num_nodes=500, num_jobs=1000),
)
