"""ElasticFlow: deadlines by minimum satisfactory shares, the rest by marginal return."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.model_builder import Index
from alloc.objectives.rounds import Array
from alloc.packing import place_jointly, which_stand_alone
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.solving.admission.shares import minimum_share, steady_share
from alloc.units import MILLI

_HORIZON = 4096
"""Slots up to which shares are planned; later deadlines count as that far."""


Share = list[tuple[int, int]]
"""The slots from now on in which a job runs, and the size in each."""
Plan = dict[str, Share]
"""For each job, by id, its share."""


@dataclass
class Planned:
    """A job with the slots before its deadline, as seen at a decision."""

    view: JobView
    slot_s: float
    now_s: float
    able: Collection[int]
    """Its configurations that can run at all: an empty cluster and its tenant's quota hold them."""
    _last: tuple[Share, Index, Array] | None = field(default=None, init=False, repr=False)
    """The share that was asked about last, with what `use` said of it."""

    @cached_property
    def columns(self) -> list[int]:
        """Its configurations with GPUs that make progress, fewest GPUs first."""
        own, bound = self.view.configurations, self.view.bound_to
        usable = [c for c in self.able if own[c].rate > 0 and bound in (None, c)]
        return sorted(usable, key=lambda c: (own[c].demand[0], -own[c].rate))

    @cached_property
    def gpus(self) -> Array:
        """GPUs of each of them."""
        own = self.view.configurations
        return np.array([own[c].demand[0] / MILLI for c in self.columns])

    @cached_property
    def rate(self) -> Array:
        """Work of each of them in a slot."""
        own = self.view.configurations
        return np.array([own[c].rate for c in self.columns]) * self.slot_s

    @cached_property
    def usable(self) -> Array:
        """Part of each slot from now on that lies before its deadline."""
        assert self.view.deadline_s is not None
        left = (self.view.deadline_s - self.now_s) / self.slot_s
        number = min(max(math.ceil(left - 1e-9), 0), _HORIZON)
        return np.clip(left - np.arange(number), 0.0, 1.0)

    @property
    def need(self) -> float:
        """Work left that counts as all of it."""
        return work_of(self.view)[1] * (1 - 1e-9)

    def is_enough(self, share: Share) -> bool:
        """Return whether slots and columns do its work before its deadline."""
        return math.fsum(float(self.rate[k] * self.usable[t]) for t, k in share) >= self.need

    def use(self, share: Share) -> tuple[Index, Array]:
        """Return the slots of a share, and the GPUs that it takes in each, both of shape (S,)."""
        if self._last is None or self._last[0] is not share:
            t, k = np.array(share).T
            self._last = share, t, self.gpus[k]
        return self._last[1:]

    def share(self, free: Array) -> Share | None:
        """Return the slots and columns of its minimum satisfactory share, shape of free (T, 1)."""
        given = (self.rate, self.gpus[:, None], self.usable, self.need, free[: len(self.usable)])
        if self.view.elasticity == "malleable":
            return minimum_share(*given)
        return steady_share(*given, whole=False)


Able = dict[str, Collection[int]]
"""For each job, by id, its configurations that can run at all."""


def planned(state: ClusterState, slot_s: float, able: Able) -> list[Planned]:
    """Return the jobs in the system with the sizes in which they can run.

    Parameters
    ----------
    state
        What the policy sees.
    slot_s
        What it plans in, seconds.
    able
        What is known of the jobs of earlier decisions; those of this one are added.
    """
    for view in state.jobs:
        if view.id not in able:
            quota = state.quotas.get(view.tenant or "", math.inf)
            within = [c for c, way in enumerate(view.configurations) if way.demand[0] <= quota]
            stands = which_stand_alone(state.topology, [view.configurations[c] for c in within])
            able[view.id] = [c for c, runs in zip(within, stands, strict=True) if runs]
    return [Planned(view, slot_s, state.now_s, able[view.id]) for view in state.jobs]


Kept = Sequence[tuple[Planned, Share]]
"""Jobs that hold a share already."""


@dataclass(frozen=True)
class Holding:
    """What jobs hold.

    Parameters
    ----------
    plan
        Their shares.
    in_order
        Ids of those that `filled` found theirs in order of deadline, in what others of this plan
        with earlier deadlines leave.
    """

    plan: Plan
    in_order: set[str]


class ElasticFlow:
    """Admit a job only if every admitted job keeps a share with which it meets its deadline.

    In slots. Jobs with deadlines are filled in order of deadline, each with the smallest number of
    GPUs that, where free, does its work in time, from the deadline backwards (minimum satisfactory
    share). A new job is admitted if all admitted jobs and it find their shares; else it is refused,
    or waits for what is left if it may not be. Shares are filled anew in each slot; where that
    leaves an admitted job without one, all keep the shares of the slot before. Restart costs,
    quotas and hosts are not in the shares: an admitted job that finds no share for one of these
    reasons is counted in the note ``broken_promises``, and waits for what is left. GPUs that the
    shares leave free in the coming slot go one size up at a time to the job whose GPU time grows
    least by it. Gangs stand where they stood, or all are placed anew, the largest first: with sizes
    that are powers of two that is buddy allocation, and always finds a place.

    References
    ----------
    Gu et al., "ElasticFlow: an elastic serverless training platform for distributed deep learning",
    ASPLOS 2023, algorithms 1 and 2. Departures: sizes are those of a job's own table; a share is
    filled from the deadline backwards, and counted to the part of the last slot that lies before
    it; what is left goes by growth of GPU time over all the work that is left at one size; shares
    are kept where none are found anew.
    """

    name = "elasticflow"
    draws = False
    needs: Knowledge = "estimate"
    information = "deadline and remaining work"
    features: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._admitted: set[str] = set()
        self._known: set[str] = set()
        self._broken: set[str] = set()
        self._able: Able = {}
        self._kept: Plan = {}
        """By configuration, in slots from the last decision."""
        self._kept_s = 0.0

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._admitted.clear()
        self._known.clear()
        self._broken.clear()
        self._able.clear()
        self._kept = {}

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        slot_s = slot_length(state, self.name)
        total = float(state.topology.num_gpus)
        jobs = planned(state, slot_s, self._able)
        dated = [job for job in jobs if job.view.deadline_s is not None]
        admitted = [job for job in dated if job.view.id in self._admitted]
        held = self._held(admitted, round((state.now_s - self._kept_s) / slot_s), total)
        # Who finds no share any more waits like others, and says so once.
        broken = {job.view.id for job in admitted if job.view.id not in held.plan} - self._broken
        self._broken |= broken
        admitted = [job for job in admitted if job.view.id in held.plan]
        asking = [job for job in dated if job.view.id not in self._known]
        self._known |= {job.view.id for job in asking}
        plan = self._let_in(asking, admitted, held, total)
        admitted += [job for job in asking if job.view.id in plan]
        self._admitted |= plan.keys()
        refused = [job.view.id for job in asking if job.view.id not in plan and job.view.refusable]
        gone = set(refused)
        others = [j for j in jobs if j.view.id not in gone and j.view.id not in plan]
        chosen = self._grown(admitted, others, plan, total)
        # By configuration: a job that has begun and keeps its size has fewer columns.
        self._kept = {
            job.view.id: [(t, job.columns[k]) for t, k in plan[job.view.id]] for job in admitted
        }
        self._kept_s = state.now_s
        notes = {"broken_promises": float(len(broken))} if broken else {}
        return Decision(placed(state, chosen.values()), notes=notes, refuse=tuple(refused))

    def _held(self, admitted: Sequence[Planned], gone: int, total: float) -> Holding:
        """Return what the admitted jobs hold from now on; who is not in it cannot be kept.

        Parameters
        ----------
        admitted
            The jobs.
        gone
            Slots since the last decision.
        total
            GPUs of the cluster.
        """
        plan = filled(admitted, total)
        if len(plan) == len(admitted):
            return Holding(plan, set(plan))
        # In order of deadline, a job that got ahead may take a share that leaves another none.
        return Holding(self._kept_plan(admitted, gone, total), set())

    def _kept_plan(self, admitted: Sequence[Planned], gone: int, total: float) -> Plan:
        """Return what was planned for the admitted jobs; others get a share of what that leaves.

        A plan is not enough any more where a gang found no hosts, paid for a restart, or its work
        was not known.
        """
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

    def _let_in(
        self, asking: Sequence[Planned], admitted: Sequence[Planned], held: Holding, total: float
    ) -> Plan:
        """Return the plan with those that ask and are admitted, one after the other.

        Parameters
        ----------
        asking
            Jobs that ask, in order of arrival.
        admitted
            Jobs that were admitted before.
        held
            What these hold.
        total
            GPUs of the cluster.
        """
        inside = list(admitted)
        for job in asking:
            more = self._with(job, inside, held, total)
            if more is not None:
                inside.append(job)
                held = more
        return held.plan

    def _with(
        self, job: Planned, admitted: Sequence[Planned], held: Holding, total: float
    ) -> Holding | None:
        """Return what is held with one job more, None where it is not admitted.

        Jobs with earlier deadlines hold what they held; from the new one on all are filled anew.
        """
        before, after = [], [job]
        for other in admitted:
            if _by_deadline(other) < _by_deadline(job):
                before.append((other, held.plan[other.view.id]))
            else:
                after.append(other)
        more = filled(after, total, before, all_or_none=True, known=held)
        return Holding(held.plan | more, held.in_order | more.keys()) if more else None

    def _grown(
        self,
        admitted: Sequence[Planned],
        others: Sequence[Planned],
        plan: Plan,
        total: float,
    ) -> dict[str, tuple[Planned, int]]:
        """Return what runs in the coming slot: shares, and what marginal return adds."""
        now: dict[str, tuple[Planned, int]] = {}
        for job in admitted:
            first = [k for t, k in plan[job.view.id] if t == 0]
            now[job.view.id] = (job, first[0] if first else -1)
        for job in others:
            now[job.view.id] = (job, -1)
        free = total - sum(float(job.gpus[k]) for job, k in now.values() if k >= 0)
        queue: list[tuple[int, float, tuple[float, int], str, int]] = []

        def offer(name: str) -> None:
            """Offer a job its next larger size that is faster."""
            job, k = now[name]
            larger = _next_size(job, k)
            if name in plan and job.view.elasticity != "malleable":
                # Its promise is for one size, which it then has to keep.
                larger = plan[name][0][1] if k < 0 else None
            if larger is not None:
                # Jobs with a promise come first.
                late = int(name not in plan)
                growth = _gpu_time(job, larger) - (_gpu_time(job, k) if k >= 0 else 0.0)
                heapq.heappush(queue, (late, growth, job.view.in_order, name, larger))

        for name in now:
            offer(name)
        while queue:
            *_, name, larger = heapq.heappop(queue)
            job, k = now[name]
            more = float(job.gpus[larger]) - (float(job.gpus[k]) if k >= 0 else 0.0)
            if more <= free + 1e-9:
                free -= more
                now[name] = (job, larger)
                offer(name)
        return {name: (job, k) for name, (job, k) in now.items() if k >= 0}


def slot_length(state: ClusterState, name: str) -> float:
    """Return the length of a slot, seconds, for a policy that plans in slots and pauses jobs.

    Parameters
    ----------
    state
        What the policy sees.
    name
        The policy.

    Raises
    ------
    UnsupportedFeatureError
        If there are no slots, or a job may not be paused.
    """
    if state.slot_s is None:
        raise UnsupportedFeatureError(
            f"{name} plans in slots, and the instance has none; set its slot_s."
        )
    for view in state.jobs:
        if not view.preemptible:
            raise UnsupportedFeatureError(
                f'{name} pauses jobs, and job "{view.id}" is not preemptible; make it so, '
                "or take edf."
            )
    return state.slot_s


def placed(state: ClusterState, chosen: Iterable[tuple[Planned, int]]) -> tuple[Assignment, ...]:
    """Return gangs on hosts, where they stood if all fit there, else all anew.

    Parameters
    ----------
    state
        What the policy sees.
    chosen
        Jobs with the column that each is to run in.
    """
    order = sorted(chosen, key=lambda own: -own[0].gpus[own[1]])
    requests = []
    for job, k in order:
        c, current = job.columns[k], job.view.current
        keep = current.tasks if current is not None and current.configuration == c else None
        requests.append((job.view.configurations[c], keep))
    found = place_jointly(state.topology, requests)
    if any(tasks is None for tasks in found):
        fresh = place_jointly(state.topology, [(way, None) for way, _ in requests])
        if sum(t is None for t in fresh) < sum(t is None for t in found):
            found = fresh
    held = dict.fromkeys(state.quotas, 0)
    assign = []
    for (job, k), tasks in zip(order, found, strict=True):
        tenant, c = job.view.tenant, job.columns[k]
        need = job.view.configurations[c].demand[0]
        if tasks is None or (tenant in held and held[tenant] + need > state.quotas[tenant]):
            continue
        if tenant in held:
            held[tenant] += need
        assign.append(Assignment(job.view.id, c, tuple(tasks)))
    return tuple(assign)


def filled(
    jobs: Sequence[Planned],
    total: float,
    beside: Kept = (),
    *,
    all_or_none: bool = False,
    known: Holding | None = None,
) -> Plan:
    """Return the shares of jobs in order of deadline; who finds none is not in it.

    Parameters
    ----------
    jobs
        The jobs.
    total
        GPUs of the cluster.
    beside
        Others, with the shares that they hold already.
    all_or_none
        Whether the answer is empty as soon as one finds none.
    known
        What some of the jobs hold. A share that was found in this order is found again, and not
        looked for, where no slot has more GPUs than it had then and all of its own are still free:
        with less, no smaller share is enough, and in none of its slots a larger size fits.
    """
    known = known or Holding({}, set())
    longest = max((len(job.usable) for job in (*jobs, *(job for job, _ in beside))), default=0)
    free = np.full((longest, 1), total)
    for job, held in beside:
        take(free, job, held)
    # What is free now, less what was free when the shares that are held were found.
    gained = np.zeros_like(free)
    plan: Plan = {}
    for job in sorted(jobs, key=_by_deadline):
        before = known.plan.get(job.view.id)
        share = before
        if job.view.id not in known.in_order or not _is_found_again(job, before, free, gained):
            share = job.share(free)
            if share is None and all_or_none:
                return {}
            if share != before:
                take(gained, job, share)
                take(gained, job, before, times=-1.0)
        if share is not None:
            take(free, job, share)
            plan[job.view.id] = share
    return plan


def _is_found_again(job: Planned, share: Share | None, free: Array, gained: Array) -> bool:
    """Return whether a share that was found before would be found in what is free now."""
    if not share or (gained[: len(job.usable)] > 0).any():
        return False
    t, gpus = job.use(share)
    return bool((gpus <= free[t, 0] + 1e-6).all())


def take(free: Array, job: Planned, share: Share | None, *, times: float = 1.0) -> None:
    """Take the GPUs of a share from what is free, shape (T, 1); slots beyond are left out.

    Parameters
    ----------
    free
        GPUs free in each slot from now on, shape (T, 1); changed in place.
    job
        The job that the share is of.
    share
        Its slots with the size in each, or None for none.
    times
        How often the share is taken; -1 gives it back.
    """
    if share:
        t, gpus = job.use(share)
        inside = t < len(free)
        free[t[inside], 0] -= times * gpus[inside]


def _needed(job: Planned, share: Share) -> Share:
    """Return a share without the last slots that its job, which got ahead of it, can do without."""
    while len(share) > 1 and job.is_enough(share[:-1]):
        share = share[:-1]
    return share


def _by_deadline(job: Planned) -> tuple[float, tuple[float, int]]:
    return job.view.deadline_s or 0.0, job.view.in_order


def _next_size(job: Planned, k: int) -> int | None:
    """Return the next larger size of a job that is faster than its k-th, None at the top."""
    rate = float(job.rate[k]) if k >= 0 else 0.0
    larger = [i for i in range(k + 1, len(job.rate)) if job.rate[i] > rate]
    return larger[0] if larger else None


def _gpu_time(job: Planned, k: int) -> float:
    """Return the GPU time that a job's remaining work takes in its k-th size, GPU slots."""
    return work_of(job.view)[1] / float(job.rate[k]) * float(job.gpus[k])
