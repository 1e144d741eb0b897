"""Streams of plain gangs: one loop over arrivals and completions.

Jobs are served as they come (`alloc.schedulers.fifo`), or by a rank that is known when they come
(`alloc.simulation.waiting`). `alloc.simulation.continuous` with the scheduler says what happens; on
what this loop takes, it comes to the same decisions, hosts and times, to the last digit. It only
leaves out what cannot matter there: nobody is paused or moved, so a job starts once, and its end is
known when it starts. The hosts that it chooses have room, as `alloc.packing.host_classes` knows
what is free; the checker looks at the whole schedule in the end, as it does after any simulation.
"""

from __future__ import annotations

import heapq
import math
import time
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from alloc.packing.host_classes import Gang, HostClasses, Placed
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.job_columns import ELASTICITIES
from alloc.problems.allocation.solution import Run, RunTable
from alloc.progress import WORK_TOLERANCE, follow
from alloc.schedulers.edf import Edf
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.ladder import TaskLadder, ladder_of
from alloc.schedulers.policy import Policy
from alloc.schedulers.srtf import Srtf
from alloc.schedulers.state import JobView, Scheduler
from alloc.simulation.engine import Engine
from alloc.simulation.waiting import ByRank, by_rank
from alloc.units import RESOURCES
from alloc.workload import Job

_Way = tuple[int, float, Gang]
"""Position of a configuration in its job's table, its rate, and its gang."""
_Ways = tuple[_Way, ...]
"""Ways to run, the fastest first."""


class Stream:
    """The loop over the events of a stream.

    What it keeps of a job are numbers in columns, for an object for each job costs more than all
    decisions on it.

    Parameters
    ----------
    engine
        Before its first event; it gets the record.
    hosts
        The hosts, empty.
    ways
        The ways to run a job of each kind, one of which fits the empty cluster.
    kinds
        Position in `ways` for each job.
    ranked
        Where jobs wait if the next is looked at when one does not fit, none at first; None: they
        are served as they come, and nobody overtakes.
    """

    def __init__(
        self,
        engine: Engine,
        hosts: HostClasses,
        ways: list[_Ways],
        kinds: Sequence[int],
        ranked: ByRank | None = None,
    ) -> None:
        self._engine = engine
        self._ranked = ranked
        self._hosts = hosts
        self._ways = list(map(ways.__getitem__, kinds))
        # Jobs that may run as the same gangs are of one kind: none fits where one does not.
        numbers: dict[tuple[Gang, ...], int] = {}
        same = [numbers.setdefault(tuple([gang for *_, gang in own]), len(numbers)) for own in ways]
        self._kinds = list(map(same.__getitem__, kinds))
        # Of jobs that have started: where their tasks are, their configurations, start and end of
        # their runs, and the ends of their work, which may be a rounding before; all in seconds.
        # Who has not started is nowhere.
        num_jobs = len(kinds)
        self._placed: list[Placed] = [()] * num_jobs
        self._configuration = array("q", bytes(8 * num_jobs))
        self._start_s = array("d", bytes(8 * num_jobs))
        self._end_s = array("d", bytes(8 * num_jobs))
        self._completion_s = array("d", bytes(8 * num_jobs))

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
        except KeyboardInterrupt as error:  # all has happened: it is entered once more
            interrupt = error
            self._record(stopped_s)
        if interrupt is not None:
            raise interrupt

    def _loop(self) -> float:
        """Run event by event; return when it is over, infinite if all jobs are complete."""
        # One function with names of its own: each look at an attribute would cost a hundredth.
        engine, hosts, ways_of, ranked = self._engine, self._hosts, self._ways, self._ranked
        kind_of = self._kinds
        place, release, clock = hosts.place, hosts.release, time.perf_counter
        progress, num_jobs, max_time_s = engine.progress, len(ways_of), engine.max_time_s
        pop, push, took = heapq.heappop, heapq.heappush, engine.decision_s.append
        placed_of, configuration_of = self._placed, self._configuration
        start_s, run_end_s, completion_s = self._start_s, self._end_s, self._completion_s
        columns = engine.instance.job_columns
        # Read once a job: a number made when it is read costs less than one that waits in a list.
        left_of = _numbers(columns.work_left)
        least_of = _numbers(columns.work_left - WORK_TOLERANCE * columns.work)
        pause_of = _numbers(np.where(columns.work_done > 0, columns.restart_cost_s, 0.0))
        order = engine.take_arrivals()[::-1]
        arrival_s = _numbers(np.append(columns.arrival_s[order], math.inf))
        next_arrival_s, num_arrived, now_s = arrival_s[0], 0, engine.end_s
        # The end of the run of each job that runs, and its position; and one that never ends.
        running: list[tuple[float, int, Gang]] = [(math.inf, num_jobs, (0, ()))]
        waiting: deque[int] = deque()
        # Ways that were tried, and did not fit, since as many GPUs were given back as the smallest
        # of them needs, milli-GPU.
        misfits: set[int] = set()
        needed_gpu, num_complete = 0, engine.num_complete
        try:
            while True:
                now_s = min(running[0][0], next_arrival_s)
                if now_s >= max_time_s:
                    break
                while running[0][0] <= now_s:
                    _, j, gang = pop(running)
                    release(gang, placed_of[j])
                    num_complete += 1
                    if progress is not None:
                        engine.num_complete = num_complete
                        progress(num_complete, num_jobs)
                    if misfits and hosts.free_gpu >= needed_gpu:
                        misfits.clear()
                while next_arrival_s <= now_s:
                    if ranked is None:
                        waiting.append(order[num_arrived])
                    else:
                        j = order[num_arrived]
                        ranked.add(kind_of[j], j)
                    num_arrived += 1
                    next_arrival_s = arrival_s[num_arrived]
                engine.end_s = now_s
                if not waiting and not ranked:
                    if len(running) > 1:
                        took(0.0)  # nobody waits
                    continue
                if misfits and ranked is None:
                    took(0.0)  # the first still waits for GPUs
                    continue
                began = clock()
                if ranked is not None:
                    ranked.open(misfits, now_s)
                while True:
                    if ranked is not None:
                        j = ranked.first()
                        if j < 0:
                            break
                    elif waiting:
                        j = waiting[0]
                    else:
                        break
                    ways, placed = ways_of[j], None
                    for way in ways:
                        placed = place(way[2])
                        if placed is not None:
                            break
                    if placed is not None:
                        c, rate, gang = way
                        # As `LiveJob.finish_s`, term by term.
                        pause, least = pause_of[j], least_of[j]
                        end_s = now_s + pause + left_of[j] / rate
                        completion_s[j] = end_s
                        while rate * (end_s - now_s - pause) < least:
                            end_s = math.nextafter(end_s, math.inf)
                        configuration_of[j], start_s[j], run_end_s[j] = c, now_s, end_s
                        placed_of[j] = placed
                        push(running, (end_s, j, gang))
                        if ranked is None:
                            waiting.popleft()
                        else:
                            ranked.take()
                        continue
                    least_gpu = min([gang[0] for _, _, gang in ways])
                    needed_gpu = min(needed_gpu, least_gpu) if misfits else least_gpu
                    misfits.add(kind_of[j])
                    if ranked is None:
                        break
                    ranked.pass_over()
                took(clock() - began)
        finally:
            engine.num_complete = num_complete
        if math.isinf(now_s):
            return math.inf
        engine.end_s = max_time_s
        return max_time_s

    def _record(self, stopped_s: float) -> None:
        """Enter in the engine's record what happened until a time, seconds."""
        record, instance = self._engine.record, self._engine.instance
        columns, num_jobs = instance.job_columns, len(self._placed)
        begun_s, end_s = np.array(self._start_s), np.array(self._end_s)
        completion_s = np.array(self._completion_s)
        num_places = np.fromiter(map(len, self._placed), np.int64, num_jobs)
        started = num_places > 0
        # Who was resumed at the moment when it stopped counts, but has no run at all.
        record.restarts = int(np.count_nonzero(started & (columns.work_done > 0)))
        ran = started & (begun_s < stopped_s)
        job = np.flatnonzero(ran)
        there = chain.from_iterable(map(self._placed.__getitem__, job.tolist()))
        record.table = RunTable(
            ids=columns.ids,
            job=job,
            configuration=np.array(self._configuration)[job],
            start_s=begun_s[job],
            end_s=np.minimum(end_s, stopped_s)[job],
            places=[stand.task for stand in self._hosts.stands],
            place=np.fromiter(map(attrgetter("index"), there), np.int64, num_places[ran].sum()),
            num_places=num_places[ran],
        )
        begun: list[float | None] = begun_s.tolist()
        complete: list[float | None] = completion_s.tolist()
        for j in np.flatnonzero(~ran).tolist():
            begun[j] = complete[j] = None
        for j in np.flatnonzero(ran & (stopped_s < end_s)).tolist():
            # Who is stopped within a rounding of its end is complete all the same.
            run = Run(columns.ids[j], self._configuration[j], self._start_s[j], stopped_s)
            complete[j] = follow(instance.jobs[j], (run,)).completion_s
        record.start_s = dict(zip(columns.ids, begun, strict=True))
        record.completion_s = dict(zip(columns.ids, complete, strict=True))


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
    if type(policy) not in (Fifo, Srtf, Edf) or not engine.is_plain:
        return None
    assert isinstance(policy, Policy)
    if not policy.is_plain or len(instance.resource_names) > len(RESOURCES):
        return None
    columns = instance.job_columns
    if not columns.has_no_rules.all():
        return None
    if (columns.work_left < _LEAST_LEFT * columns.work).any():
        return None
    waiting = None
    if type(policy) is not Fifo or policy.skip:
        waiting = by_rank(policy, instance, engine.shows_work)
        if waiting is None:
            return None
    hosts = HostClasses(instance.topology)
    # Jobs of one kind share what they may run as, which is looked at once.
    kinds = columns.table * len(ELASTICITIES) + columns.elasticity
    _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
    ways: list[_Ways] = []
    for j in first.tolist():
        own = _ways_of(instance, instance.jobs[j], hosts)
        if own is None:
            return None
        ways.append(own)
    return Stream(engine, hosts, ways, kind.tolist(), waiting)


def _numbers(column: npt.NDArray[np.float64]) -> array[float]:
    return array("d", column.tobytes())


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
