"""`alloc solve` and `alloc verify` by registry: a problem of any family is a document."""

import json

import pytest
from problems_of_families import answered

import alloc
from alloc.families import FAMILIES


@pytest.fixture(params=FAMILIES)
def solved(request, tmp_path):
    """Return a family, a problem of it that has an answer, and the file of the problem."""
    [(problem, result)] = answered(request.param)
    path = tmp_path / "problem.json"
    alloc.save(problem, path)
    return FAMILIES[request.param], problem, result, path


def test_a_problem_is_solved_shown_and_verified(run, solved, tmp_path):
    family, problem, result, path = solved
    answer, alone = tmp_path / "answer.json", tmp_path / "solution.json"
    done = run("solve", path, "-f", family.name, "-o", answer, "-q")
    assert done.exit_code == 0, done.stderr
    certificate = alloc.load(answer).certificate
    assert certificate.objective == pytest.approx(result.objective, rel=1e-6, abs=1e-9)
    unit = family.unit(problem, certificate.objective_name)
    assert f"{certificate.objective_name} " in done.stdout
    assert unit in done.stdout
    assert "verified" in done.stdout
    done = run("verify", path, answer)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "and its claims hold" in done.stdout
    alloc.save(alloc.load(answer).solution, alone)
    assert run("verify", path, alone).exit_code == 0
    done = run("solve", path, "--formulation", family.name, "--warm-start", answer, "--json", "-q")
    assert done.exit_code == 0, done.stderr
    again = alloc.load(done.stdout)
    assert again.objective == pytest.approx(result.objective, rel=1e-6, abs=1e-9)


def test_a_false_claim_is_a_violation(run, solved, tmp_path):
    """Whatever the family: the value is recomputed, and the bound held against it."""
    _, _, result, path = solved
    claims = result.certificate
    off = 1.0 + 2 * abs(claims.objective)
    worse = claims.bound + off if claims.sense == "min" else claims.bound - off
    for number, change in enumerate(({"objective": claims.objective + off}, {"bound": worse})):
        answer = tmp_path / f"{number}.json"
        result.replace(certificate=claims.replace(**change), stages=()).to_json(answer)
        done = run("verify", path, answer, "--json")
        assert done.exit_code == 3, done.stderr
        found = {v["code"] for v in json.loads(done.stdout)["violations"]}
        assert found == set(change)


def test_what_is_no_problem_and_what_answers_another_is_refused(run, solved, tmp_path):
    family, problem, result, path = solved
    answer = tmp_path / "answer.json"
    result.to_json(answer)
    done = run("solve", answer)
    assert done.exit_code == 2
    assert "this is a result" in done.stderr or "is a result, and a problem" in done.stderr
    other = next(f.name for f in FAMILIES.values() if f.problem != family.problem)
    done = run("solve", path, "--formulation", other)
    assert done.exit_code == 2
    assert f'family "{other}" is for' in done.stderr
    changed = tmp_path / "changed.json"
    alloc.save(problem.replace(name="another"), changed)
    done = run("verify", changed, answer)
    assert done.exit_code == 2
    assert "fingerprint" in done.stderr


def test_what_is_of_instances_is_refused_for_others(run, tmp_path):
    [(problem, result)] = answered("checkpointing")
    path, answer = tmp_path / "run.json", tmp_path / "answer.json"
    alloc.save(problem, path)
    alloc.save(result, answer)
    done = run("verify", path, answer, "--evict")
    assert done.exit_code == 2
    assert "are of instances" in done.stderr
    assert done.stderr.count("\n") == 1
