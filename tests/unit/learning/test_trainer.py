"""What all trainings share: the weights that are kept are those that did best in validation."""

from __future__ import annotations

import math

import pytest
from needs import need_torch

pytestmark = need_torch()

import torch  # noqa: E402

from alloc.learning.training import Account, State, Trainer  # noqa: E402


class Scripted(Trainer):
    """A training whose validations are given, and whose only weight is the number of steps."""

    def __init__(self, values: list[float]) -> None:
        super().__init__(torch.nn.Linear(1, 1, bias=False), len(values), seed=0)
        self.values, self.kept = values, list[bool]()

    def advance(self) -> str:
        value = self.values[self.step]
        self.step += 1
        torch.nn.init.constant_(self.weight, self.step)
        self.kept.append(self._keep_best(value))
        return ""

    @property
    def weight(self) -> torch.Tensor:
        """The weight of the network in training."""
        return next(iter(self.network.parameters()))

    def state(self) -> State:
        return {"values": self.values}

    def restore(self, state: State) -> None:
        self.values = state["values"]

    def account(self) -> Account:
        raise AssertionError("nobody asks for a card")


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([3.0, 2.0, 2.0, 4.0], [True, True, False, False]),
        ([2.0, math.nan, 3.0, 1.0], [True, False, False, True]),
        ([math.nan, 5.0, math.inf], [False, True, False]),
        ([-1.0, 0.0, -math.inf], [True, False, True]),
    ],
)
def test_the_first_of_the_best_weights_are_kept(values: list[float], kept: list[bool]) -> None:
    trainer = Scripted(values)
    for _ in values:
        trainer.advance()
    assert trainer.kept == kept
    best = values.index(min(value for value in values if not math.isnan(value)))
    assert trainer.best_value == values[best]
    assert next(iter(trainer.best().parameters())).item() == best + 1
    # The network in training is another one: it has gone on.
    assert trainer.weight.item() == len(values)


def test_before_any_validation_the_best_are_the_first_weights() -> None:
    trainer = Scripted([math.nan])
    before = trainer.weight.item()
    trainer.advance()
    assert next(iter(trainer.best().parameters())).item() == before
    assert trainer.best_value == math.inf
