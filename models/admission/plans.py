"""The cheapest plan of one job at prices for capacity, by dynamic programming.

A *plan* says in which configuration a job runs in each of its slots so that its work is done by its
limit; unlike a profile of F2 it does not ask when the job completes. The state is the work done, in
steps of the job's need, and what a slot does is rounded up: the cost is a lower bound on that of
every plan, whatever the number of steps, and a Lagrangian bound that is made of such costs holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alloc.models.malleable.data import Array, Index

Plan = tuple[tuple[int, int], ...]
"""Slots, counted from a job's first one, with its configuration in each, in order of slots."""
_WHOLE = 1e-9
"""Part of a step that is rounding: over all slots of a job less than a step, so that the steps of a
plan that does its work, which are whole, add up to all of them."""


@dataclass(frozen=True)
class Priced:
    """A plan and what is known of its price.

    Parameters
    ----------
    least
        No plan costs less.
    plan
        One that costs about so much and does all work; None where none was found.
    """

    least: float
    plan: Plan | None


@dataclass(frozen=True)
class PlanProblem:
    """What a job asks of a plan.

    Parameters
    ----------
    rate
        Work a slot of each configuration, shape (C,).
    usable
        Part of each slot that may be used, shape (T,).
    need
        Work to do, more than 0.
    apart
        Whether a plan keeps to one configuration.
    """

    rate: Array
    usable: Array
    need: float
    apart: bool = False

    def cheapest(self, price: Array, steps: int, *, plan: bool = True) -> Priced:
        """Return the cheapest plan.

        Parameters
        ----------
        price
            Price of each configuration in each slot, 0 or more, shape (T, C).
        steps
            Steps that the need is counted in: the more, the closer is the bound.
        plan
            Whether a plan is asked for, beside the bound.
        """
        columns = np.arange(len(self.rate))
        choices = [columns[k : k + 1] for k in columns] if self.apart else [columns]
        best = Priced(np.inf, None)
        for own in choices:
            least, found = self._solve(price, own, steps, best.least, plan)
            if least < best.least:
                best = Priced(least, found)
        return best

    def _solve(
        self, price: Array, own: Index, steps: int, below: float, plan: bool
    ) -> tuple[float, Plan | None]:
        """Return the least cost with some configurations, and a plan if that is below a limit."""
        done = np.outer(self.usable, self.rate[own])
        gain = np.ceil(done * (steps / self.need) - _WHOLE).astype(np.int64)
        np.clip(gain, 0, steps, out=gain)
        # What less than nothing is left to do costs nothing: the first steps of each row.
        now = np.zeros(2 * steps + 1)
        now[steps + 1 :] = np.inf
        values, cost = [now], np.empty(steps)
        for t in range(len(self.usable)):
            before, now = now, now.copy()
            after = now[steps + 1 :]
            for k, by in zip(price[t, own].tolist(), gain[t].tolist(), strict=True):
                if by:
                    np.add(before[steps + 1 - by : 2 * steps + 1 - by], k, out=cost)
                    np.minimum(after, cost, out=after)
            if plan:
                values.append(now)
        least = float(now[-1])
        if not plan or not least < below:
            return least, None
        return least, self._complete(price, own, self._traced(values, price, own, gain, steps))

    def _traced(
        self, values: Sequence[Array], price: Array, own: Index, gain: Index, steps: int
    ) -> dict[int, int]:
        """Return the choices behind the least cost, by slot."""
        at, found = 2 * steps, dict[int, int]()
        for t in range(len(self.usable) - 1, -1, -1):
            if at <= steps:
                break
            reached = values[t][np.maximum(at - gain[t], 0)] + price[t, own]
            reached[gain[t] == 0] = np.inf
            k = int(reached.argmin())
            if reached[k] < values[t][at]:
                found[t] = k
                at = max(at - int(gain[t, k]), 0)
        return found

    def _complete(self, price: Array, own: Index, chosen: dict[int, int]) -> Plan | None:
        """Return a plan that does all work: the choices, and one more where rounding hid a rest."""
        done = np.outer(self.usable, self.rate[own])
        missing = self.need - sum(float(done[t, k]) for t, k in chosen.items())
        if missing > 0:
            held = np.zeros(len(self.usable))
            paid = np.zeros(len(self.usable))
            for t, k in chosen.items():
                held[t], paid[t] = done[t, k], price[t, own[k]]
            more = price[:, own] - paid[:, None]
            more[done - held[:, None] < missing] = np.inf
            at, new = divmod(int(more.argmin()), more.shape[1])
            if not np.isfinite(more[at, new]):
                return None
            chosen[at] = new
        return tuple((t, int(own[k])) for t, k in sorted(chosen.items()))

    def is_done_by(self, plan: Sequence[tuple[int, int]]) -> bool:
        """Return whether a plan does all work."""
        return sum(float(self.usable[t] * self.rate[k]) for t, k in plan) >= self.need
