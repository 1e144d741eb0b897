"""F3 in CP-SAT: optional intervals, each mode with a start of its own, and a cumulative for a row.

Times become whole numbers by rounding *down*, which keeps every schedule: of jobs one after the
other ``floor(S_i) + floor(p_i) <= floor(S_i + p_i) <= floor(S_k)``, and jobs that then overlap in
pairs have a moment in common. So the model is a relaxation whatever the unit, its bound holds as it
stands, and nothing overflows: the unit grows with the times. It is a power of two, so that times
which are whole multiples of one stay exact. The schedule is built again in seconds from the order
of the starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from ortools.sat.python import cp_model

from alloc.clock import check_time
from alloc.formulation import BuiltModel, CpSatModel
from alloc.models.malleable.costs import LevelCosts
from alloc.models.malleable.cpsat_model import whole_multiples
from alloc.models.moldable.data import Array, MoldableData, Placement, Use, moldable_data
from alloc.models.moldable.serial import Choice, Plan, by_choices, plan_of
from alloc.models.moldable.symmetry import Symmetry
from alloc.models.moldable.units import Units
from alloc.objectives import Held
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule

_MAX_SUM = 2**59
"""Of the objective: CP-SAT counts in 64 bits."""
_MAX_WEIGHT = 2**26
"""Largest whole cost of a unit of time: what rounding takes off is far less than a millionth."""
_MAX_RELEASES = 10
"""Releases from which the energy of the jobs is summed: the rows hold for any choice of them."""
_MAX_ORDERED = 30
"""Jobs of which every two get literals for who goes first: their number grows by the square."""
_MAX_COMPARED = 1000
"""Placements of these jobs, every two of which are compared: half a second."""


@dataclass
class _Job:
    """Variables of a job.

    Parameters
    ----------
    start, end
        Start in steps, completion in units.
    hold_end
        End of the run, steps.
    ways
        Whether it runs in each way.
    taken
        For each way and placement allowed, whether it is taken.
    """

    start: cp_model.IntVar
    end: cp_model.LinearExprT
    hold_end: cp_model.LinearExprT
    ways: list[cp_model.IntVar]
    taken: dict[Choice, cp_model.IntVar]


class Builder:
    """Builds the CP-SAT model of an instance, or of a part of it.

    Parameters
    ----------
    data
        The instance.
    plan
        What the other jobs do, where only some are free.
    free
        Jobs whose way, placement and start are open; None for all.
    rows
        Rows that a free job may use beyond those it has, or None for all: the hosts of a part.
    starts
        First and last start of each way of each job, seconds, as far as better schedules may have
        them; a way whose last is before its first is left out. None: no limits.
    worth
        What it is worth to run each of the free jobs, any of which may then be left out. None: all
        must run.
    """

    def __init__(
        self,
        data: MoldableData,
        plan: Plan | None = None,
        free: Sequence[int] | None = None,
        rows: frozenset[int] | None = None,
        starts: Sequence[Sequence[tuple[float, float]]] | None = None,
        worth: Mapping[int, int] | None = None,
    ) -> None:
        self.data, self.units, self.model = data, Units.of(data), cp_model.CpModel()
        self.free = list(range(data.num_jobs)) if free is None else list(free)
        self._rows, self._starts, self._worth = rows, starts, worth
        self._last = self.units.down(data.end_of_all) // self.units.per_step + 1
        self._intervals: list[list[cp_model.IntervalVar]] = [[] for _ in data.rows]
        self._amounts: list[list[int]] = [[] for _ in data.rows]
        self._areas: list[list[cp_model.LinearExprT]] = [[] for _ in data.rows]
        whole = free is None
        self.symmetry = Symmetry(data) if whole else None
        self.jobs: dict[int, _Job] = {}
        pooled: list[tuple[cp_model.IntervalVar, Array]] = []
        self._energies: list[tuple[int, int, cp_model.IntVar, Array]] = []
        for j in self.free:
            check_time()
            self.jobs[j] = self._job(j, pooled)
        used = {row for row, own in enumerate(self._intervals) if own}
        if plan is not None:
            self._fix(plan, used)
        for row, (intervals, amounts) in enumerate(
            zip(self._intervals, self._amounts, strict=True)
        ):
            if sum(amounts) > data.capacity[row]:
                unit = math.gcd(data.capacity[row], *amounts)
                capacity = data.capacity[row] // unit
                self.model.add_cumulative(intervals, [n // unit for n in amounts], capacity)
        if worth is not None:
            self._fill()
        if whole:
            self._pool(pooled)
        compared = sum(len(job.taken) for job in self.jobs.values())
        if worth is None and len(self.free) <= _MAX_ORDERED and compared <= _MAX_COMPARED:
            self._order()

    def _job(self, j: int, pooled: list[tuple[cp_model.IntervalVar, Array]]) -> _Job:
        data, model, units = self.data, self.model, self.units
        first = units.steps(float(data.release[j]))
        limit = float(data.deadline[j])
        latest = units.down(limit) if math.isfinite(limit) else None
        start = model.new_int_var(first, self._last, f"S[{j}]")
        ways: list[cp_model.IntVar] = []
        taken: dict[Choice, cp_model.IntVar] = {}
        lengths, holds = [], []
        for w, way in enumerate(data.ways[j]):
            hold, length = units.steps(way.hold_s), units.down(way.run_s)
            low, high = first, self._last
            if self._starts is not None:
                least, most = self._starts[j][w]
                if most < least:
                    continue
                low = max(first, units.down(least) // units.per_step)
                if math.isfinite(most):
                    high = min(high, units.up(most) // units.per_step + 1)
            if latest is not None:
                high = min(high, (latest - length) // units.per_step)
            if high < low:
                continue  # too late, or later than any job of an optimal schedule starts
            chosen = model.new_bool_var(f"m[{j},{w}]")
            own = model.new_int_var(low, high, f"s[{j},{w}]")
            model.add(own == start).only_enforce_if(chosen)
            interval = model.new_optional_fixed_size_interval_var(own, hold, chosen, f"i[{j},{w}]")
            if hold:
                pooled.append((interval, way.load))
                self._energies.append((j, length, chosen, way.load))
            here = []
            for p, placement in enumerate(way.placements):
                if not self._allowed(j, placement):
                    continue
                x = model.new_bool_var(f"x[{j},{w},{p}]")
                s = model.new_int_var(low, high, f"s[{j},{w},{p}]")
                model.add(s == own).only_enforce_if(x)
                held = model.new_optional_fixed_size_interval_var(s, hold, x, f"i[{j},{w},{p}]")
                for row, amount in placement.use if hold else ():
                    self._intervals[row].append(held)
                    self._amounts[row].append(amount)
                    self._areas[row].append(amount * hold * x)
                taken[w, p] = x
                here.append(x)
            model.add(sum(here) == chosen)
            ways.append(chosen)
            lengths.append(length)
            holds.append(hold)
        if self._worth is None:
            model.add_exactly_one(ways)
        else:
            model.add_at_most_one(ways)
        length_var = sum(n * chosen for n, chosen in zip(lengths, ways, strict=True))
        hold_var = sum(n * chosen for n, chosen in zip(holds, ways, strict=True))
        end = units.per_step * start + length_var
        return _Job(start, end, start + hold_var, ways, taken)

    def _allowed(self, j: int, placement: Placement) -> bool:
        if self._rows is not None and not all(row in self._rows for row, _ in placement.use):
            return False
        return self.symmetry is None or self.symmetry.allows(j, placement)

    def _fix(self, plan: Plan, used: set[int]) -> None:
        """Let the jobs that are not free do what they do in a plan."""
        units, free = self.units, set(self.free)
        for j, (w, p) in enumerate(plan.choice):
            if j in free or not math.isfinite(plan.start[j]):
                continue
            way = self.data.ways[j][w]
            hold = units.steps(way.hold_s)
            for row, amount in way.placements[p].use:
                if row in used and hold:
                    start = units.steps(float(plan.start[j]))
                    held = self.model.new_fixed_size_interval_var(start, hold, f"f[{j},{row}]")
                    self._intervals[row].append(held)
                    self._amounts[row].append(amount)

    def _order(self) -> None:
        """Add who of two goes first where they may not run side by side.

        A cumulative implies it, but without these literals a search moves a start on unit by unit.
        """
        model, data = self.model, self.data
        for j, k in combinations(self.free, 2):
            check_time()
            both = [
                (x, y)
                for (w, p), x in self.jobs[j].taken.items()
                for (v, q), y in self.jobs[k].taken.items()
                if _clash(
                    data.ways[j][w].placements[p].use, data.ways[k][v].placements[q].use, data
                )
            ]
            if not both:
                continue
            first, second = self.jobs[j], self.jobs[k]
            before = model.new_bool_var(f"b[{j},{k}]")
            after = model.new_bool_var(f"b[{k},{j}]")
            model.add(first.hold_end <= second.start).only_enforce_if(before)
            model.add(second.hold_end <= first.start).only_enforce_if(after)
            model.add_at_most_one(before, after)
            if len(both) == len(first.taken) * len(second.taken):
                model.add_bool_or(before, after)
                continue
            for x, y in both:
                model.add_bool_or(~x, ~y, before, after)

    def _pool(self, pooled: list[tuple[cp_model.IntervalVar, Array]]) -> None:
        """Add the pooled rows, which the others imply, and which make the bound."""
        for r, capacity in enumerate(self.data.pool.capacity):
            own = [(interval, int(load[r])) for interval, load in pooled if load[r] > 0]
            if sum(amount for _, amount in own) > capacity:
                intervals, amounts = zip(*own, strict=True)
                unit = math.gcd(int(capacity), *amounts)
                self.model.add_cumulative(
                    intervals, [n // unit for n in amounts], int(capacity) // unit
                )

    def _fill(self) -> None:
        """Add that what runs takes no more of a row than there is from first start to last end."""
        data, units = self.data, self.units
        first = min(units.steps(float(data.release[j])) for j in self.free)
        last = max(float(data.deadline[j]) for j in self.free)
        if math.isinf(last):
            return
        # A job that completes in time may hold its hosts to the end of its step.
        length = units.down(last) // units.per_step + 1 - first
        for capacity, areas, intervals in zip(
            data.capacity, self._areas, self._intervals, strict=True
        ):
            if areas and len(areas) == len(intervals):
                self.model.add(sum(areas) <= capacity * length)

    def _energy(self, last: cp_model.IntVar, slope: int) -> None:
        """Add that the jobs from a release on need so long for all that they take of a row.

        Parameters
        ----------
        last
            The slope times the last completion, units.
        slope
            The slope.
        """
        releases = np.unique(self.data.release)
        if len(releases) > _MAX_RELEASES:
            releases = releases[np.linspace(0, len(releases) - 1, _MAX_RELEASES).astype(int)]
        for release in releases.tolist():
            first = self.units.per_step * self.units.steps(release)
            late = [own for own in self._energies if self.data.release[own[0]] >= release]
            for r, capacity in enumerate(self.data.pool.capacity):
                unit = math.gcd(int(capacity), *(int(load[r]) for *_, load in late))
                used = [
                    (int(load[r]) // unit * length, chosen)
                    for _, length, chosen, load in late
                    if load[r]
                ]
                # Coefficients whose sum a solver may overflow say too little to be worth it.
                if used and sum(n for n, _ in used) * max(slope, 1) < _MAX_SUM:
                    total = sum(slope * n * chosen for n, chosen in used)
                    self.model.add(total <= int(capacity) // unit * (last - slope * first))

    def level(
        self, level: LevelCosts, before: Plan | None = None
    ) -> tuple[cp_model.LinearExprT, float, float]:
        """Return a level's value in whole numbers, rounded down, with its unit and its constant.

        The true value is at least ``value * unit + constant``; jobs that are not free count with
        their completion in the plan.

        Parameters
        ----------
        level
            The level.
        before
            The plan of the jobs that are not free.
        """
        unit_s, units, model = self.units.unit_s, self.units, self.model
        parts = [level.jobs.rate, level.jobs.late, *(peak.slope for peak in level.peaks)]
        values = np.concatenate(parts)
        positive = values[values > 0]
        room = _MAX_SUM / (3 * self.data.num_jobs * units.per_step * (self._last + 1.0))
        top = min(float(_MAX_WEIGHT), max(room, 1.0))
        exact = whole_multiples(positive)
        if exact is not None and max(exact) <= top:
            factor = exact[0] / float(positive[0])
            whole = [np.rint(part * factor).astype(int) for part in parts]
        else:
            factor = top / float(positive.max())
            whole = [np.floor(part * factor).astype(int) for part in parts]
        rate, late, slopes = whole[0], whole[1], whole[2:]
        terms: list[cp_model.LinearExprT] = []
        constant = float(level.jobs.base.sum())
        for j in range(self.data.num_jobs):
            if j not in self.jobs:
                assert before is not None
                done = float(before.completion[j])
                constant += level.jobs.of(j, done) - float(level.jobs.base[j])
                continue
            first = units.per_step * units.steps(float(self.data.release[j]))
            constant += float(level.jobs.rate[j]) * unit_s * first
            job = self.jobs[j]
            terms.append(int(rate[j]) * (job.end - first))
            if late[j]:
                over = model.new_int_var(0, units.per_step * (self._last + 1) * 2, f"o[{j}]")
                model.add(over >= job.end - units.up(float(level.jobs.due[j])))
                terms.append(int(late[j]) * over)
        for k, (peak, slope) in enumerate(zip(level.peaks, slopes, strict=True)):
            most = int(slope.max()) * units.per_step * (self._last + 1) * 2
            z = model.new_int_var(0, most, f"z[{k}]")
            for j, job in self.jobs.items():
                model.add(z >= int(slope[j]) * (job.end - units.up(float(peak.origin[j]))))
            if before is not None:
                rest = [j for j in range(self.data.num_jobs) if j not in self.jobs]
                least = peak.at(before.completion)[rest].max(initial=0.0)
                model.add(z >= math.floor(least * factor / unit_s))
            if before is None and np.ptp(slope) == 0 and not peak.origin.any():
                self._energy(z, int(slope[0]))
            terms.append(z)
        return sum(terms), unit_s / factor, constant

    def built(self, before: Plan | None = None, most: float = math.inf) -> BuiltModel:
        """Return the model with its objective and the way back to a schedule.

        Parameters
        ----------
        before
            The plan of the jobs that are not free.
        most
            Value that a schedule has: no worse one is sought.
        """
        data, target = self.data, self.data.target
        value, unit, constant = self.level(target.level, before)
        self.model.minimize(value)
        if math.isfinite(most):
            self.model.add(value <= math.ceil((most - constant) / unit))
        for level, limit in target.held:
            kept, size, fixed = self.level(level, before)
            self.model.add(kept <= math.floor((limit - fixed) / size))
        model = CpSatModel(self.model, self._variables(), "min", 1.0 / unit, constant)

        def extract(values: Array) -> Schedule:
            return self.plan_of_values(values, before).schedule(data)

        def start(solution: object) -> Array | None:
            known = plan_of(data, solution) if isinstance(solution, Schedule) else None
            return None if known is None else self.hint(known)

        return BuiltModel(model, extract, start)

    def filling(self) -> CpSatModel:
        """Return the model in which the jobs that run are worth most."""
        assert self._worth is not None
        value = sum(self._worth[j] * sum(job.ways) for j, job in self.jobs.items())
        self.model.maximize(value)
        return CpSatModel(self.model, self._variables(), "max", 1.0)

    def _variables(self) -> tuple[cp_model.IntVar, ...]:
        starts = [job.start for job in self.jobs.values()]
        return (*starts, *(x for _, _, x in self._chosen()))

    def _chosen(self) -> list[tuple[int, Choice, cp_model.IntVar]]:
        return [(j, key, x) for j, job in self.jobs.items() for key, x in job.taken.items()]

    def hint(self, plan: Plan) -> Array:
        """Return the values of a plan for the variables of the built model.

        Parameters
        ----------
        plan
            A plan; what its jobs that do not run would start at is left open.
        """
        if self.symmetry is not None:
            plan = self.symmetry.renamed(plan)
        runs = np.isfinite(plan.start)
        starts = [
            float(self.units.steps(float(plan.start[j]))) if runs[j] else math.nan
            for j in self.jobs
        ]
        taken = [float(runs[j] and plan.choice[j] == key) for j, key, _ in self._chosen()]
        return np.array([*starts, *taken])

    def plan_of_values(self, values: Array, before: Plan | None = None) -> Plan:
        """Return what the values of the variables say, built again in seconds.

        Parameters
        ----------
        values
            Of the built model's variables.
        before
            The plan of the jobs that are not free.
        """
        choice: dict[int, Choice] = {}
        start = np.zeros(self.data.num_jobs)
        if before is not None:
            start = before.start / (self.units.unit_s * self.units.per_step)
            others = set(np.flatnonzero(np.isfinite(start)).tolist()).difference(self.jobs)
            choice = {j: before.choice[j] for j in others}
        for (j, key, _), value in zip(self._chosen(), values[len(self.jobs) :], strict=True):
            if value > 0.5:
                choice[j] = key
        for at, j in enumerate(self.jobs):
            start[j] = values[at]
        # Of those that start in one unit, one that takes less than a unit comes first.
        runs = {j: self.data.ways[j][w].run_s for j, (w, _) in choice.items()}
        order = sorted(choice, key=lambda j: (math.floor(start[j]), runs[j], j))
        every = [choice.get(j, (0, 0)) for j in range(self.data.num_jobs)]
        return by_choices(self.data, order, every)


def _clash(first: Use, second: Use, data: MoldableData) -> bool:
    """Return whether two uses together are more than some row has."""
    taken = dict(first)
    return any(taken.get(row, 0) + n > data.capacity[row] for row, n in second if row in taken)


def build_cpsat(instance: Instance, objective: str, held: Sequence[Held] = ()) -> BuiltModel:
    """Build an instance as a CP-SAT model.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    held
        Earlier levels of the goal.
    """
    return Builder(moldable_data(instance, objective, held, whole=True)).built()
