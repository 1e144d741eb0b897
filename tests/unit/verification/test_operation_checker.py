"""The checker of operation, on numbers that fit on a napkin."""

import pytest

from alloc.errors import InstanceError
from alloc.problems.operation.problem import (
    EarlyStop,
    NodePlan,
    NodePool,
    NodeType,
    OperationJob,
    OperationPlan,
    OperationProblem,
)
from alloc.verification.operation import operation_costs, verify_operation

# 2 an hour with one GPU in use, 3 with two; 1 kW or 1.5 kW at 2 a kWh on top: 4 and 6 an hour.
TYPE = NodeType("t", 2, (2.0, 3.0), (1000.0, 1500.0))
JOBS = (
    OperationJob("fast", {"t": (3600.0, 1800.0)}, 7200.0, 10.0),
    OperationJob("slow", {"t": (10800.0,)}, 7200.0, 10.0, stops=(EarlyStop(0.5, 0.5),)),
)


def problem(**changes):
    given = {"energy_price_per_kwh": 2.0, "replan_s": 3600.0, **changes}
    return OperationProblem("napkin", (TYPE,), (NodePool("n", 1, ("t",)),), JOBS, **given)


BOTH = OperationPlan((NodePlan("n-0", "t", (("fast", 1), ("slow", 1))),))
ALONE = OperationPlan((NodePlan("n-0", "t", (("fast", 2),)),), ("slow",))


def test_a_node_is_charged_until_its_first_completion():
    """Rates 3 + 1.5 kW x 2 = 6 for the hour until "fast" completes; "slow" is an hour late."""
    costs = operation_costs(problem(), BOTH)
    assert (costs.operating, costs.tardiness, costs.postponement) == (6.0, 10.0, 0.0)
    assert costs.power_w == 1500.0
    assert costs.total == 16.0


def test_a_postponed_job_fears_its_slowest_run_after_the_next_decision():
    """An hour of waiting and three of running are two too many; rho 3 triples them."""
    costs = operation_costs(problem(postponement_factor=3.0), ALONE)
    assert (costs.operating, costs.tardiness, costs.postponement) == (3.0, 0.0, 60.0)


def test_whole_jobs_pay_their_share_to_the_end():
    """A GPU's share is min(4/1, 6/2) = 3: one hour and three hours of it; nothing is left over."""
    costs = operation_costs(problem(accounting="whole-job"), BOTH)
    assert costs.operating == pytest.approx(3.0 * (1 + 3))
    alone = operation_costs(problem(accounting="whole-job"), ALONE)
    # Waiting costs the tardiness to be feared and the share of three hours that will be paid.
    assert alone.postponement == pytest.approx(20.0 + 9.0)


def test_expected_costs_weigh_early_stops():
    """Half of the time "slow" stops after 1.5 of its 3 hours, in time: 5 instead of 10."""
    costs = operation_costs(problem(), BOTH, "expected-operation-cost")
    assert (costs.operating, costs.tardiness) == (6.0, 5.0)


def test_unknown_objectives_are_refused():
    with pytest.raises(InstanceError, match='did you mean "operation-cost"'):
        operation_costs(problem(), BOTH, "operation-costs")


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (OperationPlan((NodePlan("n-0", "t", (("fast", 2), ("slow", 1))),)), "node_gpus"),
        (OperationPlan((NodePlan("n-1", "t", (("fast", 1), ("slow", 1))),)), "unknown_node"),
        (OperationPlan((NodePlan("n-0", "u", (("fast", 1), ("slow", 1))),)), "node_type"),
        (OperationPlan((NodePlan("n-0", "t", (("fast", 1), ("slow", 1))),) * 2), "node_twice"),
        (OperationPlan((NodePlan("n-0", "t", ()),), ("fast", "slow")), "idle_node"),
        (OperationPlan((NodePlan("n-0", "t", (("slow", 2),)),), ("fast",)), "configuration"),
        (OperationPlan((), ("fast",)), "missing"),
        (OperationPlan((), ("fast", "slow", "slow")), "twice"),
        (OperationPlan((), ("fast", "slow", "slaw")), "unknown_job"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_found_out(plan, code):
    assert code in {violation.code for violation in verify_operation(problem(), plan)}


def test_the_power_cap_holds_for_all_nodes_together():
    assert verify_operation(problem(power_cap_w=1500.0), BOTH) == []
    found = verify_operation(problem(power_cap_w=1400.0), BOTH)
    assert [v.code for v in found] == ["power_cap"]
    assert found[0].amount == pytest.approx(100.0)


def test_impossible_runs_cost_infinitely_much():
    """A plan that a rule forbids is never mistaken for a cheap one."""
    plan = OperationPlan((NodePlan("n-0", "t", (("slow", 2),)),), ("fast",))
    assert operation_costs(problem(), plan).total == float("inf")
