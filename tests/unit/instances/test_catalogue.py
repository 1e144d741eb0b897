"""The manifest is read strictly, and best known bounds only ever get better."""

import datetime
import json

import pytest

from alloc.certificate import Certificate
from alloc.errors import CertificateError, InstanceError
from alloc.instances import Entry, Manifest, read_manifest, write_manifest

TODAY = datetime.date(2026, 3, 1)
LATER = datetime.date(2026, 4, 1)

ENTRY = {
    "id": "toy/01",
    "file": "data/toy/01.json",
    "generator": "generate_elastic",
    "parameters": {"seed": 1, "run_slots": [1.0, 2.0]},
    "sha256": "a" * 64,
    "fingerprint": "b" * 64,
    "jobs": 3,
    "hosts": 2,
    "gpus": 4,
    "slots": 5,
    "no_contention": 100.0,
}


def entry(**changes):
    return Entry.model_validate_json(json.dumps({**ENTRY, **changes}))


def certificate(objective, bound, **changes):
    made = Certificate(
        status="feasible",
        objective=objective,
        bound=bound,
        sense="min",
        objective_name="weighted_jct",
        formulation="malleable",
        backend="highs",
        backend_version="1.13.1",
        seed=7,
        workers=2,
        seconds=1.234,
        fingerprint="b" * 64,
        verified=True,
        bound_proof="recomputed",
    )
    return made.replace(**changes)


def write(tmp_path, **changes):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"manifest_version": 1, "instances": [{**ENTRY, **changes}]}))
    return path


def test_a_manifest_comes_back_as_it_was_written(tmp_path):
    """Bounds and dates included."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    written = Manifest(manifest_version=1, instances=(known,))
    write_manifest(written, tmp_path / "manifest.json")
    assert read_manifest(tmp_path / "manifest.json") == written


def test_a_first_certificate_gives_both_bounds_with_their_origin():
    """Value, solver, version, seed, seconds and date are what makes a bound worth keeping."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    assert (known.lower.value, known.upper.value, known.proved) == (120.0, 150.0, False)
    assert known.gap == pytest.approx(0.2)
    assert known.upper.model_dump() == {
        "value": 150.0,
        "formulation": "malleable",
        "backend": "highs",
        "backend_version": "1.13.1",
        "seed": 7,
        "workers": 2,
        "seconds": 1.23,
        "date": TODAY,
        "proof": "recomputed",
    }


def test_only_a_better_bound_replaces():
    """A short run must not undo a long one."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    assert known.improved(certificate(160.0, 110.0), LATER) == known
    assert known.improved(certificate(150.0, 120.0), LATER) == known
    better = known.improved(certificate(140.0, 110.0), LATER)
    assert (better.lower, better.upper.value, better.upper.date) == (known.lower, 140.0, LATER)
    better = known.improved(certificate(160.0, 130.0), LATER)
    assert (better.lower.value, better.upper) == (130.0, known.upper)


def test_bounds_that_meet_prove_the_optimum():
    """Two runs together may prove what neither did alone."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    assert known.improved(certificate(None, 150.0), LATER).proved


def test_no_incumbent_and_no_bound_change_nothing():
    """A run that finds nothing has an infinite bound, which is not knowledge."""
    assert entry().improved(certificate(None, float("-inf")), TODAY) == entry()
    assert entry().gap is None


def test_the_solvers_word_is_marked_as_such():
    """A reader must see which bounds alloc evaluated itself."""
    claims = certificate(150.0, 120.0, bound_proof="claimed", verified=False)
    known = entry().improved(claims, TODAY)
    assert (known.lower.proof, known.upper.proof) == ("claimed", "claimed")


def test_contradicting_bounds_are_an_error():
    """One solver's optimal is a claim: a lower bound above a known schedule must be loud."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    with pytest.raises(CertificateError, match=r"toy/01: lower bound 151 .* upper bound 150"):
        known.improved(certificate(None, 151.0), LATER)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fingerprint": "c" * 64}, r"toy/01: the certificate's fingerprint is ccc"),
        ({"objective_name": "makespan"}, r"objective is makespan, not weighted_jct"),
    ],
)
def test_certificates_of_something_else_are_refused(changes, message):
    """Bounds of another instance or objective would poison the manifest."""
    with pytest.raises(InstanceError, match=message):
        entry().improved(certificate(150.0, 120.0, **changes), TODAY)


BOUND = {
    "value": 150.0,
    "formulation": "malleable",
    "backend": "highs",
    "backend_version": "1",
    "seed": 0,
    "workers": 1,
    "seconds": 1.0,
    "date": "2026-03-01",
    "proof": "claimed",
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hostz": 2}, r'toy/01: unknown field "hostz"; did you mean "hosts"\?'),
        ({"jobs": "3"}, r'toy/01: jobs is "3": input should be a valid integer'),
        ({"sha256": "abc"}, r'toy/01: sha256 is "abc"'),
        ({"file": "../../secret.json"}, r"toy/01: file is"),
        ({"objective": "weighted_jtc"}, r'"weighted_jtc" is unknown; did you mean "weighted_jct"'),
        ({"proved": True}, r"toy/01: proved is True, but the bounds say otherwise"),
        ({"upper": {**BOUND, "date": "yesterday"}}, r'toy/01: upper.date is "yesterday"'),
        ({"upper": {**BOUND, "value": 0}}, r"toy/01: upper.value is 0"),
    ],
)
def test_malformed_entries_are_refused_with_id_and_field(tmp_path, changes, message):
    """A manifest edited by hand must not be half believed."""
    with pytest.raises(InstanceError, match=message) as caught:
        read_manifest(write(tmp_path, **changes))
    assert "alloc.instances.maintenance generate" in str(caught.value)


def test_a_stored_contradiction_is_loud(tmp_path):
    """Also when it comes from the file."""
    with pytest.raises(CertificateError, match=r"lower bound 151 .* is above upper bound 150"):
        read_manifest(write(tmp_path, lower={**BOUND, "value": 151.0}, upper=BOUND))


def test_missing_fields_and_ids_are_named(tmp_path):
    """An entry without id is named by its position."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"manifest_version": 1, "instances": [{"jobs": 3}]}))
    with pytest.raises(InstanceError, match=r'instances\[0\]: field "id" is missing'):
        read_manifest(path)


def test_an_id_must_not_appear_twice(tmp_path):
    """Otherwise `load` would take one of the two by accident."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"manifest_version": 1, "instances": [ENTRY, ENTRY]}))
    with pytest.raises(InstanceError, match=r"an id appears twice"):
        read_manifest(path)


def test_other_versions_are_refused(tmp_path):
    """A newer format may mean something else by the same words."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"manifest_version": 2, "instances": []}))
    with pytest.raises(InstanceError, match=r"manifest_version is 2"):
        read_manifest(path)
