"""Chronus: jobs with deadlines hold leases of fixed length, best-effort jobs get what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from alloc.schedulers.elasticflow import (
    Able,
    Plan,
    Planned,
    filled,
    placed,
    planned,
    slot_length,
    take,
)
from alloc.schedulers.joint_promises import chunks, nearest, plan_together
from alloc.schedulers.state import ClusterState, Decision, Knowledge
from alloc.units import require_positive

_SECONDS = 5.0
"""Time of a program, beside other work too: most end in a tenth of a second."""


class Chronus:
    """Accept the jobs that are worth most among those that leases can serve before their deadlines.

    In leases of some slots. At the start of a lease a program takes all accepted jobs and those
    that ask: each is given one size and as many leases as its work takes, before its deadline, and
    no lease has more GPUs than there are. It accepts what is worth most, and then holds early
    leases, on few GPUs, where nothing is lost by it. What it does not accept is refused, or served
    as best effort if it may not be. Best-effort jobs take what the leases leave in each slot, in
    order of arrival, each as fast as it can; what is free after that goes to accepted jobs whose
    leases come later. A lease in which nobody holds anything ends at once. Gangs stand where they
    stood, or are all placed anew, the largest first.

    Parameters
    ----------
    lease_s
        Length of a lease, seconds, above 0; it is rounded up to whole slots.

    References
    ----------
    Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC
    2021: leases of twenty minutes, jobs with and without deadlines, selection by an integer
    program. Departures: a job with several sizes may be accepted at any one of them (there: the one
    that its user asks for); the last lease counts to the part before the deadline; best-effort jobs
    keep the order of arrival; the rule of placement is that of `elasticflow`. Where a program would
    be too large, the accepted jobs whose deadlines differ most keep the leases they had, and where
    it finds less in its time, shares are filled as in `elasticflow`, one lease a slot.
    """

    name = "chronus"
    draws = False
    needs: Knowledge = "estimate"
    information = "deadline, remaining work and weight"
    features: tuple[str, ...] = ()

    def __init__(self, *, lease_s: float = 1200.0) -> None:
        require_positive(lease_s, self.name, "lease_s")
        self._lease_s = lease_s
        self.reset()

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._accepted: set[str] = set()
        self._known: set[str] = set()
        self._able: Able = {}
        self._plan: Plan = {}
        """By configuration, in leases from the start of the current one."""
        self._began_s = -math.inf

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        slot_s = slot_length(state, self.name)
        lease_s = math.ceil(self._lease_s / slot_s - 1e-9) * slot_s
        total = float(state.topology.num_gpus)
        jobs = planned(state, lease_s, self._able)
        present = {job.view.id for job in jobs}
        holds = any(t == 0 for name in present & self._plan.keys() for t, _ in self._plan[name])
        refused: list[str] = []
        broken = 0
        if not holds or state.now_s - self._began_s >= lease_s - slot_s / 2:
            gone = round((state.now_s - self._began_s) / lease_s) if self._plan else 0
            broken, refused = self._begin_lease(jobs, gone, total)
            self._began_s = state.now_s
        chosen = self._chosen([job for job in jobs if job.view.id not in refused], total)
        notes = {"broken_promises": float(broken)} if broken else {}
        return Decision(placed(state, chosen.values()), notes=notes, refuse=tuple(refused))

    def _begin_lease(
        self, jobs: Sequence[Planned], gone: int, total: float
    ) -> tuple[int, list[str]]:
        """Plan the leases from now on; return how many promises break, and who is refused."""
        dated = [job for job in jobs if job.view.deadline_s is not None]
        accepted = [job for job in dated if job.view.id in self._accepted]
        asking = [job for job in dated if job.view.id not in self._known]
        plan: Plan = {}
        for job in accepted:
            share = [
                (t - gone, job.columns.index(c))
                for t, c in self._plan.get(job.view.id, ())
                if t >= gone and c in job.columns
            ]
            if all(t < len(job.usable) for t, _ in share) and job.is_enough(share):
                plan[job.view.id] = share
        for some in chunks([job for job in asking if job.columns]):
            plan = _planned(accepted, some, plan, total)
            accepted += [job for job in some if job.view.id in plan]
        self._known |= {job.view.id for job in asking}
        self._accepted = set(plan)
        by_id = {job.view.id: job for job in accepted}
        self._plan = {
            name: [(t, by_id[name].columns[k]) for t, k in share] for name, share in plan.items()
        }
        out = [job.view for job in asking if job.view.id not in plan]
        return len(by_id.keys() - plan.keys()), [view.id for view in out if view.refusable]

    def _chosen(self, jobs: Sequence[Planned], total: float) -> dict[str, tuple[Planned, int]]:
        """Return who runs in the coming slot at which size: leases, best effort, later leases."""
        chosen: dict[str, tuple[Planned, int]] = {}
        later: list[tuple[Planned, int]] = []
        effort: list[Planned] = []
        free = total
        for job in jobs:
            leases = [(t, c) for t, c in self._plan.get(job.view.id, ()) if c in job.columns]
            if leases:
                t, c = leases[0]
                k = job.columns.index(c)
                if t == 0:
                    chosen[job.view.id] = (job, k)
                    free -= float(job.gpus[k])
                else:
                    later.append((job, k))
            elif job.view.deadline_s is None or job.view.id in self._known:
                effort.append(job)
        for job in effort:
            fitting = [k for k in range(len(job.gpus)) if job.gpus[k] <= free + 1e-9]
            if fitting:
                k = max(fitting, key=lambda k: (job.rate[k], -k))
                chosen[job.view.id] = (job, k)
                free -= float(job.gpus[k])
        for job, k in sorted(later, key=lambda own: own[0].view.deadline_s or 0.0):
            if job.gpus[k] <= free + 1e-9:
                chosen[job.view.id] = (job, k)
                free -= float(job.gpus[k])
        return chosen


def _planned(
    accepted: Sequence[Planned], asking: Sequence[Planned], plan: Plan, total: float
) -> Plan:
    """Return the leases of the accepted jobs, and of those that ask and are accepted.

    Who had a plan may keep it (`plan`); whom no plan serves is not in the answer.
    """
    inside = nearest(accepted, asking, plan.keys())
    names = {job.view.id for job in inside}
    kept = [(job, plan[job.view.id]) for job in accepted if job.view.id not in names]
    leases = max((len(job.usable) for job in (*inside, *asking)), default=0)
    free = np.full((leases, 1), total)
    for job, share in kept:
        take(free, job, share)
    outside = {job.view.id: share for job, share in kept}
    # First with every promise kept; where that cannot be, as many as can.
    answers = []
    for least in (1.0, 0.0):
        found = plan_together(inside, asking, free[:, 0], _SECONDS, least=least, one_size=True)
        if found is not None:
            answers.append(outside | found)
            break
    beside = kept
    for some in (inside, asking):
        more = filled(some, total, beside)
        beside = [*beside, *((job, more[job.view.id]) for job in some if job.view.id in more)]
    answers.append({job.view.id: share for job, share in beside})
    weight = {job.view.id: job.view.weight for job in (*accepted, *asking)}
    promised = {job.view.id for job in accepted}

    def worth(answer: Plan) -> tuple[int, float]:
        return len(promised & answer.keys()), math.fsum(weight[name] for name in answer)

    # A program that its time ended may have found less than the shares; of equals it comes first.
    return max(answers, key=worth)
