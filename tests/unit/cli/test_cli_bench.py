"""`alloc bench`: runs over the library, and answers that others submit."""

import csv
import dataclasses
import json

import pytest

import alloc
from alloc.comparison import benchmarking
from alloc.documents.reading import save
from alloc.instances import entry, load, load_problem
from alloc.instances.best_known import BestKnown, read_best_known, write_best_known


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    """Nobody's own best known values take part."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_a_kind_is_run_beside_what_is_known(run, tmp_path):
    rows, steps = tmp_path / "rows.csv", tmp_path / "profile.csv"
    done = run(
        *("bench", "placement-tiny/01", "placement-tiny/02", "--methods", "auto"),
        *("--schedulers", "first-fit,best-fit", "--csv", rows, "--profile", steps, "-q"),
    )
    assert done.exit_code == 0, done.output
    assert "Performance profile of values" in done.stdout
    with rows.open() as file:
        read = list(csv.DictReader(file))
    assert [(r["instance"], r["contender"]) for r in read] == [
        (f"placement-tiny/0{k}", name) for k in (1, 2) for name in ("auto", "first-fit", "best-fit")
    ]
    for row in read:
        assert float(row["behind"]) >= 0
        assert row["note"] == ""
        assert row["bound"] == ("" if row["contender"] != "auto" else row["best_bound"])
    with steps.open() as file:
        curve = list(csv.DictReader(file))
    assert {"measure", "contender", "factor", "share"} == set(curve[0])
    assert ("value", "auto", 1.0, 1.0) in [
        (c["measure"], c["contender"], float(c["factor"]), float(c["share"])) for c in curve
    ]


def test_the_rows_are_one_json_document(run):
    done = run("bench", "run", "quotas-tiny/01", "--json", "--seeds", 2, "-q")
    rows = json.loads(done.stdout)
    assert [row["seed"] for row in rows] == [0, 1]
    assert {row["status"] for row in rows} == {"optimal"}
    assert rows[0]["unit"] == "GPU h"


def test_what_is_better_is_recorded_when_asked(run, tmp_path, monkeypatch):
    """The shipped table is not written by users."""
    shipped = entry("quotas-tiny/01")
    unknown = shipped.model_copy(update={"lower": None, "upper": None, "proved": False})
    monkeypatch.setattr("alloc.instances.manifest", lambda kind=None: (unknown,))
    file = tmp_path / "mine.json"
    done = run("bench", "quotas-tiny/01", "--best-known", file, "-q")
    assert "better value and bound" in done.stdout
    assert not file.exists()
    done = run("bench", "quotas-tiny/01", "--best-known", file, "--record", "-q")
    assert "better now: quotas-tiny/01" in done.stderr
    (known,) = read_best_known(file).entries
    assert known.proved
    assert known.best.value == pytest.approx(shipped.best.value)
    done = run("bench", "quotas-tiny/01", "--best-known", file, "--record", "-q")
    assert "nothing is better" in done.stderr


def test_a_regression_has_an_exit_code_of_its_own(run, monkeypatch):
    """What the same solver once did in less time is not done now."""
    real = benchmarking.answer

    def poor(asked):
        made = real(asked)
        worse = made.certificate.replace(objective=2 * made.value, bound=0.0, status="feasible")
        return dataclasses.replace(made, certificate=worse)

    monkeypatch.setattr(benchmarking, "answer", poor)
    done = run("bench", "quotas-tiny/01", "-q")
    assert done.exit_code == 5, done.output
    assert "regression" in done.stdout


def test_a_contradiction_does_not_stop_the_others(run, tmp_path, monkeypatch):
    """The rows are shown, what is sound is kept, and the command ends with an error."""
    shipped = [entry(f"quotas-tiny/0{k}") for k in (1, 2)]
    false = shipped[0].bound.model_copy(update={"value": 2 * shipped[0].best.value + 1})
    about = (
        shipped[0].model_copy(update={"lower": false, "upper": None, "proved": False}),
        shipped[1].model_copy(update={"lower": None, "upper": None, "proved": False}),
    )
    monkeypatch.setattr("alloc.instances.manifest", lambda kind=None: about)
    file, rows = tmp_path / "mine.json", tmp_path / "rows.csv"
    done = run("bench", "quotas-tiny", "--record", "--best-known", file, "--csv", rows, "-q")
    assert done.exit_code == 1, done.output
    assert "error: quotas-tiny/01: lower bound" in done.stderr
    with rows.open() as table:
        notes = {row["instance"]: row["note"] for row in csv.DictReader(table)}
    assert notes == {
        "quotas-tiny/01": "contradiction",
        "quotas-tiny/02": "better value and bound",
    }
    assert [known.id for known in read_best_known(file).entries] == ["quotas-tiny/02"]


def test_what_others_have_kept_in_the_meantime_stays(run, tmp_path, monkeypatch):
    """A bench runs for hours; what is submitted to the same file while it does is not lost."""
    shipped = entry("quotas-tiny/01")
    unknown = shipped.model_copy(update={"lower": None, "upper": None, "proved": False})
    monkeypatch.setattr("alloc.instances.manifest", lambda kind=None: (unknown,))
    file = tmp_path / "mine.json"
    real = benchmarking.answer

    def answer(asked):
        write_best_known(BestKnown().with_known(entry("operation-tiny/01")), file)
        return real(asked)

    monkeypatch.setattr(benchmarking, "answer", answer)
    done = run("bench", "quotas-tiny/01", "--record", "--best-known", file, "-q")
    assert done.exit_code == 0, done.output
    ids = [known.id for known in read_best_known(file).entries]
    assert ids == ["operation-tiny/01", "quotas-tiny/01"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["placement-tny"], 'did you mean "placement-tiny"'),
        (["quotas-tiny", "--methods", "hihgs"], 'did you mean "highs"'),
        (["quotas-tiny", "--schedulers", "fifi"], "fifi"),
        (
            ["gangs-small", "--methods", "highs"],
            "none of highs answers problems of malleable in continuous time",
        ),
        (["quotas-tiny", "--methods", "cpsat"], "none of cpsat answers problems of quota_planning"),
    ],
)
def test_wrong_names_are_refused_before_work_begins(run, arguments, message):
    done = run("bench", *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def solved(tmp_path, instance_id, formulation=None):
    path = tmp_path / "result.json"
    alloc.solve(load_problem(instance_id), formulation, limits=alloc.Limits(seconds=10)).to_json(
        path
    )
    return path


def test_a_submitted_result_that_equals_the_best_changes_nothing(run, tmp_path):
    path = solved(tmp_path, "quotas-tiny/01")
    done = run("bench", "submit", path)
    assert done.exit_code == 0, done.output
    assert "no better than the best known value" in done.stdout
    assert not (tmp_path / "data").exists()


def test_a_better_submission_improves_the_table(run, tmp_path, monkeypatch):
    """Checked, kept with the name of whoever it is from, and shown by the list from then on."""
    shipped = entry("operation-tiny/01")
    value = shipped.best.model_copy(update={"value": shipped.best.value * 2})
    poor = shipped.model_copy(update={"upper": value, "lower": None, "proved": False})
    monkeypatch.setattr("alloc.instances.manifest", lambda kind=None: (poor,))
    done = run("bench", "submit", solved(tmp_path, "operation-tiny/01"), "--who", "Ada")
    assert done.exit_code == 0, done.output
    assert "is the best known value of operation-tiny/01 (before:" in done.stdout
    listed = json.loads(run("instances", "list", "--family", "operation-tiny", "--json").stdout)
    assert listed[0]["upper"]["who"] == "Ada"
    assert listed[0]["upper"]["value"] == pytest.approx(shipped.best.value)
    # Its bound cannot be checked, and is not taken over.
    assert listed[0]["lower"] is None


def test_a_false_submission_is_refused_and_not_kept(run, tmp_path):
    """A solution that breaks a rule, and a result that claims too much."""
    path = solved(tmp_path, "operation-tiny/01")
    raw = json.loads(path.read_text())
    raw["certificate"]["objective"] /= 2
    raw["certificate"]["bound"] /= 2
    path.write_text(json.dumps(raw))
    done = run("bench", "submit", path)
    assert done.exit_code == 3, done.output
    instance = load("elastic-tiny/05")
    schedule = alloc.solve(instance).solution
    broken = dataclasses.replace(schedule, runs=schedule.runs[:-1])
    save(broken, tmp_path / "broken.json")
    done = run("bench", "submit", tmp_path / "broken.json", "--instance", "elastic-tiny/05")
    assert done.exit_code == 3, done.output
    assert not (tmp_path / "data").exists()


def test_a_run_that_failed_is_no_success(run, monkeypatch):
    """The row says why, and so does the exit code."""
    monkeypatch.setattr(
        benchmarking, "answer", lambda asked: benchmarking.Outcome(asked, error="out of order")
    )
    done = run("bench", "quotas-tiny/01", "-q")
    assert done.exit_code == 1, done.output
    assert "failed: auto on quotas-tiny/01, seed 0: out of order" in done.stderr
    assert "failed" in done.stdout


def test_a_time_below_nothing_is_refused(run, tmp_path):
    path = solved(tmp_path, "quotas-tiny/01")
    raw = json.loads(path.read_text())
    raw["certificate"]["seconds"] = -1.0
    path.write_text(json.dumps(raw))
    done = run("bench", "submit", path)
    assert done.exit_code == 2, done.output
    assert "seconds is -1; give the time" in done.stderr


def test_a_solution_needs_the_name_of_its_instance(run, tmp_path):
    path = solved(tmp_path, "quotas-tiny/01")
    other = run("bench", "submit", path, "--instance", "quotas-tiny/02")
    assert other.exit_code == 2
    assert "another instance than quotas-tiny/02" in other.stderr
    save(alloc.load(path).solution, tmp_path / "plan.json")
    done = run("bench", "submit", tmp_path / "plan.json")
    assert done.exit_code == 2
    assert "name the --instance" in done.stderr
    done = run("bench", "submit", tmp_path / "plan.json", "--instance", "quotas-tiny/01")
    assert done.exit_code == 0, done.output


def test_a_result_of_ones_own_instance_is_refused(run, tmp_path):
    problem = alloc.instances.generate_elastic("mine", num_jobs=2, num_hosts=2)
    path = tmp_path / "result.json"
    alloc.solve(problem).to_json(path)
    done = run("bench", "submit", path)
    assert done.exit_code == 2
    assert "which the library does not have" in done.stderr


def test_a_broken_file_of_ones_own_is_refused(run, tmp_path):
    file = tmp_path / "mine.json"
    write_best_known(BestKnown(), file)
    file.write_text(file.read_text()[:-5])
    done = run("bench", "quotas-tiny/01", "--best-known", file)
    assert done.exit_code == 2
    assert "mine.json" in done.stderr
