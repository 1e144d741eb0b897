"""Prices of large clusters from a sample of their hosts.

Prices hardly depend on how many hosts there are. A sample of whole domains, with its share of all
tasks, gives prices near the best of the whole cluster in a fraction of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from alloc.formulation import Array
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.pattern_master import generate
from alloc.solving.placement.patterns import Patterns
from alloc.solving.placement.tables import Ints

_SAMPLES = (40, 160)
"""Hosts in the first and in the second sample: the first takes a moment, the second begins near its
end."""
_WORTHWHILE = 2.5
"""A sample is worth its time on this many times its hosts: on fewer, all hosts take hardly
longer."""


def components(patterns: Patterns) -> Ints:
    """Return for each host the number of its component: hosts that share gangs are in one."""
    hosts = np.repeat(np.arange(patterns.num_hosts), [len(items) for items in patterns.local])
    items = np.concatenate([*patterns.local, np.zeros(0, dtype=np.int64)])
    size = patterns.num_hosts + patterns.num_items
    links = coo_array(
        (np.ones(len(hosts)), (hosts, patterns.num_hosts + items)), shape=(size, size)
    )
    labels = connected_components(links, directed=False)[1][: patterns.num_hosts]
    return np.asarray(np.unique(labels, return_inverse=True)[1].ravel(), dtype=np.int64)


def around(component: Ints, hosts: Ints, least: int, rng: np.random.Generator) -> Ints:
    """Return the whole domains of some hosts, and others by chance where they are few.

    Parameters
    ----------
    component
        Component of each host, as of `components`.
    hosts
        The hosts.
    least
        Number of hosts at least, where there are so many.
    rng
        Draws the others.
    """
    chosen = np.isin(component, component[hosts])
    others = rng.permutation(np.flatnonzero(~chosen))
    chosen[others[: max(least - int(chosen.sum()), 0)]] = True
    return np.flatnonzero(chosen)


def mixed_parts(
    component: Ints, host_cost: Array, size: int, rng: np.random.Generator
) -> list[Ints]:
    """Return all hosts in parts of about a size, each with full and with empty domains.

    Parameters
    ----------
    component
        Component of each host, as of `components`.
    host_cost
        Cost of each host.
    size
        Hosts in a part, about.
    rng
        Deals the components out.
    """
    number = math.ceil(len(component) / size)
    load = np.bincount(component, host_cost) / np.bincount(component)
    part = np.empty(len(load), dtype=np.int64)
    order = np.argsort(load, kind="stable")
    for first in range(0, len(order), number):
        some = order[first : first + number]
        part[some] = rng.permutation(number)[: len(some)]
    return [np.flatnonzero(part[component] == n) for n in range(number)]


def choose_sample(patterns: Patterns, size: int) -> Ints:
    """Return about `size` hosts in whole components, from the emptiest to the fullest ones.

    Parameters
    ----------
    patterns
        The program of all hosts.
    size
        Hosts wanted, at least 1; whole components may make it some more or fewer.
    """
    component = components(patterns)
    load = np.array([patterns.demand[tasks].sum() for tasks in patterns.now], dtype=float)
    load += patterns.base.sum(axis=1)
    number = np.bincount(component)
    order = np.lexsort((np.bincount(component, weights=load) / number, number > size))
    order = order[: int((number <= size).sum())]
    wanted = max(int(np.ceil(size / max(float(number[order].mean()), 1.0))), 1) if len(order) else 0
    picked = order[np.linspace(0, len(order) - 1, min(wanted, len(order))).round().astype(int)]
    chosen = np.flatnonzero(np.isin(component, picked))
    if len(chosen) >= min(size // 2, patterns.num_hosts):
        return chosen
    by_load = np.argsort(load, kind="stable")
    return np.sort(by_load[np.linspace(0, len(by_load) - 1, size).round().astype(int)])


def restrict(patterns: Patterns, hosts: Ints) -> Patterns:
    """Return the program of some hosts with their share of all tasks.

    Gangs whose domain is not wholly among the hosts count as tasks of their classes.

    Parameters
    ----------
    patterns
        The program of all hosts.
    hosts
        The hosts that are kept, each once.
    """
    p = patterns
    share = len(hosts) / p.num_hosts
    outside = np.ones(p.num_hosts, dtype=bool)
    outside[hosts] = False
    broken = np.zeros(p.num_items, dtype=bool)
    met = np.zeros(p.num_items, dtype=bool)
    for h in range(p.num_hosts):
        (broken if outside[h] else met)[p.local[h]] = True
    whole = met & ~broken
    plain = np.arange(p.num_items)
    for stay in p.stays:
        plain[stay.items] = np.where(whole[stay.items], stay.items, stay.classes)
    return replace(
        p,
        kind_of=p.kind_of[hosts],
        base=p.base[hosts],
        now=tuple(np.sort(plain[p.now[h]]) for h in hosts),
        local=tuple(p.local[h][whole[p.local[h]]] for h in hosts),
        least=p.least * share,
        most=p.most * share,
        stays=tuple(stay for stay in p.stays if whole[stay.items].all()),
        budget=p.budget * share,
        constant=0.0,
        elsewhere={},
    )


def sampled_prices(
    patterns: Patterns,
    clock: Clock,
    report: Callable[[str], None],
) -> tuple[Array, float]:
    """Return prices to start with, and the width of the box that they deserve.

    Parameters
    ----------
    patterns
        The program.
    clock
        Tells the seconds left.
    report
        Takes a line of progress.

    Raises
    ------
    OutOfTime
        If time is up.
    """
    prices, width = np.zeros(patterns.num_items), 0.2
    sizes = [size for size in _SAMPLES if _WORTHWHILE * size <= patterns.num_hosts]
    for size in sizes:
        sample = restrict(patterns, choose_sample(patterns, size))
        report(f"prices of a sample of {sample.num_hosts} hosts")
        found = generate(sample, prices, clock, report, width=width, tolerance=1e-3)
        prices, width = found.prices.copy(), 0.05
        held = {int(i) for stay in sample.stays for i in stay.items}
        for stay in patterns.stays:
            for i, c in zip(stay.items, stay.classes, strict=True):
                if int(i) not in held:
                    prices[i] = prices[c]
    return prices, width
