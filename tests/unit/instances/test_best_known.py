"""Best known values of one's own: kept, read strictly, and only better ones count."""

import json

import pytest

from alloc.errors import CertificateError, InstanceError
from alloc.instances import entry
from alloc.instances.best_known import (
    BestKnown,
    best_known_path,
    read_best_known,
    write_best_known,
)


@pytest.fixture
def about():
    """An instance of which little is known, and one of which more is."""
    shipped = entry("elastic-medium/07")
    better = shipped.lower.model_copy(
        update={"value": (shipped.lower.value + shipped.upper.value) / 2}
    )
    return shipped, shipped.tightened(better, None)


def test_what_is_better_is_kept_and_read_again(about, tmp_path):
    shipped, better = about
    path = tmp_path / "new" / "best-known.json"
    write_best_known(BestKnown().with_known(better), path)
    known = read_best_known(path)
    assert known.over(shipped) == better
    assert known.over(better) == better
    assert known.with_known(shipped).over(shipped) == shipped
    assert len(known.with_known(shipped).entries) == 1


def test_what_comes_with_alloc_is_not_copied(about):
    """A shipped bound that is corrected later does not live on in somebody's own file."""
    shipped, better = about
    (kept,) = BestKnown().with_known(better, shipped).entries
    assert kept.lower == better.lower
    assert kept.upper is None
    assert not kept.proved
    assert BestKnown(entries=(kept,)).over(shipped) == better
    assert BestKnown().with_known(better).with_known(shipped, shipped).entries == ()


def test_what_is_known_of_a_former_instance_or_another_objective_is_left_out(about):
    shipped, better = about
    known = BestKnown().with_known(better)
    for field, other in (("fingerprint", "0" * 64), ("objective", "makespan")):
        changed = shipped.model_copy(update={field: other})
        assert known.over(changed) == changed


def test_a_contradiction_is_loud(about):
    """A bound above a known schedule, in whosever file."""
    shipped, better = about
    false = better.lower.model_copy(update={"value": 2 * shipped.upper.value})
    known = BestKnown().with_known(shipped.model_copy(update={"lower": false, "upper": None}))
    with pytest.raises(CertificateError, match=r"^the file of .* is above upper bound"):
        known.over(shipped)


@pytest.mark.parametrize("text", ["[]", '{"best_known_version": 2}', '{"entries": [{"id": "x"}]}'])
def test_a_malformed_file_is_refused_with_the_cure(text, tmp_path):
    path = tmp_path / "best-known.json"
    path.write_text(text)
    with pytest.raises(InstanceError, match=r"best-known\.json: .*move it away"):
        read_best_known(path)


def test_a_stored_contradiction_is_refused(about, tmp_path):
    shipped, better = about
    path = tmp_path / "best-known.json"
    write_best_known(BestKnown().with_known(better), path)
    raw = json.loads(path.read_text())
    raw["entries"][0]["lower"]["value"] = 2 * shipped.upper.value
    path.write_text(json.dumps(raw))
    with pytest.raises(CertificateError):
        read_best_known(path)


def test_it_is_in_the_folder_of_the_users_data(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert best_known_path() == tmp_path / "alloc" / "best-known.json"
