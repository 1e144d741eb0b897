"""Co-location held against brute force, and against a matching algorithm of another library."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alloc
from alloc.errors import CertificateError, InstanceError
from alloc.problems.colocation import ColocationProblem, Packing
from alloc.result import Result
from alloc.solving import solve
from alloc.solving.colocation import method as colocation
from alloc.workload.interference import InterferenceTable


@st.composite
def tables(draw: st.DrawFn) -> InterferenceTable:
    """One to four kinds; speeds beside each other from impossible to better than alone."""
    number = draw(st.integers(1, 4))
    speeds = st.sampled_from((0.0, 0.3, 0.5, 0.8, 1.0, 1.1))
    beside = np.array([[draw(speeds) for _ in range(number)] for _ in range(number)])
    kinds = tuple("abcd"[:number])
    return InterferenceTable("gpu", kinds, np.ones(number), beside)


def worth(
    table: InterferenceTable, kinds: list[str], weights: list[float], jobs: list[int]
) -> float:
    """Return the value of jobs on one GPU, straight from the table; -inf if they cannot share."""
    speeds = table.speeds([kinds[j] for j in jobs])
    if speeds is None:
        return -np.inf
    return sum(weights[j] * speed for j, speed in zip(jobs, speeds, strict=True))


def brute_force(
    table: InterferenceTable, kinds: list[str], weights: list[float], gpus: int, most: int
) -> float:
    """Try every GPU, or none, for every job."""
    best = 0.0
    for where in itertools.product(range(gpus + 1), repeat=len(kinds)):
        groups = [[j for j, g in enumerate(where) if g == k] for k in range(gpus)]
        if all(len(group) <= most for group in groups):
            best = max(best, sum(worth(table, kinds, weights, g) for g in groups if g))
    return best


def check(
    packing: Result[Packing], table: InterferenceTable, kinds: list[str], weights: list[float]
) -> None:
    """Recompute the value, and that every job is somewhere once."""
    everyone = sorted(
        [*packing.solution.left_out, *(j for gpu in packing.solution.gpus for j in gpu)]
    )
    assert everyone == list(range(len(kinds)))
    total = sum(worth(table, kinds, weights, list(gpu)) for gpu in packing.solution.gpus)
    assert packing.objective == pytest.approx(total)


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(st.data())
def test_the_optimum_is_that_of_brute_force(data: st.DataObject) -> None:
    """Pairs and triples, with and without weights, on few GPUs."""
    table = data.draw(tables())
    kinds = data.draw(st.lists(st.sampled_from(table.kinds), min_size=1, max_size=5))
    weight = st.sampled_from((1.0, 1.0, 2.5))
    weights = data.draw(st.lists(weight, min_size=len(kinds), max_size=len(kinds)))
    gpus, most = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    packing = solve(ColocationProblem(kinds, table, gpus, max_per_gpu=most, weights=weights))
    check(packing, table, kinds, weights)
    expected = brute_force(table, kinds, weights, gpus, most)
    assert packing.objective == pytest.approx(expected)
    assert packing.bound >= expected - 1e-9
    assert packing.status == "optimal"


@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_a_maximum_weight_matching(seed: int) -> None:
    """With a GPU for every two jobs and no job left alone, blossoms give the same value."""
    rng = np.random.default_rng(seed)
    number = 24
    beside = rng.uniform(0.4, 1.0, (number, number))
    kinds = [f"k{j}" for j in range(number)]
    table = InterferenceTable("gpu", tuple(kinds), np.ones(number), beside)
    weights = rng.uniform(1, 2, number).tolist()
    graph = nx.Graph()
    for i, j in itertools.combinations(range(number), 2):
        graph.add_edge(i, j, weight=worth(table, kinds, weights, [i, j]))
    matched = nx.max_weight_matching(graph, maxcardinality=True)
    best = sum(graph.edges[edge]["weight"] for edge in matched)
    packing = solve(ColocationProblem(kinds, table, number // 2, weights=weights))
    assert packing.status == "optimal"
    # Fewer pairs and some jobs alone are allowed to `pack`, but cannot be better here: two jobs
    # together do more than either alone, and there are no GPUs to spare.
    assert packing.objective == pytest.approx(best)


def test_a_bundle_of_three_is_priced_by_products() -> None:
    """The assumption about triples is the product of the pairs' fractions."""
    beside = np.array([[0.9, 0.8], [0.7, 0.6]])
    table = InterferenceTable("gpu", ("a", "b"), np.ones(2), beside)
    packing = solve(ColocationProblem(["a", "a", "b"], table, 1, max_per_gpu=3))
    assert packing.solution.gpus == ((0, 1, 2),) or packing.solution.gpus == ((1, 0, 2),)
    assert packing.objective == pytest.approx(2 * 0.9 * 0.8 + 0.7 * 0.7)


def test_a_false_bound_is_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """If pricing missed good bundles the bound would be false: never in silence."""
    rng = np.random.default_rng(0)
    table = InterferenceTable("gpu", ("a", "b"), np.ones(2), rng.uniform(0.6, 1.0, (2, 2)))
    honest = colocation._prices
    monkeypatch.setattr(
        colocation,
        "_prices",
        lambda master, seconds: tuple(0.5 * part for part in honest(master, seconds)),
    )
    monkeypatch.setattr(
        colocation._Classes,
        "price",
        lambda self, prices, gpu, least, most: ([(0, 1)], 0.0),
    )
    with pytest.raises(CertificateError, match="the bound is false"):
        solve(ColocationProblem(["a", "b", "a", "b"], table, 2))


@pytest.mark.parametrize("way", ["auto", "highs", "pyomo"])
def test_nothing_to_pack(way: str) -> None:
    table = InterferenceTable("gpu", ("a",), np.ones(1), np.ones((1, 1)))
    for nobody in (ColocationProblem([], table, 3), ColocationProblem([], table, 0)):
        result = solve(nobody, backend=way)
        assert (result.status, result.objective) == ("optimal", 0)
    assert solve(ColocationProblem(["a"], table, 0), backend=way).solution.left_out == (0,)


def test_what_the_table_lacks_is_refused() -> None:
    table = InterferenceTable("v100", ("resnet",), np.ones(1), np.ones((1, 1)))
    with pytest.raises(InstanceError, match=r'"v100": has no kind "resne"; did you mean "resnet"'):
        solve(ColocationProblem(["resne"], table, 1))
    with pytest.raises(InstanceError, match="2 weights for 1 jobs"):
        solve(ColocationProblem(["resnet"], table, 1, weights=[1.0, 2.0]))
    with pytest.raises(InstanceError, match="a weight is not above 0"):
        solve(ColocationProblem(["resnet"], table, 1, weights=[0.0]))
    with pytest.raises(InstanceError, match=r"beside \(1, 2\); give \(1,\) and \(1, 1\)"):
        InterferenceTable("v100", ("a",), np.ones(1), np.ones((1, 2)))
    with pytest.raises(InstanceError, match="a kind appears twice"):
        InterferenceTable("v100", ("a", "a"), np.ones(2), np.ones((2, 2)))
    with pytest.raises(InstanceError, match="a speed alone is not above 0"):
        InterferenceTable("v100", ("a",), np.zeros(1), np.ones((1, 1)))
    with pytest.raises(InstanceError, match="negative or no number"):
        InterferenceTable("v100", ("a",), np.ones(1), np.full((1, 1), np.nan))


@pytest.mark.parametrize("num_kinds", range(3))
@pytest.mark.parametrize("num_jobs", range(3))
def test_tables_and_jobs_of_any_number_come_back_from_their_document(
    num_kinds: int, num_jobs: int
) -> None:
    """No kinds and no jobs included: lists of no rows are still a matrix."""
    kinds = tuple("ab"[:num_kinds])
    table = InterferenceTable("gpu", kinds, np.ones(num_kinds), np.ones((num_kinds, num_kinds)))
    jobs = tuple(kinds[k % num_kinds] for k in range(num_jobs)) if num_kinds else ()
    problem = ColocationProblem(jobs, table, 2)
    again = alloc.load(alloc.save(problem))
    assert again == problem
    assert again.table.beside.shape == (num_kinds, num_kinds)
    assert solve(again).certificate.objective == len(jobs)
