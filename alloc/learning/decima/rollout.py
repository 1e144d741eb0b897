"""Episodes of an agent on graphs of stages: many at a time, one question to the network for all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from alloc.learning.pytorch import Tensor, torch
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.stage_graph import (
    StageGraphDecider,
    StageGraphKind,
    StageGraphParameters,
)
from alloc.schedulers.learned.stage_graph_features import Tensors
from alloc.simulation import Simulation, SimulationResult

_INPUTS = tuple(tensor.name for tensor in StageGraphKind().inputs(StageGraphParameters()))

Choose = Callable[[Sequence[Tensors]], Sequence[int]]
"""Takes a way for each of some questions."""


@dataclass
class Played:
    """An episode.

    Parameters
    ----------
    shown, taken, time_s
        What the agent was shown, which way it took, and when, seconds: a line for each step.
    weight, arrival_s, completion_s
        Of the jobs, shape (jobs,), seconds.
    """

    weight: npt.NDArray[np.float64]
    arrival_s: npt.NDArray[np.float64]
    completion_s: npt.NDArray[np.float64]
    shown: list[Tensors] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    time_s: list[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        """Weighted sum of the times that jobs spend in the system, seconds."""
        return float(self.weight @ (self.completion_s - self.arrival_s))

    def cost_from(self, time_s: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the weight of the jobs in the system, integrated from some times on, seconds.

        Minus this is Decima's reward, from there to the end: of jobs with weight 1 the number in
        the system.
        """
        since = np.maximum(self.arrival_s, time_s[:, None])
        left = np.maximum(self.completion_s - since, 0.0)
        return np.asarray(left @ self.weight)


def play(
    instances: Sequence[Instance], choose: Choose, parameters: StageGraphParameters
) -> list[Played]:
    """Play an episode on each of some instances, side by side.

    Parameters
    ----------
    instances
        The instances; one may be there several times.
    choose
        Asked for all episodes that are at a step.
    parameters
        Of the kind.
    """
    episodes = [_Episode(instance, parameters) for instance in instances]
    while going := [episode for episode in episodes if episode.shown is not None]:
        shown = [episode.shown for episode in going if episode.shown is not None]
        for episode, taken in zip(going, choose(shown), strict=True):
            episode.take(int(taken))
    return [episode.played for episode in episodes]


class _Episode:
    def __init__(self, instance: Instance, parameters: StageGraphParameters) -> None:
        jobs = instance.jobs
        self.played = Played(
            np.array([job.weight for job in jobs]),
            np.array([job.arrival_s for job in jobs]),
            np.zeros(len(jobs)),
        )
        self._simulation = Simulation(instance, decider="decima")
        self._run = self._steps(StageGraphDecider(_unasked, parameters, "decima"))
        self.shown: Tensors | None = next(self._run, None)

    def take(self, way: int) -> None:
        assert self.shown is not None
        self.played.shown.append(self.shown)
        self.played.taken.append(way)
        self.played.time_s.append(self._simulation.state.now_s)
        try:
            self.shown = self._run.send(way)
        except StopIteration:
            self.shown = None

    def _steps(self, decider: StageGraphDecider) -> Generator[Tensors, int, None]:
        simulation = self._simulation
        while (state := simulation.next_decision()) is not None:
            simulation.apply((yield from decider.ask(state)))
        result: SimulationResult = simulation.result(check=False)
        ends = [result.completion_s[job.id] for job in result.instance.jobs]
        self.played.completion_s = np.array([np.inf if end is None else end for end in ends])


def _unasked(inputs: object) -> dict[str, npt.NDArray[np.float32]]:
    raise AssertionError("an episode asks step by step")


def batch_of(shown: Sequence[Tensors]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return some questions as one, and which ways are there, shape (questions, ways)."""
    most = {
        name: tuple(max(one[name].shape[axis] for one in shown) for axis in range(2))
        for name in _INPUTS
    }
    made = {name: np.zeros((len(shown), *shape), np.float32) for name, shape in most.items()}
    there = np.zeros((len(shown), most["ways"][0]), np.bool_)
    for k, one in enumerate(shown):
        for name in _INPUTS:
            rows, columns = one[name].shape
            made[name][k, :rows, :columns] = one[name]
        there[k, : len(one["ways"])] = True
    return tuple(torch.from_numpy(made[name]) for name in _INPUTS), torch.from_numpy(there)
