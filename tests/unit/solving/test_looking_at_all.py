"""A tiny round by all joint choices: what plain enumeration finds, and what the search proves."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from alloc.instances import load
from alloc.models.round import RoundData, round_data
from alloc.solving.outcome import Settings
from alloc.solving.round import method
from alloc.solving.round.looking_at_all import MAX_CHOICES, best_of_all
from alloc.solving.round.method import optimise_round, price_bound

TINY = [f"elastic-tiny/0{k}" for k in range(1, 9)]


def drawn(seed: int) -> RoundData:
    """Return a round of a few classes with drawn utilities, uses and capacities."""
    rng = np.random.default_rng(seed)
    data = round_data(load("elastic-tiny/04"), "progress")
    width, rows = rng.integers(0, 4, rng.integers(1, 4)), len(data.rows.names)
    size = int(width.sum())
    return replace(
        data,
        jobs=(),
        members=tuple((k,) for k in range(len(width))),
        count=rng.integers(1, 3, len(width)),
        first=np.append(0, np.cumsum(width)),
        configuration=np.zeros(size, dtype=np.int64),
        # Equal ones are not rare, nor are those that gain nothing.
        utility=rng.integers(0, 5, size) / 3.0,
        use=rng.integers(0, 4, (size, rows)).astype(float),
        rows=replace(data.rows, capacity=rng.integers(0, 9, rows).astype(float)),
    )


def best_by_products(data: RoundData) -> float:
    """Return the largest utility, one joint choice after the other in plain Python."""
    jobs = [
        [None, *range(data.first[k], data.first[k + 1])]
        for k, count in enumerate(data.count)
        for _ in range(count)
    ]
    best = 0.0
    for choice in itertools.product(*jobs):
        taken = [column for column in choice if column is not None]
        if (data.use[taken].sum(axis=0) <= data.rows.capacity).all():
            best = max(best, float(data.utility[taken].sum()))
    return best


@pytest.mark.parametrize("seed", range(60))
def test_the_best_of_all_is_that_of_plain_enumeration(seed):
    data = drawn(seed)
    found = best_of_all(data)
    assert found is not None
    x, bound = found
    best = best_by_products(data)
    assert float(data.utility @ x) == pytest.approx(best, rel=1e-12, abs=1e-12)
    assert bound == pytest.approx(best, rel=1e-15, abs=1e-300)
    assert (x @ data.use <= data.rows.capacity).all()
    chosen = np.bincount(np.repeat(np.arange(len(data.count)), np.diff(data.first)), x, 3)
    assert (chosen[: len(data.count)] <= data.count).all()


@pytest.mark.parametrize("name", TINY)
def test_it_proves_what_the_search_proves(name, monkeypatch):
    """The same utility, and a bound that holds the gap, with no solver asked."""
    data = round_data(load(name), "progress")
    monkeypatch.setattr(method, "best_of_all", lambda data: None)
    searched = optimise_round(data, settings=Settings(60.0), prove=True)
    monkeypatch.undo()
    monkeypatch.setattr(method, "solve_small", None)
    seen = optimise_round(data, settings=Settings(60.0), prove=True)
    assert seen.value == pytest.approx(searched.value, rel=1e-9)
    assert seen.value <= seen.bound <= seen.value * (1 + 1e-9)
    assert seen.proof == "recomputed"
    assert seen.price_bound == pytest.approx(price_bound(data, seen.prices))


def test_more_choices_than_it_looks_at_are_left_to_the_search():
    """At the limit it looks at all, and one job more is too many; many equal jobs are, too."""
    data = round_data(load("elastic-tiny/04"), "progress")
    one = int(np.diff(data.first)[0]) + 1
    most = int(np.log(MAX_CHOICES) / np.log(one) + 1e-9)
    alike = replace(
        data,
        members=(tuple(range(most)),),
        count=np.array([most]),
        first=data.first[:2],
        configuration=data.configuration[: one - 1],
        utility=data.utility[: one - 1],
        use=data.use[: one - 1],
    )
    assert best_of_all(alike) is not None
    assert best_of_all(replace(alike, count=np.array([most + 1]))) is None
    assert best_of_all(replace(alike, count=np.array([10**6]))) is None
