"""Integers of right-sizing: candidates from dives and from large neighbourhoods, and the bound."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions
from alloc.models.right_sizing.data import Array, Ints
from alloc.solving.capacity.right_sizing_blocks import BlockValue, Task
from alloc.solving.capacity.right_sizing_relaxation import Incumbent, Relaxation
from alloc.solving.capacity.right_sizing_slopes import open_by_slopes

SHORT = 1e-6
"""GPUs in emergency, relative to the demand, that rounding explains."""
_STEPS_OF_DIVE = 4
_SECONDS_TO_POLISH = 6.0


class Candidates(Relaxation):
    """A relaxation that also looks for plans."""

    def try_candidate(self, values: Array, what: str) -> bool:
        """Value a first stage whose integers are set; return whether it is the best so far."""
        point = self.completing.complete(values)
        key = np.round(point[self.first.integer]).tobytes()
        if key in self._tried:
            return False
        self._tried.add(key)
        found = self.value(point, self.tasks, keep=True)
        self.cut(point)
        worth = float(
            self.setting.cost @ point
            + sum(self.setting.weight[task] * found[task].value for task in self.tasks)
        )
        better = self.incumbent is None or worth < self.incumbent.cost
        if better and self._is_plan(point, found):
            self.incumbent = Incumbent(point, worth, found)
            self.say(what)
            return True
        return False

    def _is_plan(self, point: Array, found: dict[Task, BlockValue]) -> bool:
        if self.setting.feasibility:
            return True
        most = max(1.0, float(self.data.demand.sum(axis=2).max()))
        if any(value.emergency > SHORT * most for value in found.values()):
            return False
        spent = self.first.spent @ point / self.unit
        for (w, t), value in found.items():
            spent[t] += self.data.probability[w] * value.value
        budgets = self.setting.budget_rows @ spent
        return bool(np.all(budgets <= self.setting.budgets * (1 + 1e-7) + 1e-9))

    def dive(self, guess: Array | None) -> bool:
        """Choose what is open, close the relaxation around it, and round the orders.

        Parameters
        ----------
        guess
            A first stage whose open pools to take; None: slope scaling finds them.

        Returns
        -------
        bool
            Whether a better plan was found.
        """
        switches, waive = self.switches, self.first.waive
        if len(switches):
            chosen = (
                open_by_slopes(self.master, self.first, self.rng)
                if guess is None
                else np.round(guess[switches])
            )
            if chosen is None:
                return False
            self.seen |= chosen > 0.5
            self.master.fix(switches, chosen, chosen)
        if len(waive):
            answer = self.master.solve()
            if answer is not None:
                allowed = self.completing.waive(answer[1][waive])
                self.master.fix(waive, allowed, allowed)
        seconds = 0.25 * self.seconds_left()
        relaxed = self.relax(None, _STEPS_OF_DIVE, self.gap / 4, seconds, whole=False)
        if relaxed is not None:
            self.mix()
        fixed = np.concatenate([switches, waive])
        self.master.release(fixed)
        return relaxed is not None and self.round(relaxed[1], fixed)

    def polish(self) -> bool:
        """Choose anew what is open among some pools, the rest as in the incumbent (LNS [4]_).

        The pools of some GPU types, of some sites, or all that were open in some step.
        """
        if self.incumbent is None or not len(self.switches):
            return False
        free = self._neighbourhood()
        held = self.switches[~free]
        values = np.round(self.incumbent.values[held])
        options = self._options(_SECONDS_TO_POLISH, self.gap / 5, self._integers())
        raw = self.quarters.solve(options, (held, values, values))
        if raw.values is None or raw.objective is None:
            return False
        if raw.objective > self.incumbent.cost * (1 - self.gap / 20):
            return False
        return self.dive(raw.values[: len(self.setting.cost)])

    def _neighbourhood(self) -> npt.NDArray[np.bool_]:
        """Return which switches are free."""
        kind = int(self.rng.integers(6))
        if kind == 0:
            return self.seen | (np.round(self.incumbent_switches()) > 0.5)
        pools = [self.data.pools[level.pool] for level in self.data.levels]
        keys = [pool.site if kind == 1 else pool.gpu_type for pool in pools]
        names = sorted(set(keys), key=str)
        count = min(1 if kind == 1 else 2 + kind % 2, len(names))
        chosen = {names[i] for i in self.rng.choice(len(names), count, replace=False).tolist()}
        quarters = self.setting.shape[1]
        return np.repeat([key in chosen for key in keys], quarters)

    def incumbent_switches(self) -> Array:
        """Return what the incumbent has open."""
        assert self.incumbent is not None
        return self.incumbent.values[self.switches]

    def _integers(self) -> Array | None:
        """Return the incumbent's integers as a start of the quarterly program."""
        if self.incumbent is None:
            return None
        start = np.full(len(self.quarters.base.cost), np.nan)
        integers = np.flatnonzero(self.first.integer)
        start[integers] = self.incumbent.values[integers]
        return start

    def round(self, point: Array, fixed: Ints) -> bool:
        """Round the orders near a point, as well as the quarterly cuts know how."""
        orders = self.first.order[self.first.order >= 0]
        columns = np.concatenate([fixed, orders]).astype(np.int64)
        held = np.round(point[fixed])
        low = np.maximum(np.floor(point[orders] - 1e-6) - 1, 0)
        high = np.minimum(np.ceil(point[orders] + 1e-6) + 1, self.first.upper[orders])
        limits = (columns, np.concatenate([held, low]), np.concatenate([held, high]))
        raw = self.quarters.solve(self._options(5.0, self.gap / 10), limits)
        if raw.values is None:
            return False
        return self.try_candidate(raw.values[: len(self.setting.cost)], "rounded")

    def _options(self, seconds: float, gap: float, start: Array | None = None) -> SolverOptions:
        seconds = max(min(seconds, self.seconds_left()), 0.1)
        return SolverOptions(
            seconds, self.settings.seed, self.settings.workers, gap=gap, start=start
        )

    def prove(self, seconds: float) -> Array | None:
        """Raise the bound by the quarterly integer program; return its best point."""
        raw = self.quarters.solve(self._options(seconds, self.gap / 3, self._integers()))
        if raw.status == "infeasible":
            self.bound = math.inf
            return None
        self.bound = max(self.bound, raw.bound)
        self.say("integers")
        return None if raw.values is None else raw.values[: len(self.setting.cost)]
