"""What a scheduler earns on an instance: return and completion times, by the one simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.learning.environments.rewards import decisions
from alloc.learning.reward_audit.rewards import AuditedReward
from alloc.objectives import require_slot
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.honouring import require_honoured
from alloc.schedulers.state import Scheduler
from alloc.simulation import Simulation, completion_times_s


@dataclass(frozen=True)
class Earned:
    """Mean completion time (weighted if the reward is), slots, and return."""

    mean_jct: float
    value: float


def weights_of(instance: Instance, reward: AuditedReward) -> np.ndarray:
    """Return what each job counts in the mean completion time.

    Parameters
    ----------
    instance
        The jobs.
    reward
        Says whether their weights count.
    """
    return np.array([job.weight if reward.weighted else 1.0 for job in instance.jobs])


def earn(instance: Instance, scheduler: Scheduler, reward: AuditedReward, seed: int = 0) -> Earned:
    """Run a scheduler with exact knowledge, and count what it earns.

    Parameters
    ----------
    instance
        What is played; it has slots.
    scheduler
        Takes the decisions.
    reward
        What a slot is worth, and its discount.
    seed
        Draws what the scheduler draws.

    Raises
    ------
    InstanceError
        If the instance has no slots.
    UnsupportedFeatureError
        If it does not know rules that the instance has, or leaves jobs unfinished.
    """
    require_honoured(scheduler, instance)
    slot_s = require_slot(instance)
    simulation = Simulation(instance, decider=scheduler.name, rng=seed)
    value = 0.0
    for now_s, elapsed in decisions(simulation, scheduler, slot_s):
        value += reward.discount(round(now_s / slot_s)) * float(reward.function(elapsed))
    result = simulation.result()
    if result.unfinished:
        raise UnsupportedFeatureError(
            f'{scheduler.name} leaves job "{result.unfinished[0]}" of "{instance.name}" '
            "unfinished, so it has no mean completion time."
        )
    stays = completion_times_s(result) / slot_s
    return Earned(float(np.average(stays, weights=weights_of(instance, reward))), value)
