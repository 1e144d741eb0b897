"""The rolling horizon, around solvers that are put in by the tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import alloc
import alloc.instances
from alloc.certificate import Certificate
from alloc.errors import InstanceError, SolverError, UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import (
    Allocation,
    Assignment,
    Run,
    Schedule,
    Solution,
    TaskPlacement,
)
from alloc.result import Limits, Result
from alloc.schedulers import make_scheduler
from alloc.schedulers.fifo import Fifo
from alloc.schedulers.state import ClusterState, Decision, Scheduler
from alloc.simulation import SimulationResult, simulate
from alloc.simulation.rolling_horizon import RollingHorizon
from alloc.topology import HostType, flat_cluster
from alloc.verification import verify
from alloc.workload import Job, rigid_gang

HOSTS = flat_cluster("one", HostType("h", 2, "generic", 8000, 0), 1)
GANG = (rigid_gang(1), rigid_gang(2, rate=2.0))


def result(instance: Instance, solution: Solution | None) -> Result:
    status: Any = "no_solution" if solution is None else "feasible"
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
        limits: Limits,
        warm_start: Solution | None,
    ) -> Result:
        self.instances.append(instance)
        self.starts.append(warm_start)
        self.options.append((formulation, backend, limits.seconds, limits.seed))
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
    policy = RollingHorizon(rollout=False, solve=solve, time_limit_s=3.0, seed=7, clock=lambda: 0.0)
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
        slots(Job("a", 0.0, 40.0, GANG), Job("b", 0.0, 20.0, GANG)),
        RollingHorizon(rollout=False, solve=solve),
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
    outcome = simulate(slots(*jobs), RollingHorizon(rollout=False, solve=solve, commit=3))
    assert [len(i.jobs) for i in solve.instances] == [1, 1]
    assert outcome.completion_s == {"a": 30.0, "b": 40.0}
    assert outcome.notes == {"solves": 2}


def test_empty_plan_is_replaced_early() -> None:
    """A job that outlives its estimate is not left waiting for the rest of the commitment."""
    solve = OneByOne()
    policy = RollingHorizon(rollout=False, solve=solve, commit=50)
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
    policy = RollingHorizon(rollout=False, solve=OneByOne(FAILURES[failure]), fallback="drf")
    outcome = simulate(instance, policy)
    assert outcome.notes["fallbacks"] == outcome.notes["solves"] == len(outcome.decision_s)
    assert outcome.completion_s == simulate(instance, make_scheduler("drf")).completion_s


def test_plan_that_would_pause_what_must_not_pause_falls_back() -> None:
    """A solver's oversight must not break the rule in the simulation."""
    tasks = (TaskPlacement("host-0", "worker", 1),)
    plans = {1: Schedule((Run("a", 0, 0.0, 10.0, tasks),))}
    solve = OneByOne(lambda call: plans.get(call, Schedule((Run("b", 0, 0.0, 10.0, tasks),))))
    jobs = (Job("a", 0.0, 30.0, GANG, preemptible=False), Job("b", 0.0, 5.0, GANG))
    outcome = simulate(slots(*jobs), RollingHorizon(rollout=False, solve=solve, fallback="fifo"))
    assert outcome.unfinished == ()
    assert outcome.notes["fallbacks"] > 0


def test_window_plans_the_shortest_jobs_first() -> None:
    """One slot of the cluster does 20 units: the window of one slot holds two jobs of 10."""
    solve = OneByOne()
    jobs = [Job(f"j{k}", 0.0, work, GANG) for k, work in enumerate((50.0, 10.0, 10.0, 30.0))]
    simulate(slots(*jobs), RollingHorizon(rollout=False, solve=solve, window=1))
    assert [job.id for job in solve.instances[0].jobs] == ["j1", "j2", "j3"]
    wide = OneByOne()
    simulate(slots(*jobs), RollingHorizon(rollout=False, solve=wide, window=100))
    assert len(wide.instances[0].jobs) == 4


def test_options_out_of_range_are_refused() -> None:
    """Contradictions are found before anything is solved."""
    with pytest.raises(InstanceError, match="commit is 0; it must be 1"):
        RollingHorizon(commit=0)
    with pytest.raises(InstanceError, match="window is 2 slots, less than the 3"):
        RollingHorizon(window=2, commit=3)
    with pytest.raises(InstanceError, match="time_limit_s is 0; it must be more"):
        RollingHorizon(time_limit_s=0.0)
    with pytest.raises(InstanceError, match='unknown scheduler "srft"; did you mean "srtf"'):
        RollingHorizon(fallback="srft")
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


class Interrupted:
    """Alloc's own solver; a signal comes in the middle of the second solve, at its first line."""

    def __init__(self, number: signal.Signals) -> None:
        self.calls = 0
        self._sent = False
        self._number = number

    def __call__(self, instance: Instance, formulation: str, backend: str, /, **options) -> Result:
        self.calls += 1

        def progress(line: str) -> None:
            if self.calls == 2 and not self._sent:
                self._sent = True
                os.kill(os.getpid(), self._number)

        return alloc.solve(instance, formulation, backend, progress=progress, **options)


@pytest.fixture
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, as the command line does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.long
@pytest.mark.usefixtures("sigterm_interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_and_not_one_decision(number: signal.Signals) -> None:
    """The solver turns it into a result; six in a row once ended a decision each."""
    solve = Interrupted(number)
    jobs = [Job(f"j{k}", 0.0, 60.0, GANG) for k in range(4)]
    with pytest.raises(KeyboardInterrupt):
        simulate(slots(*jobs), RollingHorizon(solve=solve, time_limit_s=1.0))
    assert solve.calls == 2


def test_a_plan_worse_than_the_rules_is_not_carried_out() -> None:
    """The long job first costs more than the short one first, so the rule decides, and is named."""
    jobs = (Job("long", 0.0, 100.0, GANG), Job("short", 0.0, 20.0, GANG))
    by_itself = simulate(slots(*jobs), RollingHorizon(rollout=False, solve=OneByOne()))
    assert by_itself.completion_s == {"long": 50.0, "short": 60.0}
    guarded = simulate(slots(*jobs), RollingHorizon(solve=OneByOne(), fallback="srtf"))
    assert guarded.completion_s == simulate(slots(*jobs), make_scheduler("srtf")).completion_s
    assert guarded.notes["fallbacks"] >= 1
    assert guarded.notes["solves"] >= guarded.notes["fallbacks"]


def test_a_solve_begins_from_what_the_rule_would_do() -> None:
    """So that hardly any time is enough not to be worse than the rule."""
    solve = OneByOne()
    jobs = (Job("long", 0.0, 100.0, GANG), Job("short", 0.0, 20.0, GANG))
    simulate(slots(*jobs), RollingHorizon(solve=solve, fallback="srtf"))
    (start,) = solve.starts[:1]
    assert isinstance(start, Schedule)
    assert start.runs_of["short"][0].start_s == 0.0


class Slow(OneByOne):
    """A solver that takes so long, by a clock of its own, whatever its limit."""

    def __init__(self, takes_s: float) -> None:
        super().__init__()
        self.now_s = 0.0
        self._takes_s = takes_s

    def __call__(self, *arguments, **options) -> Result:
        self.now_s += self._takes_s
        return super().__call__(*arguments, **options)


@pytest.mark.long
@pytest.mark.parametrize("takes_s", [0.5, 2.0, 20.0])
def test_the_limit_is_kept_on_average_when_solves_overrun(takes_s: float) -> None:
    """On a loaded machine the rule decides until a solve is likely to be in time again."""
    solve = Slow(takes_s)
    jobs = [Job(f"j{k}", 10.0 * k, 200.0, GANG) for k in range(20)]
    policy = RollingHorizon(
        solve=solve, time_limit_s=1.0, fallback="fifo", clock=lambda: solve.now_s
    )
    outcome = simulate(slots(*jobs), policy)
    decisions = len(outcome.decision_s)
    assert solve.now_s <= 1.0 * decisions + 2 * takes_s
    if takes_s > 1.0:
        assert outcome.notes["fallbacks"] >= decisions - decisions / takes_s - 2
    assert len(solve.instances) >= 1


@pytest.mark.parametrize(("takes_s", "rules"), [(0.1, 3), (0.2, 2), (0.6, 1)])
def test_rules_are_rehearsed_while_their_share_of_the_limit_lasts(
    takes_s: float, rules: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans of rules took as long as they liked, and the decision overran by all of it."""
    solve = Slow(0.0)
    rehearsed: list[str] = []

    def rehearse(instance: Instance, rule: Scheduler, **options: Any) -> SimulationResult:
        rehearsed.append(rule.name)
        solve.now_s += takes_s
        return simulate(instance, rule, **options)

    monkeypatch.setattr("alloc.simulation.rolling_horizon.simulate", rehearse)
    policy = RollingHorizon(
        solve=solve, time_limit_s=1.0, fallback="fifo+srtf+las", clock=lambda: solve.now_s
    )
    outcome = simulate(slots(Job("a", 0.0, 60.0, GANG), Job("b", 0.0, 20.0, GANG)), policy)
    assert rehearsed == ["fifo", "srtf", "las"][:rules] * len(outcome.decision_s)


def test_a_rule_that_is_slow_with_many_jobs_is_not_rehearsed_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 300 elastic jobs the plan of `srtf` took five times the limit, at every decision."""
    solve = OneByOne()
    now_s = 0.0

    class SlowRule(Fifo):
        def decide(self, state: ClusterState) -> Decision:
            nonlocal now_s
            now_s += 0.2
            return super().decide(state)

    monkeypatch.setattr("alloc.simulation.rolling_horizon.make_scheduler", lambda name: SlowRule())
    jobs = [Job(f"j{k}", 0.0, 20.0, GANG) for k in range(12)]
    policy = RollingHorizon(solve=solve, time_limit_s=1.0, fallback="fifo", clock=lambda: now_s)
    outcome = simulate(slots(*jobs), policy)
    assert now_s <= 1.4 * len(outcome.decision_s)  # the limit, and the decision of the rule
    # The plans of the last few jobs are made in time, and their solves.
    assert 1 <= len(solve.instances) == len(outcome.decision_s) - outcome.notes["fallbacks"] <= 6


def test_a_late_plan_never_leaves_the_decision_to_a_rule_that_cannot_take_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first rule is not made for the jobs, the second is late: it decides all the same."""
    now_s = 0.0

    class Unfit(Fifo):
        def decide(self, state: ClusterState) -> Decision:
            raise UnsupportedFeatureError("not made for these jobs.")

    class Late(Fifo):
        def decide(self, state: ClusterState) -> Decision:
            nonlocal now_s
            now_s += 0.6
            return super().decide(state)

    rules: dict[str, type[Fifo]] = {"unfit": Unfit, "late": Late}
    monkeypatch.setattr(
        "alloc.simulation.rolling_horizon.make_scheduler", lambda name: rules[name]()
    )
    jobs = [Job(f"j{k}", 0.0, 20.0, GANG) for k in range(12)]
    policy = RollingHorizon(
        solve=OneByOne(), time_limit_s=1.0, fallback="unfit+late", clock=lambda: now_s
    )
    outcome = simulate(slots(*jobs), policy)
    assert outcome.notes["fallbacks"] >= 1
    assert None not in outcome.completion_s.values()


def test_at_most_so_many_jobs_are_planned() -> None:
    """The shortest of a long queue, but never fewer than ask for the whole cluster."""
    jobs = [Job(f"j{k}", 0.0, 10.0 * (k + 1), GANG) for k in range(9)]
    solve = OneByOne()
    simulate(slots(*jobs), RollingHorizon(rollout=False, solve=solve, max_jobs=3))
    assert [job.id for job in solve.instances[0].jobs] == ["j0", "j1", "j2"]
    one = OneByOne()
    simulate(slots(*jobs), RollingHorizon(rollout=False, solve=one, max_jobs=1))
    assert [job.id for job in one.instances[0].jobs] == ["j0", "j1"]
    with pytest.raises(InstanceError, match="max_jobs is 0"):
        RollingHorizon(max_jobs=0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_defaults_are_never_much_worse_than_their_rules(seed: int) -> None:
    """With alloc's own solver on elastic jobs: planning is there to gain, not to lose."""
    instance = alloc.instances.generate_elastic(
        "guard", num_jobs=4, num_hosts=2, max_workers=3, max_ps=3, seed=seed
    )
    value = alloc.objective("weighted_jct").evaluate
    planned = simulate(instance, make_scheduler("rolling-horizon"))
    rules = [simulate(instance, make_scheduler(name)) for name in ("srtf", "set-rule")]
    best = min(value(instance, found.schedule) for found in rules)
    assert value(instance, planned.schedule) <= 1.05 * best
