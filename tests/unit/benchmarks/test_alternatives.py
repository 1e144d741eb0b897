"""The alternatives answer the same question: on small problems both have one optimum."""

import pytest

from benchmarks.alternatives import round_milp


@pytest.mark.parametrize("seed", range(3))
def test_a_round_has_one_optimum(seed):
    instance = round_milp.made(20, seed)
    assert round_milp.by_alloc(instance) == pytest.approx(
        round_milp.by_milp(instance), rel=2 * round_milp.GAP
    )
