"""Streams of plain gangs: first come, first served, in one loop over arrivals and completions.

`alloc.simulation.continuous` with `alloc.schedulers.fifo` says what happens; on what this loop
takes, it comes to the same decisions, hosts and times, to the last digit. It only leaves out what
cannot matter there: nobody is paused or moved, so a job starts once, and its end is known when it
starts. What is decided is checked as a whole in the end, with all else.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from dataclasses import dataclass

from alloc.packing.host_classes import HostClasses, Placed, PlainGang, plain_gang
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, TaskPlacement
from alloc.progress import WORK_TOLERANCE, follow
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.ladder import TaskLadder, ladder_of
from alloc.schedulers.state import JobView, Scheduler
from alloc.simulation.engine import Engine
from alloc.workload import NO_RULES, Job

_Ways = tuple[tuple[int, float, PlainGang], ...]
"""Ways to run, the fastest first: position of the configuration, its rate, and its gang."""


@dataclass(slots=True)
class _Start:
    """A job that has started.

    Parameters
    ----------
    position
        Of the job in the instance.
    configuration
        Position in the job's configurations.
    start_s, end_s
        When it runs, seconds.
    completion_s
        When its work is done: `end_s`, or a rounding before.
    placed
        Where its tasks are.
    """

    position: int
    configuration: int
    start_s: float
    end_s: float
    completion_s: float
    placed: Placed


class Stream:
    """The loop over the events of a stream.

    Parameters
    ----------
    engine
        Before its first event; it gets the record.
    policy
        The rule.
    ways
        For each job the ways to run it.
    """

    def __init__(self, engine: Engine, policy: Fifo, ways: list[_Ways]) -> None:
        self._engine = engine
        self._skip = policy.skip
        self._ways = ways
        self._hosts = HostClasses(engine.instance.topology)
        self._starts: list[_Start] = []
        self._running: list[tuple[float, int, PlainGang, Placed]] = []
        self._waiting: deque[int] = deque()
        # Ways that were tried since anything was given back, and did not fit.
        self._misfits: set[int] = set()

    def run(self) -> None:
        """Run to the end, or to the time at which the engine stops, and fill in the record.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C; the record is that of what happened until then.
        """
        engine = self._engine
        try:
            stopped_s = self._loop()
        except KeyboardInterrupt:
            self._record(engine.end_s)
            raise
        self._record(stopped_s)

    def _loop(self) -> float:
        """Run event by event; return when it is over, infinite if all jobs are complete."""
        engine, running, waiting = self._engine, self._running, self._waiting
        jobs, release, clock = engine.instance.jobs, self._hosts.release, time.perf_counter
        progress, num_jobs, max_time_s = engine.progress, len(jobs), engine.max_time_s
        arrivals = engine.take_arrivals()
        next_arrival_s = jobs[arrivals[-1]].arrival_s if arrivals else math.inf
        while running or waiting or arrivals:
            now_s = next_arrival_s
            if running and running[0][0] < now_s:
                now_s = running[0][0]
            if now_s >= max_time_s:
                engine.end_s = max_time_s
                return max_time_s
            while running and running[0][0] <= now_s:
                _, _, gang, placed = heapq.heappop(running)
                release(gang, placed)
                self._misfits.clear()
                engine.num_complete += 1
                if progress is not None:
                    progress(engine.num_complete, num_jobs)
            fresh = len(waiting)
            while next_arrival_s <= now_s:
                waiting.append(arrivals.pop())
                next_arrival_s = jobs[arrivals[-1]].arrival_s if arrivals else math.inf
            engine.end_s = now_s
            if not running and not waiting:
                continue  # nothing is there to decide on
            began = clock()
            if self._skip:
                self._serve_all(now_s, fresh)
            else:
                while waiting and self._start(waiting[0], now_s):
                    waiting.popleft()
            engine.decision_s.append(clock() - began)
        return math.inf

    def _serve_all(self, now_s: float, fresh: int) -> None:
        """Start who fits, and pass over who does not."""
        waiting = self._waiting
        # Who did not fit before does not fit unless something was given back since.
        skipped = 0 if not self._misfits else fresh
        passed = [waiting.popleft() for _ in range(skipped)]
        while waiting:
            position = waiting.popleft()
            if not self._start(position, now_s):
                passed.append(position)
        waiting.extend(passed)

    def _start(self, position: int, now_s: float) -> bool:
        """Start a job in the fastest way that fits; return whether one does."""
        ways = self._ways[position]
        if id(ways) in self._misfits:
            return False
        place = self._hosts.place
        chosen = next(((way, on) for way in ways if (on := place(way[2])) is not None), None)
        if chosen is None:
            self._misfits.add(id(ways))
            return False
        (c, rate, gang), placed = chosen
        # As `LiveJob.finish_s`, term by term.
        job = self._engine.instance.jobs[position]
        pause = job.restart_cost_s if job.work_done > 0 else 0.0
        left = job.work_left
        completion_s = end_s = now_s + pause + left / rate
        least = left - WORK_TOLERANCE * job.work
        while rate * (end_s - now_s - pause) < least:
            end_s = math.nextafter(end_s, math.inf)
        self._starts.append(_Start(position, c, now_s, end_s, completion_s, placed))
        heapq.heappush(self._running, (end_s, position, gang, placed))
        return True

    def _record(self, stopped_s: float) -> None:
        """Enter in the engine's record what happened until a time, seconds."""
        engine, record = self._engine, self._engine.record
        jobs, hosts = engine.instance.jobs, engine.instance.topology.hosts
        tasks: dict[tuple[int, str, int], TaskPlacement] = {}
        record.completion_s = dict.fromkeys([job.id for job in jobs])
        record.start_s = dict.fromkeys([job.id for job in jobs])
        self._starts.sort(key=lambda start: start.position)
        for start in self._starts:
            job = jobs[start.position]
            groups = job.configurations[start.configuration].tasks
            record.restarts += job.work_done > 0
            end_s = min(start.end_s, stopped_s)
            if end_s <= start.start_s:
                continue  # stopped by what happened at its start: no run at all
            placed = []
            for k, h, count in start.placed:
                key = (h, groups[k].role, count)
                task = tasks.get(key)
                if task is None:
                    task = tasks[key] = TaskPlacement(hosts[h].id, key[1], count)
                placed.append(task)
            run = Run(job.id, start.configuration, start.start_s, end_s, tuple(placed))
            record.runs.append(run)
            record.start_s[job.id] = start.start_s
            complete = end_s == start.end_s
            record.completion_s[job.id] = (
                start.completion_s if complete else follow(job, (run,)).completion_s
            )


def stream_of(engine: Engine, policy: Scheduler) -> Stream | None:
    """Return the loop for a simulation, or None if it asks for more than the loop does.

    Parameters
    ----------
    engine
        Before its first event.
    policy
        Who decides.
    """
    instance = engine.instance
    if type(policy) is not Fifo or not policy.is_plain or not engine.is_plain:
        return None
    ways: list[_Ways] = []
    known: dict[tuple[int, str], _Ways | None] = {}
    for job in instance.jobs:
        key = (id(job.configurations), job.elasticity)
        if key not in known:
            known[key] = _ways_of(instance, job)
        own = known[key]
        if own is None or job.placement is not NO_RULES or job.work_left < _LEAST_LEFT * job.work:
            return None
        ways.append(own)
    return Stream(engine, policy, ways)


_LEAST_LEFT = 1e-6
"""Fraction of its work that a job has left at least: far more than the checker forgives."""


def _ways_of(instance: Instance, job: Job) -> _Ways | None:
    """Return the ways to run a job, one of which fits the empty cluster; None: it is not plain."""
    table = job.configurations
    view = JobView(job.id, 0.0, table, 1.0, None, None, elasticity=job.elasticity)
    ladder = ladder_of(view, instance.topology)
    if isinstance(ladder, TaskLadder):
        return None
    ways = []
    for c in sorted(ladder.choices, key=lambda c: -table[c].rate):
        gang = plain_gang(table[c])
        if gang is None:
            return None
        ways.append((c, table[c].rate, gang))
    empty = HostClasses(instance.topology)
    fits = any(empty.place(gang) is not None for _, _, gang in ways)
    return tuple(ways) if fits else None
