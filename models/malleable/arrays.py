"""F2 as sparse arrays (matrix form): blocks of rows, one job after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from alloc.formulation import ArrayModel, BuiltModel
from alloc.model_builder import ModelBuilder, Term
from alloc.models.malleable.costs import LevelCosts
from alloc.models.malleable.data import Array, Index
from alloc.models.malleable.grid import Grid, Held, built_model, fractions, grid_of, idle_free
from alloc.objectives import Held as HeldLevel
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution

Terms = tuple[Index, Array, float]
"""Columns, their coefficients, and a constant."""


@dataclass(frozen=True)
class Columns:
    """Where a job's variables stand, as column positions.

    Parameters
    ----------
    x, v
        Shape (slots, configurations).
    u
        ``u_jt`` for the slot after each slot, shape (slots,); the first slot's is 1.
    e
        Shape (slots,).
    o
        The work left over.
    b, z
        Shape (slots,), empty without a restart cost.
    m
        Shape (configurations,), empty if the job may change its configuration.
    q
        The late part of what the due date splits, shape (1,); empty if it splits nothing.
    """

    x: Index
    v: Index
    u: Index
    e: Index
    o: int
    b: Index
    z: Index
    m: Index
    q: Index


_PER_JOB, _CAPACITY = "C1_to_C12_and_C14_per_job", "C8_capacity"
_GOAL, _HOSTS = "C15_peaks_and_C16_held", "C13_hosts"
"""Families of rows: those of one job after the other stand together, whatever their constraint."""


class _Builder:
    """Builds the arrays of a grid."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.model = ModelBuilder(_PER_JOB, _CAPACITY, _GOAL, _HOSTS)

    def columns(self, j: int) -> Columns:
        """Add the variables of a job."""
        grid, data = self.grid, self.grid.data
        slots, table = grid.slots(j), data.table(j)
        num, choices = len(slots), len(table.rate)
        restarts = num if grid.restart(j) > 0 else 0
        fixed = choices if data.instance.jobs[j].elasticity != "malleable" else 0
        stay = np.array([grid.longest_stay(j, t) for t in slots])
        after = np.ones(num)
        if num and not grid.may_run_over(j):
            after[-1] = 0.0  # finished by its limit
        over = float(data.work[j]) if grid.may_run_over(j) else 0.0
        rate = float(table.rate.max())
        add = self.model.columns
        return Columns(
            x=add((num, choices), 1.0),
            v=add((num, choices), 1.0, integer=False),
            u=add(num, after),
            e=add(num, stay, integer=False),
            o=int(add(1, over, integer=False)[0]),
            b=add(restarts, 1.0),
            z=add(restarts, 1.0, integer=False),
            m=add(fixed, 1.0),
            q=add(int(grid.split(j) is not None), max(over / rate, 1.0), integer=False),
        )

    def job(self, j: int, at: Columns) -> None:
        """Add the rows of a job, in the order of the page of mathematics."""
        grid, data, add = self.grid, self.grid.data, partial(self.model.rows, _PER_JOB)
        slots, rate, work = grid.slots(j), data.table(j).rate, float(data.work[j])
        num, choices = at.x.shape
        k = np.arange(num)
        row = k[:, None]
        add(1, [(0, at.v.ravel(), np.tile(rate, num)), (0, at.o, 1.0)], lower=work)  # (C1)
        before_one = np.where(k == 0, 1.0, 0.0)  # u of the first slot is the constant 1
        add(num, [(row, at.x, 1.0), (k[1:], at.u[:-1], -1.0)], upper=before_one)  # (C2)
        cells = np.arange(num * choices)
        add(
            len(cells), [(cells, at.v.ravel(), 1.0), (cells, at.x.ravel(), -1.0)], upper=0.0
        )  # (C3)
        add(num, [(k, at.u, 1.0), (k[1:], at.u[:-1], -1.0)], upper=before_one)  # (C4)
        add(num, [(k, at.e, 1.0), (k, at.u, -1.0)], lower=0.0)  # (C5)
        delta = grid.restart(j)
        pause = [(k, at.z, -delta)] if delta else []
        add(num, [(k, at.e, 1.0), (row, at.v, -1.0), *pause], lower=0.0)
        # (C6) sums over all earlier slots; written as a difference it would not be sparse either.
        earlier_row, earlier = np.tril_indices(num)
        columns = at.v[earlier]
        add(
            num,
            [
                (k, at.u, work),
                (np.broadcast_to(earlier_row[:, None], columns.shape), columns, rate),
            ],
            lower=work,
        )
        if num:
            add(1, [(0, at.o, 1.0), (0, at.u[-1], -work)], upper=0.0)  # (C7)
        mean = (np.array(slots)[:, None] - slots.start + 0.5) * rate / work
        over = 1 / float(rate.max()) - (slots.stop - slots.start) / work
        add(
            1,
            [(0, at.e, 1.0), (0, at.v.ravel(), -mean.ravel()), (0, at.o, over)],
            lower=grid.mean_busy_constant(j),
        )  # (C9)
        if delta:
            self._restarts(j, at, delta)
        if len(at.m):  # (C11)
            add(
                len(cells),
                [(cells, at.x.ravel(), 1.0), (cells, np.tile(at.m, num), -1.0)],
                upper=0.0,
            )
            add(1, [(0, at.m, 1.0)], upper=1.0)
        if not data.instance.jobs[j].preemptible:
            self._no_pause(j, at)
        if (split := grid.split(j)) is not None:
            position, early = split
            over_s = (0, at.o, -1.0 / float(rate.max()))
            last = over_s if position == num else (0, at.e[position], -1.0)
            add(1, [(0, at.q, 1.0), last], lower=-early)  # (C14)

    def _restarts(self, j: int, at: Columns, delta: float) -> None:
        add = partial(self.model.rows, _PER_JOB)
        num, choices = at.x.shape
        k = np.arange(num)
        row = k[:, None]
        add(num, [(row, at.v, 1.0), (row, at.x, -1.0), (k, at.z, delta)], upper=0.0)  # (C3)
        held, started = self.grid.held(j), float(self.grid.has_started(j))
        cells = np.arange(num * choices).reshape(num, choices)
        low = np.full((num, choices), -1.0)
        if num and held is not None:
            low[0, held] -= 1.0  # x of the slot before the first is the constant 1
        terms: list[Term] = [
            (cells, np.broadcast_to(at.z[:, None], cells.shape), 1.0),
            (cells, at.x, -1.0),
            (cells[1:], at.x[:-1], 1.0),
            (cells, np.broadcast_to(at.b[:, None], cells.shape), -1.0),
        ]
        add(cells.size, terms, lower=low.ravel())  # (C10)
        first = np.where(k == 0, started, 0.0)
        add(num, [(k, at.b, 1.0), (k[1:], at.b[:-1], -1.0)], lower=first)
        later = max(num - 1, 0)
        add(later, [(k[:-1], at.b[1:], 1.0), (row[:-1], at.x[:-1], -1.0)], lower=0.0)

    def _no_pause(self, j: int, at: Columns) -> None:
        num = len(at.x)
        later = max(num - 1, 0)
        k = np.arange(later)
        row = k[:, None]
        terms = [(row, at.x[1:], 1.0), (row, at.x[:-1], -1.0), (k, at.u[:-1], -1.0)]
        self.model.rows(_PER_JOB, later, terms, lower=-1.0)  # (C12)
        if num and self.grid.data.started[j]:
            self.model.row(_PER_JOB, [(at.x[0], 1.0)], lower=1.0)

    def capacity(self, columns: list[Columns]) -> None:
        """Add (C8): one row a slot and resource."""
        data = self.grid.data
        num_rows = len(data.rows.names)
        terms: list[Term] = []
        for j, at in enumerate(columns):
            use = data.table(j).use
            t = np.array(self.grid.slots(j), dtype=np.int64)
            for r in range(num_rows):
                touching = np.flatnonzero(use[:, r])
                if len(touching) and len(t):
                    terms.append(((t * num_rows + r)[:, None], at.x[:, touching], use[touching, r]))
        limit = np.tile(data.rows.capacity, self.grid.num_slots)
        scale = np.where(limit > 0, limit, 1.0)  # rows in units of their capacity
        scaled = [
            (row, col, np.broadcast_to(val, np.shape(col)) / scale[row]) for row, col, val in terms
        ]
        self.model.rows(_CAPACITY, len(limit), scaled, upper=limit / scale)

    def level(self, level: LevelCosts, columns: list[Columns], peaks: Index) -> Terms:
        """Return a level of the goal: columns, their coefficients, and a constant."""
        at, value, constant = [peaks], [np.ones(len(peaks))], 0.0
        for j, own in enumerate(columns):
            costs = self.grid.stay_costs(level.jobs, j)
            over = costs.over / self.fastest(j)
            at += [own.e, np.array([own.o]), own.q]
            value += [costs.each, np.array([over]), np.full(len(own.q), costs.late)]
            constant += costs.start
        return np.concatenate(at), np.concatenate(value), constant

    def peaks(self, columns: list[Columns]) -> Index:
        """Add a variable for every peak, and (C15): no job exceeds it."""
        grid, target = self.grid, self.grid.data.target
        last = np.array([grid.longest(j) for j in range(len(columns))])
        first = np.array([grid.slots(j).start for j in range(len(columns))], dtype=float)
        found = []
        for peak, floor in zip(target.peaks, target.floors, strict=True):
            top = max(float(peak.at(last).max()), floor)
            z = self.model.columns(1, top, floor, integer=False)
            found.append(z)
            begin = peak.at(first)
            for j, own in enumerate(columns):
                slope = float(peak.slope[j])
                over = (own.o, -slope / self.fastest(j))
                self.model.row(_GOAL, [(z, 1.0), (own.e, -slope), over], lower=begin[j])
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def held(self, columns: list[Columns], peaks: Index) -> None:
        """Add (C16): the earlier levels of the goal keep what they reached."""
        target = self.grid.data.target
        first = len(target.level.peaks)
        for level, limit in target.held:
            own = peaks[first : first + len(level.peaks)]
            first += len(level.peaks)
            at, value, constant = self.level(level, columns, own)
            # In units of its largest cost of a slot: what is held may be of any size, and solvers'
            # tolerances are absolute.
            unit = level.size
            self.model.row(_GOAL, [(at, value / unit)], upper=(limit - constant) / unit)

    def fastest(self, j: int) -> float:
        """Return the highest rate of a job."""
        return float(self.grid.data.table(j).rate.max())

    def hosts(self, columns: list[Columns]) -> None:
        """Add (C13): what the hosts do not hold together, after all other columns."""
        rows, switches = self.grid.conflict_rows
        y = self.model.columns(switches, 1.0)
        first = [self.grid.slots(j).start for j in range(len(columns))]
        for row in rows:
            at = [columns[j].x[t - first[j], c] for j, t, c in row.columns]
            at += [y[k] for k, _ in row.switches]
            value = [1.0] * len(row.columns) + [float(factor) for _, factor in row.switches]
            self.model.row(_HOSTS, zip(at, value, strict=True), upper=float(row.limit))


def array_model(grid: Grid) -> tuple[ArrayModel, list[Columns]]:
    """Return the mixed-integer program of a grid, and where its variables are."""
    builder = _Builder(grid)
    columns = [builder.columns(j) for j in range(grid.data.num_jobs)]
    for j, at in enumerate(columns):
        builder.job(j, at)
    builder.capacity(columns)
    peaks = builder.peaks(columns)
    builder.held(columns, peaks)
    builder.hosts(columns)
    slot_s, target = grid.data.slot_s, grid.data.target
    cost = np.zeros(builder.model.num_columns)
    own = peaks[: len(target.level.peaks)]
    positions, values, constant = builder.level(target.level, columns, own)
    cost[positions] = values * slot_s
    model = builder.model.model("min", constant * slot_s, cost=cost)
    return model, columns


def held_columns(grid: Grid, columns: list[Columns], values: Array) -> Iterator[Held]:
    """Yield (job, slot, column) for every x that is 1.

    Parameters
    ----------
    grid
        The slots of every job.
    columns
        Positions of the variables of each job, in the order of the jobs.
    values
        Values of all variables, shape (columns of the model,).
    """
    for j, at in enumerate(columns):
        for k, c in np.argwhere(values[at.x] > 0.5):
            yield j, int(k) + grid.slots(j).start, int(c)


def start_values(grid: Grid, columns: list[Columns], size: int, solution: Solution) -> Array | None:
    """Return the variables of a schedule, or None if it is not one of this grid.

    Parameters
    ----------
    grid
        The slots of every job.
    columns
        Positions of the variables of each job, in the order of the jobs.
    size
        Number of variables of the model.
    solution
        What to start from.
    """
    plan = grid.profiles(solution)
    if plan is None or any(len(at.z) for at in columns):
        return None
    values = np.zeros(size)
    values[size - grid.conflict_rows[1] - len(grid.data.target.peaks) :] = np.nan
    for j, profile in plan.items():
        at, first = columns[j], grid.slots(j).start
        stay = fractions(grid, j, profile)
        values[at.e] = stay
        values[at.q] = np.nan
        values[at.u] = profile.completion > np.array(grid.slots(j)) + 1 + 1e-9
        for offset, c in idle_free(profile.choice):
            k = profile.start + offset - first
            values[at.x[k, c]] = 1.0
            values[at.v[k, c]] = stay[k]
            if len(at.m):
                values[at.m[c]] = 1.0
    return values


def build_arrays(
    instance: Instance,
    objective: str,
    held: Sequence[HeldLevel] = (),
    num_slots: int | None = None,
) -> BuiltModel:
    """Build an instance as arrays, over a number of slots or one chosen from its load.

    Parameters
    ----------
    instance
        Needs a slot.
    objective
        A level of a goal of schedules, as `alloc.objectives.parse_level` reads it.
    held
        Earlier levels of the goal, with the values that they must keep.
    num_slots
        Slots of the model, 1 or more; None for as many as good schedules need.
    """
    return build_grid(grid_of(instance, num_slots, objective=objective, held=held))


def build_grid(grid: Grid) -> BuiltModel:
    """Build a grid as arrays."""
    model, columns = array_model(grid)

    def held(values: Array) -> Iterator[Held]:
        return held_columns(grid, columns, values)

    def start(solution: Solution) -> Array | None:
        return start_values(grid, columns, len(model.cost), solution)

    return built_model(grid, model, held, start, build_grid)
