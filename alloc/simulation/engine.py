"""The engine: what both clocks of the simulator share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from alloc.errors import InstanceError, SimulationError
from alloc.instance import Instance
from alloc.packing import HostPool
from alloc.schedulers.state import ClusterState, Decision, JobTable, JobView, Scheduler
from alloc.simulation.information import Forecast
from alloc.simulation.live import LiveJob
from alloc.simulation.rules import Referee

Progress = Callable[[int, int], None]


class Engine:
    """The jobs in the system, what the scheduler sees of them, and what it decided.

    Parameters
    ----------
    instance
        The truth.
    scheduler
        The policy; it is reset here.
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
        scheduler: Scheduler,
        forecast: Forecast,
        rng: np.random.Generator,
        max_time_s: float | None,
        progress: Progress | None,
    ) -> None:
        scheduler.reset()
        self.instance = instance
        self.scheduler = scheduler
        self.max_time_s = float("inf") if max_time_s is None else max_time_s
        self.active: dict[str, LiveJob] = {}
        self.referee = Referee(instance, scheduler.name, self.active)
        self.live = _live_jobs(instance, forecast)
        # Popped from the end: the next job to arrive is the last.
        self.arrivals = sorted(self.live, key=lambda live: live.view.in_order, reverse=True)
        self.num_complete = 0
        self.end_s = 0.0
        self.decision_s: list[float] = []
        self.notes: dict[str, float] = {}
        self._forecast = forecast
        self._progress = progress
        self.waiting = JobTable()
        self.running = JobTable(refresh=self._refresh)
        self.jobs = JobTable(refresh=self._refresh)
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
        )

    def admit(self) -> LiveJob:
        """Let the next job into the system."""
        live = self.arrivals.pop()
        self.active[live.job.id] = live
        self.jobs.add(live.view)
        (self.waiting if live.view.current is None else self.running).add(live.view)
        return live

    def decide(self, now_s: float) -> Decision:
        """Ask the scheduler, and refuse what it must not want of single jobs."""
        self.end_s = now_s
        state = self.state
        state.now_s = now_s
        if self._forecast.speeds_vary:
            self._forecast.look(self.jobs, self.active)
        began = time.perf_counter()
        decision = self.scheduler.decide(state)
        self.decision_s.append(time.perf_counter() - began)
        for name, amount in decision.notes.items():
            self.notes[name] = self.notes.get(name, 0.0) + amount
        self.referee.check_jobs(decision, now_s)
        return decision

    def complete(self, live: LiveJob) -> None:
        """Let a job that is complete out of the system."""
        job_id = live.job.id
        del self.active[job_id]
        self.jobs.remove(job_id)
        self.num_complete += 1
        if self._progress is not None:
            self._progress(self.num_complete, len(self.live))

    def stall(self, now_s: float, why: str) -> SimulationError:
        """Return the error of a scheduler that leaves jobs waiting for ever."""
        names = [f'"{job_id}"' for job_id in list(self.active)[:3]]
        others = len(self.active) - len(names)
        more = f" and {others} more" if others else ""
        return SimulationError(
            f"scheduler {self.scheduler.name} stalls at {now_s:g} s: {why}, while "
            f"job {', '.join(names)}{more} cannot complete; it must start a job that fits the "
            "empty cluster, or set max_time_s to stop there."
        )

    def _refresh(self, view: JobView) -> None:
        live = self.active[view.id]
        live.refresh(self.state.now_s)


def _live_jobs(instance: Instance, forecast: Forecast) -> Sequence[LiveJob]:
    """Return the live jobs of an instance in its order."""
    # What ran without naming hosts can only be resumed like a paused job: the judge sees it so too.
    running = {assignment.job: assignment for assignment in instance.running}
    for job_id in running:
        if instance.job(job_id).arrival_s > 0:
            raise InstanceError(
                f'job "{job_id}": is in running but arrives at '
                f"{instance.job(job_id).arrival_s:g} s; what runs at the start arrives at 0."
            )
    return [forecast.live_job(j, job, running.get(job.id)) for j, job in enumerate(instance.jobs)]
