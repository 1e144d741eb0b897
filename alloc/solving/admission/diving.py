"""Diving: plans that the linear program is sure of are kept, and the rest is asked again.

After each choice the jobs that are left have new columns: their cheapest plans at the new prices in
what is still free. So the program, which first shares slots between plans in parts, is led to plans
that stand beside each other (column generation with a diving heuristic).

References
----------
Sadykov, Vanderbeck, Pessoa, Tahiri, Uchoa, "Primal heuristics for branch and price: the assets of
diving methods", INFORMS Journal on Computing 31 (2019).
"""

from __future__ import annotations

import numpy as np

from alloc.errors import OutOfTime
from alloc.models.admission.plans import Plan
from alloc.models.malleable.data import Array
from alloc.solving.admission.plan_columns import PlanColumns
from alloc.solving.outcome import Settings

_STEPS = 400
"""Steps of a job's need: a plan that is a hundredth dearer than the cheapest is as good here."""
_FAR = 0.1
"""Part of its job's worth by which a column may cost too much and still be there at the start: the
programs of the dive are half as large, and what is missing is priced again."""
_ROUNDS = 2
"""Most rounds of pricing between choices: what the first one misses the next choice sees."""
_MEANS = 1e-3
"""Part of a job's worth that a column must gain: less does not change who is let in."""
_SURE = 0.95
"""Value from which a column is kept without a look at others: what rounds it up loses next to
nothing."""
_MAX_UNSURE = 3
"""Most other columns that are kept at once, the largest, in windows that share no slot: one by one
takes more programs, and what is chosen in one week says little of another."""
_ROOM = 1e-6
"""Milli-GPUs, or other units of a resource, that are rounding of sums."""


class Dive:
    """One dive in a part whose columns are generated.

    Parameters
    ----------
    part
        The part, with its columns.

    Attributes
    ----------
    plans
        The plans kept until now, by position of the job: an answer at any time.
    """

    def __init__(self, part: PlanColumns) -> None:
        self.part = part
        self.plans: dict[int, Plan] = {}
        self.columns = PlanColumns(part.data, part.jobs, part.report)
        self.columns.add(part.near(_FAR))
        self.free = np.tile(part.capacity, (part.slots, 1))
        spans = [part.data.slots(j) for j in part.jobs]
        self.start = np.array([span.start - part.first for span in spans])
        self.stop = np.array([span.stop - part.first for span in spans])
        self.use = [part.data.grid.data.table(j).use for j in part.jobs]
        self._gone: set[int] = set()
        self._priced: dict[int, bytes] = {}

    def run(self, settings: Settings) -> None:
        """Keep plan after plan until nothing more fits or the time is up.

        Parameters
        ----------
        settings
            Limits.
        """
        try:
            while True:
                for _ in range(_ROUNDS):
                    found = self.columns.master.solve(settings.seconds_left())
                    if not self._price(np.maximum(found.duals, 0.0), settings):
                        break
                kept = self._keep(found.values)
                if not kept:
                    return
                self._close(kept)
        except OutOfTime:
            return

    def _price(self, duals: Array, settings: Settings) -> int:
        """Add plans of jobs whose prices or free slots have changed; return how many."""
        part = self.part
        prices = duals[: self.free.size].reshape(self.free.shape) / part.scale
        own = duals[self.free.size :]
        new = []
        for i, j in enumerate(part.jobs):
            if j in self.plans:
                continue
            if settings.time_is_up():
                raise OutOfTime
            window = slice(self.start[i], self.stop[i])
            fits = (self.use[i][None] <= self.free[window, None] + _ROOM).all(axis=2)
            price = np.where(fits, prices[window] @ self.use[i].T, np.inf)
            worth = float(part.worth[i])
            limit = worth * (1 - _MEANS) - float(own[i])
            state = price.tobytes()
            if limit <= 0 or self._priced.get(i) == state:
                continue
            self._priced[i] = state
            found = part.problems[i].cheapest(price, _STEPS, below=limit)
            if found.plan is not None and found.least < limit:
                new.append((j, found.plan))
        return self.columns.add(new)

    def _keep(self, values: Array) -> list[int]:
        """Keep the plans that a solution is surest of; return their columns."""
        keys, kept = self.columns.master.keys, list[int]()
        unsure = list[tuple[int, int]]()
        for k in np.argsort(-values, kind="stable").tolist():
            j, plan = keys[k]
            sure = values[k] >= _SURE
            if values[k] < _MEANS or (not sure and len(unsure) >= _MAX_UNSURE):
                break
            if j in self.plans or not self._fits(j, plan):
                continue
            i = self.part.position[j]
            begin, end = int(self.start[i]), int(self.stop[i])
            if not sure:
                if any(begin < other_end and other < end for other, other_end in unsure):
                    continue
                unsure.append((begin, end))
            t, c = np.array(plan, dtype=np.int64).T
            self.free[begin + t] -= self.use[i][c]
            self.plans[j] = plan
            kept.append(k)
        return kept

    def _fits(self, j: int, plan: Plan) -> bool:
        i = self.part.position[j]
        t, c = np.array(plan, dtype=np.int64).T
        return bool((self.use[i][c] <= self.free[self.start[i] + t] + _ROOM).all())

    def _close(self, kept: list[int]) -> None:
        """Fix the columns that are kept, and rule out those that no longer fit beside them."""
        keys, program = self.columns.master.keys, self.columns.master.program
        ones = np.ones(len(kept))
        program.set_column_bounds(kept, ones, ones)
        changed = np.zeros(self.part.slots, dtype=bool)
        for k in kept:
            i = self.part.position[keys[k][0]]
            changed[self.start[i] : self.stop[i]] = True
        gone = [
            k
            for k, (j, plan) in enumerate(keys)
            if j not in self.plans
            and k not in self._gone
            and changed[self.start[i := self.part.position[j]] : self.stop[i]].any()
            and not self._fits(j, plan)
        ]
        self._gone.update(gone)
        program.set_column_bounds(gone, np.zeros(len(gone)), np.zeros(len(gone)))
