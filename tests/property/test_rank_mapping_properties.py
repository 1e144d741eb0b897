"""Rank mapping: names do not matter, more traffic costs more, more bandwidth never hurts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.problems.rank_mapping import block_chains, step_time, transfer_time
from alloc.solving import solve
from alloc.solving.quadratic_assignment.bounds import gilmore_lawler_bound
from alloc.solving.rank_mapping.method import assignment_problem, map_ranks
from alloc.topology.communication import CommunicationGraph, CommunicationTree
from alloc.workload.parallelism import Parallelism

bytes_ = st.floats(0, 1e9)


@st.composite
def jobs(draw: st.DrawFn) -> Parallelism:
    data = draw(st.sampled_from([1, 2, 3, 4, 6]))
    return Parallelism(
        draw(st.sampled_from([1, 2, 4])),
        draw(st.integers(1, 3)),
        data,
        draw(st.sampled_from([e for e in (1, 2, 3) if data % e == 0])),
        tensor_bytes=draw(bytes_),
        tensor_operations=draw(st.integers(0, 3)),
        data_bytes=draw(bytes_),
        expert_bytes=draw(bytes_),
        expert_operations=draw(st.integers(0, 3)),
        pipeline_bytes=draw(bytes_),
        micro_batches=draw(st.integers(1, 3)),
    )


@st.composite
def trees(draw: st.DrawFn, num_gpus: int) -> CommunicationTree:
    depth = draw(st.integers(1, 3))
    domains = np.zeros((num_gpus, depth), dtype=int)
    for level in range(1, depth):
        inner = draw(st.lists(st.integers(0, 3), min_size=num_gpus, max_size=num_gpus))
        domains[:, level] = domains[:, level - 1] * 4 + np.array(inner)
    width = sorted(draw(st.lists(st.floats(1, 500), min_size=depth, max_size=depth)))
    wait = sorted(draw(st.lists(st.floats(0, 1e-4), min_size=depth, max_size=depth)))[::-1]
    return CommunicationTree(
        tuple(f"g{g}" for g in range(num_gpus)),
        ("top", "rack", "host")[:depth],
        domains,
        np.array(width),
        np.array(wait),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Parallelism, CommunicationTree, np.ndarray]:
    job = draw(jobs())
    tree = draw(trees(job.num_ranks + draw(st.integers(0, 2))))
    places = np.array(draw(st.permutations(range(tree.num_gpus))))[: job.num_ranks]
    return job, tree, places


def relabelled(tree: CommunicationTree, order: np.ndarray) -> CommunicationTree:
    return CommunicationTree(
        tuple(tree.gpus[g] for g in order),
        tree.levels,
        tree.domains[order],
        tree.bandwidth_gb_per_s,
        tree.latency_s,
    )


@settings(max_examples=60, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_in_which_gpus_are_listed_leaves_the_value(case, random):
    job, tree, places = case
    order = list(range(tree.num_gpus))
    random.shuffle(order)
    other = relabelled(tree, np.array(order))
    moved = np.argsort(order)[places]
    assert step_time(job, other, moved) == step_time(job, tree, places)
    assert transfer_time(job, other, moved) == pytest.approx(transfer_time(job, tree, places))


@settings(max_examples=25, deadline=None)
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_in_which_gpus_are_listed_leaves_the_optimum(case, random):
    job, tree, _ = case
    order = list(range(tree.num_gpus))
    random.shuffle(order)
    one, other = map_ranks(tree, job), map_ranks(relabelled(tree, np.array(order)), job)
    if one.status == other.status == "optimal":
        assert one.objective == pytest.approx(other.objective, rel=1e-5, abs=1e-12)
    for mine, yours in ((one, other), (other, one)):
        assert mine.bound <= yours.objective * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_relabelling_ranks_of_a_group_leaves_the_value(case):
    """Tensor ranks are alike: the first and the last may change places in all groups at once."""
    job, tree, places = case
    grid = places.reshape(job.pipeline, job.data, job.tensor)[:, :, ::-1]
    assert step_time(job, tree, grid.reshape(-1)).step_s == pytest.approx(
        step_time(job, tree, places).step_s
    )


@settings(max_examples=60, deadline=None)
@given(cases(), st.floats(1, 8))
def test_traffic_scales_the_cost(case, factor):
    job, tree, places = case
    quick = CommunicationTree(
        tree.gpus, tree.levels, tree.domains, tree.bandwidth_gb_per_s, 0 * tree.latency_s
    )
    more = job.replace(
        **{f"{k}_bytes": factor * getattr(job, f"{k}_bytes") for k in ("tensor", "data", "expert")},
        pipeline_bytes=factor * job.pipeline_bytes,
    )
    before, after = (step_time(each, quick, places).step_s for each in (job, more))
    assert after == pytest.approx(factor * before)
    assert transfer_time(more, tree, places) == pytest.approx(
        factor * transfer_time(job, tree, places)
    )


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(cases(), st.lists(st.floats(1, 4), min_size=3, max_size=3))
def test_adding_bandwidth_never_hurts(case, factors):
    """Neither a given mapping nor the best one."""
    job, tree, places = case
    grown = tree.bandwidth_gb_per_s * np.maximum.accumulate(factors[: len(tree.levels)])
    wider = CommunicationTree(tree.gpus, tree.levels, tree.domains, grown, tree.latency_s)
    before = step_time(job, tree, places).step_s
    assert step_time(job, wider, places).step_s <= before * (1 + 1e-12)
    assert map_ranks(wider, job).bound <= map_ranks(tree, job).objective * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_the_answer_is_never_worse_than_any_order_and_never_below_its_bound(case):
    job, tree, places = case
    answer = map_ranks(tree, job)
    assert answer.bound <= answer.objective
    assert answer.bound <= step_time(job, tree, places).step_s * (1 + 1e-9)
    naive = step_time(job, tree, np.arange(job.num_ranks)).step_s
    assert answer.objective <= naive * (1 + 1e-12)
    assert len(set(answer.solution.gpus)) == job.num_ranks


@settings(max_examples=60, deadline=None)
@given(cases())
def test_blocks_are_divisors_of_each_other_from_outside_in(case):
    job, tree, places = case
    for kind in ("tensor", "data", "expert"):
        chains = block_chains(tree, places[job.groups(kind)])
        assert (chains[:, 0] == job.size(kind)).all()
        assert (chains[:, -1] == 1).all()
        assert (chains[:, :-1] % chains[:, 1:] == 0).all()


@st.composite
def assignments(draw: st.DrawFn) -> QuadraticAssignment:
    n = draw(st.integers(2, 5))
    numbers = st.lists(st.integers(-5, 9), min_size=n * n, max_size=n * n)
    flow, distance = (np.array(draw(numbers), dtype=float).reshape(n, n) for _ in range(2))
    return QuadraticAssignment("drawn", flow, distance)


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(assignments(), st.randoms(use_true_random=False), st.integers(2, 5))
def test_the_optimum_of_an_assignment_survives_relabelling_and_scaling(problem, random, factor):
    order = list(range(problem.size))
    random.shuffle(order)
    shuffled = QuadraticAssignment(
        "shuffled", problem.flow[np.ix_(order, order)], factor * problem.distance
    )
    one, other = solve(problem), solve(shuffled)
    assert one.status == other.status == "optimal"
    assert other.objective == pytest.approx(factor * one.objective)
    assert gilmore_lawler_bound(problem) <= one.objective + 1e-6


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_a_faster_pair_never_hurts_on_a_graph(seed):
    rng = np.random.default_rng(seed)
    job = Parallelism(2, 1, 2, 1, 1e8, 2, 1e9)
    width = rng.uniform(5, 50, (4, 4))
    graph = CommunicationGraph(tuple("abcd"), width, np.array(0.0))
    before = solve(assignment_problem(graph, job))
    best = map_ranks(graph, job)
    width[rng.integers(4), rng.integers(4)] *= 3
    wider = CommunicationGraph(tuple("abcd"), width, np.array(0.0))
    assert before.status == "optimal"
    assert map_ranks(wider, job).objective <= best.objective * (1 + 1e-9)
