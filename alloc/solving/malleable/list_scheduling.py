"""List scheduling in continuous time: jobs are served in the order of a list, by their plans.

A plan says in which configurations a job does its work, part by part. At every arrival, completion
and end of a part, jobs are served anew in the order of a list; each takes the configuration of its
plan, or, where that does not fit, the fastest smaller one. What is then left is given to malleable
jobs in the same order.

A list may come with a timetable, which says when each job is to run in what. Jobs are then served
anew at its moments, too: first those whose turn it is, or that are behind, in what it says; then
the others, which get ahead of it with what is left.

References
----------
Serial schedule generation and its lists: Kolisch, Hartmann, "Heuristic algorithms for the
resource-constrained project scheduling problem", in Weglarz (ed.), Project Scheduling, 1999.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from alloc.models.malleable.costs import level_costs
from alloc.objectives import parse_level
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, Schedule, TaskPlacement
from alloc.workload import Job

Part = tuple[int, float]
"""A configuration, and the work to be done in it, work units."""


Turn = tuple[float, float, int]
"""Start and end, seconds, and a configuration."""

Placed = tuple[int, tuple[TaskPlacement, ...]]
"""A configuration and where its tasks are."""


@dataclass(frozen=True)
class Candidate:
    """What a schedule is made of.

    Parameters
    ----------
    order
        Positions of the jobs in the instance, the first served first.
    plans
        The parts of each job, by position.
    timetable
        The turns of each job in order of time, by position; empty for none.
    """

    order: tuple[int, ...]
    plans: tuple[tuple[Part, ...], ...]
    timetable: tuple[tuple[Turn, ...], ...] = ()


@dataclass
class _Job:
    """A job while a schedule is made.

    Parameters
    ----------
    position
        Position in the instance.
    job
        The job.
    goals
        The parts of its plan: a configuration, and the work left at the end of the part.
    left
        Work left when its run began, or at its arrival.
    started
        Whether it ran before, so that it pays for a restart.
    turns
        Its turns in the timetable that are not over; None without a timetable.
    """

    position: int
    job: Job
    goals: list[tuple[int, float]]
    left: float
    started: bool
    turns: list[Turn] | None = None
    part: int = 0
    configuration: int | None = None
    tasks: tuple[TaskPlacement, ...] = ()
    bound: int | None = None
    run_start_s: float = 0.0
    pause_s: float = 0.0
    runs: list[Run] = field(default_factory=list)

    @property
    def wanted(self) -> int:
        """Configuration of the turn, or else of the part of the plan, that is due."""
        if self.bound is not None:
            return self.bound
        return self.turns[0][2] if self.turns else self.goals[self.part][0]

    def look(self, now_s: float) -> None:
        """Leave out the turns that are over."""
        while self.turns and self.turns[0][1] <= now_s:
            self.turns.pop(0)

    def is_due(self, now_s: float) -> bool:
        """Return whether it is the job's turn, or it is behind its timetable, or has none."""
        return not self.turns or self.turns[0][0] <= now_s

    @property
    def next_event_s(self) -> float:
        """When this run completes the job or a part of its plan, seconds; infinite if never."""
        if self.configuration is None:
            return math.inf
        rate = self.job.configurations[self.configuration].rate
        work = max(self.left - self.goals[self.part][1], 0.0)
        return self.run_start_s + self.pause_s + work / rate if rate > 0 else math.inf

    def stop(self, now_s: float) -> None:
        """End the run."""
        if self.configuration is None:
            return
        rate = self.job.configurations[self.configuration].rate
        self.left -= min(rate * max(now_s - self.run_start_s - self.pause_s, 0.0), self.left)
        if now_s > self.run_start_s:
            run = Run(self.job.id, self.configuration, self.run_start_s, now_s, self.tasks)
            self.runs.append(run)
        self.configuration = None

    def start(self, configuration: int, tasks: tuple[TaskPlacement, ...], now_s: float) -> None:
        """Start a run."""
        self.pause_s = self.job.restart_cost_s if self.started else 0.0
        self.started = True
        self.configuration, self.tasks, self.run_start_s = configuration, tasks, now_s
        if self.job.elasticity != "malleable":
            self.bound = configuration

    @property
    def stays(self) -> bool:
        """Whether the job, once it runs, must go on as it is, or had better."""
        return not self.job.preemptible or self.job.restart_cost_s > 0


class ListScheduler:
    """Makes schedules of lists and plans.

    Parameters
    ----------
    instance
        An instance without slots.
    stop
        Says whether the time is over.
    objective
        One level of a goal: what a cutoff is about.
    """

    def __init__(
        self,
        instance: Instance,
        stop: Callable[[], bool] = lambda: False,
        objective: str = "weighted_jct",
    ) -> None:
        self.instance = instance
        self._stop = stop
        self._level = level_costs(instance.jobs, parse_level(objective), 1.0)
        self.pool = HostPool(instance.topology)
        self.quotas = {tenant.name: tenant.gpu_quota_milli for tenant in instance.tenants}
        self.running = {a.job: a for a in instance.running}
        self.ladders = [ladder_of(job) for job in instance.jobs]
        arrivals = sorted(range(len(instance.jobs)), key=lambda j: instance.jobs[j].arrival_s)
        self.arrivals = arrivals
        self._totals = [int(total) for total in instance.topology.totals]
        self._free = list(self._totals)
        self._held: dict[str, int] = {}

    def schedule(self, candidate: Candidate, cutoff: float = math.inf) -> Schedule | None:
        """Return the schedule of a list, or None if it is no better than a cutoff or time is over.

        Parameters
        ----------
        candidate
            The list and the plans.
        cutoff
            Value of the objective at which the work may be broken off.
        """
        self.pool.reset()
        rank = {j: k for k, j in enumerate(candidate.order)}
        live: dict[int, _Job] = {}
        done: list[_Job] = []
        # No job completes before the moment it has come to; by that the value only grows.
        ends = np.array([job.arrival_s for job in self.instance.jobs])
        coming = list(reversed(self.arrivals))
        moments = {t for turns in candidate.timetable for turn in turns for t in turn[:2]}
        turning = sorted(moments, reverse=True)
        now_s = 0.0
        while live or coming:
            while coming and self.instance.jobs[coming[-1]].arrival_s <= now_s:
                j = coming.pop()
                live[rank[j]] = self._enter(j, candidate)
            self._serve(_in_turn([live[k] for k in sorted(live)], now_s), now_s)
            then_s = min((job.next_event_s for job in live.values()), default=math.inf)
            if coming:
                then_s = min(then_s, self.instance.jobs[coming[-1]].arrival_s)
            while turning and turning[-1] <= now_s:
                turning.pop()
            if turning:
                then_s = min(then_s, turning[-1])
            if math.isinf(then_s):
                return None  # nothing can start: no schedule by this list
            now_s = then_s
            ends[[job.position for job in live.values()]] = now_s
            if self._stop() or (math.isfinite(cutoff) and self._level.value(ends) >= cutoff):
                return None
            for k, job in list(live.items()):
                if job.next_event_s > now_s:
                    continue
                if job.part + 1 < len(job.goals):
                    job.part += 1
                else:
                    assert job.configuration is not None
                    self.pool.release(job.job.configurations[job.configuration], job.tasks)
                    job.stop(now_s)
                    done.append(live.pop(k))
        return Schedule(tuple(run for job in done for run in job.runs))

    def _enter(self, j: int, candidate: Candidate) -> _Job:
        job, plan = self.instance.jobs[j], candidate.plans[j]
        before = self.running.get(job.id)
        started = before is not None or job.work_done > 0
        left, goals = job.work_left, []
        for configuration, work in plan:
            left = max(left - work, 0.0)
            goals.append((configuration, left))
        goals[-1] = (goals[-1][0], 0.0)
        turns = list(candidate.timetable[j]) if candidate.timetable else None
        live = _Job(j, job, goals, job.work_left, started, turns)
        if before is not None and before.tasks:
            live.configuration, live.tasks = before.configuration, before.tasks
            self.pool.take(job.configurations[before.configuration], before.tasks)
            if job.elasticity != "malleable":
                live.bound = before.configuration
        return live

    def _serve(self, jobs: list[_Job], now_s: float) -> None:
        """Serve the jobs in order: who runs in what on which hosts from now on."""
        chosen = self._by_totals(jobs)
        placed = self._on_free_hosts(jobs, chosen)
        if placed is None:
            placed = self._by_hosts(jobs)
        for job in jobs:
            mine = placed.get(job.position)
            if mine == (job.configuration, job.tasks):
                continue
            job.stop(now_s)
            if mine is not None:
                job.start(*mine, now_s)

    def _by_totals(self, jobs: list[_Job]) -> dict[int, int]:
        """Return the configurations of the jobs that run, by what is free in the whole cluster."""
        self._open()
        chosen: dict[int, int] = {}
        for job in jobs:
            if job.configuration is not None and job.stays:
                self._count(job, job.configuration, 1)
                chosen[job.position] = job.configuration
        for job in jobs:
            if job.position in chosen:
                continue
            c = next((c for c in self._choices(job) if self._fits(job, c)), None)
            if c is not None:
                self._count(job, c, 1)
                chosen[job.position] = c
        for job in jobs:
            c = chosen.get(job.position)
            if c is None or not self._may_rise(job):
                continue
            self._count(job, c, -1)
            c = next((f for f in self._faster(job, c) if self._fits(job, f)), c)
            self._count(job, c, 1)
            chosen[job.position] = c
        return chosen

    def _on_free_hosts(self, jobs: list[_Job], chosen: dict[int, int]) -> dict[int, Placed] | None:
        """Return hosts for the jobs, with all that go on where they are; None if that fails."""
        placed: dict[int, Placed] = {}
        for job in jobs:
            c = job.configuration
            if c is None:
                continue
            if chosen.get(job.position) == c:
                placed[job.position] = (c, job.tasks)
            else:
                self.pool.release(job.job.configurations[c], job.tasks)
        for job in jobs:
            c = chosen.get(job.position)
            if c is None or job.position in placed:
                continue
            tasks = self.pool.place(job.job.configurations[c], required=job.job.placement.required)
            if tasks is None:
                return None
            placed[job.position] = (c, tasks)
        return placed

    def _by_hosts(self, jobs: list[_Job]) -> dict[int, Placed]:
        """Return configurations and hosts for the jobs, each in turn on the hosts still free."""
        self.pool.reset()
        self._open()
        placed: dict[int, Placed] = {}
        for job in jobs:
            if job.configuration is not None and job.stays:
                self.pool.take(job.job.configurations[job.configuration], job.tasks)
                self._count(job, job.configuration, 1)
                placed[job.position] = (job.configuration, job.tasks)
        for job in jobs:
            if job.position not in placed:
                self._put(job, self._choices(job), placed)
        for job in jobs:
            if job.position not in placed or not self._may_rise(job):
                continue
            c, tasks = placed.pop(job.position)
            self.pool.release(job.job.configurations[c], tasks)
            self._count(job, c, -1)
            if not self._put(job, self._faster(job, c), placed):
                self.pool.take(job.job.configurations[c], tasks)
                self._count(job, c, 1)
                placed[job.position] = (c, tasks)
        return placed

    def _put(self, job: _Job, choices: Iterable[int], placed: dict[int, Placed]) -> bool:
        """Put a job on hosts in the first configuration that fits, where it is if possible."""
        for c in choices:
            if not self._fits(job, c):
                continue
            configuration = job.job.configurations[c]
            tasks: tuple[TaskPlacement, ...] | None = job.tasks
            if job.configuration == c and self.pool.fits(configuration, job.tasks):
                self.pool.take(configuration, job.tasks)
            else:
                tasks = self.pool.place(configuration, required=job.job.placement.required)
            if tasks is not None:
                self._count(job, c, 1)
                placed[job.position] = (c, tasks)
                return True
        return False

    def _choices(self, job: _Job) -> Iterable[int]:
        """Yield the configuration of a job's plan, then the smaller ones of a malleable job."""
        wanted = job.wanted
        yield wanted
        if job.job.elasticity == "malleable":
            rate = job.job.configurations[wanted].rate
            for c in self.ladders[job.position]:
                if job.job.configurations[c].rate < rate:
                    yield c

    def _may_rise(self, job: _Job) -> bool:
        """Return whether a job may take what nobody else does."""
        return job.job.elasticity == "malleable" and not (
            job.configuration is not None and job.stays
        )

    def _faster(self, job: _Job, c: int) -> Iterable[int]:
        """Yield the faster configurations of a job, the fastest first."""
        rate = job.job.configurations[c].rate
        for faster in self.ladders[job.position]:
            if job.job.configurations[faster].rate <= rate:
                return
            yield faster

    def _open(self) -> None:
        """Free the whole cluster, and the quotas, in the count of totals."""
        self._free = list(self._totals)
        self._held = dict.fromkeys(self.quotas, 0)

    def _fits(self, job: _Job, c: int) -> bool:
        demand = job.job.configurations[c].demand
        free = self._free
        if any(need > left for need, left in zip(demand, free, strict=True)):
            return False
        tenant = job.job.tenant
        return tenant not in self._held or (self._held[tenant] + demand[0] <= self.quotas[tenant])

    def _count(self, job: _Job, c: int, sign: int) -> None:
        demand = job.job.configurations[c].demand
        for r, amount in enumerate(demand):
            self._free[r] -= sign * amount
        tenant = job.job.tenant
        if tenant in self._held:
            self._held[tenant] += sign * demand[0]


def _in_turn(jobs: list[_Job], now_s: float) -> list[_Job]:
    """Return the jobs to serve: those whose turn it is, then those that may get ahead of theirs.

    A job that would hold what it gets until it completes waits for its turn.
    """
    for job in jobs:
        job.look(now_s)
    ahead = [job for job in jobs if not job.is_due(now_s)]
    if not ahead:
        return jobs
    ahead = [job for job in ahead if not job.stays or job.configuration is not None]
    return [job for job in jobs if job.is_due(now_s)] + ahead


def ladder_of(job: Job) -> list[int]:
    """Return the configurations of a job that make progress, the fastest first."""
    moving = [c for c, configuration in enumerate(job.configurations) if configuration.rate > 0]
    return sorted(moving, key=lambda c: (-job.configurations[c].rate, job.configurations[c].demand))
