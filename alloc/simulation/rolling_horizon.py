"""Rolling horizon: plan, carry out the first slots of the plan, and plan again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from alloc.errors import AllocError, InstanceError, OutOfTime, UnsupportedFeatureError
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment, Run, Schedule, Solution
from alloc.result import Limits, Result
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge, Scheduler
from alloc.simulation.simulator import simulate
from alloc.topology import Topology
from alloc.verification import verify
from alloc.workload import Job

_LEAST_SHARE = 0.1
"""Part of the limit that must be left for a solve to be worth beginning."""
_REHEARSAL_SHARE = 0.25
"""Part of the limit after which no further rule is rehearsed: one that takes as long as those
before still leaves half of the limit to the solve."""
_SAME = 1e-9
"""Relative difference of costs that is rounding."""


class Solve(Protocol):
    """What solves the sub-instances: `alloc.solving.solve` or a stand-in for it."""

    def __call__(
        self,
        instance: Instance,
        formulation: str,
        backend: str,
        /,
        *,
        limits: Limits,
        warm_start: Solution | None,
    ) -> Result[Solution]:
        """Return the result for an instance."""
        ...


@dataclass
class _Plan:
    """A schedule and the slot of the simulation at which it began."""

    schedule: Schedule
    began_s: float
    age: int = 0


class RollingHorizon:
    """Plan all known jobs to their end, carry out the first slots of the plan, and plan again.

    At every `commit`-th slot the jobs in the system become an instance of their own, with the work
    they have left, arrival 0 and what they run now, and are solved. Between, the plan is followed;
    jobs that arrive meanwhile wait for the next one. It is also replaced early when it has nothing
    to run, or would pause a job that must not be paused (both happen when work was underestimated).
    The next solve starts from the tail of the plan.

    A solve begins from the tail of the plan or from what a rule would do with the same jobs,
    whichever is better. The rule itself decides where the solve fails, where its plan is worse than
    the rule's, and where the rule's plan or the last solve took so long that the limit leaves no
    time for one. The notes count ``solves`` (decisions that asked for a plan) and ``fallbacks``
    (those that the rule took).

    Parameters
    ----------
    formulation, backend
        What to solve the instances with; the formulation must give a `Schedule`.
    window
        Length of the plan in slots: jobs are planned shortest first (least time to completion per
        weight) until the least resources they can do with fill the cluster for that long; the rest
        wait. At least one waiting job, and all that run, are always planned. None: any length.
    max_jobs
        Most jobs planned, the shortest first, 1 or more; more only where these do not ask for the
        whole cluster. Jobs that run are always planned. None: all jobs.
    commit
        Slots carried out before the next solve, 1 or more.
    time_limit_s
        Time limit of a decision, seconds, more than 0; where a solve overruns it, as on a loaded
        machine, the rule decides until the limit is kept on average.
    fallback
        The rules that may decide, joined by ``+``: the one whose plan is best is taken.
    rollout
        Whether the rules' plans are worked out. Without, the first rule decides where a solve
        fails, and only there.
    seed
        Seed of each solve.
    solve
        The solver; `alloc.solving.solve` by default.
    clock
        Tells the time for the limit, seconds; `time.perf_counter` by default.
    """

    name = "rolling-horizon"
    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations of the jobs in the system"
    draws = False

    def __init__(
        self,
        *,
        formulation: str = "malleable",
        backend: str = "auto",
        window: int | None = None,
        max_jobs: int | None = 40,
        commit: int = 1,
        time_limit_s: float = 0.5,
        fallback: str = "srtf+set-rule",
        rollout: bool = True,
        seed: int = 0,
        solve: Solve | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if commit < 1:
            raise InstanceError(f"rolling-horizon: commit is {commit}; it must be 1 slot or more.")
        if window is not None and window < commit:
            raise InstanceError(
                f"rolling-horizon: window is {window} slots, less than the {commit} it commits to; "
                "look at least that far."
            )
        if max_jobs is not None and max_jobs < 1:
            raise InstanceError(
                f"rolling-horizon: max_jobs is {max_jobs}; it must be 1 or more, or null for all."
            )
        if not time_limit_s > 0:
            raise InstanceError(
                f"rolling-horizon: time_limit_s is {time_limit_s:g}; it must be more than 0."
            )
        self._formulation = formulation
        self._backend = backend
        self._window = window
        self._commit = commit
        self._time_limit_s = time_limit_s
        self._max_jobs = max_jobs
        self._rules = [make_scheduler(name) for name in fallback.split("+")]
        # Rollouts must not disturb what the rules remember of the simulation itself.
        self._rehearsing = [make_scheduler(name) for name in fallback.split("+")] * rollout
        self._clock = clock or time.perf_counter
        self._overrun_s = 0.0
        self._seed = seed
        self._solve = solve
        self._plan: _Plan | None = None

    def reset(self) -> None:
        """Forget the plan; called before each simulation."""
        self._plan = None
        self._overrun_s = 0.0
        for rule in self._rules:
            rule.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Raises
        ------
        UnsupportedFeatureError
            In continuous time.
        """
        if state.slot_s is None:
            raise UnsupportedFeatureError(
                f"scheduler {self.name} plans in slots, but the instance has none; set slot_s."
            )
        plan = self._plan
        if plan is not None and plan.age < self._commit:
            assign = _due(plan, state)
            if assign and _keeps_running(assign, state):
                plan.age += 1
                return Decision(assign=assign)
        return self._replan(state, state.slot_s)

    def _replan(self, state: ClusterState, slot_s: float) -> Decision:
        """Solve, and return the first slot of the plan, or what a rule decides."""
        began = self._clock()
        views = self._in_window(state, slot_s)
        tail = None if self._plan is None else _tail(self._plan, state.now_s, views)
        self._plan = None
        try:
            instance = sub_instance(state, views, slot_s)
        except AllocError:
            return self._fall_back(state, self._rules[0])
        # Where jobs have come or work is not as forecast, what is left of a plan is not an answer.
        tail = _valid(instance, tail)
        rule, rehearsed, cost = self._rehearse(instance, began)
        left_s = self._time_limit_s - (self._clock() - began) - self._overrun_s
        if self._rehearsing and left_s <= _LEAST_SHARE * self._time_limit_s:
            # What this decision does not use pays for the last solve's overrun.
            self._overrun_s = max(self._overrun_s - self._time_limit_s, 0.0)
            return self._fall_back(state, rule)
        start = rehearsed if rehearsed is not None and cost < _cost(instance, tail) else tail
        asked = self._clock()
        try:
            seconds = max(left_s, 0.0) or self._time_limit_s
            result = self._call_solve(instance, _valid(instance, start), seconds)
            if result.certificate.limit == "interrupt":
                # The solver turns Ctrl-C into a result; here it means: stop everything.
                raise KeyboardInterrupt
            solution = result.require_solution()
        except AllocError:
            return self._fall_back(state, rule)
        self._overrun_s = max(self._clock() - asked - max(left_s, 0.0), 0.0)
        if not isinstance(solution, Schedule):
            raise InstanceError(
                f'rolling-horizon: formulation "{self._formulation}" gives no schedule; '
                "choose one that plans over time, for example malleable."
            )
        plan = _Plan(solution, state.now_s, age=1)
        assign = _due(plan, state)
        if not assign or not _keeps_running(assign, state):
            return self._fall_back(state, rule)
        if cost < _cost(instance, solution) * (1 - _SAME):
            return self._fall_back(state, rule)
        self._plan = plan
        return Decision(assign=assign, notes={"solves": 1})

    def _rehearse(
        self, instance: Instance, began: float
    ) -> tuple[Scheduler, Schedule | None, float]:
        """Return the rule whose plan for an instance is best, the plan, and its cost.

        Where the first plans have used their share of the limit, later rules are not asked. A plan
        is broken off once too little is left of the limit for a solve.
        """
        best, schedule, least = self._rules[0], None, math.inf
        late = began + (1 - _LEAST_SHARE) * self._time_limit_s

        def in_time(*_: object) -> None:
            if self._clock() >= late:
                raise OutOfTime

        for rule, rehearsing in zip(self._rules, self._rehearsing, strict=False):
            spent_s = self._clock() - began
            if schedule is not None and spent_s >= _REHEARSAL_SHARE * self._time_limit_s:
                break
            try:
                in_time()
                found = simulate(instance, rehearsing, check=False, progress=in_time).schedule
            except OutOfTime:
                # Rules before it without a plan are not made for these jobs.
                return (rule, None, math.inf) if schedule is None else (best, schedule, least)
            except AllocError:
                continue  # a rule that is not made for these jobs
            cost = _cost(instance, found)
            if cost < least:
                best, schedule, least = rule, found, cost
        return best, schedule, least

    def _call_solve(
        self, instance: Instance, start: Schedule | None, time_limit_s: float
    ) -> Result[Solution]:
        solve = self._solve or default_solve()
        return solve(
            instance,
            self._formulation,
            self._backend,
            limits=Limits(seconds=time_limit_s, seed=self._seed),
            warm_start=start,
        )

    def _fall_back(self, state: ClusterState, rule: Scheduler) -> Decision:
        decision = rule.decide(state)
        notes = dict(decision.notes)
        notes["solves"] = notes.get("solves", 0) + 1
        notes["fallbacks"] = notes.get("fallbacks", 0) + 1
        return Decision(decision.assign, decision.release, notes)

    def _in_window(self, state: ClusterState, slot_s: float) -> list[JobView]:
        """Return the jobs to plan, in order of arrival."""
        if self._window is None and (self._max_jobs is None or len(state.jobs) <= self._max_jobs):
            return list(state.jobs)
        room_s = math.inf if self._window is None else self._window * slot_s
        most = math.inf if self._max_jobs is None else self._max_jobs
        shortest = sorted(
            state.jobs, key=lambda view: (_least_time_s(view) / view.weight, view.in_order)
        )
        running = [view for view in shortest if view.current is not None]
        waiting = [view for view in shortest if view.current is None]
        chosen = list(running)
        filled_s = sum(_least_load_s(view, state.topology) for view in running)
        asked = sum(_least_gpus(view) for view in running)
        gpus = int(state.topology.capacity[:, 0].sum())
        for view in waiting:
            if filled_s > room_s and len(chosen) > len(running):
                break
            if len(chosen) >= most and asked >= gpus:
                break
            chosen.append(view)
            filled_s += _least_load_s(view, state.topology)
            asked += _least_gpus(view)
        return sorted(chosen, key=lambda view: view.in_order)


def default_solve() -> Solve:
    """Return `alloc.solving.solve`, which is loaded when it is used."""
    from alloc.solving import solve

    return solve


def sub_instance(state: ClusterState, views: Sequence[JobView], slot_s: float | None) -> Instance:
    """Return jobs in the system as an instance that starts now.

    Work is as known to the scheduler; what is done counts as done, so that a job which has run pays
    its restart cost when it resumes.

    Parameters
    ----------
    state
        The time, the cluster and its quotas.
    views
        The jobs; their work is known.
    slot_s
        Length of a slot, seconds; None: continuous time.
    """
    jobs = []
    for view in views:
        if view.work is None or view.work_left is None:
            raise InstanceError(
                f'job "{view.id}": its work is unknown; rolling-horizon needs knowledge "estimate".'
            )
        configurations, bound = view.configurations, view.bound_to
        if bound is not None and view.current is None:
            # It waits again, and keeps the configuration that it began in: no other gets it on.
            configurations = tuple(
                way if c == bound else replace(way, rate=0.0)
                for c, way in enumerate(configurations)
            )
        jobs.append(
            Job(
                view.id,
                0.0,
                view.work,
                configurations,
                weight=view.weight,
                tenant=view.tenant,
                elasticity=view.elasticity,
                preemptible=view.preemptible,
                restart_cost_s=view.restart_cost_s,
                work_done=max(view.work - view.work_left, 0.0),
                model=view.model,
            )
        )
    return Instance(
        f"slot at {state.now_s:g} s",
        state.topology,
        tuple(jobs),
        slot_s=slot_s,
        tenants=tuple(Tenant(name, quota) for name, quota in state.quotas.items()),
        running=tuple(view.current for view in views if view.current is not None),
    )


def _due(plan: _Plan, state: ClusterState) -> tuple[Assignment, ...]:
    """Return what a plan runs in the slot that begins now, of the jobs still in the system."""
    assert state.slot_s is not None
    present = {view.id for view in state.jobs}
    # The middle of the slot: multiples of the slot are products of floats.
    middle_s = state.now_s - plan.began_s + state.slot_s / 2
    return tuple(
        Assignment(run.job, run.configuration, run.tasks)
        for run in plan.schedule.runs
        if run.start_s <= middle_s < run.end_s and run.job in present
    )


def _keeps_running(assign: Sequence[Assignment], state: ClusterState) -> bool:
    """Return whether all jobs that must not be paused go on."""
    chosen = {assignment.job for assignment in assign}
    return all(view.preemptible or view.current is None or view.id in chosen for view in state.jobs)


def _tail(plan: _Plan, now_s: float, views: Sequence[JobView]) -> Schedule | None:
    """Return what is left of a plan, in time from now on, or None if nothing is."""
    present = {view.id for view in views}
    shift_s = now_s - plan.began_s
    runs = tuple(
        Run(
            run.job,
            run.configuration,
            max(run.start_s - shift_s, 0.0),
            run.end_s - shift_s,
            run.tasks,
        )
        for run in plan.schedule.runs
        if run.end_s > shift_s and run.job in present
    )
    return Schedule(runs) if runs else None


def _valid(instance: Instance, schedule: Schedule | None) -> Schedule | None:
    """Return a schedule if it keeps every rule of an instance, else None."""
    return None if schedule is None or verify(instance, schedule) else schedule


def _cost(instance: Instance, schedule: Schedule | None) -> float:
    """Return the weighted JCT of a plan, seconds; infinite without one, or if a job is left."""
    if schedule is None:
        return math.inf
    return objective("weighted_jct").evaluate(instance, schedule)


def _least_gpus(view: JobView) -> int:
    """Return the least GPU that a job runs with, milli-GPU."""
    return min((c.demand[0] for c in view.configurations if c.rate > 0), default=0)


def _least_time_s(view: JobView) -> float:
    """Return the least time to completion as known, seconds."""
    left = view.work_left
    fastest = max(configuration.rate for configuration in view.configurations)
    return float("inf") if left is None else left / fastest


def _least_load_s(view: JobView, topology: Topology) -> float:
    """Return the least time for which the job alone could fill the whole cluster, seconds.

    For each configuration, the largest share of a resource times the time it would take.
    """
    left = view.work_left
    totals = topology.totals.tolist()
    if left is None:
        return 0.0
    return min(
        max((d / t for d, t in zip(c.demand, totals, strict=True) if t), default=0.0)
        * left
        / c.rate
        for c in view.configurations
        if c.rate > 0
    )
