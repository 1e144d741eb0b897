"""Kinds of policies: what a network is shown, what it answers, and how that becomes a decision.

A kind is the seam between a network and the cluster. To add one:

1. Write a class with the members of `PolicyKind`: a name with the version
   of its features, its parameters as a `KindParameters`, the tensors that follow from them, and
   `make_decider`. A network that is asked for one action at a time, like DL2's, derives from
   `StepwiseKind` and writes `make_stepwise` in place of `make_decider`; then agents from Python
   that answer with actions can be used as well.
2. Add its line to `KINDS`; another package announces its own as an entry point of the group
   `alloc.policy_kinds`.

What the features mean may never change under one name: a network trained on the old meaning would
silently decide nonsense. Change the version behind the slash instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, nearest
from alloc.plugins import announced
from alloc.schedulers.learned.feature_spec import (
    FeatureSpec,
    KindParameters,
    TensorSpec,
    shown,
    typed_parameters,
)
from alloc.schedulers.state import ClusterState, Decision, Knowledge

ENTRY_POINTS = "alloc.policy_kinds"
"""Entry-point group in which other packages announce their kinds."""

KINDS: Mapping[str, str] = {
    "dl2-window/1": "alloc.schedulers.learned.dl2_window:Dl2WindowKind",
    "gang-domain/1": "alloc.schedulers.learned.domain_choice:GangDomainKind",
    "host-choice/1": "alloc.schedulers.learned.host_choice:HostChoiceKind",
    "job-set/1": "alloc.schedulers.learned.job_set:JobSetKind",
    "job-priority/1": "alloc.schedulers.learned.job_priority:JobPriorityKind",
    "pick-backfill/1": "alloc.schedulers.learned.pick_backfill:PickBackfillKind",
    "policy-choice/1": "alloc.schedulers.learned.policy_choice:PolicyChoiceKind",
    "stage-graph/1": "alloc.schedulers.learned.stage_graph:StageGraphKind",
}
"""The kinds of alloc: name to ``module:class``."""

Network = Callable[[Mapping[str, npt.NDArray[Any]]], dict[str, npt.NDArray[Any]]]
"""Runs a network: input tensors by name to output tensors by name, as the spec states them."""

Actor = Callable[[npt.NDArray[Any], npt.NDArray[np.bool_], np.random.Generator], int]
"""Chooses an action: observation and mask (True: allowed) without batch axis to its number."""

P = TypeVar("P", bound=KindParameters)


class Decider(Protocol):
    """What decides while a simulation runs."""

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        ...

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        ...


class PolicyKind(Protocol[P]):
    """A kind of policy.

    `name` has the version of the features behind a slash; `title` says in one line what the
    network does; `needs` and `features` are those of a `Scheduler`; `parameters` is the class of
    its parameters; `can_sample` whether a decision can be drawn instead of taken at its largest.
    """

    name: str
    title: str
    needs: Knowledge
    features: tuple[str, ...]
    parameters: type[P]
    can_sample: bool

    def inputs(self, parameters: P) -> tuple[TensorSpec, ...]:
        """Return the input tensors, in the order of the graph."""
        ...

    def outputs(self, parameters: P) -> tuple[TensorSpec, ...]:
        """Return the output tensors, in the order of the graph."""
        ...

    def make_decider(
        self, network: Network, parameters: P, *, name: str, sample: bool = False
    ) -> Decider:
        """Return what decides with a network.

        Parameters
        ----------
        network
            Checks shapes, element types and NaN of what goes in and comes out, so that the decider
            need not.
        parameters
            The parameters of the policy's spec.
        name
            Name of the policy, for messages.
        sample
            Whether to draw with ``state.rng`` instead of taking the largest.
        """
        ...


class StepwiseKind(PolicyKind[P], Protocol[P]):
    """A kind whose network chooses one action at a time, of a fixed number, some of them masked."""

    def make_stepwise(self, act: Actor, parameters: P, *, name: str) -> Decider:
        """Return what decides with an actor; observations as in the kind's environment.

        Parameters
        ----------
        act
            Chooses the next action from an observation and a mask.
        parameters
            The parameters of the policy's spec.
        name
            Name of the policy, for messages.
        """
        ...

    def make_decider(
        self, network: Network, parameters: P, *, name: str, sample: bool = False
    ) -> Decider:
        """Return what decides by the logits of a network with one input, see `choose`.

        The first input is the observation and the first output the logits, both with a batch axis
        in front; the mask is applied here.
        """
        seen, given = self.inputs(parameters)[0].name, self.outputs(parameters)[0].name

        def act(
            observation: npt.NDArray[Any], mask: npt.NDArray[np.bool_], rng: np.random.Generator
        ) -> int:
            logits = network({seen: observation[np.newaxis]})[given][0]
            return choose(logits, mask, rng if sample else None)

        return self.make_stepwise(act, parameters, name=name)


def choose(
    logits: npt.NDArray[Any], mask: npt.NDArray[np.bool_], rng: np.random.Generator | None
) -> int:
    """Return the allowed action with the largest logit, or one drawn from their softmax.

    Parameters
    ----------
    logits
        Unnormalised log-probability of each action, shape (actions,).
    mask
        Whether an action is allowed, shape (actions,); at least one is.
    rng
        Draws the action; None takes the largest logit, of equals the first.
    """
    allowed = np.where(mask, logits.astype(np.float64), -np.inf)
    if rng is None:
        return int(allowed.argmax())
    weights = np.exp(allowed - allowed.max())
    # One uniform number through the inverse distribution, so that a draw costs one number
    # whatever the count of actions.
    ladder = weights.cumsum()
    drawn = int(np.searchsorted(ladder, rng.random() * ladder[-1], side="right"))
    return min(drawn, int(np.flatnonzero(mask)[-1]))


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, also of those that other packages announce."""
    return (*KINDS, *announced(ENTRY_POINTS, KINDS))


def policy_kind(name: str) -> PolicyKind[Any]:
    """Return a kind by name.

    Raises
    ------
    InstanceError
        If there is no such kind.
    """
    known = {**announced(ENTRY_POINTS, KINDS), **KINDS}
    if name not in known:
        raise InstanceError(
            f'unknown kind of policy "{shown(name)}"{nearest(name, known, ".")} '
            f"Known: {', '.join(known)}."
        )
    module, _, attribute = known[name].partition(":")
    return cast("PolicyKind[Any]", getattr(import_module(module), attribute)())


def parameters_of(spec: FeatureSpec) -> KindParameters:
    """Return the parameters of a spec as its kind's own type.

    Raises
    ------
    InstanceError
        If the kind is unknown or does not take them.
    """
    kind = policy_kind(spec.kind)
    return typed_parameters(kind.name, kind.parameters, spec.parameters)


def feature_spec(kind: str, /, **parameters: Any) -> FeatureSpec:
    """Return the spec of a kind with these parameters.

    Parameters
    ----------
    kind
        Name of the kind.
    parameters
        Its parameters, plain JSON values.

    Raises
    ------
    InstanceError
        If there is no such kind, or a parameter is unknown, missing or out of range.
    """
    chosen = policy_kind(kind)
    typed = typed_parameters(chosen.name, chosen.parameters, parameters)
    return FeatureSpec(
        kind=chosen.name,
        parameters=typed.model_dump(mode="json"),
        inputs=chosen.inputs(typed),
        outputs=chosen.outputs(typed),
    )
