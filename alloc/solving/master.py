"""The master problem of F2: choose one profile a job within the capacity of every slot.

``min sum_p cost_p z_p  subject to  sum_{p of j} z_p >= 1 for all j,  sum_p use_ptr z_p <= B_r for
all t, r,  z >= 0`` (binary in the integer master). Its dual prices feed the pricing problems of
`alloc.models.malleable.profiles`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import highspy
import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions
from alloc.backends.highs import quiet_solver, solve
from alloc.formulation import Array, ArrayModel
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import IDLE, OutOfTime, Profile


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


class Master:
    """The linear master, growing by columns and re-solved from the last basis."""

    def __init__(self, data: SlotData, num_slots: int, penalty: float) -> None:
        """Start with an artificial column per job at a price that no profile exceeds."""
        self.data = data
        self.num_slots = num_slots
        self.columns: list[Column] = []
        self._known: set[tuple[int, tuple[int, tuple[int, ...]]]] = set()
        self.solver = quiet_solver(SolverOptions(time_limit_s=1e9))
        self.scale = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
        empty = np.array([], dtype=np.int32)
        for _ in range(data.num_jobs):
            self.solver.addRow(1.0, highspy.kHighsInf, 0, empty, empty.astype(float))
        limit = np.where(data.rows.capacity > 0, 1.0, 0.0)
        for _ in range(num_slots):
            for r in range(len(limit)):
                self.solver.addRow(
                    -highspy.kHighsInf, float(limit[r]), 0, empty, empty.astype(float)
                )
        for j in range(data.num_jobs):
            self.solver.addCol(
                penalty * float(data.weight[j]),
                0.0,
                highspy.kHighsInf,
                1,
                np.array([j], dtype=np.int32),
                np.ones(1),
            )

    def add(self, columns: list[Column]) -> int:
        """Add the columns that are new; return how many."""
        added = 0
        num_rows = len(self.scale)
        for column in columns:
            key = (column.job, column.profile.key())
            last = column.profile.start + len(column.profile.choice)
            if key in self._known or last > self.num_slots:
                continue
            self._known.add(key)
            index = np.concatenate([[column.job], self.data.num_jobs + column.rows])
            value = np.concatenate([[1.0], column.use / self.scale[column.rows % num_rows]])
            self.solver.addCol(
                column.cost, 0.0, highspy.kHighsInf, len(index), index.astype(np.int32), value
            )
            self.columns.append(column)
            added += 1
        return added

    def solve(self) -> tuple[float, Array, Array]:
        """Solve the linear master.

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
            If HiGHS was stopped before the optimum: its duals are then no prices.
        """
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise OutOfTime
        solution = self.solver.getSolution()
        dual = np.array(solution.row_dual)[self.data.num_jobs :]
        prices = np.maximum(-dual, 0.0).reshape(self.num_slots, -1) / self.scale
        z = np.array(solution.col_value)[self.data.num_jobs :]
        return float(self.solver.getInfo().objective_function_value), prices, z


def solve_integer_master(
    data: SlotData,
    columns: list[Column],
    capacity: Array,
    jobs: list[int],
    options: SolverOptions,
    start: list[int] | None = None,
) -> tuple[list[Column] | None, float, bool]:
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

    Returns
    -------
    chosen
        The columns, or None when there is no feasible choice (or none was found in time).
    bound
        HiGHS' bound on the choice among these columns, weighted slots.
    finished
        Whether the choice is proved best.
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
    raw = solve(model, options)
    if raw.values is None:
        return None, raw.bound, raw.status == "infeasible"
    chosen = [columns[i] for i in np.flatnonzero(raw.values > 0.5)]
    return chosen, raw.bound, raw.status == "optimal"
