"""The clock of slots: decisions at the start of each slot, from an empty cluster."""

from __future__ import annotations

import math
from functools import partial

from alloc.problems.allocation.slowdown import Neighbours, factor, neighbours, sharing
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.state import Decision
from alloc.simulation.engine import Engine
from alloc.simulation.live import LiveJob
from alloc.verification.time import TIME_TOLERANCE_S

PATIENCE = 100
"""Slots without any progress, and with no arrival to come, after which a scheduler has stalled.

A policy that draws may waste a slot now and then; a hundred in a row is no accident.
"""


class SlotClock:
    """Goes from slot to slot: `next_decision` runs up to a decision, `apply` carries it out.

    A job joins at the first slot that starts at its arrival or later, completes within a slot at
    the moment its work is done, and holds its resources to the end of that slot.

    Parameters
    ----------
    engine
        The jobs, and what the scheduler sees of them.
    slot_s
        Length of a slot, seconds.
    stalls
        Whether a scheduler that does nothing for too long is an error.
    """

    def __init__(self, engine: Engine, slot_s: float, *, stalls: bool = True) -> None:
        self._engine = engine
        self._slot_s = slot_s
        longest_pause_s = max(job.restart_cost_s for job in engine.instance.jobs)
        self._patience: float = PATIENCE + math.ceil(longest_pause_s / slot_s)
        if not stalls:
            self._patience = math.inf
        self._idle = 0
        self._slot = 0

    def next_decision(self) -> bool:
        """Run to the start of the next slot that needs a decision; False when all is over."""
        engine = self._engine
        while True:
            if not engine.active:
                if not math.isfinite(engine.next_arrival_s):
                    return False
                self._slot = max(self._slot, int(_slot_of(engine.next_arrival_s, self._slot_s)))
            now_s = self._slot * self._slot_s
            if now_s >= engine.max_time_s or self._waits_for_ever():
                self.stop()
                return False
            while _slot_of(engine.next_arrival_s, self._slot_s) <= self._slot:
                engine.admit()
            # After the arrivals: what ran before the start may have run on a host that is down.
            if engine.move_hosts(now_s, partial(_fail, now_s=now_s)):
                self._idle = 0
            if engine.hosts.any_up:
                _show(engine)
                engine.ask(now_s)
                return True
            if math.isinf(engine.hosts.next_change_s):
                self.stop()
                return False
            # Nothing can be done before: slot by slot a long outage would take long too.
            wait_s = min(engine.hosts.next_change_s, engine.max_time_s)
            self._slot = max(self._slot + 1, int(_slot_of(wait_s, self._slot_s)))
            engine.end_s = self._slot * self._slot_s

    def _waits_for_ever(self) -> bool:
        """Return whether nothing was done for too long, and nothing is to come."""
        engine = self._engine
        to_come_s = min(engine.next_arrival_s, engine.hosts.next_change_s)
        return self._idle > self._patience and math.isinf(to_come_s)

    def apply(self, decision: Decision) -> None:
        """Run the slot as decided."""
        engine = self._engine
        now_s, end_s = self._slot * self._slot_s, (self._slot + 1) * self._slot_s
        _apply(engine, decision, now_s)
        self._idle = 0 if _advance(engine, now_s, end_s) else self._idle + 1
        # Of hosts that never come back, jobs may wait for ever without anybody's fault.
        if self._waits_for_ever() and not engine.hosts.any_down:
            raise engine.stall(
                now_s, f"no work was done for {self._idle} slots and no job will arrive"
            )
        self._slot += 1

    def stop(self) -> None:
        """End the simulation with jobs left."""
        for live in self._engine.active.values():
            if live.assignment is not None:
                live.stop(self._engine.end_s)


def _slot_of(arrival_s: float, slot_s: float) -> float:
    """Return the first slot that starts at an arrival or later; infinite for no arrival."""
    if math.isinf(arrival_s):
        return math.inf
    slot = math.ceil(arrival_s / slot_s)
    # An arrival that is a multiple of the slot up to rounding joins at that multiple.
    return slot - 1 if arrival_s - (slot - 1) * slot_s <= TIME_TOLERANCE_S / 2 else slot


def _show(engine: Engine) -> None:
    """Show the scheduler the empty cluster, and who ran in the slot that just ended."""
    state = engine.state
    state.pool.reset()
    state.waiting = [live.view for live in engine.active.values() if live.view.current is None]
    state.running = [live.view for live in engine.active.values() if live.view.current is not None]
    for live in engine.active.values():
        live.refresh(state.now_s)


def _apply(engine: Engine, decision: Decision, now_s: float) -> None:
    """Pause what is not assigned, start what is new, and let the rest run on."""
    referee = engine.referee
    assigned = {assignment.job: assignment for assignment in decision.assign}
    shared = _neighbours(engine, decision)
    fresh: list[tuple[LiveJob, Assignment]] = []
    for job_id, live in engine.active.items():
        assignment = assigned.get(job_id)
        if assignment is None:
            if live.view.current is not None:
                referee.check_pause(live, now_s)
            if live.assignment is not None:
                live.stop(now_s)
            live.view.current = None
        elif not live.keeps(assignment) or live.neighbours != shared.get(job_id, ()):
            if live.assignment is not None:
                live.stop(now_s)
            fresh.append((live, assignment))
    for live, assignment in fresh:
        beside = shared.get(live.job.id, ())
        share = factor(engine.instance, live.job.id, beside)
        if share <= 0:
            sentence = "it shares a GPU with a job that its model cannot share one with."
            referee.refuse(live.job.id, now_s, sentence)
        live.start(assignment, now_s, neighbours=beside, factor=share)
    referee.reset()
    for assignment in assigned.values():
        referee.take(assignment)
    referee.check_room(assigned.values(), now_s)


def _neighbours(engine: Engine, decision: Decision) -> dict[str, Neighbours]:
    """Return who shares GPUs with whom in the coming slot; nobody where that costs nothing."""
    instance = engine.instance
    if not instance.interference:
        return {}
    return neighbours({given.job: sharing(instance, given) for given in decision.assign})


def _fail(live: LiveJob, now_s: float) -> None:
    """Stop a job, running now or just before the start, with a host that goes down."""
    if live.assignment is not None:
        live.stop(now_s, failed=True)
    live.view.current = None


def _advance(engine: Engine, now_s: float, end_s: float) -> bool:
    """Run the slot; return whether any work was done."""
    engine.end_s = engine.state.now_s = end_s
    downtime = engine.instance.downtime
    worked = False
    for live in list(engine.active.values()):
        if live.assignment is None:
            continue
        until_s = min(end_s, downtime.next_failure_s(live.assignment.tasks, now_s))
        left = live.left_at(until_s)
        worked = worked or left < live.left_at(now_s)
        if left == 0.0:
            live.stop(until_s)
            engine.complete(live)
        elif until_s < end_s:
            live.stop(until_s, failed=True)
    return worked
