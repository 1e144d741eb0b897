"""The simulator: runs a scheduler on an instance, or is driven decision by decision."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from alloc.collector import collector_paused
from alloc.errors import AllocError, InstanceError, SimulationError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.run_columns import RunColumns
from alloc.problems.allocation.solution import Schedule
from alloc.problems.allocation.stages import ends_of_jobs, starts_of_jobs
from alloc.progress import completions
from alloc.schedulers import scheduler_of
from alloc.schedulers.functions import RuleScheduler
from alloc.schedulers.honouring import require_honoured
from alloc.schedulers.places import raised
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge, Scheduler
from alloc.simulation.continuous import EventClock
from alloc.simulation.engine import Engine, Progress
from alloc.simulation.information import Forecast, require_knowledge
from alloc.simulation.result import SimulationResult
from alloc.simulation.slots import SlotClock
from alloc.simulation.stream import stream_of
from alloc.verification import check_schedule
from alloc.verification.time import TIME_TOLERANCE_S
from alloc.workload import Job

# Limits on completions. A policy may not know of them, so missing them is an outcome.
_LATENESS = frozenset({"deadline", "horizon"})


class Simulation:
    """A simulation that is driven from outside, decision by decision.

    `simulate` runs a scheduler on exactly this. Ask for the `next_decision`, look at the state that
    it returns, `apply` a decision, and so on until there is no next one; then take the `result`.
    Every decision is held against the checker's rules as it is applied.

    Parameters
    ----------
    instance
        The truth.
    decider
        Name of who decides, for messages and the result.
    knowledge, work_error, speed_error, seen_work, rng, max_time_s, progress
        As in `simulate`.
    stalls
        Whether it is an error when jobs wait for ever, or not: in slots the simulation then goes
        on, in continuous time it ends where nothing would happen any more.

    Examples
    --------
    >>> from alloc.instances import generate_elastic
    >>> from alloc.schedulers import make_scheduler
    >>> instance = generate_elastic("demo", num_jobs=3, num_hosts=2, max_workers=2, max_ps=2)
    >>> simulation, policy = Simulation(instance), make_scheduler("fifo")
    >>> while (state := simulation.next_decision()) is not None:
    ...     simulation.apply(policy.decide(state))
    >>> len(simulation.result().unfinished)
    0
    """

    def __init__(
        self,
        instance: Instance,
        *,
        decider: str = "agent",
        knowledge: Knowledge = "exact",
        work_error: float = 0.0,
        speed_error: float = 0.0,
        seen_work: Mapping[str, float] | None = None,
        rng: np.random.Generator | int | None = None,
        max_time_s: float | None = None,
        progress: Progress | None = None,
        stalls: bool = True,
    ) -> None:
        if max_time_s is not None and not max_time_s > 0:
            raise InstanceError(f"max_time_s is {max_time_s:g}; it must be more than 0.")
        forecast_rng, decider_rng = np.random.default_rng(0 if rng is None else rng).spawn(2)
        self._forecast = Forecast(
            instance.unfolded, knowledge, work_error, speed_error, forecast_rng, seen_work
        )
        self.instance = instance
        self._engine = Engine(instance, decider, self._forecast, decider_rng, max_time_s, progress)
        self._clock: SlotClock | EventClock
        if instance.slot_s is not None:
            self._clock = SlotClock(self._engine, instance.slot_s, stalls=stalls)
        else:
            self._clock = EventClock(self._engine, stalls=stalls)
        self._asked_s: float | None = None
        self._over = False
        self._result: SimulationResult | None = None

    @property
    def state(self) -> ClusterState:
        """What is to be decided on; kept up to date, and good until the decision is applied."""
        return self._engine.state

    @property
    def over(self) -> bool:
        """Whether no decision is left to take."""
        return self._over

    @property
    def num_complete(self) -> int:
        """Jobs that have completed."""
        return self._engine.num_complete

    @property
    def end_s(self) -> float:
        """Time that the simulation has reached, seconds."""
        return self._engine.end_s

    def work_left(self) -> dict[str, float]:
        """Return the work left of each job in the system at `end_s`, in truth, work units."""
        return {j: live.left_at(self._engine.end_s) for j, live in self._engine.active.items()}

    def in_system(self) -> list[tuple[Job, JobView, float]]:
        """Return the jobs in the system: the truth, what is seen, and the work left at `end_s`."""
        end_s = self._engine.end_s
        return [(x.job, x.view, x.left_at(end_s)) for x in self._engine.active.values()]

    def completion_s(self, job_id: str) -> float | None:
        """Return when a job of the instance unfolded completed, seconds, or None if it has not."""
        return self._engine.record.ends_s.get(job_id)

    def next_decision(self) -> ClusterState | None:
        """Run to the next decision and return the state to take it on, or None at the end.

        Raises
        ------
        SimulationError
            If the last decision that was asked for has not been applied, or jobs wait for ever.
        """
        if self._asked_s is not None:
            raise SimulationError(
                f"{self._engine.name} at {self.state.now_s:g} s asks for the next decision before "
                "this one is applied; apply(Decision()) if nothing shall run."
            )
        if self._over or not self._clock.next_decision():
            self._over = True
            return None
        self._asked_s = time.perf_counter()
        return self._engine.state

    def apply(self, decision: Decision) -> None:
        """Carry out the decision that was asked for.

        Raises
        ------
        SimulationError
            If none was asked for, or it breaks a rule, naming decider, job, time and rule.
        """
        if self._asked_s is None:
            raise SimulationError(
                f"{self._engine.name} decides at {self._engine.end_s:g} s without being asked; "
                "call next_decision() before each apply()."
            )
        took_s, self._asked_s = time.perf_counter() - self._asked_s, None
        self._engine.accept(decision, took_s)
        self._clock.apply(decision)

    def run(self, policy: Scheduler) -> None:
        """Run to the end as a scheduler decides.

        Parameters
        ----------
        policy
            The scheduler, reset.

        Raises
        ------
        SimulationError
            If a decision breaks a rule, or the scheduler fails or stalls.
        """
        if not self._over and (stream := stream_of(self._engine, policy)) is not None:
            self._over = True
            with collector_paused():
                stream.run()
            return
        while (state := self.next_decision()) is not None:
            self.apply(_decision(policy, state))

    def stop(self, *, interrupted: bool = False) -> None:
        """End the simulation here; jobs that are left count as unfinished.

        Parameters
        ----------
        interrupted
            Whether to say so in the notes.
        """
        if interrupted:
            self._engine.notes["interrupted"] = 1.0
        if not self._over:
            self._clock.stop()
            self._asked_s = None
            self._over = True

    def result(self, *, check: bool = True) -> SimulationResult:
        """Return what happened, once the simulation is over.

        Parameters
        ----------
        check
            Whether the checker checks the whole schedule once more.

        Raises
        ------
        SimulationError
            If it is not over, or the checker refuses the schedule.
        """
        if not self._over:
            raise SimulationError(
                f"{self._engine.name} asks for the result at {self._engine.end_s:g} s, before the "
                "simulation is over; go on until next_decision() returns None, or stop() it."
            )
        with collector_paused():
            if self._result is None:
                self._result = _result(self.instance, self._engine, self._forecast)
            if check and not self._result.verified:
                _check(self._result)
                self._result = dataclasses.replace(self._result, verified=True)
        return self._result if check else dataclasses.replace(self._result, verified=False)


def simulate(
    instance: Instance,
    scheduler: str | Scheduler | Callable[..., Any],
    *,
    knowledge: Knowledge = "exact",
    work_error: float = 0.0,
    speed_error: float = 0.0,
    seen_work: Mapping[str, float] | None = None,
    rng: np.random.Generator | int | None = None,
    max_time_s: float | None = None,
    check: bool = True,
    progress: Progress | None = None,
    keep_interrupted: bool = False,
) -> SimulationResult:
    """Run a scheduler on an instance and return what happened.

    With ``instance.slot_s`` set, the scheduler decides at the start of each slot from an empty
    cluster, and its decision holds for the slot: jobs join at the first slot that starts at their
    arrival or later, complete at the moment their work is done, and hold their resources to the end
    of that slot. Without, it decides at every arrival and completion, and its decision changes what
    runs: `assign` starts or changes jobs, `release` pauses them, everything else runs on.

    A host that goes down (`Instance.outages`) stops what runs on it at that moment, and is not
    there until it is back. The jobs keep what they saved (`Job.checkpoint_s`) and wait again. In
    continuous time that asks for a decision, as does a host that comes back.

    A change of configuration or hosts, and a pause, cost the job's restart cost when it resumes
    (`alloc.progress`). Every decision is held against the checker's rules as it is taken. Streams
    of plain gangs under `fifo`, and under `srtf` and `edf` where no job may be paused, are the
    exception: one loop over their events comes to the same schedule (`alloc.simulation.stream`),
    and `check` looks at it as a whole. So with ``check=False`` nobody checks such a stream.

    Parameters
    ----------
    instance
        The truth.
    scheduler
        The policy, which is reset first: a name, a scheduler, a class of schedulers, or a plain
        function of the state (`alloc.schedulers.scheduler_of`).
    knowledge
        What it is told of work: ``exact``, ``estimate`` (with the errors below) or ``none``.
    work_error
        Largest relative error e of work: each job's work is seen as the truth times
        ``1 + e * U(-1, 1)``, drawn once.
    speed_error
        Largest relative error of rates, drawn again at each decision.
    seen_work
        The estimates themselves, work units by job id, in place of errors that are drawn; jobs that
        are not named are seen as they are.
    rng
        Random generator or seed; None is seed 0. Errors and policy draw from streams of their own,
        so that two policies with the same seed see the same errors in work.
    max_time_s
        Time at which to stop even if jobs are left; they count as unfinished. None: run until all
        jobs are complete, and raise if that will never be.
    check
        Whether the checker checks the whole schedule in the end: once more, and that of a stream of
        plain gangs for the only time. ``verified`` of the result says so.
    progress
        Called with the number of completed jobs and of all jobs at each completion.
    keep_interrupted
        Whether Ctrl-C ends the simulation and what happened until then is returned, with the note
        ``interrupted``; jobs that are left count as unfinished.

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
        If an option is out of range, or the scheduler is none or misses a member.
    KeyboardInterrupt
        On Ctrl-C, unless it is to be kept.
    """
    policy = scheduler_of(scheduler)
    simulation = Simulation(
        instance,
        decider=policy.name,
        knowledge=knowledge,
        work_error=work_error,
        speed_error=speed_error,
        seen_work=seen_work,
        rng=rng,
        max_time_s=max_time_s,
        progress=progress,
    )
    require_knowledge(policy, knowledge)
    require_honoured(policy, instance)
    try:
        policy.reset()
    except (Exception, SystemExit) as error:
        _blame(policy, "when it is reset", error)
        raise
    try:
        simulation.run(policy)
    except KeyboardInterrupt:
        if not keep_interrupted:
            raise
        return _until_now(simulation, check)
    return simulation.result(check=check)


def _blame(policy: Scheduler, when: str, error: BaseException) -> None:
    """Raise what anybody's own code raised with its line; of alloc's own, do nothing."""
    if isinstance(error, AllocError):
        return
    if type(policy).__module__.startswith("alloc.") and not isinstance(policy, RuleScheduler):
        return  # a bug of alloc's own
    raise SimulationError(
        f"scheduler {policy.name} fails {when}, {raised(error)}; mend it there."
    ) from error


def _decision(policy: Scheduler, state: ClusterState) -> Decision:
    try:
        decision = policy.decide(state)
    except (Exception, SystemExit) as error:  # a rule that ends Python would end alloc unsaid
        _blame(policy, f"at {state.now_s:g} s", error)
        raise
    if not isinstance(decision, Decision):
        raise SimulationError(
            f"scheduler {policy.name} returned {type(decision).__name__} at {state.now_s:g} s; "
            "decide must return a Decision."
        )
    return decision


def _until_now(simulation: Simulation, check: bool) -> SimulationResult:
    """Return what happened until Ctrl-C; raise it where it came in the middle of a step."""
    try:
        simulation.stop(interrupted=True)
        return simulation.result(check=check)
    except (AllocError, AssertionError, LookupError):
        raise KeyboardInterrupt from None


def _result(instance: Instance, engine: Engine, forecast: Forecast) -> SimulationResult:
    """Return what happened, unchecked; the runs of the record go into it."""
    name, record = engine.name, engine.record
    while engine.live:
        record.enter(engine.live.popitem()[1])
    stream, jobs, ends = record.stream, engine.instance.jobs, record.ends_s
    are_complete = stream is not None and not stream.completion_s.num_missing
    unplaced = {
        job.id: f"refused by {name} at {engine.refused[job.id]:g} s."
        if job.id in engine.refused
        else f"not complete when the simulation stopped at {engine.end_s:g} s."
        for job in (() if are_complete else jobs)
        if ends.get(job.id) is None
    }
    completion_s: Mapping[str, float | None]
    start_s: Mapping[str, float | None]
    if stream is not None:
        schedule = Schedule.of_table(stream.table, unplaced)
        completion_s, start_s = stream.completion_s, stream.start_s
    else:
        index = engine.instance.job_index
        record.runs.sort(key=lambda run: (index[run.job], run.start_s))
        schedule = Schedule(tuple(record.runs), unplaced)
        record.runs.clear()
        completion_s = ends_of_jobs(instance, record.completion_s)
        start_s = starts_of_jobs(instance, record.start_s)
    return SimulationResult(
        instance=instance,
        scheduler=name,
        knowledge=forecast.knowledge,
        work_error=forecast.work_error,
        speed_error=forecast.speed_error,
        schedule=schedule,
        completion_s=completion_s,
        start_s=start_s,
        decision_s=np.array(engine.decision_s),
        end_s=engine.end_s,
        restarts=record.restarts,
        migrations=record.migrations,
        failures=record.failures,
        lost_gpu_s=record.lost_gpu_s,
        late=_late(instance, completion_s),
        notes=engine.notes,
        verified=False,
    )


def _late(instance: Instance, completion_s: Mapping[str, float | None]) -> tuple[str, ...]:
    """Return the jobs that completed after their deadline or the horizon."""
    horizon_s = math.inf if instance.horizon_s is None else instance.horizon_s
    late = []
    columns = instance.job_columns
    limits_s = np.minimum(columns.deadline_s, horizon_s)
    for j in np.flatnonzero(limits_s < math.inf).tolist():
        job, limit_s = instance.jobs[j], limits_s[j]
        end_s = completion_s[job.id]
        if end_s is not None and end_s > limit_s + TIME_TOLERANCE_S:
            late.append(job.id)
    return tuple(late)


def _check(result: SimulationResult) -> None:
    """Check the whole schedule, and compare its completions with the simulator's."""
    instance, schedule, scheduler = result.instance, result.schedule, result.scheduler
    # So is being stopped, or left out by a policy, before completion.
    columns = RunColumns(instance.unfolded, schedule.lazy_runs)
    broken = [
        v
        for v in check_schedule(instance, schedule, columns)
        if v.code not in _LATENESS
        and not (v.code == "incomplete" and v.ids[0] in schedule.unplaced)
    ]
    if broken:
        more = f" ({len(broken)} rules broken in all)" if len(broken) > 1 else ""
        raise SimulationError(
            f"scheduler {scheduler}: the checker refuses the schedule: {broken[0].sentence}{more}"
        )
    said = result.completion_s
    found = completions(instance, schedule, columns)
    for job_id, checked in found.items() if found != said else ():
        if checked != said[job_id]:
            raise SimulationError(
                f'scheduler {scheduler}, job "{job_id}": the simulator completes it at '
                f"{said[job_id]} s, the checker at {checked} s; the simulator has "
                "a bug."
            )
