"""`alloc place`, `alloc defrag` and `alloc explain`: answers, documents and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from alloc.documents import json_schema
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.topology import Domain, Host, HostType, Topology
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup


def gang(name, count, gpus, **more):
    configuration = Configuration((TaskGroup("worker", count, 1000 * gpus),), 1.0)
    return Job(name, 0.0, 1.0, (configuration,), elasticity="rigid", **more)


@pytest.fixture
def queue_file(tmp_path):
    """Two racks of two hosts; `train` wants one of them whole, `tune` fits."""
    kind = HostType("server", 8, "h100")
    racks = tuple(Domain(f"r{k}", "rack") for k in range(2))
    hosts = tuple(Host(f"h{k}", "server", f"r{k // 2}") for k in range(4))
    topology = Topology("two racks", (kind,), hosts, ("rack",), racks)
    jobs = (
        gang("a", 1, 4),
        gang("b", 1, 4),
        gang("train", 2, 8, placement=PlacementRules(required="rack")),
        gang("tune", 1, 1),
    )
    running = tuple(
        Assignment(name, 0, (TaskPlacement(host, "worker", 1),))
        for name, host in (("a", "h0"), ("b", "h2"))
    )
    path = tmp_path / "queue.json"
    Instance("queue", topology, jobs, running=running).to_json(path)
    return str(path)


def test_place_shows_levels_hosts_and_reasons(run, queue_file):
    done = run("place", queue_file, "--backend", "highs")
    assert done.exit_code == 0, done.stderr
    for word in [
        "optimal",
        "1 of 2 waiting jobs",
        "gpus placed",
        "moves",
        "tune",
        'job "train" needs 16 GPUs (2 x 8)',
    ]:
        assert word in done.stdout


def test_what_is_certified_is_the_instance_of_the_file(run, queue_file, tmp_path):
    """Running jobs stay by the meaning of the file: the answer is checked without further words."""
    answer = str(tmp_path / "answer.json")
    assert run("place", queue_file, "--backend", "highs", "--output", answer).exit_code == 0
    certificate = json.loads(Path(answer).read_text())["certificate"]
    assert (
        certificate["fingerprint"] == Instance.from_json(Path(queue_file).read_text()).fingerprint
    )
    assert run("verify", queue_file, answer).exit_code == 0


def test_place_moves_running_jobs_only_when_told(run, queue_file):
    pinned = json.loads(run("place", queue_file, "--backend", "highs", "--json").stdout)
    jsonschema.validate(pinned, json_schema("result"))
    assert list(pinned["solution"]["unplaced"]) == ["train"]
    done = run("place", queue_file, "--backend", "highs", "--json", "--move-budget", "1")
    moved = json.loads(done.stdout)
    assert "unplaced" not in moved["solution"]
    assert moved["certificate"]["objective"] == 1


def test_place_writes_its_answer_for_the_judge(run, queue_file, tmp_path):
    answer = tmp_path / "answer.json"
    done = run("place", queue_file, "--backend", "highs", "-o", str(answer))
    assert done.exit_code == 0, done.stderr
    assert run("verify", queue_file, str(answer)).exit_code == 0
    moved = tmp_path / "moved.json"
    budget = ("--move-budget", "1")
    assert run("place", queue_file, "--backend", "highs", *budget, "-o", moved).exit_code == 0
    assert run("verify", queue_file, moved, *budget).exit_code == 0
    assert run("verify", queue_file, moved, "--move-budget", "0").exit_code != 0


def test_a_goal_that_nobody_knows_is_bad_input(run, queue_file):
    done = run("place", queue_file, "--objective", "gpus_placd")
    assert done.exit_code == 2
    assert 'did you mean "gpus_placed"?' in done.stderr


def test_defrag_prints_moves_that_can_be_carried_out(run, queue_file):
    done = run("defrag", queue_file, "--backend", "highs", "--for", "train")
    assert done.exit_code == 0, done.stderr
    assert "1 move" in done.stdout
    assert 'move 1 worker of "' in done.stdout
    document = json.loads(
        run("defrag", queue_file, "--backend", "highs", "--empty", "r1", "--json").stdout
    )
    assert [len(step) for step in document["steps"]] == [1]
    assert document["emptied"] == ["h2"]
    assert document["blocked"] is None


def test_defrag_that_is_impossible_says_so_with_its_exit_code(run, queue_file):
    done = run("defrag", queue_file, "--backend", "highs", "--for", "train", "--move-budget", "0")
    assert done.exit_code == 3
    assert 'job "train" cannot start within 0 moves.' in done.stderr
    both = run("defrag", queue_file, "--for", "train", "--empty", "r1")
    assert both.exit_code == 2
    assert "give --for or --empty, not both" in both.stderr


def test_explain_says_why_and_what_would_do(run, queue_file):
    done = run("explain", queue_file, "--no-moves")
    assert done.exit_code == 0, done.stderr
    assert 'job "train" needs 16 GPUs (2 x 8) in one rack' in done.stdout
    assert 'job "tune" can start now, if it alone is started.' in done.stdout
    document = json.loads(run("explain", queue_file, "train", "--no-moves", "--json").stdout)
    assert document["train"]["starts"] is False
    assert document["train"]["conflict"] == ["running jobs", "level"]
    assert document["train"]["relaxations"][0]["requirement"] == "level"
    assert document["train"]["reserved"] in done.stdout
    assert "a start is reserved at" in done.stdout


def test_explain_counts_whole_gpus_and_tasks(run, tmp_path):
    """A share of a gang's memory concerns whole GPUs; a job without GPUs is counted in tasks."""
    kind = HostType("server", 4, "h100", 8_000, 1_000)
    topology = Topology("one", (kind,), (Host("h0", "server"),))

    def job(name: str, group: TaskGroup) -> Job:
        return Job(name, 0.0, 1.0, (Configuration((group,), 1.0),), elasticity="rigid")

    jobs = (
        job("runs", TaskGroup("worker", 1, 0, 4_000, 600)),
        job("train", TaskGroup("worker", 2, 1000, 0, 300)),
        job("etl", TaskGroup("worker", 1, 0, 6_000)),
    )
    running = (Assignment("runs", 0, (TaskPlacement("h0", "worker", 1),)),)
    path = tmp_path / "short.json"
    Instance("short", topology, jobs, running=running).to_json(path)
    done = run("explain", path, "--no-moves")
    assert done.exit_code == 0, done.stderr
    lines = " ".join(done.stdout.split())
    assert "with 200 MiB of memory a task it would start (1 GPU concerned)" in lines
    assert "with 4 cores of CPU a task it would start (1 task concerned)" in lines


def test_explain_of_an_unknown_job_names_a_near_one(run, queue_file):
    done = run("explain", queue_file, "trian", "--no-moves")
    assert done.exit_code == 2
    assert 'has no job "trian"; did you mean "train"?' in done.stderr


def test_the_cluster_may_come_from_a_topology_file(run, queue_file, tmp_path):
    """A queue meets the cluster of Slurm's own file; what runs must be on hosts of it."""
    file = tmp_path / "topology.conf"
    leaves = "SwitchName=r0 Nodes=h[0-1]\nSwitchName=r1 Nodes=h[2-3]\n"
    file.write_text(leaves + "SwitchName=rack Switches=r[0-1]\n")
    cluster = ("--topology", file, "--host-type", "dgx-h100")
    done = run("explain", queue_file, "tune", "--no-moves", *cluster)
    assert done.exit_code == 2
    assert 'job "train": level "rack" is not in the topology' in done.stderr
    renamed = tmp_path / "queue.json"
    renamed.write_text((tmp_path / "queue.json").read_text().replace('"rack"', '"leaf"'))
    done = run("place", renamed, "--backend", "highs", "--json", *cluster)
    assert done.exit_code == 0, done.stderr
    assert list(json.loads(done.stdout)["solution"]["unplaced"]) == ["train"]
    file.write_text("SwitchName=leaf Nodes=other[0-3]\n")
    lost = run("place", renamed, *cluster)
    assert lost.exit_code == 2
    assert 'job "a": runs on host "h0", which is not in the topology' in lost.stderr


@pytest.mark.parametrize(
    "command",
    [("place",), ("defrag",), ("explain", "tune"), ("solve",), ("simulate", "--scheduler", "fifo")],
)
def test_hosts_are_not_said_without_a_topology_file(run, queue_file, command):
    verb, *rest = command
    done = run(verb, queue_file, *rest, "--host-type", "dgx-h100")
    assert done.exit_code == 2
    assert '--host-type "dgx-h100" says what the hosts of a topology file are' in done.stderr
    assert "add --topology FILE, or leave it out" in done.stderr


def test_the_headline_says_so_where_no_job_waits(run, queue_file):
    """Beside "4 of 5 waiting jobs start", "0 of 0" would read as a failure."""
    document = json.loads(Path(queue_file).read_text(encoding="utf-8"))
    running = {assignment["job"] for assignment in document["running"]}
    document["jobs"] = [job for job in document["jobs"] if job["id"] in running]
    Path(queue_file).write_text(json.dumps(document), encoding="utf-8")
    done = run("place", queue_file, "-q")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("GPUs in use; no job waits.")
