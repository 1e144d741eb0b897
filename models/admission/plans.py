"""The cheapest plan of one job at prices for capacity: a relaxation, then dynamic programming.

A *plan* says in which configuration a job runs in each of its slots so that its work is done by its
limit; unlike a profile of F2 it does not ask when the job completes.

Where a slot may be used in part, work of all slots has one price y: the least cost is the largest
of ``y need - sum_t max(0, max_c (y done_tc - price_tc))``, and what is chosen at that y, but for
one slot, is a plan. What must cost more than that plan, or than anybody asks, is left out; dynamic
programming looks at the rest. Its state is the work done, in steps of the job's need, and what a
slot does is rounded up: the cost is a lower bound on that of every plan, whatever the number of
steps, and a Lagrangian bound that is made of such costs holds.
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
_SLACK = 1e-9
"""Part of a cost that is rounding of the relaxation's sums: no choice is left out for less."""
_ROUNDING = 1e-12
"""Part of the price of all work that is rounding where two lines meet."""
_MAX_LINES = 200
"""Most lines of the relaxation that are intersected: six to nine are enough for jobs of 20 slots,
and a few more where prices differ by many orders. Each gives a bound that holds."""


@dataclass(frozen=True)
class Priced:
    """A plan and what is known of its price.

    Parameters
    ----------
    least
        No plan costs less; where only plans below a limit were asked for and there are none, that
        limit.
    plan
        One that costs about so much and does all work; None where none was found.
    """

    least: float
    plan: Plan | None


@dataclass(frozen=True)
class _Relaxed:
    """The optimum where slots may be used in part.

    Parameters
    ----------
    least
        Its cost.
    worth
        Price of a unit of work.
    less, more
        What is chosen at that price in each slot, -1 for nothing: one choice that does too little
        work, and one that does enough, shape (T,).
    """

    least: float
    worth: float
    less: Index
    more: Index

    def chosen(self, done: Array, need: float) -> dict[int, int]:
        """Return choices by slot that do all work but for what one slot can do."""
        slots = np.arange(len(done))
        by_less = np.where(self.less >= 0, done[slots, self.less], 0.0)
        by_more = np.where(self.more >= 0, done[slots, self.more], 0.0)
        reached = by_less.sum() + np.cumsum(by_more - by_less)
        # Slot by slot as much as in the choice that does enough, until one slot is left.
        change = slots < int(np.argmax(reached >= need))
        mixed = np.where(change, self.more, self.less)
        return {int(t): int(mixed[t]) for t in np.flatnonzero(mixed >= 0)}

    def costs_with(self, done: Array, paid: Array) -> Array:
        """Return what any plan with a choice in a slot costs at least, shape (T, C)."""
        profit = self.worth * done - paid
        costs: Array = self.least + np.maximum(profit.max(axis=1), 0.0)[:, None] - profit
        return costs


def _relaxed(paid: Array, done: Array, need: float) -> _Relaxed | None:
    """Return the optimum where slots may be used in part, None where all slots are too little.

    The cost as a function of the price of work is concave and of straight pieces: the line to the
    left and the line to the right of its top are intersected, until they meet on it.
    """
    slots = np.arange(len(done))
    most = done.argmax(axis=1)
    less = np.full(len(done), -1)
    more = np.where(done[slots, most] > 0, most, -1)
    runs = more >= 0
    left = (0.0, need)
    right = (
        float(paid[slots, most][runs].sum()),
        need - float(done[slots, most][runs].sum()),
    )
    if right[1] > 0:
        return None
    least, worth = 0.0, 0.0
    for _ in range(_MAX_LINES):
        worth = (right[0] - left[0]) / (left[1] - right[1])
        profit = worth * done - paid
        best = profit.argmax(axis=1)
        gained = profit[slots, best]
        runs = gained > 0
        least = worth * need - float(gained[runs].sum())
        if least >= left[0] + left[1] * worth - _ROUNDING * worth * need:
            break
        line = (
            float(paid[slots, best][runs].sum()),
            need - float(done[slots, best][runs].sum()),
        )
        if line[1] > 0:
            left, less = line, np.where(runs, best, -1)
        else:
            right, more = line, np.where(runs, best, -1)
    return _Relaxed(max(least, 0.0), worth, less, more)


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

    def cheapest(
        self, price: Array, steps: int, *, plan: bool = True, below: float = np.inf
    ) -> Priced:
        """Return the cheapest plan.

        Parameters
        ----------
        price
            Price of each configuration in each slot, 0 or more, infinite where it cannot run, shape
            (T, C).
        steps
            Steps that the need is counted in: the more, the closer is the bound. 0 leaves it to the
            relaxation.
        plan
            Whether a plan is asked for, beside the bound.
        below
            Plans that cost so much or more are not asked for.
        """
        columns = np.arange(len(self.rate))
        choices = [columns[k : k + 1] for k in columns] if self.apart else [columns]
        best, cost = Priced(below, None), np.inf
        for own in choices:
            least, found = self._solve(price, own, steps, best.least, plan)
            paid = np.inf if found is None else sum(float(price[t, k]) for t, k in found)
            best = Priced(min(least, best.least), found if paid < cost else best.plan)
            cost = min(paid, cost)
        return best

    def _solve(
        self, price: Array, own: Index, steps: int, below: float, plan: bool
    ) -> tuple[float, Plan | None]:
        """Return the least cost with some configurations, and a plan if that is below a limit."""
        done = np.outer(self.usable, self.rate[own])
        paid = price[:, own]
        done[np.isinf(paid)] = 0.0
        relaxed = _relaxed(paid, done, self.need)
        if relaxed is None or relaxed.least >= below:
            return np.inf if relaxed is None else relaxed.least, None
        known = self._complete(price, own, relaxed.chosen(done, self.need))
        limit = below
        if known is not None:
            limit = min(limit, sum(float(price[t, c]) for t, c in known))
        slack = _SLACK * max(limit, 0.0) if np.isfinite(limit) else 0.0
        if not steps or limit <= relaxed.least + slack:
            return relaxed.least, known if plan else None
        gain = np.ceil(done * (steps / self.need) - _WHOLE).astype(np.int64)
        np.clip(gain, 0, steps, out=gain)
        gain[relaxed.costs_with(done, paid) > limit + slack] = 0
        # What less than nothing is left to do costs nothing: the first steps of each row.
        now = np.zeros(2 * steps + 1)
        now[steps + 1 :] = np.inf
        slots = np.flatnonzero(gain.any(axis=1))
        values, cost = [now], np.empty(steps)
        for t in slots.tolist():
            before, now = now, now.copy()
            after = now[steps + 1 :]
            for k, by in zip(paid[t].tolist(), gain[t].tolist(), strict=True):
                if by:
                    np.add(before[steps + 1 - by : 2 * steps + 1 - by], k, out=cost)
                    np.minimum(after, cost, out=after)
            if plan:
                values.append(now)
        least = float(now[-1])
        if plan and least < limit:
            traced = self._traced(values, paid[slots], gain[slots], steps)
            found = self._complete(price, own, {int(slots[t]): k for t, k in traced.items()})
            if found is not None and sum(float(price[t, c]) for t, c in found) < limit:
                known = found
        # What was left out costs the limit or more.
        return max(relaxed.least, min(least, limit)), known if plan else None

    def _traced(
        self, values: Sequence[Array], paid: Array, gain: Index, steps: int
    ) -> dict[int, int]:
        """Return the choices behind the least cost, by slot."""
        at, found = 2 * steps, dict[int, int]()
        for t in range(len(gain) - 1, -1, -1):
            if at <= steps:
                break
            reached = values[t][np.maximum(at - gain[t], 0)] + paid[t]
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
