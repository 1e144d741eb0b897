"""`alloc what-if` on a cluster as it stands; of planning problems see test_cli_planning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def now(run, tmp_path) -> Path:
    """Write the snapshot of the sample cluster."""
    path = tmp_path / "now.json"
    done = run("snapshot", "kubernetes", EXAMPLES / "kubernetes.json", "-o", path, "--quiet")
    assert done.exit_code == 0, done.stderr
    return path


def test_a_job_that_is_not_submitted_yet(run, now) -> None:
    done = run("what-if", now, "submit:new=4x8,level=rack,tenant=team-b", "--quiet")
    assert done.exit_code == 0, done.stderr
    assert "As many GPUs in use as before, proved." in done.stdout
    assert 'job "new" needs 32 GPUs (4 x 8) in one rack' in done.stdout
    assert "  - it can start once jobs team-a/pretrain, team-a/eval end" in done.stdout
    starts = run("what-if", now, "submit:new=like:team-a/big", "--quiet").stdout
    assert 'job "new" can start now, if it alone is started: tasks on gpu-5 (1), gpu-6 (1).' in (
        starts
    )


def test_racks_that_fail_or_are_drained(run, now) -> None:
    lost = run("what-if", now, "lose:rack-0", "--quiet").stdout
    assert "22 fewer GPUs in use, proved." in lost
    assert "stops, and starts again elsewhere: team-a/eval, team-a/pretrain" in lost
    drained = run("what-if", now, "drain:gpu-4", "--quiet").stdout
    assert 'moves first, in this order: move 1 worker of "team-b/tune" from gpu-4 to' in drained
    stuck = run("what-if", now, "drain:rack-1", "--quiet")
    assert stuck.exit_code == 2
    assert 'job "team-b/probe": is not preemptible' in stuck.stderr


def test_each_change_by_itself_and_as_json(run, now, tmp_path) -> None:
    out = tmp_path / "what-if.json"
    words = ("quota:team-b=+16", "cordon:rack-0", "--each", "--json", "--quiet", "-o", out)
    done = run("what-if", now, *words)
    assert done.exit_code == 0, done.stderr
    both = json.loads(done.stdout)
    assert json.loads(out.read_text()) == both
    assert [one["changes"] for one in both] == [
        ['the quota of "team-b" is +16 GPUs'],
        ["rack-0 is cordoned: nothing new starts there"],
    ]
    assert both[1]["difference"] == [-6.0, -6.0]
    assert both[1]["before"]["gpus_in_use"] == 48.0
    assert both[1]["after"]["result"]["certificate"]["status"] == "optimal"


def test_hosts_that_cannot_be_emptied_have_an_exit_code(run, tmp_path) -> None:
    """Each of three jobs fits the host that is left, and two of them together fill it."""
    way = Configuration((TaskGroup("worker", 1, 4000),), 1.0)
    jobs = tuple(Job(name, 0.0, 1.0, (way,), elasticity="rigid", tenant="t") for name in "xyz")
    where = {"x": "h0", "y": "h0", "z": "h1"}
    running = tuple(Assignment(j, 0, (TaskPlacement(h, "worker", 1),)) for j, h in where.items())
    hosts = (Host("h0", "server"), Host("h1", "server"))
    topology = Topology("two", (HostType("server", 8, "h100"),), hosts)
    full = Instance("full", topology, jobs, running=running, tenants=(Tenant("t", 16_000),))
    full.to_json(tmp_path / "now.json")
    done = run("what-if", tmp_path / "now.json", "drain:h0", "-q")
    assert done.exit_code == 3
    assert "infeasible: The hosts cannot be emptied: h0: what runs has no place" in done.stderr
    wide = jobs[0].replace(configurations=(Configuration((TaskGroup("worker", 3, 4000),), 1.0),))
    tasks = (TaskPlacement("h0", "worker", 2), TaskPlacement("h1", "worker", 1))
    full.replace(jobs=(wide,), running=(Assignment("x", 0, tasks),)).to_json(tmp_path / "wide.json")
    done = run("what-if", tmp_path / "wide.json", "drain:h0", "-q")
    assert done.exit_code == 2
    assert 'h0: job "x" has no place on what is left (' in done.stderr


def test_wrong_usage_is_one_sentence(run, now) -> None:
    for words, need in (
        ((), "nothing is changed; name a change"),
        (("demand=+20%",), "is of a planning problem, and this is an instance"),
        (("cordon:rack-9",), 'no host or domain "rack-9"; did you mean'),
        (("cordon:rack-0", "--replay"), "--replay is of a planning problem, and"),
        (("cordon:rack-0", "--workers", "2"), "--workers is of a planning problem"),
        (("cordon:rack-0", "--scheduler", "srtf"), "--scheduler needs --replay"),
    ):
        done = run("what-if", now, *words)
        assert done.exit_code == 2
        assert need in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_problem_of_another_kind_is_refused(run) -> None:
    done = run("what-if", "inference-tiny/01", "cordon:rack-0")
    assert done.exit_code == 2
    assert "what-if takes a planning problem, or an instance" in done.stderr


def test_a_change_of_a_cluster_is_none_of_a_plan(run) -> None:
    done = run("what-if", "planning-tiny", "cordon:rack-0")
    assert done.exit_code == 2
    assert "is of a cluster, and this is a planning problem" in done.stderr


def test_the_changes_of_both_are_listed(run) -> None:
    listed = run("what-if", "--changes").stdout
    assert "Of a planning problem" in listed
    assert "Of a cluster as it stands" in listed
    assert "drain:PLACE" in listed
