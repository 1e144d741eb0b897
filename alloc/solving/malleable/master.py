"""The master problem of F2: choose one profile a job within the capacity of every slot.

``min sum_p cost_p z_p  subject to  sum_{p of j} z_p >= 1 for all j,  sum_p use_ptr z_p <= B_r for
all t, r,  z >= 0`` (binary in the integer master). A peak is a variable y_k that no job's profile
exceeds, ``sum_p g_kp z_p <= y_k`` for all j, and a held level is a row over all profiles. The dual
prices feed the pricing problems of `alloc.models.malleable.profiles`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.backends.second_proof import solve_and_prove
from alloc.formulation import Array, ArrayModel, RawResult
from alloc.models.malleable.costs import Multipliers, Target
from alloc.models.malleable.data import Index, SlotData
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.solving.malleable.joint_pricing import ROOM


@dataclass(frozen=True)
class Column:
    """A profile of a job in the master.

    Parameters
    ----------
    job
        Position of the job.
    profile
        The profile.
    cost
        Cost of its completion, without what peaks and held levels make of it.
    rows
        Positions ``t * R + r`` of the capacity rows it uses.
    use
        How much of each.
    """

    job: int
    profile: Profile
    cost: float
    rows: np.ndarray
    use: Array


def make_column(data: SlotData, job: int, profile: Profile) -> Column:
    """Return the column of a profile.

    Parameters
    ----------
    data
        The instance on its slots.
    job
        Position of the job.
    profile
        A profile of it, which ends within the slots of the room that it is held against.
    """
    table = data.table(job)
    choice = np.array(profile.choice)
    running = np.flatnonzero(choice != IDLE)
    use = table.use[choice[running]]
    num_rows = use.shape[1]
    rows = ((profile.start + running)[:, None] * num_rows + np.arange(num_rows)).ravel()
    flat = use.ravel()
    return Column(
        job,
        profile,
        data.target.costs.of(job, profile.completion),
        rows[flat > 0],
        flat[flat > 0],
    )


class Links:
    """The rows of a master that link jobs besides capacity: of peaks, then of held levels.

    Parameters
    ----------
    target
        What is asked.
    jobs
        The jobs of the master, by position.
    first
        Its first of these rows.
    """

    def __init__(self, target: Target, jobs: Sequence[int] | Index, first: int) -> None:
        self.target = target
        self.first = first
        self.row_of = {int(j): i for i, j in enumerate(jobs)}
        self.num_jobs = len(self.row_of)
        self.peak_costs = [1.0] * len(target.level.peaks)
        self._held_of = [-1] * len(target.level.peaks)
        for h, (level, _) in enumerate(target.held):
            self.peak_costs += [0.0] * len(level.peaks)
            self._held_of += [h] * len(level.peaks)
        self._first_held = first + len(target.peaks) * self.num_jobs

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._first_held - self.first + len(self.target.held)

    def limits(self, spent: Sequence[float] = ()) -> Array:
        """Return the upper limits of the rows; `spent` is what other jobs take of held levels."""
        held = np.array([limit for _, limit in self.target.held])
        if len(spent):
            held = held - np.array(spent)
        return np.concatenate([np.zeros(self._first_held - self.first), held])

    def of_peak(self, k: int) -> tuple[Index, Array]:
        """Return the entries of the variable of a peak."""
        rows = self.first + k * self.num_jobs + np.arange(self.num_jobs)
        values = np.full(self.num_jobs, -1.0)
        if self._held_of[k] >= 0:
            rows, values = (
                np.append(rows, self._first_held + self._held_of[k]),
                np.append(values, 1),
            )
        return rows, values

    def of_profile(self, job: int, completion: float) -> tuple[Index, Array]:
        """Return the entries of a profile of a job that ends so.

        Parameters
        ----------
        job
            Position of the job, one of the master.
        completion
            When the profile ends, slots from 0.
        """
        i, target = self.row_of[job], self.target
        rows = [self.first + k * self.num_jobs + i for k in range(len(target.peaks))]
        values = [float(p.slope[job] * (completion - p.origin[job])) for p in target.peaks]
        rows += [self._first_held + h for h in range(len(target.held))]
        values += [level.jobs.of(job, completion) for level, _ in target.held]
        return np.array(rows, dtype=np.int64), np.array(values)

    def multipliers(self, duals: Array) -> Multipliers:
        """Return the multipliers among the dual prices of all rows, 0 or more."""
        peaks = duals[self.first : self._first_held].reshape(-1, self.num_jobs)
        return Multipliers(
            tuple(peaks), duals[self._first_held : self._first_held + len(self.target.held)]
        )


_MANY_A_ROW = 20
"""Profiles for each row of a choice from which on HiGHS is to search and not to simplify: 1,850 in
34 rows take half the time then, but five a row, as in a neighbourhood, up to twice as long."""

_Key = tuple[int, tuple[int, tuple[int, ...]]]
"""Job and profile."""


class Master:
    """The linear master, growing by columns and re-solved from the last basis."""

    def __init__(self, data: SlotData, num_slots: int, penalty: float) -> None:
        """Start with an artificial column per job at a price that no profile exceeds.

        The rows are the jobs', the slots' and resources', each peak's for every job, and one for
        each held level.
        """
        self.data = data
        self.num_slots = num_slots
        self.columns: list[Column] = []
        self.scale = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
        limit = np.tile(np.where(data.rows.capacity > 0, 1.0, 0.0), num_slots)
        jobs = np.arange(data.num_jobs)
        links = Links(data.target, jobs, data.num_jobs + len(limit))
        program = LinearProgram()
        program.add_rows(
            np.concatenate([np.ones(data.num_jobs), np.full(len(limit) + links.num_rows, -np.inf)]),
            np.concatenate([np.full(data.num_jobs, np.inf), limit, links.limits()]),
        )
        target = data.target
        dearest = target.costs.rate if target.is_linear else np.full(len(jobs), target.level.size)
        program.add_columns(
            penalty * dearest,
            np.zeros(data.num_jobs),
            np.full(data.num_jobs, np.inf),
            jobs,
            jobs,
            np.ones(data.num_jobs),
        )
        for k, cost in enumerate(links.peak_costs):
            rows, values = links.of_peak(k)
            lower, upper = np.array([target.floors[k]]), np.array([np.inf])
            program.add_columns(np.array([cost]), lower, upper, [0], rows, values)
        self.links = links
        self._master = RestrictedMaster[_Key]("the linear master", program)

    def add(self, columns: list[Column]) -> int:
        """Add the columns that are new; return how many."""
        new: dict[_Key, Column] = {}
        for column in columns:
            key = (column.job, column.profile.key())
            last = column.profile.start + len(column.profile.choice)
            if last <= self.num_slots and key not in self._master:
                new.setdefault(key, column)
        self.columns += new.values()
        num_rows = len(self.scale)
        return self._master.add(
            MasterColumn(
                key,
                c.cost,
                np.concatenate([[c.job], self.data.num_jobs + c.rows, rows]),
                np.concatenate([[1.0], c.use / self.scale[c.rows % num_rows], values]),
            )
            for key, c in new.items()
            for rows, values in [self.links.of_profile(c.job, c.profile.completion)]
        )

    def solve(self, seconds: float = math.inf) -> tuple[float, Array, Multipliers, Array]:
        """Solve the linear master within some seconds of wall time.

        Returns
        -------
        value : float
            Its optimum, weighted slots.
        prices : ndarray
            Price of one unit of each row in each slot, shape (slots, R).
        multipliers : Multipliers
            Of peaks and held levels.
        z : ndarray
            Value of each column, shape (columns,).

        Raises
        ------
        OutOfTime
            If the time was too short for the optimum: what there is then are no prices.
        SolverError
            If HiGHS ends otherwise than with an optimum, which there always is.
        """
        found = self._master.solve(seconds)
        duals = np.maximum(-found.duals, 0.0)
        prices = duals[self.data.num_jobs : self.links.first].reshape(self.num_slots, -1)
        z = self._master.generated(found.values)
        return found.value, prices / self.scale, self.links.multipliers(duals), z


def solve_integer_master(
    data: SlotData,
    columns: list[Column],
    capacity: Array,
    jobs: list[int],
    options: SolverOptions,
    start: list[int] | None = None,
    *,
    proved_to: float | None = None,
    others: Sequence[Column] = (),
) -> tuple[list[Column] | None, RawResult]:
    """Choose one column for each of some jobs within residual capacity, exactly.

    Parameters
    ----------
    data
        The instance on its slots.
    columns
        The columns to choose from.
    capacity
        Capacity left to them, shape (slots, R).
    jobs
        The jobs that need a column.
    options
        Limits for HiGHS.
    start
        Positions of the columns of a feasible choice, or None.
    proved_to
        Value up to which the optimum of a small choice is proved a second time, without the
        solver's word, weighted slots; None: it is not.
    others
        The columns of all other jobs, which stay.

    Returns
    -------
    chosen
        The columns, or None when there is no feasible choice (or none was found in time).
    raw
        What is proved about the choice among these columns, weighted slots.
    """
    from scipy import sparse  # slow to load, and many instances are proved without a choice

    row_of = {j: i for i, j in enumerate(jobs)}
    num_rows = capacity.shape[1]
    scale = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
    touched = np.unique(np.concatenate([c.rows for c in columns]))
    position = np.full(capacity.size, -1)
    position[touched] = len(jobs) + np.arange(len(touched))
    target = data.target
    links = Links(target, jobs, len(jobs) + len(touched))
    linked = [links.of_profile(c.job, c.profile.completion) for c in columns]
    peaks = [links.of_peak(k) for k in range(len(target.peaks))]
    index = [
        *(
            np.concatenate([[row_of[c.job]], position[c.rows], rows])
            for c, (rows, _) in zip(columns, linked, strict=True)
        ),
        *(rows for rows, _ in peaks),
    ]
    values = [
        *(
            np.concatenate([[1.0], c.use / scale[c.rows % num_rows], own])
            for c, (_, own) in zip(columns, linked, strict=True)
        ),
        *(own for _, own in peaks),
    ]
    indptr = np.cumsum([0, *(len(rows) for rows in index)])
    num_columns = len(columns) + len(peaks)
    matrix = sparse.csc_array(
        (np.concatenate(values), np.concatenate(index), indptr),
        shape=(links.first + links.num_rows, num_columns),
    )
    ones = np.ones(len(jobs))
    room = capacity.ravel()[touched] / scale[touched % num_rows]
    standing = [(c.job, c.profile.completion) for c in others]
    floors = [
        max([floor, *(float(p.slope[j] * (end - p.origin[j])) for j, end in standing)])
        for p, floor in zip(target.peaks, target.floors, strict=True)
    ]
    spent = [sum(level.jobs.of(j, end) for j, end in standing) for level, _ in target.held]
    tops = [max([f, *(own[k] for _, own in linked)]) for k, f in enumerate(floors)]
    model = ArrayModel(
        sense="min",
        cost=np.array([*(c.cost for c in columns), *links.peak_costs]),
        matrix=matrix.tocsr(),
        row_lower=np.concatenate([ones, np.full(len(touched) + links.num_rows, -np.inf)]),
        row_upper=np.concatenate([ones, np.maximum(room, 0.0), links.limits(spent)]),
        lower=np.array([*np.zeros(len(columns)), *floors]),
        upper=np.array([*np.ones(len(columns)), *tops]),
        integer=np.arange(num_columns) < len(columns),
    )
    options = replace(options, brief=len(columns) > _MANY_A_ROW * matrix.shape[0])
    if start is not None:
        values0 = np.zeros(num_columns)
        values0[start] = 1.0
        values0[len(columns) :] = np.nan
        options = replace(options, start=values0)
    if proved_to is None:
        raw = highs.solve(model, options)
    else:
        raw = solve_and_prove(model, options, proved_to)
    if raw.values is None:
        return None, raw
    chosen = [columns[i] for i in np.flatnonzero(raw.values[: len(columns)] > 0.5)]
    # The solver keeps its rows up to a tolerance, which is more than one unit of large amounts.
    return (chosen if fit_together(chosen, capacity) else None), raw


def fit_together(columns: Iterable[Column], room: Array) -> bool:
    """Return whether columns fit together into the capacity left, shape (slots, R).

    Parameters
    ----------
    columns
        One column of each job.
    room
        Capacity left; where it is below 0 already, nothing may be added.
    """
    before = room.ravel()
    left = before.copy()
    for column in columns:
        left[column.rows] -= column.use
    return bool((left >= np.minimum(before, 0.0) - ROOM).all())
