"""MLFS: the heuristic scheduler of MLFS, without what needs the loss curve of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from alloc.schedulers.edf import Edf
from alloc.schedulers.policy import serve
from alloc.schedulers.round import Round
from alloc.schedulers.srtf import remaining_time_s, work_of
from alloc.schedulers.state import ClusterState, Decision, JobView
from alloc.verification.time import TIME_TOLERANCE_S

_MODEL = 1 / 2
"""Part of the model in the whole priority: neither it nor the cluster counts for more."""
_DEADLINE, _REMAINING, _WAITING = 1 / 3, 1 / 3, 1 / 3
"""Parts of deadline, remaining time and waiting in that of the cluster: all alike."""


class Mlfs(Edf):
    """Serve the job of highest priority first: weight, progress, deadline, little left, long waits.

    The priority has two parts. That of the model is the weight of the job, in units of the largest
    in the queue, times the fraction of its work that is left: a model gains most at first. That of
    the cluster is the mean of its fastest run time over the time to its deadline, of the shortest
    run time in the queue over its own, and of the time it has waited over that and its run time.
    Jobs are served in this order, and paused and moved for those with more. Each gets the fewest
    GPUs with which it still meets its deadline, without one the size of least GPU time; then, in
    the same order, as much as it can use of what is left. A job that can no longer meet its
    deadline comes last; one of these that may be refused and has never run is refused, which stands
    for the paper's early stop.

    References
    ----------
    Wang, Liu, Shen, "Job scheduling for large-scale machine learning clusters", CoNEXT 2020, and
    its extension in IEEE/ACM ToN 2023: the heuristic MLF-H with its load control. Departures: the
    loss of an iteration is not known to an instance, so that progress stands for it, and no job
    ends before its work is done; jobs and not tasks are ranked, since all tasks of a gang run at
    once; sizes are chosen here and by the user there; no host is ever overloaded, so that jobs move
    only when they resume; the parts of the priority are without unit and weigh the same.
    """

    name = "mlfs"
    information = "deadline, remaining work, progress, waiting time and weight"

    def __init__(self) -> None:
        super().__init__()
        self._heaviest = self._shortest_s = 1.0

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        self._heaviest = max((view.weight for view in state.jobs), default=1.0)
        self._shortest_s = min(map(remaining_time_s, state.jobs), default=1.0)
        return super().decide(state)

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        order = sorted(competing, key=lambda view: (self._rank(view), view.in_order))
        for view in order:
            asked = self._asked(view)
            if asked is not None:
                round_.give(view, asked)
        serve(round_, order, skip=True)

    def _asked(self, view: JobView) -> int | None:
        """Return the smallest configuration that is in time, None for a job that is lost."""
        if view.bound_to is not None:
            return None if self._is_lost(view) else view.bound_to
        ways = view.configurations
        useful = [c for c, way in enumerate(ways) if way.rate > 0]
        if view.deadline_s is None:
            return min(useful, key=lambda c: ways[c].demand[0] / ways[c].rate)
        left, time_s = work_of(view)[1], view.deadline_s - self._now_s + TIME_TOLERANCE_S
        in_time = [c for c in useful if left <= time_s * ways[c].rate]
        return min(in_time, key=lambda c: (ways[c].demand[0], -ways[c].rate), default=None)

    def _rank(self, view: JobView) -> float:
        if self._is_lost(view):
            return math.inf
        work, left = work_of(view)
        model = view.weight / self._heaviest * min(left / work, 1.0)
        run_s = remaining_time_s(view)
        urgency = 0.0
        if view.deadline_s is not None:
            urgency = min(run_s / max(view.deadline_s - self._now_s, run_s), 1.0)
        waited_s = max(self._now_s - view.arrival_s, 0.0)
        cluster = (
            _DEADLINE * urgency
            + _REMAINING * self._shortest_s / run_s
            + _WAITING * waited_s / (waited_s + run_s)
        )
        return -(_MODEL * model + (1.0 - _MODEL) * cluster)
