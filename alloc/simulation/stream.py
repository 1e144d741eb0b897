"""Streams of plain gangs: first come, first served, in one loop over arrivals and completions.

`alloc.simulation.continuous` with `alloc.schedulers.fifo` says what happens; on what this loop
takes, it comes to the same decisions, hosts and times, to the last digit. It only leaves out what
cannot matter there: nobody is paused or moved, so a job starts once, and its end is known when it
starts. The hosts that it chooses have room, as `alloc.packing.host_classes` knows what is free; the
checker looks at the whole schedule in the end, as it does after any simulation.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque

from alloc.packing.host_classes import Gang, HostClasses, Placed
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run
from alloc.progress import WORK_TOLERANCE, follow
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.ladder import TaskLadder, ladder_of
from alloc.schedulers.state import JobView, Scheduler
from alloc.simulation.engine import Engine
from alloc.units import RESOURCES
from alloc.workload import NO_RULES, Job

_Way = tuple[int, float, Gang]
"""Position of a configuration in its job's table, its rate, and its gang."""
_Ways = tuple[_Way, ...]
"""Ways to run, the fastest first."""

_Start = tuple[int, int, float, float, float, Placed]
"""Of a job that has started: positions of job and configuration, start, end of its run, end of its
work, which may be a rounding before, all in seconds, and where its tasks are."""


class Stream:
    """The loop over the events of a stream.

    Parameters
    ----------
    engine
        Before its first event; it gets the record.
    skip
        Whether the next job is looked at when one does not fit.
    hosts
        The hosts, empty.
    ways
        For each job the ways to run it, one of which fits the empty cluster.
    """

    def __init__(self, engine: Engine, skip: bool, hosts: HostClasses, ways: list[_Ways]) -> None:
        self._engine = engine
        self._skip = skip
        self._hosts = hosts
        self._ways = ways
        self._starts: list[_Start] = []

    def run(self) -> None:
        """Run to the end, or to the time at which the engine stops, and fill in the record.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C; the record is that of what happened until then.
        """
        interrupt: KeyboardInterrupt | None = None
        try:
            stopped_s = self._loop()
        except KeyboardInterrupt as error:
            stopped_s, interrupt = self._engine.end_s, error
        try:
            self._record(stopped_s)
        except KeyboardInterrupt as error:  # all has happened: the rest is entered
            interrupt = error
            self._record(stopped_s)
        if interrupt is not None:
            raise interrupt

    def _loop(self) -> float:
        """Run event by event; return when it is over, infinite if all jobs are complete."""
        # One function with names of its own: each look at an attribute would cost a hundredth.
        engine, jobs, ways_of = self._engine, self._engine.instance.jobs, self._ways
        place, release = self._hosts.place, self._hosts.release
        progress, num_jobs, max_time_s = engine.progress, len(jobs), engine.max_time_s
        clock, pop, push, took = time.perf_counter, heapq.heappop, heapq.heappush, engine.decision_s
        enter, skip = self._starts.append, self._skip
        arrivals = engine.take_arrivals()
        next_arrival_s = jobs[arrivals[-1]].arrival_s if arrivals else math.inf
        running: list[tuple[float, int, Gang, Placed]] = []
        waiting: deque[int] = deque()
        # Ways that were tried since anything was given back, and did not fit.
        misfits: set[int] = set()

        def start(j: int) -> bool:
            """Start a job in the fastest way that fits; return whether one does."""
            ways = ways_of[j]
            if id(ways) in misfits:
                return False
            for c, rate, gang in ways:
                placed = place(gang)
                if placed is not None:
                    # As `LiveJob.finish_s`, term by term.
                    job = jobs[j]
                    work, done = job.work, job.work_done
                    pause, left = (job.restart_cost_s if done > 0 else 0.0), work - done
                    completion_s = end_s = now_s + pause + left / rate
                    least = left - WORK_TOLERANCE * work
                    while rate * (end_s - now_s - pause) < least:
                        end_s = math.nextafter(end_s, math.inf)
                    enter((j, c, now_s, end_s, completion_s, placed))
                    push(running, (end_s, j, gang, placed))
                    return True
            misfits.add(id(ways))
            return False

        while running or waiting or arrivals:
            now_s = next_arrival_s
            if running and running[0][0] < now_s:
                now_s = running[0][0]
            if now_s >= max_time_s:
                engine.end_s = max_time_s
                return max_time_s
            while running and running[0][0] <= now_s:
                _, _, gang, placed = pop(running)
                release(gang, placed)
                misfits.clear()
                engine.num_complete += 1
                if progress is not None:
                    progress(engine.num_complete, num_jobs)
            passed = len(waiting)
            while next_arrival_s <= now_s:
                waiting.append(arrivals.pop())
                next_arrival_s = jobs[arrivals[-1]].arrival_s if arrivals else math.inf
            engine.end_s = now_s
            if waiting:
                began = clock()
                if skip:
                    # Who did not fit does not fit until something is given back.
                    tried = passed if misfits else 0
                    waiting = deque([j for k, j in enumerate(waiting) if k < tried or not start(j)])
                else:
                    while waiting and start(waiting[0]):
                        waiting.popleft()
                took.append(clock() - began)
            elif running:
                took.append(0.0)  # nobody waits
        return math.inf

    def _record(self, stopped_s: float) -> None:
        """Enter in the engine's record what happened until a time, seconds; or the rest of it."""
        record = self._engine.record
        jobs, runs = self._engine.instance.jobs, record.runs
        ends, begun = record.completion_s, record.start_s
        starts = self._starts
        starts.sort(reverse=True)
        if runs and starts and runs[-1].job == jobs[starts[-1][0]].id:
            starts.pop()  # it was entered when Ctrl-C came
        while starts:  # each is let go of once it is a run
            j, c, start_s, end_s, completion_s, placed = starts[-1]
            job = jobs[j]
            if stopped_s <= start_s:
                starts.pop()  # stopped by what happened at its start: no run at all
                record.restarts += job.work_done > 0
                continue
            # Equal placements are one object, as there are so many.
            one = len(placed) == 1
            tasks = placed[0].tasks if one else tuple([stand.task for stand in placed])
            if stopped_s < end_s:
                run = Run(job.id, c, start_s, stopped_s, tasks)
                ends[job.id] = follow(job, (run,)).completion_s
            else:
                run = Run(job.id, c, start_s, end_s, tasks)
                ends[job.id] = completion_s
            begun[job.id] = start_s
            runs.append(run)
            starts.pop()
            record.restarts += job.work_done > 0
        record.is_sorted = True


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
    if len(instance.resource_names) > len(RESOURCES):
        return None
    hosts = HostClasses(instance.topology)
    ways: list[_Ways] = []
    known: dict[tuple[int, str], _Ways | None] = {}
    for job in instance.jobs:
        key = (id(job.configurations), job.elasticity)
        if key not in known:
            known[key] = _ways_of(instance, job, hosts)
        own = known[key]
        if own is None or job.placement is not NO_RULES:
            return None
        if job.work_done and job.work_left < _LEAST_LEFT * job.work:
            return None
        ways.append(own)
    return Stream(engine, policy.skip, hosts, ways)


_LEAST_LEFT = 1e-6
"""Fraction of its work that a job has left at least: far more than the checker forgives."""


def _ways_of(instance: Instance, job: Job, empty: HostClasses) -> _Ways | None:
    """Return the ways to run a job, one of which fits the empty cluster; None: it is not plain."""
    table = job.configurations
    view = JobView(job.id, 0.0, table, 1.0, None, None, elasticity=job.elasticity)
    ladder = ladder_of(view, instance.topology)
    if isinstance(ladder, TaskLadder):
        return None
    ways: list[_Way] = []
    fits = False
    for c in sorted(ladder.choices, key=lambda c: -table[c].rate):
        gang = empty.gang(table[c])
        if gang is None:
            return None
        ways.append((c, table[c].rate, gang))
        if (placed := empty.place(gang)) is not None:
            empty.release(gang, placed)
            fits = True
    return tuple(ways) if fits else None
