"""Keys of comparison rows: the configuration of a scheduler alone, whatever it has worked out."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import joblib
import numpy as np
import pytest

from alloc.comparison.hashing import configuration_hash
from alloc.comparison.settings import Entry, key_of
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState, Decision, Knowledge


class Weights:
    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values)

    @cached_property
    def total(self) -> float:
        return float(self.values.sum())


class HeavyWeights(Weights):
    """Inherits what is cached, and says itself what is pickled."""

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Frozen:
    weights: Weights = field(default_factory=lambda: Weights([1.0]))

    @cached_property
    def doubled(self) -> np.ndarray:
        return 2 * self.weights.values


class Slotted:
    __slots__ = ("__dict__", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit

    @cached_property
    def twice(self) -> int:
        return 2 * self.limit


class Rule:
    name = "rule"
    needs: Knowledge = "exact"
    information = "what jobs take"

    def __init__(self, limit: int, values: list[float]) -> None:
        self.limit = limit
        self.plain = Weights(values)
        self.heavy = HeavyWeights(values)
        self.nested: dict[str, list[Any]] = {"rest": [(Frozen(Weights(values)), Slotted(limit))]}

    @cached_property
    def threshold(self) -> float:
        return self.limit * self.plain.total

    def decide(self, state: ClusterState) -> Decision:
        """Start nothing."""
        return Decision(())

    def reset(self) -> None:
        """Forget nothing."""

    def use(self) -> None:
        """Work out all that is cached."""
        ((frozen, slotted),) = self.nested["rest"]
        assert self.threshold + self.heavy.total + frozen.doubled.sum() + slotted.twice > 0


def test_what_is_worked_out_changes_no_hash() -> None:
    used, fresh = Rule(3, [1.0, 2.0]), Rule(3, [1.0, 2.0])
    before = configuration_hash(used)
    used.use()
    assert joblib.hash(used) != joblib.hash(fresh)
    assert configuration_hash(used) == before == configuration_hash(fresh)
    assert configuration_hash(pickle.loads(pickle.dumps(used))) == before


@pytest.mark.parametrize(
    "other", [Rule(4, [1.0, 2.0]), Rule(3, [1.0, 2.5]), Rule(3, [1.0]), Weights([1.0, 2.0])]
)
@pytest.mark.parametrize("is_used", [False, True])
def test_another_configuration_has_another_hash(other: object, is_used: bool) -> None:
    rule = Rule(3, [1.0, 2.0])
    if is_used:
        rule.use()
    assert configuration_hash(rule) != configuration_hash(other)


def test_an_attribute_that_is_only_called_like_something_cached_counts() -> None:
    one, other = Weights([1.0]), Weights([1.0])
    vars(one)["tota"], vars(other)["tota"] = 1.0, 2.0
    assert configuration_hash(one) != configuration_hash(other)


def test_a_used_scheduler_has_the_key_of_a_fresh_one() -> None:
    fresh, used = Entry.of(Rule(3, [1.0])), Rule(3, [1.0])
    used.use()
    assert key_of(**Entry.of(used).key_options) == key_of(**fresh.key_options)
    assert key_of(**Entry.of(Rule(4, [1.0])).key_options) != key_of(**fresh.key_options)


@pytest.mark.parametrize("name", ["fifo", "srtf", "tetris"])
def test_without_cached_values_it_is_the_hash_of_joblib(name: str) -> None:
    """Rows that were stored before are found again."""
    scheduler = make_scheduler(name)
    assert configuration_hash(scheduler) == joblib.hash(scheduler)


def test_what_a_scheduler_holds_is_hashed_as_joblib_does() -> None:
    """Some objects are pickled another way once their dictionary has been looked at."""
    every: tuple[object, ...] = (
        partial(max, 3),
        max,
        Weights.__init__,
        np.eye(2),
        [partial(min, 1), np.arange(3)],
    )
    for held in every:
        rule = Rule(3, [1.0])
        rule.nested = {"held": [held]}
        stored = joblib.hash(rule)
        assert configuration_hash(rule) == stored
        assert rule.threshold == 3.0
        assert configuration_hash(rule) == stored
