"""The search for goals of host costs and moves: exchanges, then patterns chosen by prices.

1. Single moves, then exchanges over several hosts: a good placement at once.
2. Column generation over host patterns: a bound, prices, and patterns that pay.
3. In turns: hosts choose among patterns anew (all of them, or some), exchanges settle what they
   chose, kicks leave local optima. More patterns come from prices slightly other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from alloc.certificate import is_within
from alloc.objectives.goals import WeightedSum
from alloc.solving.outcome import Settings
from alloc.solving.placement.bounds import (
    pattern_prices,
    round_up,
    sharpen,
    trivial_bound,
)
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.guided import Guide
from alloc.solving.placement.improvement import Improver
from alloc.solving.placement.neighbourhood import Neighbourhood
from alloc.solving.placement.pattern_master import Generated
from alloc.solving.placement.relaxation import Relaxation, Weights, relax
from alloc.solving.placement.state import GAIN, State
from alloc.solving.placement.terms import Counts

Report = Callable[[str], None]

_PRICING_S = 0.0025
"""Seconds for each task group that patterns need to be of use."""
_DEARER = 2.0
_DIVES = 2
_FEW_HOSTS = 64
_MANY_HOSTS = 1200
_FEW_DEALT = 5
"""Hosts that are dealt out exactly together."""
_REGION = 40
_REGION_SETTLED = 160
"""Hosts that are kicked, and settled, together when there are many."""
_PATTERNS_PER_HOST = 40
_LEAST_CHOICE = 30


class Search:
    """Improves a state until time is up or its bound is reached.

    Parameters
    ----------
    problem
        The problem.
    level
        The level of the goal that the state's costs stand for.
    state
        The placement, changed in place; never left worse than it was.
    constant
        What the level has besides the state's value, in minimisation.
    settings
        Limits.
    report
        Takes a line of progress.
    gap
        Relative gap at which the search ends.
    """

    def __init__(
        self,
        problem: Problem,
        level: WeightedSum,
        state: State,
        constant: float,
        settings: Settings,
        report: Report,
        gap: float,
    ) -> None:
        self.problem = problem
        self.level = level
        self.state = state
        self.constant = constant
        self.settings = settings
        self.report = report
        self.gap = gap
        self.rng = np.random.default_rng(settings.seed)
        self.bound = -math.inf
        self.relaxation: Relaxation | None = None
        self.generated: Generated | None = None
        self.best = state.snapshot()
        self.best_value = state.value

    @property
    def done(self) -> bool:
        """Whether time is up or the gap small enough."""
        value = self.best_value + self.constant
        return self.clock() <= 0 or is_within(value, self.bound, self.gap)

    def clock(self) -> float:
        """Return the seconds left."""
        return self.settings.seconds_left()

    def run(self) -> None:
        """Search; the best placement is in the state afterwards."""
        price = self.state.price
        try:
            self._quickly()
            if not (self.done or self.settings.held or self._short):
                self._price()
            if self.generated is not None and not self.done:
                self._guided()
            while not self.done:
                self._kick()
                self._keep("kicks")
                self._deal_out()
                self._keep("hosts dealt out anew")
        finally:
            self.state.price = price
            self.state.restore(self.best)
            self.state.refresh()

    def _keep(self, what: str) -> bool:
        """Remember the state if it is the best."""
        if self.state.num_moves > (math.inf if self.state.budget is None else self.state.budget):
            return False
        if self.state.value >= self.best_value - GAIN:
            return False
        self.best, self.best_value = self.state.snapshot(), self.state.value
        self.report(f"{what}: {self.best_value + self.constant:.4f}, bound {self.bound:.4f}")
        return True

    def _quickly(self) -> None:
        """Single moves, then exchanges.

        Exchanges start anew while moves cost more than they do: what pays then is worth keeping,
        and fewer tasks are off their host where they need not be.
        """
        state, start, price = self.state, self.state.snapshot(), self.state.price
        state.descend()
        self._keep("single moves")
        clock = self._quick_clock()
        if price > 0:
            state.restore(start)
            self._settle_at(_DEARER * price, lambda: clock() - 0.4 * self.clock())
            self._settle_at(price, clock)
            self._keep("exchanges")
            if state.value > self.best_value + GAIN:
                state.restore(self.best)
        self._settle_at(price, clock)
        self._keep("exchanges")

    def _settle_at(self, price: float, clock: Callable[[], float]) -> None:
        """Settle while moves have a price."""
        if self.state.price != price:
            self.state.price = price
            self.state.refresh()
        self._settle(clock)

    def _settle(self, clock: Callable[[], float]) -> None:
        if len(self.state.capacity) <= _MANY_HOSTS:
            Improver(self.state, self.rng, clock).settle()
        else:
            self.state.descend()
            self._settle_regions(clock)

    @property
    def _short(self) -> bool:
        """Whether time is too short for patterns."""
        return self.clock() < 1.0 + _PRICING_S * len(self.problem.data.groups)

    def _quick_clock(self) -> Callable[[], float]:
        """Return a clock that leaves time for patterns."""
        left = 0.0 if self._short else 0.6 * self.clock()
        return lambda: self.clock() - left

    def _settle_regions(self, clock: Callable[[], float]) -> None:
        """Settle many hosts some at a time, hosts of a domain together."""
        state = self.state
        order = self.rng.permutation(len(state.blocks))
        place = [
            order[min(own, key=lambda b: len(state.blocks[b].hosts))] for own in state.blocks_of
        ]
        hosts = np.lexsort((self.rng.random(len(place)), place))
        for some in np.array_split(hosts, math.ceil(len(hosts) / _REGION_SETTLED)):
            if clock() <= 0:
                return
            self._in_part(some, lambda improver: improver.settle(), clock)

    def _in_part(
        self,
        hosts: Counts,
        act: Callable[[Improver], None],
        clock: Callable[[], float],
    ) -> None:
        """Act on some hosts alone, and take over what is better."""
        part = self.state.part(hosts)
        before = part.state.value
        act(Improver(part.state, self.rng, clock))
        if part.state.value < before - GAIN:
            part.adopt()

    def _kick(self) -> None:
        """Kick and settle, all hosts or a region of them."""
        num_hosts = len(self.state.capacity)
        hosts = np.arange(num_hosts)
        if num_hosts > _FEW_HOSTS:
            hosts = self._region(_REGION)
        slack = 0.002 * self.best_value / num_hosts * len(hosts)
        self._in_part(hosts, lambda i: i.kick_and_settle(3, slack, 3), self.clock)

    def _deal_out(self) -> None:
        """Deal the tasks of a few hosts out anew, exactly."""
        region = self._region(3 * _FEW_DEALT)
        size = min(len(region), _FEW_DEALT)
        chosen = self.rng.choice(region, size, replace=False)
        seconds = min(2.0, self.clock())
        Neighbourhood(self.state, chosen.tolist()).solve(seconds, self.settings.seed)

    def _region(self, size: int) -> Counts:
        """Return hosts to search together: whole domains of blocks first, costly hosts rather."""
        state, num_hosts = self.state, len(self.state.capacity)
        weight = state.host_cost + state.host_cost.mean() + 1e-9
        chosen: set[int] = set()
        for h in self.rng.choice(num_hosts, num_hosts, replace=False, p=weight / weight.sum()):
            chosen.add(int(h))
            for b in state.blocks_of[int(h)]:
                if b and len(state.blocks[b].hosts) <= size // 2:
                    chosen.update(state.blocks[b].hosts.tolist())
            if len(chosen) >= size:
                break
        return np.array(sorted(chosen), dtype=np.int64)

    def _price(self) -> None:
        """Generate patterns and the bound."""
        weights = Weights.read(self.level, self.problem.instance)
        if not math.isfinite(weights.constant):
            return
        self.relaxation = relax(self.problem.data, weights)
        patterns = self.relaxation.patterns
        self._raise_bound(trivial_bound(patterns))
        self.generated = pattern_prices(patterns, 0.45 * self.clock(), self.report)
        if self.generated is not None:
            self._raise_bound(self.generated.bound)
            self.report(f"patterns prove {self.bound:.4f}")

    def _raise_bound(self, bound: float) -> None:
        self.bound = max(self.bound, round_up(bound, self.level, self.problem.data))

    def _sharpen(self) -> None:
        """Raise the bound by counting whole hosts and by branching on gangs."""
        if self.generated is None or self.relaxation is None:
            return
        self._raise_bound(
            sharpen(
                self.relaxation.patterns,
                self.generated,
                Weights.read(self.level, self.problem.instance),
                0.5 * self.clock(),
                self.report,
                target=self.best_value + self.constant,
            )
        )

    def _guided(self) -> None:
        """Choose patterns, settle, kick, in turns."""
        assert self.relaxation is not None
        assert self.generated is not None
        if not self.relaxation.patterns.exact:
            return
        guide = Guide(self.problem, self.state, self.relaxation, self.generated, self.rng)
        for _ in range(_DIVES):
            # The second begins with the prices and patterns of the first.
            if guide.dive(0.6 * self.clock(), self.report) or self.done:
                break
        self._settle_and_keep("patterns, surest first")
        start, sharpened = self.clock(), False
        num_hosts = len(self.state.capacity)
        spread, size, failures = 0.1, num_hosts, 0
        while not self.done:
            for _ in range(3):
                if self.done:
                    return
                guide.vary(spread * self.rng.random())
            guide.remember()
            guide.pool.tidy()
            for _ in range(1 if size >= num_hosts else 4):
                if self.done:
                    return
                before, seconds = self.clock(), min(self.clock(), max(1.0, 0.1 * start))
                hosts = np.sort(self.rng.choice(num_hosts, size, replace=False))
                guide.choose(hosts, seconds, _PATTERNS_PER_HOST * size)
                taken = before - self.clock()
                better = self._settle_and_keep(f"patterns of {size} hosts")
                failures = 0 if better else failures + 1
                # Programs that end soon may be larger.
                if taken > 0.8 * seconds:
                    size = max(min(_LEAST_CHOICE, num_hosts), size // 2)
                elif taken < 0.2 * seconds:
                    size = min(num_hosts, 2 * size)
            if failures > 2:
                failures, spread = 0, min(0.5, 1.5 * spread)
                guide.per_host = min(_PATTERNS_PER_HOST, 2 * guide.per_host)
                self._kick()
                self._keep("kicks")
            if not sharpened and self.clock() < 0.7 * start:
                self._sharpen()
                sharpened = True

    def _settle_and_keep(self, what: str) -> bool:
        """Settle by exchanges and keep the state if it is the best; else return to the best."""
        if self.state.value >= self.best_value + 0.02 * abs(self.best_value):
            self.state.restore(self.best)
            return False
        self._settle(self.clock)
        if self._keep(what):
            return True
        self.state.restore(self.best)
        return False
