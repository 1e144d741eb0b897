"""Tetris: packing by the alignment of what is asked for with what is free."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from alloc.schedulers.grant import BUNDLE, Outcome
from alloc.schedulers.ladder import TaskLadder
from alloc.schedulers.least_loaded import HostState
from alloc.schedulers.policy import Policy
from alloc.schedulers.published import Rules
from alloc.schedulers.round import Round
from alloc.schedulers.srtf import remaining_fraction
from alloc.schedulers.state import JobView, Knowledge

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class _Ranking:
    """Jobs by their scores on a host in some state, the best first, ties to the first job."""

    def __init__(self, scores: Array) -> None:
        self._order: list[int] = np.argsort(-scores, kind="stable").tolist()
        self._start = 0

    def first(self, open_: bytearray, tried: Collection[int]) -> int | None:
        """Return the first job that is open and was not tried, or None.

        A job that is not open stays so: those at the front are not looked at again.
        """
        order = self._order
        while self._start < len(order) and not open_[order[self._start]]:
            self._start += 1
        for position in range(self._start, len(order)):
            k = order[position]
            if open_[k] and k not in tried:
                return k
        return None


class _Filling:
    """How a host was filled.

    Attributes
    ----------
    granted
        The jobs that were given bundles, and how many.
    looked_at
        The jobs that were looked at, also in vain.
    then
        The state of the host in the end.
    """

    __slots__ = ("granted", "looked_at", "then")

    def __init__(self, then: HostState) -> None:
        self.granted: dict[int, int] = {}
        self.looked_at: list[int] = []
        self.then = then

    def repeats(
        self, open_: bytearray, given: Mapping[int, list[int]], ladders: Sequence[TaskLadder]
    ) -> int:
        """Return how many hosts more are filled like this: jobs that are open stay open."""
        if not all([open_[k] for k in self.looked_at]):
            return 0
        return min(
            [
                (ladders[k].pairs[-1] - 1 - len(given[k])) // count
                for k, count in self.granted.items()
            ],
            default=sys.maxsize,
        )


class Tetris(Policy):
    """Fill host after host, each time with the bundle that scores best there.

    On a host with free fraction f_r of each resource r, a job whose bundle (one worker and one PS)
    needs the fraction d_r has the alignment a = sum_r f_r d_r and the remaining work
    p = (sum_r d_r) * (remaining fraction). The score is a + e p with e the mean of a over the mean
    of p, both over all jobs in the system. The job with the highest score that is below the top of
    its table gets a bundle here, and all is worked out again; when it does not fit, the next host
    is taken. Ties go to the first job.

    Gangs are scored in the same way against the free fractions of the whole cluster, one level at a
    time, after the parameter-server jobs; the first that does not fit ends the round.

    Parameters
    ----------
    shortest_first
        Score a - e p instead of a + e p. Tetris means to prefer *short* remaining work; the DL2
        evaluation adds where Tetris subtracts, which prefers long work, and that is the default
        here.
    skip
        Try the next best job on a host when the best does not fit (departure: the published rule
        goes to the next host).
    rules
        ``dl2`` follows the rules of DL2's evaluation to the letter (`alloc.schedulers.published`),
        for comparisons with its code; ``alloc`` as far as they make sense on any cluster and table.
    max_tasks
        With the rules of DL2, most workers, and most PSs, of a job; None: as its table has.

    References
    ----------
    Grandl et al., "Multi-resource Packing for Cluster Schedulers", SIGCOMM 2014; per host and with
    its sign as in the evaluation of DL2 (Peng et al., IEEE TPDS 2021, and its released code).
    Departures: free and asked-for amounts are fractions of the host (there: slots of hosts with 8
    of each resource, which scales all scores alike); bundles that lead to no pair of a job's table
    are taken back in the end.
    """

    name = "tetris"
    needs: Knowledge = "estimate"
    information = "demands and remaining work"

    def __init__(
        self,
        *,
        shortest_first: bool = False,
        skip: bool = False,
        rules: Rules = "alloc",
        max_tasks: int | None = None,
    ) -> None:
        super().__init__(rules, max_tasks, {"shortest_first": shortest_first, "skip": skip})
        self._sign = -1.0 if shortest_first else 1.0
        self._skip = skip

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        ladders = self._memory.ladders(competing, round_.state.topology)
        by_task, gangs = [*zip(competing, ladders, strict=True)], []
        if {*map(type, ladders)} - {TaskLadder}:
            gangs = [view for view, ladder in by_task if not isinstance(ladder, TaskLadder)]
            by_task = [one for one in by_task if isinstance(one[1], TaskLadder)]
        if len(by_task) < len(competing) or round_.state.quotas or round_.is_watched:
            for view in competing:  # those who get nothing count for the order of all
                round_.grant_of(view)
        if by_task:
            self._fill_hosts(round_, cast("list[tuple[JobView, TaskLadder]]", by_task))
        if gangs:
            self._fill_cluster(round_, gangs)

    def _fill_hosts(self, round_: Round, jobs: Sequence[tuple[JobView, TaskLadder]]) -> None:
        """Give bundles to parameter-server jobs, host by host."""
        capacity = np.maximum(round_.state.topology.capacity, 1)
        views, ladders = [view for view, _ in jobs], [ladder for _, ladder in jobs]
        hosts, quotas = round_.hosts, round_.state.quotas
        bundles = _bundles(ladders)
        fractions = _fractions(views)
        open_ = bytearray(round_.allows_bundle(view) if quotas else True for view in views)
        num_open = sum(open_)
        # Of jobs that were given something, the hosts of their bundles one by one.
        given: dict[int, list[int]] = {}
        others = round_.pool.free  # what is free of resources that no bundle asks for
        # Scores depend on the host's state alone. Where one comes a second time, jobs are ranked.
        rankings: dict[HostState, _Ranking | None] = {}
        # How the last host in a state was filled: so are the next, until a job comes to its top.
        fillings: dict[HostState, _Filling] = {}
        is_plain = not quotas and not round_.is_watched
        position, num_hosts = -1, len(capacity)
        while (position := position + 1) < num_hosts:
            h = position
            before = state = hosts.state(h)
            if before in fillings:
                filling = fillings[before]
                limit = min(num_hosts, h + filling.repeats(open_, given, ladders))
                while position < limit and hosts.state(position) is before:
                    position += 1
                if position > h:
                    for job, count in filling.granted.items():
                        given[job] += [host for host in range(h, position) for _ in range(count)]
                    if filling.granted:
                        for host in range(h, position):
                            hosts.enter(host, filling.then)
                    position -= 1
                    continue
            tried: set[int] = set()
            filling = _Filling(state)
            while num_open:
                ranking = rankings.get(state)
                if ranking is not None:
                    k = ranking.first(open_, tried)
                else:
                    free = others[h].astype(float)
                    free[: len(state.free)] = state.free
                    free /= capacity[h]
                    scores = self._scores(bundles / capacity[h], free, fractions)
                    if scores is None:
                        rankings[state] = _Ranking(np.empty(0))  # nobody, ever
                        break
                    if state in rankings:
                        rankings[state] = _Ranking(scores)
                    else:
                        rankings[state] = None
                    able = np.frombuffer(open_, dtype=bool).copy()
                    able[list(tried)] = False
                    scores[~able] = -np.inf
                    k = int(scores.argmax()) if able.any() else None
                if k is None:
                    break
                filling.looked_at.append(k)
                if quotas:
                    if round_.give_on(views[k], h):  # the others of its tenant may now be over
                        before = state = hosts.state(h)
                        open_[:] = bytes(round_.allows_bundle(view) for view in views)
                        num_open = sum(open_)
                        continue
                elif (after := hosts.after(state, ladders[k].bundle)) is not None:
                    state = after
                    its = given.setdefault(k, [])
                    its.append(h)
                    filling.granted[k] = filling.granted.get(k, 0) + 1
                    if round_.is_watched:
                        round_.enter(round_.grant_of(views[k]), (h,), BUNDLE)
                    if len(its) >= ladders[k].pairs[-1]:
                        open_[k] = False
                        num_open -= 1
                    continue
                if not self._skip:
                    break
                tried.add(k)
            if is_plain:
                filling.then = state
                fillings[before] = filling
            if state is not before:
                hosts.enter(h, state)
        for k in () if round_.is_watched else sorted(given):
            round_.enter(round_.grant_of(views[k]), given[k], BUNDLE)
        round_.trim()

    def _fill_cluster(self, round_: Round, views: Sequence[JobView]) -> None:
        """Give gangs, against the free fractions of the whole cluster."""
        capacity = np.maximum(round_.state.topology.totals, 1)
        fractions = _fractions(views)
        open_ = np.ones(len(views), dtype=bool)
        while open_.any():
            steps = np.array([round_.next_demand(view) for view in views], dtype=float)
            free = round_.pool.free_in_all() / capacity
            scores = self._scores(steps / capacity, free, fractions)
            if scores is None:
                # Nothing that is asked for is free; what asks for nothing may still run.
                scores = np.zeros(len(views))
            scores[~open_] = -np.inf
            k = int(scores.argmax())
            outcome = round_.step(views[k])
            if outcome is Outcome.MISFIT and not self._skip:
                return
            if outcome is not Outcome.GRANTED:
                open_[k] = False

    def _scores(self, demands: Array, free: Array, fractions: Array) -> Array | None:
        """Return the scores, shape (jobs,), or None if nothing aligns with what is free."""
        alignment = demands @ free
        remaining = demands.sum(axis=1) * fractions
        mean_remaining = remaining.mean()
        weight = alignment.mean() / mean_remaining if mean_remaining > 0 else 0.0
        if weight == 0:
            return None
        return np.asarray(alignment + self._sign * weight * remaining)


def _fractions(views: Sequence[JobView]) -> Array:
    """Return the remaining fractions of the work of jobs, as known."""
    work, left = ([getattr(view, name) for view in views] for name in ("work", "work_left"))
    if None in work or None in left:
        return np.array([remaining_fraction(view) for view in views])  # which says what is missing
    fractions: Array = np.array(left) / np.array(work)
    return fractions


def _bundles(ladders: Sequence[TaskLadder]) -> Array:
    """Return the bundles of jobs as an array; a ladder that many share is looked at once."""
    position: dict[int, int] = {}
    rows = [position.setdefault(id(ladder), len(position)) for ladder in ladders]
    own = {id(ladder): ladder for ladder in ladders}
    bundles: Array = np.array([own[key].bundle for key in position], dtype=float)
    return bundles[rows]
