"""The kind policy-choice/1: the policy chosen decides, and a file may name no other than ours."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.instances import load
from alloc.schedulers import make_scheduler
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.policy_choice import QUEUE_COLUMNS, PolicyChoice
from alloc.schedulers.learned.stepwise import StepwiseDecider
from alloc.schedulers.state import Knowledge
from alloc.simulation import simulate

POLICIES = ("drf", "optimus", "srtf-dl2")


class Choosing:
    """Always chooses one policy, or draws."""

    needs: Knowledge = "estimate"
    information = "a number"

    def __init__(self, choice: int | None) -> None:
        self.name = f"choosing {choice}"
        self.seen: list[np.ndarray] = []
        rng = np.random.default_rng(0)

        def act(seen: np.ndarray, mask: np.ndarray, _: object) -> int:
            self.seen.append(seen)
            return int(rng.integers(len(POLICIES))) if choice is None else choice

        self._decider = StepwiseDecider(act, PolicyChoice(POLICIES))
        self.decide, self.reset = self._decider.decide, self._decider.reset


@pytest.mark.parametrize("choice", range(3))
def test_choosing_always_one_policy_is_that_policy(choice: int) -> None:
    """To the last host: the selector adds nothing of its own."""
    instance = load("elastic-small/01")
    alone = simulate(instance, make_scheduler(POLICIES[choice]))
    assert simulate(instance, Choosing(choice)).schedule == alone.schedule


def test_features_stay_between_0_and_1() -> None:
    """A network that was trained on some loads must not meet numbers without end on others."""
    drawing = Choosing(None)
    simulate(load("elastic-small/02"), drawing)
    seen = np.stack(drawing.seen)
    assert seen.shape[1] == len(QUEUE_COLUMNS)
    assert (seen >= 0).all()
    assert (seen <= 1).all()
    assert np.ptp(seen, axis=0).max() > 0.1


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        (("drf", "evil.onnx"), "not in the pool"),
        (("drf", "drf"), "twice"),
        (("drf",), "at least 2"),
    ],
)
def test_a_file_names_policies_of_the_pool_only(policies: tuple[str, ...], text: str) -> None:
    """A policy file of a stranger must not open other files by their path."""
    with pytest.raises(InstanceError, match=text):
        feature_spec("policy-choice/1", policies=policies)
