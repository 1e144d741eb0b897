"""Rolling horizon: plan, carry out the first slots of the plan, and plan again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from alloc.certificate import Result
from alloc.errors import AllocError, InstanceError, UnsupportedFeatureError
from alloc.instance import Instance, Tenant
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.solution import Assignment, Run, Schedule, Solution
from alloc.topology import Topology
from alloc.verification import verify
from alloc.workload import Job


class Solve(Protocol):
    """What solves the sub-instances: `alloc.solving.solve` or a stand-in for it."""

    def __call__(
        self,
        instance: Instance,
        formulation: str,
        backend: str,
        /,
        *,
        time_limit_s: float,
        seed: int,
        warm_start: Solution | None,
    ) -> Result:
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

    When a solve fails, because it found no solution or raised an error of alloc's, a named
    heuristic decides that slot. The notes count ``solves`` and ``fallbacks``.

    Parameters
    ----------
    formulation, backend
        What to solve the instances with; the formulation must give a `Schedule`.
    window
        Length of the plan in slots: jobs are planned shortest first (least time to completion per
        weight) until the least resources they can do with fill the cluster for that long; the rest
        wait. At least one waiting job, and all that run, are always planned. None: all jobs.
    commit
        Slots carried out before the next solve, 1 or more.
    time_limit_s
        Time limit of each solve, seconds.
    fallback
        Name of the heuristic that decides when a solve fails.
    seed
        Seed of each solve.
    solve
        The solver; `alloc.solving.solve` by default.
    """

    name = "rolling-horizon"
    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations of the jobs in the system"

    def __init__(
        self,
        *,
        formulation: str = "malleable",
        backend: str = "auto",
        window: int | None = None,
        commit: int = 1,
        time_limit_s: float = 10.0,
        fallback: str = "optimus",
        seed: int = 0,
        solve: Solve | None = None,
    ) -> None:
        if commit < 1:
            raise InstanceError(f"rolling-horizon: commit is {commit}; it must be 1 slot or more.")
        if window is not None and window < commit:
            raise InstanceError(
                f"rolling-horizon: window is {window} slots, less than the {commit} it commits to; "
                "look at least that far."
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
        self._fallback = make_scheduler(fallback)
        self._seed = seed
        self._solve = solve
        self._plan: _Plan | None = None

    def reset(self) -> None:
        """Forget the plan; called before each simulation."""
        self._plan = None
        self._fallback.reset()

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
        """Solve, and return the first slot of the plan, or what the fallback decides."""
        views = self._in_window(state, slot_s)
        tail = None if self._plan is None else _tail(self._plan, state.now_s, views)
        self._plan = None
        try:
            instance = sub_instance(state, views, slot_s)
            # Where jobs have come or work is not as forecast, what is left of it is no answer.
            fits = tail is not None and not verify(instance, tail)
            result = self._call_solve(instance, tail if fits else None)
            solution = result.require_solution()
        except AllocError:
            return self._fall_back(state)
        if not isinstance(solution, Schedule):
            raise InstanceError(
                f'rolling-horizon: formulation "{self._formulation}" gives no schedule; '
                "choose one that plans over time, for example malleable."
            )
        plan = _Plan(solution, state.now_s, age=1)
        assign = _due(plan, state)
        if not assign or not _keeps_running(assign, state):
            return self._fall_back(state)
        self._plan = plan
        return Decision(assign=assign, notes={"solves": 1})

    def _call_solve(self, instance: Instance, tail: Schedule | None) -> Result:
        solve = self._solve or _default_solve()
        return solve(
            instance,
            self._formulation,
            self._backend,
            time_limit_s=self._time_limit_s,
            seed=self._seed,
            warm_start=tail,
        )

    def _fall_back(self, state: ClusterState) -> Decision:
        decision = self._fallback.decide(state)
        notes = dict(decision.notes)
        notes["solves"] = notes.get("solves", 0) + 1
        notes["fallbacks"] = notes.get("fallbacks", 0) + 1
        return Decision(decision.assign, decision.release, notes)

    def _in_window(self, state: ClusterState, slot_s: float) -> list[JobView]:
        """Return the jobs to plan, in order of arrival."""
        if self._window is None:
            return list(state.jobs)
        room = self._window * slot_s
        shortest = sorted(
            state.jobs, key=lambda view: (_least_time_s(view) / view.weight, view.in_order)
        )
        running = [view for view in shortest if view.current is not None]
        waiting = [view for view in shortest if view.current is None]
        chosen = list(running)
        filled_s = sum(_least_load_s(view, state.topology) for view in running)
        for view in waiting:
            if filled_s > room and len(chosen) > len(running):
                break
            chosen.append(view)
            filled_s += _least_load_s(view, state.topology)
        return sorted(chosen, key=lambda view: view.in_order)


def _default_solve() -> Solve:
    from alloc.solving import solve

    return solve


def sub_instance(state: ClusterState, views: Sequence[JobView], slot_s: float) -> Instance:
    """Return jobs in the system as an instance that starts now.

    Work is as known to the scheduler; what is done counts as done, so that a job which has run pays
    its restart cost when it resumes.
    """
    jobs = []
    for view in views:
        if view.work is None or view.work_left is None:
            raise InstanceError(
                f'job "{view.id}": its work is unknown; rolling-horizon needs knowledge "estimate".'
            )
        configurations = view.configurations
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
    totals = topology.capacity.sum(axis=0).tolist()
    if left is None:
        return 0.0
    return min(
        max((d / t for d, t in zip(c.demand, totals, strict=True) if t), default=0.0)
        * left
        / c.rate
        for c in view.configurations
        if c.rate > 0
    )
