"""The rolling horizon, around solvers that are put in by the tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from alloc.certificate import Certificate, Result
from alloc.errors import InstanceError, SolverError, UnsupportedFeatureError
from alloc.instance import Instance, Tenant
from alloc.schedulers import make_scheduler
from alloc.simulation import simulate
from alloc.simulation.rolling_horizon import RollingHorizon
from alloc.solution import Allocation, Assignment, Run, Schedule, Solution, TaskPlacement
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Job, rigid_gang

HOSTS = flat_cluster("one", HostType("h", 2, "generic", 8000, 0), 1)
GANG = (rigid_gang(1), rigid_gang(2, rate=2.0))


def result(instance: Instance, solution: Solution | None) -> Result:
    status = "no_solution" if solution is None else "feasible"
    certificate = Certificate(
        status, None, float("-inf"), "min", "weighted_jct", "f", "b", "1", 0, 1, 0.0, "0" * 64
    )  # fmt: skip
    return Result(solution, certificate)


class OneByOne:
    """A stand-in solver: the jobs of the instance one after the other, each on both GPUs."""

    def __init__(self, then: Callable[[int], Solution | Exception | None] | None = None) -> None:
        self.instances: list[Instance] = []
        self.starts: list[Solution | None] = []
        self.options: list[tuple[str, str, float, int]] = []
        self._then = then

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
        self.instances.append(instance)
        self.starts.append(warm_start)
        self.options.append((formulation, backend, time_limit_s, seed))
        other = self._then(len(self.instances)) if self._then else None
        if isinstance(other, Exception):
            raise other
        if other is not None:
            return result(instance, other)
        if self._then is not None and other is None:
            return result(instance, None)
        slot_s = instance.slot_s
        assert slot_s is not None
        runs, slot = [], 0
        for job in instance.jobs:
            length = max(1, -(-int(job.work_left) // int(2 * slot_s)))
            tasks = (TaskPlacement("host-0", "worker", 2),)
            runs.append(Run(job.id, 1, slot * slot_s, (slot + length) * slot_s, tasks))
            slot += length
        plan = Schedule(tuple(runs))
        assert not verify(instance, plan)
        return result(instance, plan)


def slots(*jobs: Job, **changes: object) -> Instance:
    return Instance("slots", HOSTS, jobs, slot_s=10.0).replace(**changes)


def test_each_slot_is_a_fresh_instance_of_what_is_left() -> None:
    """Arrival 0, work done so far, running placements, quotas: the solver sees the present only."""
    solve = OneByOne()
    policy = RollingHorizon(solve=solve, time_limit_s=3.0, seed=7)
    job = Job("a", 0.0, 60.0, GANG, tenant="red", weight=2.0, restart_cost_s=1.0)
    late = Job("b", 10.0, 20.0, GANG)
    outcome = simulate(slots(job, late, tenants=(Tenant("red", 2000),)), policy)
    assert outcome.completion_s == {"a": 30.0, "b": 40.0}
    first, second = solve.instances[:2]
    assert [j.id for j in first.jobs] == ["a"]
    assert [(j.id, j.arrival_s, j.work_left, j.weight) for j in second.jobs] == [
        ("a", 0.0, 40.0, 2.0),
        ("b", 0.0, 20.0, 1.0),
    ]
    assert second.running == (Assignment("a", 1, (TaskPlacement("host-0", "worker", 2),)),)
    assert second.tenants == (Tenant("red", 2000),)
    assert second.jobs[0].restart_cost_s == 1.0
    assert solve.options[0] == ("malleable", "auto", 3.0, 7)
    assert outcome.notes == {"solves": 4}
    assert outcome.restarts == 0


def test_next_solve_starts_from_the_tail_of_the_plan() -> None:
    """What the last plan said about the jobs that are left is the best guess there is."""
    solve = OneByOne()
    simulate(
        slots(Job("a", 0.0, 40.0, GANG), Job("b", 0.0, 20.0, GANG)), RollingHorizon(solve=solve)
    )
    tasks = (TaskPlacement("host-0", "worker", 2),)
    assert solve.starts[0] is None
    assert solve.starts[1] == Schedule(
        (Run("a", 1, 0.0, 10.0, tasks), Run("b", 1, 10.0, 20.0, tasks))
    )
    assert solve.starts[2] == Schedule((Run("b", 1, 0.0, 10.0, tasks),))


def test_commit_carries_out_several_slots() -> None:
    """With commit 3 a job that arrives in between waits for the next plan."""
    solve = OneByOne()
    jobs = (Job("a", 0.0, 60.0, GANG), Job("b", 10.0, 20.0, GANG))
    outcome = simulate(slots(*jobs), RollingHorizon(solve=solve, commit=3))
    assert [len(i.jobs) for i in solve.instances] == [1, 1]
    assert outcome.completion_s == {"a": 30.0, "b": 40.0}
    assert outcome.notes == {"solves": 2}


def test_empty_plan_is_replaced_early() -> None:
    """A job that outlives its estimate is not left waiting for the rest of the commitment."""
    solve = OneByOne()
    policy = RollingHorizon(solve=solve, commit=50)
    instance = slots(*(Job(f"j{k}", 0.0, 60.0, GANG) for k in range(3)))
    outcome = simulate(instance, policy, knowledge="estimate", work_error=0.8, rng=1)
    assert outcome.unfinished == ()
    assert len(solve.instances) > 1


FAILURES: dict[str, Callable[[int], Solution | Exception | None]] = {
    "no solution": lambda call: None,
    "error": lambda call: SolverError("out of order"),
    "nothing to run": lambda call: Schedule(()),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failed_solve_falls_back_and_is_counted(failure: str) -> None:
    """The show goes on with the named heuristic, and the table shows how often it had to."""
    instance = slots(Job("a", 0.0, 30.0, GANG), Job("b", 0.0, 30.0, GANG))
    policy = RollingHorizon(solve=OneByOne(FAILURES[failure]), fallback="drf")
    outcome = simulate(instance, policy)
    assert outcome.notes["fallbacks"] == outcome.notes["solves"] == len(outcome.decision_s)
    assert outcome.completion_s == simulate(instance, make_scheduler("drf")).completion_s


def test_plan_that_would_pause_what_must_not_pause_falls_back() -> None:
    """A solver's oversight must not break the rule in the simulation."""
    tasks = (TaskPlacement("host-0", "worker", 1),)
    plans = {1: Schedule((Run("a", 0, 0.0, 10.0, tasks),))}
    solve = OneByOne(lambda call: plans.get(call, Schedule((Run("b", 0, 0.0, 10.0, tasks),))))
    jobs = (Job("a", 0.0, 30.0, GANG, preemptible=False), Job("b", 0.0, 5.0, GANG))
    outcome = simulate(slots(*jobs), RollingHorizon(solve=solve, fallback="fifo"))
    assert outcome.unfinished == ()
    assert outcome.notes["fallbacks"] > 0


def test_window_plans_the_shortest_jobs_first() -> None:
    """One slot of the cluster does 20 units: the window of one slot holds two jobs of 10."""
    solve = OneByOne()
    jobs = [Job(f"j{k}", 0.0, work, GANG) for k, work in enumerate((50.0, 10.0, 10.0, 30.0))]
    simulate(slots(*jobs), RollingHorizon(solve=solve, window=1))
    assert [job.id for job in solve.instances[0].jobs] == ["j1", "j2", "j3"]
    wide = OneByOne()
    simulate(slots(*jobs), RollingHorizon(solve=wide, window=100))
    assert len(wide.instances[0].jobs) == 4


def test_options_out_of_range_are_refused() -> None:
    """Contradictions are found before anything is solved."""
    with pytest.raises(InstanceError, match="commit is 0; it must be 1"):
        RollingHorizon(commit=0)
    with pytest.raises(InstanceError, match="window is 2 slots, less than the 3"):
        RollingHorizon(window=2, commit=3)
    with pytest.raises(InstanceError, match="time_limit_s is 0; it must be more"):
        RollingHorizon(time_limit_s=0.0)
    with pytest.raises(InstanceError, match='unknown scheduler "dfr"; did you mean "drf"'):
        RollingHorizon(fallback="dfr")
    with pytest.raises(UnsupportedFeatureError, match=r"plans in slots.*set slot_s"):
        simulate(slots(Job("a", 0.0, 1.0, GANG), slot_s=None), RollingHorizon(solve=OneByOne()))
    wrong = OneByOne(lambda call: Allocation(()))
    with pytest.raises(InstanceError, match='"malleable" gives no schedule'):
        simulate(slots(Job("a", 0.0, 1.0, GANG)), RollingHorizon(solve=wrong))


def test_real_solver_plans_to_the_optimum() -> None:
    """With alloc's own solver, two jobs that fit side by side are both done at the earliest."""
    jobs = (Job("a", 0.0, 30.0, GANG), Job("b", 0.0, 10.0, (rigid_gang(1),), elasticity="rigid"))
    outcome = simulate(slots(*jobs), make_scheduler("rolling-horizon", time_limit_s=10.0))
    assert outcome.notes.get("fallbacks", 0) == 0
    assert outcome.completion_s == {"a": 20.0, "b": 10.0}
