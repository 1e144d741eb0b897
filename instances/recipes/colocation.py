"""Co-location: jobs that slow each other down share GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from alloc.instances.recipes import RecipeFamily
from alloc.instances.recipes.draws import below, between
from alloc.problems.colocation import ColocationProblem
from alloc.workload import InterferenceTable

_LOUDNESS = (0.0, 0.65)
"""Least and most that a kind takes from its neighbour. With `_NOISE`, two of 26 kinds on a GPU run
at 0.6 to 2 times the speed of one alone, together, with a median of 1.33; Gavel's V100 table has
0.35 to 2 with a median of 1.37."""
_NOISE = (0.85, 1.15)


def neighbours(
    name: str,
    *,
    num_jobs: int,
    num_gpus: int,
    num_kinds: int = 26,
    max_per_gpu: int = 2,
    weighted: bool = False,
    seed: int = 0,
) -> ColocationProblem:
    """Return jobs of kinds that are loud or quiet, and a table of what each leaves another.

    Parameters
    ----------
    name
        Name of the problem.
    num_jobs, num_gpus, num_kinds
        Size.
    max_per_gpu
        Most jobs of a GPU.
    weighted
        Whether every job has a weight of its own, from 1 to 5.
    seed
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    kinds = tuple(f"kind-{k:02d}" for k in range(num_kinds))
    loud = [between(rng, *_LOUDNESS) for _ in kinds]
    beside = [
        [round(min(1.0, (1 - other) * between(rng, *_NOISE)), 3) for other in loud] for _ in kinds
    ]
    table = InterferenceTable("generated", kinds, np.ones(num_kinds), np.array(beside))
    jobs = [kinds[below(rng, num_kinds)] for _ in range(num_jobs)]
    weights = [between(rng, 1.0, 5.0) for _ in jobs] if weighted else ()
    return ColocationProblem(jobs, table, num_gpus, max_per_gpu, weights, name)


def size(problem: ColocationProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {
        "jobs": len(problem.kinds),
        "gpus": problem.num_gpus,
        "kinds": len(problem.table.kinds),
    }


def _family(name: str, about: str, *variants: dict[str, Any]) -> RecipeFamily:
    return RecipeFamily(
        name,
        about,
        "colocation",
        "speed",
        neighbours,
        size,
        variants,
        {},
        (
            "range of the speeds and number of kinds: Gavel's measured pairs on a V100 (Narayanan "
            "et al., OSDI 2020, MIT); the table itself is ours",
        ),
    )


FAMILIES = (
    _family(
        "colocation-small",
        "10 to 40 jobs on fewer GPUs than jobs",
        {"num_jobs": 10, "num_gpus": 5, "num_kinds": 6, "seed": 1},
        {"num_jobs": 12, "num_gpus": 8, "num_kinds": 6, "weighted": True, "seed": 2},
        {"num_jobs": 12, "num_gpus": 4, "num_kinds": 6, "max_per_gpu": 3, "seed": 3},
        {"num_jobs": 40, "num_gpus": 20, "seed": 4},
        {"num_jobs": 40, "num_gpus": 25, "weighted": True, "seed": 5},
    ),
    _family(
        "colocation-large",
        "200 to 2,000 jobs",
        {"num_jobs": 200, "num_gpus": 100, "weighted": True, "seed": 11},
        {"num_jobs": 500, "num_gpus": 300, "seed": 12},
        {"num_jobs": 1000, "num_gpus": 500, "seed": 13},
        {"num_jobs": 1000, "num_gpus": 400, "max_per_gpu": 3, "seed": 14},
        {"num_jobs": 2000, "num_gpus": 1200, "seed": 15},
    ),
)
