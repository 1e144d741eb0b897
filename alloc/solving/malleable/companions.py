"""The other searches of a schedule on slots, with several workers: neighbourhoods from one plan.

In turns of a few seconds every worker searches neighbourhoods of the incumbent, at the prices of
the same column generation and with a seed of its own; the best plan of all is the next incumbent,
and the columns of the others join the pool from which the integer master chooses. They also search
while this process inserts by prices, asks the integer master, or tries a proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from alloc.models.malleable.data import SlotData
from alloc.solving.malleable.column_generation import Relaxation
from alloc.solving.malleable.improvement import Improver, Plan
from alloc.solving.malleable.insertion import Builder, value_of
from alloc.solving.outcome import Progress, Settings
from alloc.solving.team import Team

_TURN_S = 5.0
"""Longest turn of a search here, seconds: Ctrl-C loses what the others found in theirs."""


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
        self._asked = False

    def ask(self, improver: Improver, seconds: float) -> None:
        """Let the others search from the incumbent, unless they still do.

        Parameters
        ----------
        improver
            The search here.
        seconds
            For how long, seconds.
        """
        if self.team.others and not self._asked:
            given = (improver.plan, improver.target, seconds)
            self.team.ask(_search, improver.settings, self._known_of(improver), *given)
            self._asked = True

    def take(self, improver: Improver) -> None:
        """Let the search here take what the others found, when they are done or time is up."""
        self._asked = False
        for plan in self.team.collect():
            if plan is not None and improver.adopt(plan):
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
        while self.team.others and improver.value > improver.target and left() > stop:
            before = improver.value
            turn_s = min(left() - stop, _TURN_S)
            self.ask(improver, turn_s)
            improver.search(turn_s, self._report)
            self.take(improver)
            if improver.value >= before:
                return
        if not self.team.others:
            improver.search(max(left() - stop, 0.0), self._report)

    def _known_of(self, improver: Improver) -> Known:
        if self._known is None or self._known.relaxation is not improver.relaxation:
            slots = len(improver.relaxation.prices)
            self._known = Known(improver.data, slots, improver.relaxation)
        return self._known


def _search(
    known: Known, settings: Settings, plan: Plan, target: float, seconds: float
) -> Plan | None:
    """Return a better plan of a turn in a worker, or None."""
    builder = Builder(known.data, known.num_slots)
    improver = Improver(known.data, builder, known.relaxation, plan, settings)
    improver.target = target
    improver.search(seconds, lambda line: None)
    return improver.plan if improver.value < value_of(known.data, plan) else None
