"""Episodes of an agent on the package's simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from alloc.errors import SimulationError
from alloc.learning.actor_critic.task import Task
from alloc.learning.environments.rewards import Clock
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.stepwise import GOING_ON, Stepwise
from alloc.schedulers.state import Scheduler
from alloc.simulation import Simulation

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
    """What a scheduler earned on an instance, as it went on.

    Parameters
    ----------
    time_s
        Ends of the times between decisions, seconds, ascending, from 0.
    earned
        All rewards until then, in units of the task's scale.
    mean_jct
        As in `Played`.
    """

    time_s: npt.NDArray[np.float64]
    earned: npt.NDArray[np.float64]
    mean_jct: float

    def until(self, time_s: float) -> float:
        """Return what was earned until a time."""
        return float(np.interp(time_s, self.time_s, self.earned))


def refer(instance: Instance, task: Task, scheduler: Scheduler) -> Reference:
    """Return what a scheduler earns on an instance."""
    unit_s = instance.slot_s or task.unit_s
    simulation = Simulation(instance, decider=scheduler.name)
    clock = Clock(simulation, unit_s)
    scheduler.reset()
    times, earned = [0.0], [0.0]
    state = simulation.next_decision()
    while state is not None:
        clock.start()
        if state.now_s > times[-1]:
            # Nothing is earned while the system is empty.
            times.append(state.now_s)
            earned.append(earned[-1])
        simulation.apply(scheduler.decide(state))
        state = simulation.next_decision()
        elapsed = clock.elapsed()
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
    """Play an episode to the end.

    Parameters
    ----------
    instance, task, steps, choose
        What to play, and who.
    reference
        What is taken off the rewards, or None.

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
    ends = simulation.result(check=False).completion_s
    stays = []
    for job in simulation.instance.jobs:
        end = ends[job.id]
        if end is None:
            raise SimulationError(f'{name}: job "{job.id}" never completes; this is a bug.')
        stays.append(end - job.arrival_s)
    return float(np.mean(stays)) / unit_s
