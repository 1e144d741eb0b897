"""ElasticFlow with an exact test: jobs are refused only if an integer program finds no plan."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from alloc.schedulers.elasticflow import ElasticFlow, Holding, Plan, Planned, filled, take
from alloc.schedulers.joint_promises import MAX_COLUMNS, chunks, columns_of, nearest, plan_together
from alloc.schedulers.srtf import work_of
from alloc.units import require_positive

_COLUMNS_PER_S = 16_000
"""Columns that a program may have for each second of its time; as many as usual always.

Of larger ones HiGHS does not keep the time: with half a second one of 16,000 took 0.9 seconds, one
of 64,000 took 7.5.
"""


class ExactAdmission(ElasticFlow):
    """Admit the jobs that are worth most among those that ask and some plan serves in time.

    As `elasticflow`, but where minimum satisfactory shares in order of deadline leave out a job,
    those that ask at that moment are also tried in order of weight for the GPU time they take, and
    then decided on together by an integer program that keeps every promise made before: the most
    value first, then little GPU time. The promised jobs whose windows are most like theirs are
    planned anew with them, in what the others leave. What was promised is then kept by that plan:
    it stands until shares are found again. Shares alone refuse jobs that fit where tables are not
    concave, and let in whoever asks first.

    Parameters
    ----------
    limit_s
        Time of all programs of one decision, seconds, above 0; jobs whose deadlines are too many
        slots away for a program of so much time are left to shares. A dozen jobs of many sizes that
        ask at once take two seconds to decide on exactly. The shares are found in no part of this
        time: where 400 jobs ask at once they take a second or two.
    """

    name = "exact-admission"
    information = "deadline, remaining work and weight"

    def __init__(self, *, limit_s: float = 0.5) -> None:
        super().__init__()
        require_positive(limit_s, self.name, "limit_s")
        self._limit_s = limit_s

    def _let_in(
        self, asking: Sequence[Planned], admitted: Sequence[Planned], held: Holding, total: float
    ) -> Plan:
        able = [job for job in asking if len(job.usable) and job.columns]
        best = super()._let_in(able, admitted, held, total)
        if all(job.view.id in best for job in able):
            return best
        by_worth = sorted(able, key=_value_of_gpu_time, reverse=True)
        other = super()._let_in(by_worth, admitted, held, total)
        best = by_shares = max(best, other, key=lambda found: _worth(able, found))
        end = time.perf_counter() + self._limit_s
        for some in chunks(able):
            left = end - time.perf_counter()
            too_large = columns_of(some) > max(MAX_COLUMNS, _COLUMNS_PER_S * left)
            if left <= 0 or too_large or all(job.view.id in best for job in some):
                continue
            kept = [*admitted, *(job for job in able if job not in some and job.view.id in best)]
            best = _together(some, kept, best, total, left)
        if best is by_shares:
            return best
        # The gap of a program may be worth more than a job for which there is room.
        beside = [(job, best[job.view.id]) for job in (*admitted, *able) if job.view.id in best]
        return best | filled([job for job in able if job.view.id not in best], total, beside)


def _together(
    asking: Sequence[Planned], kept: Sequence[Planned], plan: Plan, total: float, seconds: float
) -> Plan:
    """Return a plan that is worth at least as much, with those that a program lets in.

    Parameters
    ----------
    asking
        Jobs that ask.
    kept
        Jobs that hold a promise.
    plan
        A plan for these and some that ask.
    total
        GPUs of the cluster.
    seconds
        Time of the program.
    """
    near = nearest(kept, asking, plan.keys())
    names = {job.view.id for job in near}
    free = np.full((max(len(job.usable) for job in (*asking, *near)), 1), total)
    for other in kept:
        if other.view.id not in names:
            take(free, other, plan[other.view.id])
    found = plan_together(near, asking, free[:, 0], seconds, start=plan)
    if found is None or not names <= found.keys() or _worth(asking, found) < _worth(asking, plan):
        return plan
    others = plan.keys() - names - {job.view.id for job in asking}
    return {name: plan[name] for name in plan if name in others} | found


def _worth(asking: Sequence[Planned], plan: Plan) -> float:
    return math.fsum(job.view.weight for job in asking if job.view.id in plan)


def _value_of_gpu_time(job: Planned) -> float:
    """Return the weight of a job over the least GPU time in which its work can be done."""
    least = float((job.gpus / job.rate).min()) * work_of(job.view)[1]
    return job.view.weight / least if least > 0 else math.inf
