"""Admission by plans that are kept: what was promised is carried out as it was planned."""

from __future__ import annotations

from collections.abc import Sequence

from alloc.schedulers.elasticflow import ElasticFlow, Plan, Planned, filled, slot_length
from alloc.schedulers.state import ClusterState, Decision


class KeptPlan(ElasticFlow):
    """Base of policies that plan the slots of a job when they admit it, and keep to the plan."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: Plan = {}
        self._kept_s = self._now_s = self._length_s = 0.0

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        super().reset()
        self._kept = {}

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        self._now_s, self._length_s = state.now_s, slot_length(state, self.name)
        return super().decide(state)

    def _decided(self, admitted: Sequence[Planned], plan: Plan) -> None:
        self._kept_s = self._now_s
        # By configuration: a job that has begun and keeps its size has fewer columns.
        self._kept = {
            job.view.id: [(t, job.columns[k]) for t, k in plan[job.view.id]] for job in admitted
        }

    def _plan(self, admitted: Sequence[Planned], total: float) -> Plan:
        """Return what was planned for the admitted jobs; others get a share of what that leaves.

        A plan is not enough any more where a gang found no hosts, paid for a restart, or its work
        was not known.
        """
        gone = round((self._now_s - self._kept_s) / self._length_s)
        kept = []
        for job in admitted:
            share = [
                (t - gone, job.columns.index(c))
                for t, c in self._kept.get(job.view.id, ())
                if t >= gone and c in job.columns
            ]
            if all(t < len(job.usable) for t, _ in share) and job.is_enough(share):
                kept.append((job, _needed(job, share)))
        held = {job.view.id: share for job, share in kept}
        others = [job for job in admitted if job.view.id not in held]
        return held | filled(others, total, kept)


def _needed(job: Planned, share: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a share without the last slots that its job, which got ahead of it, can do without."""
    while len(share) > 1 and job.is_enough(share[:-1]):
        share = share[:-1]
    return share
