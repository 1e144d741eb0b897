"""Agents from Python as schedulers: anything that predicts joins a comparison."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from alloc.comparison import compare
from alloc.errors import InstanceError, SimulationError, UnsupportedFeatureError
from alloc.instances import load
from alloc.learning import agent_scheduler
from alloc.schedulers.learned.kinds import feature_spec
from alloc.simulation import simulate

SPEC = feature_spec("dl2-window/1", window=5)
INSTANCE = load("elastic-small/01")
END = 3 * 5


class Masked:
    """An agent as in sb3-contrib: takes the first allowed bundle, else ends the slot."""

    def predict(
        self,
        observation: np.ndarray,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Any]:
        assert observation.shape == (6, 5)
        assert observation.dtype == np.float32
        assert action_masks is not None
        assert action_masks.shape == (END + 1,)
        bundles = [a for a in range(2, END, 3) if action_masks[a]]
        return np.array(bundles[0] if bundles else END), None


class Plain:
    """An agent as in Stable-Baselines3: knows no masks."""

    def predict(self, observation: np.ndarray, deterministic: bool = False) -> tuple[int, None]:
        assert deterministic
        return 2, None


class Answers:
    """An agent that gives one answer whatever it sees."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def predict(self, observation: np.ndarray, **options: Any) -> Any:
        return self.answer


class Recurrent:
    """An agent that counts its calls in its state, as recurrent agents keep theirs."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def predict(self, observation: np.ndarray, state: Any = None) -> tuple[int, int]:
        self.seen.append(state)
        return 2, (state or 0) + 1


def test_a_masked_agent_decides() -> None:
    run = simulate(INSTANCE, agent_scheduler(Masked(), SPEC, name="first-bundle"))
    assert run.scheduler == "first-bundle"
    assert run.verified
    assert not run.unfinished


def test_an_agent_without_masks_ends_the_slot_when_it_errs() -> None:
    """Plain Stable-Baselines3 agents are asked without masks, and DL2's window does the rest."""
    run = simulate(INSTANCE, agent_scheduler(Plain(), SPEC, name="plain"))
    assert run.verified
    assert not run.unfinished


def test_agents_stand_in_the_table_beside_the_others() -> None:
    agent = agent_scheduler(Masked(), SPEC, name="mine", information="the window, and hope")
    rows = compare([load("elastic-tiny/01")], ["fifo", agent], time_limit_s=5).rows
    assert [(row.scheduler, row.error) for row in rows] == [
        ("optimum", None),
        ("fifo", None),
        ("mine", None),
    ]
    assert rows[-1].information == "the window, and hope"


def test_an_agent_pickles_after_it_was_used() -> None:
    scheduler = agent_scheduler(Masked(), SPEC, name="mine")
    first = simulate(INSTANCE, scheduler)
    again = simulate(INSTANCE, pickle.loads(pickle.dumps(scheduler)))
    assert first.completion_s == again.completion_s


def test_the_state_of_a_recurrent_agent_is_carried_and_forgotten() -> None:
    """It lives as long as a simulation."""
    agent = Recurrent()
    scheduler = agent_scheduler(agent, SPEC, name="recurrent")
    simulate(INSTANCE, scheduler)
    calls = len(agent.seen)
    assert agent.seen == [None, *range(1, calls)]
    simulate(INSTANCE, scheduler)
    assert agent.seen[calls] is None


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (99, 'agent "odd": chose action 99; there are the actions 0 to 15'),
        (-1, 'agent "odd": chose action -1'),
        (0.5, r'agent "odd": answered 0\.5; an action is one whole number from 0 to 15'),
        (np.array([1, 2]), r'agent "odd": answered array\(\[1, 2\]\)'),
        (None, 'agent "odd": answered None'),
    ],
)
def test_an_answer_that_is_no_action_stops_the_run(answer: Any, sentence: str) -> None:
    with pytest.raises(SimulationError, match=sentence):
        simulate(INSTANCE, agent_scheduler(Answers(answer), SPEC, name="odd"))


@pytest.mark.parametrize("answer", [2, np.int64(2), np.array(2), np.array([2]), (2, None), (2,)])
def test_actions_come_in_many_shapes(answer: Any) -> None:
    """Libraries answer with Python numbers, NumPy numbers, and arrays of one."""
    assert simulate(INSTANCE, agent_scheduler(Answers(answer), SPEC, name="any")).verified


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(InstanceError, match='agent "x": int has no method predict; wrap it'):
        agent_scheduler(5, SPEC, name="x")  # type: ignore[arg-type]
    spec = feature_spec("job-priority/1")
    with pytest.raises(UnsupportedFeatureError, match="an agent answers one action at a time"):
        agent_scheduler(Masked(), spec, name="x")


class Drawing:
    """An agent that draws with PyTorch, as Stable-Baselines3's do."""

    def predict(self, observation: np.ndarray, deterministic: bool = True) -> int:
        import torch

        assert not deterministic
        return int(torch.randint(0, END, ()))


@pytest.mark.torch
def test_draws_follow_the_seed_and_leave_pytorch_alone() -> None:
    """A stochastic agent gives the same row for the same seed, whoever drew before."""
    import torch

    scheduler = agent_scheduler(Drawing(), SPEC, name="drawing", deterministic=False)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = simulate(INSTANCE, scheduler, rng=1).schedule
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert simulate(INSTANCE, scheduler, rng=1).schedule == first
    assert simulate(INSTANCE, scheduler, rng=2).schedule != first
