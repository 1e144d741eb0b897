"""Named policies of operation: what each is for, and that a board keeps its books."""

from typing import Any

import numpy as np
import pytest

from alloc.errors import CertificateError, InstanceError
from alloc.families import FAMILIES
from alloc.instances.operation import generate_operation
from alloc.models.operation import operation_data
from alloc.problems.operation.problem import (
    NodePool,
    NodeType,
    OperationJob,
    OperationPlan,
    OperationProblem,
    RunningJob,
)
from alloc.solving.certify import certify
from alloc.solving.operation.partial_plan import OFF, PartialPlan
from alloc.solving.operation.policies import POLICIES, decide_operation
from alloc.solving.operation.rules import insert
from alloc.solving.operation.search import path_relinking, randomised_greedy
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.solver import solve
from alloc.verification.operation import operation_costs, verify_operation

PROBLEM = generate_operation(num_nodes=5, num_jobs=22, kind="own", stops=True, seed=4)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("kind", ["own", "cloud"])
def test_every_policy_gives_a_sound_plan_with_its_name(name, kind):
    problem = generate_operation(num_nodes=4, num_jobs=15, kind=kind, stops=True, seed=7)
    result = decide_operation(problem, name, Settings(time_limit_s=5.0))
    assert verify_operation(problem, result.solution) == []
    assert result.certificate.verified
    assert np.isfinite(result.certificate.bound) == POLICIES[name].proves
    if not POLICIES[name].proves:
        assert result.certificate.backend.startswith(name)
        assert result.certificate.bound_proof == "none"


def test_a_misspelled_policy_is_refused_with_the_nearest():
    with pytest.raises(InstanceError, match='did you mean "path-relinking"'):
        decide_operation(PROBLEM, "path-relinkin")


def test_first_principle_rules_share_no_node():
    for name in ("fifo", "edf"):
        plan = decide_operation(PROBLEM, name).solution
        assert all(len(node.jobs) == 1 for node in plan.nodes)
        assert len(plan.nodes) == 5


def test_edf_serves_the_earliest_due_dates():
    plan = decide_operation(PROBLEM, "edf").solution
    due = {job.id: job.due_date_s for job in PROBLEM.jobs}
    assert max(due[j] for j in plan.place_of) <= min(due[j] for j in plan.postponed)


def test_path_relinking_improves_on_its_elite_and_repeats_itself():
    """Same seed, same plan; and never worse than the randomised greedy it starts from."""
    data = operation_data(PROBLEM)

    def run(search, number):
        return search(data, np.random.default_rng(1), number, lambda: False)

    relinked = run(path_relinking, 20)
    assert relinked.cost <= run(randomised_greedy, 20)[0].cost
    assert relinked.plan() == run(path_relinking, 20).plan()
    assert relinked.cost >= solve(PROBLEM).objective - 1e-6


def test_searches_stop_when_told():
    data = operation_data(PROBLEM)
    boards = randomised_greedy(data, np.random.default_rng(0), 10**6, lambda: True)
    assert len(boards) == 1
    stopped = path_relinking(data, np.random.default_rng(0), 10**6, lambda: True)
    assert verify_operation(PROBLEM, stopped.plan()) == []


@pytest.mark.parametrize("accounting", ["first-completion", "whole-job"])
@pytest.mark.parametrize("seed", range(4))
def test_a_board_keeps_its_books_through_all_moves(accounting, seed):
    """Hundreds of random moves: the cost kept up to date is the checker's of the plan."""
    problem = generate_operation(num_nodes=4, num_jobs=14, seed=seed, accounting=accounting)
    data = operation_data(problem)
    board, rng = PartialPlan(data), np.random.default_rng(seed)
    for _ in range(150):
        job = int(rng.integers(data.num_jobs))
        if board.node_of[job] != OFF:
            board.take(job)
            continue
        options, squeeze, other = board.options(job), board.squeeze(job), board.replacement(job)
        before = board.cost
        move = rng.integers(3)
        if move == 0 and len(options):
            k = int(rng.integers(len(options)))
            board.put(job, options, k)
            added = options.cost[k]
        elif move == 1 and squeeze is not None:
            board.put_squeezed(job, squeeze)
            added = squeeze.cost
        elif move == 2 and other is not None:
            board.replace(job, other[0])
            added = other[1]
        else:
            continue
        assert board.cost - before == pytest.approx(added - data.wait_cost[job], abs=1e-6)
        plan = board.copy().plan()
        assert verify_operation(problem, plan) == []
        assert board.cost == pytest.approx(operation_costs(problem, plan).total, rel=1e-9)
    assert sorted(board.waiting()) == sorted(problem.job_index[j] for j in board.plan().postponed)


def test_a_board_respects_the_power_cap():
    """Two nodes of 300 W under a cap of 500 W: the second job shares the first node or waits."""
    node = NodeType("t", 1, power_w=(300.0,))
    jobs = tuple(OperationJob(f"j{k}", {"t": (60.0,)}, 90.0, 100.0) for k in range(2))
    problem = OperationProblem(
        "capped", (node,), (NodePool("n", 2, ("t",)),), jobs, power_cap_w=500.0
    )
    board = PartialPlan(operation_data(problem))
    for job in (0, 1):
        insert(board, job)
    assert board.waiting() == [1]
    assert board.power_w == 300.0


def test_jobs_that_go_on_keep_their_nodes():
    """The plan names nodes so that as few running jobs as possible move between equal ones."""
    first = solve(PROBLEM).solution
    places: list[dict[str, Any]] = [
        {"job": job, "node": node.node, "type": node.type, "gpus": gpus}
        for node in first.nodes
        for job, gpus in node.jobs
    ]
    again = solve(PROBLEM.replace(running=tuple(RunningJob(**p) for p in places))).solution
    assert {(n.node, n.type, n.jobs) for n in again.nodes} == {
        (n.node, n.type, n.jobs) for n in first.nodes
    }


def certified(plan, bound):
    outcome = Outcome(plan, bound, "claimed", "x", "y")
    return certify(FAMILIES["operation"], PROBLEM, "operation-cost", outcome, Settings())


def test_a_false_bound_is_an_error():
    """A claim above the cost of its own plan never leaves the house."""
    plan = decide_operation(PROBLEM, "greedy").solution
    with pytest.raises(CertificateError, match="the bound is false"):
        certified(plan, 1e9)


def test_a_broken_plan_is_an_error():
    with pytest.raises(CertificateError, match=r"breaks a rule: job .* neither runs nor waits"):
        certified(OperationPlan(()), 0.0)
