"""A cluster in operation over time: a new decision at every arrival and completion.

Each decision sees the jobs that have arrived, what is left of them and their chances to stop early,
not when they really end and not what comes. It holds until the next event. What is charged is what
happens: the rates of the nodes while they are on, and the tardiness of the jobs when they end; the
accounting inside a decision is only its guide.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from alloc.errors import SimulationError
from alloc.problems.operation.job_stream import OperationStream, StreamJob
from alloc.problems.operation.problem import (
    EarlyStop,
    OperationJob,
    OperationPlan,
    OperationProblem,
    RunningJob,
)
from alloc.result import Limits
from alloc.solving.operation.policies import require_policy
from alloc.solving.outcome import Progress, Settings
from alloc.units import HOUR_S

_NOTHING_S = 1e-6
"""A microsecond: what is left of a job below it is rounding."""
_MAX_IDLE = 5000
"""Decisions in a row that run nothing, with nothing to come, after which a policy is stuck."""


@dataclass(frozen=True)
class JobRecord:
    """What became of a job: when it ended, how late, and how often it was restarted."""

    job: str
    completion_s: float
    tardiness_s: float
    tardiness_cost: float
    restarts: int


@dataclass(frozen=True)
class OperationRun:
    """A stream under a policy.

    Parameters
    ----------
    policy
        Its name.
    jobs
        What became of each job, in the order of the stream.
    node_cost
        Rates of the nodes over the time they were on, energy included, money.
    energy_kwh
        Energy of the nodes.
    node_hours
        Hours that nodes were on, all nodes together.
    decisions, decision_seconds, longest_decision_seconds
        Number of decisions, and the wall time they took, in all and at most.
    unproved
        Decisions of a policy that proves bounds which were not proved optimal in time.
    end_s
        When the last job ended.
    """

    policy: str
    jobs: tuple[JobRecord, ...]
    node_cost: float
    energy_kwh: float
    node_hours: float
    decisions: int
    decision_seconds: float
    longest_decision_seconds: float
    unproved: int
    end_s: float

    @property
    def tardiness_cost(self) -> float:
        """Money for the tardiness of all jobs."""
        return sum(record.tardiness_cost for record in self.jobs)

    @property
    def total_cost(self) -> float:
        """Money in all."""
        return self.node_cost + self.tardiness_cost

    @property
    def late_jobs(self) -> int:
        """Number of jobs that ended after their due date."""
        return sum(record.tardiness_s > _NOTHING_S for record in self.jobs)


def saving(cost: float, baseline: float) -> float:
    """Return what part of a baseline's cost is saved; negative when it is exceeded.

    Parameters
    ----------
    cost, baseline
        What was charged, in the currency, 0 or more.
    """
    return 0.0 if baseline == 0 else 1.0 - cost / baseline


class _Progress:
    """A job that has arrived: how much is done, and what it runs as."""

    def __init__(self, stream_job: StreamJob) -> None:
        self.job = stream_job.job
        self.ends_after = stream_job.ends_after
        self.done = 0.0
        self.place: RunningJob | None = None
        self.pause_s = 0.0
        self.started = False
        self.restarts = 0

    def _full_s(self, place: RunningJob) -> float:
        full = self.job.duration_s[place.type][place.gpus - 1]
        assert full is not None
        return full

    def view(self) -> OperationJob:
        """Return the job as a decision sees it: what is left of it."""
        left = 1.0 - self.done
        durations: dict[str, tuple[float | None, ...]] = {
            name: tuple(None if t is None else max(t * left, _NOTHING_S) for t in times)
            for name, times in self.job.duration_s.items()
        }
        if self.place is not None and self.pause_s > 0:
            times = list(durations[self.place.type])
            times[self.place.gpus - 1] = self._full_s(self.place) * left + self.pause_s
            durations[self.place.type] = tuple(times)
        return replace(
            self.job,
            duration_s=durations,
            restart_s=self.job.restart_s if self.started else 0.0,
            stops=self._stops(left),
        )

    def _stops(self, left: float) -> tuple[EarlyStop, ...]:
        """Return the chances still ahead, given that the job has come so far."""
        passed = sum(s.probability for s in self.job.stops if s.fraction <= self.done + 1e-9)
        survival = 1.0 - passed
        if survival <= 1e-9:
            return ()
        return tuple(
            EarlyStop((s.fraction - self.done) / left, min(s.probability / survival, 1.0))
            for s in self.job.stops
            if s.fraction > self.done + 1e-9
        )

    def assign(self, place: RunningJob | None) -> None:
        """Run the job as a plan says, from now on."""
        goes_on = (
            place is not None
            and self.place is not None
            and (place.type, place.gpus) == (self.place.type, self.place.gpus)
        )
        if place is not None and not goes_on:
            self.pause_s = self.job.restart_s if self.started else 0.0
            self.restarts += self.started
            self.started = True
        self.place = place

    def seconds_left(self) -> float:
        """Return the time until it really ends, as it runs now, seconds."""
        assert self.place is not None
        return self.pause_s + max(self.ends_after - self.done, 0.0) * self._full_s(self.place)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if self.place is None:
            return
        pause = min(self.pause_s, seconds)
        self.pause_s -= pause
        done = self.done + (seconds - pause) / self._full_s(self.place)
        self.done = min(done, self.ends_after)


def simulate_operation(
    stream: OperationStream,
    policy: str = "exact",
    limits: Limits = Limits(seconds=5.0),
    *,
    progress: Progress | None = None,
) -> OperationRun:
    """Return what a policy makes of a stream.

    Parameters
    ----------
    stream
        Nodes and jobs over time.
    policy
        One of `alloc.solving.operation.policies.POLICIES`.
    limits
        Limits of each decision: its time counts from the decision, its seed is shared.
    progress
        Takes a line of progress after each decision.

    Raises
    ------
    SimulationError
        If the policy lets jobs wait for ever.

    Examples
    --------
    >>> from alloc.instances.operation import generate_operation_stream
    >>> stream = generate_operation_stream(num_nodes=2, num_jobs=4, seed=1)
    >>> run = simulate_operation(stream, "greedy")
    >>> len(run.jobs)
    4
    """
    return _Simulation(stream, policy, limits, progress).run()


class _Simulation:
    def __init__(
        self,
        stream: OperationStream,
        policy: str,
        limits: Limits,
        progress: Progress | None,
    ) -> None:
        self.stream, self.policy = stream, require_policy(policy)
        self.limits, self.progress = limits, progress
        self.coming = sorted(stream.jobs, key=lambda s: (s.job.arrival_s, s.job.id))[::-1]
        self.active: dict[str, _Progress] = {}
        self.records: dict[str, JobRecord] = {}
        self.now_s = 0.0
        self.plan = OperationPlan(())
        self.node_cost = self.energy_kwh = self.node_hours = 0.0
        self.times: list[float] = []
        self.unproved = self.idle = 0

    def run(self) -> OperationRun:
        while self.coming or self.active:
            if not self.active:
                self.now_s = self.coming[-1].job.arrival_s
            while self.coming and self.coming[-1].job.arrival_s <= self.now_s:
                arrived = self.coming.pop()
                self.active[arrived.job.id] = _Progress(arrived)
            problem = self.decide()
            self.pass_time(problem, self.next_event_s() - self.now_s)
            self.complete()
        return OperationRun(
            self.policy.name,
            tuple(self.records[stream_job.job.id] for stream_job in self.stream.jobs),
            self.node_cost,
            self.energy_kwh,
            self.node_hours,
            len(self.times),
            sum(self.times),
            max(self.times),
            self.unproved,
            max(record.completion_s for record in self.records.values()),
        )

    def decide(self) -> OperationProblem:
        """Ask the policy, and let jobs run as it says."""
        problem = self.stream.decision(
            self.now_s,
            tuple(progress.view() for progress in self.active.values()),
            running=tuple(p.place for p in self.active.values() if p.place is not None),
        )
        began = time.perf_counter()
        result = self.policy.decide(problem, Settings.of(self.limits))
        self.times.append(time.perf_counter() - began)
        self.unproved += self.policy.proves and result.certificate.status != "optimal"
        self.plan = result.require_solution()
        places = dict(_places(self.plan))
        for job, progress in self.active.items():
            progress.assign(places.get(job))
        if self.progress is not None:
            self.progress(
                f"{self.policy.name}: {self.now_s / HOUR_S:.1f} h, {len(places)} jobs run, "
                f"{len(self.plan.postponed)} wait, {len(self.records)} of "
                f"{len(self.stream.jobs)} ended"
            )
        self._check_idle(places)
        return problem

    def _check_idle(self, places: Mapping[str, RunningJob]) -> None:
        self.idle = 0 if places or self.coming else self.idle + 1
        if self.idle > _MAX_IDLE:
            raise SimulationError(
                f'stream "{self.stream.name}": at {self.now_s:g} s {len(self.active)} jobs wait, '
                f'"{next(iter(self.active))}" among them, nothing is to come, and policy '
                f'"{self.policy.name}" runs none of them; give every job a tardiness cost and let '
                "the postponement factor be 1 or more, so that waiting costs more than running."
            )

    def next_event_s(self) -> float:
        """Return when the next decision is due."""
        events = [
            self.now_s + progress.seconds_left()
            for progress in self.active.values()
            if progress.place is not None
        ]
        if self.coming:
            events.append(self.coming[-1].job.arrival_s)
        if self.plan.postponed:
            events.append(self.now_s + self.stream.replan_s)
        return min(events)

    def pass_time(self, problem: OperationProblem, seconds: float) -> None:
        """Charge the nodes and let the jobs get on until the next event."""
        hours = seconds / HOUR_S
        for node in self.plan.nodes:
            node_type = problem.type(node.type)
            self.node_cost += problem.rate_per_h(node_type, node.gpus) * hours
            self.energy_kwh += node_type.power_at(node.gpus) / 1000 * hours
            self.node_hours += hours
        for progress in self.active.values():
            progress.advance(seconds)
        self.now_s += seconds

    def complete(self) -> None:
        """Record the jobs that have ended."""
        ended = [
            progress
            for progress in self.active.values()
            if progress.place is not None and progress.seconds_left() <= _NOTHING_S
        ]
        for progress in ended:
            job = progress.job
            late = max(self.now_s - job.due_date_s, 0.0)
            cost = late / HOUR_S * job.tardiness_cost_per_h
            self.records[job.id] = JobRecord(job.id, self.now_s, late, cost, progress.restarts)
            del self.active[job.id]


def _places(plan: OperationPlan) -> Iterator[tuple[str, RunningJob]]:
    for node in plan.nodes:
        for job, gpus in node.jobs:
            yield job, RunningJob(job, node.node, node.type, gpus)
