"""Saturn's introspection: plan to the end, and at intervals swap for a plan that gains enough.

References
----------
Nagrecha, Kumar, "Saturn: an optimized data system for multi-large-model deep learning workloads",
PVLDB 17 (2024): the joint choice of parallelism, GPUs, node and start is solved again at fixed
intervals with the work that is left, and the new plan is taken only where it ends earlier than what
is left of the old one by more than a threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from alloc.errors import AllocError, InstanceError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Schedule, TaskPlacement
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.simulation.rolling_horizon import Solve, default_solve, sub_instance

_ON_TIME = 1e-9
"""Moments this close to the next introspection, in intervals, are it: slots are float products."""


@dataclass(frozen=True)
class _Planned:
    """What a plan says of a job: its start, seconds of the simulation, configuration and hosts."""

    start_s: float
    configuration: int
    tasks: tuple[TaskPlacement, ...]


class Saturn:
    """Plan all known jobs for the least makespan, and look at the plan again at intervals.

    Each job of the plan starts once its hosts are free and no job before it in the plan waits for
    one of them. At every interval the jobs in the system are planned anew with the work they have
    left. The new plan is taken where it ends earlier than the old by more than the threshold, and
    where jobs have arrived that the old one does not know; jobs that run otherwise in it are
    stopped, and pay their restart. While a job runs that may not pause, the plan stays. A job that
    may not change its configuration keeps it.

    Without a plan `turn-around` decides. The notes count ``solves``, ``swaps`` of one plan for
    another, and ``fallbacks``.

    Parameters
    ----------
    interval_s
        Time from one introspection to the next, seconds, more than 0. Published: 1000.
    threshold_s
        By how much a new plan must end earlier, seconds, 0 or more. Published: 500.
    time_limit_s
        Time limit of a solve, seconds, more than 0. Published: half of the interval.
    seed
        Seed of each solve.
    solve
        The solver; `alloc.solving.solve` by default.
    """

    name = "saturn"
    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations of the jobs in the system"
    draws = False

    def __init__(
        self,
        *,
        interval_s: float = 1000.0,
        threshold_s: float = 500.0,
        time_limit_s: float = 0.5,
        seed: int = 0,
        solve: Solve | None = None,
    ) -> None:
        for name, value in (("interval_s", interval_s), ("time_limit_s", time_limit_s)):
            if not value > 0:
                raise InstanceError(f"saturn: {name} is {value:g}; it must be more than 0.")
        if not threshold_s >= 0:
            raise InstanceError(f"saturn: threshold_s is {threshold_s:g}; it must be 0 or more.")
        self._interval_s, self._threshold_s = interval_s, threshold_s
        self._limits, self._solve = Limits(seconds=time_limit_s, seed=seed), solve
        self._rule = make_scheduler("turn-around")
        self.reset()

    def reset(self) -> None:
        """Forget the plan; called before each simulation."""
        self._plan: dict[str, _Planned] = {}
        self._end_s, self._next_s = math.inf, 0.0
        self._rule.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Parameters
        ----------
        state
            What the policy sees.
        """
        up = state.topology.host_index
        if any(
            task.host not in up
            for view in state.jobs
            if view.id in self._plan
            for task in self._plan[view.id].tasks
        ):
            # A host of the plan is down, maybe for good: the plan is none any more.
            self._plan, self._next_s = {}, state.now_s
        known = any(view.id in self._plan for view in state.jobs)
        idle = not known and not state.running
        notes = {}
        if state.jobs and (idle or state.now_s >= self._next_s - _ON_TIME * self._interval_s):
            notes = self._introspect(state)
        if not any(view.id in self._plan for view in state.jobs):
            decision = self._rule.decide(state)
            notes["fallbacks"] = 1.0
            return Decision(decision.assign, decision.release, notes, self._wake_s(state))
        assign, release = self._carry_out(state)
        return Decision(assign, release, notes, self._wake_s(state))

    def _wake_s(self, state: ClusterState) -> float | None:
        waits = state.slot_s is None and len(state.jobs) > 0
        return self._next_s if waits and self._next_s > state.now_s else None

    def _introspect(self, state: ClusterState) -> dict[str, float]:
        """Plan anew, and take the new plan if it gains enough."""
        self._next_s = state.now_s + self._interval_s
        if any(not view.preemptible for view in state.running):
            return {}
        views = list(state.jobs)
        try:
            solve = self._solve or default_solve()
            result = solve(
                _batch(state, views), "moldable", "auto", limits=self._limits, warm_start=None
            )
            if result.certificate.limit == "interrupt":
                # The solver turns Ctrl-C into a result; here it means: stop everything.
                raise KeyboardInterrupt
            schedule = result.require_solution()
        except AllocError:
            return {"solves": 1.0}
        assert isinstance(schedule, Schedule)
        end_s = state.now_s + max(run.end_s for run in schedule.runs)
        is_new = any(view.id not in self._plan for view in views)
        if not is_new and not end_s < self._end_s - self._threshold_s:
            return {"solves": 1.0}
        swaps = {"swaps": 1.0} if self._plan else {}
        bound = {view.id: view.bound_to for view in views}
        self._plan = {
            run.job: _Planned(
                state.now_s + run.start_s,
                run.configuration if (own := bound[run.job]) is None else own,
                run.tasks,
            )
            for run in schedule.runs
        }
        self._end_s = end_s
        return {"solves": 1.0, **swaps}

    def _carry_out(self, state: ClusterState) -> tuple[tuple[Assignment, ...], tuple[str, ...]]:
        """Return what starts or goes on, and what is paused, as the plan says."""
        pool, held = state.pool, dict(state.held)
        assign: list[Assignment] = []
        moved: list[JobView] = []
        for view in state.running:
            current = view.current
            assert current is not None
            planned = self._plan.get(view.id)
            if planned is not None and (planned.configuration, planned.tasks) != (
                current.configuration,
                current.tasks,
            ):
                moved.append(view)
                if state.slot_s is None:
                    pool.release(view.configurations[current.configuration], current.tasks)
                    _count(held, view, current.configuration, -1)
            elif state.slot_s is not None:
                pool.take(view.configurations[current.configuration], current.tasks)
                _count(held, view, current.configuration, 1)
                assign.append(current)
        blocked: set[str] = set()
        ready = [view for view in (*moved, *state.waiting) if view.id in self._plan]
        for view in sorted(ready, key=lambda own: (self._plan[own.id].start_s, own.in_order)):
            planned = self._plan[view.id]
            hosts = {task.host for task in planned.tasks}
            configuration = view.configurations[planned.configuration]
            _count(held, view, planned.configuration, 1)
            allowed = view.tenant is None or held.get(view.tenant, 0) <= state.quotas.get(
                view.tenant, math.inf
            )
            if not allowed or hosts & blocked or not pool.fits(configuration, planned.tasks):
                _count(held, view, planned.configuration, -1)
                blocked |= hosts
                continue
            pool.take(configuration, planned.tasks)
            assign.append(Assignment(view.id, planned.configuration, planned.tasks))
        started = {assignment.job for assignment in assign}
        release = tuple(v.id for v in moved if v.id not in started) if state.slot_s is None else ()
        return tuple(assign), release


def _count(held: dict[str, int], view: JobView, choice: int, sign: int) -> None:
    """Count the GPUs of a job's configuration for its tenant."""
    if view.tenant is not None:
        amount = sign * view.configurations[choice].demand[0]
        held[view.tenant] = held.get(view.tenant, 0) + amount


def _batch(state: ClusterState, views: list[JobView]) -> Instance:
    """Return the jobs in the system as a batch that starts on an idle cluster."""
    instance = sub_instance(state, views, state.slot_s)
    jobs = tuple(
        job
        if view.bound_to is None
        else job.replace(configurations=(job.configurations[view.bound_to],), elasticity="rigid")
        for view, job in zip(views, instance.jobs, strict=True)
    )
    return instance.replace(jobs=jobs, running=())
