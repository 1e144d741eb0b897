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

import numpy as np
import numpy.typing as npt

from alloc.packing.host_classes import Gang, HostClasses, Placed
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.job_columns import ELASTICITIES, JobTimes
from alloc.problems.allocation.solution import Run, RunTable
from alloc.progress import WORK_TOLERANCE, follow
from alloc.schedulers.edf import Edf
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.ladder import TaskLadder, ladder_of
from alloc.schedulers.policy import Policy
from alloc.schedulers.srtf import Srtf
from alloc.schedulers.state import JobView, Scheduler
from alloc.simulation.engine import Engine, StreamRecord
from alloc.simulation.waiting import ByRank, by_rank
from alloc.units import RESOURCES
from alloc.workload import Job

_Way = tuple[int, float, Gang]
"""Position of a configuration in its job's table, its rate, and its gang."""
_Running = tuple[float, int, Gang, Placed]
"""End of a run, seconds, position of its job, its gang, and where that is."""
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
        Position in `ways` for each job, shape (jobs,).
    ranked
        Where jobs wait if the next is looked at when one does not fit, none at first; None: they
        are served as they come, and nobody overtakes.
    """

    def __init__(
        self,
        engine: Engine,
        hosts: HostClasses,
        ways: list[_Ways],
        kinds: npt.NDArray[np.int64],
        ranked: ByRank | None = None,
    ) -> None:
        self._engine = engine
        self._ranked = ranked
        self._hosts = hosts
        self._ways, self._kinds = ways, kinds
        columns = engine.instance.job_columns
        # Arrival, seconds; work that is left, and what of it has to be done, work units; time
        # without progress at first, seconds.
        self._columns = (
            columns.arrival_s,
            columns.work_left,
            columns.work_left - WORK_TOLERANCE * columns.work,
            np.where(columns.work_done > 0, columns.restart_cost_s, 0.0),
        )
        # Of jobs in the order in which they started: position, configuration, start and end of the
        # run, seconds; and last where the tasks are, on the first host as `Stand.index` says and on
        # others as `~Stand.index`. Numbers are entered one after another, for a place in the middle
        # of a million is in no cache.
        self._job, self._configuration, self._place = array("q"), array("q"), array("q")
        self._start_s, self._end_s = array("d"), array("d")
        # Ends of work that are before those of runs, by a rounding, seconds.
        self._completion_s: dict[int, float] = {}
        # When it was decided who starts, and how long that took; and when nobody was left. All
        # other moments at which something happened are those of arrivals and ends.
        self._asked_s, self._took_s, self._idle_s = array("d"), array("d"), array("d")

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
        return self._in_order() if self._ranked is None else self._by_rank(self._ranked)

    def _in_order(self) -> float:
        """Serve jobs as they come.

        Who comes while the first waits for room does not matter before that has started. So
        arrivals are looked at while nobody waits, and the others are counted in the end.
        """
        # Names of its own: each look at an attribute would cost a hundredth.
        engine, hosts, clock = self._engine, self._hosts, time.perf_counter
        place, release, pop, push = hosts.place, hosts.release, heapq.heappop, heapq.heappush
        progress, num_jobs, max_time_s = engine.progress, len(self._kinds), engine.max_time_s
        asked, took, idle = self._asked_s.append, self._took_s.append, self._idle_s.append
        enter_job, enter_configuration = self._job.append, self._configuration.append
        enter_start, enter_end = self._start_s.append, self._end_s.append
        enter_place, enter_places = self._place.append, self._place.extend
        order = engine.take_arrivals()[::-1]
        # In the order of arrivals, and each read once. The last is of no job.
        numbers = [_numbers(column[order]) for column in self._columns]
        ways_of = map(self._ways.__getitem__, self._kinds[order].tolist())
        lines = zip(order, ways_of, *numbers, strict=True)
        last = (num_jobs, (), math.inf, 0.0, 0.0, 0.0)
        # The first that has not started.
        j, ways, next_s, left, least, pause = next(lines, last)
        # The end of the run of each job that runs, and its position; and one that never ends.
        running: list[_Running] = [(math.inf, num_jobs, (0, ()), ())]
        # Whether the first did not fit; and the GPU of the smallest of its ways, milli-GPU.
        blocked, needed_gpu = False, 0
        num_complete, last_s = engine.num_complete, engine.end_s
        try:
            while True:
                now_s = running[0][0]
                if next_s < now_s and not blocked:
                    now_s = next_s
                if now_s >= max_time_s:
                    break
                last_s = now_s
                while running[0][0] <= now_s:
                    _, _, gang, placed = pop(running)
                    release(gang, placed)
                    num_complete += 1
                    if progress is not None:
                        engine.num_complete = num_complete
                        progress(num_complete, num_jobs)
                if blocked:
                    if hosts.free_gpu < needed_gpu:
                        continue
                    blocked = False
                elif next_s > now_s:
                    if len(running) == 1:
                        idle(now_s)
                    continue
                began = clock()
                while next_s <= now_s:
                    for way in ways:
                        found = place(way[2])
                        if found is not None:
                            break
                    else:
                        blocked = True
                        needed_gpu = min([gang[0] for _, _, gang in ways])
                        break
                    c, rate, gang = way
                    # As `LiveJob.finish_s`, term by term.
                    end_s = now_s + pause + left / rate
                    if rate * (end_s - now_s - pause) < least:
                        end_s = self._put_off(j, end_s, now_s, pause, rate, least)
                    push(running, (end_s, j, gang, found))
                    enter_job(j)
                    enter_configuration(c)
                    enter_start(now_s)
                    enter_end(end_s)
                    if len(found) == 1:
                        enter_place(found[0].index)
                    else:
                        enter_places(_places(found))
                    j, ways, next_s, left, least, pause = next(lines, last)
                asked(now_s)
                took(clock() - began)
        finally:
            engine.num_complete, engine.end_s = num_complete, last_s
        return self._over(now_s)

    def _by_rank(self, ranked: ByRank) -> float:
        """Serve jobs by their rank, and look at the next where one does not fit."""
        engine, hosts, clock = self._engine, self._hosts, time.perf_counter
        place, release, pop, push = hosts.place, hosts.release, heapq.heappop, heapq.heappush
        progress, num_jobs, max_time_s = engine.progress, len(self._kinds), engine.max_time_s
        asked, took, idle = self._asked_s.append, self._took_s.append, self._idle_s.append
        enter_job, enter_configuration = self._job.append, self._configuration.append
        enter_start, enter_end = self._start_s.append, self._end_s.append
        enter_place, enter_places = self._place.append, self._place.extend
        ways_of = list(map(self._ways.__getitem__, self._kinds.tolist()))
        # Jobs that may run as the same gangs are of one kind: none fits where one does not.
        known: dict[tuple[Gang, ...], int] = {}
        same = [known.setdefault(tuple([w[2] for w in own]), len(known)) for own in self._ways]
        kind_of: list[int] = np.array(same)[self._kinds].tolist()
        _, left_of, least_of, pause_of = [_numbers(column) for column in self._columns]
        order = engine.take_arrivals()[::-1]
        arrival_s = _numbers(np.append(self._columns[0][order], math.inf))
        next_s, num_arrived = arrival_s[0], 0
        running: list[_Running] = [(math.inf, num_jobs, (0, ()), ())]
        # Ways that were tried, and did not fit, since as many GPUs were given back as the smallest
        # of them needs, milli-GPU.
        misfits: set[int] = set()
        needed_gpu, num_complete, last_s = 0, engine.num_complete, engine.end_s
        try:
            while True:
                now_s = min(running[0][0], next_s)
                if now_s >= max_time_s:
                    break
                last_s = now_s
                while running[0][0] <= now_s:
                    _, _, gang, placed = pop(running)
                    release(gang, placed)
                    num_complete += 1
                    if progress is not None:
                        engine.num_complete = num_complete
                        progress(num_complete, num_jobs)
                if misfits and hosts.free_gpu >= needed_gpu:
                    misfits.clear()
                while next_s <= now_s:
                    j = order[num_arrived]
                    ranked.add(kind_of[j], j)
                    num_arrived += 1
                    next_s = arrival_s[num_arrived]
                if not ranked:
                    if len(running) == 1:
                        idle(now_s)
                    continue
                began = clock()
                ranked.open(misfits, now_s)
                while (j := ranked.first()) >= 0:
                    for way in ways_of[j]:
                        found = place(way[2])
                        if found is not None:
                            break
                    else:
                        least_gpu = min([gang[0] for _, _, gang in ways_of[j]])
                        needed_gpu = min(needed_gpu, least_gpu) if misfits else least_gpu
                        misfits.add(kind_of[j])
                        ranked.pass_over()
                        continue
                    c, rate, gang = way
                    # As `LiveJob.finish_s`, term by term.
                    pause, least = pause_of[j], least_of[j]
                    end_s = now_s + pause + left_of[j] / rate
                    if rate * (end_s - now_s - pause) < least:
                        end_s = self._put_off(j, end_s, now_s, pause, rate, least)
                    push(running, (end_s, j, gang, found))
                    ranked.take()
                    enter_job(j)
                    enter_configuration(c)
                    enter_start(now_s)
                    enter_end(end_s)
                    if len(found) == 1:
                        enter_place(found[0].index)
                    else:
                        enter_places(_places(found))
                asked(now_s)
                took(clock() - began)
        finally:
            engine.num_complete, engine.end_s = num_complete, last_s
        return self._over(now_s)

    def _put_off(
        self, j: int, end_s: float, now_s: float, pause: float, rate: float, least: float
    ) -> float:
        """Return when the run of a job ends whose work ends a rounding too early, and enter that.

        Parameters
        ----------
        j
            Its position.
        end_s
            The end of its work, seconds.
        now_s, pause
            When it starts, and how long it makes no progress at first, seconds.
        rate
            Work units a second.
        least
            What of its work has to be done, work units.
        """
        self._completion_s[j] = end_s
        while rate * (end_s - now_s - pause) < least:
            end_s = math.nextafter(end_s, math.inf)
        return end_s

    def _over(self, now_s: float) -> float:
        """Return when it is over: where it stops, or infinite if nothing happens any more."""
        if math.isinf(now_s):
            return math.inf
        self._engine.end_s = self._engine.max_time_s
        return self._engine.max_time_s

    def _record(self, stopped_s: float) -> None:
        """Enter in the engine's record what happened until a time, seconds."""
        record, instance = self._engine.record, self._engine.instance
        columns = instance.job_columns
        entered = np.array(self._place)
        first = np.flatnonzero(entered >= 0)
        num_places = np.diff(first, append=len(entered))
        # What was being entered when Ctrl-C came has not started.
        job, configuration, begun_s, end_s = (
            np.array(column)[: len(first)]
            for column in (self._job, self._configuration, self._start_s, self._end_s)
        )
        self._engine.decision_s = self._decisions(stopped_s, end_s)
        # Who was resumed at the moment when it stopped counts, but has no run at all.
        record.restarts = int(np.count_nonzero(columns.work_done[job] > 0))
        ran = np.flatnonzero(begun_s < stopped_s)
        ran = ran[np.argsort(job[ran], kind="stable")]
        first, num_places, job = first[ran], num_places[ran], job[ran]
        configuration, begun_s, end_s = configuration[ran], begun_s[ran], end_s[ran]
        place = entered[_ranges(first, num_places)]
        table = RunTable(
            ids=columns.ids,
            job=job,
            configuration=configuration,
            start_s=begun_s,
            end_s=np.minimum(end_s, stopped_s),
            places=[stand.task for stand in self._hosts.stands],
            place=np.where(place < 0, ~place, place),
            num_places=num_places,
        )
        start_s, completion_s = np.full((2, len(columns.ids)), math.nan)
        start_s[job], completion_s[job] = begun_s, end_s
        for j, moment_s in self._completion_s.items():
            completion_s[j] = min(
                completion_s[j], moment_s
            )  # of one that has not run there is none
        for k in np.flatnonzero(stopped_s < end_s).tolist():
            # Who is stopped within a rounding of its end is complete all the same.
            run = Run(columns.ids[job[k]], int(configuration[k]), float(begun_s[k]), stopped_s)
            moment = follow(instance.jobs[job[k]], (run,)).completion_s
            completion_s[job[k]] = math.nan if moment is None else moment
        times = JobTimes(columns.ids, start_s), JobTimes(columns.ids, completion_s)
        record.stream = StreamRecord(table, *times)

    def _decisions(self, stopped_s: float, end_s: npt.NDArray[np.float64]) -> array[float]:
        """Return how long each decision took: none at moments when nobody could start.

        Parameters
        ----------
        stopped_s
            When it stopped, seconds.
        end_s
            End of each run, seconds.
        """
        moments = np.unique(np.concatenate([self._columns[0], end_s]))
        # What was being entered when Ctrl-C came took no time that is known.
        asked = np.searchsorted(moments, np.array(self._asked_s)[: len(self._took_s)])
        took, counts = np.zeros(len(moments)), moments < stopped_s
        took[asked], counts[asked] = np.array(self._took_s), True
        counts[np.searchsorted(moments, np.array(self._idle_s))] = False
        return _numbers(took[counts])


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
    first = np.full(len(columns.tables) * len(ELASTICITIES), -1)
    first[kinds[::-1]] = np.arange(len(kinds))[::-1]  # of equals the last one stays
    kinds = (np.cumsum(first >= 0) - 1)[kinds]
    ways: list[_Ways] = []
    for j in first[first >= 0].tolist():
        own = _ways_of(instance, instance.jobs[j], hosts)
        if own is None:
            return None
        ways.append(own)
    return Stream(engine, hosts, ways, kinds, waiting)


def _numbers(column: npt.NDArray[np.float64]) -> array[float]:
    return array("d", column.tobytes())


def _places(placed: Placed) -> list[int]:
    """Return what is entered of a gang on several hosts: which of them is the first is seen."""
    places = [~stand.index for stand in placed]
    places[0] = placed[0].index
    return places


def _ranges(first: npt.NDArray[np.int64], number: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return so many whole numbers from each of some on, one range after another."""
    shift = first - (np.cumsum(number) - number)
    found: npt.NDArray[np.int64] = np.repeat(shift, number) + np.arange(number.sum())
    return found


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
