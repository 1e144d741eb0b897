"""`alloc snapshot`, and the questions that are asked of what it makes, from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kubernetes_dumps import large_dump
from kubernetes_dumps import save as save_dump
from slurm_dumps import large_cluster
from slurm_dumps import save as save_slurm

from alloc.problems.allocation.instance import Instance

EXAMPLES = Path(__file__).parents[3] / "examples"


def asked(run, file: Path) -> Instance:
    """Place the queue, and explain what it left waiting; both agree, and the checker too."""
    problem = Instance.load(file)
    done = run("place", file, "--json", "--quiet")
    assert done.exit_code == 0, done.stderr
    placed = json.loads(done.stdout)["solution"]
    done = run("explain", file, "--json", "--quiet", "--no-moves")
    assert done.exit_code == 0, done.stderr
    explained = json.loads(done.stdout)
    running = {a.job for a in problem.running}
    waits = {job.id for job in problem.jobs} - running
    assert set(explained) == waits
    for job in waits:
        if not explained[job]["starts"]:
            assert job in placed["unplaced"], job
    return problem


def test_a_cluster_of_kubernetes_from_end_to_end(run, tmp_path) -> None:
    dump = save_dump(tmp_path / "dump.json", *large_dump(80, seed=1))
    done = run("snapshot", "kubernetes", dump, "-o", tmp_path / "now.json", "--quiet")
    assert done.exit_code == 0, done.stderr
    for words in ("cordoned", "offers MIG slices", "takes no new pods", "waiting jobs on"):
        assert words in done.stderr, done.stderr
    problem = asked(run, tmp_path / "now.json")
    assert problem.topology.num_hosts == 80
    assert {kind for kind in problem.topology.gpu_types if kind} >= {"h100-sxm-80gb"}
    # A rack can be emptied, or the reason is said.
    done = run("defrag", tmp_path / "now.json", "--empty", "r1", "--json", "--quiet")
    assert done.exit_code in (0, 2, 3), done.stderr


@pytest.mark.long
def test_a_thousand_nodes_of_kubernetes_answer(run, tmp_path) -> None:
    """Every resource of the dump is in the account, and a job of it is explained."""
    items = large_dump(1000, seed=1)
    dump = save_dump(tmp_path / "dump.json", *items)
    done = run("snapshot", "kubernetes", dump, "-o", tmp_path / "now.json", "--quiet")
    assert f"{len(items)} rows read, 0 unreadable, 0 left out" in done.stderr
    assert "of 1000 hosts." in done.stderr
    done = run("explain", tmp_path / "now.json", "team-a/wait-30", "--no-moves", "--quiet")
    assert 'job "team-a/wait-30" needs 128 GPUs (16 x 8)' in done.stdout
    asked = ("submit:new=8x8,level=rack,tenant=team-a", "lose:r1", "--quiet")
    done = run("what-if", tmp_path / "now.json", *asked)
    assert done.exit_code == 0, done.stderr
    assert "56 fewer GPUs in use, proved." in done.stdout
    assert 'job "new" can start now, if it alone is started: tasks on h100-' in done.stdout


def test_a_cluster_of_slurm_from_end_to_end(run, tmp_path) -> None:
    jobs, listed, tree = large_cluster(64, seed=2)
    files = save_slurm(tmp_path, jobs, listed)
    (tmp_path / "topology.conf").write_text(tree)
    done = run(
        *("snapshot", "slurm", files["queue"], "--nodes", files["nodes"]),
        *("--topology", tmp_path / "topology.conf", "-o", tmp_path / "now.json", "--quiet"),
    )
    assert done.exit_code == 0, done.stderr
    assert "takes no new jobs: DRAIN" in done.stderr
    problem = asked(run, tmp_path / "now.json")
    assert problem.topology.levels == ("spine", "leaf")


def test_a_job_that_is_not_submitted_yet_is_asked_about(run, tmp_path) -> None:
    done = run(
        *("snapshot", "kubernetes", EXAMPLES / "kubernetes.json"),
        *(EXAMPLES / "kubernetes-new-job.json", "-o", tmp_path / "now.json"),
    )
    assert done.exit_code == 0, done.stderr
    done = run("explain", tmp_path / "now.json", "team-b/new")
    assert 'job "team-b/new" needs 32 GPUs (4 x 8) in one rack' in done.stdout


def test_what_defrag_moves_lets_the_job_in(run, tmp_path) -> None:
    """The moves that it prints, carried out, leave a snapshot in which the job starts."""
    run("snapshot", "kubernetes", EXAMPLES / "kubernetes.json", "-o", tmp_path / "now.json")
    problem = Instance.load(tmp_path / "now.json")
    done = run("defrag", tmp_path / "now.json", "--for", "team-b/long", "--json", "--quiet")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert len([move for step in found["steps"] for move in step]) >= 1
    assert found["blocked"] is None
    stands = {a["job"]: a["tasks"] for a in found["result"]["solution"]["assignments"]}
    racks = {h.id: h.domain for h in problem.topology.hosts}
    assert len({racks[task["host"]] for task in stands["team-b/long"]}) == 1
    assert problem.job("team-b/long").placement.required == "rack"


def test_wrong_usage_is_one_sentence(run, tmp_path) -> None:
    dump = EXAMPLES / "kubernetes.json"
    for arguments, words in (
        (("kubernetes", tmp_path / "none.json"), "there is no such file"),
        (("kubernetes", dump, "-O", "level=x"), 'has no option "level"; did you mean "levels"'),
        (("kubernetes", dump, "--levels", "a", "-O", "levels=b"), "leave --option levels out"),
        (("kubernetes", dump, dump, "-O", "more=x"), "leave --option more out"),
        (("kubernetes", dump, "-O", "path=x"), 'has no option "path"'),
        (("slurm", dump, "-O", "kind=x"), 'has no option "kind"'),
        (("kubernetes", dump, "--levels", "a"), 'no node has the label "a"'),
        (("slurm", dump), 'has no list "jobs"'),
        (("slurm", dump, "--host-type", "dgx-h100"), "--host-type is of --topology"),
    ):
        done = run("snapshot", *arguments)
        assert done.exit_code == 2, arguments
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
