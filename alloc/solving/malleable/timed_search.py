"""The search of F2 in continuous time: prices, a plan by neighbourhoods, and schedules on hosts.

1. Prices on a grid of time, raised by the volume algorithm and refined: they prove the bound.
2. A plan: jobs are inserted at these prices into the capacity of the whole cluster, and the plan is
   improved by taking some jobs out and putting them back (`alloc.solving.malleable.reinsertion`).
3. Schedules: list scheduling follows the plan on hosts, and fills what it leaves idle; in turn with
   the neighbourhoods, a local search over lists (`alloc.solving.malleable.list_search`).

Steps are counted, not timed: of two runs from the same start, the longer one goes on where the
shorter one ends, so it is never worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from alloc.algorithms.volume import raise_dual
from alloc.formulation import Array
from alloc.models.malleable.costs import Multipliers
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.fluid import FluidPricing, fluid_bound
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.solving.malleable.insertion import serving_orders, value_of
from alloc.solving.malleable.list_scheduling import Candidate, ListScheduler
from alloc.solving.malleable.list_search import Incumbent, ListSearch, best_of
from alloc.solving.malleable.reinsertion import Reinsertion
from alloc.solving.malleable.timed_insertion import (
    Room,
    TimedBuilder,
    TimedColumn,
    pieces_s,
    timed_plan,
)
from alloc.solving.outcome import Settings

_WORK_PRICES = 256
"""Prices of work in the ascent: with more, rounds take longer and prices become no better."""
_MAX_INTERVALS = 1600
"""Intervals up to which the grid is refined: a round takes time in proportion."""
_FACTORS = (1.0, 0.75, 0.0)
"""Multiples of the prices at which all jobs are inserted for a first plan; at 0 each takes what is
there."""
_SIZES = (2, 24)
"""Range of neighbourhood sizes: of more jobs, most lose where they were."""
_ROUNDS, _TRIES = 64, 8
"""Neighbourhoods and lists in a turn, about a second of each for some hundreds of jobs."""
_LONGEST_TURN = 16
"""Multiple of these that a turn may take while it gains: the other kind of turn is to come, too."""
_RESERVE = 2.0
"""How often the time of following a plan is kept for the last one: it may take longer than the one
before."""


@dataclass(frozen=True)
class TimedPrices:
    """Prices in continuous time.

    Parameters
    ----------
    edges
        Ends of the intervals, slots, rising from 0, shape (intervals + 1,).
    prices
        Price of each row per slot of time, shape (intervals, R).
    ends
        When the relaxed jobs complete, slots, shape (J,).
    bound
        What the prices prove, in the unit of the costs times seconds, as `fluid_bound`.
    """

    edges: Array
    prices: Array
    ends: Array
    bound: float


def raise_prices(
    data: SlotData,
    start: Array,
    multipliers: Multipliers | None,
    upper: float,
    is_over: Callable[[], bool],
    report: Callable[[str], None],
) -> Iterator[TimedPrices]:
    """Raise the bound in continuous time from prices on slots, on finer and finer grids.

    Parameters
    ----------
    data
        The instance on its slots; floors of peaks hold in continuous time.
    start
        Prices to begin from, per slot, shape (slots, R).
    multipliers
        Of peaks and held levels, which stay as they are.
    upper
        Value of a schedule, in the unit of the costs times slots.
    is_over
        Whether to stop.
    report
        Takes a line of progress.

    Yields
    ------
    TimedPrices
        The prices to begin from, or 0 where that proves more; then prices that prove more and more.
    """
    costs, constant = data.target.relaxed(multipliers or data.target.nothing())
    capacity = np.where(data.rows.capacity > 0, data.rows.capacity, 1.0)
    edges, prices = np.arange(len(start) + 1.0), np.maximum(start, 0.0)
    pricing = FluidPricing(data, edges, _WORK_PRICES)

    def proved(prices: Array) -> TimedPrices:
        bound = fluid_bound(data, prices, multipliers, edges)
        return TimedPrices(edges, prices, pricing.solve(prices, costs).ends, bound)

    def relaxed(point: Array) -> tuple[float, Array]:
        found = pricing.solve(point / whole, costs)
        return float(found.values.sum()) + constant, found.use / capacity

    # Prices of a grid whose search was cut short may be worse than none.
    best = max((proved(own) for own in (prices, np.zeros_like(prices))), key=lambda own: own.bound)
    prices = best.prices
    yield best
    while not is_over():
        whole = capacity * np.diff(edges)[:, None]
        found = raise_dual(relaxed, whole.shape, upper, is_over, lambda line: None, prices * whole)
        prices = found.prices / whole
        now = proved(prices)
        if now.bound > best.bound:
            best = now
            report(f"prices in {len(prices)} intervals prove {best.bound:g}")
            yield best
        if 2 * len(prices) > _MAX_INTERVALS or not prices.any():
            return
        edges = np.union1d(edges, (edges[1:] + edges[:-1]) / 2)
        prices = np.repeat(prices, 2, axis=0)
        pricing = FluidPricing(data, edges, _WORK_PRICES)


class TimedSearch:
    """Improves schedules in continuous time.

    Parameters
    ----------
    instance
        An instance without slots.
    data
        The instance on a grid, which is only a unit of time.
    prices
        Prices of capacity over time.
    given
        Schedules to begin from; None counts for none.
    settings
        Limits, seed and held levels.
    objective
        One level of a goal.

    Attributes
    ----------
    best
        The best schedule so far, or None: good at every moment, also after Ctrl-C.
    """

    def __init__(
        self,
        instance: Instance,
        data: SlotData,
        prices: TimedPrices,
        given: Iterable[Schedule | None],
        settings: Settings,
        objective: str,
    ) -> None:
        schedules = [schedule for schedule in given if schedule is not None]
        self._instance, self._data, self._prices = instance, data, prices
        self._settings, self._objective = settings, objective
        left = settings.seconds_left
        self._lists = ListSearch(instance, schedules, settings.seed, left, objective, settings.held)
        self.best: Incumbent | None = self._lists.best
        self._given = schedules
        self._builder = TimedBuilder(data, prices.edges)
        self._maker = ListScheduler(instance, lambda: left() <= 0, objective)
        self._follow_s = 0.0

    def run(self, target: float, report: Callable[[str], None]) -> None:
        """Search until the best schedule has a target or the time is over.

        Parameters
        ----------
        target
            Value at which to stop.
        report
            Takes a line of progress.
        """
        search = self._first(report)
        rounds, tries = _ROUNDS, _TRIES
        while not self._is_over(target):
            if search is not None:
                gained = self._neighbourhoods(search, rounds, target)
                rounds = _next_turn(rounds, gained, _ROUNDS)
                if gained and self._follow(search.plan):
                    self._say(report, "a plan followed on hosts")
                    self._lists.offer(self.best)
            before = self.best
            self._lists.run(target, lambda line: None, tries)
            gained = self._take(self._lists.best)
            tries = _next_turn(tries, gained, _TRIES)
            if gained and self.best is not before and self.best is not None:
                self._say(report, "list scheduling")
                if search is not None:
                    self._adopt(search, self.best.schedule)
            if search is None and not self._lists.has_start:
                return

    def _first(self, report: Callable[[str], None]) -> Reinsertion[TimedColumn, Room] | None:
        """Return the search from the best first plan, followed on hosts; None if there is none."""
        plans = [timed_plan(self._data, self._instance, schedule) for schedule in self._given]
        order = np.argsort(self._prices.ends, kind="stable").tolist()
        for factor in _FACTORS:
            if self._settings.time_is_up() and any(plans):
                break
            prices = factor * self._prices.prices if factor else None
            plans.append(self._builder.insert_all(order, prices, self._settings.time_is_up))
        if not any(plans):
            plans += [
                self._builder.insert_all(own.tolist(), None) for own in serving_orders(self._data)
            ]
        known = [plan for plan in plans if plan is not None]
        if not known:
            return None
        plan = min(known, key=lambda plan: value_of(self._data, plan))
        left = self._settings.seconds_left()
        if self._follow(plan):
            self._say(report, "a plan followed on hosts")
            self._lists.offer(self.best)
        self._follow_s = left - self._settings.seconds_left()
        return Reinsertion(
            self._data, self._builder, self._prices.prices, plan, self._settings, spread=True
        )

    def _is_over(self, target: float) -> bool:
        if self._settings.seconds_left() <= _RESERVE * self._follow_s:
            return True
        return self.best is not None and self.best.value <= target

    def _neighbourhoods(
        self, search: Reinsertion[TimedColumn, Room], rounds: int, target: float
    ) -> bool:
        """Improve the plan by some neighbourhoods; return whether it is better."""
        before = search.value
        for _ in range(rounds):
            if self._is_over(target):
                break
            size = int(search.rng.integers(*_SIZES))
            search.reinsert(search.neighbourhood(min(size, self._data.num_jobs)))
        return search.value < before

    def _follow(self, plan: dict[int, TimedColumn]) -> bool:
        """Follow a plan on hosts; return whether the schedule is the best so far."""
        jobs = self._instance.jobs
        turns = pieces_s(self._data, plan)
        order = sorted(plan, key=lambda j: (plan[j].profile.completion, jobs[j].arrival_s))
        plans = tuple(((own[-1][2], job.work_left),) for own, job in zip(turns, jobs, strict=True))
        made = self._maker.schedule(Candidate(tuple(order), plans, turns))
        return self._take(best_of(self._instance, [made], self._objective, self._settings.held))

    def _take(self, found: Incumbent | None) -> bool:
        """Take what was found as the best if it is better."""
        if found is None or (self.best is not None and found.value >= self.best.value):
            return False
        self.best = found
        return True

    def _adopt(self, search: Reinsertion[TimedColumn, Room], schedule: Schedule) -> None:
        """Let the search of plans go on from a schedule where that is better."""
        plan = timed_plan(self._data, self._instance, schedule)
        if plan is not None:
            search.adopt(plan)

    def _say(self, report: Callable[[str], None], how: str) -> None:
        assert self.best is not None
        report(f"{how}: {self.best.value:.4f}")


def _next_turn(steps: int, gained: bool, least: int) -> int:
    """Return the length of the next turn: twice as long after a gain, half as long after none."""
    return min(2 * steps, _LONGEST_TURN * least) if gained else max(steps // 2, least)
