"""The search for goals of host costs and moves: exchanges, then patterns chosen by prices.

1. Single moves, a rough bound, then exchanges over several hosts: a good placement at once.
2. Column generation over host patterns: a bound, prices, and patterns that pay.
3. Dives: hosts follow the linear program, all of them or some hundreds at a time. Then the bound
   learns that hosts keep a gang together, and whole gangs move.
4. In turns: hosts choose among patterns anew, exchanges settle what they chose, kicks leave local
   optima, whole gangs move, and the bound is sharpened.

What is done depends on the instance and the seed, never on the time that is left: a longer limit
begins with all that a shorter one does, so it is never worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

import numpy as np

from alloc.certificate import is_within
from alloc.errors import OutOfTime
from alloc.objectives.goals import WeightedSum
from alloc.solving.outcome import Settings
from alloc.solving.placement.bounds import (
    QUICK_WORK,
    pattern_prices,
    rough_bounds,
    round_up_to_grain,
    sharper_bounds,
    trivial_bound,
)
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.compiling import Problem, compile_state, read_counts
from alloc.solving.placement.guided import Guide
from alloc.solving.placement.improvement import Improver
from alloc.solving.placement.incumbent import Incumbent
from alloc.solving.placement.neighbourhood import Neighbourhood
from alloc.solving.placement.pattern_master import Generated
from alloc.solving.placement.regions import in_regions, region
from alloc.solving.placement.relaxation import Relaxation, Weights, relax
from alloc.solving.placement.relocation import relocate
from alloc.solving.placement.sampling import around, components, mixed_parts
from alloc.solving.placement.state import GAIN
from alloc.solving.placement.terms import Counts

Report = Callable[[str], None]

_DEARER = 2.0
"""How much more a move costs at first: what pays then is worth keeping."""
_DEAR_HOSTS = 200
"""Hosts up to which that is tried, and exchanges pass between any hosts at first: with more both
take longer than patterns, which do better."""
_FEW_HOSTS = 64
"""Hosts up to which a kick may touch any."""
_FEW_MOVES = 50
"""Single moves of few hosts between two looks at the clock; there are some hundreds."""
_EARLY_KICKS = 8
"""Kicks of so few hosts before patterns are priced: half a second, and single exchanges that begin
elsewhere are seldom better then."""
_MANY_HOSTS = 1200
"""Hosts from which exchanges are looked for region by region: tables of all would be too large."""
_FEW_DEALT, _DEALT_NODES = 5, 500
"""Hosts that are dealt out exactly together, and most nodes of its tree, about two seconds."""
_REGION = 40
"""Hosts that are kicked together when there are many."""
_DIVERS = 500
"""Hosts that dive together: their linear program takes seconds."""
_CHOOSERS, _MAX_CHOOSERS = 250, 500
"""Hosts that choose their patterns together at first, and at most: with more, the integer program
gains nothing in its time."""
_DIVES = 2
"""Dives of the same hosts: the second has the prices and patterns of the first, a third no more."""
_MAX_VAIN = 8
"""Steps for the bound in a turn at most, one more for each turn without a better placement."""
_RELOCATED = 2
"""Turns without a better placement after which other gangs may move."""
_AGAIN = 0.5
"""Share of the gangs that may move where all together did not help."""
_PATTERNS_PER_HOST = 40
"""Patterns that a host may choose from, on average: the integer program grows with them."""
_LEAST_CHOICE = 30
"""Hosts that choose together at least: fewer exchange nothing that single moves do not find."""
_MOVED = "jobs put elsewhere"
_WORTH_SAYING = 0.002
"""Share by which a bound must have risen to be reported by itself."""


class Search:
    """Improves a placement until time is up or its bound is reached.

    Parameters
    ----------
    problem, level
        The problem, and the level of the goal that is optimised.
    best, bound
        The incumbent, with a placement, and a bound on the level, in minimisation.
    settings, gap
        Limits, with earlier levels to hold, and the relative gap at which the search ends.
    report
        Takes a line of progress.
    rearrange
        Improves the incumbent by other means for a turn that a clock may end, or None.
    meet
        Lets the incumbent take what other searches found, and them go on for about as long as so
        many steps for the bound take here; with hosts that choose together, or None to dive first.
    """

    def __init__(
        self,
        problem: Problem,
        level: WeightedSum,
        best: Incumbent,
        bound: float,
        settings: Settings,
        report: Report,
        gap: float,
        rearrange: Callable[[Clock], None] | None = None,
        meet: Callable[[int, int | None], None] | None = None,
    ) -> None:
        self.problem = problem
        self.level = level
        self.incumbent = best
        self.bound = bound
        self.settings = settings
        self.report = report
        self.gap = gap
        self.rearrange = rearrange
        self.meet = meet
        self.rng = np.random.default_rng(settings.seed)
        self.relaxation: Relaxation | None = None
        self.generated: Generated | None = None
        self.levels = [*(held.level for held in settings.held), level]
        self._said = bound
        self.size = min(_CHOOSERS, problem.instance.topology.num_hosts)
        """Hosts that choose their patterns together."""
        self._spread, self._failures = 0.1, 0
        self._leaving: frozenset[int] = frozenset()
        self._tried: tuple[frozenset[int], float] | None = None
        self._load()

    def _load(self) -> None:
        """Begin with the placement of the incumbent."""
        assert self.incumbent.counts is not None
        self.counts = self.incumbent.counts
        self.state = compile_state(self.problem, self.counts, self.levels)
        self.constant = self.incumbent.cost - self.state.value
        self.best, self.best_value = self.state.snapshot(), self.state.value

    @property
    def done(self) -> bool:
        """Whether time is up or the gap small enough."""
        value = self.best_value + self.constant
        return self.clock() <= 0 or is_within(value, self.bound, self.gap)

    def clock(self) -> float:
        """Return the seconds left."""
        return self.settings.seconds_left()

    def run(self) -> None:
        """Search; the incumbent has the best placement afterwards, also after an interrupt."""
        price = self.state.price
        try:
            self._quickly()
            for _ in self._work():
                if self.done:
                    break
        except OutOfTime:
            self.report("no time for the next step")
        finally:
            self.state.price = price
            self._hand_over()

    def go_on(
        self,
        relaxation: Relaxation | None,
        generated: Generated | None,
        size: int | None,
        turns: int,
    ) -> None:
        """Search for some turns from what another search priced; without a size, dive first.

        Parameters
        ----------
        relaxation, generated
            Program and patterns of the other search; None before there are any.
        size, turns
            Hosts that choose together, at least 1, or None; turns to make, 0 or more.
        """
        self.relaxation, self.generated = relaxation, generated
        guide = self._guide()
        if guide is None:
            steps = chain.from_iterable(self._without_prices() for _ in range(turns))
        else:
            self.size = size or self.size
            dives = self._dive(guide) if size is None else ()
            steps = chain(dives, chain.from_iterable(self._choose(guide) for _ in range(turns)))
        try:
            for _ in steps:
                if self.done:
                    break
        except OutOfTime:
            pass  # the limit of the search that asked for this one
        finally:
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the incumbent have the best placement."""
        if self.best_value + self.constant < self.incumbent.cost:
            self.state.restore(self.best)
            self.incumbent.offer_counts(read_counts(self.problem, self.counts, self.state))

    def _work(self) -> Iterator[None]:
        """Do what there is to do after the first exchanges, piece by piece, without an end."""
        self._price()
        yield
        guide, sharper = self._guide(), self._sharper()
        if guide is not None:
            self._meet(0, dived=False)
            guide = self._guide() or guide
            yield from self._dive(guide)
            for bound in islice(sharper, 1):
                self._raise_bound(bound)
                yield
            guide = self._relocate(guide)
            yield
        vain, rising = 0, True
        while True:
            value = self.best_value
            yield from self._choose(guide) if guide is not None else self._without_prices()
            # The longer nothing better is found, the more there is to gain in the bound.
            vain = 0 if self.best_value < value - GAIN else min(vain + 1, _MAX_VAIN)
            if self._meet(1 + vain if rising else 0):
                guide = self._guide()
            rising = False
            for bound in islice(sharper, 1 + vain):
                rising = True
                self._raise_bound(bound)
                yield
            if guide is not None and vain and vain % _RELOCATED == 0:
                guide = self._relocate(guide)
                yield
            if self.rearrange and self._better_by(partial(self.rearrange, self.clock), _MOVED):
                guide = self._guide()

    def _keep(self, what: str) -> bool:
        """Remember the state if it is the best."""
        if self.state.num_moves > (math.inf if self.state.budget is None else self.state.budget):
            return False
        if self.state.value >= self.best_value - GAIN:
            return False
        self.best, self.best_value = self.state.snapshot(), self.state.value
        self._say(what)
        return True

    def _say(self, what: str) -> None:
        sign = self.incumbent.sign
        value = sign * (self.best_value + self.constant)
        self._said = self.bound
        self.report(f"incumbent {value:.4f}, bound {sign * self.bound:.4f}: {what}")

    def _quickly(self) -> None:
        """Single moves, then exchanges, then a few kicks where there are few hosts.

        Exchanges start anew while moves cost more than they do: what pays then is worth keeping,
        and fewer tasks are off their host where they need not be.
        """
        state, start, price = self.state, self.state.snapshot(), self.state.price
        while self.clock() > 0 and state.descend(len(state.capacity) // 8 + _FEW_MOVES):
            self._keep("single moves")
        if self.bound <= 0:
            # Where there is none from area, a bound is worth more than the next placement.
            self._bound_roughly()
        if len(state.capacity) > _DEAR_HOSTS:
            self._settle_by_regions("exchanges")
        else:
            self._settle("exchanges")
        if state.cost.used > 0:
            for hosts in in_regions(self.state, self.rng):
                self._in_part(hosts, lambda improver: improver.empty_hosts())
                self._keep("hosts emptied")
        if price > 0 and len(state.capacity) <= _DEAR_HOSTS:
            state.restore(start)
            for now in (_DEARER * price, price):
                state.price = now
                state.refresh()
                self._settle()
            self._keep("exchanges from dear moves")
            if state.value > self.best_value + GAIN:
                state.restore(self.best)
        if len(state.capacity) <= _FEW_HOSTS:
            for _ in range(_EARLY_KICKS):
                if self.done:
                    break
                self._kick()

    def _settle(self, what: str = "", hosts: Counts | None = None) -> None:
        """Exchange until nothing gains, on some hosts or on all; keep what has a name."""
        num_hosts = len(self.state.capacity)
        if hosts is None and num_hosts > _MANY_HOSTS:
            self._settle_by_regions(what)
        elif hosts is None or len(hosts) == num_hosts:
            Improver(self.state, self.rng, self.clock).settle()
        elif self.clock() > 0:
            self._in_part(hosts, lambda improver: improver.settle())
        if what:
            self._keep(what)

    def _settle_by_regions(self, what: str) -> None:
        """Exchange until nothing gains within regions, which is soon done; keep each step."""
        Improver(self.state, self.rng, self.clock).descend()
        for hosts in in_regions(self.state, self.rng):
            self._settle(what, hosts)

    def _in_part(self, hosts: Counts, act: Callable[[Improver], None]) -> None:
        """Act on some hosts alone, and take over what is better."""
        part = self.state.part(hosts)
        before = part.state.value
        act(Improver(part.state, self.rng, self.clock))
        if part.state.value < before - GAIN:
            part.adopt()

    def _kick(self) -> None:
        """Kick and settle, all hosts or a region of them."""
        num_hosts = len(self.state.capacity)
        hosts = np.arange(num_hosts)
        if num_hosts > _FEW_HOSTS:
            hosts = region(self.state, _REGION, self.rng)
        slack = 0.002 * self.best_value / num_hosts * len(hosts)
        self._in_part(hosts, lambda improver: improver.kick_and_settle(3, slack, 3))
        self._keep("kicks")

    def _deal_out(self) -> None:
        """Deal the tasks of a few hosts out anew, exactly."""
        if self.clock() <= 0:
            return
        near = region(self.state, 3 * _FEW_DEALT, self.rng)
        chosen = self.rng.choice(near, min(len(near), _FEW_DEALT), replace=False)
        Neighbourhood(self.state, chosen.tolist()).solve(
            self.clock(), self.settings.seed, nodes=_DEALT_NODES
        )
        self._keep("hosts dealt out anew")

    def _bound_roughly(self) -> None:
        """See what hosts may follow, and take the bounds that are had at once."""
        weights = Weights.read(self.level, self.problem.instance)
        if self.settings.held or not math.isfinite(weights.constant) or self.clock() <= 0:
            return
        self.relaxation = relax(self.problem.data, weights)
        self._raise_bound(trivial_bound(self.relaxation.patterns))
        for bound in rough_bounds(self.relaxation.patterns, self.clock, QUICK_WORK):
            self._raise_bound(bound)

    def _price(self) -> None:
        """Generate patterns and the bound."""
        if self.relaxation is None:
            self._bound_roughly()
        if self.relaxation is None:
            return
        patterns = self.relaxation.patterns
        self.generated = pattern_prices(patterns, self.clock, self.report, self._raise_bound)
        if self.generated is None:
            return
        self._raise_bound(self.generated.bound)
        self._say("patterns priced")
        if self.generated.stopped:
            raise OutOfTime

    def _raise_bound(self, bound: float) -> None:
        """Take a better bound, and say so where it is worth it."""
        self.bound = max(self.bound, round_up_to_grain(bound, self.level, self.problem.data))
        if self.bound > self._said + _WORTH_SAYING * abs(self.bound):
            self._say("a better bound")

    def _guide(self) -> Guide | None:
        if self.generated is None or self.relaxation is None or not self.relaxation.patterns.exact:
            return None
        return Guide(self.problem, self.state, self.relaxation, self.generated, self.rng)

    def _sharper(self) -> Iterator[float]:
        """Yield bounds that count whole hosts and branch on gangs."""
        if self.generated is None or self.relaxation is None:
            return iter(())
        return sharper_bounds(
            self.relaxation.patterns,
            self.generated,
            Weights.read(self.level, self.problem.instance),
            self.clock,
            self.report,
            target=lambda: self.best_value + self.constant,
            on_leaving=self._note_leaving,
        )

    def _note_leaving(self, gangs: frozenset[int]) -> None:
        self._leaving = gangs

    def _dive(self, guide: Guide) -> Iterator[None]:
        """Follow the linear program on all hosts, some hundreds at a time."""
        component = components(guide.patterns)
        for hosts in mixed_parts(component, self.state.host_cost, _DIVERS, self.rng):
            # The second begins with the prices and patterns of the first.
            for _ in range(_DIVES):
                if guide.dive(hosts, self.clock, self.report) or self.done:
                    break
                yield
            self._settle_and_keep(f"patterns of {len(hosts)} hosts, surest first", hosts)
            yield

    def _relocate(self, guide: Guide) -> Guide:
        """Let whole gangs move to other domains; return the guide to go on with."""
        if self.state.budget is not None or len(self.state.capacity) > _DIVERS:
            return guide
        weights = Weights.read(self.level, self.problem.instance)
        counts = read_counts(self.problem, self.counts, self.state)
        leaving = sorted(self._leaving)
        if self._tried == (self._leaving, self.best_value):
            leaving = [j for j in leaving if self.rng.random() < _AGAIN]
        self._tried = (self._leaving, self.best_value)
        found = relocate(
            self.problem.data, weights, guide, counts, self.clock, self.report, leaving
        )
        if found is None:
            return guide
        state = compile_state(self.problem, found.counts, self.levels)
        other = Guide(self.problem, state, found.relaxation, found.generated, self.rng)
        # Where the dive changes nothing, the gangs stand as they were dealt out, which may do.
        touched = np.unique((found.counts - counts).nonzero()[1])
        near = around(components(other.patterns), touched, _DIVERS // 2, self.rng)
        other.dive(near, self.clock, self.report)
        Improver(state, self.rng, self.clock).settle()
        self._hand_over()
        if not self.incumbent.offer_counts(read_counts(self.problem, found.counts, state)):
            return guide
        self._load()
        self._say(f"{found.number} gangs in other domains")
        return Guide(self.problem, self.state, found.relaxation, found.generated, self.rng)

    def _without_prices(self) -> Iterator[None]:
        """Kick, and deal a few hosts out anew."""
        self._kick()
        self._deal_out()
        yield

    def _choose(self, guide: Guide) -> Iterator[None]:
        """Let hosts choose patterns anew, settle, and kick where that does not help."""
        num_hosts = len(self.state.capacity)
        parts = [
            np.sort(self.rng.choice(num_hosts, self.size, replace=False))
            for _ in range(1 if self.size >= num_hosts else 4)
        ]
        everyone = np.unique(np.concatenate(parts))
        for _ in range(3):
            guide.vary(self._spread * self.rng.random(), self.clock, everyone)
            yield
        guide.remember()
        guide.tidy()
        for hosts in parts:
            guide.choose(hosts, self.clock, _PATTERNS_PER_HOST * len(hosts))
            better = self._settle_and_keep(f"patterns of {len(hosts)} hosts", hosts)
            self._failures = 0 if better else self._failures + 1
            # Programs that are solved may be larger.
            if guide.solved:
                self.size = min(num_hosts, _MAX_CHOOSERS, 2 * self.size)
            else:
                self.size = max(min(_LEAST_CHOICE, num_hosts), self.size // 2)
            yield
        if self._failures > 2:
            self._failures, self._spread = 0, min(0.5, 1.5 * self._spread)
            guide.per_host = min(_PATTERNS_PER_HOST, 2 * guide.per_host)
            self._kick()

    def _settle_and_keep(self, what: str, hosts: Counts) -> bool:
        """Settle by exchanges and keep the state if it is the best; else return to the best."""
        better = False
        if self.state.value < self.best_value + 0.02 * abs(self.best_value):
            self._settle(hosts=hosts)
            better = self._keep(what)
        if not better:
            self.state.restore(self.best)
        return better

    def _meet(self, steps: int, *, dived: bool = True) -> bool:
        """Take what other searches found, and let them go on for so many steps of the bound."""
        if self.meet is None:
            return False
        meet = partial(self.meet, steps, self.size if dived else None)
        return self._better_by(meet, "another search")

    def _better_by(self, act: Callable[[], None], what: str) -> bool:
        """Let others improve the incumbent; go on from there and return True if they did."""
        self._hand_over()
        before = self.incumbent.cost
        act()
        if self.incumbent.cost >= before:
            return False
        self._load()
        self._say(what)
        return True
