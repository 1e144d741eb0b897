"""STS: the program over stages against every sequence, and what it is for."""

import itertools

import numpy as np
import pytest

from alloc.problems.operation.problem import (
    EarlyStop,
    NodePool,
    NodeType,
    OperationJob,
    OperationProblem,
    RunningJob,
)
from alloc.solving.operation.stages import first_stage_costs, stage_plan

# A GPU costs 1 an hour, whatever the node.
TYPES = (NodeType("a", 4, (1.0, 2.0, 3.0, 4.0)), NodeType("b", 1, (1.0,)))
POOLS = (NodePool("n", 2, ("a", "b")),)


def decision(job, **changes):
    return OperationProblem("stages", TYPES, POOLS, (job,), **changes)


def every_sequence(problem, job):
    """Return the expected cost of every sequence of ways, scenario by scenario."""
    ways = [(v, g) for v, times in job.duration_s.items() for g in range(1, len(times) + 1)]
    ends = [*(stop.fraction for stop in job.stops), 1.0]
    chances = [stop.probability for stop in job.stops]
    chances.append(1.0 - sum(chances))
    running = problem.running_as.get(job.id)
    costs = {}
    for sequence in itertools.product(ways, repeat=len(ends)):
        expected = 0.0
        for last, chance in enumerate(chances):
            hours = money = begun = 0.0
            before = (running.type, running.gpus) if running else None
            for end, (v, g) in zip(ends[: last + 1], sequence, strict=False):
                added = (end - begun) * job.duration_s[v][g - 1] / 3600
                if before != (v, g):
                    added += job.restart_s / 3600
                hours, money = hours + added, money + g * added
                begun, before = end, (v, g)
            late = max(problem.now_s / 3600 + hours - job.due_date_s / 3600, 0.0)
            expected += chance * (money + job.tardiness_cost_per_h * late)
        costs[sequence] = expected
    return costs


@pytest.mark.parametrize("seed", range(12))
def test_the_program_finds_the_best_of_all_sequences(seed):
    """Every sequence of ways is tried in every scenario of stopping, by hand."""
    rng = np.random.default_rng(seed)
    hours = float(rng.uniform(1, 5))
    job = OperationJob(
        "j",
        {
            "a": tuple(3600 * hours / g**0.7 for g in (1, 2, 3, 4)),
            "b": (3600 * hours * float(rng.uniform(0.7, 1.3)),),
        },
        due_date_s=3600 * float(rng.uniform(0.5, 5)),
        tardiness_cost_per_h=float(rng.integers(0, 6)),
        restart_s=float(rng.choice([0.0, 300.0])),
        stops=(EarlyStop(0.3, float(rng.uniform(0.1, 0.5))), EarlyStop(0.6, 0.4)),
    )
    running = (RunningJob("j", "n-0", "a", 2),) if seed % 2 else ()
    problem = decision(job, running=running)
    costs = every_sequence(problem, job)
    plan = stage_plan(problem, "j")
    assert plan.expected_cost == pytest.approx(min(costs.values()), rel=1e-9)
    assert costs[plan.ways] == pytest.approx(plan.expected_cost, rel=1e-9)
    for way, cost in first_stage_costs(problem, job).items():
        best = min(c for sequence, c in costs.items() if sequence[0] == way)
        assert cost == pytest.approx(best, rel=1e-9)


def test_a_job_that_survives_is_given_more_gpus():
    """The idea of STS: few GPUs while it may well stop, more when tardiness comes near."""
    times = tuple(36_000 / g**0.6 for g in (1, 2, 3, 4))
    job = OperationJob("j", {"a": times}, 22_000.0, 6.0, stops=(EarlyStop(0.25, 0.8),))
    early, late = (gpus for _, gpus in stage_plan(decision(job), "j").ways)
    assert early < late
    sure = OperationJob("j", {"a": times}, 22_000.0, 6.0)
    ((_, always),) = stage_plan(decision(sure), "j").ways
    assert early <= always <= late


def test_what_is_likely_is_reported():
    """Half of the work in 2 h, in time; all of it in 4 h, too late: the chance of that is 1/4."""
    job = OperationJob("j", {"b": (14_400.0,)}, 10_000.0, 1.0, stops=(EarlyStop(0.5, 0.75),))
    plan = stage_plan(decision(job), "j")
    assert plan.expected_hours == pytest.approx(0.75 * 2 + 0.25 * 4)
    assert plan.late_probability == pytest.approx(0.25)
