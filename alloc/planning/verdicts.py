"""Verdicts: which goals hold in the pools of a plan, with no pool drawn twice for the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from alloc.planning.pools import Operation, Pool, Regime
from alloc.planning.replay import Measured, ReplaySettings, replay_all
from alloc.solving.outcome import Progress


class Verdicts:
    """How goals were kept, by what a pool met.

    Another draw would say little more of a pool that kept all its goals with the same jobs on the
    same hosts. And of hundreds of goals that are just kept, each new draw would find some other one
    missed.

    Parameters
    ----------
    settings
        How pools are replayed.
    """

    def __init__(self, settings: ReplaySettings) -> None:
        self.settings = settings
        self._kept: dict[tuple[Pool, Regime], list[tuple[Operation, tuple[Measured, ...]]]]
        self._kept = defaultdict(list)

    def of(
        self, operations: Sequence[Operation], draw: int, tell: Progress
    ) -> tuple[tuple[Measured, ...], ...]:
        """Return how goals are kept, pool by pool.

        Parameters
        ----------
        operations
            What pools meet.
        draw
            Draw of those of which it is not known that they keep all their goals.
        tell
            Takes how many pools are replayed, if any are.
        """
        found = {at: self._known(one) for at, one in enumerate(operations)}
        new = [at for at, measured in found.items() if measured is None]
        if new:
            tell(f"replaying {len(new)} regimes of pools")
        replayed = replay_all([operations[at] for at in new], self.settings, draw=draw)
        for at, measured in zip(new, replayed, strict=True):
            found[at] = measured
            if all(one.holds for one in measured):
                one = operations[at]
                self._kept[one.pool, one.regime].append((one, measured))
        return tuple(measured for measured in found.values() if measured is not None)

    def _known(self, operation: Operation) -> tuple[Measured, ...] | None:
        kept = self._kept[operation.pool, operation.regime]
        return next((measured for before, measured in kept if before == operation), None)
