"""Stored planning problems: every one loads, is what the manifest says, and can be made again."""

import pytest

from alloc.errors import InstanceError
from alloc.instances.planning import GPU_KINDS, generate_planning
from alloc.instances.stored_planning import load_stored_planning


def test_the_large_family_has_the_size_of_the_target():
    problem = load_stored_planning("planning-large/02")
    assert len({offer.host.name for offer in problem.offers}) == 20
    assert len(problem.sites) == 5
    assert problem.num_quarters == 8
    assert len(problem.classes) == 50
    assert len(problem.scenarios) == 20
    assert problem.failures == 1


def test_what_is_not_stored_is_refused_with_the_nearest():
    with pytest.raises(InstanceError, match='did you mean "planning-tiny/01"'):
        load_stored_planning("planning-tiny/1")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_host_types": 1}, "num_host_types is 1"),
        ({"num_host_types": 2 * len(GPU_KINDS) + 1}, "the generator knows 10 GPU types"),
        ({"num_sites": 1}, "num_sites is 1"),
        ({"num_classes": 0}, "num_classes is 0"),
        ({"num_scenarios": 0}, "num_scenarios is 0"),
        ({"gpus": 0.0}, "gpus is 0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(InstanceError, match=sentence):
        generate_planning("odd", **options)


def test_a_seed_names_a_problem():
    assert generate_planning("one", seed=5) == generate_planning("one", seed=5)
    assert generate_planning("one", seed=5) != generate_planning("one", seed=6)
