"""The alternatives answer the same question: on small problems both have one optimum."""

import pytest

from alloc.instances import load
from benchmarks.alternatives import malleable_milp, round_milp


@pytest.mark.parametrize("seed", range(3))
def test_a_round_has_one_optimum(seed):
    instance = round_milp.made(20, seed)
    assert round_milp.by_alloc(instance) == pytest.approx(
        round_milp.by_milp(instance), rel=2 * round_milp.GAP
    )


@pytest.mark.parametrize("number", ["01", "04"])
def test_a_malleable_instance_has_one_optimum(number):
    instance = load(f"elastic-tiny/{number}")
    value, num_slots = malleable_milp.by_alloc(instance)
    assert malleable_milp.by_milp(instance, num_slots) == pytest.approx(
        value, rel=2 * malleable_milp.GAP
    )
