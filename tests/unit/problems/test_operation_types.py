"""Decisions in operation: what is refused, with one sentence and the cure."""

from dataclasses import replace

import pytest

from alloc.errors import InstanceError
from alloc.problems.operation.job_stream import OperationStream, StreamJob
from alloc.problems.operation.problem import (
    EarlyStop,
    NodePool,
    NodeType,
    OperationJob,
    OperationPlan,
    OperationProblem,
    RunningJob,
)

TYPE = NodeType("small", 2, (1.0, 1.5), (300.0, 400.0))
POOL = NodePool("rack", 2, ("small",))
JOB = OperationJob("a", {"small": (3600.0, 2000.0)}, due_date_s=7200.0, tardiness_cost_per_h=1.0)


def problem(**changes):
    given = {"types": (TYPE,), "pools": (POOL,), "jobs": (JOB,), **changes}
    return OperationProblem("p", **given)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: NodeType("", 1), "empty name"),
        (lambda: NodeType("x", 0), "num_gpus is 0; it must be 1 or more"),
        (lambda: NodeType("x", 65), "a node is one server"),
        (lambda: NodeType("x", 2, (1.0,)), "price_per_h has 1 numbers for 2 GPUs"),
        (lambda: NodeType("x", 2, (-1.0, 1.0)), "price_per_h with 1 GPUs in use is -1; it must be"),
        (lambda: NodeType("x", 2, (2.0, 1.0)), "falls from 2 to 1 when 2 GPUs"),
        (lambda: NodeType("x", 1, power_w=(float("nan"),)), "give a finite number"),
        (lambda: NodePool("", 1, ("x",)), "empty name"),
        (lambda: NodePool("r", 0, ("x",)), "count is 0"),
        (lambda: NodePool("r", 1, ()), "name at least one type"),
        (lambda: EarlyStop(1.0, 0.5), "the fraction lies between 0 and 1"),
        (lambda: EarlyStop(0.5, 0.0), "so does the probability"),
        (lambda: replace(JOB, id=""), "empty id"),
        (lambda: replace(JOB, duration_s={}), "has no duration on any type"),
        (lambda: replace(JOB, duration_s={"small": (0.0,)}), "it must be more than 0"),
        (lambda: replace(JOB, tardiness_cost_per_h=-2.0), "tardiness_cost_per_h is -2"),
        (lambda: replace(JOB, arrival_s=9000.0), "due_date_s 7200 is not after its arrival 9000"),
        (
            lambda: replace(JOB, stops=(EarlyStop(0.5, 0.1), EarlyStop(0.2, 0.1))),
            "put them in order",
        ),
        (
            lambda: replace(JOB, stops=(EarlyStop(0.2, 0.7), EarlyStop(0.5, 0.7))),
            "add up to 1.4; together they are at most 1",
        ),
    ],
)
def test_bad_parts_are_refused(make, sentence):
    with pytest.raises(InstanceError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"types": ()}, "has no node type; give at least one"),
        ({"pools": ()}, "has no node pool"),
        ({"jobs": ()}, "has no job; give at least one"),
        ({"types": (TYPE, TYPE)}, 'node type "small" appears twice'),
        ({"jobs": (JOB, JOB)}, 'job "a" appears twice'),
        ({"pools": (POOL, NodePool("rack", 1, ("small",)))}, 'node pool "rack" appears twice'),
        ({"types": (replace(TYPE, currency="USD"),)}, "its price is in USD, and .* counts in EUR"),
        ({"types": (replace(TYPE, power_w=()),), "power_cap_w": 900.0}, "has a power cap; give"),
        ({"pools": (NodePool("r", 1, ("smal",)),)}, 'did you mean "small"'),
        ({"now_s": -1.0}, "now_s is -1"),
        ({"energy_price_per_kwh": -0.1}, "energy_price_per_kwh is -0.1"),
        ({"postponement_factor": -1.0}, "postponement_factor is -1"),
        ({"power_cap_w": 0.0}, "power_cap_w is 0; it must be more than 0"),
        ({"accounting": "whole"}, "accounting is .*known: first-completion, whole-job"),
        ({"jobs": (replace(JOB, arrival_s=60.0),)}, "arrives at 60 s, after now, 0 s"),
        ({"jobs": (replace(JOB, duration_s={"smal": (1.0,)}),)}, 'did you mean "small"'),
        (
            {"jobs": (replace(JOB, duration_s={"small": (3.0, 2.0, 1.0)}),)},
            "has a duration for 3 GPUs on .*which has 2",
        ),
        (
            {
                "types": (TYPE, NodeType("big", 8)),
                "jobs": (replace(JOB, duration_s={"big": (1.0,)}),),
            },
            "can run on no type that a pool offers",
        ),
        ({"running": (RunningJob("b", "rack-0", "small", 1),)}, "is not in jobs"),
        ({"running": (RunningJob("a", "rack-9", "small", 1),)}, 'did you mean "rack-0"|is in no'),
        ({"running": (RunningJob("a", "rack-0", "big", 1),)}, "cannot be of type"),
        ({"running": (RunningJob("a", "rack-0", "small", 3),)}, "holds 3 GPUs"),
        ({"running": (RunningJob("a", "rack-0", "small", 1),) * 2}, "appears twice"),
        (
            {
                "jobs": (JOB, replace(JOB, id="b")),
                "running": tuple(RunningJob(name, "rack-0", "small", 2) for name in "ab"),
            },
            'jobs "a" and "b": jobs on node "rack-0" hold 4 GPUs together, and a "small" has 2',
        ),
        (
            {
                "types": (TYPE, NodeType("big", 8)),
                "pools": (NodePool("rack", 2, ("small", "big")),),
                "jobs": (JOB, replace(JOB, id="b")),
                "running": (
                    RunningJob("a", "rack-0", "small", 1),
                    RunningJob("b", "rack-0", "big", 1),
                ),
            },
            'node "rack-0" is of type "small" for one and of "big" for the other',
        ),
    ],
)
def test_bad_decisions_are_refused(changes, sentence):
    with pytest.raises(InstanceError, match=sentence):
        problem(**changes)


def test_an_overdue_job_is_no_mistake():
    """A due date before now is a fact of a job that has waited, not an error of the document."""
    assert problem(now_s=9000.0).jobs[0].due_date_s == 7200.0


def test_a_restart_is_charged_unless_the_job_goes_on():
    moved = replace(JOB, restart_s=100.0)
    found = problem(jobs=(moved,), running=(RunningJob("a", "rack-1", "small", 2),))
    assert found.duration(moved, "small", 2) == 2000.0
    assert found.duration(moved, "small", 1) == 3700.0
    assert found.duration(moved, "small", 3) is None
    assert found.worst_duration(moved) == 3700.0


def test_what_no_pool_offers_is_not_feared():
    """A time on servers that are not here must not make a wait look worse than it can be."""
    slow_elsewhere = replace(JOB, duration_s={**JOB.duration_s, "old": (90000.0,)})
    found = problem(types=(TYPE, NodeType("old", 1)), jobs=(slow_elsewhere,))
    assert found.worst_duration(slow_elsewhere) == 3600.0


def test_the_fingerprint_is_that_of_the_problem():
    assert problem().fingerprint == problem().fingerprint
    assert problem().fingerprint != problem(now_s=1.0).fingerprint


def test_a_plan_knows_where_its_jobs_are():
    assert OperationPlan(()).place_of == {}


def test_a_stream_refuses_an_end_that_no_chance_allows():
    with pytest.raises(InstanceError, match=r"ends after 0.5 of its work; it ends after all of it"):
        StreamJob(JOB, 0.5)
    with pytest.raises(InstanceError, match="replan_s is 0"):
        OperationStream("s", (TYPE,), (POOL,), (StreamJob(JOB),), replan_s=0.0)
