"""The engine: what both clocks of the simulator share."""

from __future__ import annotations

import math
from array import array
from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from alloc.errors import InstanceError, SimulationError
from alloc.packing import HostPool
from alloc.problems.allocation.executors import Executors
from alloc.problems.allocation.instance import Instance, overfull
from alloc.problems.allocation.job_columns import JobTimes
from alloc.problems.allocation.solution import Run, RunTable
from alloc.schedulers.state import ClusterState, Decision, JobTable, JobView
from alloc.simulation.hosts import HostWatch
from alloc.simulation.information import Forecast
from alloc.simulation.live import LiveJob
from alloc.simulation.rules import Referee
from alloc.simulation.stages import StagedJobs

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class StreamRecord:
    """What is kept where one loop ran all jobs: columns, in the order of the instance.

    Parameters
    ----------
    table
        The runs.
    start_s, completion_s
        First start and completion of each job, seconds.
    """

    table: RunTable
    start_s: JobTimes
    completion_s: JobTimes


@dataclass
class Record:
    """What is kept of jobs that are out of the system: long streams have many."""

    runs: list[Run] = field(default_factory=list)
    completion_s: dict[str, float | None] = field(default_factory=dict)
    start_s: dict[str, float | None] = field(default_factory=dict)
    restarts: int = 0
    migrations: int = 0
    failures: int = 0
    lost_gpu_s: float = 0.0
    stream: StreamRecord | None = None
    """In place of runs and times, where one loop ran all jobs."""

    @property
    def ends_s(self) -> Mapping[str, float | None]:
        """Completion of each job that is out of the system, seconds, None if it has none."""
        return self.completion_s if self.stream is None else self.stream.completion_s

    def enter(self, live: LiveJob) -> None:
        """Enter a job."""
        self.runs += live.runs
        self.completion_s[live.job.id] = live.completion_s
        self.start_s[live.job.id] = live.start_s
        self.restarts += live.restarts
        self.migrations += live.migrations
        self.failures += live.failures
        self.lost_gpu_s += live.lost_gpu_s


class Engine:
    """The jobs in the system, what the scheduler sees of them, and what it decided.

    Parameters
    ----------
    instance
        The truth. Here each stage of its jobs is a job, which arrives when those before it end.
    name
        Name of who decides, for messages.
    forecast
        What the policy is told.
    rng
        For policies that draw.
    max_time_s
        Time at which the simulation stops even if jobs are left, seconds, or None.
    progress
        Called with the number of completed jobs and of all jobs after each event.
    """

    def __init__(
        self,
        instance: Instance,
        name: str,
        forecast: Forecast,
        rng: np.random.Generator,
        max_time_s: float | None,
        progress: Progress | None,
    ) -> None:
        self._staged = None if instance.unfolded is instance else StagedJobs(instance, forecast)
        self.executors = Executors(instance) if instance.move_s else None
        instance = instance.unfolded
        self.instance = instance
        self.name = name
        self.max_time_s = float("inf") if max_time_s is None else max_time_s
        self.active: dict[str, LiveJob] = {}
        self.referee = Referee(instance, name, self.active)
        self.hosts = HostWatch(instance)
        _check_running(instance)
        self._ran_before = {assignment.job: assignment for assignment in instance.running}
        # The jobs in the system, by position in the instance.
        self.live: dict[int, LiveJob] = {}
        self.record = Record()
        # Positions, popped from the end: the next job to arrive is the last.
        arrival_s = instance.job_columns.arrival_s
        self._arrival_s = arrival_s.tolist()
        first = np.arange(len(instance.jobs)) if self._staged is None else self._staged.first
        # Of those that arrive together, the first in the instance is the last here.
        by_arrival = np.array(first)[np.argsort(arrival_s[first], kind="stable")]
        self._arrivals: list[int] = by_arrival[::-1].tolist()
        self.num_complete = 0
        self.end_s = 0.0
        self.decision_s = array("d")
        self.notes: dict[str, float] = {}
        self.refused: dict[str, float] = {}
        """When jobs were refused, seconds, by id."""
        self._forecast = forecast
        self.progress = progress
        self.waiting = JobTable()
        self.running = JobTable(refresh=self._refresh)
        # The clock of slots brings all jobs up to date at once before it asks.
        self.jobs = JobTable(refresh=self._refresh if instance.slot_s is None else None)
        self.state = ClusterState(
            now_s=0.0,
            slot_s=instance.slot_s,
            jobs=self.jobs,
            topology=instance.topology,
            pool=HostPool(instance.topology),
            quotas=self.referee.quotas,
            knowledge=forecast.knowledge,
            rng=rng,
            waiting=self.waiting,
            running=self.running,
            held=self.referee.held if instance.slot_s is None else dict(self.referee.held),
            executors=self.executors,
            interference=instance.interference,
        )

    @property
    def is_plain(self) -> bool:
        """Whether nothing has happened yet and jobs only come, run and go, in continuous time.

        There are no stages, outages, tenants or errors in rates, and GPUs take no time to move.
        """
        instance = self.instance
        if len(self._arrivals) < len(instance.jobs):
            return False
        special = instance.outages or instance.running or instance.tenants or self.executors
        timed = instance.slot_s is not None or self._forecast.speeds_vary
        return self._staged is None and not special and not timed

    @property
    def shows_work(self) -> bool:
        """Whether the scheduler sees the work of all jobs as it is."""
        return self._forecast.shows_work

    def take_arrivals(self) -> list[int]:
        """Return the positions of all jobs, the next to arrive last, and leave none to arrive."""
        taken, self._arrivals = self._arrivals, []
        return taken

    @property
    def next_arrival_s(self) -> float:
        """Arrival of the next job, seconds, infinite if none is to come."""
        return self._arrival_s[self._arrivals[-1]] if self._arrivals else math.inf

    def _from_the_end(self, position: int) -> tuple[float, int]:
        return (-self._arrival_s[position], -position)

    def admit(self) -> LiveJob:
        """Let the next job into the system."""
        position = self._arrivals.pop()
        job = self.instance.jobs[position]
        if self._staged is None:
            live = self._forecast.live_job(position, job, self._ran_before.get(job.id))
        else:
            live = self._staged.live_job(position)
        self.live[position] = live
        self.active[live.job.id] = live
        self.jobs.add(live.view)
        (self.waiting if live.view.current is None else self.running).add(live.view)
        return live

    def move_hosts(self, now_s: float, stop: Callable[[LiveJob], None]) -> bool:
        """Let hosts go down and come back that do so up to now, and show them as they are.

        Parameters
        ----------
        now_s
            The time, seconds.
        stop
            Stops a job that runs on a host which goes down.

        Returns
        -------
        bool
            Whether a job was stopped or a host came back: then there is something to decide.
        """
        fell, came_back = self.hosts.go_to(now_s)
        hit = [
            live
            for live in (self.active.values() if fell else ())
            if (current := live.view.current) is not None
            and any(task.host in fell for task in current.tasks)
        ]
        for live in hit:
            stop(live)
        if (fell or came_back) and self.hosts.any_up:
            topology = self.hosts.topology()
            self.state.topology, self.state.pool = topology, HostPool(topology)
            self.referee.move_to(topology)
        return came_back or bool(hit)

    def ask(self, now_s: float) -> ClusterState:
        """Show what a decision at this time is taken on."""
        self.end_s = now_s
        state = self.state
        state.now_s = now_s
        if self._forecast.speeds_vary:
            self._forecast.look(self.jobs, self.active)
        return state

    def accept(self, decision: Decision, took_s: float) -> None:
        """Enter a decision, and refuse what it must not want of single jobs.

        Parameters
        ----------
        decision
            What was decided on the state of the last `ask`.
        took_s
            Wall time it took, seconds.
        """
        self.decision_s.append(took_s)
        for name, amount in decision.notes.items():
            self.notes[name] = self.notes.get(name, 0.0) + amount
        self.referee.check_jobs(decision, self.state.now_s)
        for job_id in decision.refuse:
            self._refuse(self.active[job_id])

    def _refuse(self, live: LiveJob) -> None:
        """Let a job out of the system that never runs."""
        job_id = live.job.id
        self.refused[job_id] = self.state.now_s
        del self.active[job_id]
        del self.live[live.view.position]
        self.record.enter(live)
        self.jobs.remove(job_id)
        if self.instance.slot_s is None:
            self.waiting.remove(job_id)

    def complete(self, live: LiveJob) -> None:
        """Let a job that is complete out of the system."""
        job_id = live.job.id
        del self.active[job_id]
        del self.live[live.view.position]
        self.record.enter(live)
        self.jobs.remove(job_id)
        if self._staged is not None:
            for k, moment_s in self._staged.complete(live):
                self._arrival_s[k] = moment_s
                insort(self._arrivals, k, key=self._from_the_end)
        self.num_complete += 1
        if self.progress is not None:
            self.progress(self.num_complete, len(self.instance.jobs))

    def stall(self, now_s: float, why: str) -> SimulationError:
        """Return the error of a scheduler that leaves jobs waiting for ever.

        Parameters
        ----------
        now_s
            Time, seconds.
        why
            What does not happen, for the message.
        """
        names = [f'"{job_id}"' for job_id in list(self.active)[:3]]
        others = len(self.active) - len(names)
        more = f" and {others} more" if others else ""
        return SimulationError(
            f"scheduler {self.name} stalls at {now_s:g} s: {why}, while "
            f"job {', '.join(names)}{more} cannot complete; it must start a job that fits the "
            "empty cluster, or set max_time_s to stop there."
        )

    def _refresh(self, view: JobView) -> None:
        live = self.active[view.id]
        live.refresh(self.state.now_s)


def _check_running(instance: Instance) -> None:
    """Refuse what ran before it arrived, and hosts that begin over-full."""
    if (reason := overfull(instance)) is not None:
        raise InstanceError(f"{reason}; a simulation needs hosts that hold what runs on them.")
    for assignment in instance.running:
        arrival_s = instance.job(assignment.job).arrival_s
        if arrival_s > 0:
            raise InstanceError(
                f'job "{assignment.job}": is in running but arrives at {arrival_s:g} s; what runs '
                "at the start arrives at 0."
            )
