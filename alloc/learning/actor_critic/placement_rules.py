"""Rules that place jobs under interference, and the exact optimum of a round."""

from __future__ import annotations

from functools import cache

import numpy as np

from alloc.learning.actor_critic.placement_world import Asked, Place, Value


def first_fit(asked: Asked) -> int:
    """Return the first host with room."""
    return int(asked.mask[:-1].argmax())


def best_fit(asked: Asked) -> int:
    """Return the host with room that has the most jobs."""
    return int(np.where(asked.mask[:-1], asked.on_host.sum(axis=1), -1).argmax())


def spread(asked: Asked) -> int:
    """Return the host that has the fewest jobs."""
    return int(asked.on_host.sum(axis=1).argmin())


def greedy(value: Value) -> Place:
    """Return what takes the best host for the next job alone, and waits if none gains anything."""

    def place(asked: Asked) -> int:
        gains = np.full(len(asked.mask), -np.inf)
        for h in np.flatnonzero(asked.mask[:-1]):
            before = asked.on_host[h]
            after = before + np.eye(len(before), dtype=np.int64)[asked.queue[0]]
            gains[h] = value(tuple(after.tolist())) - value(tuple(before.tolist()))
        if asked.mask[-1]:
            gains[-1] = 0.0
        return int(gains.argmax())

    return place


def best_round(asked: Asked, value: Value) -> tuple[float, tuple[tuple[int, ...], ...]]:
    """Return the most that a round can come to, and the jobs of each class that each host gets.

    Exact, by dynamic programming over the hosts: what is left to place is a number of jobs of
    each class. Jobs that lower the sum are left waiting.

    Parameters
    ----------
    asked
        What runs on the hosts, and the jobs to place.
    value
        What a host is worth by its jobs of each class.
    """
    classes, hosts = asked.on_host.shape[1], [tuple(row) for row in asked.on_host.tolist()]

    @cache
    def best(h: int, left: tuple[int, ...]) -> tuple[float, tuple[tuple[int, ...], ...]]:
        if h == len(hosts):
            return 0.0, ()
        top: tuple[float, tuple[tuple[int, ...], ...]] | None = None
        for given in _bundles(left, asked.most - sum(hosts[h])):
            rest, chosen = best(h + 1, tuple(a - b for a, b in zip(left, given, strict=True)))
            found = rest + value(tuple(a + b for a, b in zip(hosts[h], given, strict=True)))
            if top is None or found > top[0] + 1e-12:
                top = found, (given, *chosen)
        assert top is not None
        return top

    return best(0, tuple(np.bincount(asked.queue, minlength=classes).tolist()))


@cache
def _bundles(left: tuple[int, ...], room: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of jobs of each class of at most `room` in all."""
    if not left:
        return ((),)
    return tuple(
        (n, *rest)
        for n in range(min(left[0], max(room, 0)) + 1)
        for rest in _bundles(left[1:], room - n)
    )


def exact_rounds(value: Value) -> Place:
    """Return what places each round at its optimum; what comes later it does not know."""

    def place(asked: Asked) -> int:
        _, given = best_round(asked, value)
        for h, bundle in enumerate(given):
            if bundle[asked.queue[0]] and asked.mask[h]:
                return h
        return len(given) if asked.mask[-1] else spread(asked)

    return place
