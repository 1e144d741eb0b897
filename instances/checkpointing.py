"""Runs to checkpoint: pre-training of a large language model on machines that fail.

The rate of failures is that of Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 GPUs
(Llama Team, "The Llama 3 Herd of Models", arXiv:2407.21783, section 3.3.4).
"""

from __future__ import annotations

import math

import numpy as np

from alloc.problems.checkpointing import CheckpointProblem, Phase
from alloc.units import require_count

GPU_MTBF_S = 54 * 86_400 * 16_384 / 419
"""Mean time between unexpected interruptions of one GPU of Llama 3's pre-training, seconds."""
_STEP_S = (60.0, 600.0)
"""Shortest and longest phase: some tens of optimiser steps, between which a state can be saved."""
_SAVE_S = (5.0, 120.0)
"""Fastest and slowest save: from memory of a neighbour to a busy storage cluster."""


def pretraining(num_gpus: int = 16_384, num_phases: int = 500, seed: int = 0) -> CheckpointProblem:
    """Return a run whose phases and saves change with its data and its neighbours.

    Parameters
    ----------
    num_gpus
        GPUs of the run, 1 or more.
    num_phases
        Points at which the state can be saved, 1 or more.
    seed
        Random seed.

    Raises
    ------
    InstanceError
        If a count is below 1.
    """
    require_count(num_gpus, "pretraining", "num_gpus", least=1)
    require_count(num_phases, "pretraining", "num_phases", least=1)
    rng = np.random.default_rng(seed)
    work, save = (
        np.exp(math.log(least) + math.log(most / least) * rng.random(num_phases)).round(1)
        for least, most in (_STEP_S, _SAVE_S)
    )
    # What is saved is read again in about twice the time: all machines read at once.
    phases = tuple(Phase(float(w), float(c), float(2 * c)) for w, c in zip(work, save, strict=True))
    return CheckpointProblem(
        f"pretraining-{num_gpus}-{num_phases}-{seed}",
        phases,
        mtbf_s=GPU_MTBF_S / num_gpus,
        downtime_s=180.0,
        restart_s=300.0,
    )
