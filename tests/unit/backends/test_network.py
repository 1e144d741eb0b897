"""Programs on a network are solved as linear programs, and no other ones are."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.backends.network import is_network
from alloc.formulation import ArrayModel


def program(matrix: np.ndarray, rng: Random, limit: float = 2.0) -> ArrayModel:
    """A program with this matrix: whole limits, any costs, all columns whole."""
    rows, columns = matrix.shape
    lower = np.array([float(rng.randint(-2, 0)) for _ in range(rows)])
    return ArrayModel(
        sense=rng.choice(("min", "max")),
        cost=np.array([rng.uniform(-1.0, 1.0) for _ in range(columns)]),
        matrix=sparse.csr_array(matrix),
        row_lower=lower,
        row_upper=lower + rng.randint(0, 2),
        lower=np.zeros(columns),
        upper=np.full(columns, limit),
        integer=np.ones(columns, dtype=bool),
    )


def random_matrix(rng: Random) -> np.ndarray:
    """Up to two entries of 1 or -1 in each column."""
    matrix = np.zeros((rng.randint(2, 4), rng.randint(2, 6)))
    for column in matrix.T:
        for row in rng.sample(range(len(column)), rng.randint(0, 2)):
            column[row] = rng.choice((1.0, -1.0))
    return matrix


def is_unimodular(matrix: np.ndarray) -> bool:
    """Whether every square part has a determinant of -1, 0 or 1, one after the other."""
    rows, columns = matrix.shape
    return all(
        abs(round(np.linalg.det(matrix[np.ix_(r, c)]))) <= 1
        for size in range(1, min(rows, columns) + 1)
        for r in itertools.combinations(range(rows), size)
        for c in itertools.combinations(range(columns), size)
    )


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_networks_are_those_that_are_unimodular(first: int) -> None:
    """Of matrices with two entries a column these are all (Heller and Tompkins)."""
    seen = set()
    for seed in range(first, first + 50):
        matrix = random_matrix(Random(seed))
        seen.add(is_network(program(matrix, Random(seed))))
        assert is_network(program(matrix, Random(seed))) == is_unimodular(matrix), seed
    assert seen == {True, False}


@pytest.mark.parametrize("seed", range(40))
def test_the_best_whole_answer_is_found(seed: int) -> None:
    """Held against all answers; a limit of a half, or a third entry, is no network."""
    rng = Random(seed)
    model = program(random_matrix(rng), rng, limit=rng.choice((1.0, 2.0, 1.5)))
    whole = itertools.product(range(int(model.upper[0]) + 1), repeat=len(model.cost))
    answers = np.array(list(whole), dtype=float)
    sums = answers @ model.matrix.toarray().T
    kept = answers[((sums >= model.row_lower) & (sums <= model.row_upper)).all(axis=1)]
    raw = highs.solve(model, SolverOptions(10.0))
    if not len(kept):
        assert raw.status == "infeasible"
        return
    best = (min if model.sense == "min" else max)((kept @ model.cost).tolist())
    assert raw.status == "optimal"
    assert raw.objective == pytest.approx(best, abs=1e-9)
    assert raw.values is not None
    assert (np.abs(raw.values - np.rint(raw.values)) < 1e-7).all()


def test_other_numbers_and_a_third_entry_are_no_network() -> None:
    rng = Random(0)
    path = np.array([[1.0, 0.0, -1.0], [-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
    assert is_network(program(path, rng))
    assert not is_network(program(2 * path, rng))
    assert not is_network(program(np.ones((3, 1)), rng))
    assert not is_network(program(path, rng, limit=0.5))


def shortest_path(points: int, rng: Random) -> tuple[ArrayModel, float]:
    """All arcs between points in order, dearer by the square of what they pass; and the optimum."""
    arcs = [(i, j) for j in range(1, points) for i in range(j)]
    costs = [
        rng.uniform(1.0, 100.0) * 2.0 ** ((j - i - 1) * rng.uniform(0.0, 9.0)) for i, j in arcs
    ]
    matrix = np.zeros((points - 1, len(arcs)))
    for column, (i, j) in enumerate(arcs):
        matrix[i, column] = 1.0
        if j < points - 1:
            matrix[j, column] = -1.0
    sent = np.zeros(points - 1)
    sent[0] = 1.0
    model = ArrayModel(
        sense="min",
        cost=np.array(costs),
        matrix=sparse.csr_array(matrix),
        row_lower=sent,
        row_upper=sent,
        lower=np.zeros(len(arcs)),
        upper=np.ones(len(arcs)),
        integer=np.ones(len(arcs), dtype=bool),
    )
    label = [0.0] * points
    for j in range(1, points):
        label[j] = min(label[i] + costs[arcs.index((i, j))] for i in range(j))
    return model, label[-1]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_arcs_too_dear_for_any_path_do_not_decide_the_path(first: int) -> None:
    """Of costs up to 1e20 the dearest set the unit, in which a tolerance is a whole path."""
    for seed in range(first, first + 50):
        model, least = shortest_path(4 + seed % 7, Random(seed))
        if seed % 2:
            model, least = replace(model, sense="max", cost=-model.cost), -least
        raw = highs.solve(model, SolverOptions(time_limit_s=60.0))
        assert raw.status == "optimal", seed
        assert raw.objective == pytest.approx(least, rel=1e-7), seed
        assert raw.bound == pytest.approx(least, rel=1e-7), seed
