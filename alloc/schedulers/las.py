"""LAS: least attained service in two queues, after Tiresias."""

from __future__ import annotations

import math

from alloc.schedulers.policy import Policy
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.units import MILLI, require_positive


class Las(Policy):
    """Serve jobs that have had little GPU time before those that have had much.

    Two queues: a job moves from the first to the second once it has held `threshold_gpu_s` GPU
    seconds. Within a queue: order of arrival. Preemptive: a job of the first queue takes the place
    of one of the second. In continuous time it asks to be woken when the next job changes queue. A
    job that does not fit is passed over, so that a large gang does not idle the GPUs that smaller
    ones can use.

    Parameters
    ----------
    threshold_gpu_s
        Attained GPU time at which a job changes to the second queue, GPU seconds; the default is
        the first queue limit of Tiresias' published simulator.
    skip
        Go on to the next job when one does not fit.

    References
    ----------
    Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019
    (discretised two-dimensional LAS with two queues). Departures: within a queue jobs go by
    arrival; nobody is promoted back for having waited long; jobs without GPUs stay in the first
    queue; placement is this library's own. Malleable jobs, which Tiresias does not know, take all
    they can use in turn.
    """

    name = "las"
    needs: Knowledge = "none"
    information = "GPU time received so far"
    preemptive = True

    def __init__(self, *, threshold_gpu_s: float = 3250.0, skip: bool = True) -> None:
        super().__init__()
        require_positive(threshold_gpu_s, "las", "threshold_gpu_s")
        self._threshold_gpu_s = threshold_gpu_s
        self._skip = skip

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        decision = super().decide(state)
        if state.slot_s is not None:
            return decision
        return Decision(
            decision.assign, decision.release, wake_s=self._next_demotion_s(state, decision)
        )

    def _rank(self, view: JobView) -> float:
        return self._is_demoted(view)

    def _is_demoted(self, view: JobView) -> bool:
        # A job woken at the threshold has held it up to rounding.
        return view.attained_gpu_s >= self._threshold_gpu_s * (1 - 1e-9)

    def _next_demotion_s(self, state: ClusterState, decision: Decision) -> float | None:
        """Return when the next job changes queue if the decision stands, seconds, or None."""
        changed = {assignment.job: assignment for assignment in decision.assign}
        released = set(decision.release)
        moments = []
        for view in state.jobs:
            assignment = changed.get(view.id, view.current)
            if assignment is None or view.id in released or self._is_demoted(view):
                continue
            gpus = view.configurations[assignment.configuration].demand[0] / MILLI
            if gpus:
                moments.append(state.now_s + (self._threshold_gpu_s - view.attained_gpu_s) / gpus)
        # Rounding may bring a tiny rest down to no time at all.
        return max(min(moments), math.nextafter(state.now_s, math.inf)) if moments else None
