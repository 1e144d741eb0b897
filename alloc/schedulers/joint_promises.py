"""Which of the jobs that ask at one time to promise their deadlines: one integer program."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from alloc.model_builder import Index, ModelBuilder, Term
from alloc.objectives.rounds import Array
from alloc.schedulers.elasticflow import Plan, Planned
from alloc.schedulers.srtf import work_of

MAX_COLUMNS = 4_000
"""Columns of a program: HiGHS then ends in half a second nearly always."""
_THRIFT = 0.4
"""What all GPU time of a program is worth, in units of the least weight: less than a job."""


def chunks(asking: Sequence[Planned]) -> Iterator[list[Planned]]:
    """Yield jobs that are decided on together, in order of arrival: half a program of them."""
    chunk: list[Planned] = []
    for job in asking:
        if chunk and columns_of([*chunk, job]) > MAX_COLUMNS / 2:
            yield chunk
            chunk = []
        chunk.append(job)
    yield chunk


def nearest(
    promised: Sequence[Planned], asking: Sequence[Planned], planned: Collection[str]
) -> list[Planned]:
    """Return the promised jobs that are planned anew with those that ask: as many as are solved.

    Parameters
    ----------
    promised
        All jobs with a promise.
    asking
        Those that ask.
    planned
        Ids of the promised jobs that have a plan which they can keep; all others are planned anew.
    """
    room = MAX_COLUMNS - columns_of(asking)
    middle = float(np.mean([len(job.usable) for job in asking])) if asking else 0.0
    chosen = []
    for job in sorted(promised, key=lambda job: abs(len(job.usable) - middle)):
        room -= _size(job)
        if room >= 0 or job.view.id not in planned:
            chosen.append(job)
    return chosen


def plan_together(
    promised: Sequence[Planned],
    asking: Sequence[Planned],
    free: Array,
    seconds: float,
    *,
    least: float = 1.0,
    one_size: bool = False,
    start: Plan | None = None,
) -> Plan | None:
    """Return the slots of the jobs that are worth most, and then take the least GPU time early.

    For each job, whether it is accepted; for each slot and size of it, whether it runs so. An
    accepted job does its work before its deadline, and no slot has more GPUs than are free. None is
    returned where no plan was found in time, or none keeps all promises.

    Parameters
    ----------
    promised
        Jobs with a promise.
    asking
        Jobs that ask.
    free
        GPUs that are free for them in each slot, shape (T,).
    seconds
        Time of the program.
    least
        1.0 where every promise is kept, 0.0 where as much of them as is worth most.
    one_size
        Whether a job that may change its size keeps one all the same.
    start
        A plan of all promised jobs and some that ask, to begin with.
    """
    from alloc.backends import SolverOptions, highs

    jobs = [*promised, *asking]
    if not jobs:
        return {}
    weights = np.array([job.view.weight for job in jobs])
    area = math.fsum(float(job.gpus.max(initial=0.0)) * len(job.usable) for job in jobs)
    thrift = _THRIFT * float(weights.min()) / max(2.0 * area, 1e-9)
    builder = ModelBuilder("accept", "work", "size", "capacity")
    columns, capacity, begun = [], [], [np.zeros(0)]
    for j, job in enumerate(jobs):
        slots, sizes = len(job.usable), len(job.rate)
        t, k = np.arange(slots), np.arange(sizes)
        late = 1.0 + t / max(len(free), 1)
        a = int(builder.columns(1, 1.0, least if j < len(promised) else 0.0, cost=weights[j])[0])
        one = one_size or job.view.elasticity != "malleable"
        y = builder.columns(sizes if one else 0, 1.0)
        x = builder.columns((slots, sizes), 1.0, cost=-thrift * np.outer(late, job.gpus))
        done = np.outer(job.usable, job.rate) / work_of(job.view)[1]
        if one:
            builder.row("accept", [(y, 1.0), (a, -1.0)], lower=0.0, upper=0.0)
            builder.rows("work", sizes, [(k[None], x, done), (k, y, -1.0)], lower=0.0)
            at = np.arange(slots * sizes).reshape(slots, sizes)
            sized: list[Term] = [(at, x, 1.0), (at, np.broadcast_to(y, at.shape), -1.0)]
            builder.rows("size", slots * sizes, sized, upper=0.0)
        else:
            builder.row("work", [(x.ravel(), done.ravel()), (a, -1.0)], lower=0.0)
            builder.rows(
                "size",
                slots,
                [(t[:, None], x, 1.0), (t, np.full(slots, a), -1.0)],
                upper=0.0,
            )
        if start is not None:
            begun.append(_started(job, start.get(job.view.id), x - a, y - a))
        columns.append(x)
        capacity.append((t[:, None], x, job.gpus))
    builder.rows("capacity", len(free), capacity, upper=np.maximum(free, 0.0))
    known = None if start is None else np.concatenate(begun)
    raw = highs.solve(builder.model("max"), SolverOptions(seconds, gap=1e-4, start=known))
    if raw.values is None:
        return None
    plan: Plan = {}
    for job, x in zip(jobs, columns, strict=True):
        share = [(int(t), int(k)) for t, k in np.argwhere(raw.values[x] > 0.5)]
        # The solver's rows have a tolerance, and a promise has none.
        if share and job.is_enough(share):
            plan[job.view.id] = share
    return plan


def _started(job: Planned, share: Sequence[tuple[int, int]] | None, x: Index, y: Index) -> Array:
    """Return the values of a job's columns: the first says that it is accepted.

    Parameters
    ----------
    job
        The job.
    share
        Its slots and sizes in the plan to begin with, None where it is not accepted.
    x
        Which of its columns are slots and sizes, shape (slots, sizes).
    y
        Which of them are its size, shape (sizes,), empty if it may have several.
    """
    values = np.zeros(1 + x.size + y.size)
    if share:
        values[0] = 1.0
        t, k = np.array(share).T
        values[x[t, k]] = 1.0
        if y.size:
            values[y[k[0]]] = 1.0
    return values


def columns_of(jobs: Sequence[Planned]) -> int:
    """Return the number of columns that jobs add to a program."""
    return sum(map(_size, jobs))


def _size(job: Planned) -> int:
    """Return the number of columns that a job adds to a program."""
    return len(job.usable) * len(job.rate)
