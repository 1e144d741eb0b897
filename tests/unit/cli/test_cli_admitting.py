"""``alloc admit``: one job against what is promised, or all that may be refused."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from alloc.cli.application import app
from alloc.documents.formats import record_format
from alloc.problems.allocation.instance import Instance
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup

HOUR = 3600.0
WAYS = tuple(Configuration((TaskGroup("worker", k, 1000),), float(k)) for k in (1, 2))
CLUSTER = Topology("c", (HostType("k", 2, "a100"),), (Host("h", "k"),))
PROMISED = Job("old", 0.0, 2 * HOUR, WAYS, deadline_s=2 * HOUR)
NEW = Job("new", 0.0, 2 * HOUR, WAYS, deadline_s=2 * HOUR)


def run(*arguments: str):
    return CliRunner().invoke(app, ["admit", *arguments, "--quiet"])


def test_one_job_is_held_against_the_promised_ones(tmp_path):
    night = tmp_path / "night.json"
    Instance("night", CLUSTER, (PROMISED,), slot_s=HOUR).to_json(night)
    asking = tmp_path / "job.json"
    record_format(Job, "job").write(NEW, asking)
    answer = tmp_path / "answer.json"
    done = run(str(night), "--job", str(asking), "--output", str(answer))
    assert done.exit_code == 0
    assert done.stdout.startswith('job "new" is accepted: at least ')
    assert json.loads(answer.read_text(encoding="utf-8"))["certificate"]["status"] == "optimal"
    record_format(Job, "job").write(NEW.replace(work=3 * HOUR), asking)
    done = run(str(night), "--job", str(asking), "--json")
    assert done.exit_code == 0
    (said,) = json.loads(done.stdout)["answers"]
    assert said["sentence"] == 'job "new" is refused: 1 GPU-hours short before 02:00.'
    assert (said["accepted"], said["short_gpu_h"], said["is_bound"]) == (False, 1.0, False)


def test_broken_promises_are_exit_code_3_and_nothing_to_decide_is_2(tmp_path):
    night = tmp_path / "night.json"
    full = PROMISED.replace(work=4 * HOUR)
    both = (full, full.replace(id="too"), NEW.replace(refusable=True))
    Instance("night", CLUSTER, both, slot_s=HOUR).to_json(night)
    done = run(str(night))
    assert done.exit_code == 3
    assert "may not be refused" in done.output
    Instance("night", CLUSTER, (PROMISED,), slot_s=HOUR).to_json(night)
    done = run(str(night))
    assert done.exit_code == 2
    assert "no job may be refused" in done.output
