"""The grid of the time-indexed models: the slots of each job, and the way back to schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from alloc.formulation import ArrayModel, BuiltModel, CpSatModel, PyomoModel
from alloc.models.host_conflicts import Conflict, Hosts, Row, conflict_rows, kind_of, with_new
from alloc.models.malleable.costs import JobCosts
from alloc.models.malleable.data import Array, Index, SlotData, slot_data
from alloc.models.malleable.placing import place_plan, plan_of, profile_of_choices
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.objectives import Held as HeldLevel
from alloc.objectives import is_kept
from alloc.packing import MAX_STEPS, Steps
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.workload import Configuration

Held = tuple[int, int, int]
"""A job, a slot, and the column that it holds there."""


@dataclass(frozen=True)
class StayCosts:
    """What a job's completion costs, as a sum over the slots in which it is unfinished.

    ``start + sum_t each_t e_t + over o + late q`` with e_t the fraction of its slot t in which it
    is unfinished, o the slots it takes after the last one, and q the late part of the slot in which
    its due date lies, or of o.

    Parameters
    ----------
    start
        Cost of completing where its first slot begins.
    each
        Cost of each of its slots, shape (slots,).
    over
        Cost of a slot after the last one.
    late
        Cost of a slot of q, where there is one (`Grid.split`).
    """

    start: float
    each: Array
    over: float
    late: float


@dataclass(frozen=True)
class Grid:
    """The slots of every job in a time-indexed model.

    Parameters
    ----------
    data
        The instance on its slots.
    num_slots
        Slots of the model; the last one is ``num_slots - 1``.
    conflicts
        What the hosts do not hold together in any slot, as far as it is known.
    """

    data: SlotData
    num_slots: int
    conflicts: tuple[Conflict, ...] = ()

    @cached_property
    def end(self) -> Index:
        """For each job, the slot after its last one, shape (J,)."""
        limit = np.where(np.isfinite(self.data.limit), self.data.limit, np.inf)
        last = np.minimum(np.ceil(limit - 1e-9), self.num_slots)
        return np.maximum(last, self.data.release).astype(np.int64)

    def slots(self, j: int) -> range:
        """Return the slots of job j."""
        return range(int(self.data.release[j]), int(self.end[j]))

    @property
    def num_choices(self) -> int:
        """Number of choices (job, slot, configuration), each a column of a time-indexed model."""
        widths = [len(self.data.table(j).rate) for j in range(self.data.num_jobs)]
        return int((self.end - self.data.release) @ np.array(widths, dtype=np.int64))

    def may_run_over(self, j: int) -> bool:
        """Return whether job j may leave work over after its last slot."""
        return bool(self.data.limit[j] > self.num_slots)

    def longest_stay(self, j: int, t: int) -> float:
        """Return the largest fraction of slot t that job j may stay unfinished in.

        Parameters
        ----------
        j
            Position of the job.
        t
            A slot of the job, before its limit.
        """
        return float(min(1.0, self.data.limit[j] - t))

    def restart(self, j: int) -> float:
        """Return the restart cost of job j in slots."""
        return self.data.instance.jobs[j].restart_cost_s / self.data.slot_s

    def held(self, j: int) -> int | None:
        """Return the column in which job j may go on from before the start, or None.

        Where its hosts are not said, no hosts are the same ones: it pays for a restart.
        """
        job = self.data.instance.jobs[j]
        for assignment in self.data.instance.running:
            if assignment.job == job.id and assignment.tasks and self.data.release[j] == 0:
                return self.data.table(j).column_of.get(assignment.configuration)
        return None

    def has_started(self, j: int) -> bool:
        """Return whether job j has run before the start."""
        job = self.data.instance.jobs[j]
        return job.work_done > 0 or any(a.job == job.id for a in self.data.instance.running)

    def mean_busy_constant(self, j: int) -> float:
        """Return ``p / 2 - 1 / (8 p)`` of (C9)."""
        shortest = float(self.data.shortest[j])
        return shortest / 2 - 1 / (8 * shortest)

    def stay_costs(self, costs: JobCosts, j: int) -> StayCosts:
        """Return the costs of a job's completion as a sum over its slots.

        Parameters
        ----------
        costs
            What completions cost, of all jobs.
        j
            Position of the job.
        """
        slots, due, late = self.slots(j), float(costs.due[j]), float(costs.late[j])
        if not late:
            due = math.inf
        each = np.full(len(slots), float(costs.rate[j]))
        each[np.array(slots, dtype=float) >= due] += late
        over = float(costs.rate[j]) + (late if slots.stop >= due else 0.0)
        return StayCosts(costs.of(j, float(slots.start)), each, over, late)

    def split(self, j: int) -> tuple[int, float] | None:
        """Return where the due date of job j splits a slot, and how much of it is not late.

        Where: its position among the job's slots, their number for what is left over. None where
        the due date counts for nothing, splits no slot, or nothing is left over by then.
        """
        target, slots = self.data.target, self.slots(j)
        levels = (target.level, *(level for level, _ in target.held))
        due = float(target.costs.due[j])
        if not any(level.jobs.late[j] for level in levels):
            return None
        if slots.start < due < slots.stop and due % 1:
            return (int(due) - slots.start, due % 1)
        if slots.stop < due < slots.stop + float(self.data.shortest[j]) and self.may_run_over(j):
            return (len(slots), due - slots.stop)
        return None

    def longest(self, j: int) -> float:
        """Return the latest completion of job j in the model, work left over included, slots."""
        end = float(self.slots(j).stop)
        return end + (float(self.data.shortest[j]) if self.may_run_over(j) else 0.0)

    @cached_property
    def conflict_rows(self) -> tuple[list[Row[Held]], int]:
        """The rows that forbid the conflicts in every slot, and how many binaries they need."""
        data = self.data
        kinds = (
            [
                [kind_of(job.configurations[c]) for c in data.table(j).configuration]
                for j, job in enumerate(data.instance.jobs)
            ]
            if self.conflicts
            else []
        )
        return conflict_rows(
            conflict.parts(
                ((j, t, c), kind, j, 1)
                for j, own in enumerate(kinds)
                if t in self.slots(j)
                for c, kind in enumerate(own)
            )
            for conflict in self.conflicts
            for t in range(self.num_slots)
        )

    def plan(self, held: Iterable[Held], jobs: Iterable[int] | None = None) -> dict[int, Profile]:
        """Return the profiles of jobs that hold columns, of all jobs or of those that run.

        Parameters
        ----------
        held
            (job, slot, column) of everything that jobs hold.
        jobs
            Positions of the jobs that run; None for all.
        """
        every = range(self.data.num_jobs)
        choices: dict[int, dict[int, int]] = {j: {} for j in (every if jobs is None else jobs)}
        for j, t, c in held:
            if j in choices:
                choices[j][t] = c
        return {
            j: profile_of_choices(self.data, j, choice) or self._run_over(j, choice)
            for j, choice in choices.items()
        }

    def schedule(self, held: Iterable[Held]) -> Schedule | None:
        """Return the schedule in which jobs hold columns, on hosts where they stand there.

        None where it takes so long on hosts that an earlier level of the goal is not kept.
        """
        found = place_plan(self.data, self.plan(held), Steps(MAX_STEPS))
        return found if is_kept(self.data.instance, found, self.data.held) else None

    def refined(self, held: Iterable[Held], jobs: Iterable[int] | None = None) -> Grid | None:
        """Return a grid that does not allow what jobs hold, None if it can be carried out.

        All jobs run, or those that are given. It has more conflicts where the hosts do not hold a
        slot, and more slots where a job leaves work over (`alloc.formulation.BuiltModel.refine`).

        Parameters
        ----------
        held
            (job, slot, column) of everything that jobs hold in a solution.
        jobs
            Positions of the jobs that run; None for all.
        """
        plan = self.plan(held, jobs)
        hosts = Hosts(self.data.instance.topology)
        found: dict[Conflict, None] = {}
        for t in range(self.num_slots):
            conflict = hosts.conflict(self._gangs(plan, t))
            if conflict is not None:
                found[conflict] = None
        if found:
            data = self.data.relimited(slot_data(self.data.instance, on_hosts=True))
            return Grid(data, self.num_slots, with_new(self.conflicts, found))
        end = max((p.start + len(p.choice) for p in plan.values()), default=0)
        return replace(self, num_slots=2 * end) if end > self.num_slots else None

    def _gangs(self, plan: Mapping[int, Profile], t: int) -> list[Configuration]:
        """Return the gangs that run in a slot of a plan."""
        found = []
        for j, profile in plan.items():
            c = dict(enumerate(profile.choice, profile.start)).get(t, IDLE)
            if c != IDLE:
                own = int(self.data.table(j).configuration[c])
                found.append(self.data.instance.jobs[j].configurations[own])
        return found

    def _run_over(self, j: int, choice: dict[int, int]) -> Profile:
        """Return the profile of a job that leaves work over: it goes on in its fastest way."""
        fastest = int(self.data.table(j).rate.argmax())
        longer = dict(choice)
        t = max(self.num_slots, int(self.data.release[j]))
        while True:
            longer[t] = fastest
            profile = profile_of_choices(self.data, j, longer)
            if profile is not None:
                return profile
            t += 1

    def profiles(self, solution: Solution) -> dict[int, Profile] | None:
        """Return the profiles of a warm start, or None if it does not lie on the grid."""
        plan = plan_of(self.data, solution) if isinstance(solution, Schedule) else None
        if plan is None:
            return None
        inside = all(p.start + len(p.choice) <= self.end[j] for j, p in plan.items())
        return plan if inside else None


def built_model(
    grid: Grid,
    model: ArrayModel | CpSatModel | PyomoModel,
    held: Callable[[Array], Iterable[Held]],
    start: Callable[[Solution], Array | None] | None,
    build: Callable[[Grid], BuiltModel],
) -> BuiltModel:
    """Return a built model of a grid, with the way back, and on to tighter models.

    Parameters
    ----------
    grid
        The grid.
    model
        Its model.
    held
        Returns what jobs hold by the values of the model.
    start
        As in `alloc.formulation.BuiltModel`.
    build
        Builds the model of another grid in the same way.
    """

    def refine(values: Array) -> BuiltModel | None:
        tighter = grid.refined(held(values))
        return None if tighter is None else build(tighter)

    return BuiltModel(model, lambda values: grid.schedule(held(values)), start, refine)


def grid_of(
    instance: Instance,
    num_slots: int | None = None,
    *,
    keep_all: bool = False,
    objective: str = "weighted_jct",
    held: Sequence[HeldLevel] = (),
) -> Grid:
    """Return the grid of an instance.

    Without a number of slots it is one that good schedules hardly exceed: the releases, the largest
    total area of any capacity row and the longest job together. A last limit that is not far beyond
    that is the end. Dominated configurations stay where all are kept.

    Parameters
    ----------
    instance
        Needs a slot.
    num_slots
        Slots of the model, 1 or more, or None.
    keep_all
        Whether dominated configurations stay.
    objective
        A level of a goal of schedules, as `alloc.objectives.parse_level` reads it.
    held
        Earlier levels of the goal, with the values that they must keep.
    """
    data = slot_data(instance, objective, held, keep_all=keep_all)
    if num_slots is None:
        capacity = np.where(data.rows.capacity > 0, data.rows.capacity, np.inf)
        load = float((data.area.sum(axis=0) / capacity).max())
        restarts = sum(job.restart_cost_s > 0 for job in instance.jobs)
        serial = float(np.ceil(data.shortest).sum()) + restarts
        stay = min(1.5 * load + 2 * float(np.ceil(data.shortest).max()) + 2, serial)
        num_slots = int(data.release.max()) + math.ceil(stay) + 1
        if np.isfinite(data.limit).all():
            last = math.ceil(float(data.limit.max()) - 1e-9)
            num_slots = last if last <= 2 * num_slots else num_slots
    return Grid(data, num_slots)


def idle_free(choice: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return (offset, column) of the slots in which a profile runs."""
    return [(k, c) for k, c in enumerate(choice) if c != IDLE]


def fractions(grid: Grid, j: int, profile: Profile) -> Array:
    """Return the fraction of each slot of job j in which it is unfinished, shape (slots,).

    Parameters
    ----------
    grid
        The slots of every job.
    j
        Position of the job.
    profile
        What the job runs in, slot by slot.
    """
    ts = np.array(grid.slots(j), dtype=float)
    return np.clip(profile.completion - ts, 0.0, 1.0)
