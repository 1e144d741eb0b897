"""Ladders side by side: the same whatever was seen before, and cheap where only rates are new."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from alloc.schedulers.learned import job_set_ladders
from alloc.schedulers.learned.job_set_ladders import LadderBook
from alloc.topology import HostType
from alloc.topology.topology import flat_cluster
from alloc.workload import Configuration, TaskGroup

TOPOLOGY = flat_cluster("hosts", HostType("host", 4, "generic", cpu_milli=16_000), 3)


def shape(rng: np.random.Generator) -> tuple[Configuration, ...]:
    """Configurations of workers and servers, of which some fit nowhere."""
    return tuple(
        Configuration(
            (
                TaskGroup("worker", int(rng.integers(1, 5)), 1000 * int(rng.integers(1, 6)), 500),
                TaskGroup("ps", int(rng.integers(1, 4)), 0, 1000 * int(rng.integers(1, 9))),
            ),
            1.0,
        )
        for _ in range(9)
    )


def looks(rng: np.random.Generator) -> list[Any]:
    """Jobs of two shapes at one look: rates of their own, a few of them 0 or equal."""
    return [
        SimpleNamespace(
            configurations=tuple(
                replace(way, rate=float(rng.choice([0.0, 1.0, 1.0, rng.uniform(0.5, 2.0)])))
                for way in table
            ),
            elasticity="malleable",
            bound_to=bound,
        )
        for table in (SHAPES[0], SHAPES[1], SHAPES[0])
        for bound in (None, 2)
    ]


SHAPES = [shape(np.random.default_rng(k)) for k in range(2)]


@pytest.mark.parametrize("seed", range(20))
def test_a_ladder_is_the_undominated_ways_by_share_whatever_was_seen_before(seed):
    rng = np.random.default_rng(seed)
    book = LadderBook(TOPOLOGY)
    total = TOPOLOGY.capacity.sum(axis=0)
    for _ in range(4):
        views = looks(rng)
        tables = book.tables_of(views)
        assert len(book.ladders) <= 2 * len(views)
        for view, t in zip(views, tables, strict=True):
            ladder, ways = book.ladders[t], view.configurations
            if view.bound_to is not None:
                assert ladder.positions == (view.bound_to,)
            else:
                able = [c for c, way in enumerate(ways) if way.rate > 0 and book._fits(way)]
                best = {c for c in able if not any(better(ways[d], d, ways[c], c) for d in able)}
                assert set(ladder.positions) == best
            chosen = [ways[c] for c in ladder.positions]
            assert ladder.rate.tolist() == [way.rate for way in chosen]
            assert ladder.demand.tolist() == [list(way.demand) for way in chosen]
            dominant = (ladder.demand / np.maximum(total, 1)).max(axis=1)
            assert (np.diff(dominant) >= 0).all()
            for k, kind in enumerate(book.kinds):
                counts = [
                    sum(g.count for g in way.tasks if (g.role, g.demand) == kind) for way in chosen
                ]
                assert book.counts[k, t, : len(chosen)].tolist() == counts


def better(way: Configuration, d: int, other: Configuration, c: int) -> bool:
    """Whether a configuration dominates another: no dearer in anything, and faster or cheaper."""
    dear, others = (burden(w) for w in (way, other))
    if d == c or any(x > y for x, y in zip(dear, others, strict=True)):
        return False
    return way.rate > other.rate or (way.rate == other.rate and (dear != others or d < c))


def burden(way: Configuration) -> tuple[int, ...]:
    largest = tuple(max(g.demand[r] for g in way.tasks) for r in range(len(way.demand)))
    return (*way.demand, *largest)


def test_what_tables_share_is_worked_out_once_though_all_rates_are_new(monkeypatch):
    compared = []
    use_order = job_set_ladders.use_order  # type: ignore[attr-defined]
    monkeypatch.setattr(
        job_set_ladders, "use_order", lambda use: compared.append(1) or use_order(use)
    )
    rng, book = np.random.default_rng(0), LadderBook(TOPOLOGY)
    for _ in range(10):
        book.tables_of(looks(rng))
    assert len(compared) == len(SHAPES)
