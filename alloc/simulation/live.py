"""Live jobs: what the simulator knows of a job while it runs, in step with `alloc.progress`."""

from __future__ import annotations

import math

from alloc.problems.allocation.outages import saved_s
from alloc.problems.allocation.slowdown import Neighbours
from alloc.problems.allocation.solution import Assignment, Run, same_place
from alloc.progress import WORK_TOLERANCE
from alloc.schedulers.state import JobView
from alloc.units import MILLI
from alloc.workload import Job


class LiveJob:
    """A job in the simulation: its progress so far and the run it is in.

    The arithmetic is that of `alloc.progress.follow`, term by term, and each run is followed from
    its own start: so the checker, which sees only the finished schedule, gets the same completions
    to the last digit.

    Parameters
    ----------
    job
        The truth about the job.
    view
        What the scheduler sees of it; kept up to date here.
    running
        What the job ran until the start of the instance, if it did.
    seen_work
        Total work as the scheduler sees it, work units, or None when it is not told.
    """

    __slots__ = (
        "_attained_gpu_s",
        "_before",
        "_before_end_s",
        "_left",
        "_pause",
        "_rate",
        "_run_start_s",
        "_saved_left",
        "_seen_work",
        "_started",
        "_worked_s",
        "assignment",
        "completion_s",
        "epoch",
        "failures",
        "gpus",
        "job",
        "lost_gpu_s",
        "migrations",
        "neighbours",
        "restarts",
        "runs",
        "start_s",
        "view",
    )

    def __init__(
        self, job: Job, view: JobView, running: Assignment | None, seen_work: float | None
    ) -> None:
        self.job = job
        self.view = view
        self.assignment: Assignment | None = None
        self.completion_s: float | None = None
        self.start_s: float | None = None
        self.runs: list[Run] = []
        # With whom it shares GPUs in its run.
        self.neighbours: Neighbours = ()
        self.restarts = 0
        self.migrations = 0
        self.failures = 0
        self.lost_gpu_s = 0.0
        self.gpus = 0.0
        # Counts changes of what the job runs: events foreseen for an earlier count are void.
        self.epoch = 0
        self._attained_gpu_s = 0.0
        self._left = job.work_left
        # What was left when the state was saved, and the progress since, seconds.
        self._saved_left, self._worked_s = job.work_left, 0.0
        self._pause = 0.0
        self._rate = 0.0
        self._run_start_s = 0.0
        self._before = running
        self._before_end_s = 0.0
        self._started = running is not None or job.work_done > 0
        self._seen_work = seen_work
        if running is not None:
            view.current = view.last = running
            view.started_s = 0.0

    def start(
        self,
        assignment: Assignment,
        now_s: float,
        *,
        delay_s: float = 0.0,
        neighbours: Neighbours = (),
        factor: float = 1.0,
    ) -> None:
        """Start a run.

        Parameters
        ----------
        assignment
            Configuration and hosts.
        now_s
            Time, seconds.
        delay_s
            Seconds that it waits for GPUs that move to it, 0 or more.
        neighbours
            The other jobs on each GPU that it shares.
        factor
            Part of its rate that is left beside them, above 0 and at most 1.
        """
        self.neighbours = neighbours
        before = self._before
        seamless = (
            before is not None
            and before.configuration == assignment.configuration
            and self._before_end_s == now_s
            and same_place(before.tasks, assignment.tasks)
        )
        if not seamless:
            self._pause = (self.job.restart_cost_s if self._started else 0.0) + delay_s
            self.restarts += self._started
            self.migrations += before is not None and _hosts(before) != _hosts(assignment)
            self._saved_left, self._worked_s = self._left, 0.0
        self._started = True
        if self.start_s is None:
            self.start_s = now_s
        configuration = self.job.configurations[assignment.configuration]
        self.assignment = assignment
        self.gpus = configuration.demand[0] / MILLI
        self.epoch += 1
        self._rate = configuration.rate
        if neighbours:
            self._rate *= factor
        self._run_start_s = now_s
        view = self.view
        view.current = view.last = assignment
        if view.started_s is None:
            view.started_s = now_s

    def keeps(self, assignment: Assignment) -> bool:
        """Return whether an assignment is what the job runs already."""
        current = self.assignment
        return (
            current is not None
            and current.configuration == assignment.configuration
            and same_place(current.tasks, assignment.tasks)
        )

    def finish_s(self) -> float:
        """Return when the job completes if its run goes on, seconds; infinite at rate 0."""
        if self._rate <= 0:
            return math.inf
        start = self._run_start_s
        finish = start + self._pause + self._left / self._rate
        # Late in a long simulation the sum may round down by more work than the checker forgives.
        while self._rate * (finish - start - self._pause) < self._left - self._tolerance:
            finish = math.nextafter(finish, math.inf)
        return finish

    def left_at(self, now_s: float) -> float:
        """Return the work left at a time within the run, work units; 0 when it is complete."""
        if self.assignment is None:
            return self._left
        held_s = now_s - self._run_start_s
        done = self._rate * (held_s - min(self._pause, held_s))
        if self._rate > 0 and done >= self._left - self._tolerance:
            return 0.0
        return self._left - done

    def stop(self, now_s: float, *, failed: bool = False) -> bool:
        """End the run; return whether the job is complete.

        Parameters
        ----------
        now_s
            When it ends, seconds.
        failed
            Whether a host goes down then: if the job is not complete, what was not saved is lost.
        """
        assignment = self.assignment
        if assignment is None:
            raise AssertionError("stop without a run")
        if now_s == self._run_start_s:
            # Resumed at the start and stopped by the first decision: no run at all.
            self._leave()
            self.start_s = None
            return False
        left = self.left_at(now_s)
        self.runs.append(
            Run(
                self.job.id,
                assignment.configuration,
                self._run_start_s,
                now_s,
                assignment.tasks,
            )
        )
        held_s = now_s - self._run_start_s
        self._attained_gpu_s += self.gpus * held_s
        self.view.attained_gpu_s = self._attained_gpu_s
        if left == 0.0:
            self.completion_s = min(
                self._run_start_s + self._pause + self._left / self._rate, now_s
            )
        paused_s = min(self._pause, held_s)
        self._pause -= paused_s
        self._left = left
        self._worked_s += held_s - paused_s
        if failed and left:
            left = self._lose()
        self._before = assignment
        self._before_end_s = now_s
        self._leave()
        self.show(left)
        return left == 0.0

    def _lose(self) -> float:
        """Go back to the last save; return the work left."""
        kept_s = saved_s(self._worked_s, self.job.checkpoint_s)
        self._left = self._saved_left - self._rate * kept_s
        self.failures += 1
        self.lost_gpu_s += self.gpus * (self._worked_s - kept_s)
        return self._left

    def _leave(self) -> None:
        self.assignment = None
        self.gpus = 0.0
        self.epoch += 1
        self.view.current = None

    def show(self, left: float) -> None:
        """Show the scheduler the remaining work, as far as it is told.

        A job that outlives its estimate is seen with `LEAST_LEFT` of the estimate to go: it is
        almost done as far as anyone knows.
        """
        if self._seen_work is not None:
            self.view.work_done = self.job.work - left
            seen = self._seen_work - (self.job.work - left)
            if seen < LEAST_LEFT * self._seen_work and self._seen_work != self.job.work:
                seen = LEAST_LEFT * self._seen_work
            self.view.work_left = seen

    def refresh(self, now_s: float) -> None:
        """Bring the view up to a time within the run."""
        if self.assignment is not None:
            self.show(self.left_at(now_s))
            held_s = now_s - self._run_start_s
            self.view.attained_gpu_s = self._attained_gpu_s + self.gpus * held_s

    @property
    def _tolerance(self) -> float:
        return WORK_TOLERANCE * self.job.work


LEAST_LEFT = 0.01
"""Fraction of its estimated work that a job which outlives the estimate is seen to have left."""


def _hosts(assignment: Assignment) -> set[str]:
    return {task.host for task in assignment.tasks}
