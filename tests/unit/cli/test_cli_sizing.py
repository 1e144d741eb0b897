"""Operation, inference and quotas at the command line."""

import json
import re

import pytest
from inference_problems import a_problem
from quota_problems import a_quota_problem

from alloc.capacity.quotas import QuotaTenant
from alloc.instances.operation import generate_operation
from alloc.planning.inference import write_inference_problem
from alloc.planning.operation import write_operation
from alloc.planning.quotas import write_quota_problem


@pytest.fixture
def operation(tmp_path):
    path = tmp_path / "operation.json"
    write_operation(generate_operation(num_nodes=3, num_jobs=8), path)
    return path


@pytest.fixture
def inference(tmp_path):
    path = tmp_path / "inference.json"
    write_inference_problem(a_problem(1.0), path)
    return path


@pytest.fixture
def quotas(tmp_path):
    path = tmp_path / "quotas.json"
    pair = [QuotaTenant("a"), QuotaTenant("b")]
    write_quota_problem(a_quota_problem(pair, [[4, 2], [1, 6]], 8), path)
    return path


@pytest.mark.parametrize("policy", ["exact", "edf", "path-relinking"])
def test_nodes_that_are_on_are_shown_or_written(run, operation, tmp_path, policy):
    answer = tmp_path / "answer.json"
    shown = run("operate", operation, "--policy", policy, "-q", "-o", answer)
    assert shown.exit_code == 0, shown.stderr
    assert "Nodes that are on" in shown.stdout
    printed = run("operate", operation, "--policy", policy, "-q", "--json")
    assert json.loads(printed.stdout)["plan"] == json.loads(answer.read_text())["plan"]


def test_replicas_are_shown_with_goals_in_both_fidelities(run, inference, tmp_path):
    answer = tmp_path / "answer.json"
    shown = run("size-inference", inference, "--requests", 500, "--no-what-if", "-q", "-o", answer)
    assert shown.exit_code == 0, shown.stderr
    assert "Replicas" in shown.stdout
    assert "simulated" in shown.stdout
    assert json.loads(answer.read_text())["plan"]["groups"]


def test_quotas_are_shown_with_what_tenants_get(run, quotas, tmp_path):
    answer = tmp_path / "answer.json"
    shown = run("plan-quotas", quotas, "--no-what-if", "-q", "-o", answer)
    assert shown.exit_code == 0, shown.stderr
    assert "What tenants get" in shown.stdout
    assert json.loads(answer.read_text())["plan"]["quotas"]


def test_what_a_little_more_would_change_is_shown(run, inference, quotas):
    """It was solved for by default, and only the document told."""
    shown = run("size-inference", inference, "--requests", 0, "-q")
    assert "one more host" in shown.stdout
    assert "10 % more requests" in shown.stdout
    assert "adds to the cost, USD" in shown.stdout
    shown = run("plan-quotas", quotas, "-q")
    assert "one more GPU" in shown.stdout
    assert "10 % more demand" in shown.stdout


def test_amounts_have_their_unit(run, operation, inference, quotas):
    assert re.search(r"operation-cost +[\d,.]+ EUR", run("operate", operation, "-q").stdout)
    shown = run("size-inference", inference, "--requests", 0, "--no-what-if", "-q").stdout
    assert re.search(r"cost +[\d,.]+ USD", shown)
    shown = run("plan-quotas", quotas, "--no-what-if", "-q").stdout
    assert re.search(r"expected_shortfall +[\d,.]+ GPU h", shown)


def test_the_solver_is_named_once(run, operation):
    shown = run("operate", operation, "-q").stdout
    assert len(re.findall("HiGHS", shown)) == 1


@pytest.mark.parametrize("command", ["operate", "size-inference", "plan-quotas"])
def test_a_problem_is_read_from_standard_input(run, operation, inference, quotas, command):
    path = {"operate": operation, "size-inference": inference, "plan-quotas": quotas}[command]
    assert run(command, "-", "--json", "-q", input=path.read_text()).exit_code == 0
    result = run(command, "-", "-q", input="{")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: standard input: ")


@pytest.mark.parametrize("command", ["operate", "size-inference", "plan-quotas"])
def test_files_that_are_none_are_one_sentence(run, tmp_path, command):
    path = tmp_path / "x.json"
    path.write_text("{")
    for given in (path, tmp_path / "absent.json"):
        result = run(command, given, "-q")
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1


def test_an_unknown_policy_is_refused_with_the_nearest(run, operation):
    result = run("operate", operation, "--policy", "edff", "-q")
    assert result.exit_code == 2
    assert "edf" in result.stderr
