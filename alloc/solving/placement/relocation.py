"""Whole gangs to other domains: a linear program decides them one after the other.

Exchanges and dives leave a gang in the domain that must hold it together. Here gangs that would
gain by leaving get some more domains to choose from. The linear program over host patterns, in
which each must stand in one, is solved again and again; each time the gangs that it is surest of
are decided. A dive from there makes room for those that leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, csr_array

from alloc.errors import OutOfTime
from alloc.formulation import Array
from alloc.models.placement.data import PlacementData
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.guided import Guide
from alloc.solving.placement.pattern_master import Columns, Generated, generate
from alloc.solving.placement.patterns import Stay
from alloc.solving.placement.relaxation import Relaxation, Weights, relax
from alloc.solving.placement.terms import Counts

_GANGS = 60
"""Most gangs that get other domains to choose from, those that gain most: each has items of its own
in each of these domains, which all have to be priced."""
_WAYS = 180
"""Other domains of all gangs together: each makes the linear program larger."""
_SURE = 0.97
"""Share in the linear program from which a gang counts as decided: few of these would turn out
else."""
_BATCH = 2
"""Of the undecided gangs, one in so many is decided in a round: their number halves with each."""
_TOLERANCE = 3e-3
"""Relative precision of the linear programs between: they only say which domain is better."""


@dataclass(frozen=True)
class Relocation:
    """Gangs in other domains.

    Parameters
    ----------
    counts
        Where tasks stand, shape (groups, hosts); hosts may be over-full.
    relaxation, generated
        Patterns in which the gangs may stand there, and their prices.
    number
        Gangs that have moved.
    """

    counts: csr_array
    relaxation: Relaxation
    generated: Generated
    number: int


def relocate(
    data: PlacementData,
    weights: Weights,
    guide: Guide,
    counts: csr_array,
    clock: Clock,
    report: Callable[[str], None],
    leaving: Collection[int],
) -> Relocation | None:
    """Return gangs in domains that they prefer, or None if all stay.

    Parameters
    ----------
    data
        The numbers of the instance.
    weights
        The goal.
    guide
        Prices and patterns of the placement of now, after a dive.
    counts
        Where tasks stand, shape (groups, hosts).
    clock
        Tells the seconds left.
    report
        Takes a line of progress.
    leaving
        Gangs that may leave: those that the bound lets leave at least in part.

    Raises
    ------
    OutOfTime
        If there is no time to decide them all.
    """
    here = _domains_now(data, guide.relaxation, counts)
    others = _choices(data, guide, here, leaving)
    if not others:
        return None
    wider = relax(data, weights, {j: [r, *others.get(j, ())] for j, r in here.items()})
    known = guide.known(np.arange(guide.patterns.num_hosts))
    prices, known = _carried(guide.relaxation, guide.prices, known, wider)
    together = frozenset(stay.gang for stay in wider.patterns.stays)
    program = replace(wider.patterns, together=together)
    while True:
        found = generate(
            program, prices, clock, lambda _: None, width=0.05, tolerance=_TOLERANCE, known=known
        )
        if found.stopped:
            raise OutOfTime
        stays = _decided(program.stays, found.stays)
        if stays is None:
            break
        program, prices, known = replace(program, stays=stays), found.prices, found.columns
    report(f"gangs in the domains they prefer: {found.value:.4f} by linear programming")
    domain_of = {item: r for (_, r), item in wider.local_of.items()}
    target = {stay.gang: domain_of[int(stay.items[0])] for stay in program.stays}
    target = {j: r for j, r in target.items() if here.get(j, r) != r}
    if not target:
        return None
    narrow = relax(data, weights, {j: [target.get(j, r)] for j, r in here.items()})
    prices, known = _carried(wider, found.prices, found.columns, narrow)
    generated = replace(found, prices=prices, columns=known, share=np.zeros(0))
    return Relocation(_moved(data, wider, counts, target), narrow, generated, len(target))


def _decided(stays: tuple[Stay, ...], share: Array) -> tuple[Stay, ...] | None:
    """Return the ways that are left to stand when the surest gangs are decided, None if all are."""
    ways = Counter(stay.gang for stay in stays)
    chosen: dict[int, int] = {}
    least = -(-sum(number > 1 for number in ways.values()) // _BATCH)
    for n in np.argsort(-share, kind="stable").tolist():
        gang = stays[n].gang
        if ways[gang] > 1 and gang not in chosen and (share[n] > _SURE or len(chosen) < least):
            chosen[gang] = n
    if not chosen:
        return None
    return tuple(stay for n, stay in enumerate(stays) if chosen.get(stay.gang, n) == n)


def _domains_now(data: PlacementData, relaxation: Relaxation, counts: csr_array) -> dict[int, int]:
    """Return the domain in which each gang stands that patterns hold together."""
    here: dict[int, int] = {}
    for k, domain in relaxation.domain_of.items():
        hosts = counts.indices[counts.indptr[k] : counts.indptr[k + 1]]
        if len(hosts):
            here[int(data.job_of[k])] = int(domain[hosts[0]])
    return here


def _choices(
    data: PlacementData, guide: Guide, here: dict[int, int], leaving: Collection[int]
) -> dict[int, list[int]]:
    """Return other domains for the gangs that gain most by leaving theirs: the cheapest, at random.

    A gang gains what its tasks cost where they must stand, less what they cost anywhere.
    """
    relaxation, prices = guide.relaxation, guide.prices
    gains: dict[int, float] = {}
    domain_of: dict[int, Counts] = {}
    for k, domain in relaxation.domain_of.items():
        j = int(data.job_of[k])
        item = relaxation.local_of.get((k, here.get(j, -1)))
        if item is not None:
            worth = float(prices[item] - prices[relaxation.class_of[k]])
            gains[j] = gains.get(j, 0.0) + int(data.count[k]) * worth
            domain_of[j] = domain
    order = sorted((j for j in gains if j in leaving), key=lambda j: -gains[j])[:_GANGS]
    most = _WAYS // max(len(order), 1)
    chosen: dict[int, list[int]] = {}
    for j in order:
        domain = domain_of[j]
        inside = domain >= 0
        number = np.maximum(np.bincount(domain[inside]), 1)
        cost = np.bincount(domain[inside], guide.state.host_cost[inside]) / number
        cheapest = np.argsort(cost, kind="stable")[: max(len(cost) // 2, most + 1)]
        some = guide.rng.permutation(cheapest[cheapest != here[j]])[:most]
        chosen[j] = some.tolist()
    return chosen


def _carried(
    old: Relaxation, prices: Array, known: Columns, new: Relaxation
) -> tuple[Array, Columns]:
    """Return prices and patterns of one program in terms of another's items."""
    num_classes = int(old.class_of.max(initial=-1)) + 1
    target = np.full(old.patterns.num_items, -1, dtype=np.int64)
    target[:num_classes] = np.arange(num_classes)
    for key, item in old.local_of.items():
        target[item] = new.local_of.get(key, -1)
    kept = np.flatnonzero(target >= 0)
    carried = np.zeros(new.patterns.num_items)
    for (k, _), item in new.local_of.items():
        carried[item] = prices[new.class_of[k]]
    carried[target[kept]] = prices[kept]
    whole = (known.counts[:, target < 0] == 0).all(axis=1)
    counts = np.zeros((int(whole.sum()), len(carried)), dtype=np.int16)
    counts[:, target[kept]] = known.counts[whole][:, kept]
    return carried, Columns(known.host[whole], counts, known.cost[whole], known.moved[whole])


def _moved(
    data: PlacementData, relaxation: Relaxation, counts: csr_array, leaving: dict[int, int]
) -> csr_array:
    """Return counts with gangs dealt out in turn over the hosts that admit them elsewhere."""
    entries = counts.tocoo()
    rows, columns, numbers = [], [], []
    gone = np.zeros(len(data.groups), dtype=bool)
    for k, domain in relaxation.domain_of.items():
        j = int(data.job_of[k])
        if j in leaving:
            gone[k] = True
            hosts = np.flatnonzero((domain == leaving[j]) & data.allowed[k])
            tasks = int(counts.data[counts.indptr[k] : counts.indptr[k + 1]].sum())
            rows.append(np.full(tasks, k))
            columns.append(np.resize(hosts, tasks))
            numbers.append(np.ones(tasks, dtype=np.int64))
    stays = ~gone[entries.row]
    index = (
        np.concatenate([entries.row[stays], *rows]),
        np.concatenate([entries.col[stays], *columns]),
    )
    made = coo_array((np.concatenate([entries.data[stays], *numbers]), index), shape=counts.shape)
    return csr_array(made.tocsr())
