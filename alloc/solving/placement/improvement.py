"""Improvement of a state by exchanges, from kick to kick."""

from __future__ import annotations

import numpy as np

from alloc.solving.placement.clock import Clock
from alloc.solving.placement.exchange import Exchanger
from alloc.solving.placement.state import GAIN, State

_STRIDE = 50
"""Single moves between two looks at the clock: each takes well below a millisecond."""


class Improver:
    """Searches from one local optimum of exchanges to the next.

    Parameters
    ----------
    state
        The placement, changed in place.
    rng
        Source of kicks.
    clock
        Tells the seconds left.
    """

    def __init__(self, state: State, rng: np.random.Generator, clock: Clock) -> None:
        self.state = state
        self.rng = rng
        self.clock = clock
        self.exchanger = Exchanger(state, rng)

    def descend(self) -> None:
        """Make single moves until none gains."""
        while self.clock() > 0 and self.state.descend(_STRIDE) >= _STRIDE:
            pass

    def settle(self, blocks: set[int] | None = None) -> None:
        """Make single moves and exchanges until none gains, in some blocks or in all."""
        self.descend()
        self.exchanger.note(range(len(self.state.capacity)))
        self._settle(set(range(len(self.state.blocks))) if blocks is None else blocks)

    def _settle(self, blocks: set[int]) -> None:
        while self.clock() > 0:
            before = self.state.value
            while self.clock() > 0 and self.exchanger.improve() > GAIN:
                pass
            for b in sorted(blocks - {0}):
                while self.clock() > 0 and self.exchanger.improve(b) > GAIN:
                    pass
            if before - self.state.value <= GAIN:
                return

    def empty_hosts(self) -> None:
        """Take all GPU tasks off a host where others can hold them for less, host by host.

        No exchange does that task by task: a host counts until the last has left. Hosts with the
        fewest tasks come first.
        """
        state = self.state
        self.exchanger.note(range(len(state.capacity)))
        tasks = [state.tasks_with_gpus(h) for h in range(len(state.capacity))]
        for h in sorted((h for h, own in enumerate(tasks) if own), key=lambda h: len(tasks[h])):
            if self.clock() <= 0:
                return
            before, kept = state.value, state.snapshot()
            hand = state.tasks_with_gpus(h)
            for b, row in hand:
                state.add(b, row, state.blocks[b].column[h], -1)
            self.exchanger.changed([h])
            lost = state.used[h, 0] or self.exchanger.insert(hand)
            too_far = state.budget is not None and state.num_moves > state.budget
            if lost or too_far or state.value > before - GAIN:
                self.exchanger.note(state.restore(kept))

    def kick_and_settle(self, kicks: int, slack: float, rounds: int) -> None:
        """Kick the placement and settle again and again; keep the best.

        Parameters
        ----------
        kicks
            Random moves in a kick.
        slack
            How much worse than the best a placement to go on from may be.
        rounds
            Number of kicks.
        """
        state = self.state
        best = current = state.value
        kept = held = state.snapshot()
        for _ in range(rounds):
            if self.clock() <= 0:
                break
            touched = self._kick(kicks)
            self.exchanger.note(touched)
            self._settle({b for h in touched for b in state.blocks_of[h]})
            value = state.value
            if value < current - GAIN or value < best + slack * self.rng.random():
                current, held = value, state.snapshot()
                if value < best - GAIN:
                    best, kept = value, held
            else:
                self.exchanger.note(state.restore(held))
        self.exchanger.note(state.restore(kept))

    def _kick(self, kicks: int) -> set[int]:
        """Move random tasks to random hosts with room; return the hosts touched."""
        state, rng = self.state, self.rng
        touched: set[int] = set()
        for _ in range(kicks):
            b = int(rng.integers(len(state.blocks))) if rng.random() < 0.3 else 0
            block = state.blocks[b]
            rows, columns = np.nonzero(np.isfinite(block.leave))
            if not len(rows):
                continue
            at = int(rng.integers(len(rows)))
            row, source = int(rows[at]), int(columns[at])
            targets = np.flatnonzero(np.isfinite(block.enter[row]))
            targets = targets[targets != source]
            if not len(targets):
                continue
            target = int(rng.choice(targets))
            state.shift(b, row, source, target)
            hosts = (int(block.hosts[source]), int(block.hosts[target]))
            state.changed(hosts)
            touched.update(hosts)
        return touched
