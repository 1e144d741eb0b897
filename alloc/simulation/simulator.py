"""The simulator: runs a scheduler on an instance."""

from __future__ import annotations

import math

import numpy as np

from alloc.errors import InstanceError, SimulationError
from alloc.instance import Instance
from alloc.progress import completions
from alloc.schedulers.honouring import require_honoured
from alloc.schedulers.state import Knowledge, Scheduler
from alloc.simulation.continuous import EventClock
from alloc.simulation.engine import Engine, Progress
from alloc.simulation.information import Forecast, require_knowledge
from alloc.simulation.result import SimulationResult
from alloc.simulation.slots import run_slots
from alloc.solution import Schedule
from alloc.verification import verify
from alloc.verification.time import TIME_TOLERANCE_S

# Limits on completions. A policy may not know of them, so missing them is an outcome.
_LATENESS = frozenset({"deadline", "horizon"})


def simulate(
    instance: Instance,
    scheduler: Scheduler,
    *,
    knowledge: Knowledge = "exact",
    work_error: float = 0.0,
    speed_error: float = 0.0,
    rng: np.random.Generator | int | None = None,
    max_time_s: float | None = None,
    check: bool = True,
    progress: Progress | None = None,
) -> SimulationResult:
    """Run a scheduler on an instance and return what happened.

    With ``instance.slot_s`` set, the scheduler decides at the start of each slot from an empty
    cluster, and its decision holds for the slot: jobs join at the first slot that starts at their
    arrival or later, complete at the moment their work is done, and hold their resources to the end
    of that slot. Without, it decides at every arrival and completion, and its decision changes what
    runs: `assign` starts or changes jobs, `release` pauses them, everything else runs on.

    A change of configuration or hosts, and a pause, cost the job's restart cost when it resumes
    (`alloc.progress`). Every decision is held against the judge's rules as it is taken.

    Parameters
    ----------
    instance
        The truth.
    scheduler
        The policy; it is reset first.
    knowledge
        What it is told of work: ``exact``, ``estimate`` (with the errors below) or ``none``.
    work_error
        Largest relative error e of work: each job's work is seen as the truth times
        ``1 + e * U(-1, 1)``, drawn once.
    speed_error
        Largest relative error of rates, drawn again at each decision.
    rng
        Random generator or seed; None is seed 0. Errors and policy draw from streams of their own,
        so that two policies with the same seed see the same errors in work.
    max_time_s
        Time at which to stop even if jobs are left; they count as unfinished. None: run until all
        jobs are complete, and raise if that will never be.
    check
        Whether the judge checks the whole schedule once more in the end.
    progress
        Called with the number of completed jobs and of all jobs at each completion.

    Returns
    -------
    SimulationResult

    Raises
    ------
    SimulationError
        If a decision breaks a rule, naming scheduler, job, time and rule, or if the scheduler
        stalls: jobs wait, nothing makes progress and nothing is to come.
    UnsupportedFeatureError
        If the scheduler needs to know more of the work than it is told, or does not look at rules
        that the instance has (`alloc.schedulers.honouring`).
    InstanceError
        If an option is out of range.
    """
    if max_time_s is not None and not max_time_s > 0:
        raise InstanceError(f"max_time_s is {max_time_s:g}; it must be more than 0.")
    forecast_rng, scheduler_rng = np.random.default_rng(0 if rng is None else rng).spawn(2)
    forecast = Forecast(instance, knowledge, work_error, speed_error, forecast_rng)
    require_knowledge(scheduler, knowledge)
    require_honoured(scheduler, instance)
    engine = Engine(instance, scheduler, forecast, scheduler_rng, max_time_s, progress)
    if instance.slot_s is not None:
        run_slots(engine, instance.slot_s)
    else:
        EventClock(engine).run()
    return _result(engine, knowledge, work_error, speed_error, check)


def _result(
    engine: Engine, knowledge: Knowledge, work_error: float, speed_error: float, check: bool
) -> SimulationResult:
    instance, name = engine.instance, engine.scheduler.name
    record = engine.record
    for live in engine.live.values():
        record.enter(live)
    completion_s = {job.id: record.completion_s.get(job.id) for job in instance.jobs}
    index = instance.job_index
    schedule = Schedule(
        tuple(sorted(record.runs, key=lambda run: (index[run.job], run.start_s))),
        {
            job_id: f"not complete when the simulation stopped at {engine.end_s:g} s."
            for job_id, end in completion_s.items()
            if end is None
        },
    )
    if check:
        _judge(instance, schedule, completion_s, name)
    return SimulationResult(
        instance=instance,
        scheduler=name,
        knowledge=knowledge,
        work_error=work_error,
        speed_error=speed_error,
        schedule=schedule,
        completion_s=completion_s,
        start_s={job.id: record.start_s.get(job.id) for job in instance.jobs},
        decision_s=np.array(engine.decision_s),
        end_s=engine.end_s,
        restarts=record.restarts,
        migrations=record.migrations,
        late=_late(instance, completion_s),
        notes=engine.notes,
        verified=check,
    )


def _late(instance: Instance, completion_s: dict[str, float | None]) -> tuple[str, ...]:
    """Return the jobs that completed after their deadline or the horizon."""
    horizon_s = math.inf if instance.horizon_s is None else instance.horizon_s
    late = []
    for job in instance.jobs:
        end_s = completion_s[job.id]
        limit_s = min(horizon_s, math.inf if job.deadline_s is None else job.deadline_s)
        if end_s is not None and end_s > limit_s + TIME_TOLERANCE_S:
            late.append(job.id)
    return tuple(late)


def _judge(
    instance: Instance,
    schedule: Schedule,
    completion_s: dict[str, float | None],
    scheduler: str,
) -> None:
    """Let the judge check the whole schedule, and compare its completions with the simulator's."""
    broken = [v for v in verify(instance, schedule) if v.code not in _LATENESS]
    if broken:
        more = f" ({len(broken)} rules broken in all)" if len(broken) > 1 else ""
        raise SimulationError(
            f"scheduler {scheduler}: the judge refuses the schedule: {broken[0].sentence}{more}"
        )
    for job_id, judged in completions(instance, schedule).items():
        if judged != completion_s[job_id]:
            raise SimulationError(
                f'scheduler {scheduler}, job "{job_id}": the simulator completes it at '
                f"{completion_s[job_id]} s, the judge at {judged} s; the simulator has a bug."
            )
