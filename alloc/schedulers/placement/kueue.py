"""Kueue's topology-aware scheduling: how many tasks each domain gets, level by level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from alloc.problems.allocation.solution import TaskPlacement
from alloc.schedulers.placement.free_hosts import Counts, FreeHosts, Mask
from alloc.schedulers.placement.policy import PlacementPolicy, Request
from alloc.schedulers.placement.subsets import fewest_then_tightest
from alloc.schedulers.placement.tasks import domain_of, merge
from alloc.topology.topology import HOST
from alloc.workload import TaskGroup

Share = dict[int, int]
"""Tasks for domains of one level, by domain number."""


@dataclass(frozen=True)
class Tree:
    """How many tasks of a group fit into every domain, level by level.

    Parameters
    ----------
    levels
        Levels from the outside in; the last is ``"host"``.
    domain
        Domain number of each host at each level, shape (hosts,); hosts outside get numbers of
        their own.
    room
        Tasks that fit into each domain of each level, whole slices only.
    unit
        Tasks that go together at each level: the size of the coarsest slice whose level is this
        one or further in, else 1.
    cut
        Position of the level of the coarsest slices, or of the hosts: from there inwards the tasks
        of one domain stay apart from those of others.
    """

    levels: tuple[str, ...]
    domain: tuple[Counts, ...]
    room: tuple[Counts, ...]
    unit: tuple[int, ...]
    cut: int

    @staticmethod
    def of(free: FreeHosts, group: TaskGroup, request: Request, hosts: Mask | None = None) -> Tree:
        """Count how many tasks of a group fit where, with slices and limits on the spread.

        Parameters
        ----------
        free
            What is free on each host.
        group
            The tasks.
        request
            The gang that they are of, with its rules.
        hosts
            The hosts that may be used, shape (hosts,); None: all.
        """
        levels = (*free.topology.levels, HOST)
        ruled = group in request.configuration.ruled_groups
        slices = {cut.level: cut.size for cut in request.rules.slices} if ruled else {}
        limits = {limit.level: limit.most for limit in request.rules.spread} if ruled else {}
        room = free.room(group, request.configuration.gpu_type)
        if hosts is not None:
            room = np.where(hosts, room, 0)
        domain = [_numbered(domain_of(free, level)) for level in levels]
        rooms: list[Counts] = []
        units: list[int] = []
        unit = 1
        for k in range(len(levels) - 1, -1, -1):
            if k < len(levels) - 1:
                inner = room
                room = np.zeros(int(domain[k].max()) + 1, dtype=np.int64)
                np.add.at(room, _parents(domain[k], domain[k + 1]), inner)
            level = levels[k]
            if level in limits:
                room = np.minimum(room, limits[level])
            unit = slices.get(level, unit)
            room = room - room % unit
            rooms.insert(0, room)
            units.insert(0, unit)
        cut = min((levels.index(level) for level in slices), default=len(levels) - 1)
        return Tree(levels, tuple(domain), tuple(rooms), tuple(units), cut)

    def children(self, k: int, domains: Iterable[int]) -> Counts:
        """Return the domains of level k + 1 inside domains of level k, in order.

        Parameters
        ----------
        k
            Position of a level that is not the last.
        domains
            Numbers of domains of that level.
        """
        parents = _parents(self.domain[k], self.domain[k + 1])
        return np.flatnonzero(np.isin(parents, list(domains)))


def _parents(outer: Counts, inner: Counts) -> Counts:
    """Return the outer domain of each inner domain, given both for each host."""
    parents = np.zeros(int(inner.max()) + 1, dtype=np.int64)
    parents[inner] = outer
    return parents


def _numbered(domain: Counts) -> Counts:
    """Give hosts outside any domain numbers of their own."""
    outside = domain < 0
    numbers = domain.copy()
    numbers[outside] = int(domain.max()) + 1 + np.arange(int(outside.sum()))
    return numbers


def best_fit(room: Counts, domains: Counts, count: int) -> Share | None:
    """Deal tasks out to domains: the roomiest are filled, the last is the tightest that will do.

    Parameters
    ----------
    room
        Tasks that fit into each domain of the level.
    domains
        The domains to use.
    count
        Tasks to place.
    """
    left = sorted(domains.tolist(), key=lambda d: (-int(room[d]), d))
    share: Share = {}
    while count:
        if not left or room[left[0]] <= 0:
            return None
        if room[left[0]] >= count:
            last = min((d for d in left if room[d] >= count), key=lambda d: (int(room[d]), d))
            share[last] = count
            return share
        share[left[0]] = int(room[left[0]])
        count -= int(room[left[0]])
        left.pop(0)
    return share


def _least_free(room: Counts, domains: Counts, count: int) -> Share | None:
    """Deal tasks out to the domains with the least room first."""
    share: Share = {}
    for d in sorted(domains.tolist(), key=lambda d: (int(room[d]), d)):
        taken = min(count, int(room[d]))
        if taken:
            share[d] = taken
            count -= taken
    return None if count else share


class KueueBestFit(PlacementPolicy):
    """Give each domain a number of tasks, level by level, as Kueue's best-fit does.

    For each domain it is counted how many tasks (whole slices) fit. A job with a required or a
    preferred level goes to the domain of that level with the least room that holds it. If none
    does, a required level means no; a preferred one gives way to the next level outwards, and at
    the outermost the roomiest domains are filled one after the other, the last part going to the
    tightest domain that holds it. Inside what was chosen the same filling goes on level by level
    down to hosts, all chosen domains together down to the level of slices, one by one further in.
    A job without levels fills the hosts with the least room first.

    The groups of a configuration are placed one after the other, the largest first, inside the
    domain that the first went to when a level is required. Shares of GPUs go to the tightest GPU.

    References
    ----------
    Kueue's topology-aware scheduling (KEP-2724 and its documentation): BestFit, and
    LeastFreeCapacity for unconstrained jobs. Departures: more than two levels of slices nest;
    leaders are a group like others; no node replacement.
    """

    name = "kueue-best-fit"
    information = "free capacity by domain"

    def place(
        self, free: FreeHosts, request: Request, rng: np.random.Generator
    ) -> tuple[TaskPlacement, ...] | None:
        """Place a gang and take its capacity, or do nothing; see `PlacementPolicy.place`."""
        for level in (*request.required, *request.rules.levels):
            domain_of(free, level)  # names a level that there is not
        if (request.configuration.demand > free.in_all()).any():
            return None  # of what is the cluster's own, hosts by themselves do not tell
        groups = sorted(request.configuration.tasks, key=lambda g: g.demand, reverse=True)
        for home in self._homes(free, request, groups[0]):
            placed: list[tuple[int, TaskGroup, tuple[int, ...]]] = []
            for group in groups:
                shares = self.share_out(Tree.of(free, group, request, home), group.count, request)
                if shares is None:
                    break
                for h, count in shares.items():
                    placed += [(h, group, free.take(h, group)) for _ in range(count)]
            else:
                if _keeps_spread(free, request, placed):
                    return merge(free, placed)
            for h, group, gpus in reversed(placed):
                free.give(h, group, gpus)
        return None

    def _homes(self, free: FreeHosts, request: Request, group: TaskGroup) -> Iterator[Mask | None]:
        """Yield the domains of the required level, those that fit most tightly first."""
        if not request.required:
            yield None
            return
        tree = Tree.of(free, group, request)
        k = max(tree.levels.index(level) for level in request.required)
        for d in np.argsort(tree.room[k], kind="stable"):
            if tree.room[k][d] >= group.count:
                inside = tree.domain[k] == d
                # Hosts outside every domain of a level cannot stand in one.
                yield inside & (domain_of(free, tree.levels[k]) >= 0)

    def share_out(self, tree: Tree, count: int, request: Request) -> Share | None:
        """Return how many tasks each host gets, or None.

        Parameters
        ----------
        tree
            Room by domain, inside the required domain if there is one.
        count
            Tasks to place.
        request
            The job.
        """
        rules, last = request.rules, len(tree.levels) - 1
        preferred = rules.preferred
        if preferred is None and not (request.required or rules.slices or rules.spread):
            return _least_free(tree.room[last], np.arange(len(tree.room[last])), count)
        k = 0 if preferred is None else tree.levels.index(preferred)
        while k > 0 and not (tree.room[k] >= count).any():
            k -= 1
        return self._fill_down(tree, k, best_fit(tree.room[k], np.arange(len(tree.room[k])), count))

    def _fill_down(self, tree: Tree, k: int, share: Share | None) -> Share | None:
        """Return how many tasks each host gets, from the tasks of domains of level k."""
        while share is not None and k < len(tree.levels) - 1:
            room = tree.room[k + 1]
            if k < tree.cut and not _limited(tree, k, share):
                share = best_fit(room, tree.children(k, share), sum(share.values()))
            else:
                dealt = [best_fit(room, tree.children(k, (d,)), n) for d, n in share.items()]
                if any(part is None for part in dealt):
                    return None
                share = {d: n for part in dealt if part is not None for d, n in part.items()}
            k += 1
        return share


def _limited(tree: Tree, k: int, share: Share) -> bool:
    """Return whether what is inside domains exceeds what they may hold: then they stay apart."""
    inner = tree.room[k + 1]
    return any(int(inner[tree.children(k, (d,))].sum()) > int(tree.room[k][d]) for d in share)


def _keeps_spread(
    free: FreeHosts, request: Request, placed: Iterable[tuple[int, TaskGroup, tuple[int, ...]]]
) -> bool:
    """Return whether all groups together keep to the limits; each by itself does."""
    ruled = request.configuration.ruled_groups
    hosts = [h for h, group, _ in placed if group in ruled]
    for limit in request.rules.spread:
        domain = domain_of(free, limit.level)[hosts]
        if (np.bincount(domain[domain >= 0], minlength=1) > limit.most).any():
            return False
    return True


class KueueBalanced(KueueBestFit):
    """Spread a gang evenly over as few domains as possible, as Kueue's balanced placement does.

    For a job with a preferred level, in each domain one level further out: its children (those one
    level below the preferred one, if slices are finer) are filled greedily, which tells the number
    of domains needed and the threshold, the least of the tasks per domain if shared evenly and of
    the room of the last. Domains with less room than the threshold are dropped. The parent with the
    highest threshold wins, then the one that needs the fewest domains. In it the fewest domains
    with the least room in all are chosen; each gets the threshold, and the rest goes to the
    roomiest. Without a preferred level, or where no threshold above 0 is found, it is best-fit.

    References
    ----------
    Kueue's TASBalancedPlacement (alpha; KEP-2724). Departures as in `KueueBestFit`; ties between
    equal sets of domains go to the first domains.
    """

    name = "kueue-balanced"

    def share_out(self, tree: Tree, count: int, request: Request) -> Share | None:
        """Return how many tasks each host gets, or None."""
        preferred = request.rules.preferred
        if preferred is not None:
            share = self._balanced(tree, tree.levels.index(preferred), count)
            if share is not None:
                return share
        return super().share_out(tree, count, request)

    def _balanced(self, tree: Tree, k: int, count: int) -> Share | None:
        # One level below the preferred one, unless slices go no further.
        finer = k + 1 if k < tree.cut else k
        unit = tree.unit[finer]
        best: tuple[int, int, Counts] | None = None
        for siblings in self._families(tree, k):
            spread = siblings if finer == k else tree.children(k, siblings.tolist())
            found = _threshold(tree.room[finer][spread], count, unit)
            if found is None or (best is not None and found < best[0]):
                continue
            kept = spread[tree.room[finer][spread] >= found]
            needed = _needed(self._sums(tree, k, finer, siblings, kept), count)
            if needed and (best is None or (-found, needed) < (-best[0], best[1])):
                best = (found, needed, kept)
        if best is None:
            return None
        threshold, _, kept = best
        if finer > k:
            kept = self._tightest_parents(tree, k, kept, count)
        chosen = fewest_then_tightest(tree.room[finer][kept].tolist(), count)
        if chosen is None or count < len(chosen) * threshold:
            return None
        share = _level_out(tree.room[finer], kept[chosen], count, threshold, unit)
        return self._fill_down(tree, finer, share)

    def _families(self, tree: Tree, k: int) -> Iterator[Counts]:
        """Yield the domains of level k that lie in one domain further out."""
        if k == 0:
            yield np.arange(len(tree.room[0]))
            return
        for parent in range(len(tree.room[k - 1])):
            yield tree.children(k - 1, (parent,))

    def _sums(self, tree: Tree, k: int, finer: int, siblings: Counts, kept: Counts) -> Counts:
        """Return the room of the siblings when only the kept domains count."""
        if finer == k:
            return tree.room[k][kept]
        room = np.zeros(len(tree.room[k]), dtype=np.int64)
        np.add.at(room, _parents(tree.domain[k], tree.domain[finer])[kept], tree.room[finer][kept])
        return room[siblings]

    def _tightest_parents(self, tree: Tree, k: int, kept: Counts, count: int) -> Counts:
        """Return the kept domains inside the best choice of domains of level k."""
        parents = _parents(tree.domain[k], tree.domain[k + 1])[kept]
        names = np.unique(parents)
        sums = [int(tree.room[k + 1][kept[parents == d]].sum()) for d in names]
        chosen = fewest_then_tightest(sums, count)
        return kept if chosen is None else kept[np.isin(parents, names[chosen])]


def _needed(room: Counts, count: int) -> int:
    """Return how many domains it takes when the roomiest are filled first; 0 if all do not do."""
    total = np.cumsum(np.sort(room)[::-1])
    return int(np.searchsorted(total, count)) + 1 if total.size and total[-1] >= count else 0


def _threshold(room: Counts, count: int, unit: int) -> int | None:
    """Return the most tasks that every domain of the smallest set can have, or None."""
    needed = _needed(room, count)
    if not needed:
        return None
    even = count // unit // needed * unit
    found = min(even, int(np.sort(room)[::-1][needed - 1]))
    return found or None


def _level_out(
    room: Counts, domains: Counts, count: int, threshold: int, unit: int
) -> Share | None:
    """Give each domain the threshold and what remains to the roomiest first."""
    extra = count - len(domains) * threshold
    share: Share = {}
    for d in sorted(domains.tolist(), key=lambda d: (-int(room[d]), d)):
        more = min(extra, int(room[d]) - threshold)
        more -= more % unit
        share[d] = threshold + more
        extra -= more
    return None if extra else share
