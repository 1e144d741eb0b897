"""Information: what a scheduler is told, apart from what is true."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import numpy as np

from alloc.errors import InstanceError, UnsupportedFeatureError, nearest
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.state import JobView, Knowledge, Scheduler
from alloc.simulation.live import LiveJob
from alloc.units import require_positive
from alloc.workload import Configuration, Job

LEVELS: tuple[Knowledge, ...] = ("none", "estimate", "exact")
"""What a scheduler may be told of work, from the least to the most."""


def require_errors(knowledge: Knowledge, work_error: float, speed_error: float) -> None:
    """Refuse errors out of range, and errors of what is not estimated.

    Work is estimated at the level ``estimate`` alone, rates at all levels but ``exact``.

    Parameters
    ----------
    knowledge
        What schedulers are told of work: ``exact``, ``estimate`` or ``none``.
    work_error, speed_error
        Largest relative error of work and of rates, 0 or more and below 1.

    Raises
    ------
    InstanceError
        If an error is below 0 or not below 1, or if there is nothing that it could be an error of.
    """
    for name, value, exact in (
        ("work_error", work_error, knowledge != "estimate"),
        ("speed_error", speed_error, knowledge == "exact"),
    ):
        if not 0 <= value < 1:
            raise InstanceError(f"{name} is {value:g}; it must be 0 or more and below 1.")
        if value and exact:
            raise InstanceError(
                f'{name} is {value:g} but knowledge is "{knowledge}", which leaves no estimates '
                'to be wrong; set knowledge="estimate".'
            )


class Forecast:
    """What the scheduler is told of jobs: work and rates, with the errors of the experiment.

    Parameters
    ----------
    instance
        The truth.
    knowledge
        ``exact``, ``estimate`` or ``none``.
    work_error
        Largest relative error e of the work, 0 or more and less than 1: a job's work is seen as the
        truth times ``1 + e * U(-1, 1)``, drawn once.
    speed_error
        The same for rates, drawn again for every configuration at every decision.
    rng
        Where the errors are drawn from.
    seen_work
        The work that is seen, work units by job id, in place of a drawn error; only with
        ``estimate``. Jobs that are not named are seen as they are.

    References
    ----------
    Peng et al., "DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters", IEEE TPDS 2021:
    the two errors are its JOB_EPOCH_EST_ERROR and TRAIN_SPEED_ERROR, except that there the error of
    the work moves the truth and not the forecast.
    """

    def __init__(
        self,
        instance: Instance,
        knowledge: Knowledge,
        work_error: float,
        speed_error: float,
        rng: np.random.Generator,
        seen_work: Mapping[str, float] | None = None,
    ) -> None:
        if knowledge not in LEVELS:
            raise InstanceError(
                f'knowledge "{knowledge}" is unknown{nearest(knowledge, LEVELS, ".")} '
                f"Known: {', '.join(LEVELS)}."
            )
        require_errors(knowledge, work_error, speed_error)
        self.knowledge = knowledge
        self.work_error, self.speed_error = work_error, speed_error
        work_rng, self._speed_rng = rng.spawn(2)
        errors = work_rng.uniform(-1.0, 1.0, len(instance.jobs))
        self._factors = 1.0 + work_error * errors
        self._seen_work = dict(seen_work or {})
        if self._seen_work:
            if knowledge != "estimate" or work_error:
                raise InstanceError(
                    f'seen_work is given with knowledge "{knowledge}" and work_error '
                    f'{work_error:g}; set knowledge="estimate" and leave the error at 0.'
                )
            for job_id, seen in self._seen_work.items():
                work = instance.job(job_id).work
                require_positive(seen, f'job "{job_id}"', "seen_work")
                self.work_error = max(self.work_error, abs(seen / work - 1.0))

    @property
    def shows_work(self) -> bool:
        """Whether the work of all jobs is seen as it is."""
        return self.knowledge != "none" and not self.work_error

    def live_job(self, position: int, job: Job, running: Assignment | None) -> LiveJob:
        """Return the live job for the instance's job at a position.

        Parameters
        ----------
        position
            Position of the job in the instance.
        job
            The truth about it.
        running
            What it ran until the start of the instance, if it did.
        """
        work = None if self.knowledge == "none" else job.work * float(self._factors[position])
        work = self._seen_work.get(job.id, work)
        view = JobView(
            id=job.id,
            arrival_s=job.arrival_s,
            configurations=job.configurations,
            weight=job.weight,
            work=work,
            work_left=None,
            preemptible=job.preemptible,
            model=job.model,
            tenant=job.tenant,
            elasticity=job.elasticity,
            restart_cost_s=job.restart_cost_s,
            deadline_s=job.deadline_s,
            due_date_s=job.due_date_s,
            position=position,
            placement=job.placement,
            refusable=job.refusable,
        )
        live = LiveJob(job, view, running, work)
        live.show(job.work_left)
        return live

    @property
    def speeds_vary(self) -> bool:
        """Whether the rates seen differ from decision to decision."""
        return self.speed_error > 0

    def look(self, views: Iterable[JobView], jobs: Mapping[str, LiveJob]) -> None:
        """Draw the rates that the scheduler sees at this decision.

        Parameters
        ----------
        views
            The jobs that the scheduler sees; their configurations are set.
        jobs
            The live jobs by id, with the true rates.
        """
        for view in views:
            truth = jobs[view.id].job.configurations
            errors = self._speed_rng.uniform(-self.speed_error, self.speed_error, len(truth))
            view.configurations = tuple(
                _with_rate(configuration, configuration.rate * (1.0 + float(error)))
                for configuration, error in zip(truth, errors, strict=True)
            )


def _with_rate(configuration: Configuration, rate: float) -> Configuration:
    """Return a copy with another rate.

    A copy keeps the demands already worked out; `replace` would check and work out everything
    again, for every configuration at every decision.
    """
    changed = copy.copy(configuration)
    object.__setattr__(changed, "rate", rate)
    return changed


def require_knowledge(scheduler: Scheduler, knowledge: Knowledge) -> None:
    """Refuse to run a scheduler on less than it needs.

    Parameters
    ----------
    scheduler
        Its attribute ``needs`` is the least that it can work with.
    knowledge
        What it is told of work: ``exact``, ``estimate`` or ``none``.

    Raises
    ------
    UnsupportedFeatureError
        If it needs more.
    """
    if LEVELS.index(scheduler.needs) > LEVELS.index(knowledge):
        raise UnsupportedFeatureError(
            f'scheduler {scheduler.name} needs knowledge "{scheduler.needs}" of work, but is given '
            f'"{knowledge}"; set knowledge="{scheduler.needs}" or choose a policy that needs none.'
        )
