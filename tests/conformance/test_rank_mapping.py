"""Rank mapping and quadratic assignment: every model and method against all permutations."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from alloc.backends import SolverOptions, cpsat, pyomo_highs
from alloc.families import FAMILIES
from alloc.models import rank_mapping
from alloc.models.rank_mapping.counts import CountProblem, DomainTree
from alloc.models.rank_mapping.cpsat_model import counts_of, cpsat_counts
from alloc.models.rank_mapping.pyomo_model import pyomo_counts
from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.problems.rank_mapping import step_time, transfer_time
from alloc.solving import solve
from alloc.solving.rank_mapping.block_plans import _most_filled, block_chains_of, plans
from alloc.solving.rank_mapping.method import assignment_problem, map_ranks
from alloc.topology.communication import CommunicationGraph, CommunicationTree
from alloc.workload.parallelism import Parallelism

EXACT = SolverOptions(time_limit_s=60, gap=0.0)

# Tensor, pipeline, data and expert degrees.
SHAPES = [
    (2, 2, 1, 1),
    (2, 1, 2, 1),
    (1, 2, 2, 2),
    (1, 3, 2, 1),
    (3, 1, 2, 2),
    (2, 3, 1, 1),
    (1, 2, 3, 3),
    (6, 1, 1, 1),
    (1, 6, 1, 1),
    (1, 1, 6, 2),
]

FAMILY = FAMILIES["quadratic_assignment"]


def random_job(rng: np.random.Generator, shape: tuple[int, int, int, int]) -> Parallelism:
    return Parallelism(
        *shape,
        tensor_bytes=1e6 * rng.random(),
        tensor_operations=int(rng.integers(0, 5)),
        data_bytes=1e7 * rng.random(),
        expert_bytes=1e6 * rng.random(),
        expert_operations=int(rng.integers(0, 5)),
        pipeline_bytes=1e6 * rng.random(),
        micro_batches=int(rng.integers(1, 4)),
    )


def random_tree(rng: np.random.Generator, num_gpus: int) -> CommunicationTree:
    """Return a tree with domains of any sizes."""
    depth = int(rng.integers(1, 4))
    domains = np.zeros((num_gpus, depth), dtype=int)
    for level in range(1, depth):
        inner = rng.integers(0, rng.integers(2, 4), size=num_gpus)
        domains[:, level] = domains[:, level - 1] * 4 + inner
    return CommunicationTree(
        tuple(f"g{g}" for g in range(num_gpus)),
        ("top", "rack", "host")[:depth],
        domains,
        np.sort(rng.choice([1, 2, 5, 10, 50, 100], size=depth)).astype(float),
        np.sort(rng.choice([0, 1e-6, 5e-6, 1e-5], size=depth))[::-1],
    )


@pytest.mark.parametrize("seed", range(24))
def test_the_tree_answer_is_the_best_of_all_permutations(seed):
    """Counts stand for mappings: nothing may be lost by it, whatever the sizes of domains."""
    rng = np.random.default_rng(seed)
    job = random_job(rng, SHAPES[seed % len(SHAPES)])
    spare = int(seed % 3 == 0 and job.num_ranks < 6)
    tree = random_tree(rng, job.num_ranks + spare)
    answer = map_ranks(tree, job)
    best = min(
        step_time(job, tree, np.array(places)).step_s
        for places in itertools.permutations(range(tree.num_gpus), job.num_ranks)
    )
    assert answer.status == "optimal"
    assert answer.objective == pytest.approx(best)
    assert answer.bound <= best * (1 + 1e-9)
    assert answer.objective == answer.solution.time.step_s


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 1, 2, 1), (2, 1, 4, 2), (2, 2, 2, 1), (4, 2, 1, 1)])
def test_blocks_that_are_parts_of_both_groups_lose_nothing_either(shape):
    """With eight ranks tensor and data groups can both be cut in halves, the hardest case."""
    rng = np.random.default_rng(sum(shape))
    job, tree = random_job(rng, shape), random_tree(rng, 8)
    answer = map_ranks(tree, job)
    best = min(
        step_time(job, tree, np.array(places)).step_s for places in itertools.permutations(range(8))
    )
    assert answer.bound <= best * (1 + 1e-9)
    assert answer.objective == pytest.approx(best)


def random_counts(seed: int) -> CountProblem:
    """Return a count problem whose cells have room, with boundaries that need not be cut."""
    rng = np.random.default_rng(seed)
    while True:
        tree = random_tree(rng, int(rng.integers(8, 19)))
        depth = len(tree.levels)
        tensor, data = (
            rng.permutation(block_chains_of(int(rng.integers(1, 5)), depth))[0, :-1].tolist()
            for _ in range(2)
        )
        problem = CountProblem(
            DomainTree.of(tree),
            tuple(tensor),
            tuple(data),
            int(rng.integers(2, 6)),
            tuple(np.sort(rng.random(depth))[::-1].tolist()),
            int(rng.integers(1, 4)),
        )
        if problem.has_room() and problem.open_levels > 1:
            return problem


def cuts_of(problem: CountProblem, x: list[np.ndarray]) -> tuple[int, ...]:
    return tuple(int((np.diff(level, axis=1) != 0).any(axis=0).sum()) for level in x)


@pytest.mark.parametrize("seed", range(20))
def test_the_models_of_counts_have_one_optimum(seed):
    problem = random_counts(seed)
    raw = cpsat.solve(cpsat_counts(problem), EXACT)
    board = pyomo_highs.solve(pyomo_counts(problem), EXACT)
    assert raw.status == board.status == "optimal"
    assert raw.objective == pytest.approx(board.objective, abs=1e-6)
    # What the counts say is what they cost, and what the mapping made of them costs.
    assert raw.values is not None
    x = counts_of(problem, raw.values)
    assert problem.pipeline_s(cuts_of(problem, x)) == pytest.approx(raw.objective, abs=1e-6)
    assert problem.pipeline_s(problem.least_cuts()) <= raw.objective + 1e-6
    again = cpsat.solve(cpsat_counts(problem, cuts_of(problem, x)), EXACT)
    assert again.objective == pytest.approx(raw.objective, abs=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_that_no_answer_makes_does_not_set_the_unit(seed):
    """One dear level made the others' costs a rounding error: bounds 1e-4 below the optimum."""
    problem = random_counts(seed)
    plain = cpsat.solve(cpsat_counts(problem), EXACT)
    assert plain.values is not None
    cuts = cuts_of(problem, counts_of(problem, plain.values))
    whole = next((n for n in range(1, problem.open_levels) if cuts[n]), problem.open_levels)
    dear = tuple(1e6 * s if n < whole - 1 else s for n, s in enumerate(problem.boundary_s))
    problem = replace(problem, boundary_s=dear)
    raw = cpsat.solve(cpsat_counts(problem, cuts), EXACT)
    assert raw.objective == pytest.approx(problem.pipeline_s(cuts), rel=1e-9)
    assert raw.bound == pytest.approx(raw.objective, rel=1e-7)


@pytest.mark.parametrize("seed", range(20))
def test_a_mapping_made_of_counts_cuts_no_more_than_they_say(seed):
    """The page's argument why counts are enough, carried out."""
    problem = random_counts(seed + 100)
    raw = cpsat.solve(cpsat_counts(problem), EXACT)
    assert raw.values is not None
    x = counts_of(problem, raw.values)
    tensor, data = problem.tensor_blocks[0], problem.data_blocks[0]
    places = problem.places(x, tensor, data)
    assert len(np.unique(places)) == len(places) == tensor * data * problem.stages
    # Which domain of each level holds a GPU.
    domains = problem.domains
    holder = np.zeros((domains.depth, sum(map(len, domains.gpus))), dtype=int)
    for v, gpus in enumerate(domains.gpus):
        holder[-1, gpus] = v
    for level in range(domains.depth - 2, -1, -1):
        holder[level] = domains.parent[level + 1][holder[level + 1]]
    chains = places.reshape(problem.stages, -1)
    for level, cuts in enumerate(cuts_of(problem, x)):
        left = (np.diff(holder[level][chains], axis=0) != 0).any(axis=1).sum()
        assert left <= cuts


@pytest.mark.parametrize("seed", range(6))
def test_equal_runs_fit_where_they_say(seed):
    problem = random_counts(seed + 200)
    found = list(problem.equal_runs())
    assert found
    for runs, cuts in found:
        x = problem.counts_of_runs(runs)
        for level in range(problem.depth):
            assert (x[level].sum(axis=0) == problem.cells(level)).all()
        assert (problem.cell[-1] * x[-1].sum(axis=1) <= problem.domains.room).all()
        assert all(a <= b for a, b in zip(cuts_of(problem, x), cuts, strict=True))


def test_domains_without_the_fewest_ranks_are_left_out():
    tree = CommunicationTree(
        tuple("abcde"),
        ("top", "host"),
        np.array([[0, 0], [0, 0], [0, 0], [0, 1], [0, 1]]),
        np.array([1.0, 2.0]),
        np.zeros(2),
    )
    problem = CountProblem(DomainTree.of(tree), (1, 1), (5, 1), 1, (0.0, 0.0), 1)
    assert problem.has_room()
    assert not replace(problem, fewest=(5, 3)).has_room()


def test_the_fastest_plan_comes_first_and_promises_no_more_than_its_blocks_take():
    rng = np.random.default_rng(5)
    tree, job = random_tree(rng, 12), random_job(rng, (2, 1, 6, 2))
    found = plans(job, tree, "auto")
    assert [plan.seconds for plan in found] == sorted(plan.seconds for plan in found)
    assert all(plan.tensor_blocks[0] == 2 and plan.data_blocks[0] == 6 for plan in found)


def test_hosts_filled_by_blocks_of_two_kinds_are_counted_as_filled():
    """A room of 7 holds two blocks of 3, or one of 5: 6 of 7; of 8 all, 3 + 5."""
    assert _most_filled([3, 5], 9).tolist() == [0, 0, 0, 3, 3, 5, 6, 6, 8, 9]
    assert _most_filled([10], 3).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_hosts_of_odd_sizes_leave_no_gap_that_is_not_there(seed):
    """Twelve data ranks on hosts of 3, 4 and 6: blocks of three and four need blocks of one."""
    rng = np.random.default_rng(seed)
    rooms = rng.permutation([3, 4, 6, 4, 3, 4])
    domains = np.array([[0, h] for h, room in enumerate(rooms) for _ in range(room)])
    tree = CommunicationTree(
        tuple(f"g{g}" for g in range(24)),
        ("top", "host"),
        domains,
        np.array([1.0, 1000.0]),
        np.zeros(2),
    )
    answer = map_ranks(tree, Parallelism(data=12, data_bytes=1e9))
    # Blocks of four: 4 + 4 + 4, or one of the hosts of six.
    assert answer.status == "optimal"
    assert answer.objective == pytest.approx(2 * 11 / 12 * 1e9 / (4 * 1e9))


def random_assignment(seed: int, n: int, kind: str) -> QuadraticAssignment:
    rng = np.random.default_rng(seed)
    flow, distance = rng.integers(0, 7, (2, n, n)).astype(float)
    if kind == "symmetric":
        flow, distance = flow + flow.T, distance + distance.T
    if kind == "negative":
        flow, distance = flow - 3, distance - 3
    if kind == "fractional":
        flow = flow * rng.random((n, n))
    return QuadraticAssignment(kind, flow, distance)


@pytest.mark.parametrize("kind", ["symmetric", "general", "negative", "fractional"])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_the_models_of_assignment_have_the_optimum_of_all_permutations(kind, n):
    problem = random_assignment(n, n, kind)
    best = min(problem.cost(p) for p in itertools.permutations(range(n)))
    raw = cpsat.solve(FAMILY.build("cpsat", problem).model, EXACT)
    board = pyomo_highs.solve(FAMILY.build("pyomo", problem).model, EXACT)
    own = solve(problem)
    assert raw.objective == pytest.approx(best, abs=1e-5)
    assert board.objective == pytest.approx(best, abs=1e-5)
    assert own.objective == pytest.approx(best)
    assert raw.bound <= best + 1e-5
    assert raw.values is not None
    assert problem.cost(raw.values.astype(int)) == pytest.approx(best, abs=1e-5)
    assert board.values is not None
    places = board.values.reshape(n, n).argmax(axis=1)
    assert problem.cost(places) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_answer_on_a_graph_is_the_best_of_all_permutations(seed):
    rng = np.random.default_rng(seed)
    job = random_job(rng, SHAPES[seed])
    width = rng.choice([10.0, 25.0, 50.0], size=(6, 6))
    width = np.maximum(width, width.T) if seed % 2 else width
    graph = CommunicationGraph(tuple("abcdef"), width, np.array(1e-6))
    answer = map_ranks(graph, job)
    best = min(
        transfer_time(job, graph, np.array(places))
        for places in itertools.permutations(range(6), job.num_ranks)
    )
    assert answer.status == "optimal"
    assert answer.objective == pytest.approx(best)
    assert answer.bound <= best * (1 + 1e-9)


def test_the_assignment_of_a_mapping_is_its_traffic_in_another_unit():
    rng = np.random.default_rng(0)
    job = random_job(rng, (2, 1, 2, 1))
    graph = CommunicationGraph(tuple("abcde"), rng.choice([10.0, 50.0], size=(5, 5)), np.array(0.0))
    problem = assignment_problem(graph, job)
    ratios = []
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [3, 4, 1, 2, 0]):
        ratios.append(transfer_time(job, graph, np.array(order[:4])) / problem.cost(order))
    assert ratios == pytest.approx([ratios[0]] * 3)


def test_the_page_tells_every_constraint_of_the_drawings():
    """Names in the code are those of the page, so that one can be checked against the other."""
    page = rank_mapping.__doc__ or ""
    names = set(dir(pyomo_counts(random_counts(3)).model))
    stated = {name.partition("_")[0] for name in names if name[:1] == "C" and name[1:2].isdigit()}
    assert stated == {"C1", "C2", "C3", "C4", "C5", "C6"}
    assert all(f"({name})" in page for name in stated)
    assert rank_mapping.cpsat_counts is cpsat_counts
    with pytest.raises(AttributeError, match="no attribute"):
        _ = rank_mapping.cpsat_count
