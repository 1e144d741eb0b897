"""Decisions in steps: what a policy that chooses one action at a time chooses from.

One implementation for all: the environments that policies are trained in drive a `Stepwise`, and so
does `StepwiseDecider`, which runs a trained policy.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from alloc.schedulers.learned.kinds import Actor
from alloc.schedulers.state import ClusterState, Decision

Observation = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


class Reply(Enum):
    """What came of an action; all but a grant and a pass end the decision."""

    GRANTED = "granted"
    PASSED = "passed"
    """Nothing was given, and the next is asked for."""
    ENDED = "ended"
    """The decision was ended on purpose."""
    MISFIT = "misfit"
    """It does not fit on the least loaded host, so it does not fit (DL2 discards such samples)."""
    MASKED = "masked"
    """It was not allowed."""


GOING_ON = frozenset((Reply.GRANTED, Reply.PASSED))
"""The replies after which the decision goes on."""


class Stepwise(Protocol):
    """A decision in the making.

    Call `open` with the state, `act` as long as the reply is one of `GOING_ON` and `has_moves`
    holds, then `close` for the decision. Observation and mask are brought up to date in place.
    """

    observation: Observation
    mask: Mask

    @property
    def has_moves(self) -> bool:
        """Whether there is anything to choose."""
        ...

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        ...

    def open(self, state: ClusterState) -> None:
        """Begin a decision."""
        ...

    def act(self, action: int) -> Reply:
        """Carry out an action."""
        ...

    def close(self) -> Decision:
        """Return the decision."""
        ...

    def blank(self) -> None:
        """Show that there is nothing to choose."""
        ...


class StepwiseDecider:
    """Decides with an actor that chooses one action of `steps` at a time.

    It chooses from an observation, a mask of what is allowed, and the experiment's random
    generator. An action that is not allowed ends the decision.
    """

    def __init__(self, act: Actor, steps: Stepwise) -> None:
        self._act = act
        self._steps = steps

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._steps.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Raises
        ------
        UnsupportedFeatureError
            If the instance has what these steps do not know.
        """
        steps = self._steps
        steps.open(state)
        while steps.has_moves:
            action = self._act(steps.observation.copy(), steps.mask.copy(), state.rng)
            if steps.act(int(action)) not in GOING_ON:
                break
        return steps.close()
