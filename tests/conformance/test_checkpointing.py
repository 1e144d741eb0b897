"""F12: the formula against simulated failures, the method against Young's and Daly's interval."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import alloc
from alloc.errors import InstanceError, UnsupportedFeatureError
from alloc.instances.checkpointing import pretraining
from alloc.problems.checkpointing import CheckpointPlan, CheckpointProblem, Phase
from alloc.solving.checkpointing import save_points
from alloc.solving.outcome import Settings


def equal(count: int, mtbf_s: float, save_s: float = 1.0) -> CheckpointProblem:
    return CheckpointProblem("equal", (Phase(1.0, save_s),) * count, mtbf_s)


def simulated_s(problem: CheckpointProblem, plan: CheckpointPlan, rng: Random) -> float:
    """Run it once, failure by failure."""
    now, next_failure = 0.0, rng.expovariate(1 / problem.mtbf_s)
    begins = (0, *(k + 1 for k in plan.after))
    for begin, last in zip(begins, plan.after, strict=False):
        recovery = problem.phases[begin - 1].recovery_s if begin else problem.restart_s
        need = sum(p.work_s for p in problem.phases[begin : last + 1])
        need += problem.phases[last].checkpoint_s
        attempt = need
        while now + attempt > next_failure:
            now = next_failure + problem.downtime_s
            # Nothing fails while everything is down: the clock of failures stands still.
            next_failure = now + rng.expovariate(1 / problem.mtbf_s)
            attempt = recovery + need
        now += attempt
    return now


@pytest.mark.parametrize("mtbf_s", [3.0, 30.0])
def test_the_formula_is_the_mean_of_simulated_runs(mtbf_s):
    phases = (Phase(2.0, 0.5, 1.0), Phase(1.0, 1.5, 0.2), Phase(3.0, 0.1, 0.0), Phase(0.5, 0.2))
    problem = CheckpointProblem("run", phases, mtbf_s, downtime_s=0.7, restart_s=0.4)
    for plan in (CheckpointPlan((3,)), CheckpointPlan((0, 2, 3)), CheckpointPlan((1, 3))):
        rng = Random(7)
        runs = np.array([simulated_s(problem, plan, rng) for _ in range(20_000)])
        error = runs.std() / math.sqrt(len(runs))
        assert plan.expected_s(problem) == pytest.approx(runs.mean(), abs=4.5 * error)


@pytest.mark.parametrize(("mtbf_s", "save_s"), [(1e4, 2.0), (1e5, 5.0)])
def test_equal_phases_are_saved_near_daly_s_interval(mtbf_s, save_s):
    """Young (1974): the best interval is near sqrt(2 C M) where saves and failures are rare."""
    plan = alloc.solve(equal(4000, mtbf_s, save_s)).require_solution()
    intervals = np.diff([0, *plan.after])[1:-1]
    assert np.median(intervals) == pytest.approx(math.sqrt(2 * save_s * mtbf_s), rel=0.05)
    assert intervals.max() - intervals.min() <= 1


def test_the_expected_time_exceeds_the_work_by_what_failures_and_saves_cost():
    problem = equal(100, 1e12, save_s=0.0)
    assert alloc.solve(problem).objective == pytest.approx(100.0)
    values = [alloc.solve(equal(100, mtbf_s)).objective for mtbf_s in (1e6, 1e3, 1e2, 1e1)]
    assert values == sorted(values)


def test_a_run_without_failures_is_saved_once_and_one_beset_by_them_everywhere():
    assert alloc.solve(equal(50, 1e12)).solution == CheckpointPlan((49,))
    assert alloc.solve(equal(50, 0.1, save_s=0.0)).solution == CheckpointPlan(tuple(range(50)))


def test_out_of_time_every_claim_still_holds():
    problem = pretraining(num_phases=60)
    best = alloc.solve(problem)
    none = Settings(time_limit_s=0.0)
    outcome = save_points(problem, "expected_time", none, None, lambda line: None)
    assert outcome.limit == "time"
    assert alloc.verify(problem, outcome.solution) == []
    assert outcome.bound <= best.objective <= outcome.solution.expected_s(problem)


@pytest.mark.parametrize(
    ("after", "codes"),
    [((2,), set()), ((0, 1), {"end"}), ((1, 0, 2), {"order"}), ((0, 2, 3), {"unknown_phase"})],
)
def test_the_checker_names_what_is_wrong(after, codes):
    found = alloc.verify(equal(3, 10.0), CheckpointPlan(after))
    assert {violation.code for violation in found} == codes


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda: CheckpointProblem("r", (), 1.0), "no phases"),
        (lambda: equal(1, 0.0), "mtbf_s is 0"),
        (lambda: CheckpointProblem("r", (Phase(0.0),), 1.0), "work_s is 0"),
        (lambda: CheckpointProblem("r", (Phase(1.0, -1.0),), 1.0), "checkpoint_s"),
        (lambda: CheckpointProblem("r", (Phase(math.nan),), 1.0), "work_s is nan"),
        (lambda: CheckpointProblem("r", (Phase(60.0),), 1.0), "never ends"),
        (lambda: pretraining(0), "num_gpus"),
        (lambda: CheckpointPlan((2.0, 5)), "after has 2.0"),  # type: ignore[arg-type]
        (lambda: CheckpointPlan((True,)), "after has True"),
    ],
)
def test_what_makes_no_sense_is_refused(build, part):
    with pytest.raises(InstanceError, match=part):
        build()


def test_a_model_of_too_many_stretches_is_refused_and_the_method_takes_it():
    problem = equal(3000, 1e4)
    with pytest.raises(UnsupportedFeatureError, match='use the method "auto"'):
        alloc.solve(problem, backend="highs")
    assert alloc.solve(problem).status == "optimal"


def test_a_side_constraint_of_one_s_own_is_kept():
    """At most two saves: fewer than are best, so that the run takes longer."""
    problem = equal(12, 6.0, save_s=0.5)
    model = alloc.model(problem)
    model.pyomo.at_most_two = _at_most(model.pyomo, 2)
    result = model.solve("appsi_highs")
    assert len(result.solution.after) == 2
    assert result.objective > alloc.solve(problem).objective


def _at_most(model, count):
    import pyomo.environ as pyo

    return pyo.Constraint(expr=pyo.quicksum(model.x[a] for a in model.STRETCHES) <= count)
