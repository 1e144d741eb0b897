"""Anybody's agent as a scheduler: any object that predicts actions, as Stable-Baselines3's do."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.schedulers.learned.feature_spec import FeatureSpec, KindParameters
from alloc.schedulers.learned.kinds import Decider, StepwiseKind, parameters_of, policy_kind
from alloc.schedulers.learned.module_content import content_of_module
from alloc.schedulers.places import raised
from alloc.schedulers.state import ClusterState, Decision, Knowledge


class Agent(Protocol):
    """What predicts actions; ``predict`` as in Stable-Baselines3 and sb3-contrib.

    It is called with the observation of the kind's environment, without batch axis, and with those
    of the arguments ``action_masks`` (True: allowed), ``deterministic`` and ``state`` that it
    takes. It returns an action, or a pair of an action and the state of a recurrent agent.
    """

    def predict(self, observation: Any, /) -> Any:
        """Return an action, alone or with a state."""
        ...


class AgentScheduler:
    """The scheduler of an agent, for `alloc.simulate` and ``alloc.comparison.compare``.

    Parameters
    ----------
    agent
        Any object with ``predict``, see `Agent`: for example a loaded ``MaskablePPO``. An agent
        that takes no ``action_masks`` may choose an action that is not allowed; what that means is
        the kind's rule (DL2's window: it ends the slot). Of an agent of Stable-Baselines3 only its
        policy is kept. With more than one process it must pickle.
    spec
        What it is shown: that of the environment it was trained in.
    name
        Name in tables.
    deterministic
        What ``predict`` is told, if it asks. Otherwise it draws; draws with PyTorch follow the
        experiment's seed.
    information
        What it uses, in one sentence; by default its kind.

    Raises
    ------
    UnsupportedFeatureError
        If the kind does not ask for one action at a time.
    InstanceError
        If the agent cannot predict, or the kind is unknown.
    """

    def __init__(
        self,
        agent: Agent,
        spec: FeatureSpec,
        *,
        name: str,
        deterministic: bool = True,
        information: str | None = None,
    ) -> None:
        kind = policy_kind(spec.kind)
        if not callable(getattr(kind, "make_stepwise", None)):
            raise UnsupportedFeatureError(
                f'agent "{name}": kind "{spec.kind}" asks for all jobs at once, and an agent '
                "answers one action at a time; take a kind such as dl2-window/1."
            )
        if not callable(getattr(agent, "predict", None)):
            raise InstanceError(
                f'agent "{name}": {type(agent).__name__} has no method predict; wrap it in an '
                "object whose predict(observation, action_masks=..., deterministic=...) returns "
                "an action."
            )
        self.name = name
        self.needs: Knowledge = kind.needs
        self.information = information or f"what its agent is shown ({spec.kind})"
        self.features = kind.features
        self.draws = not deterministic
        self._spec = spec
        self._act = _Act(_actor_of(agent), name, deterministic)
        self._decider: Decider | None = None

    @property
    def content(self) -> str | None:
        """What its decisions depend on, for the key of stored results; None if no module does."""
        actor = self._act.agent
        if not _is_module(actor):
            return None
        return f"{self._spec.model_dump_json()} {self.draws} {content_of_module(cast(Any, actor))}"

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what it remembers of a simulation."""
        return {**self.__dict__, "_decider": None}

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._act.reset()
        if self._decider is not None:
            self._decider.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        if self._decider is None:
            kind = cast("StepwiseKind[KindParameters]", policy_kind(self._spec.kind))
            self._decider = kind.make_stepwise(self._act, parameters_of(self._spec), name=self.name)
        return self._decider.decide(state)


agent_scheduler = AgentScheduler
"""The same class under the name that reads better in a call."""


def _actor_of(agent: Agent) -> Agent:
    """Return what decides of an agent: its policy alone, without the environment it learned in.

    Only where predicting is Stable-Baselines3's own: another may look at something else, too.
    """
    room = getattr(getattr(agent.predict, "__func__", None), "__module__", None) or ""
    policy = getattr(agent, "policy", None)
    own = not room.startswith(("stable_baselines3.", "sb3_contrib."))
    return agent if own or not _is_module(policy) else cast(Agent, policy)


def _is_module(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


class _Act:
    """Asks an agent for an action."""

    def __init__(self, agent: Agent, name: str, deterministic: bool) -> None:
        self.agent = agent
        self._name = name
        self._deterministic = deterministic
        taken = inspect.signature(agent.predict).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in taken.values())
        self._options = {
            option
            for option in ("action_masks", "deterministic", "state")
            if open_ended or option in taken
        }
        self.reset()

    def reset(self) -> None:
        """Forget the state of a recurrent agent."""
        self._state: Any = None

    def __call__(
        self,
        observation: npt.NDArray[Any],
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> int:
        given = {"action_masks": mask, "deterministic": self._deterministic, "state": self._state}
        options = {name: value for name, value in given.items() if name in self._options}
        with _seeded(None if self._deterministic else rng):
            try:
                answer = cast(Any, self.agent).predict(observation, **options)
            except Exception as error:  # whatever somebody's agent raises
                raise SimulationError(
                    f'agent "{self._name}": fails, {raised(error)}; mend it there.'
                ) from error
        action = answer
        if isinstance(answer, tuple):
            action, self._state = answer[0], (answer[1] if len(answer) > 1 else None)
        number = np.asarray(action)
        if number.size != 1 or number.dtype.kind not in "iu":
            raise SimulationError(
                f'agent "{self._name}": answered {action!r}; an action is one whole number from 0 '
                f"to {mask.size - 1}."
            )
        chosen = int(number.reshape(()))
        if not 0 <= chosen < mask.size:
            raise SimulationError(
                f'agent "{self._name}": chose action {chosen}; there are the actions 0 to '
                f"{mask.size - 1}."
            )
        return chosen


@contextmanager
def _seeded(rng: np.random.Generator | None) -> Iterator[None]:
    """Let what PyTorch draws follow a generator, and leave PyTorch's own as it was."""
    torch = sys.modules.get("torch")
    if rng is None or torch is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        yield
