"""The other searches of a placement with several workers: in turns, from the best one of all.

Where host patterns are priced here, the others choose among them and kick with seeds of their own;
until prices are there they only kick. Whole jobs are put elsewhere by all of them. Bounds are
sharpened here alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from alloc.certificate import OPTIMALITY_GAP
from alloc.objectives.goals import WeightedSum
from alloc.solving.outcome import Progress, Settings
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.gang_search import GangSearch
from alloc.solving.placement.incumbent import Incumbent
from alloc.solving.placement.pattern_master import Generated
from alloc.solving.placement.relaxation import Relaxation
from alloc.solving.placement.search import Search
from alloc.solving.team import Team

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_KICKS = 25
"""Kicks of another search until there are prices: three seconds of CPU on 100 hosts, as long as
first exchanges and pricing take here."""
_DIVED = 10
"""Choices among patterns that it makes after its dives, while this one dives, sharpens the bound
once, and lets gangs move: fifteen seconds, for the first choices of all hosts take longest."""
_CHOICES = 1.5
"""Choices that it makes for each step of the bound here, besides the one that is made here, too: on
100 hosts a choice takes 0.3 to 0.6 seconds of CPU by then, and a step 0.5 to 4. The search here
must not wait, since it alone has the bounds: with 6 it waited for half of a minute, and the gap
after that was 1.10 %, with 1 to 2 it was 1.01 to 1.03 %."""
_GANG_TRIES = 100
"""Vain tries to put whole jobs elsewhere in a turn, as in a turn of the search here."""


@dataclass(frozen=True)
class Known:
    """What searches elsewhere begin with: sent once, and again when there are prices.

    Parameters
    ----------
    problem
        The problem.
    level
        What is optimised.
    relaxation, generated
        The patterns' program and its prices, or None.
    """

    problem: Problem
    level: WeightedSum
    relaxation: Relaxation | None = None
    generated: Generated | None = None


class Companions:
    """The searches beside the one here, which end with the context `team`.

    Parameters
    ----------
    best
        The incumbent, which takes what they find.
    workers
        Number of workers, this process included.
    report
        Takes a line of progress.
    """

    def __init__(self, best: Incumbent, workers: int, report: Progress) -> None:
        self._best = best
        self._report = report
        self.team = Team(workers, report)
        self._known = Known(best.problem, best.level)

    @property
    def others(self) -> int:
        """Number of searches elsewhere."""
        return self.team.others

    def begin(self, settings: Settings, bound: float) -> None:
        """Let the others kick, until patterns are priced here.

        Parameters
        ----------
        settings
            Limits of the search here, whose seed the others change.
        bound
            The bound known by now, in minimisation: whoever reaches it ends.
        """
        self._ask(_choose, settings, bound, None, _KICKS)

    def exchange(self, search: Search, steps: int, size: int | None) -> None:
        """Take what the others found, and let them go on from the best with the prices there are.

        Parameters
        ----------
        search
            The search here.
        steps
            Steps for the bound that it makes until the next exchange.
        size
            Hosts that choose their patterns together; None where it dives now.
        """
        self.collect()
        known = self._known
        if known.generated is not search.generated or known.relaxation is not search.relaxation:
            self._known = replace(known, relaxation=search.relaxation, generated=search.generated)
        turns = _DIVED if size is None else 1 + round(_CHOICES * steps)
        self._ask(_choose, search.settings, search.bound, size, turns)

    def collect(self) -> None:
        """Let the incumbent take what the others found."""
        for counts in self.team.collect():
            if counts is not None and self._best.offer_counts(counts):
                self._report(f"incumbent {self._best.sign * self._best.cost:.6g}: another worker")

    def gangs(
        self,
        search: GangSearch,
        settings: Settings,
        bound: float,
        patience: float = math.inf,
    ) -> None:
        """Put whole jobs elsewhere, here and on the other workers, in turns.

        Parameters
        ----------
        search
            The search here.
        settings
            Limits.
        bound
            In minimisation.
        patience
            Vain tries after which to end, as of `GangSearch.run`.
        """
        clock = settings.seconds_left
        vain = 0.0
        while self.others and vain < patience and clock() > 0 and not search.done(bound):
            before = self._best.cost
            self._ask(_rearrange, settings, bound)
            search.run(clock, bound, _GANG_TRIES)
            self.collect()
            vain = 0 if self._best.cost < before else vain + _GANG_TRIES
        if not self.others:
            search.run(clock, bound, patience)

    def _ask(
        self,
        function: Callable[..., csr_array | None],
        settings: Settings,
        bound: float,
        *given: int | None,
    ) -> None:
        if self.others and settings.seconds_left() > 0:
            self.team.ask(function, settings, self._known, self._best.counts, bound, *given)


def _choose(
    known: Known,
    settings: Settings,
    counts: csr_array,
    bound: float,
    size: int | None,
    turns: int,
) -> csr_array | None:
    """Return the best placement of some turns of a search, None if it is not better."""
    best = _incumbent(known, settings, counts)
    if best.counts is None or settings.time_is_up():
        return None
    cost = best.cost
    search = Search(
        known.problem, known.level, best, bound, settings, lambda line: None, OPTIMALITY_GAP
    )
    search.go_on(known.relaxation, known.generated, size, turns)
    return best.counts if best.cost < cost else None


def _rearrange(
    known: Known, settings: Settings, counts: csr_array, bound: float
) -> csr_array | None:
    """Return the best placement after whole jobs were put elsewhere, None if it is not better."""
    best = _incumbent(known, settings, counts)
    if best.counts is None:
        return None
    cost = best.cost
    GangSearch(known.problem, best, settings.seed, lambda line: None).run(
        settings.seconds_left, bound, _GANG_TRIES
    )
    return best.counts if best.cost < cost else None


def _incumbent(known: Known, settings: Settings, counts: csr_array) -> Incumbent:
    best = Incumbent(known.problem, known.level, settings.held)
    best.offer_counts(counts)
    return best
