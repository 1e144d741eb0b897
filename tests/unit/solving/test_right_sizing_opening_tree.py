"""Branch and bound on what is open: bounds that no plan is below, and openings that are tried."""

from __future__ import annotations

import numpy as np
import pytest

from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.decomposition import Decomposition
from alloc.solving.right_sizing.method import right_size
from alloc.solving.right_sizing.opening_tree import OpeningTree
from alloc.solving.right_sizing.relaxation import Incumbent


def spared(seed: int, **changes):
    """Return a small plan with spare hosts."""
    problem = generate_planning("spared", num_host_types=3, num_sites=2, num_quarters=2,
                                num_classes=5, num_scenarios=3, failures=1, seed=seed)  # fmt: skip
    return problem.replace(**changes)


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_raises_the_bound_and_never_above_the_optimum(seed: int, epsilon: float) -> None:
    problem = spared(seed, epsilon=epsilon)
    best = right_size(problem, method="extensive", limits=Limits(gap=1e-6)).certificate
    search = Decomposition(SizingData(problem), Settings(60.0), 1e-7)
    relaxation = search.relaxation
    with relaxation.values:
        relaxation.keep_optimum(*relaxation.relax(relaxation.start(), 60, 1e-7, 60.0))
        relaxation.strengthen(1e-8, 60.0)
        relaxed = relaxation.bound
        tree = OpeningTree(relaxation, search.candidates.switches)
        guess = tree.branch(2.0)
    assert relaxed <= relaxation.bound
    assert relaxation.bound * relaxation.unit <= best.objective * (1 + 1e-6)
    assert guess is not None
    opened = guess[search.candidates.switches]
    np.testing.assert_array_equal(opened, np.round(opened))


def test_a_tree_that_has_no_more_nodes_has_the_bound_of_its_leaves() -> None:
    """Whole hosts are relaxed in it, so it may stay below the optimum, but by little."""
    problem = spared(1)
    best = right_size(problem, method="extensive", limits=Limits(gap=1e-6)).certificate
    search = Decomposition(SizingData(problem), Settings(60.0), 1e-7)
    relaxation = search.relaxation
    with relaxation.values:
        relaxation.keep_optimum(*relaxation.relax(relaxation.start(), 60, 1e-7, 60.0))
        relaxed = relaxation.bound * relaxation.unit
        tree = OpeningTree(relaxation, search.candidates.switches)
        tree.branch(20.0)
    bound = relaxation.bound * relaxation.unit
    assert bound > relaxed + 0.2 * (best.objective - relaxed)
    assert bound <= best.objective * (1 + 1e-6)


def test_the_bound_of_the_last_node_counts_though_none_is_left() -> None:
    """With a plan in hand the first node is good enough, and there are no others."""
    search = Decomposition(SizingData(spared(1)), Settings(60.0), 1e-2)
    relaxation = search.relaxation
    with relaxation.values:
        relaxation.keep_optimum(*relaxation.relax(relaxation.start(), 60, 1e-7, 60.0))
        relaxed = relaxation.linear_bound
        relaxation.bound = 0.5 * relaxed
        values = relaxation.relaxed_point
        relaxation.incumbent = Incumbent(values, relaxed * (1 + 0.5e-2), {})
        tree = OpeningTree(relaxation, search.candidates.switches)
        assert tree.branch(20.0) is None
    assert tree.is_done
    assert relaxation.bound == pytest.approx(relaxed)
    assert relaxation.closed()


def test_no_openings_are_tried_again() -> None:
    search = Decomposition(SizingData(spared(1)), Settings(60.0), 1e-7)
    relaxation = search.relaxation
    with relaxation.values:
        relaxation.keep_optimum(*relaxation.relax(relaxation.start(), 60, 1e-7, 60.0))
        tree = OpeningTree(relaxation, search.candidates.switches)
        guesses = [tree.branch(1.0)]
        while guesses[-1] is not None:
            opened = guesses[-1][search.candidates.switches].tobytes()
            assert opened not in [g[search.candidates.switches].tobytes() for g in guesses[:-1]]
            guesses.append(tree.branch(0.0))
    assert len(guesses) > 2


@pytest.mark.parametrize("seed", [2, 3])
def test_a_search_branches_and_finds_what_one_program_finds(seed: int) -> None:
    problem = spared(seed)
    limits = Limits(seconds=20, gap=1e-3)
    result = right_size(problem, method="decomposition", limits=limits)
    best = right_size(problem, method="extensive", limits=Limits(gap=1e-6)).certificate
    assert any("branching" in line for line in result.log)
    assert result.certificate.bound <= best.objective * (1 + 1e-6)
    assert result.certificate.objective == pytest.approx(best.objective, rel=5e-3)
