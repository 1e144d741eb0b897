"""The library: every instance is what the manifest says and can be made again; so is its upkeep."""

import hashlib
import json
import shutil

import pytest

from alloc.errors import AllocError, InstanceError
from alloc.families import FAMILIES
from alloc.instances import (
    Manifest,
    entry,
    families,
    load,
    load_problem,
    maintenance,
    manifest,
    regenerate,
    write_manifest,
)
from alloc.instances.maintenance import adopt, check, describe, generate, main
from alloc.instances.recipes import SUBJECTS, recipe_families
from alloc.instances.stored import ROOT, load_entry

MAX_BYTES = 300_000
LARGE = ("placement-large", "ranks-large", "elastic-large", "elastic-medium")
STORED = [known for known in manifest(None) if known.sha256 is not None]


BOUND = {
    "value": 100.0,
    "formulation": "malleable",
    "backend": "highs",
    "backend_version": "1",
    "seed": 0,
    "workers": 1,
    "seconds": 1.0,
    "date": "2026-03-01",
    "proof": "claimed",
}


def family_of(name):
    return next(family for family in recipe_families() if family.name == name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(family.name, marks=[pytest.mark.long] if family.name in LARGE else [])
        for family in recipe_families()
    ],
)
def test_no_generator_drifts(name):
    """Documents, manifest and recipes agree: fingerprints, sizes, senses, units and checksums."""
    chosen = list(family_of(name).recipes())
    found = [problem for problem in check(ROOT, chosen) if problem.startswith(f"{name}/")]
    assert found == []
    assert [recipe.id for recipe in chosen] == list(families(None)[name])


def test_no_document_lies_about_that_the_manifest_does_not_list():
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "data").glob("**/*.json")}
    assert files == {known.file for known in STORED}


@pytest.mark.parametrize("known", STORED, ids=lambda known: known.id)
def test_files_are_small_and_have_their_checksum(known):
    """Shared configuration sets keep them small."""
    data = (ROOT / known.file).read_bytes()
    assert hashlib.sha256(data).hexdigest() == known.sha256
    assert len(data) < MAX_BYTES


def test_every_kind_of_problem_has_families_of_at_least_five():
    """Whoever adds a kind of problem adds instances of it.

    Rounds are those of elastic jobs, and Saturn's program is one of moldable gangs.
    """
    without = {"round", "saturn-spase"}
    assert {known.formulation for known in manifest(None)} == set(FAMILIES) - without
    assert all(len(ids) >= 5 for ids in families(None).values())
    assert [name.partition("-")[0] for name in families(None)] == sorted(
        (name.partition("-")[0] for name in families(None)), key=SUBJECTS.index
    )


def test_every_family_names_its_sources():
    """A number without a source is an opinion: what is ours says so."""
    for family in recipe_families():
        assert family.sources, family.name
        assert len(family.about) <= 80, family.name


def test_the_elastic_families_have_the_promised_sizes():
    """Brute force, provable, DL2's two clusters; at least six of each."""
    elastic = {name: ids for name, ids in families().items() if name.startswith("elastic-")}
    sizes = {
        family: {(entry(i).jobs, entry(i).hosts) for i in ids} for family, ids in elastic.items()
    }
    assert all(len(ids) >= 6 for ids in elastic.values())
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
        if known.upper is not None and known.no_contention is not None:
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


def test_another_kind_of_problem_is_no_instance():
    """`load` promises a cluster with jobs; the other door takes every kind."""
    assert load_problem("quotas-tiny/01").name == "quotas-tiny/01"
    with pytest.raises(InstanceError, match="of kind quota_problem, and a cluster with jobs was"):
        load("quotas-tiny/01")


def test_by_default_the_manifest_is_of_clusters_with_jobs():
    assert {known.kind for known in manifest()} == {"instance"}
    assert set(families()) < set(families(None))
    assert len(manifest()) < len(manifest(None))


def chosen():
    return list(family_of("elastic-tiny").recipes())[:3]


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
    with pytest.raises(InstanceError, match=r"the recipe makes fingerprint .* manifest says 000"):
        regenerate(known)


@pytest.mark.parametrize("strange", ["elastic-tiny/77", "unheard-of/01"])
def test_an_id_without_recipe_is_refused(root, strange):
    """A manifest of a later version may hold one that is not here."""
    with pytest.raises(InstanceError, match=f"{strange}: has no recipe"):
        regenerate(first(root).model_copy(update={"id": strange}))


def test_what_was_generated_passes_the_check(root):
    """The two commands must agree with each other."""
    assert list(check(root, chosen())) == []


def test_check_tells_every_disagreement(root):
    """A changed file, a missing file, a stray file, a stale number: one sentence each."""
    made = generate(root, chosen())
    one, two, three = made.instances
    (root / one.file).write_text("{}")
    (root / two.file).unlink()
    (root / "data" / "stray.json").write_text("{}")
    stale = three.model_copy(update={"unit": "h"})
    write_manifest(
        Manifest(manifest_version=2, instances=(one, two, stale)), root / "manifest.json"
    )
    problems = list(check(root, chosen()))
    assert len(problems) == 4
    for part in ("was changed", "is missing; run generate", "stray.json", "unit in the manifest"):
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
    generate(root, chosen())
    path = root / "manifest.json"
    raw = json.loads(path.read_text())
    for item in raw["instances"]:
        item["lower"] = BOUND
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
    slots = describe(recipe, instance).size["slots"]
    assert max(ends) <= slots < max(ends) + 1


def test_a_new_objective_loses_its_bounds(root):
    """Bounds of one objective say nothing about another."""
    path = root / "manifest.json"
    raw = json.loads(path.read_text())
    raw["instances"][0]["objective"] = "makespan"
    raw["instances"][0]["lower"] = BOUND
    path.write_text(json.dumps(raw))
    assert generate(root, chosen()).instances[0].lower is None


def test_better_values_of_others_are_adopted(root, tmp_path):
    """A maintainer's way from somebody's runs to the shipped table; what is worse stays out."""
    one = first(root)
    entries = []
    for k, value in enumerate((1.0, 2.0)):
        bound = {**BOUND, "value": value, "who": "somebody"}
        fingerprint = one.fingerprint if k == 0 else "0" * 64
        fields = ("id", "objective", "sense")
        known = {field: getattr(one, field) for field in fields}
        entries.append({**known, "fingerprint": fingerprint, "lower": bound})
    file = tmp_path / "best-known.json"
    file.write_text(json.dumps({"best_known_version": 1, "entries": entries}))
    assert adopt(file, root) == [one.id]
    kept = next(e for e in generate(root, chosen()).instances if e.id == one.id)
    assert (kept.lower.value, kept.lower.who) == (1.0, "somebody")
    assert adopt(file, root) == []


def test_adopt_takes_a_file_and_the_others_none(capsys):
    for arguments in (["adopt"], ["check", "best-known.json"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
    assert "adopt takes a file" in capsys.readouterr().err


def test_the_commands_say_what_they_did(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(maintenance, "check", lambda: iter(()))
    monkeypatch.setattr(maintenance, "adopt", lambda file: ["elastic-tiny/01"])
    monkeypatch.setattr(maintenance, "generate", lambda: generate(tmp_path, chosen()))
    for command in (["check"], ["adopt", "file.json"], ["generate"]):
        assert main(command) == 0
    printed = capsys.readouterr().out
    assert "agree" in printed
    assert "better now: elastic-tiny/01" in printed
    assert "3 instances in" in printed


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
