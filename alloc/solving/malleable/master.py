"""The master problem of F2: choose one profile a job within the capacity of every slot.

``min sum_p cost_p z_p  subject to  sum_{p of j} z_p >= 1 for all j,  sum_p use_ptr z_p <= B_r for
all t, r,  z >= 0`` (binary in the integer master). Its dual prices feed the pricing problems of
`alloc.models.malleable.profiles`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.backends.second_proof import solve_and_prove
from alloc.formulation import Array, ArrayModel, RawResult
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import IDLE, Profile


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
        Weight times slots from arrival to completion.
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
    """Return the column of a profile."""
    table = data.table(job)
    choice = np.array(profile.choice)
    running = np.flatnonzero(choice != IDLE)
    use = table.use[choice[running]]
    num_rows = use.shape[1]
    rows = ((profile.start + running)[:, None] * num_rows + np.arange(num_rows)).ravel()
    flat = use.ravel()
    arrival = data.release[job] - data.lag[job]
    return Column(
        job,
        profile,
        float(data.weight[job] * (profile.completion - arrival)),
        rows[flat > 0],
        flat[flat > 0],
    )


_Key = tuple[int, tuple[int, tuple[int, ...]]]
"""Job and profile."""


class Master:
    """The linear master, growing by columns and re-solved from the last basis."""

    def __init__(self, data: SlotData, num_slots: int, penalty: float) -> None:
        """Start with an artificial column per job at a price that no profile exceeds."""
        self.data = data
        self.num_slots = num_slots
        self.columns: list[Column] = []
        self.scale = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
        limit = np.tile(np.where(data.rows.capacity > 0, 1.0, 0.0), num_slots)
        jobs = np.arange(data.num_jobs)
        program = LinearProgram()
        program.add_rows(
            np.concatenate([np.ones(data.num_jobs), np.full(len(limit), -np.inf)]),
            np.concatenate([np.full(data.num_jobs, np.inf), limit]),
        )
        program.add_columns(
            penalty * data.weight,
            np.zeros(data.num_jobs),
            np.full(data.num_jobs, np.inf),
            jobs,
            jobs,
            np.ones(data.num_jobs),
        )
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
                np.append(c.job, self.data.num_jobs + c.rows),
                np.append(1.0, c.use / self.scale[c.rows % num_rows]),
            )
            for key, c in new.items()
        )

    def solve(self, seconds: float = math.inf) -> tuple[float, Array, Array]:
        """Solve the linear master within some seconds of wall time.

        Returns
        -------
        value : float
            Its optimum, weighted slots.
        prices : ndarray
            Price of one unit of each row in each slot, shape (slots, R).
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
        prices = np.maximum(-found.duals[self.data.num_jobs :], 0.0)
        z = self._master.generated(found.values)
        return found.value, prices.reshape(self.num_slots, -1) / self.scale, z


def solve_integer_master(
    data: SlotData,
    columns: list[Column],
    capacity: Array,
    jobs: list[int],
    options: SolverOptions,
    start: list[int] | None = None,
    *,
    prove: bool = False,
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
    prove
        Whether to prove a small optimum a second time, without the solver's word.

    Returns
    -------
    chosen
        The columns, or None when there is no feasible choice (or none was found in time).
    raw
        What is proved about the choice among these columns, weighted slots.
    """
    row_of = {j: i for i, j in enumerate(jobs)}
    num_rows = capacity.shape[1]
    scale = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
    touched = np.unique(np.concatenate([c.rows for c in columns]))
    position = np.full(capacity.size, -1)
    position[touched] = len(jobs) + np.arange(len(touched))
    indptr = np.cumsum([0, *(1 + len(c.rows) for c in columns)])
    indices = np.concatenate([np.append(row_of[c.job], position[c.rows]) for c in columns])
    values = np.concatenate([np.append(1.0, c.use / scale[c.rows % num_rows]) for c in columns])
    matrix = sparse.csc_array(
        (values, indices, indptr), shape=(len(jobs) + len(touched), len(columns))
    )
    ones = np.ones(len(jobs))
    room = capacity.ravel()[touched] / scale[touched % num_rows]
    model = ArrayModel(
        sense="min",
        cost=np.array([c.cost for c in columns]),
        matrix=matrix.tocsr(),
        row_lower=np.concatenate([ones, np.full(len(touched), -np.inf)]),
        row_upper=np.concatenate([ones, np.maximum(room, 0.0)]),
        lower=np.zeros(len(columns)),
        upper=np.ones(len(columns)),
        integer=np.ones(len(columns), dtype=bool),
    )
    if start is not None:
        values0 = np.zeros(len(columns))
        values0[start] = 1.0
        options = replace(options, start=values0)
    raw = solve_and_prove(model, options) if prove else highs.solve(model, options)
    if raw.values is None:
        return None, raw
    return [columns[i] for i in np.flatnonzero(raw.values > 0.5)], raw
