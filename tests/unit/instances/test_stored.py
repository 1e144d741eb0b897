"""Stored instances: every one loads, is what the manifest says, and can be made again."""

import hashlib
import json
import shutil

import pytest

from alloc.errors import AllocError, InstanceError
from alloc.instances import (
    Manifest,
    entry,
    families,
    load,
    maintenance,
    manifest,
    regenerate,
    write_manifest,
)
from alloc.instances.maintenance import check, describe, generate, main
from alloc.instances.recipes import recipes
from alloc.instances.stored import ROOT, load_entry

IDS = [known.id for known in manifest()]
MAX_BYTES = 300_000


@pytest.mark.parametrize("instance_id", IDS)
def test_every_stored_instance_is_what_the_manifest_says(instance_id):
    """Loading runs the checks of every dataclass; then sizes and fingerprint must agree."""
    known = entry(instance_id)
    instance = load(instance_id)
    assert instance.name == instance_id
    assert instance.fingerprint == known.fingerprint
    assert len(instance.jobs) == known.jobs
    assert instance.topology.num_hosts == known.hosts
    assert instance.topology.num_gpus == known.gpus


@pytest.mark.parametrize("instance_id", IDS)
def test_every_stored_instance_can_be_made_again(instance_id):
    """Wheels leave the large files out and rely on it."""
    assert regenerate(entry(instance_id)).fingerprint == entry(instance_id).fingerprint


@pytest.mark.parametrize("instance_id", IDS)
def test_files_are_small_and_have_their_checksum(instance_id):
    """Shared configuration sets keep them small."""
    data = (ROOT / entry(instance_id).file).read_bytes()
    assert hashlib.sha256(data).hexdigest() == entry(instance_id).sha256
    assert len(data) < MAX_BYTES


def test_the_families_have_the_promised_sizes():
    """Brute force, provable, DL2's two clusters; at least six of each."""
    sizes = {
        family: {(entry(i).jobs, entry(i).hosts) for i in ids} for family, ids in families().items()
    }
    assert all(len(ids) >= 6 for ids in families().values())
    assert {hosts for _, hosts in sizes["elastic-tiny"]} <= {2, 3}
    assert {jobs for jobs, _ in sizes["elastic-tiny"]} == {3, 4, 5}
    assert {entry(i).gpus for i in families()["elastic-small"]} == {12}
    assert sizes["elastic-medium"] == {(60, 96)}
    assert sizes["elastic-large"] == {(200, 500)}


def test_no_contention_is_the_sum_of_least_run_times():
    """The yardstick of the load, recomputed here from the table alone."""
    instance = load("elastic-tiny/04")
    alone = sum(
        job.weight * job.work / max(c.rate for c in job.configurations) for job in instance.jobs
    )
    assert entry("elastic-tiny/04").no_contention == pytest.approx(alone)


def test_bounds_are_not_below_no_contention():
    """No schedule beats all jobs running alone."""
    for known in manifest():
        if known.upper is not None:
            assert known.upper.value >= known.no_contention * (1 - 1e-9)


@pytest.mark.parametrize(
    ("wrong", "guess"),
    [("elastic-smal/01", "elastic-small/01"), ("elastic-large/1", "elastic-large/01")],
)
def test_an_unknown_id_suggests_the_nearest(wrong, guess):
    """A misspelled id is the likeliest mistake."""
    with pytest.raises(
        InstanceError, match=f'no stored instance "{wrong}"; did you mean "{guess}"'
    ):
        load(wrong)


def test_an_id_like_no_other_lists_the_families():
    """Without a guess the reader needs to know what there is."""
    with pytest.raises(InstanceError, match=r"families: elastic-tiny, elastic-small"):
        load("xyz")


def chosen():
    return [recipe for recipe in recipes() if recipe.family == "elastic-tiny"][:3]


@pytest.fixture
def root(tmp_path):
    """A folder with three tiny instances and their manifest."""
    generate(tmp_path, chosen())
    return tmp_path


def first(root):
    return generate(root, chosen()).instances[0]


def test_a_changed_file_is_refused_with_the_cure(root):
    """Results on an instance that somebody edited must not go under its name."""
    known = first(root)
    path = root / known.file
    path.write_text(path.read_text().replace('"weight"', '"weight" ') + "\n")
    with pytest.raises(InstanceError, match=r"elastic-tiny/01 was changed, so restore it"):
        load_entry(known, root)


def test_a_missing_file_is_made_again(root):
    """What a wheel does for the large families."""
    known = first(root)
    (root / known.file).unlink()
    assert load_entry(known, root).fingerprint == known.fingerprint


def test_another_generator_result_is_refused(root):
    """If a generator changed, the instance of that name is lost, not replaced."""
    known = first(root).model_copy(update={"fingerprint": "0" * 64})
    with pytest.raises(
        InstanceError, match=r"the generator makes fingerprint .* manifest says 000"
    ):
        regenerate(known)


def test_an_unknown_generator_suggests_the_nearest(root):
    """A manifest of a later version may name one that is not here."""
    known = first(root).model_copy(update={"generator": "generate_elastics"})
    with pytest.raises(InstanceError, match=r'did you mean "generate_elastic"'):
        regenerate(known)


def test_what_was_generated_passes_the_check(root):
    """The two commands must agree with each other."""
    assert list(check(root, chosen())) == []


@pytest.mark.long
def test_the_stored_instances_pass_the_check(capsys):
    """Recipes, generators, documents and manifest of the repository agree."""
    assert main(["check"]) == 0
    assert "agree" in capsys.readouterr().out


def test_check_tells_every_disagreement(root):
    """A changed file, a missing file, a stray file, a stale number: one sentence each."""
    made = generate(root, chosen())
    one, two, three = made.instances
    (root / one.file).write_text("{}")
    (root / two.file).unlink()
    (root / "data" / "stray.json").write_text("{}")
    stale = three.model_copy(update={"slots": three.slots + 1})
    write_manifest(
        Manifest(manifest_version=1, instances=(one, two, stale)), root / "manifest.json"
    )
    problems = list(check(root, chosen()))
    assert len(problems) == 4
    for part in ("was changed", "is missing; run generate", "stray.json", "slots in the manifest"):
        assert sum(part in problem for problem in problems) == 1


def test_check_tells_what_recipes_and_manifest_lack(root):
    """A new recipe must be generated, a dropped one removed."""
    assert list(check(root, chosen()[:2])) == [
        "elastic-tiny/03: is in the manifest but has no recipe; run generate."
    ]
    generate(root, chosen()[:2])
    assert list(check(root, chosen())) == [
        "elastic-tiny/03: has a recipe but is not in the manifest; run generate."
    ]


def test_generate_keeps_bounds_of_unchanged_instances(root):
    """Hours of solving must survive a new recipe; a changed instance must lose its bounds."""
    made = generate(root, chosen())
    bound = {
        "value": made.instances[0].no_contention,
        "formulation": "malleable",
        "backend": "highs",
        "backend_version": "1",
        "seed": 0,
        "workers": 1,
        "seconds": 1.0,
        "date": "2026-03-01",
        "proof": "claimed",
    }
    path = root / "manifest.json"
    raw = json.loads(path.read_text())
    for item in raw["instances"]:
        item["lower"] = bound
    raw["instances"][1]["fingerprint"] = "0" * 64
    path.write_text(json.dumps(raw))
    lowers = [known.lower for known in generate(root, chosen()).instances]
    assert [lower is not None for lower in lowers] == [True, False, True]


def test_generate_removes_documents_without_recipe(root):
    """A stale file would be shipped."""
    shutil.copy(root / "data/elastic-tiny/01.json", root / "data/elastic-tiny/99.json")
    generate(root, chosen())
    assert not (root / "data/elastic-tiny/99.json").exists()


def test_slots_count_to_the_last_completion_without_contention(root):
    """An instance's size in slots: here by hand from arrivals and run times."""
    recipe = chosen()[0]
    instance = recipe.make()
    ends = [(job.arrival_s + job.min_run_s) / 300 for job in instance.jobs]
    slots = describe(recipe, instance, "0" * 64).slots
    assert max(ends) <= slots < max(ends) + 1


def test_the_command_tells_problems_on_stderr(monkeypatch, capsys):
    """CI stops on the exit code; a person reads the sentence."""
    monkeypatch.setattr(maintenance, "check", lambda: iter(["elastic-tiny/01: is wrong."]))
    assert main(["check"]) == 1
    assert capsys.readouterr().err == "elastic-tiny/01: is wrong.\n"


def test_the_command_tells_what_generate_cannot_do(monkeypatch, capsys):
    """A folder that cannot be written ends in a sentence, not in a traceback."""

    def fail():
        raise AllocError("manifest.json: cannot be written")

    monkeypatch.setattr(maintenance, "generate", fail)
    assert main(["generate"]) == 1
    assert "cannot be written" in capsys.readouterr().err
