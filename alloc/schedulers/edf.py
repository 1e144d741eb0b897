"""EDF: earliest deadline first."""

from __future__ import annotations

import dataclasses
import math

from alloc.schedulers.policy import Policy
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.verification.time import TIME_TOLERANCE_S

NO_DEADLINE = 1e300
"""Rank of jobs without a deadline: before infinity, which is that of those that are lost."""


class Edf(Policy):
    """Serve the job with the earliest deadline first; each takes all it can use in turn.

    Preemptive. Jobs without a deadline come after all others, and last those that can no longer
    meet theirs, even alone; one of these that may be refused and has never run is refused. Ties:
    arrival, then order of the instance. A job that does not fit is passed over.

    References
    ----------
    Liu, Layland, "Scheduling algorithms for multiprogramming in a hard-real-time environment", JACM
    20(1), 1973, for one machine, where it meets all deadlines that can be met; here for gangs.
    """

    name = "edf"
    needs: Knowledge = "estimate"
    information = "deadline and remaining work"
    preemptive = True
    _skip = True

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        self._now_s = state.now_s
        decision = super().decide(state)
        assigned = {assignment.job for assignment in decision.assign}
        lost = tuple(
            view.id
            for view in state.jobs
            if view.refusable
            and view.last is None
            and view.id not in assigned
            and self._is_lost(view)
        )
        return dataclasses.replace(decision, refuse=lost)

    def _rank(self, view: JobView) -> float:
        if view.deadline_s is None:
            return NO_DEADLINE
        return math.inf if self._is_lost(view) else view.deadline_s

    def _is_lost(self, view: JobView) -> bool:
        """Return whether a job misses its deadline even if it runs as fast as it can from now."""
        if view.deadline_s is None:
            return False
        fastest = self._memory.fastest(view.configurations)
        return self._now_s + work_of(view)[1] / fastest > view.deadline_s + TIME_TOLERANCE_S
