"""Answers of an admission in words: what an accepted job is promised, what a refused one lacks.

What is promised is read from the checked schedule. The shortage of a refused job is the least GPU
time that, added to the slots before its limit, would let it in beside all accepted ones; a lower
bound of it where the time was up, or it depends on the hosts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from alloc.backends import SolverOptions
from alloc.backends.second_proof import solve_and_prove
from alloc.certificate import OPTIMALITY_GAP
from alloc.errors import InstanceError
from alloc.formulation import ArrayModel, ProvedInfeasible
from alloc.models.admission.arrays import array_model, held_columns
from alloc.models.admission.data import AdmissionData, admission_data
from alloc.models.malleable.data import Array
from alloc.objectives import limit_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.progress import completions
from alloc.result import Limits, Result
from alloc.solving.outcome import Settings
from alloc.solving.solver import solve
from alloc.units import MILLI
from alloc.workload import Job

GOAL = "value then gpu_time then best_effort_jct"
"""What an admission is for, level by level."""
_SHORTAGE_SHARE = 0.2
"""Part of the time that is left for what refused jobs lack, which whoever was refused asks next."""
_NOTHING_GPU_H = 1e-9
"""A shortage below this is rounding."""


@dataclass(frozen=True)
class Answer:
    """The answer to one job.

    Parameters
    ----------
    job
        Its id.
    accepted
        Whether it is accepted.
    sentence
        The answer in words.
    start_s, completion_s
        Of an accepted job, first start and completion, seconds since the start of the instance.
    min_gpus
        Of an accepted job, the fewest GPUs that it holds while it runs.
    short_gpu_h
        Of a refused job, the least GPU time that is missing before its limit, GPU h; None where
        GPUs are not what it lacks, or the time was up.
    is_bound
        Whether the shortage is proved to be no less, but not that so much is enough: the time was
        up, or gangs stand on several hosts.
    """

    job: str
    accepted: bool
    sentence: str
    start_s: float | None = None
    completion_s: float | None = None
    min_gpus: float | None = None
    short_gpu_h: float | None = None
    is_bound: bool = False


@dataclass(frozen=True)
class Admission:
    """What an admission decides.

    Parameters
    ----------
    result
        The schedule, with its certificate.
    answers
        One for each job that may be refused, in the order of the instance.
    """

    result: Result[Solution]
    answers: tuple[Answer, ...]


def with_job(promised: Instance, job: Job) -> Instance:
    """Return an instance in which one job asks to be let in beside all others.

    Parameters
    ----------
    promised
        The jobs that are accepted already: none of them may be refused any more.
    job
        The job that asks, with a deadline.

    Raises
    ------
    InstanceError
        If there is a job of that id, or it has no limit.
    """
    if job.id in promised.job_index:
        raise InstanceError(
            f'instance "{promised.name}" has a job "{job.id}" already; give the new one another id.'
        )
    kept = tuple(known.replace(refusable=False) for known in promised.jobs)
    return promised.replace(jobs=(*kept, job.replace(refusable=True)))


def admit(
    instance: Instance,
    job: Job | None = None,
    *,
    objective: str = GOAL,
    limits: Limits = Limits(),
    progress: object = None,
) -> Admission:
    """Decide which jobs to accept, and say what each is promised or lacks.

    Parameters
    ----------
    instance
        The cluster and its jobs; those that may be refused are decided on.
    job
        A job that asks to be let in: then all jobs of the instance are promised.
    objective
        The goal.
    limits
        Limits of the search.
    progress
        Called with a line of text now and then.

    Raises
    ------
    InstanceError
        If no job may be refused: nothing is to be decided.
    """
    asked = instance if job is None else with_job(instance, job)
    if not any(known.refusable for known in asked.jobs):
        raise InstanceError(
            f'instance "{asked.name}": no job may be refused, so nothing is to be decided; set '
            "refusable on the jobs that ask, or name one with --job."
        )
    settings = Settings(limits.seconds, limits.seed, limits.workers)
    first = limits.replace(seconds=(1 - _SHORTAGE_SHARE) * limits.seconds)
    result = solve(asked, "admission", objective=objective, limits=first, progress=progress)  # type: ignore[arg-type]
    schedule = result.solution
    if not isinstance(schedule, Schedule):
        return Admission(result, ())
    ends = completions(asked, schedule)
    hopeless = admission_data(asked).hopeless
    answers = []
    for known in asked.jobs:
        if not known.refusable:
            continue
        end = ends[known.id]
        if end is not None:
            answers.append(_accepted(asked, known, schedule, end))
        else:
            alone = hopeless.get(asked.job_index[known.id])
            answers.append(_refused(asked, known, schedule, alone, settings))
    return Admission(result, tuple(answers))


def clock(seconds: float) -> str:
    """Return a time since the start of the instance as people read it: ``1 d 02:30``."""
    total = round(seconds)
    days, rest = divmod(total, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    shown = f"{hours:02d}:{minutes:02d}" + (f":{rest:02d}" if rest else "")
    return f"{days} d {shown}" if days else shown


def _accepted(instance: Instance, job: Job, schedule: Schedule, end: float) -> Answer:
    runs = schedule.runs_of[job.id]
    gpus = [job.configurations[run.configuration].demand[0] / MILLI for run in runs]
    pauses = any(after.start_s > before.end_s for before, after in pairwise(runs))
    at_all_times = f"at least {min(gpus):g} GPU{'s' if min(gpus) != 1 else ''}"
    until = f"from {clock(runs[0].start_s)}, complete at {clock(end)}"
    while_running = " while it runs" if pauses else ""
    return Answer(
        job.id,
        True,
        f'job "{job.id}" is accepted: {at_all_times}{while_running} {until}.',
        start_s=runs[0].start_s,
        completion_s=end,
        min_gpus=min(gpus),
    )


def _refused(
    instance: Instance, job: Job, schedule: Schedule, alone: str | None, settings: Settings
) -> Answer:
    """Return the answer to a refused job; `alone` says why it has no chance, None if it has one."""
    limit = clock(limit_of(instance, job))
    head = f'job "{job.id}" is refused'
    if alone is not None:
        why = alone.removeprefix(f'job "{job.id}" ')
        return Answer(job.id, False, f"{head}: it {why}.")
    left_out = {j.id for j in instance.jobs if j.id in schedule.unplaced and j.id != job.id}
    kept = tuple(j.replace(refusable=False) for j in instance.jobs if j.id not in left_out)
    found = None if settings.time_is_up() else shortage(instance.replace(jobs=kept), settings)
    short, proved = (0.0, False) if found is None else found
    if short <= 0:
        return Answer(
            job.id,
            False,
            f"{head}: no better plan was found in which it is complete by {limit} beside the "
            "accepted jobs.",
        )
    least = "" if proved else "at least "
    return Answer(
        job.id,
        False,
        f"{head}: {least}{_amount(short, down=not proved)} GPU-hours short before {limit}.",
        short_gpu_h=short,
        is_bound=not proved,
    )


def _amount(hours: float, *, down: bool) -> str:
    """Return hours in three digits or more; rounded down, what is no less than them stays so."""
    if down:
        # A bound falls short of the value that it proves by as much as counts as optimal.
        hours *= 1 + OPTIMALITY_GAP
        unit = min(10.0 ** (math.floor(math.log10(hours)) - 2), 1.0)
        hours = math.floor(hours / unit) * unit
    return f"{hours:.3g}" if hours < 100 else f"{hours:,.0f}"


def shortage(instance: Instance, settings: Settings) -> tuple[float, bool] | None:
    """Return the least GPU time to be added so that all jobs complete in time, GPU h.

    GPUs are added slot by slot, of any type and to any quota; CPU and other resources are not.
    Where on the hosts gangs stand is not looked at: less is never enough. What the solver answers
    is worked out again: the jobs complete in time, and what they use beyond the cluster is what is
    said.

    Parameters
    ----------
    instance
        The cluster, and the jobs that are all to run.
    settings
        Limits.

    Returns
    -------
    tuple or None
        The GPU time, and whether so much is proved to be enough; else it is a lower bound. None
        where nothing was proved in time, or no GPUs help.
    """
    try:
        data = admission_data(instance)
    except ProvedInfeasible:
        return None
    model, columns = array_model(data)
    wider, rows = _with_more_gpus(data, model)
    options = SolverOptions(
        settings.seconds_left(), settings.seed, settings.workers, gap=OPTIMALITY_GAP / 2
    )
    raw = solve_and_prove(wider, options)
    if not math.isfinite(raw.bound):
        return None
    least = max(raw.bound, 0.0)
    if raw.values is not None and _stand_anywhere(data):
        used = _used_beyond(data, list(held_columns(data, columns, raw.values)), rows)
        if used is not None and used <= least * (1 + OPTIMALITY_GAP) + _NOTHING_GPU_H:
            return used, True
    return least, False


def _stand_anywhere(data: AdmissionData) -> bool:
    """Return whether what the cluster has in all is enough, wherever on its hosts it is."""
    gangs = [
        job.configurations[c]
        for j, job in enumerate(data.jobs)
        for c in data.grid.data.table(j).configuration.tolist()
    ]
    tasks = [task for gang in gangs for task in gang.tasks]
    if data.instance.topology.num_hosts == 1:
        return all(task.gpu_milli % MILLI == 0 for task in tasks)
    return (
        all(gang.within is None and not any(gang.demand[1:]) for gang in gangs)
        and all(task.gpu_milli == MILLI for task in tasks)
        and all(job.restart_cost_s == 0 for job in data.jobs)
    )


def _with_more_gpus(data: AdmissionData, model: ArrayModel) -> tuple[ArrayModel, list[int]]:
    """Return the program with GPUs to be added in each slot, and the rows that they widen."""
    from scipy import sparse

    rows = data.grid.data.rows
    gpu_rows = [r for r, resource in enumerate(rows.resource) if resource == 0]
    slots, first = data.grid.num_slots, model.rows["C3_capacity"].start
    at, column, value = [], [], []
    for t in range(slots):
        for r in gpu_rows:
            at.append(first + t * len(rows.names) + r)
            column.append(t)
            value.append(-MILLI / (float(rows.capacity[r]) or 1.0))
    more = sparse.csr_array((value, (at, column)), shape=(model.matrix.shape[0], slots))
    upper = model.row_upper.copy()
    # What every job together needs is more than the cluster has: that is the question.
    upper[model.rows["C8_flow_cuts"]] = np.inf
    most = np.array([float(own.max(initial=0.0)) for own in data.gpus]).sum()
    wider = replace(
        model,
        sense="min",
        offset=0.0,
        cost=np.concatenate([np.zeros(len(model.cost)), np.full(slots, data.slot_h)]),
        matrix=sparse.csr_array(sparse.hstack([model.matrix, more])),
        row_upper=upper,
        lower=np.concatenate([model.lower, np.zeros(slots)]),
        upper=np.concatenate([model.upper, np.full(slots, most)]),
        integer=np.concatenate([model.integer, np.zeros(slots, dtype=bool)]),
    )
    return wider, gpu_rows


def _used_beyond(
    data: AdmissionData, held: list[tuple[int, int, int]], gpu_rows: list[int]
) -> float | None:
    """Return the GPU time that jobs hold beyond the cluster, GPU h; None if one is late."""
    grid = data.grid
    use = np.zeros((grid.num_slots, len(grid.data.rows.names)))
    for j, t, c in held:
        use[t] += grid.data.table(j).use[c]
    plan = grid.plan(held)
    for j in range(len(data.jobs)):
        if not data.best_effort[j] and plan[j].completion > grid.data.limit[j] + 1e-6:
            return None
    beyond: Array = (use - grid.data.rows.capacity)[:, gpu_rows] / MILLI
    return float(beyond.max(axis=1, initial=0.0).sum()) * data.slot_h
