"""The two-level scheduler of rigid jobs: pick or reserve, then backfill.

References
----------
Fan, Lan et al., "Deep Reinforcement Agent for Scheduling in HPC" (DRAS), IPDPS 2021,
arXiv:2102.06243.
"""

from __future__ import annotations

import numpy as np

from alloc.instances.learning_worlds import HELD_OUT_SEEDS, VALIDATION_SEEDS
from alloc.learning.actor_critic.task import Task
from alloc.learning.environments.episodes import GangEpisodes
from alloc.learning.environments.rewards import Elapsed
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.pick_backfill import PickBackfill

WINDOW = 16
"""Waiting jobs in view, of the 40 of an episode: every one more is a row of each observation."""
EPISODES = GangEpisodes(num_jobs=40, leaves=2, hosts_per_leaf=2, gpus_per_host=8, load=1.1)
"""Where it is trained: 40 rigid gangs of 1 to 16 GPUs on 32 GPUs, a little more than fits."""
_GPUS = EPISODES.leaves * EPISODES.hosts_per_leaf * EPISODES.gpus_per_host
UTILISATION = 5.0
"""What an hour of the whole cluster in use is worth, in hours that a job spends in the system."""


def utilisation_and_wait(elapsed: Elapsed) -> float:
    """Return utilisation minus time in the system, the balance of DRAS' goals.

    Undiscounted, the first adds up to the work of all jobs whatever is done; it is the discount
    that makes early use worth more.
    """
    used = waited = 0.0
    for job in elapsed.jobs:
        configuration = job.job.configurations[0]
        used += job.done / configuration.rate * configuration.demand[0] / (1000 * _GPUS)
        waited += job.in_system_s
    return (UTILISATION * used - waited) / elapsed.unit_s


def two_level_task() -> Task:
    """Return the task of a two-level scheduler."""
    return Task(
        name="two-level",
        title="Picks or reserves, then backfills, rigid jobs in continuous time (DRAS)",
        information="size, run time and waiting time of the first waiting jobs, free GPUs",
        spec=feature_spec("pick-backfill/1", window=WINDOW),
        steps=lambda: PickBackfill(WINDOW),
        draw=EPISODES,
        validation=lambda: instances(VALIDATION_SEEDS[0], 8),
        reward=utilisation_and_wait,
        reward_scale=20.0,
        reference="easy-backfill",
        data=(
            "40 rigid gangs of 1 to 16 GPUs on 32 GPUs, Poisson arrivals at load 1.1, log-normal "
            "run times; reward: utilisation minus time in the system."
        ),
        limits=(
            "Trained on rigid jobs in continuous time; elastic jobs run in their fastest way.",
            f"Sees the first {WINDOW} waiting jobs; those behind wait unseen.",
            "May reserve for another job than the oldest, so nothing bounds the wait of one job.",
        ),
        references=("Fan, Lan et al., DRAS, IPDPS 2021, arXiv:2102.06243",),
        settings={"window": WINDOW, "jobs": EPISODES.num_jobs, "utilisation": UTILISATION},
        step_s=0.4,
    )


def instances(first_seed: int = HELD_OUT_SEEDS[0], count: int = 8) -> tuple[Instance, ...]:
    """Return instances, from a seed on.

    Parameters
    ----------
    first_seed
        Seed of the first one; each next one has the next seed.
    count
        Number of instances, 0 or more.
    """
    return tuple(EPISODES(np.random.default_rng(first_seed + k)) for k in range(count))
