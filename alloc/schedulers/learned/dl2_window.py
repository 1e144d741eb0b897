"""Kind ``dl2-window/1``: DL2's network, asked for one worker, PS or bundle after the other."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from alloc.instances.dl2 import JOB_TYPES
from alloc.schedulers.learned.feature_spec import TensorSpec, WindowParameters
from alloc.schedulers.learned.kinds import Actor, Decider, StepwiseKind
from alloc.schedulers.learned.stepwise import StepwiseDecider
from alloc.schedulers.learned.window import WindowSlot
from alloc.schedulers.learned.window_features import WindowFeatures
from alloc.schedulers.state import Knowledge


class Dl2WindowParameters(WindowParameters):
    """The parameters of the kind.

    `max_tasks`, `encoding`, `models` and `initial_bundle` are those of `WindowFeatures`.
    """

    max_tasks: int = Field(default=16, ge=1, le=10_000)
    encoding: Literal["released", "rescaled", "paper"] = "released"
    models: tuple[str, ...] = Field(default=tuple(JOB_TYPES), max_length=1000)
    initial_bundle: bool = True

    @property
    def window_features(self) -> WindowFeatures:
        """The features that these parameters stand for."""
        return WindowFeatures(
            self.window, self.max_tasks, self.encoding, self.models, self.initial_bundle
        )


class Dl2WindowKind(StepwiseKind[Dl2WindowParameters]):
    """DL2's window: logits over ``3 window + 1`` actions, one action at a time."""

    name = "dl2-window/1"
    title = "sees a window of jobs and gives out one worker, PS or bundle at a time, as DL2 does"
    needs: Knowledge = "estimate"
    features: tuple[str, ...] = ()
    parameters = Dl2WindowParameters
    can_sample = True

    def inputs(self, parameters: Dl2WindowParameters) -> tuple[TensorSpec, ...]:
        """Return the observation, `WindowFeatures.shape` with a batch axis in front."""
        rows, columns = parameters.window_features.shape
        return (TensorSpec(name="window", dtype="float32", shape=("batch", rows, columns)),)

    def outputs(self, parameters: Dl2WindowParameters) -> tuple[TensorSpec, ...]:
        """Return the logits of the actions."""
        actions = parameters.window_features.num_actions
        return (TensorSpec(name="logits", dtype="float32", shape=("batch", actions)),)

    def make_stepwise(self, act: Actor, parameters: Dl2WindowParameters, *, name: str) -> Decider:
        """Return what decides with an actor."""
        slot = WindowSlot(parameters.window_features, name=name, in_view=parameters)
        return StepwiseDecider(act, slot)
