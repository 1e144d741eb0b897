"""Rollouts: a policy in the simulator, to label the rounds it meets or to see how well it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from alloc.instance import Instance
from alloc.instances.learning_worlds import World
from alloc.learning.imitation.network import SetPolicy
from alloc.learning.imitation.rounds import LabelledRound
from alloc.learning.imitation.teachers import Teacher
from alloc.schedulers.learned.job_set import JobSetDecider
from alloc.schedulers.state import ClusterState, Decision, Knowledge, Scheduler
from alloc.simulation import simulate


class TorchNetwork:
    """A network as deciders call it, run by PyTorch."""

    def __init__(self, module: SetPolicy) -> None:
        self._module = module

    def __call__(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return worth and prices."""
        with torch.no_grad():
            worth, prices = self._module(
                torch.from_numpy(tensors["jobs"]), torch.from_numpy(tensors["resources"])
            )
        return {"worth": worth.numpy(), "prices": prices.numpy()}


class Pupil:
    """A policy that is watched: some rounds are labelled, and in some the teacher decides.

    Parameters
    ----------
    network
        The policy.
    teacher
        Labels rounds.
    rate
        Chance that a round is labelled, 0 to 1.
    guidance
        Chance that the teacher's choice is taken in a round that is labelled, 0 to 1.
    rng
        Draws both.

    Attributes
    ----------
    labelled
        The labelled rounds so far.
    """

    name = "pupil"
    needs: Knowledge = "estimate"
    information = JobSetDecider.information
    features = JobSetDecider.features

    def __init__(
        self,
        network: SetPolicy,
        teacher: Teacher,
        rate: float,
        guidance: float,
        rng: np.random.Generator,
    ) -> None:
        self.labelled: list[LabelledRound] = []
        self._network = TorchNetwork(network)
        self._decider = JobSetDecider(self._network, self.name)
        self._teacher = teacher
        self._rate = rate
        self._guidance = guidance
        self._rng = rng

    def reset(self) -> None:
        """Forget the cluster, not the labels."""
        self._decider.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        round_ = self._decider.look(state)
        if not round_.views:
            return Decision(assign=tuple(round_.kept))
        column, score = round_.choose(self._network(round_.tensors))
        looked, guided = self._rng.random(2)
        if looked < self._rate and len(round_.views) <= self._teacher.most_jobs:
            labelled = self._teacher.label(state, round_)
            if labelled is not None:
                self.labelled.append(labelled)
                if guided < self._guidance:
                    column = labelled.choice.argmax(axis=1)
                    column[column == labelled.choice.shape[1] - 1] = -1
        return self._decider.seat(state, round_, column, score)


def label_rounds(
    network: SetPolicy,
    world: World,
    seed: int,
    teacher: Teacher,
    rng: np.random.Generator,
    *,
    rate: float,
    guidance: float,
) -> list[LabelledRound]:
    """Return the labelled rounds of one simulation, see `Pupil`."""
    pupil = Pupil(network, teacher, rate, guidance, rng)
    _run(world, world.make(seed), cast(Scheduler, pupil), seed)
    return pupil.labelled


def stretch(network: SetPolicy, world: World, seed: int) -> float:
    """Return the mean JCT of a policy over the mean least JCT, 1 or more.

    The least JCT is that of the job alone on the cluster, so the sum over jobs of what is above it
    is what waiting and sharing cost. Minus the mean JCT is, up to a constant, the reward: the sum
    over slots of minus the number of jobs in the system.
    """
    instance = world.make(seed)
    decider = JobSetDecider(TorchNetwork(network), "policy")
    return _run(world, instance, cast(Scheduler, decider), seed) / least_jct_s(instance)


def least_jct_s(instance: Instance) -> float:
    """Return the mean over jobs of the JCT of the job alone on the cluster, seconds."""
    return float(np.mean([job.min_run_s for job in instance.jobs]))


def mean_jct_s(world: World, instance: Instance, scheduler: Scheduler, seed: int) -> float:
    """Return the mean JCT of a scheduler on an instance of a world, seconds."""
    return _run(world, instance, scheduler, seed)


def _run(world: World, instance: Instance, scheduler: Scheduler, seed: int) -> float:
    result = simulate(
        instance,
        scheduler,
        knowledge=cast(Knowledge, world.knowledge),
        work_error=world.work_error,
        rng=seed,
        check=False,
    )
    ends = result.completion_s
    return float(np.mean([(ends[job.id] or np.inf) - job.arrival_s for job in instance.jobs]))
