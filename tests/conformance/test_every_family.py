"""Every family of the registry, in every way there is to solve it, against plain enumeration."""

from __future__ import annotations

import pytest

from alloc.backends import BACKENDS, backend
from alloc.families import FAMILIES
from benchmarks.tiny.families import FAMILIES as TINY
from benchmarks.tiny.family import disagreement

OTHER_NAMES = {
    "right_sizing": "sizing",
    "inference_sizing": "inference",
    "quota_planning": "quotas",
    "rank_mapping": "ranks",
    "quadratic_assignment": "assignment",
}
"""What `benchmarks.tiny` calls the tiny problems of a family, where it is not the family's name."""
SEEDS = range(6)


@pytest.mark.long
@pytest.mark.parametrize("units", ["", "-scaled"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_way_agrees_with_enumeration(name: str, units: str) -> None:
    """A family that is registered is tested here without anybody having to think of it.

    In units of people, and with weights, rates, times and prices from 1e-9 to 1e12.
    """
    family, tiny = FAMILIES[name], TINY[OTHER_NAMES.get(name, name) + units]
    general = [known for known in BACKENDS if backend(known).MODEL_KIND in family.models]
    ways = dict.fromkeys((*family.exact_methods, *general))
    missing = set(ways) - set(tiny.ways)
    assert not missing, "ways to solve it that no tiny problem is solved in"
    for seed in SEEDS:
        problem = tiny.problem(seed)
        truth = tiny.truth(problem)
        for way in ways:
            answer = tiny.solve(problem, way, 20.0)
            assert disagreement(truth, answer, way in tiny.open_ways) is None, (seed, way)
