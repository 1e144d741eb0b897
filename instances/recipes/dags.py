"""Jobs that are graphs of stages."""

from __future__ import annotations

from alloc.instances.projects import generate_dags
from alloc.instances.recipes import RecipeFamily
from alloc.problems.project import ProjectProblem


def size(problem: ProjectProblem) -> dict[str, int]:
    """Return the size of a problem.

    Parameters
    ----------
    problem
        The problem.
    """
    return {"jobs": len(problem.jobs), "stages": len(problem.activities)}


_SOURCE = ("shape of the jobs: Mao et al., SIGCOMM 2019, section 7.1; the numbers are our own",)

FAMILIES = (
    RecipeFamily(
        "dags-makespan",
        "4 to 40 jobs of 2 to 8 stages on 6 to 32 GPUs: the end of all",
        "project",
        "makespan",
        generate_dags,
        size,
        [
            {"num_jobs": 4, "num_gpus": 6, "seed": 1},
            {"num_jobs": 10, "num_gpus": 10, "seed": 2},
            {"num_jobs": 12, "stages": (3, 5), "num_gpus": 12, "seed": 3},
            {"num_jobs": 20, "stages": (3, 6), "num_gpus": 16, "sizes": (1, 2, 4, 8), "seed": 4},
            {"num_jobs": 40, "stages": (4, 8), "num_gpus": 32, "sizes": (1, 2, 4, 8), "seed": 5},
        ],
        {},
        _SOURCE,
    ),
    RecipeFamily(
        "dags-jct",
        "4 to 20 jobs of 2 to 6 stages on 6 to 16 GPUs: weighted completion times",
        "project",
        "weighted_jct",
        generate_dags,
        size,
        [
            {"num_jobs": 4, "num_gpus": 6, "seed": 11},
            {"num_jobs": 6, "num_gpus": 8, "seed": 12},
            {"num_jobs": 10, "num_gpus": 10, "seed": 13},
            {"num_jobs": 12, "stages": (3, 5), "num_gpus": 12, "seed": 14},
            {"num_jobs": 20, "stages": (3, 6), "num_gpus": 16, "sizes": (1, 2, 4, 8), "seed": 15},
        ],
        {},
        _SOURCE,
    ),
)
