"""A bound on the makespan of jobs that share GPUs and slow each other down.

Jobs of one model are a class. Let x_b be the GPU seconds in which a GPU of type g(b) runs a bundle
b: one job, or two. Then, with s_bm the work that the jobs of model m do there in a second,

    min T   subject to   sum_b s_bm x_b >= W_m for all m,   sum_{b on g} x_b <= N_g T for all g,

is a lower bound: it forgets rounds, and that a job is in one place at a time. Any prices u >= 0 of
work prove one: with v_g = max_{b on g} sum_m s_bm u_m, T >= sum_m W_m u_m / sum_g N_g v_g. The
prices are those of the linear program, and the quotient is worked out in numpy. Besides, no job
ends before its own work is done at the highest rate that it may reach.
"""

from __future__ import annotations

import math

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.errors import UnsupportedFeatureError
from alloc.formulation import Array
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.slowdown import tables_of
from alloc.units import MILLI
from alloc.workload import Job


def makespan_bound(instance: Instance) -> float:
    """Return a time before which no schedule of an instance is over, seconds.

    Parameters
    ----------
    instance
        Jobs that are all there at the start, each of one task on a whole GPU or on half of one or
        more, of models that are in the interference tables of all GPU types.

    Raises
    ------
    UnsupportedFeatureError
        If the instance is another.
    """
    _require(instance)
    models = sorted({str(job.model) for job in instance.jobs})
    work = np.zeros(len(models))
    for job in instance.jobs:
        work[models.index(str(job.model))] += job.work_left
    tables = tables_of(instance.interference)
    types = sorted(tables)
    topology = instance.topology
    gpus = topology.capacity[:, 0] / MILLI
    number = np.array([gpus[[t == own for t in topology.gpu_types]].sum() for own in types])
    speeds, on = [], []
    longest = 0.0
    top: dict[str, float] = {}
    for g, gpu_type in enumerate(types):
        table = tables[gpu_type]
        at = [table.position(model) for model in models]
        rate = np.array([_rate(instance, model, gpu_type) for model in models])
        beside = table.beside[np.ix_(at, at)]
        for a, model in enumerate(models):
            if rate[a] <= 0:
                continue
            fastest = rate[a] * max(1.0, float(beside[a].max()))
            top[model] = max(top.get(model, 0.0), fastest)
            alone = np.zeros(len(models))
            alone[a] = rate[a]
            speeds.append(alone)
            on.append(g)
            for b in range(a, len(models)):
                if rate[b] > 0 and beside[a, b] > 0 and beside[b, a] > 0:
                    together = np.zeros(len(models))
                    together[a] += rate[a] * beside[a, b]
                    together[b] += rate[b] * beside[b, a]
                    speeds.append(together)
                    on.append(g)
    for job in instance.jobs:
        longest = max(longest, job.work_left / top[str(job.model)])
    bundles, of = np.array(speeds), np.array(on)
    prices = _prices(bundles, of, work, number)
    worth = bundles @ prices
    most = np.array([worth[of == g].max(initial=0.0) for g in range(len(types))])
    spent = float(number @ most)
    shared = float(work @ prices) / spent if spent > 0 else 0.0
    return max(longest, shared)


def _prices(bundles: Array, of: np.ndarray, work: Array, number: Array) -> Array:
    """Return prices of a unit of work of each model, 0 or more."""
    # Work in units of each model's total, times in those of one GPU doing everything alone.
    share = bundles / work
    unit = 1.0 / share.max()
    models, types = len(work), len(number)
    program = LinearProgram(sense="min")
    program.add_rows(
        np.concatenate([np.ones(models), np.full(types, -math.inf)]),
        np.concatenate([np.full(models, math.inf), np.zeros(types)]),
    )
    rows: list[int] = []
    values: list[float] = []
    starts: list[int] = []
    for b, own in enumerate(share):
        starts.append(len(rows))
        does = np.flatnonzero(own)
        rows += [*does.tolist(), models + int(of[b])]
        values += [*(own[does] * unit).tolist(), 1.0]
    starts.append(len(rows))
    rows += list(range(models, models + types))
    values += (-number).tolist()
    columns = len(share) + 1
    cost = np.zeros(columns)
    cost[-1] = 1.0
    program.add_columns(
        cost,
        np.zeros(columns),
        np.full(columns, float(models + 1) * 1e3),
        np.array(starts),
        np.array(rows),
        np.array(values),
    )
    duals = program.optimum("the bound of jobs that share GPUs").duals[:models]
    return np.asarray(np.maximum(duals, 0.0) / work)


def _rate(instance: Instance, model: str, gpu_type: str) -> float:
    """Return the highest rate alone of a model's jobs on one GPU of a type; 0 if on none."""
    return max(
        (
            configuration.rate
            for job in instance.jobs
            if job.model == model
            for configuration in job.configurations
            if configuration.gpu_type in (None, gpu_type)
        ),
        default=0.0,
    )


def _require(instance: Instance) -> None:
    tables = tables_of(instance.interference)
    for gpu_type in dict.fromkeys(map(str, instance.topology.gpu_types)):
        if gpu_type not in tables:
            raise UnsupportedFeatureError(
                f'makespan bound: GPU type "{gpu_type}" has no interference table; give one.'
            )
    for job in instance.jobs:
        if not _is_small(job) or job.stages:
            raise UnsupportedFeatureError(
                f'makespan bound: job "{job.id}" does not run as one task on a GPU or on half of '
                "one or more; leave it out."
            )
        if job.model is None:
            raise UnsupportedFeatureError(
                f'makespan bound: job "{job.id}" names no model; give one of the interference '
                "tables."
            )


def _is_small(job: Job) -> bool:
    return all(
        len(c.tasks) == 1 and c.tasks[0].count == 1 and MILLI // 3 < c.tasks[0].gpu_milli <= MILLI
        for c in job.configurations
    )
