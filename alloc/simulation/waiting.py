"""Jobs of a stream that wait, by a rank that is known when they arrive."""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Sequence

import numpy as np

from alloc.problems.allocation.instance import Instance
from alloc.schedulers.edf import NO_DEADLINE, Edf
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.policy import Policy
from alloc.schedulers.srtf import Srtf
from alloc.verification.time import TIME_TOLERANCE_S


class ByRank:
    """Waiting jobs, the least rank first, and of equals the first to arrive.

    Jobs of one kind may run in the same ways. Where one of them does not fit none does, so a look
    at the first of each kind is enough.

    Parameters
    ----------
    rank
        Of each job, less than infinite.
    run_s
        How long each runs at its fastest, seconds; empty: no job is ever lost.
    limit_s
        Deadline of each, seconds, with what the checker forgives. Who cannot meet it any more, even
        if it starts now, is lost and comes last.
    """

    def __init__(
        self, rank: Sequence[float], run_s: Sequence[float] = (), limit_s: Sequence[float] = ()
    ) -> None:
        self._rank, self._run_s, self._limit_s = rank, run_s, limit_s
        self._queues: dict[int, list[tuple[float, int, int]]] = {}
        self._num_added = 0
        # Of the decision under way: the first job of each kind that may still fit, and its time.
        self._line: list[tuple[tuple[float, int, int], int]] = []
        self._now_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, kind: int, j: int) -> None:
        """Add a job of a kind.

        Parameters
        ----------
        kind
            Number of its kind.
        j
            Position of the job in the stream.
        """
        heapq.heappush(self._queues.setdefault(kind, []), (self._rank[j], self._num_added, j))
        self._num_added += 1

    def open(self, misfits: Container[int], now_s: float) -> None:
        """Begin a decision: line up the kinds that are no misfits, each by its first job.

        Parameters
        ----------
        misfits
            Kinds of which no job fits now.
        now_s
            Time, seconds.
        """
        # Each kind is looked at once a decision, for there may be as many kinds as jobs.
        if self._run_s:
            for kind, queue in self._queues.items():
                if kind not in misfits:
                    self._move_lost(queue, now_s)
        self._now_s = now_s
        queues = self._queues.items()
        self._line = [(queue[0], kind) for kind, queue in queues if kind not in misfits]
        heapq.heapify(self._line)

    def first(self) -> int:
        """Return the first job of the kinds lined up, or -1."""
        return self._line[0][0][2] if self._line else -1

    def take(self) -> None:
        """Take out the job that `first` returned."""
        kind = self._line[0][1]
        queue = self._queues[kind]
        heapq.heappop(queue)
        if not queue:
            del self._queues[kind]
            heapq.heappop(self._line)
            return
        if self._run_s:
            self._move_lost(queue, self._now_s)
        heapq.heapreplace(self._line, (queue[0], kind))

    def pass_over(self) -> None:
        """Leave out the kind of the job that `first` returned, for the rest of the decision."""
        heapq.heappop(self._line)

    def _move_lost(self, queue: list[tuple[float, int, int]], now_s: float) -> None:
        """Let jobs of one kind that are lost by now come last; those behind the first can wait."""
        rank, number, j = queue[0]
        while rank < math.inf and now_s + self._run_s[j] > self._limit_s[j]:
            heapq.heapreplace(queue, (math.inf, number, j))
            rank, number, j = queue[0]


def by_rank(policy: Policy, instance: Instance, shows_work: bool) -> ByRank | None:
    """Return the order in which a policy serves a stream, or None if it has none of this kind.

    Ranks are known at arrival where nobody is paused: what waits does not change.

    Parameters
    ----------
    policy
        Who decides: first come, first served, the shortest remaining time or the earliest deadline.
    instance
        The stream.
    shows_work
        Whether the policy sees work as it is.
    """
    if type(policy) is Fifo and policy.skip:
        return ByRank([0.0] * len(instance.jobs))
    if not policy.skip or not shows_work or any([job.preemptible for job in instance.jobs]):
        return None
    columns = instance.job_columns
    # As `LiveJob.show` and `remaining_time_s`, term by term.
    left = columns.work - (columns.work - columns.work_left)
    fastest = np.array([max([c.rate for c in table]) for table in columns.tables])
    run_s = left / fastest[columns.table]
    if type(policy) is Srtf:
        return ByRank((left / columns.work if policy.by == "fraction" else run_s).tolist())
    if type(policy) is not Edf or any([job.refusable for job in instance.jobs]):
        return None
    limit_s = columns.deadline_s
    rank = np.where(np.isinf(limit_s), NO_DEADLINE, limit_s)
    return ByRank(rank.tolist(), run_s.tolist(), (limit_s + TIME_TOLERANCE_S).tolist())
