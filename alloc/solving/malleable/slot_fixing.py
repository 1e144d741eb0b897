"""Schedules for F2 slot by slot: whole configurations in one slot, parts of profiles after it.

The linear master of what is left splits jobs between profiles. In the first slot an integer program
makes it choose one configuration of each job, with all that comes later still in parts: its value
says what the choice costs the whole schedule, and it fills the slot exactly. The choice is fixed,
new profiles are priced for the work that it leaves, and the next slot has its turn (relax and fix:
Pochet and Wolsey, "Production Planning by Mixed Integer Programming", 2006). A dive, which fixes
whole profiles, leaves gaps that nothing fits into; here each slot is filled while all jobs may
still run in it. From a plan, the slots before some slot may stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram, LinearSolution
from alloc.formulation import Array, ArrayModel
from alloc.models.malleable.data import Index, SlotData
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.solving.malleable.dive import LEAST_GAIN, PRICED, WHOLE, Key
from alloc.solving.malleable.insertion import Builder
from alloc.solving.malleable.master import Column, fit_together, make_column
from alloc.solving.malleable.windows import FIT
from alloc.solving.outcome import Settings

_ROUNDS = 3
"""Masters of a slot at most, with pricing between them: what fixing a slot changes is little, and
with eight rounds the schedules of elastic-medium/07 are no better."""
_NEAR_COST = 0.4
"""Reduced cost up to which a profile may take part in the choice for a slot, where costs are about
1: a third of the columns on elastic-medium/07; twice as much makes the program slower, not
better. Where these hold no choice, all may take part that may be in a better plan."""
_SECONDS = 2.0
"""Time of the choice for a slot, seconds: most need a tenth of it, and half a second is so short
that its answers are far off."""
_NEAR = 5e-5
"""Relative gap of the choice: a twentieth of what schedules are apart."""


class SlotFixing:
    """A schedule that is decided slot by slot.

    Parameters
    ----------
    data
        The instance on its slots; what is asked links no jobs.
    plan
        A column of each job, by position.
    first
        First slot that is decided anew, from 0; before it all do what they do in the plan.
    columns
        Profiles to begin with; those that are not in the plan's way do no harm.
    settings
        The limits, and the seed of the choices.

    Attributes
    ----------
    priced
        The columns that were priced on the way.
    """

    def __init__(
        self,
        data: SlotData,
        plan: Mapping[int, Column],
        first: int,
        columns: Sequence[Column],
        settings: Settings,
    ) -> None:
        self.priced: list[Column] = []
        self._data, self._settings, self._first = data, settings, first
        last = max(column.profile.completion for column in plan.values())
        self._num_slots = math.ceil(last) + 1
        self._scale = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
        self._fixed: Index = np.full((data.num_jobs, self._num_slots), IDLE, dtype=np.int64)
        """Configuration of each job in the slots that are decided."""
        self._left = data.work.astype(float).copy()
        self._done: dict[int, Column] = {}
        for job, column in plan.items():
            doing = self._doing(column.profile)
            if column.profile.start + len(column.profile.choice) <= first:
                self._done[job] = column
            self._fixed[job, :first] = doing[:first]
            running = doing[:first][doing[:first] != IDLE]
            self._left[job] -= float(data.table(job).rate[running].sum())
        self._columns: list[Column] = []
        self._choices: list[Index] = []
        self._keys: set[Key] = set()
        self._take([*plan.values(), *columns])

    def run(self, most: float) -> dict[int, Column] | None:
        """Return a plan that costs less, or None.

        Parameters
        ----------
        most
            What it must cost less than.
        """
        for slot in range(self._first, self._num_slots):
            open_jobs = [j for j in range(self._data.num_jobs) if j not in self._done]
            spent = sum(column.cost for column in self._done.values())
            solved = self._priced_for(open_jobs, slot)
            if solved is None or solved.value + spent >= most - LEAST_GAIN:
                return None
            plan = self._whole(open_jobs, solved.values)
            if plan is None:
                slack = most - solved.value - spent
                chosen = self._chosen(open_jobs, slot, solved, min(_NEAR_COST, slack))
                if chosen is None and slack > _NEAR_COST:
                    chosen = self._chosen(open_jobs, slot, solved, slack)
                if chosen is None:
                    return None
                self._fix(slot, chosen)
                plan = self._done
            if len(plan) == self._data.num_jobs:
                return self._checked(plan, most)
        return None

    def _checked(self, plan: Mapping[int, Column], most: float) -> dict[int, Column] | None:
        """Return a plan if it costs less and fits: solvers keep their rows up to a tolerance."""
        room = np.tile(self._data.rows.capacity, (self._num_slots, 1))
        cost = sum(column.cost for column in plan.values())
        return (
            dict(plan) if cost < most - LEAST_GAIN and fit_together(plan.values(), room) else None
        )

    def _doing(self, profile: Profile) -> Index:
        """Return the configuration of a profile in each slot."""
        doing = np.full(self._num_slots, IDLE, dtype=np.int64)
        doing[profile.start : profile.start + len(profile.choice)] = profile.choice
        return doing

    def _take(self, columns: Sequence[Column]) -> list[Column]:
        """Keep the columns of open jobs that do what is decided; return those that are new."""
        new = []
        for column in columns:
            key = (column.job, column.profile.key())
            late = column.profile.start + len(column.profile.choice) > self._num_slots
            if late or column.job in self._done or key in self._keys:
                continue
            doing = self._doing(column.profile)
            if (doing[: self._first] == self._fixed[column.job, : self._first]).all():
                self._keys.add(key)
                self._columns.append(column)
                self._choices.append(doing)
                new.append(column)
        return new

    def _priced_for(self, jobs: list[int], slot: int) -> LinearSolution | None:
        """Solve the master of what is left from a slot on.

        None if time is up, or if the choices before, which keep their rows up to a tolerance, have
        left nothing that this master's own tolerance calls a solution.
        """
        data, resources, count = self._data, len(self._scale), len(jobs)
        row = {job: i for i, job in enumerate(jobs)}
        slots = self._num_slots - slot
        program = LinearProgram()
        program.add_rows(
            np.concatenate([np.ones(count), np.full(slots * resources, -np.inf)]),
            np.concatenate([np.ones(count), np.tile(data.rows.capacity > 0, slots).astype(float)]),
        )

        def add(columns: Sequence[Column]) -> None:
            entries, values = [], []
            for column in columns:
                later = column.rows >= slot * resources
                rows = column.rows[later]
                entries.append(np.append(row[column.job], count + rows - slot * resources))
                values.append(np.append(1.0, column.use[later] / self._scale[rows % resources]))
            zero = np.zeros(len(columns))
            begin = np.cumsum([0, *(len(rows) for rows in entries[:-1])])
            cost = np.array([column.cost for column in columns])
            index, value = np.concatenate(entries), np.concatenate(values)
            program.add_columns(cost, zero, zero + np.inf, begin, index, value)

        add(self._columns)
        builder, free = self._builder(slot), self._free(jobs)
        joint = builder.together(free)
        room = np.tile(data.rows.capacity, (self._num_slots, 1))
        room[:slot] = 0.0
        for n in range(1, _ROUNDS + 1):
            solved = program.solve(self._settings.seconds_left())
            if solved is None or n == _ROUNDS:
                break
            prices = np.zeros(room.shape)
            duals = np.maximum(-solved.duals[count:], 0.0)
            prices[slot:] = duals.reshape(slots, resources) / self._scale
            flat, falls, better = prices.ravel(), 0.0, []
            for column in builder.cheapest(free, room, prices, joint):
                whole = self._completed(column, slot)
                paid = whole.cost + float(flat[whole.rows] @ whole.use)
                if (reduced := paid - solved.duals[row[whole.job]]) < -LEAST_GAIN:
                    falls -= reduced
                    better.append(whole)
            new = self._take(better) if falls >= PRICED else []
            if not new:
                break
            self.priced += new
            add(new)
        self._program = program
        return solved

    def _builder(self, slot: int) -> Builder:
        """Return what prices the work that is left, from a slot on."""
        data = self._data
        left = np.where(self._left > 0, self._left, data.work)
        later = np.maximum(data.release, slot)
        return Builder(replace(data, release=later, work=left), self._num_slots)

    def _free(self, jobs: list[int]) -> list[int]:
        """Return the jobs whose profiles may be priced: one that runs may be bound to go on."""
        idle = (self._fixed == IDLE).all(axis=1) & ~self._data.started
        kinds = self._data.instance.jobs
        return [
            j
            for j in jobs
            if idle[j] or (kinds[j].preemptible and kinds[j].elasticity == "malleable")
        ]

    def _completed(self, column: Column, slot: int) -> Column:
        """Return the column of a job with what it did before a slot."""
        doing = self._doing(column.profile)
        doing[:slot] = self._fixed[column.job, :slot]
        return self._column(column.job, doing, column.profile.completion)

    def _column(self, job: int, doing: Index, completion: float) -> Column:
        runs = np.flatnonzero(doing != IDLE)
        start, end = int(runs[0]), int(runs[-1]) + 1
        profile = Profile(start, tuple(doing[start:end].tolist()), completion)
        return make_column(self._data, job, profile)

    def _whole(self, jobs: list[int], share: Array) -> dict[int, Column] | None:
        """Return the plan if the master takes a whole profile for each open job."""
        plan = dict(self._done)
        for i in np.flatnonzero(share >= WHOLE).tolist():
            plan[self._columns[i].job] = self._columns[i]
        return plan if len(plan) == self._data.num_jobs else None

    def _chosen(
        self, jobs: list[int], slot: int, solved: LinearSolution, most: float
    ) -> dict[int, int] | None:
        """Return a configuration of each open job in a slot, `IDLE` for none.

        Profiles of more reduced cost than the most are left out. None where no choice is found in
        time.
        """
        from scipy import sparse  # slow to load, and many instances are proved without

        kept = np.flatnonzero(solved.reduced_costs <= most)
        pairs = [(self._columns[i].job, int(self._choices[i][slot])) for i in kept]
        known = {pair: k for k, pair in enumerate(dict.fromkeys(pairs))}
        count, extra = len(kept), len(known)
        model = self._program.integer_model()
        # A configuration is taken by as much as the profiles that have it together.
        of = sparse.csr_array(
            (np.ones(count), ([known[pair] for pair in pairs], np.arange(count))),
            shape=(extra, count),
        )
        own = sparse.block_array(
            [[model.matrix.tocsc()[:, kept], None], [of, -sparse.eye_array(extra)]], format="csr"
        )
        zero = np.zeros(extra)
        choice = ArrayModel(
            sense="min",
            cost=np.concatenate([model.cost[kept], zero]),
            matrix=own,
            row_lower=np.concatenate([model.row_lower, zero]),
            row_upper=np.concatenate([model.row_upper, zero]),
            lower=np.zeros(count + extra),
            upper=np.ones(count + extra),
            integer=np.arange(count + extra) >= count,
        )
        settings = self._settings
        if settings.time_is_up():
            return None
        seconds = min(_SECONDS, settings.seconds_left())
        options = SolverOptions(seconds, settings.seed, settings.workers, gap=_NEAR)
        raw = highs.solve(choice, options)
        if raw.values is None:
            return None
        taken = raw.values[count:] > 0.5
        chosen = {job: c for (job, c), k in known.items() if taken[k]}
        return chosen if len(chosen) == len(jobs) else None

    def _fix(self, slot: int, chosen: Mapping[int, int]) -> None:
        """Fix what jobs do in a slot, and leave out the profiles that do something else."""
        for job, c in chosen.items():
            self._fixed[job, slot] = c
            if c == IDLE:
                continue
            rate, left = float(self._data.table(job).rate[c]), float(self._left[job])
            if left <= rate * (1 + FIT):
                end = slot + min(left / rate, 1.0)
                self._done[job] = self._column(job, self._fixed[job], end)
                self._left[job] = 0.0
            else:
                self._left[job] -= rate
        keep = [
            i
            for i, column in enumerate(self._columns)
            if column.job not in self._done
            and self._choices[i][slot] == self._fixed[column.job, slot]
        ]
        self._columns = [self._columns[i] for i in keep]
        self._choices = [self._choices[i] for i in keep]
        self._keys = {(column.job, column.profile.key()) for column in self._columns}
        self._first = slot + 1
