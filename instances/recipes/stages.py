"""Jobs that are graphs of stages, on the hosts of a cluster."""

from __future__ import annotations

from alloc.instances.projects import generate_staged
from alloc.instances.recipes import RecipeFamily
from alloc.problems.allocation.instance import Instance


def size(instance: Instance) -> dict[str, int]:
    """Return the size of an instance.

    Parameters
    ----------
    instance
        The instance.
    """
    return {
        "jobs": len(instance.jobs),
        "stages": len(instance.unfolded.jobs),
        "hosts": len(instance.topology.hosts),
        "gpus": instance.topology.num_gpus,
    }


_SOURCE = ("shape of the jobs: Mao et al., SIGCOMM 2019, section 7.1; the numbers are our own",)
_LARGE = {"gpus_per_host": 4, "sizes": (1, 2, 4, 8)}

FAMILIES = (
    RecipeFamily(
        "stages-jct",
        "3 to 20 jobs of 2 to 6 stages on 4 to 16 GPUs: weighted completion times",
        "stages",
        "weighted_jct",
        generate_staged,
        size,
        [
            {"num_jobs": 3, "num_hosts": 2, "seed": 200_001},
            {"num_jobs": 6, "num_hosts": 4, "seed": 200_002},
            {"num_jobs": 10, "num_hosts": 5, "seed": 200_003},
            {"num_jobs": 12, "stages": (3, 5), "num_hosts": 6, "seed": 200_004},
            {"num_jobs": 20, "stages": (3, 6), "num_hosts": 4, **_LARGE, "seed": 200_005},
        ],
        {},
        _SOURCE,
    ),
    RecipeFamily(
        "stages-makespan",
        "4 to 40 jobs of 2 to 8 stages on 6 to 32 GPUs: the end of all",
        "stages",
        "makespan",
        generate_staged,
        size,
        [
            {"num_jobs": 4, "num_hosts": 3, "seed": 200_011},
            {"num_jobs": 10, "num_hosts": 5, "seed": 200_012},
            {"num_jobs": 12, "stages": (3, 5), "num_hosts": 6, "seed": 200_013},
            {"num_jobs": 20, "stages": (3, 6), "num_hosts": 4, **_LARGE, "seed": 200_014},
            {"num_jobs": 40, "stages": (4, 8), "num_hosts": 8, **_LARGE, "seed": 200_015},
        ],
        {},
        _SOURCE,
    ),
)
