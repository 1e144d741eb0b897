"""The data of F6: the slots of F2, which jobs may be refused, and the levels of the goal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import ProvedInfeasible
from alloc.models.malleable.data import Array, Index
from alloc.models.malleable.grid import Grid, Held, grid_of
from alloc.models.malleable.placing import place_plan
from alloc.objectives import Held as HeldLevel
from alloc.objectives import WeightedSum, is_best_effort, is_kept, parse_level, without_late
from alloc.packing import MAX_STEPS, Steps, which_stand_alone
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.progress import WORK_TOLERANCE
from alloc.units import MILLI
from alloc.workload import Job

MAX_CHOICES = 3_000_000
"""Choices (job, slot, configuration) of a program: more do not fit into a few GB as arrays."""
_OTHERS = "no better plan was found in which it is complete in time"


@dataclass(frozen=True)
class AdmissionData:
    """An instance of F6 on its grid of slots.

    Parameters
    ----------
    instance
        The instance as it was asked.
    grid
        Its grid, as in F2; it reaches to the last limit.
    hopeless
        For jobs that may be refused and miss their limit even alone, the reason, by position.
    level
        The level of the goal.
    held
        Earlier levels of the goal, with the values that they must keep.
    """

    instance: Instance
    grid: Grid
    hopeless: Mapping[int, str]
    level: WeightedSum
    held: tuple[HeldLevel, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs."""
        return self.instance.jobs

    @cached_property
    def best_effort(self) -> tuple[bool, ...]:
        """Which jobs are best effort."""
        return tuple(map(is_best_effort, self.jobs))

    @cached_property
    def need(self) -> Array:
        """Work that counts as all of each job's, shape (J,)."""
        whole = np.array([job.work for job in self.jobs])
        need: Array = self.grid.data.work - WORK_TOLERANCE * whole
        return need

    @cached_property
    def gpus(self) -> tuple[Array, ...]:
        """GPUs of the configurations of each job's table, one array a job."""
        found = []
        for j, job in enumerate(self.jobs):
            own = self.grid.data.table(j).configuration.tolist()
            found.append(np.array([job.configurations[c].demand[0] / MILLI for c in own]))
        return tuple(found)

    def slots(self, j: int) -> range:
        """Return the slots of job j; none of one that is hopeless."""
        slots = self.grid.slots(j)
        return range(slots.start, slots.start) if j in self.hopeless else slots

    def usable(self, j: int) -> Array:
        """Return f_jt, the part of each slot of job j that lies before its limit."""
        t = np.array(self.slots(j), dtype=float)
        part: Array = np.clip(float(self.grid.data.limit[j]) - t, 0.0, 1.0)
        return part

    def accepts(self, j: int) -> tuple[float, float]:
        """Return the least and largest value of a_j."""
        return (0.0 if self.jobs[j].refusable else 1.0), (0.0 if j in self.hopeless else 1.0)

    @property
    def slot_h(self) -> float:
        """Length of a slot, hours."""
        return self.grid.data.slot_s / 3600.0

    def schedule(self, held: Iterable[Held], accepted: Iterable[int]) -> Schedule | None:
        """Return the schedule of accepted jobs, on hosts; what is late there is refused after all.

        None where an earlier level of the goal is not kept without it.

        Parameters
        ----------
        held
            What jobs hold.
        accepted
            Positions of the jobs that run, best-effort jobs included.
        """
        plan = self.grid.plan(held, accepted)
        found = self.answer(place_plan(self.grid.data, plan, Steps(MAX_STEPS)))
        return found if is_kept(self.instance, found, self.held) else None

    def answer(self, schedule: Schedule) -> Schedule:
        """Return a schedule without the jobs that may be refused and miss their limit in it."""
        reasons = {self.jobs[j].id: reason for j, reason in self.hopeless.items()}
        return without_late(self.instance, Schedule(schedule.runs), _OTHERS, reasons)

    def refined(self, held: Iterable[Held], accepted: Iterable[int]) -> AdmissionData | None:
        """Return data that do not allow what jobs hold; None if it can be carried out.

        Parameters
        ----------
        held
            (job, slot, column) of everything that jobs hold in a solution.
        accepted
            Positions of the jobs that this solution accepts.
        """
        choices = list(held)
        complete = [
            j
            for j, profile in self.grid.plan(choices, accepted).items()
            if self.best_effort[j] or profile.start + len(profile.choice) <= self.grid.end[j]
        ]
        tighter = self.grid.refined(choices, complete)
        return None if tighter is None else replace(self, grid=tighter)

    @cached_property
    def flow_cuts(self) -> list[tuple[Index, Array, float]]:
        """The rows (C8): positions of jobs, their coefficients, and the limit.

        Of intervals from a release to a limit, those that accepting every job would break; the
        `_MAX_CUTS` most broken ones.
        """
        grid = self.grid
        own = [j for j in range(len(self.jobs)) if not self.best_effort[j] and self.slots(j)]
        if not own:
            return []
        begins = _spread({self.slots(j).start for j in own})
        ends = _spread({self.slots(j).stop for j in own})
        start = np.array([self.slots(j).start for j in own])
        stop = np.array([self.slots(j).stop for j in own])
        last = np.array([float(self.usable(j)[-1]) for j in own])
        rate = np.array([float(grid.data.table(j).rate.max()) for j in own])
        total = stop - start - 1 + last
        rows = grid.data.rows.capacity
        tables = [grid.data.table(j) for j in own]
        per_work = np.array([(t.use / t.rate[:, None]).min(axis=0) for t in tables])
        found: list[tuple[float, Index, Array, float]] = []
        for begin in begins:
            for end in (e for e in ends if e > begin):
                # Slots of each job inside, its last one as far as it is usable.
                inside = np.maximum(np.minimum(stop, end) - np.maximum(start, begin), 0.0)
                inside -= np.where((stop <= end) & (stop > begin), 1 - last, 0.0)
                left = np.maximum(self.need[own] - rate * (total - inside), 0.0)
                limit = rows * (end - begin)
                area = left[:, None] * per_work
                for r in np.flatnonzero(area.sum(axis=0) > limit):
                    touching = np.flatnonzero(area[:, r])
                    at = np.array(own, dtype=np.int64)[touching]
                    over = float(area[:, r].sum() / max(limit[r], 1e-12))
                    found.append((over, at, area[touching, r], float(limit[r])))
        found.sort(key=lambda cut: -cut[0])
        return [(at, area, limit) for _, at, area, limit in found[:_MAX_CUTS]]


_MAX_CUTS = 100
"""Rows of (C8): the solver makes its covers of few rows."""
_MAX_ENDS = 25
"""Releases, and limits, of the intervals of (C8): their pairs grow with the square."""


def _spread(moments: set[int]) -> list[int]:
    """Return some of the moments, spread over all of them."""
    ordered = sorted(moments)
    if len(ordered) <= _MAX_ENDS:
        return ordered
    return [ordered[k] for k in np.linspace(0, len(ordered) - 1, _MAX_ENDS).astype(int)]


def admission_data(
    instance: Instance,
    objective: str = "value",
    held: Sequence[HeldLevel] = (),
    *,
    keep_all: bool = False,
) -> AdmissionData:
    """Return an instance of F6 on its grid of slots.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    held
        Earlier levels of the goal.
    keep_all
        Whether dominated configurations stay: a constraint of one's own may forbid what dominates.

    Raises
    ------
    InstanceError
        If the instance has no slots.
    UnsupportedFeatureError
        If a restart takes longer than a slot, nobody knows whether a gang can run at all, or the
        limits lie more slots ahead than a program can hold.
    ProvedInfeasible
        If a job that may not be refused misses its limit even alone.
    """
    hopeless = {
        j: reason
        for j, job in enumerate(instance.jobs)
        if (reason := _over_quota(instance, job)) is not None
    }
    # The grid holds every job; what no quota lets run is fixed to be refused.
    asked = instance
    if hopeless:
        jobs = [
            job.replace(tenant=None) if j in hopeless else job
            for j, job in enumerate(instance.jobs)
        ]
        asked = instance.replace(jobs=tuple(jobs))
    grid = grid_of(asked, keep_all=keep_all)
    limits = grid.data.limit[np.isfinite(grid.data.limit)]
    last = math.ceil(float(limits.max(initial=0.0)) - 1e-9)
    if not all(map(is_best_effort, instance.jobs)):
        last = max(last, grid.num_slots) if any(map(is_best_effort, instance.jobs)) else last
        grid = replace(grid, num_slots=max(last, 1))
    if grid.num_choices > MAX_CHOICES:
        raise UnsupportedFeatureError(
            f'instance "{instance.name}": its limits leave {grid.num_choices:,} choices of job, '
            f"slot and configuration, more than the {MAX_CHOICES:,} that a program may have; take "
            "longer slots, or admit fewer jobs at a time."
        )
    for j, job in enumerate(instance.jobs):
        late = None if j in hopeless or is_best_effort(job) else _too_late(grid, j)
        if late is None:
            continue
        if not job.refusable:
            raise ProvedInfeasible(f"{late}; it may not be refused: move its limit, or let it be")
        hopeless[j] = late
    return AdmissionData(instance, grid, hopeless, parse_level(objective), tuple(held))


def _over_quota(instance: Instance, job: Job) -> str | None:
    """Return why the quota of a job that may be refused holds none of its configurations."""
    quota = next((t.gpu_quota_milli for t in instance.tenants if t.name == job.tenant), None)
    if quota is None or not job.refusable:
        return None
    # Of those that no hosts hold a smaller one is of no help.
    useful = [c for c in job.configurations if c.rate > 0]
    able = which_stand_alone(instance.topology, useful)
    least = min((c.demand[0] for c, runs in zip(useful, able, strict=True) if runs), default=0)
    if least <= quota:
        return None
    return (
        f'job "{job.id}" needs at least {least / MILLI:g} GPUs, and the quota of tenant '
        f'"{job.tenant}" is {quota / MILLI:g}'
    )


def _too_late(grid: Grid, j: int) -> str | None:
    """Return why a job misses its limit even alone on the cluster, or None."""
    data = grid.data
    job, limit = data.instance.jobs[j], float(data.limit[j])
    earliest = float(data.release[j] + data.shortest[j])
    if earliest <= limit + 1e-9:
        return None
    return (
        f'job "{job.id}" completes at {earliest * data.slot_s:g} s at the earliest, alone on the '
        f"cluster, and must by {limit * data.slot_s:g} s"
    )
