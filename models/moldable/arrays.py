"""F3 in slots as sparse arrays: a column for each mode of a job and each slot it may start in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import BuiltModel
from alloc.model_builder import Index, ModelBuilder, Term
from alloc.models.malleable.costs import LevelCosts
from alloc.models.moldable.data import Array, MoldableData, moldable_data
from alloc.models.moldable.serial import Choice, by_choices, plan_of
from alloc.models.moldable.symmetry import Symmetry
from alloc.objectives import Held
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule

_MAX_ENTRIES = 10_000_000
"""Entries of the capacity rows at most: half a GiB while they are put together."""
_ROUNDING = 1e-12
"""Relative lateness that counts as none, as in the data."""


def build_arrays(instance: Instance, objective: str, held: Sequence[Held] = ()) -> BuiltModel:
    """Build an instance in slots as arrays.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    held
        Earlier levels of the goal.

    Raises
    ------
    UnsupportedFeatureError
        In continuous time, and where the runs take more slots than memory holds.
    """
    if instance.slot_s is None:
        raise UnsupportedFeatureError(
            f'instance "{instance.name}": is in continuous time, and the arrays of family '
            '"moldable" have a column for each slot a job may start in; set slot_s, or take '
            'backend "auto", "cpsat" or "pyomo".'
        )
    return _Builder(moldable_data(instance, objective, held, whole=True), instance.slot_s).built()


class _Builder:
    """Builds the arrays of an instance."""

    def __init__(self, data: MoldableData, slot_s: float) -> None:
        self.data, self.slot_s = data, slot_s
        self.model = ModelBuilder("C1_one_mode", "C2_capacity", "peaks", "C4_held")
        self.symmetry = Symmetry(data)
        self.columns: dict[tuple[int, Choice], tuple[int, Index]] = {}
        """Of each job and mode, the first slot it may start in, and its columns."""
        self._require_memory()
        for j in range(data.num_jobs):
            self._job(j)
        self._capacity()

    def _require_memory(self) -> None:
        data, slot_s, entries = self.data, self.slot_s, 0.0
        for release, ways in zip(data.release.tolist(), data.ways, strict=True):
            starts = (data.end_of_all - release) / slot_s
            for way in ways:
                used = sum(len(placement.use) for placement in way.placements)
                entries += used * starts * way.hold_s / slot_s
        if entries > _MAX_ENTRIES:
            raise UnsupportedFeatureError(
                f'instance "{data.instance.name}": its runs take so many slots of {slot_s:g} s '
                f"that the arrays would have {entries:.2g} entries; set a longer slot_s, or take "
                'backend "auto".'
            )

    def _job(self, j: int) -> None:
        """Add the columns of a job, of which one is taken (C1); (C3) leaves out what is late."""
        data, slot_s = self.data, self.slot_s
        first, last = round(float(data.release[j]) / slot_s), math.ceil(data.end_of_all / slot_s)
        own = []
        for w, way in enumerate(data.ways[j]):
            ends = np.arange(first, last + 1) * slot_s + way.run_s
            number = int((ends <= data.deadline[j] * (1 + _ROUNDING)).sum())
            for p, placement in enumerate(way.placements):
                if self.symmetry.allows(j, placement):
                    columns = self.model.columns(number, 1.0)
                    self.columns[j, (w, p)] = (first, columns)
                    own.append(columns)
        self.model.row("C1_one_mode", [(columns, 1.0) for columns in own], 1.0, 1.0)

    def _capacity(self) -> None:
        """Add (C2): what runs in a slot, in units of the capacity of each row."""
        data, last = self.data, 0
        found: dict[int, list[tuple[Index, Index, float]]] = {}
        for (j, (w, p)), (first, columns) in self.columns.items():
            hold = round(data.ways[j][w].hold_s / self.slot_s)
            last = max(last, first + len(columns) + hold)
            at = first + np.arange(len(columns))[:, None] + np.arange(hold)
            for row, amount in data.ways[j][w].placements[p].use:
                share = amount / max(data.capacity[row], 1)
                found.setdefault(row, []).append((at, columns[:, None], share))
        for own in found.values():
            terms: list[Term] = list(own)
            self.model.rows("C2_capacity", last, terms, upper=1.0)

    def _end(self, j: int, choice: Choice) -> Array:
        """Return the completions of a job for its starts in a mode, seconds."""
        first, columns = self.columns[j, choice]
        starts = (first + np.arange(len(columns))) * self.slot_s
        return np.asarray(starts + self.data.ways[j][choice[0]].run_s)

    def _value(self, level: LevelCosts) -> list[tuple[Index, Array]]:
        """Return columns and coefficients of a level's value, without its constant."""
        costs = level.jobs
        terms = []
        for (j, choice), (_, columns) in self.columns.items():
            end = self._end(j, choice)
            beyond = np.maximum(end - costs.due[j], 0.0) if costs.late[j] else 0.0
            terms.append((columns, costs.rate[j] * end + costs.late[j] * beyond))
        for peak in level.peaks:
            height = float(peak.slope.max())
            most = float(peak.at(np.full(self.data.num_jobs, 2 * self.data.end_of_all)).max())
            z = self.model.columns(1, most / height / self.slot_s, integer=False)
            rows: dict[int, list[tuple[Index, Array | float]]] = {}
            for (j, choice), (_, columns) in self.columns.items():
                lateness = peak.slope[j] * (self._end(j, choice) - peak.origin[j])
                own = rows.setdefault(j, [(z, 1.0)])
                own.append((columns, -lateness / height / self.slot_s))
            for own in rows.values():
                self.model.row("peaks", own, lower=0.0)
            terms.append((z, np.array([height * self.slot_s])))
        return terms

    def built(self) -> BuiltModel:
        """Return the model with its objective and the way back to a schedule."""
        target = self.data.target
        value = self._value(target.level)
        for level, limit in target.held:
            base = float(level.jobs.base.sum())
            self.model.row("C4_held", self._value(level), upper=limit - base)
        cost = np.zeros(self.model.num_columns)
        for columns, coefficients in value:
            cost[columns] = coefficients
        offset = float(target.level.jobs.base.sum())
        model = self.model.model("min", offset, cost=cost)
        return BuiltModel(model, self._extract, self._start)

    def _extract(self, values: Array) -> Schedule:
        taken: dict[int, tuple[int, float, Choice]] = {}
        for (j, choice), (first, columns) in self.columns.items():
            for k in np.flatnonzero(values[columns] > 0.5).tolist():
                taken[j] = (first + k, self.data.ways[j][choice[0]].run_s, choice)
        jobs = range(self.data.num_jobs)
        order = sorted(jobs, key=lambda j: taken[j][:2])
        return by_choices(self.data, order, [taken[j][2] for j in jobs]).schedule(self.data)

    def _start(self, solution: object) -> Array | None:
        plan = plan_of(self.data, solution) if isinstance(solution, Schedule) else None
        if plan is None:
            return None
        plan = self.symmetry.renamed(plan)
        values = np.zeros(self.model.num_columns)
        values[max(int(own[-1]) for _, own in self.columns.values() if len(own)) + 1 :] = math.nan
        for j, choice in enumerate(plan.choice):
            first, columns = self.columns.get((j, choice), (0, np.zeros(0, dtype=np.int64)))
            at = round(float(plan.start[j]) / self.slot_s) - first
            if not 0 <= at < len(columns):
                return None
            values[columns[at]] = 1.0
        return values
