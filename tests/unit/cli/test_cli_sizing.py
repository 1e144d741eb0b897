"""Operation, inference and quotas at the command line."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import interrupting
import pytest
from inference_problems import a_class, a_problem, hard_problem
from quota_problems import a_quota_problem, hard_quotas

from alloc.instances.operation import generate_operation
from alloc.planning.inference import write_inference_problem
from alloc.planning.operation import write_operation
from alloc.planning.quotas import read_quota_report, write_quota_problem
from alloc.problems.inference_sizing.requests import LatencyGoal
from alloc.problems.quota_planning.problem import QuotaTenant


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
    documents = [json.loads(text)["result"] for text in (printed.stdout, answer.read_text())]
    assert documents[0]["solution"] == documents[1]["solution"]


def test_replicas_are_shown_with_goals_in_both_fidelities(run, inference, tmp_path):
    answer = tmp_path / "answer.json"
    shown = run("size-inference", inference, "--requests", 500, "--no-what-if", "-q", "-o", answer)
    assert shown.exit_code == 0, shown.stderr
    assert "Replicas" in shown.stdout
    assert "simulated" in shown.stdout
    assert json.loads(answer.read_text())["result"]["solution"]["groups"]


def test_quotas_are_shown_with_what_tenants_get(run, quotas, tmp_path):
    answer = tmp_path / "answer.json"
    shown = run("plan-quotas", quotas, "--no-what-if", "-q", "-o", answer)
    assert shown.exit_code == 0, shown.stderr
    assert "What tenants get" in shown.stdout
    assert json.loads(answer.read_text())["result"]["solution"]["quotas"]


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


def test_too_few_requests_are_refused_in_words_of_the_command(run, inference):
    result = run("size-inference", inference, "--requests", 50, "-q")
    assert result.exit_code == 2
    assert "a simulation of 50 requests cannot show a percentile; ask for 100" in result.stderr


def test_an_unknown_policy_is_refused_with_the_nearest(run, operation):
    result = run("operate", operation, "--policy", "edff", "-q")
    assert result.exit_code == 2
    assert "edf" in result.stderr


@pytest.fixture
def promises(tmp_path):
    """Return files of a chance constraint, and of scenarios on which it holds and fails."""
    pair = [QuotaTenant("a", exceeding=0.4), QuotaTenant("b", exceeding=0.4)]
    rows = {
        "plan": [[4, 2], [1, 6], [3, 3]],
        "same": [[4, 2], [1, 6], [3, 3]],
        "busier": [[9, 9], [8, 9], [9, 8]],
    }
    paths = {}
    for name, demands in rows.items():
        paths[name] = tmp_path / f"{name}.json"
        write_quota_problem(a_quota_problem(pair, demands, 40, "least_quota"), paths[name])
    return paths


def test_quotas_are_checked_on_scenarios_held_out(run, promises):
    """As `alloc plan --held-out`; until then only Python could."""
    plan = promises["plan"]
    shown = run("plan-quotas", plan, "--held-out", promises["same"], "--no-what-if", "-q")
    assert shown.exit_code == 0, shown.stderr
    assert "held out" in shown.stdout
    assert "none was held out" not in shown.stdout


def test_a_promise_that_fails_out_of_sample_is_exit_5(run, promises, tmp_path):
    """A script tells the quotas that hold from those that do not; both are written."""
    answer = tmp_path / "answer.json"
    missed = run(
        "plan-quotas", promises["plan"], "--held-out", promises["busier"], "-q", "-o", answer
    )
    assert missed.exit_code == 5
    assert 'missed: out of sample tenant "a" is short for 100.00 % of the time' in missed.stderr
    assert "was promised 40.00 %" in missed.stderr
    assert not read_quota_report(answer.read_text()).converged


def test_scenarios_of_something_else_are_refused_with_their_file(run, promises, quotas, tmp_path):
    other = json.loads(promises["same"].read_text())
    other["period_hours"] = [2.0]
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other))
    refused = run("plan-quotas", promises["plan"], "--held-out", path, "-q")
    assert refused.exit_code == 2
    assert f"{path}: its scenarios have periods of 2 hours, and those of" in refused.stderr
    other["period_hours"] = [1.0]
    for tenant in other["tenants"]:
        tenant["name"] += "x"
    for scenario in other["scenarios"]:
        for demand in scenario["demands"]:
            demand["tenant"] += "x"
    path.write_text(json.dumps(other))
    refused = run("plan-quotas", promises["plan"], "--held-out", path, "-q")
    assert refused.exit_code == 2
    assert str(path) in refused.stderr
    assert "ax" in refused.stderr


def test_a_goal_that_the_simulation_misses_is_exit_5(run, tmp_path):
    """The plan is optimal by the formula, and a script must not take it for one that holds."""
    base = a_problem(0.82, arrival_scv=6.0)
    kind = a_class(0.82, ttft=LatencyGoal(1.0, 95))
    problem = base.replace(models=(dataclasses.replace(base.models[0], classes=(kind,)),))
    path = tmp_path / "bursty.json"
    write_inference_problem(problem, path)
    once = run("size-inference", path, "--requests", 5000, "--iterations", 1, "--no-what-if", "-q")
    assert once.exit_code == 5
    assert re.search(r'missed: 1 of 1 goals in the simulation.*model "chatbot"', once.stderr)
    assert run("size-inference", path, "--requests", 5000, "--no-what-if", "-q").exit_code == 0
    unseen = run("size-inference", path, "--requests", 0, "--no-what-if", "-q")
    assert unseen.exit_code == 0


@pytest.mark.long
def test_what_cannot_be_served_is_exit_3_with_repairs(run, quotas, tmp_path):
    path = tmp_path / "busy.json"
    write_inference_problem(a_problem(500.0), path)
    refused = run("size-inference", path, "-q")
    assert refused.exit_code == 3
    assert "infeasible: " in refused.stderr
    assert "repair: " in refused.stderr
    poor = json.loads(quotas.read_text())
    poor["goal"], poor["capacity"][0]["gpu_milli"] = "least_quota", 1000
    path.write_text(json.dumps(poor))
    refused = run("plan-quotas", path, "-q")
    assert refused.exit_code == 3
    assert "repair: " in refused.stderr


def test_no_plan_within_the_limit_is_exit_4(run, tmp_path):
    path = tmp_path / "hard.json"
    write_inference_problem(hard_problem(24, 6), path)
    result = run("size-inference", path, "--time-limit", 0.001, "-q")
    assert result.exit_code == 4
    assert "no plan was found within the limits" in result.stderr


WHILE_SEARCHING = """
import signal, sys
from interrupting import ctrl_c_in_highs, incumbent
from alloc.cli import main
with ctrl_c_in_highs(incumbent, getattr(signal, sys.argv.pop(1))):
    main()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "number"),
    [("size-inference", "SIGINT"), ("plan-quotas", "SIGTERM")],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_what_was_found_before_a_signal_is_written(tmp_path, command, number):
    """What minutes of search have found must survive Ctrl-C and the end of a batch job."""
    path, answer = tmp_path / "problem.json", tmp_path / "answer.json"
    if command == "size-inference":
        write_inference_problem(hard_problem(8, 3), path)
    else:
        write_quota_problem(hard_quotas("least_quota"), path)
    words = [number, command, path, "--time-limit", "500", "-o", answer]
    done = subprocess.run(
        [sys.executable, "-c", WHILE_SEARCHING, *words],
        env={**os.environ, "PYTHONPATH": str(Path(interrupting.__file__).parent)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    stderr = done.stderr
    assert done.returncode == 130, stderr
    assert "interrupted: the best plan so far is kept." in stderr
    assert "Traceback" not in stderr
    found = json.loads(answer.read_text())["result"]
    assert found["certificate"]["limit"] == "interrupt"
    assert found["solution"] is not None
