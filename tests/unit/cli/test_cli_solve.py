"""`alloc solve`: answers, documents and exit codes."""

import json
import re

import jsonschema
import pytest

import alloc.solving
from alloc import Certificate, InstanceError, Result
from alloc.documents import json_schema
from alloc.documents.reading import load
from alloc.result import Limits


def certificate(instance, **changes):
    claims = {
        "status": "no_solution",
        "objective": None,
        "bound": float("-inf"),
        "sense": "min",
        "objective_name": "weighted_jct",
        "formulation": "malleable",
        "backend": "fake",
        "backend_version": "0",
        "seed": 0,
        "workers": 1,
        "seconds": 1.0,
        "fingerprint": instance.fingerprint,
    }
    return Certificate(**{**claims, **changes})


@pytest.fixture
def fake_solve(monkeypatch):
    """Let `solve` return a given result, and remember what it was asked."""

    def install(result):
        calls = []

        def solve(instance, formulation, backend, **options):
            calls.append((instance, formulation, backend, options))
            options["progress"]("a line of progress")
            return result

        monkeypatch.setattr(alloc.solving, "solve", solve)
        return calls

    return install


def test_a_solved_instance_shows_certificate_and_schedule(run, instance_file):
    done = run("solve", instance_file)
    assert done.exit_code == 0, done.stderr
    for word in ["optimal", "600 s", "verified", "job-1", "1 worker"]:
        assert word in done.stdout


def test_json_is_one_valid_result_document_with_the_optimum(run, instance_file):
    # By hand: one job completes at 200 s, the other at 400 s.
    done = run("solve", instance_file, "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, json_schema("result"))
    assert document["certificate"]["status"] == "optimal"
    assert document["certificate"]["objective"] == pytest.approx(600)


def test_output_holds_the_same_result_and_leaves_stdout_to_people(run, instance_file, tmp_path):
    output = tmp_path / "result.json"
    done = run("solve", instance_file, "-o", output)
    assert done.exit_code == 0
    assert load(output).certificate.objective == pytest.approx(600)
    assert "optimal" in done.stdout


def test_a_round_is_shown_with_who_waits(run, instance_file):
    done = run("solve", instance_file, "--formulation", "round")
    assert done.exit_code == 0, done.stderr
    assert "1 job waits" in done.stdout


def test_an_instance_comes_from_standard_input(run, instance):
    done = run("solve", "-", "--json", input=instance.to_json())
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["certificate"]["fingerprint"] == instance.fingerprint


def test_infeasible_is_exit_3_with_the_conflict_in_words(run, infeasible_file):
    done = run("solve", infeasible_file, "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["certificate"]["status"] == "infeasible"
    assert done.stderr.startswith("infeasible: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("limit", ["time", "memory"])
def test_a_limit_without_a_solution_is_exit_4(run, instance, instance_file, fake_solve, limit):
    fake_solve(Result(None, certificate(instance, limit=limit)))
    done = run("solve", instance_file, "--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["solution"] is None
    assert f"{limit} limit" in done.stderr
    assert f"--{limit}-limit" in done.stderr


def test_a_limit_with_a_solution_is_exit_0(run, instance, instance_file, tmp_path, fake_solve):
    # The answer is good, only the proof is missing: scripts shall take it.
    solved = alloc.solving.solve(instance)
    found = solved.certificate.replace(status="feasible", bound=500.0, limit="time")
    fake_solve(Result(solved.solution, found))
    done = run("solve", instance_file)
    assert done.exit_code == 0
    assert "feasible (time limit)" in done.stdout
    assert "16.67 %" in done.stdout


def test_an_interrupt_saves_the_incumbent_and_is_exit_130(
    run, instance, instance_file, tmp_path, fake_solve
):
    solved = alloc.solving.solve(instance)
    fake_solve(
        Result(solved.solution, solved.certificate.replace(status="feasible", limit="interrupt"))
    )
    output = tmp_path / "kept.json"
    done = run("solve", instance_file, "-o", output)
    assert done.exit_code == 130
    assert load(output).solution == solved.solution
    assert str(output) in done.stderr
    assert "interrupted" in done.stdout


def test_an_interrupt_before_any_answer_says_so(run, instance, instance_file, fake_solve):
    fake_solve(Result(None, certificate(instance, limit="interrupt")))
    done = run("solve", instance_file)
    assert done.exit_code == 130
    assert "no answer had been found" in done.stderr


def test_options_reach_the_engine(run, instance, instance_file, tmp_path, fake_solve):
    warm = tmp_path / "warm.json"
    solved = alloc.solving.solve(instance)
    solved.to_json(warm)
    calls = fake_solve(solved)
    done = run(
        *("solve", instance_file, "--formulation", "round", "--backend", "cpsat"),
        *("--objective", "goodput", "--time-limit", 7, "--seed", 3, "--workers", 2),
        *("--memory-limit", 900),
        *("--warm-start", warm),
    )
    assert done.exit_code == 0, done.stderr
    [(problem, formulation, backend, options)] = calls
    assert (problem, formulation, backend) == (instance, "round", "cpsat")
    del options["progress"]
    assert options == {
        "objective": "goodput",
        "limits": Limits(seconds=7.0, seed=3, workers=2, memory_mib=900),
        "warm_start": solved,
    }


def test_a_warm_start_of_another_instance_is_refused(run, instance, instance_file, tmp_path):
    """It was taken without a word, where `alloc verify` refuses it."""
    other, answer = instance.replace(name="another"), tmp_path / "answer.json"
    alloc.solving.solve(other, limits=Limits(seconds=2)).to_json(answer)
    done = run("solve", instance_file, "--warm-start", answer)
    assert done.exit_code == 2
    assert "the result is for the instance with fingerprint" in done.stderr
    assert run("verify", instance_file, answer).exit_code == 2


def test_the_log_file_holds_what_the_engine_logs(run, instance_file, tmp_path):
    log = tmp_path / "solve.log"
    assert run("solve", instance_file, "--log-file", log).exit_code == 0
    assert "alloc.solving" in log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--formulation", "maleable"], 'did you mean "malleable"'),
        (["--objective", "goodputt"], "goodput"),
        (["--backend", "high"], 'did you mean "highs"'),
        (["--time-limit", "0"], "--time-limit"),
        (["--time-limit", "soon"], "--time-limit"),
        (["--time-limit", "nan"], "time"),
        (["-o", "missing/folder/result.json"], "there is no folder"),
        (["-o", "."], "is a folder"),
        (["--log-file", "missing/log"], "there is no folder"),
        (["--warm-start", "missing.json"], "there is no such file"),
    ],
)
def test_a_wrong_option_is_exit_2_in_one_line(run, instance_file, arguments, message):
    done = run("solve", instance_file, *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_unwritable_output_is_found_before_the_work(run, instance_file, fake_solve):
    calls = fake_solve(None)
    assert run("solve", instance_file, "-o", "missing/result.json").exit_code == 2
    assert calls == []


def test_a_full_disk_puts_the_answer_elsewhere(run, instance_file, tmp_path, monkeypatch):
    """Hours of solving must not be lost because one folder is full."""
    from alloc import AllocError
    from alloc.documents import files

    wanted = tmp_path / "result.json"
    write = files.write_text

    def full(path, text):
        if path == wanted:
            raise AllocError(f"{path}: cannot be written (No space left on device).")
        write(path, text)

    monkeypatch.setattr("alloc.documents.formats.write_text", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = run("solve", instance_file, "-o", wanted)
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    [saved] = tmp_path.glob("alloc-*/result.json")
    assert str(saved) in done.stderr
    assert load(saved).certificate.status == "optimal"


def test_a_full_disk_everywhere_is_said_once(run, instance_file, tmp_path, monkeypatch):
    from alloc import AllocError

    def full(path, text):
        raise AllocError(f"{path}: cannot be written (No space left on device).")

    monkeypatch.setattr("alloc.documents.formats.write_text", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = run("solve", instance_file, "-o", tmp_path / "result.json")
    assert done.exit_code == 1
    assert done.stderr.count("No space left on device") == 1


def test_a_warm_start_needs_a_solution(run, instance, instance_file, tmp_path):
    empty = tmp_path / "empty.json"
    Result(None, certificate(instance)).to_json(empty)
    done = run("solve", instance_file, "--warm-start", empty)
    assert done.exit_code == 2
    assert "holds no solution" in done.stderr


def test_a_long_schedule_is_cut_short_and_says_so(run, tmp_path):
    from alloc.instances import generate_elastic

    path = tmp_path / "many.json"
    generate_elastic("many", num_jobs=40, num_hosts=50, max_workers=1, max_ps=1).to_json(path)
    done = run("simulate", path, "--scheduler", "fifo")
    assert done.exit_code == 0, done.stderr
    assert "and 10 more rows" in done.stdout


def test_the_error_of_a_bad_instance_names_job_and_cure(run, instance, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(instance.to_json().replace('"work": 200', '"work": -200', 1), encoding="utf-8")
    with pytest.raises(InstanceError):
        type(instance).load(path)
    done = run("solve", path)
    assert done.exit_code == 2
    assert "job-0" in done.stderr
    assert "work" in done.stderr


@pytest.mark.long
def test_a_family_is_solved_instance_by_instance(run, tmp_path):
    """What `compare` takes, `solve` takes; one file cannot hold eight answers."""
    done = run("solve", "elastic-tiny", "-q")
    assert done.exit_code == 0, done.stderr
    names = [f"elastic-tiny/0{k}" for k in range(1, 9)]
    assert re.findall(r"elastic-tiny/\d+", done.stdout) == names
    assert done.stdout.count("optimal") == 8
    assert "weighted jct, s" in done.stdout
    refused = run("solve", "elastic-tiny", "-o", tmp_path / "all.json")
    assert refused.exit_code == 2
    assert '"elastic-tiny" is a family of 8 instances' in refused.stderr


@pytest.mark.parametrize("end", ["interrupt", "ctrl-c", "error"])
def test_what_was_solved_of_a_family_is_shown_however_it_ends(run, instance, monkeypatch, end):
    """Ctrl-C in a search or between two, or an instance that cannot be solved, loses nothing."""
    solved = alloc.solving.solve(instance)
    answers = iter([solved, Result(None, certificate(instance, limit="interrupt"))])

    def solve(asked, *arguments, **options):
        answer = next(answers)
        if answer is not solved and end == "ctrl-c":
            raise KeyboardInterrupt
        if answer is not solved and end == "error":
            raise InstanceError("not this one.")
        return answer

    monkeypatch.setattr(alloc.solving, "solve", solve)
    done = run("solve", "elastic-tiny")
    shown, code, rest = {
        "interrupt": (["1", "2"], 130, 6),
        "ctrl-c": (["1"], 130, 7),
        "error": (["1"], 2, 7),
    }[end]
    assert done.exit_code == code
    assert re.findall(r"elastic-tiny/0(\d)", done.stdout) == shown
    assert f"not solved: {rest} of 8 instances." in done.stderr
