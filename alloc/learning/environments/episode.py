"""An episode without any interface: what the environments share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from alloc.errors import InstanceError, SimulationError
from alloc.learning.environments.rewards import Clock, Reward, reward_function
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.stepwise import GOING_ON, Reply, Stepwise
from alloc.schedulers.learned.window import WindowSlot
from alloc.schedulers.state import Knowledge
from alloc.simulation import Simulation, SimulationResult, completion_times_s
from alloc.units import HOUR_S, require_count


@dataclass(frozen=True)
class EpisodeRules:
    """The rules of the episodes of an environment.

    Parameters
    ----------
    reward
        Name of a reward (`alloc.learning.environments.REWARDS`), or a function of `Elapsed`.
    knowledge, work_error, speed_error
        What the agent is told of work, as in `alloc.simulation.simulate`.
    max_slots
        Slots (decisions, in continuous time) after which an episode is cut off. DL2: 1,000.
    check
        Whether the checker checks the whole schedule at the end of an episode.
    """

    reward: str | Reward = "progress"
    knowledge: Knowledge = "exact"
    work_error: float = 0.0
    speed_error: float = 0.0
    max_slots: int = 1000
    check: bool = True

    def __post_init__(self) -> None:
        require_count(self.max_slots, "environment", "max_slots", least=1)
        reward_function(self.reward)

    def simulation(self, instance: Instance, seed: int) -> Simulation:
        """Return the simulation of an episode.

        Parameters
        ----------
        instance
            What is played.
        seed
            Draws the errors of work and rates, and what schedulers draw.
        """
        return Simulation(
            instance,
            knowledge=self.knowledge,
            work_error=self.work_error,
            speed_error=self.speed_error,
            rng=np.random.default_rng(seed),
            stalls=False,
        )


S = TypeVar("S", bound=Stepwise)


class Episode(Generic[S]):
    """Drives the simulator through decisions that are taken one action at a time.

    Attributes
    ----------
    slot
        The decision in the making.
    num_slots
        Slots, or in continuous time decisions, that have been closed.
    result
        What happened, once the episode is over, or None.
    over
        Whether it is, by completion of all jobs or cut off.
    told
        Whether it is, and an action has been told so.
    """

    def __init__(self, slot: S, rules: EpisodeRules) -> None:
        self.slot = slot
        self.told = False
        self.num_slots = 0
        self.result: SimulationResult | None = None
        self._rules = rules
        self._reward = reward_function(rules.reward)
        self._simulation: Simulation | None = None
        self.over = True

    def begin(self, instance: Instance, seed: int) -> None:
        """Begin an episode.

        Parameters
        ----------
        instance
            What is played.
        seed
            As in `EpisodeRules.simulation`.

        Raises
        ------
        InstanceError
            If a window is to be filled slot by slot and the instance has no slots.
        UnsupportedFeatureError
            If the instance has what the decisions do not know.
        """
        if instance.slot_s is None and isinstance(self.slot, WindowSlot):
            raise InstanceError(
                f'instance "{instance.name}" has no slots, but a window is filled slot by slot; '
                "give it a slot_s."
            )
        self._simulation = self._rules.simulation(instance, seed)
        # Rewards count time in slots, in hours where there are none.
        self._clock = Clock(self._simulation, instance.slot_s or HOUR_S)
        self.slot.reset()
        self.num_slots = 0
        self.result = None
        self.truncated = self.told = False
        self.reply: Reply | None = None
        self.over = not self._open()
        # A slot in which nothing can be chosen is not a decision; the first action gets its reward.
        self._owed = 0.0
        while not self.over and not self.slot.has_moves:
            self._owed += self._close()

    def act(self, action: int) -> float:
        """Carry out an action and return its reward: 0 within a slot, the slot's when it ends.

        A slot (a decision, in continuous time) ends by the agent's wish, by an action that does not
        fit or is not allowed, and when nothing is left to choose. Slots without any choice pass by
        themselves; their rewards are added.

        Raises
        ------
        SimulationError
            Before `begin`.
        """
        slot = self.slot
        if self.over:
            if self._simulation is None:
                raise SimulationError("no episode has begun; call reset() before the first step().")
            # Nothing could be chosen from beginning to end; the one action gets it all.
            self.told = True
            return self._owed
        reply = self.reply = slot.act(action)
        if slot.has_moves and reply in GOING_ON:
            return 0.0
        reward, self._owed = self._owed + self._close(), 0.0
        while not self.over and not slot.has_moves:
            reward += self._close()
        self.told = self.over
        return reward

    @property
    def outcome(self) -> dict[str, float]:
        """What became of an episode that is over: JCT and makespan are infinite if cut off."""
        result = self.result
        assert result is not None
        ends = [math.inf if end is None else end for end in result.completion_s.values()]
        return {
            "mean_jct_s": float(completion_times_s(result).mean()),
            "makespan_s": max(ends),
            "num_unfinished": len(result.unfinished),
            "num_slots": self.num_slots,
        }

    def _open(self) -> bool:
        """Run to the next slot; return whether there is one."""
        assert self._simulation is not None
        state = self._simulation.next_decision()
        if state is None:
            return False
        self.slot.open(state)
        return True

    def _close(self) -> float:
        """Run the slot as chosen and open the next; return the slot's reward."""
        simulation = self._simulation
        assert simulation is not None
        self._clock.start()
        simulation.apply(self.slot.close())
        self.num_slots += 1
        going = self._open()
        reward = float(self._reward(self._clock.elapsed()))
        if going and self.num_slots >= self._rules.max_slots:
            self.truncated = True
            simulation.stop()
            going = False
        if not going:
            self.over = True
            self.slot.blank()
            self.result = simulation.result(check=self._rules.check)
        return reward
