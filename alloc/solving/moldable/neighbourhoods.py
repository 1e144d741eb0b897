"""Large neighbourhoods: some jobs are taken out and put back by CP-SAT, the others stay.

References
----------
Shaw, "Using constraint programming and local search methods to solve vehicle routing problems", CP
1998. Godard, Laborie, Nuijten, "Randomized large neighborhood search for cumulative scheduling",
ICAPS 2005 (windows of time).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from alloc.backends import SolverOptions, cpsat
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.formulation import CpSatModel, RawResult
from alloc.models.moldable.cpsat_model import Builder
from alloc.models.moldable.data import MoldableData
from alloc.models.moldable.serial import Plan
from alloc.solving.moldable.lists import value_of
from alloc.solving.outcome import Settings

_FIRST_SIZE, _MAX_SIZE, _MIN_SIZE = 8, 60, 4
"""Jobs taken out: at first, at most, at least."""
_STEP_S = 1.0
"""Seconds for a step: one that takes longer had too many jobs."""
_HOSTS = 4
"""Hosts whose jobs are taken out together, at most: of more, the jobs no longer compete."""


class Neighbourhoods:
    """The search.

    Parameters
    ----------
    data
        The instance.
    plan
        A schedule to start from.
    settings
        Limits.
    """

    def __init__(self, data: MoldableData, plan: Plan, settings: Settings) -> None:
        self.data, self.plan, self.settings = data, plan, settings
        self.value = value_of(data, plan)
        self.steps = 0
        self.bound = -math.inf
        self._rng = np.random.default_rng(settings.seed)
        self._size = min(_FIRST_SIZE, data.num_jobs)
        self._rows_of, self._shared = data.rows_of_hosts

    def run(self, is_good: Callable[[float], bool]) -> None:
        """Search until time is up or the value is good enough.

        Parameters
        ----------
        is_good
            Says of a value whether the search may end.
        """
        while not self.settings.time_is_up() and not is_good(self.value):
            if self.step():
                return

    def step(self) -> bool:
        """Take some jobs out and put them back; return whether that proved the best of all.

        All jobs were open then, on all hosts, and `bound` has what CP-SAT says.
        """
        self.steps += 1
        free, rows = self._draw()
        try:
            with time_limit(min(_STEP_S, self.settings.seconds_left())):
                builder = Builder(self.data, self.plan, free, rows)
                built = builder.built(self.plan)
        except OutOfTime:
            self._size = max(self._size - 2, min(_MIN_SIZE, self.data.num_jobs))
            return False
        assert isinstance(built.model, CpSatModel)
        assert built.start is not None
        seconds = min(_STEP_S, self.settings.seconds_left())
        if seconds <= 0:
            return False
        raw: RawResult = cpsat.solve(
            built.model,
            SolverOptions(
                seconds,
                int(self._rng.integers(2**31)),
                self.settings.workers,
                1e-7,
                built.start(self.plan.schedule(self.data)),
            ),
        )
        finished = raw.status in ("optimal", "infeasible")
        grown = min(self._size + 2, _MAX_SIZE, self.data.num_jobs)
        self._size = grown if finished else max(self._size - 2, _MIN_SIZE)
        self._size = min(self._size, self.data.num_jobs)
        if raw.values is not None:
            found = builder.plan_of_values(raw.values, self.plan)
            value = value_of(self.data, found)
            # Ties are taken too: they move the search on.
            if value <= self.value:
                self.plan, self.value = found, value
        everything = len(free) == self.data.num_jobs and rows is None
        if not everything or raw.status != "optimal":
            return False
        self.bound = raw.bound
        return True

    def _draw(self) -> tuple[list[int], frozenset[int] | None]:
        """Return jobs to take out, and the rows that they may use; None for all."""
        plan, size, rng = self.plan, self._size, self._rng
        jobs = np.arange(self.data.num_jobs)
        rows: frozenset[int] | None = None
        if len(self._rows_of) > _HOSTS or rng.random() < 0.5:
            jobs, rows = self._on_some_hosts()
        if len(jobs) <= size:
            return sorted(jobs.tolist()), rows
        middle = float(rng.choice(0.5 * (plan.start + plan.completion)[jobs]))
        if rng.random() < 0.8:
            away = np.maximum(plan.start[jobs] - middle, middle - plan.completion[jobs])
            # Some at random besides the nearest: what is far may be in the way.
            away = away * rng.uniform(0.7, 1.3, len(jobs))
            picked = jobs[np.argsort(away, kind="stable")[:size]]
        else:
            picked = rng.choice(jobs, size, replace=False)
        return sorted(int(j) for j in picked), rows

    def _on_some_hosts(self) -> tuple[np.ndarray, frozenset[int]]:
        """Return the jobs on some hosts, one of them that of the job that ends last, and rows."""
        data, plan, rng = self.data, self.plan, self._rng
        names = list(self._rows_of)
        most = min(_HOSTS, len(names))
        number = int(rng.integers(min(2, most), most + 1))
        last = (
            int(np.argmax(plan.completion))
            if rng.random() < 0.5
            else int(rng.integers(data.num_jobs))
        )
        w, p = plan.choice[last]
        chosen = {task.host for task in data.ways[last][w].placements[p].tasks}
        for name in rng.permutation(names):
            if len(chosen) >= number:
                break
            chosen.add(str(name))
        rows = frozenset(self._shared.union(*(self._rows_of[name] for name in chosen)))
        on = []
        for j, (w, p) in enumerate(plan.choice):
            if all(row in rows for row, _ in data.ways[j][w].placements[p].use):
                on.append(j)
        return np.array(on), rows
