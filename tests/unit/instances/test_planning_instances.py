"""Stored planning problems: every one loads, is what the manifest says, and can be made again."""

import hashlib
import json

import pytest

from alloc.errors import CertificateError, InstanceError
from alloc.instances import stored_planning
from alloc.instances.planning import GPU_KINDS, generate_planning
from alloc.instances.planning_recipes import RECIPES
from alloc.instances.stored import ROOT
from alloc.instances.stored_planning import (
    PlanningBounds,
    PlanningManifest,
    generate_all,
    load_stored_planning,
    planning_entry,
    planning_manifest,
    regenerate_planning,
    with_bounds,
)

IDS = [entry.id for entry in planning_manifest()]


@pytest.mark.parametrize("problem_id", IDS)
def test_every_stored_problem_is_what_the_manifest_says(problem_id):
    entry = planning_entry(problem_id)
    problem = load_stored_planning(problem_id)
    assert problem.fingerprint == entry.fingerprint
    assert hashlib.sha256((ROOT / entry.file).read_bytes()).hexdigest() == entry.sha256
    assert regenerate_planning(entry) == problem
    assert entry.parameters == dict(RECIPES[problem_id])


def test_the_large_family_has_the_size_of_the_target():
    problem = load_stored_planning("planning-large/02")
    assert len({offer.host.name for offer in problem.offers}) == 20
    assert len(problem.sites) == 5
    assert problem.num_quarters == 8
    assert len(problem.classes) == 50
    assert len(problem.scenarios) == 20
    assert problem.failures == 1


def test_recorded_bounds_are_in_order():
    for entry in planning_manifest():
        if entry.bounds is not None:
            assert 0 <= entry.bounds.lower <= entry.bounds.upper


def test_what_is_not_stored_is_refused_with_the_nearest():
    with pytest.raises(InstanceError, match='did you mean "planning-tiny/01"'):
        load_stored_planning("planning-tiny/1")


def test_a_changed_file_and_a_changed_generator_are_noticed(tmp_path, monkeypatch):
    generate_all(tmp_path)
    monkeypatch.setattr(stored_planning, "ROOT", tmp_path)
    entry = planning_entry("planning-tiny/01")
    path = tmp_path / entry.file
    path.write_text(path.read_text().replace('"num_quarters": 2', '"num_quarters": 2 '))
    with pytest.raises(InstanceError, match="was changed, so restore it"):
        load_stored_planning("planning-tiny/01")
    path.unlink()
    assert load_stored_planning("planning-tiny/01").fingerprint == entry.fingerprint
    other = entry.model_copy(update={"parameters": {**entry.parameters, "seed": 99}})
    with pytest.raises(InstanceError, match="the generator makes fingerprint"):
        regenerate_planning(other)


def test_writing_all_again_changes_nothing(tmp_path):
    manifest = generate_all(tmp_path)
    assert [(e.id, e.sha256, e.fingerprint) for e in manifest.problems] == [
        (e.id, e.sha256, e.fingerprint) for e in planning_manifest()
    ]
    # A second time bounds are kept.
    bounds = PlanningBounds(lower=1.0, upper=2.0, backend_version="b", seconds=1.0, date="d")
    known = with_bounds(manifest, "planning-tiny/01", bounds)
    stored_planning.write_manifest(known, tmp_path / stored_planning.MANIFEST)
    again = generate_all(tmp_path)
    assert again.problems[0].bounds == bounds
    json.loads((tmp_path / stored_planning.MANIFEST).read_text())


def test_the_better_of_two_bounds_is_kept():
    first = PlanningBounds(lower=1.0, upper=3.0, backend_version="a", seconds=1.0, date="d")
    second = PlanningBounds(lower=0.5, upper=2.0, backend_version="b", seconds=1.0, date="d")
    manifest = PlanningManifest(manifest_version=1, problems=list(planning_manifest()))
    manifest = PlanningManifest(
        manifest_version=1, problems=[manifest.problems[0].model_copy(update={"bounds": None})]
    )
    both = with_bounds(with_bounds(manifest, IDS[0], first), IDS[0], second)
    assert both.problems[0].bounds.lower == 1.0
    assert both.problems[0].bounds.upper == 2.0
    assert with_bounds(both, IDS[0], first).problems[0].bounds.backend_version == "b"
    false = first.model_copy(update={"lower": 2.5})
    with pytest.raises(CertificateError, match="one of them is false"):
        with_bounds(both, IDS[0], false)


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
