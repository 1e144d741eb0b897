"""`alloc verify`: rules, claims and exit codes."""

import json
from pathlib import Path

import pytest

from alloc import Result, Run, Schedule, solve
from alloc.documents import write_solution


@pytest.fixture
def result(instance):
    return solve(instance)


@pytest.fixture
def result_file(result, tmp_path):
    path = tmp_path / "result.json"
    result.to_json(path)
    return path


def test_a_result_is_checked_with_its_claims(run, instance_file, result_file):
    done = run("verify", instance_file, result_file)
    assert done.exit_code == 0, done.stderr
    assert "feasible" in done.stdout
    assert "its claims hold" in done.stdout


def test_a_bare_solution_is_checked_against_the_rules(run, instance_file, result, tmp_path):
    path = tmp_path / "solution.json"
    write_solution(result.solution, path)
    done = run("verify", instance_file, path, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["feasible"] is True
    assert document["violations"] == []


def test_violations_are_exit_3_and_named(run, instance, instance_file, result, tmp_path):
    # Both jobs on the one GPU at the same time.
    tasks = result.solution.runs[0].tasks
    both = Schedule(tuple(Run(job.id, 0, 0.0, 200.0, tasks) for job in instance.jobs))
    path = tmp_path / "both.json"
    write_solution(both, path)
    done = run("verify", instance_file, path)
    assert done.exit_code == 3
    assert "GPU" in done.stdout
    assert "violations" in done.stdout
    document = json.loads(run("verify", instance_file, path, "--json").stdout)
    assert document["feasible"] is False
    assert {"code", "ids", "amount", "unit", "sentence"} == set(document["violations"][0])


@pytest.mark.parametrize(
    ("claim", "code"), [({"objective": 599.0}, "objective"), ({"bound": 601.0}, "bound")]
)
def test_a_claim_that_is_false_is_a_violation(run, instance_file, result, tmp_path, claim, code):
    """A certificate edited by hand must not pass: people quote it."""
    path = tmp_path / "false.json"
    result.to_json(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["certificate"].update(claim)
    path.write_text(json.dumps(document), encoding="utf-8")
    done = run("verify", instance_file, path, "--json")
    assert done.exit_code == 3, done.stderr
    assert [v["code"] for v in json.loads(done.stdout)["violations"]] == [code]


def test_a_result_for_another_instance_is_refused(run, instance, result_file, tmp_path):
    other = tmp_path / "other.json"
    instance.replace(name="another").to_json(other)
    done = run("verify", other, result_file)
    assert done.exit_code == 2
    assert "fingerprint" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind": "instance"}', 'kind "solution" or "result"'),
        ("[]", 'kind "solution" or "result"'),
        ('{"kind": "result"', "answer.json"),
        ("", "is empty"),
    ],
)
def test_what_is_no_answer_is_refused(run, instance_file, tmp_path, text, message):
    path = tmp_path / "answer.json"
    path.write_text(text, encoding="utf-8")
    done = run("verify", instance_file, path)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_result_without_a_solution_has_nothing_to_verify(run, instance_file, result, tmp_path):
    path = tmp_path / "empty.json"
    claims = result.certificate.replace(status="no_solution", objective=None)
    type(result)(None, claims).to_json(path)
    done = run("verify", instance_file, path)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {path}: holds no solution")
    done = run("verify", instance_file, "-", input=path.read_text())
    assert done.stderr.startswith("error: standard input: holds no solution")


def test_an_answer_comes_from_standard_input(run, instance_file, result):
    done = run("verify", instance_file, "-", input=result.to_json())
    assert done.exit_code == 0, done.stderr
    assert "standard input" in done.stdout


def test_what_comes_from_standard_input_is_named_in_errors(run, instance_file):
    assert "standard input" in run("verify", instance_file, "-", input="{").stderr
    assert "standard input" in run("solve", "-", input="{").stderr


def test_the_result_of_another_family_is_refused(run, instance_file):
    """Every family has the same document of a result, and this one is about a plan."""
    plan = Path(__file__).parents[2] / "data" / "documents" / "plan_result-v1.json"
    text = Result.from_json(plan.read_text()).to_json()
    done = run("verify", instance_file, "-", input=text)
    assert done.exit_code == 2
    assert (
        "Plan is not an answer to a problem of malleable; give Allocation or Schedule"
        in done.stderr
    )
