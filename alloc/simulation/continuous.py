"""The clock of continuous time: decisions at arrivals and completions, as changes to what runs."""

from __future__ import annotations

import heapq
import math

from alloc.errors import SimulationError
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.state import Decision
from alloc.simulation.engine import Engine
from alloc.simulation.live import LiveJob

PATIENCE = 100
"""Decisions a scheduler may ask for in a row while nothing runs and nothing is to come."""


class EventClock:
    """Goes from event to event: `next_decision` runs up to a decision, `apply` carries it out.

    Events are arrivals, completions, hosts that come back or go down under a job, and the times a
    scheduler asked to be woken at; all that happen at the same time make one decision.

    Parameters
    ----------
    engine
        The jobs, and what the scheduler sees of them.
    stalls
        Whether a scheduler that leaves jobs waiting for ever is an error, or the end.
    """

    def __init__(self, engine: Engine, *, stalls: bool = True) -> None:
        self._engine = engine
        self._stalls = stalls
        self._begun = False
        self._opening = False
        self._woken = False
        self._completions: list[tuple[float, int, int]] = []
        self._wake_s = math.inf
        self._idle = 0

    def next_decision(self) -> bool:
        """Run to the next event that needs a decision; False when all is over."""
        engine = self._engine
        if not self._begun:
            self._begun = True
            self._resume()
        while engine.active or math.isfinite(engine.next_arrival_s):
            opening, self._opening = self._opening, False
            # What ran before the start leaves the first decision at 0 to be taken.
            due_s = 0.0 if opening else self._next_due_s()
            now_s = 0.0 if opening else self._next_event(due_s)
            if now_s >= engine.max_time_s:
                self._stop_all(engine.max_time_s)
                return False
            if math.isinf(now_s):
                self.stop()
                return False
            self._woken = now_s == self._wake_s
            due = due_s <= now_s
            self._complete(now_s)
            due |= self._move_hosts(now_s)
            while engine.next_arrival_s <= now_s:
                engine.admit()
            if not engine.active or not engine.hosts.any_up:
                engine.end_s = now_s
                self._wake_s = math.inf  # nothing is there to decide on; the next event wakes
                continue
            if not due:
                continue  # a host went down on which nothing ran
            self._sync_pool()
            engine.ask(now_s)
            return True
        return False

    def apply(self, decision: Decision) -> None:
        """Change what runs as decided."""
        now_s = self._engine.state.now_s
        self._apply(decision, now_s)
        self._check_idle(self._woken, now_s)

    def stop(self) -> None:
        """End the simulation with jobs left."""
        self._stop_all(self._engine.end_s)

    def _resume(self) -> None:
        """Let what ran before the start run on."""
        engine = self._engine
        engine.move_hosts(0.0, lambda _: None)  # nothing runs yet
        going: list[Assignment] = []
        while engine.next_arrival_s <= 0:
            live = engine.admit()
            assignment = live.view.current
            if assignment is None:
                continue
            engine.running.remove(live.job.id)
            live.view.current = None
            engine.waiting.add(live.view)
            if assignment.tasks and not engine.instance.downtime.fails(assignment.tasks, 0.0):
                going.append(assignment)
        engine.referee.check_jobs(Decision(assign=tuple(going)), 0.0)
        for assignment in going:
            self._start(engine.active[assignment.job], assignment, 0.0)
        engine.referee.check_room(going, 0.0)
        self._opening = bool(engine.active)

    def _next_due_s(self) -> float:
        """Return when the next job completes or arrives, or the scheduler is to be woken."""
        heap = self._completions
        while heap and not self._stands(*heap[0]):
            heapq.heappop(heap)
        return min(
            heap[0][0] if heap else math.inf,
            self._engine.next_arrival_s,
            self._wake_s,
        )

    def _next_event(self, due_s: float) -> float:
        """Return when something happens next: something due, or with a host."""
        engine = self._engine
        now_s = min(due_s, engine.hosts.next_change_s)
        if math.isinf(now_s):
            if math.isfinite(engine.max_time_s):
                return engine.max_time_s
            # Of hosts that never come back, jobs may wait for ever without anybody's fault.
            if not self._stalls or engine.hosts.any_down:
                return math.inf
            raise engine.stall(engine.end_s, "nothing runs to completion and no job will arrive")
        return now_s

    def _complete(self, now_s: float) -> None:
        """Let out the jobs that complete now."""
        engine = self._engine
        heap = self._completions
        while heap and heap[0][0] <= now_s:
            foreseen = heapq.heappop(heap)
            if self._stands(*foreseen):
                self._stop(engine.live[foreseen[1]], now_s)

    def _move_hosts(self, now_s: float) -> bool:
        """Let hosts go down and come back; return whether there is something to decide."""
        if self._engine.hosts.next_change_s > now_s:
            return False

        def fail(live: LiveJob) -> None:
            self._stop(live, now_s, failed=True)

        return self._engine.move_hosts(now_s, fail)

    def _stands(self, finish_s: float, position: int, epoch: int) -> bool:
        """Return whether a completion is still to be expected as it was foreseen."""
        live = self._engine.live.get(position)
        return live is not None and live.epoch == epoch

    def _apply(self, decision: Decision, now_s: float) -> None:
        engine = self._engine
        for job_id in decision.release:
            self._stop(engine.active[job_id], now_s)
        fresh: list[Assignment] = []
        for assignment in decision.assign:
            live = engine.active[assignment.job]
            if live.keeps(assignment):
                continue
            if live.assignment is None or not self._stop(live, now_s):
                fresh.append(assignment)
        delays = {} if engine.executors is None else engine.executors.start(fresh, now_s)
        for assignment in fresh:
            live = engine.active[assignment.job]
            self._start(live, assignment, now_s, delays.get(assignment.job, 0.0))
        engine.referee.check_room(fresh, now_s)
        self._wake_s = math.inf
        if decision.wake_s is not None:
            if not decision.wake_s > now_s:
                raise SimulationError(
                    f"scheduler {engine.name} at {now_s:g} s asks to be woken at "
                    f"{decision.wake_s:g} s, which is not later."
                )
            self._wake_s = decision.wake_s

    def _start(
        self, live: LiveJob, assignment: Assignment, now_s: float, delay_s: float = 0.0
    ) -> None:
        engine = self._engine
        engine.referee.take(assignment)
        live.start(assignment, now_s, delay_s=delay_s)
        engine.waiting.remove(live.job.id)
        engine.running.add(live.view)
        finish_s = live.finish_s()
        if math.isfinite(finish_s):
            heapq.heappush(self._completions, (finish_s, live.view.position, live.epoch))

    def _stop(self, live: LiveJob, now_s: float, *, failed: bool = False) -> bool:
        """End a run; return whether the job is complete."""
        engine = self._engine
        if live.assignment is None:
            raise AssertionError("stop without a run")
        engine.referee.give_back(live.assignment)
        if engine.executors is not None:
            engine.executors.end(live.assignment, now_s)
        engine.running.remove(live.job.id)
        if live.stop(now_s, failed=failed):
            engine.complete(live)
            return True
        engine.waiting.add(live.view)
        return False

    def _sync_pool(self) -> None:
        """Show the scheduler what is free, whatever it took from its pool the last time."""
        ledger, pool = self._engine.referee.ledger, self._engine.state.pool
        pool.free[:] = ledger.free
        if ledger.open_gpus or pool.open_gpus:
            pool.open_gpus.clear()
            pool.open_gpus.update({h: dict(gpus) for h, gpus in ledger.open_gpus.items()})

    def _check_idle(self, woken: bool, now_s: float) -> None:
        engine = self._engine
        to_come_s = min(engine.next_arrival_s, engine.hosts.next_change_s)
        idle = woken and not self._completions and math.isinf(to_come_s)
        self._idle = self._idle + 1 if idle else 0
        if self._idle > PATIENCE and self._stalls:
            raise engine.stall(now_s, "it asks to be woken again and again and starts nothing")

    def _stop_all(self, now_s: float) -> None:
        """End the simulation with jobs left."""
        engine = self._engine
        engine.end_s = now_s
        for live in [live for live in engine.active.values() if live.assignment is not None]:
            self._stop(live, now_s)
