"""Episodes of an agent on the package's simulator.

Parameters
----------
instance
    What is played.
task
    What the agent is trained for: its reward, and what the reward counts time in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from alloc.errors import SimulationError
from alloc.learning.actor_critic.task import Task
from alloc.learning.environments.rewards import Clock, decisions
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.stepwise import GOING_ON, Stepwise
from alloc.schedulers.state import Scheduler
from alloc.simulation import Simulation, completion_times_s

Choose = Callable[[npt.NDArray[np.float32], npt.NDArray[np.bool_]], int]


@dataclass
class Played:
    """What happened in an episode: a line for each action.

    Parameters
    ----------
    seen, mask, action
        What was shown, allowed and chosen.
    reward
        What came of it until the next action, in units of the task's scale.
    closes
        Whether the action ended its decision, so that time passed.
    mean_jct
        Mean completion time, in units of the clock (slots, or the task's unit).
    """

    seen: list[npt.NDArray[np.float32]] = field(default_factory=list)
    mask: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    action: list[int] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    closes: list[bool] = field(default_factory=list)
    mean_jct: float = 0.0


@dataclass(frozen=True)
class Reference:
    """What a scheduler had earned on an instance by the ends of the times between decisions.

    Parameters
    ----------
    time_s
        Those ends, seconds, ascending, from 0.
    earned, mean_jct
        In units of the task's scale, and as in `Played`.
    """

    time_s: npt.NDArray[np.float64]
    earned: npt.NDArray[np.float64]
    mean_jct: float

    def until(self, time_s: float) -> float:
        """Return what was earned until a time."""
        return float(np.interp(time_s, self.time_s, self.earned))


def refer(instance: Instance, task: Task, scheduler: Scheduler) -> Reference:
    """Return what a scheduler earns on an instance.

    Parameters
    ----------
    scheduler
        The scheduler that it is compared against.
    """
    unit_s = instance.slot_s or task.unit_s
    simulation = Simulation(instance, decider=scheduler.name)
    times, earned = [0.0], [0.0]
    for now_s, elapsed in decisions(simulation, scheduler, unit_s):
        if now_s > times[-1]:
            # Nothing is earned while the system is empty.
            times.append(now_s)
            earned.append(earned[-1])
        times.append(elapsed.end_s)
        earned.append(earned[-1] + float(task.reward(elapsed)) / task.reward_scale)
    return Reference(np.array(times), np.array(earned), _mean_jct(simulation, task.name, unit_s))


def play(
    instance: Instance,
    task: Task,
    steps: Stepwise,
    choose: Choose,
    reference: Reference | None = None,
) -> Played:
    """Play an episode to the end; what a reference earned, if given, is taken off the rewards.

    Parameters
    ----------
    steps
        The decision in steps.
    choose
        Chooses an action by observation and mask.
    reference
        What `refer` found on the same instance.

    Raises
    ------
    SimulationError
        If jobs are left that the agent never runs.
    """
    unit_s = instance.slot_s or task.unit_s
    simulation = Simulation(instance, decider=task.name)
    clock = Clock(simulation, unit_s)
    steps.reset()
    played, counted = Played(), 0.0
    state = simulation.next_decision()
    while state is not None:
        clock.start()
        steps.open(state)
        while steps.has_moves:
            seen, mask = steps.observation.copy(), steps.mask.copy()
            action = choose(seen, mask)
            played.seen.append(seen)
            played.mask.append(mask)
            played.action.append(action)
            played.reward.append(0.0)
            played.closes.append(False)
            if steps.act(action) not in GOING_ON:
                break
        simulation.apply(steps.close())
        state = simulation.next_decision()
        elapsed = clock.elapsed()
        if played.reward:
            played.reward[-1] += float(task.reward(elapsed)) / task.reward_scale
            played.closes[-1] = True
            if reference is not None:
                until = reference.until(elapsed.end_s if state is not None else np.inf)
                played.reward[-1] -= until - counted
                counted = until
    played.mean_jct = _mean_jct(simulation, task.name, unit_s)
    return played


def _mean_jct(simulation: Simulation, name: str, unit_s: float) -> float:
    result = simulation.result(check=False)
    if result.unfinished:
        job = result.unfinished[0]
        raise SimulationError(f'{name}: job "{job}" never completes; this is a bug.')
    return float(completion_times_s(result).mean()) / unit_s
