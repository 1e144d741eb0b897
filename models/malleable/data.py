"""The data of F2 as arrays: slots, capacity rows, and configuration tables shared by jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.formulation import ProvedInfeasible
from alloc.models.capacity import (
    CapacityRows,
    burden,
    burden_on_hosts,
    capacity_rows,
    fitting_configurations,
    pareto_front,
    quotas_of,
    use_order,
)
from alloc.models.malleable.costs import Target, peak_floor, target_of
from alloc.objectives import Held, require_slot
from alloc.packing import surely_stands_alone
from alloc.problems.allocation.instance import Instance
from alloc.workload import Job

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

_SLOT_TOLERANCE = 1e-9
"""Arrivals this close above a slot's start, in slots, belong to it: times are float products."""


@dataclass(frozen=True)
class Table:
    """The undominated configurations that some jobs share.

    Parameters
    ----------
    configuration
        Position of each in the jobs' own configurations, shape (C,).
    rate
        Work units per slot, shape (C,).
    use
        Use of the capacity rows, shape (C, R).
    """

    configuration: Index
    rate: Array
    use: Array

    @cached_property
    def column_of(self) -> dict[int, int]:
        """Position in this table of a job's configuration."""
        return {int(c): i for i, c in enumerate(self.configuration)}


@dataclass(frozen=True)
class SlotData:
    """An instance on its grid of slots.

    Parameters
    ----------
    instance
        The instance.
    slot_s
        Length of a slot, seconds.
    rows
        The capacity rows; capacity B_r holds in every slot.
    tables
        The configuration tables.
    table_of
        Table of each job, shape (J,).
    release
        First slot of each job, shape (J,).
    limit
        Latest completion of each job in slots (deadline, horizon, or what a held peak allows),
        infinite if none, shape (J,).
    work
        Remaining work, shape (J,).
    weight
        Weights, shape (J,).
    lag
        Time from arrival to the start of the first slot, slots, shape (J,).
    started
        Jobs that run when the instance starts and may not pause, shape (J,).
    target
        What is asked of the completions.
    held
        Earlier levels of the goal, with the values that they must keep.
    """

    instance: Instance
    slot_s: float
    rows: CapacityRows
    tables: tuple[Table, ...]
    table_of: Index
    release: Index
    limit: Array
    work: Array
    weight: Array
    lag: Array
    started: npt.NDArray[np.bool_]
    target: Target
    held: tuple[Held, ...] = ()

    @property
    def num_jobs(self) -> int:
        """Number of jobs J."""
        return len(self.instance.jobs)

    def table(self, j: int) -> Table:
        """Return the table of job j."""
        return self.tables[int(self.table_of[j])]

    @cached_property
    def shortest(self) -> Array:
        """Least number of slots, a fraction included, in which each job can run, shape (J,)."""
        fastest = np.array([table.rate.max() for table in self.tables])
        return np.asarray(self.work / fastest[self.table_of])

    @cached_property
    def arrival(self) -> Array:
        """Arrivals, slots since the start, shape (J,)."""
        return self.release - self.lag

    @cached_property
    def area(self) -> Array:
        """Least use of each row times slots that each job takes, shape (J, R)."""
        per_work = [(table.use / table.rate[:, None]).min(axis=0) for table in self.tables]
        return np.array(per_work)[self.table_of] * self.work[:, None]

    def floors(self, begin: Array) -> tuple[float, ...]:
        """Return a value that no schedule goes below for each peak, jobs beginning at `begin`."""
        return tuple(
            peak_floor(peak, begin, self.shortest, self.area, self.rows.capacity)
            for peak in self.target.peaks
        )

    @cached_property
    def no_contention(self) -> float:
        """The objective if every job ran alone, peaks by the load: a bound in closed form."""
        level, floors = self.target.level, self.target.floors
        alone = float(level.jobs.at(self.release + self.shortest).sum())
        return (alone + sum(floors[: len(level.peaks)])) * self.slot_s

    def relimited(self, other: SlotData) -> SlotData:
        """Return other data of the instance with this target and these limits."""
        return replace(other, target=self.target, held=self.held, limit=self.limit)


def slot_data(
    instance: Instance,
    objective: str = "weighted_jct",
    held: Sequence[Held] = (),
    *,
    on_hosts: bool = False,
    keep_all: bool = False,
) -> SlotData:
    """Return an instance on its grid of slots.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    held
        Earlier levels of the goal.
    on_hosts
        Whether a configuration is dominated only by one that stands wherever it does.
    keep_all
        Whether dominated configurations stay: a constraint of one's own may forbid what dominates.

    Raises
    ------
    InstanceError
        If the instance has no slots, or no due dates where tardiness is asked for.
    UnsupportedFeatureError
        If a restart takes longer than a slot, or nobody knows whether a gang can run at all.
    """
    slot_s = require_slot(instance)
    target, latest = target_of(instance.jobs, objective, held, slot_s)
    quotas = quotas_of(instance)
    weigh = burden_on_hosts if on_hosts else burden
    rows = capacity_rows(instance.topology, [job.configurations for job in instance.jobs], quotas)
    tables: list[Table] = []
    index: dict[tuple[int, str | None, int | None, int | None], int] = {}
    table_of = []
    running = {assignment.job: assignment.configuration for assignment in instance.running}
    for job in instance.jobs:
        if job.restart_cost_s > slot_s:
            raise UnsupportedFeatureError(
                f'job "{job.id}": restart_cost_s {job.restart_cost_s:g} is longer than a slot '
                f"({slot_s:g} s), which the malleable formulation does not model; use longer slots."
            )
        owner = job.tenant if job.tenant in quotas else None
        before = running.get(job.id)
        if before is not None and job.arrival_s > 0:
            raise InstanceError(
                f'job "{job.id}": runs when the instance starts but arrives at '
                f"{job.arrival_s:g} s; set its arrival_s to 0."
            )
        # A moldable job that runs has made its choice; with a restart cost, any job may best stay.
        kept = before if job.elasticity != "malleable" else None
        stay = before if job.restart_cost_s > 0 else None
        key = (id(job.configurations), owner, kept, stay)
        if key not in index:
            use = rows.use(job.configurations, owner)
            rate = np.array([c.rate for c in job.configurations]) * slot_s
            fitting = fitting_configurations(instance.topology, rows, job.configurations, use)
            if kept is not None:
                fitting = fitting[fitting == kept]
            _require_places(instance, job, fitting)
            weighed = weigh([job.configurations[c] for c in fitting], use[fitting])
            order = use_order(weighed)
            useful = rate[fitting] > 0 if keep_all else pareto_front(order, rate[fitting])
            front = fitting[useful]
            if stay is not None and stay in fitting and rate[stay] > 0:
                front = np.union1d(front, [stay])
            if not len(front):
                raise ProvedInfeasible(_no_way(instance, job, kept))
            index[key] = len(tables)
            tables.append(Table(front, rate[front], use[front]))
        table_of.append(index[key])
    arrival = np.array([job.arrival_s for job in instance.jobs]) / slot_s
    release = np.ceil(arrival - _SLOT_TOLERANCE)
    horizon = math.inf if instance.horizon_s is None else instance.horizon_s
    limits = [
        min(math.inf if job.deadline_s is None else job.deadline_s, horizon)
        for job in instance.jobs
    ]
    data = SlotData(
        instance=instance,
        slot_s=slot_s,
        rows=rows,
        tables=tuple(tables),
        table_of=np.array(table_of, dtype=np.int64),
        release=release.astype(np.int64),
        limit=np.minimum(np.array(limits) / slot_s, latest),
        work=np.array([job.work_left for job in instance.jobs]),
        weight=np.array([job.weight for job in instance.jobs]),
        lag=release - arrival,
        started=np.array([j.id in running and not j.preemptible for j in instance.jobs]),
        target=target,
        held=tuple(held),
    )
    floors = data.floors(data.release.astype(float))
    return replace(data, target=replace(target, floors=floors))


def _require_places(instance: Instance, job: Job, configurations: npt.NDArray[np.int64]) -> None:
    """Refuse configurations that may stand nowhere: a schedule that waits for them has no end."""
    for c in configurations.tolist():
        if not surely_stands_alone(instance.topology, job.configurations[c]):
            raise UnsupportedFeatureError(
                f'job "{job.id}": expected configurations with a known placement on the empty '
                f"cluster, but configuration {c} has none that a search of limited length found, "
                "nor a proof that there is none; drop it, or give it fewer task groups."
            )


def _no_way(instance: Instance, job: Job, kept: int | None) -> str:
    """Say why a job has no configuration left."""
    if kept is not None:
        return (
            f'job "{job.id}" is {job.elasticity} and runs in configuration {kept}, in which it '
            "gets no work done within the capacity; pause it or make it malleable"
        )
    quota = next((t for t in instance.tenants if t.name == job.tenant), None)
    limit = "the cluster" if quota is None else f'the quota of tenant "{quota.name}"'
    return (
        f'job "{job.id}" exceeds {limit} in each of its configurations; raise the capacity or '
        "shrink the job"
    )
