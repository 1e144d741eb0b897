"""Rollouts: a policy in the simulator, to label the rounds it meets or to see how well it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from alloc.instances.learning_worlds import World
from alloc.learning.imitation.network import LARGEST, SetPolicy
from alloc.learning.imitation.rounds import LabelledRound
from alloc.learning.imitation.teachers import Teacher
from alloc.learning.pytorch import nn
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.job_set import JobSetDecider
from alloc.schedulers.state import ClusterState, Decision, Knowledge, Scheduler
from alloc.simulation import completion_times_s, simulate


class NumpyNetwork:
    """A network as deciders call it, run by numpy on the very weights of the module.

    For the few jobs of a training world PyTorch's overhead would exceed the arithmetic tenfold.
    """

    def __init__(self, module: SetPolicy) -> None:
        self._module = module

    def __call__(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return worth and prices, as `SetPolicy.forward` does."""
        net = self._module
        first, _, second, _ = net.embed
        seen = (tensors["jobs"] - net.centre.numpy()) * net.scale.numpy()
        seen = _relu(_linear(second, _relu(_linear(first, seen))))
        asked = _linear(net.ask, seen)
        asked = np.exp(asked - asked.max(axis=0))
        found = (asked / asked.sum(axis=0)).T @ _linear(net.gather, seen)
        supply = _relu(_linear(net.resource[0], tensors["resources"]))
        known = np.concatenate([found.ravel(), supply.mean(axis=0)])
        context = _relu(_linear(net.context[0], known))
        told = _relu(_linear(net.mix, seen) + _linear(net.tell_jobs, context))
        worth = np.exp(np.clip(_linear(net.worth, told), -LARGEST, LARGEST))
        dear = _relu(_linear(net.mix_price, supply) + _linear(net.tell_prices, context))
        prices = np.exp(np.clip(_linear(net.price, dear)[:, 0], -LARGEST, LARGEST))
        return {"worth": worth, "prices": prices}


def _linear(layer: nn.Module, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    assert isinstance(layer, nn.Linear)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return np.asarray(np.dot(x, weight.T) + bias)


def _relu(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.maximum(x, np.float32(0.0)))


class Pupil:
    """A policy that is watched: some rounds are labelled, and in some the teacher decides.

    Parameters
    ----------
    network, teacher
        The policy, and what labels rounds.
    rate, guidance
        Chance that a round is labelled, and that the teacher's choice is taken in one that is, 0 to
        1.
    rng
        Draws both.
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
        self._network = NumpyNetwork(network)
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
        if looked < self._rate and len(round_.views) <= self._teacher.max_jobs:
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
    rate: float,
    guidance: float,
) -> list[LabelledRound]:
    """Return the labelled rounds of one simulation, see `Pupil`.

    Parameters
    ----------
    network, teacher
        The policy, and what labels rounds.
    world, seed
        What is simulated.
    rng
        Draws which rounds are labelled, and in which the teacher decides.
    rate, guidance
        Chances of the two, 0 to 1, as in `Pupil`.
    """
    pupil = Pupil(network, teacher, rate, guidance, rng)
    _run(world, world.make(seed), cast(Scheduler, pupil), seed)
    return pupil.labelled


class Trial:
    """An instance of a world on which networks are tried."""

    def __init__(self, world: World, seed: int) -> None:
        self._instance = world.make(seed)
        self._least_s = np.mean([job.min_run_s for job in self._instance.jobs])
        self._world, self._seed = world, seed

    def stretch(self, network: SetPolicy) -> float:
        """Return the mean JCT of a network over the mean least JCT, 1 or more.

        The least JCT is that of the job alone on the cluster. Minus the mean JCT is, up to a
        constant factor, the reward: the sum over slots of minus the number of jobs in the system,
        with the last slot of a job counted as far as it runs.
        """
        scheduler = cast(Scheduler, JobSetDecider(NumpyNetwork(network), "policy"))
        return float(_run(self._world, self._instance, scheduler, self._seed) / self._least_s)


def _run(world: World, instance: Instance, scheduler: Scheduler, seed: int) -> float:
    """Return the mean JCT of a scheduler on an instance of a world, seconds."""
    result = simulate(
        instance,
        scheduler,
        knowledge=cast(Knowledge, world.knowledge),
        work_error=world.work_error,
        rng=seed,
        check=False,
    )
    return float(completion_times_s(result).mean())
