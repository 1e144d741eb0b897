"""ElasticFlow with an exact test: a job is refused only if an integer program finds no plan."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from alloc.model_builder import ModelBuilder, Term
from alloc.objectives.rounds import Array
from alloc.schedulers.elasticflow import ElasticFlow, Plan, Planned, take
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import ClusterState, Decision

_MAX_COLUMNS = 4_000
"""Columns of the program: HiGHS then ends in half a second nearly always."""
_SECONDS = 0.5
"""Time of all programs of one decision: it is to take a second at most."""


class ExactAdmission(ElasticFlow):
    """Admit a job if some plan keeps every promise and its deadline.

    As `elasticflow`, but where minimum satisfactory shares in order of deadline find no room, the
    jobs whose windows overlap the new one's most are planned again with it by an integer program,
    in what the others leave. What was promised is then kept by that plan: it stands until shares
    are found again. With tables that are not concave the shares alone refuse jobs that fit. Of very
    many jobs that ask at once the last are tried by shares alone: a decision takes a second.
    """

    name = "exact-admission"

    def __init__(self) -> None:
        super().__init__()
        self._spent_s = 0.0

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        self._spent_s = 0.0
        return super().decide(state)

    def _with(
        self, job: Planned, admitted: Sequence[Planned], plan: Plan, total: float
    ) -> Plan | None:
        longer = super()._with(job, admitted, plan, total)
        if longer is not None or not len(job.usable) or not job.columns:
            return longer
        if self._spent_s >= _SECONDS:
            return None
        if any(other.view.elasticity == "moldable" for other in (job, *admitted)):
            return None  # a size once begun is kept, which the program does not know
        near = _nearest(job, admitted)
        fixed = [other for other in admitted if other not in near]
        slots = max(len(own.usable) for own in (job, *near))
        free = np.full((slots, 1), total)
        for other in fixed:
            take(free, other, plan[other.view.id])
        began = time.perf_counter()
        found = _planned_together([job, *near], free[:, 0], _SECONDS - self._spent_s)
        self._spent_s += time.perf_counter() - began
        return None if found is None else {**plan, **found}


def _nearest(job: Planned, admitted: Sequence[Planned]) -> list[Planned]:
    """Return the admitted jobs that share most of their slots with a job, as many as are solved."""
    length = len(job.usable)

    def shared(other: Planned) -> float:
        own = len(other.usable)
        return min(own, length) / max(own, length, 1)

    room = _MAX_COLUMNS - length * len(job.rate)
    chosen = []
    for other in sorted(admitted, key=shared, reverse=True):
        room -= len(other.usable) * len(other.rate)
        if room < 0:
            break
        chosen.append(other)
    return chosen


def _planned_together(jobs: Sequence[Planned], free: Array, seconds: float) -> Plan | None:
    """Return a plan in which all jobs meet their deadlines with the least GPU time, or None."""
    from alloc.backends import SolverOptions, highs

    builder = ModelBuilder("work", "size", "capacity")
    columns, capacity = [], []
    for job in jobs:
        slots, sizes = len(job.usable), len(job.rate)
        cost = np.broadcast_to(job.gpus, (slots, sizes))
        x = builder.columns((slots, sizes), 1.0, cost=cost)
        done = np.outer(job.usable, job.rate) / work_of(job.view)[1]
        builder.row("work", [(x.ravel(), done.ravel())], lower=1.0)
        k = np.arange(slots)
        builder.rows("size", slots, [(k[:, None], x, 1.0)], upper=1.0)
        columns.append(x)
        term: Term = (k[:, None], x, job.gpus)
        capacity.append(term)
    builder.rows("capacity", len(free), capacity, upper=np.maximum(free, 0.0))
    options = SolverOptions(seconds, gap=0.05)
    raw = highs.solve(builder.model("min"), options)
    if raw.values is None:
        return None
    plan: Plan = {}
    for job, x in zip(jobs, columns, strict=True):
        share = [(int(t), int(k)) for t, k in np.argwhere(raw.values[x] > 0.5)]
        # The solver's rows have a tolerance, and a promise has none.
        if not job.is_enough(share):
            return None
        plan[job.view.id] = share
    return plan
