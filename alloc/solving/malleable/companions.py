"""The other searches of a schedule on slots, with several workers: neighbourhoods from one plan.

In turns of a few seconds every worker searches neighbourhoods of the incumbent, at the prices of
the same column generation and with a seed of its own. What they change goes together where it fits
together, and the columns of the others join the pool from which the integer master chooses. They
also search while this process inserts by prices, asks the integer master, or tries a proof. Nobody
waits for anybody: this process takes what the others found when their turn is over, and lets them
go on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.column_generation import Relaxation
from alloc.solving.malleable.improvement import Improver, Plan
from alloc.solving.malleable.insertion import Builder
from alloc.solving.outcome import Progress, Settings
from alloc.solving.team import Team

_TURN_S = 3.0
"""Turn of a search, seconds: Ctrl-C loses what the others found in theirs."""
_MAX_TURNS = 3
"""So many times as long others search at most while a proof is tried here: what they find
afterwards would begin from an incumbent long left behind."""


@dataclass(frozen=True)
class Known:
    """What searches elsewhere begin with, sent once.

    Parameters
    ----------
    data
        The instance on its slots.
    num_slots
        Slots of the builder.
    relaxation
        Prices and columns.
    """

    data: SlotData
    num_slots: int
    relaxation: Relaxation


class Companions:
    """The searches beside the one here, which end with the context `team`.

    Parameters
    ----------
    workers
        Number of workers, this process included.
    report
        Takes a line of progress.
    """

    def __init__(self, workers: int, report: Progress) -> None:
        self._report = report
        self.team = Team(workers, report)
        self._known: Known | None = None
        self._over_at: float | None = None
        """When the turn of the others is over, by `time.perf_counter`; None: they have none."""

    def ask(self, improver: Improver, seconds: float = _TURN_S) -> None:
        """Let the others search from the incumbent, unless they still do.

        Parameters
        ----------
        improver
            The search here, which takes what the others found before.
        seconds
            For how long, seconds; no less than a turn and no more than a few.
        """
        if not self.team.others or (self._over_at or 0.0) > time.perf_counter():
            return
        self.take(improver)
        seconds = min(max(seconds, _TURN_S), _MAX_TURNS * _TURN_S)
        improver.gains.clear()
        given = (improver.plan, improver.target, seconds)
        self.team.ask(_search, improver.settings, self._known_of(improver), *given)
        self._over_at = time.perf_counter() + seconds

    def take(self, improver: Improver) -> None:
        """Let the search here take what the others found, when they are done or time is up."""
        self._over_at = None
        for plan, gains in self.team.collect():
            if gains and improver.merge(plan, gains):
                self._report(f"neighbourhood search, another worker: {improver.value:.4f}")

    def search(self, improver: Improver, seconds: float) -> None:
        """Improve an incumbent here and elsewhere, until its target is met or time is up.

        Parameters
        ----------
        improver
            The search here, which takes what the others find.
        seconds
            For how long, seconds.
        """
        left = improver.settings.seconds_left
        stop = max(left() - seconds, 0.0)
        while improver.value > improver.target and left() > stop:
            self.ask(improver)
            turn_s = left() - stop
            if self.team.others:
                turn_s = min(turn_s, _TURN_S)
            ends = left() - turn_s
            improver.search(turn_s, self._report)
            if left() > ends:
                # It knows of nothing more to try: others may.
                before = improver.value
                self.take(improver)
                if improver.value >= before:
                    return

    def _known_of(self, improver: Improver) -> Known:
        if self._known is None or self._known.relaxation is not improver.relaxation:
            slots = len(improver.relaxation.prices)
            self._known = Known(improver.data, slots, improver.relaxation)
        return self._known


def _search(
    known: Known, settings: Settings, plan: Plan, target: float, seconds: float
) -> tuple[Plan, list[Plan]]:
    """Return where a turn in a worker ends, and what each better plan on the way changed."""
    builder = Builder(known.data, known.num_slots)
    improver = Improver(known.data, builder, known.relaxation, plan, settings)
    improver.target = target
    improver.decided = True  # the search that asks does so
    improver.search(seconds, lambda line: None)
    return improver.plan, improver.gains
