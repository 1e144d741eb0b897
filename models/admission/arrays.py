"""F6 as sparse arrays (matrix form)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from alloc.formulation import ArrayModel, BuiltModel
from alloc.model_builder import ModelBuilder, Term
from alloc.models.admission.data import AdmissionData, admission_data
from alloc.models.malleable.data import Array, Index
from alloc.models.malleable.grid import Held
from alloc.models.malleable.profiles import IDLE
from alloc.objectives import Held as HeldLevel
from alloc.objectives import WeightedSum
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution

_WORK, _WAY, _CAPACITY = "C1_work", "C2_one_way", "C3_capacity"
_CHOICE, _PAUSE, _RESTART = "C4_one_choice", "C5_no_pause", "C6_restarts"
_EFFORT, _FLOW, _HOSTS, _HELD = "C7_best_effort", "C8_flow_cuts", "C9_hosts", "C10_held"


@dataclass(frozen=True)
class Columns:
    """Where a job's variables stand, as column positions.

    Parameters
    ----------
    a
        Whether it is accepted.
    x
        Shape (slots, configurations).
    z
        Shape (slots, configurations), no slots without a restart cost.
    e
        Shape (slots,), empty unless it is best effort.
    o
        The work left over, shape (1,), empty unless it is best effort.
    """

    a: int
    x: Index
    z: Index
    e: Index
    o: Index


class _Builder:
    """Builds the arrays of an admission."""

    def __init__(self, data: AdmissionData) -> None:
        self.data, self.grid = data, data.grid
        self.model = ModelBuilder(
            _WORK, _WAY, _CAPACITY, _CHOICE, _PAUSE, _RESTART, _EFFORT, _FLOW, _HOSTS, _HELD
        )

    def job(self, j: int) -> Columns:
        """Add the variables and the rows of a job."""
        data, add = self.data, self.model.columns
        slots, rate = data.slots(j), self.grid.data.table(j).rate
        num, choices = len(slots), len(rate)
        least, most = data.accepts(j)
        delta = self.grid.restart(j)
        timed = num if data.best_effort[j] else 0
        at = Columns(
            a=int(add(1, most, least)[0]),
            x=add((num, choices), 1.0),
            z=add((num if delta else 0, choices), 1.0, integer=False),
            e=add(
                timed,
                np.array([self.grid.longest_stay(j, t) for t in slots[:timed]]),
                0.0,
                integer=False,
            ),
            o=add(1, 1.0 if self.grid.may_run_over(j) else 0.0, integer=False)
            if timed
            else np.zeros(0, dtype=np.int64),
        )
        k = np.arange(num)
        self.model.rows(
            _WAY, num, [(k[:, None], at.x, 1.0), (k, np.full(num, at.a), -1.0)], upper=0.0
        )
        if delta and num:
            self._restarts(j, at)
        if data.best_effort[j]:
            self._best_effort(j, at, delta)
        else:
            self._work(j, at, delta)
        job = data.jobs[j]
        if job.elasticity != "malleable" and num:
            m = add(choices, 1.0)
            cells = np.arange(num * choices)
            terms: list[Term] = [(cells, at.x.ravel(), 1.0), (cells, np.tile(m, num), -1.0)]
            self.model.rows(_CHOICE, len(cells), terms, upper=0.0)
            self.model.row(_CHOICE, [(m, 1.0), (at.a, -1.0)], upper=0.0)
        if not job.preemptible and num:
            s = add(num, 1.0, integer=False)
            terms = [(k, s, 1.0), (k[:, None], at.x, -1.0), (k[1:, None], at.x[:-1], 1.0)]
            self.model.rows(_PAUSE, num, terms, lower=0.0)
            self.model.row(_PAUSE, [(s, 1.0), (at.a, -1.0)], upper=0.0)
            if self.grid.data.started[j]:
                self.model.row(_PAUSE, [(at.x[0], 1.0)], lower=1.0)
        return at

    def _work(self, j: int, at: Columns, delta: float) -> None:
        """Add (C1), in units of the job's work."""
        rate, usable = self.grid.data.table(j).rate, self.data.usable(j)
        work, need = float(self.grid.data.work[j]), float(self.data.need[j])
        done = np.outer(usable, rate) / work
        terms: list[tuple[Index | int, Array | float]] = [(at.a, -need / work)]
        if delta:
            lost = np.outer(np.minimum(delta, usable), rate) / work
            terms.append((at.z.ravel(), -lost.ravel()))
        else:
            # A slot that does more than all of the work does no more than that.
            done = np.minimum(done, 1.0)
        self.model.row(_WORK, [*terms, (at.x.ravel(), done.ravel())], lower=0.0)

    def _restarts(self, j: int, at: Columns) -> None:
        add = partial(self.model.rows, _RESTART)
        num, choices = at.x.shape
        b = self.model.columns(num, 1.0)
        k = np.arange(num)
        held, started = self.grid.held(j), float(self.grid.has_started(j))
        cells = np.arange(num * choices).reshape(num, choices)
        low = np.full((num, choices), -1.0)
        if held is not None:
            low[0, held] -= 1.0  # x of the slot before the first is the constant 1
        terms: list[Term] = [
            (cells, at.z, 1.0),
            (cells, at.x, -1.0),
            (cells[1:], at.x[:-1], 1.0),
            (cells, np.broadcast_to(b[:, None], cells.shape), -1.0),
        ]
        add(cells.size, terms, lower=low.ravel())
        add(num, [(k, b, 1.0), (k[1:], b[:-1], -1.0)], lower=np.where(k == 0, started, 0.0))
        add(num - 1, [(k[:-1], b[1:], 1.0), (k[:-1, None], at.x[:-1], -1.0)], lower=0.0)

    def _best_effort(self, j: int, at: Columns, delta: float) -> None:
        """Add (C7): when a job completes, o in units of its work."""
        add = partial(self.model.rows, _EFFORT)
        rate, work = self.grid.data.table(j).rate, float(self.grid.data.work[j])
        num, choices = at.x.shape
        after = np.ones(num)
        if num and not self.grid.may_run_over(j):
            after[-1] = 0.0  # finished by its limit
        v = self.model.columns((num, choices), 1.0, integer=False)
        u = self.model.columns(num, after)
        k = np.arange(num)
        row = k[:, None]
        need = float(self.data.need[j]) / work
        add(1, [(0, v.ravel(), np.tile(rate / work, num)), (0, at.o, 1.0)], lower=need)
        before_one = np.where(k == 0, 1.0, 0.0)  # u before the first slot is the constant 1
        add(num, [(row, at.x, 1.0), (k[1:], u[:-1], -1.0)], upper=before_one)
        cells = np.arange(num * choices)
        add(len(cells), [(cells, v.ravel(), 1.0), (cells, at.x.ravel(), -1.0)], upper=0.0)
        add(num, [(k, u, 1.0), (k[1:], u[:-1], -1.0)], upper=before_one)
        add(num, [(k, at.e, 1.0), (k, u, -1.0)], lower=0.0)
        pause: list[Term] = [(row, at.z, -delta)] if delta else []
        add(num, [(k, at.e, 1.0), (row, v, -1.0), *pause], lower=0.0)
        if delta:
            waiting: list[Term] = [(row, at.z, delta)]
            add(num, [(row, v, 1.0), (row, at.x, -1.0), *waiting], upper=0.0)
        if num:
            add(1, [(0, at.o, 1.0), (0, u[-1], -1.0)], upper=0.0)
        if not self.data.jobs[j].preemptible and num:
            # What is left over does not let it stop.
            going: list[Term] = [(k[:-1, None], at.x[1:], 1.0), (k[:-1, None], at.x[:-1], -1.0)]
            add(num - 1, [*going, (k[:-1], u[:-1], -1.0)], lower=-1.0)

    def capacity(self, columns: list[Columns]) -> None:
        """Add (C3) in units of each capacity, and (C8)."""
        rows = self.grid.data.rows
        num_rows = len(rows.names)
        limit = np.tile(rows.capacity, self.grid.num_slots)
        scale = np.where(limit > 0, limit, 1.0)
        terms: list[Term] = []
        for j, at in enumerate(columns):
            use, t = self.grid.data.table(j).use, np.array(self.data.slots(j), dtype=np.int64)
            for r in range(num_rows):
                touching = np.flatnonzero(use[:, r])
                if len(touching) and len(t):
                    row = np.broadcast_to((t * num_rows + r)[:, None], (len(t), len(touching)))
                    terms.append((row, at.x[:, touching], use[touching, r] / scale[row]))
        self.model.rows(_CAPACITY, len(limit), terms, upper=limit / scale)
        for jobs, area, most in self.data.flow_cuts:
            unit = most or 1.0
            own = np.array([columns[j].a for j in jobs.tolist()], dtype=np.int64)
            self.model.row(_FLOW, [(own, area / unit)], upper=most / unit)

    def hosts(self, columns: list[Columns]) -> None:
        """Add (C9)."""
        rows, switches = self.grid.conflict_rows
        y = self.model.columns(switches, 1.0)
        first = [self.grid.slots(j).start for j in range(len(columns))]
        for row in rows:
            held = [(columns[j].x, t - first[j], c) for j, t, c in row.columns]
            at = [x[k, c] for x, k, c in held if k < len(x)]
            at += [y[k] for k, _ in row.switches]
            value = [1.0] * (len(at) - len(row.switches))
            value += [float(factor) for _, factor in row.switches]
            self.model.row(_HOSTS, zip(at, value, strict=True), upper=float(row.limit))

    def level(self, level: WeightedSum, columns: list[Columns]) -> tuple[Array, float]:
        """Return the coefficients of a level, shape (columns so far,), and its constant."""
        cost, constant = np.zeros(self.model.num_columns), 0.0
        slot_s = self.grid.data.slot_s
        for factor, term in level.terms:
            sign = factor if term.sense == level.sense else -factor
            for j, at in enumerate(columns):
                job, effort = self.data.jobs[j], self.data.best_effort[j]
                if term.name == "value":
                    cost[at.a] += sign * job.weight
                elif term.name == "gpu_time" and not effort:
                    cost[at.x] += sign * self.data.slot_h * self.data.gpus[j]
                elif term.name == "best_effort_jct" and effort:
                    unit = sign * job.weight * slot_s
                    cost[at.e] += unit
                    cost[at.o] += unit * float(self.grid.data.shortest[j])
                    constant += unit * float(self.grid.data.lag[j])
        return cost, constant

    def held(self, columns: list[Columns]) -> None:
        """Add (C10), in units of the largest coefficient: solvers' tolerances are absolute."""
        for each in self.data.held:
            value, constant = self.level(each.level, columns)
            unit = float(np.abs(value).max(initial=0.0)) or 1.0
            at = np.flatnonzero(value)
            limit = (each.limit - constant) / unit
            is_max = each.level.sense == "max"
            self.model.row(
                _HELD,
                [(at, value[at] / unit)],
                lower=limit if is_max else -np.inf,
                upper=np.inf if is_max else limit,
            )


def array_model(data: AdmissionData) -> tuple[ArrayModel, list[Columns]]:
    """Return the mixed-integer program of an admission, and where its variables are."""
    builder = _Builder(data)
    columns = [builder.job(j) for j in range(len(data.jobs))]
    builder.capacity(columns)
    builder.hosts(columns)
    builder.held(columns)
    cost, constant = builder.level(data.level, columns)
    model = builder.model.model(data.level.sense, constant, cost=cost)
    return model, columns


def held_columns(data: AdmissionData, columns: list[Columns], values: Array) -> Iterator[Held]:
    """Yield (job, slot, column) for every x that is 1 of a job that runs.

    Parameters
    ----------
    data
        The slots of every job.
    columns
        Positions of the variables of each job, in the order of the jobs.
    values
        Values of all variables, shape (columns of the model,).
    """
    for j, at in enumerate(columns):
        for k, c in np.argwhere(values[at.x] > 0.5):
            yield j, int(k) + data.slots(j).start, int(c)


def start_values(
    data: AdmissionData, columns: list[Columns], size: int, solution: Solution
) -> Array | None:
    """Return the variables of a schedule, NaN where they follow; None if it is not of the grid.

    Parameters
    ----------
    data
        The slots of every job.
    columns
        Positions of the variables of each job, in the order of the jobs.
    size
        Number of variables of the model.
    solution
        What to start from; anything but a schedule gives None.
    """
    if not isinstance(solution, Schedule):
        return None
    values = np.full(size, np.nan)
    for at in columns:
        values[at.a], values[at.x] = 0.0, 0.0
    for j, profile in plan_of_accepted(data, solution).items():
        at, slots = columns[j], data.slots(j)
        values[at.a] = 1.0
        for offset, c in enumerate(profile):
            k = offset
            if c != IDLE and k < len(slots):
                values[at.x[k, c]] = 1.0
    return values


def plan_of_accepted(data: AdmissionData, schedule: Schedule) -> dict[int, list[int]]:
    """Return what each job of a schedule holds in each of its slots, by position.

    Parameters
    ----------
    data
        The slots of every job.
    schedule
        Its jobs without runs are refused, and left out.
    """
    found: dict[int, list[int]] = {}
    slot_s = data.grid.data.slot_s
    for j, job in enumerate(data.jobs):
        runs, column_of = schedule.runs_of.get(job.id, ()), data.grid.data.table(j).column_of
        if not runs:
            continue
        slots = data.slots(j)
        held = [IDLE] * len(slots)
        for run in runs:
            for t in range(round(run.start_s / slot_s), round(run.end_s / slot_s)):
                if t in slots:
                    held[t - slots.start] = column_of.get(run.configuration, IDLE)
        found[j] = held
    return found


def build_arrays(instance: Instance, objective: str, held: Sequence[HeldLevel] = ()) -> BuiltModel:
    """Build an instance as arrays.

    Parameters
    ----------
    instance
        Needs a slot, and a deadline for each job that may be refused.
    objective
        A level of a goal of admission, as `alloc.objectives.parse_level` reads it.
    held
        Earlier levels of the goal, with the values that they must keep.
    """
    return build_data(admission_data(instance, objective, held))


def build_data(data: AdmissionData) -> BuiltModel:
    """Build an admission as arrays."""
    model, columns = array_model(data)

    def answer(values: Array) -> tuple[list[Held], list[int]]:
        accepted = [j for j, at in enumerate(columns) if values[at.a] > 0.5]
        return list(held_columns(data, columns, values)), accepted

    def start(solution: Solution) -> Array | None:
        return start_values(data, columns, len(model.cost), solution)

    def refine(values: Array) -> BuiltModel | None:
        tighter = data.refined(*answer(values))
        return None if tighter is None else build_data(tighter)

    return BuiltModel(model, lambda values: data.schedule(*answer(values)), start, refine)
