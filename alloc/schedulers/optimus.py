"""Optimus: the task that saves the most remaining time, again and again."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from alloc.schedulers.ladder import SERVER, WORKER, TaskLadder
from alloc.schedulers.policy import Policy
from alloc.schedulers.published import Rules
from alloc.schedulers.round import Grant, Outcome, Round
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import JobView, Knowledge


class _Move(NamedTuple):
    """One more task, or one level more, and what it gains."""

    gain: float
    role: str | None
    count: int
    demand: tuple[int, ...]


class Optimus(Policy):
    """Give one worker or one PS at a time to the job whose remaining time it shortens most.

    The gain of a step from rate r to rate r' is left / r - left / r', with the remaining work and
    the rates as known. A job that has too few tasks to run gains without limit, so every job first
    gets its first worker and its first PS, in order of arrival; of a job's two roles the better is
    offered, PS on ties. Each task goes to the least loaded host. The first gain that is not above 0
    ends the round, and so does the first task that does not fit. Greedy by one step, so it stops at
    local optima of tables that are not concave.

    Other jobs climb their undominated configurations, ordered by demand.

    Parameters
    ----------
    per_dominant_resource
        Divide the gain by the step's dominant share (its largest fraction of a resource of the
        cluster), as Optimus does; the DL2 evaluation does not, and that is the default here.
    skip
        Leave out a job whose step does not fit and go on (departure: the published rule stops).
    rules
        ``dl2`` follows the rules of DL2's evaluation to the letter (`alloc.schedulers.published`),
        for comparisons with its code; ``alloc`` as far as they make sense on any cluster and table.
    max_tasks
        With the rules of DL2, most workers, and most PSs, of a job; None: as its table has.

    References
    ----------
    Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
    EuroSys 2018, section 4.1; as in the evaluation of DL2 (Peng et al., IEEE TPDS 2021, and its
    released code). Departures: it is given the rates and does not learn them; pairs outside a job's
    table, or in it with rate 0, cannot be reached and are stepped over (there the table is
    extrapolated, and a job whose better role is at its limit is left out); ties go to the order of
    the instance. Original Optimus divides by the amount of the dominant resource, which orders
    steps alike as long as they share that resource.
    """

    name = "optimus"
    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations"

    def __init__(
        self,
        *,
        per_dominant_resource: bool = False,
        skip: bool = False,
        rules: Rules = "alloc",
        max_tasks: int | None = None,
    ) -> None:
        departures = {"per_dominant_resource": per_dominant_resource, "skip": skip}
        super().__init__(rules, max_tasks, departures)
        self._per_dominant_resource = per_dominant_resource
        self._skip = skip

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        total = [int(amount) for amount in round_.state.topology.totals]
        heap: list[tuple[float, int, _Move]] = []

        def best(view: JobView) -> tuple[float, _Move] | None:
            moves = _moves(round_, view)
            if not moves:
                return None
            # The first of equals: moves come with the PS before the worker.
            return max([(self._worth(move, total), move) for move in moves], key=_value)

        def serve(view: JobView, move: _Move) -> Outcome:
            if move.role is None:
                return round_.step(view)
            return round_.step_task(view, move.role, move.count)

        for k, view in enumerate(competing):
            # Steps without limit come first, job after job.
            while (offer := best(view)) is not None and offer[0] == math.inf:
                outcome = serve(view, offer[1])
                if outcome is Outcome.MISFIT and not self._skip:
                    return
                if outcome is not Outcome.GRANTED:
                    offer = None
                    break
            if offer is not None:
                heap.append((-offer[0], k, offer[1]))
        heapq.heapify(heap)
        while heap:
            loss, k, move = heapq.heappop(heap)
            if loss >= 0:
                break
            outcome = serve(competing[k], move)
            if outcome is Outcome.MISFIT and not self._skip:
                break
            if outcome is Outcome.GRANTED and (offer := best(competing[k])) is not None:
                heapq.heappush(heap, (-offer[0], k, offer[1]))

    def _worth(self, move: _Move, total: Sequence[int]) -> float:
        """Return the gain of a step, per dominant share if so wanted."""
        if not self._per_dominant_resource or not 0 < move.gain < math.inf:
            return move.gain
        share = max(d / t for d, t in zip(move.demand, total, strict=True) if t)
        return move.gain / share if share > 0 else math.inf


def _value(offer: tuple[float, _Move]) -> float:
    return offer[0]


def _moves(round_: Round, view: JobView) -> list[_Move]:
    """Return the steps that a job can take, none at its top."""
    grant = round_.grant_of(view)
    if isinstance(grant.ladder, TaskLadder):
        moves = _task_moves(grant, grant.ladder)
        if view.tenant not in round_.state.quotas:
            return moves
        return [move for move in moves if round_.allows(view, move.demand[0])]
    level = round_.next_level(view)
    if level is None:
        return []
    rate = max(view.configurations[c].rate for c in level.configurations)
    demand = tuple(a - b for a, b in zip(level.demand, grant.demand, strict=True))
    return [_Move(_gain(grant, grant.rate, rate), None, 1, demand)]


def _task_moves(grant: Grant, ladder: TaskLadder) -> list[_Move]:
    """Return one more PS and one more worker, as far as the job's table goes."""
    workers, servers = grant.workers, grant.servers
    reached = ladder.index.get((workers, servers))
    if reached is None:
        # On the way to the first pair of the table; for DL2's tables that is one of each.
        if workers < ladder.first[0]:
            return [_Move(math.inf, WORKER, 1, ladder.worker)]
        return [_Move(math.inf, SERVER, 1, ladder.server)]
    table = grant.view.configurations
    now, moves = table[reached].rate, []
    more_servers = ladder.next_servers(workers, servers)
    if more_servers is not None:
        gain = _gain(grant, now, table[ladder.index[workers, more_servers]].rate)
        count = more_servers - servers
        moves.append(_Move(gain, SERVER, count, _times(ladder.server, count)))
    more_workers = ladder.next_workers(workers, servers)
    if more_workers is not None:
        gain = _gain(grant, now, table[ladder.index[more_workers, servers]].rate)
        count = more_workers - workers
        moves.append(_Move(gain, WORKER, count, _times(ladder.worker, count)))
    return moves


def _times(demand: tuple[int, ...], count: int) -> tuple[int, ...]:
    return demand if count == 1 else tuple([amount * count for amount in demand])


def _gain(grant: Grant, now: float, then: float) -> float:
    """Return the remaining time that a step from one rate to another saves, seconds."""
    if now <= 0:
        return math.inf
    left = work_of(grant.view)[1]
    return left / now - left / then
