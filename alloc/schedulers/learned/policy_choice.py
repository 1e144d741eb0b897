"""Kind ``policy-choice/1``: a network that chooses, at each decision, which policy decides.

A pool of policies that exist already stays as it is; what is learned is when to listen to which.

References
----------
Baheri et al., "MARS: Malleable Actor-Critic Reinforcement Learning Scheduler", 2020,
arXiv:2005.01584, which chooses among pre-built policies by an actor-critic; its state and pool are
those of HPC workflows, these here are ours.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from alloc.errors import nearest
from alloc.schedulers.learned.feature_spec import KindParameters, TensorSpec
from alloc.schedulers.learned.job_priority import job_features
from alloc.schedulers.learned.kinds import Actor, Decider, StepwiseKind
from alloc.schedulers.learned.stepwise import Observation, Reply, StepwiseDecider
from alloc.schedulers.state import ClusterState, Decision, Knowledge, Scheduler

POOL = (
    "fifo",
    "srtf-dl2",
    "las",
    "drf",
    "tetris",
    "optimus",
    "random-ps",
    "exact-progress",
    "exact-remaining-time",
    "exact-goodput",
)
"""What may be chosen from: policies of alloc itself, so that a file opens no other file."""

QUEUE_COLUMNS = (
    "jobs in the system n, as n / (10 + n)",
    "share of them that has never run or does not run",
    "mean time h since arrival in hours, as h / (1 + h)",
    "longest time h since arrival in hours, as h / (1 + h)",
    "mean remaining time h at the fastest rate in hours, as h / (1 + h)",
    "least remaining time h in hours, as h / (1 + h)",
    "longest remaining time h in hours, as h / (1 + h)",
    "mean remaining fraction of the work",
    "sum s of the shares of all smallest configurations, as s / (1 + s)",
    "sum s of the shares of all fastest configurations, as s / (1 + s)",
    "mean share of a smallest configuration",
    "mean share of a fastest configuration",
)
"""The features, all from 0 to 1."""


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse policies outside the pool, and one named twice."""
    for name in names:
        if name not in POOL:
            raise ValueError(f'policy "{name}" is not in the pool{nearest(name, POOL)}')
    if len(set(names)) != len(names):
        raise ValueError("a policy is named twice")
    return names


class PolicyChoiceParameters(KindParameters):
    """The parameters of the kind.

    Parameters
    ----------
    policies
        What is chosen from, in the order of the logits.
    """

    policies: Annotated[tuple[str, ...], AfterValidator(_known)] = Field(
        default=("drf", "optimus", "srtf-dl2", "tetris", "random-ps"), min_length=2, max_length=16
    )


class PolicyChoiceKind(StepwiseKind[PolicyChoiceParameters]):
    """Logits over a pool of policies; the one chosen takes the decision."""

    name = "policy-choice/1"
    title = "sees the queue as a whole, and chooses which of several policies decides now"
    needs: Knowledge = "estimate"
    features: tuple[str, ...] = ()
    parameters = PolicyChoiceParameters
    can_sample = True

    def inputs(self, parameters: PolicyChoiceParameters) -> tuple[TensorSpec, ...]:
        """Return the features of the queue, with a batch axis in front."""
        return (TensorSpec(name="queue", dtype="float32", shape=("batch", len(QUEUE_COLUMNS))),)

    def outputs(self, parameters: PolicyChoiceParameters) -> tuple[TensorSpec, ...]:
        """Return the logits of the policies."""
        actions = len(parameters.policies)
        return (TensorSpec(name="logits", dtype="float32", shape=("batch", actions)),)

    def make_stepwise(
        self, act: Actor, parameters: PolicyChoiceParameters, *, name: str
    ) -> Decider:
        """Return what decides with an actor."""
        return StepwiseDecider(act, PolicyChoice(parameters.policies))


class PolicyChoice:
    """One choice for each decision: the policy, one of `POOL`, that takes it."""

    def __init__(self, policies: tuple[str, ...]) -> None:
        from alloc.schedulers.registry import make_scheduler

        self._policies: list[Scheduler] = [make_scheduler(name) for name in _known(policies)]
        self.observation = np.zeros(len(QUEUE_COLUMNS), np.float32)
        self.mask = np.zeros(len(policies), np.bool_)
        self._state: ClusterState | None = None
        self._decision = Decision()

    @property
    def has_moves(self) -> bool:
        """Whether there is anything to choose."""
        return bool(self.mask.any())

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        for policy in self._policies:
            policy.reset()
        self.blank()

    def open(self, state: ClusterState) -> None:
        """Begin a decision."""
        self._state, self._decision = state, Decision()
        self.observation[:] = queue_features(state)
        self.mask[:] = len(state.jobs) > 0

    def act(self, action: int) -> Reply:
        """Let a policy decide."""
        if not self.mask[action] or self._state is None:
            return Reply.MASKED
        self._decision = self._policies[action].decide(self._state)
        self.blank()
        return Reply.ENDED

    def close(self) -> Decision:
        """Return the decision."""
        return self._decision

    def blank(self) -> None:
        """Show that there is nothing to choose."""
        self.observation.fill(0.0)
        self.mask.fill(False)


def queue_features(state: ClusterState) -> Observation:
    """Return `QUEUE_COLUMNS` of a state, zeros for an empty system."""
    if not len(state.jobs):
        return np.zeros(len(QUEUE_COLUMNS), np.float32)
    age, left, fraction, _, running, _, least, most = job_features(list(state.jobs), state).T
    n = len(age)
    hours = np.array([age.mean(), age.max(), left.mean(), left.min(), left.max()])
    sums = np.array([least.sum(), most.sum()])
    return np.array(
        [
            n / (10 + n),
            1 - running.mean(),
            *np.maximum(hours, 0) / (1 + np.maximum(hours, 0)),
            np.clip(fraction.mean(), 0, 1),
            *sums / (1 + sums),
            least.mean(),
            most.mean(),
        ],
        dtype=np.float32,
    )
