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
    "formulation": "malleable",
    "kind": "instance",
    "objective": "weighted_jct",
    "sense": "min",
    "unit": "s",
    "sha256": "a" * 64,
    "fingerprint": "b" * 64,
    "size": {"jobs": 3, "hosts": 2, "gpus": 4, "slots": 5},
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
    path.write_text(json.dumps({"manifest_version": 2, "instances": [{**ENTRY, **changes}]}))
    return path


def test_a_manifest_comes_back_as_it_was_written(tmp_path):
    """Bounds and dates included."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    written = Manifest(manifest_version=2, instances=(known,))
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
        "who": "alloc",
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


def test_the_same_bound_with_a_stronger_proof_replaces():
    """A solver's word gives way to what alloc evaluates itself, and never the other way round."""
    claims = certificate(150.0, 120.0, bound_proof="claimed", verified=False)
    known = entry().improved(claims, TODAY)
    better = known.improved(certificate(150.0 * (1 + 1e-12), 120.0), LATER)
    assert (better.lower.proof, better.upper.proof) == ("recomputed", "recomputed")
    assert (better.lower.date, better.proved) == (LATER, False)
    assert better.improved(claims, LATER) == better


def test_a_solvers_word_for_the_last_digits_is_no_better():
    """What is proved must not turn into a claim for a digit below the tolerance of a proof."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    claims = certificate(None, 120.0 * (1 + 1e-7), bound_proof="claimed")
    assert known.improved(claims, LATER) == known
    proved = known.improved(certificate(None, 120.0 * (1 + 1e-7)), LATER)
    assert proved.lower.date == LATER
    assert known.improved(claims.replace(bound=121.0), LATER).lower.proof == "claimed"


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


def test_no_solution_where_one_is_known_is_an_error():
    """A false proof of infeasibility is the worst answer of all: it must not read as a slow one."""
    none = certificate(None, float("inf"), status="infeasible")
    assert entry().improved(none, TODAY) == entry()
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    with pytest.raises(CertificateError, match=r"toy/01: highs proves that there is no solution"):
        known.improved(none, LATER)


def test_contradicting_bounds_are_an_error():
    """One solver's optimal is a claim: a lower bound above a known schedule must be loud."""
    known = entry().improved(certificate(150.0, 120.0), TODAY)
    with pytest.raises(CertificateError, match=r"toy/01: lower bound 151 .* upper bound 150"):
        known.improved(certificate(None, 151.0), LATER)


def test_where_more_is_better_the_best_value_is_the_lower_bound():
    """The same words for both senses: `best` is a solution's, `bound` is proved."""
    known = entry(sense="max").improved(certificate(150.0, 180.0, sense="max"), TODAY)
    assert (known.lower.value, known.upper.value) == (150.0, 180.0)
    assert (known.best, known.bound) == (known.lower, known.upper)
    assert known.gap == pytest.approx(0.2)
    better = known.improved(certificate(160.0, 170.0, sense="max"), LATER)
    assert (better.best.value, better.bound.value, better.proved) == (160.0, 170.0, False)
    assert better.improved(certificate(170.0, 170.0, sense="max"), LATER).proved
    with pytest.raises(CertificateError, match=r"lower bound 171 .* upper bound 170"):
        better.improved(certificate(171.0, 180.0, sense="max"), LATER)


def test_values_of_nothing_and_less_are_values():
    """A shortfall of 0 is the best there is; an objective may be below 0."""
    known = entry(no_contention=None).improved(certificate(0.0, 0.0), TODAY)
    assert known.proved
    known = entry(no_contention=None).improved(certificate(-5.0, -10.0), TODAY)
    assert (known.lower.value, known.upper.value, known.gap) == (-10.0, -5.0, 1.0)
    assert known.improved(certificate(-6.0, -9.0), LATER).gap == 0.5
    with pytest.raises(CertificateError):
        known.improved(certificate(-4.0, -4.0), LATER)


def test_a_bound_of_no_proof_is_no_bound():
    """A scheduler's value is known; nothing is proved by it."""
    known = entry().improved(certificate(150.0, 1.0, bound_proof="none"), TODAY, "somebody")
    assert known.lower is None
    assert (known.upper.value, known.upper.who) == (150.0, "somebody")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sense": "max"}, r"toy/01: the certificate's sense is max, not min"),
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
        ({"sizes": {}}, r'toy/01: unknown field "sizes"; did you mean "size"\?'),
        ({"size": {"jobs": "3"}}, r'toy/01: size.jobs is "3": input should be a valid integer'),
        ({"size": {"jobs": -1}}, r"toy/01: size.jobs is -1: input should be greater than or"),
        ({"sha256": "abc"}, r'toy/01: sha256 is "abc"'),
        ({"id": "../../secret"}, r"id is"),
        ({"sense": "less"}, r'toy/01: sense is "less"'),
        ({"proved": True}, r"toy/01: proved is True, but the bounds say otherwise"),
        ({"upper": {**BOUND, "date": "yesterday"}}, r'toy/01: upper.date is "yesterday"'),
        ({"upper": {**BOUND, "value": "150"}}, r'toy/01: upper.value is "150"'),
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
    path.write_text(json.dumps({"manifest_version": 2, "instances": [{"jobs": 3}]}))
    with pytest.raises(InstanceError, match=r'instances\[0\]: field "id" is missing'):
        read_manifest(path)


def test_an_id_must_not_appear_twice(tmp_path):
    """Otherwise `load` would take one of the two by accident."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"manifest_version": 2, "instances": [ENTRY, ENTRY]}))
    with pytest.raises(InstanceError, match=r"an id appears twice"):
        read_manifest(path)


def test_other_versions_are_refused(tmp_path):
    """A newer format may mean something else by the same words."""
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"manifest_version": 1, "instances": []}))
    with pytest.raises(InstanceError, match=r"manifest_version is 1"):
        read_manifest(path)
