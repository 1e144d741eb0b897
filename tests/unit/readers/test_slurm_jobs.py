"""Slurm's accounting and queue: text, JSON, and what they leave out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import slurm_instance
from alloc.topology import Host, HostType, Topology

T0 = 1_717_149_600
"""A moment, Unix seconds: 2024-05-31 10:00:00 UTC."""

# id, state, account, submission, start, end (s after T0), GPUs, nodes
DONE = (
    (11, "COMPLETED", "vision", 0, 300, 3900, 4, 1),
    (12, "TIMEOUT", "speech", 60, 600, 130_200, 16, 2),
    (13, "FAILED", "speech", 90, 600, 700, 1, 1),
)


def stamp(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    days, hours = divmod(10 + hours, 24)
    return (
        f"2024-{'05-31' if not days else f'06-0{days}'}T{hours:02}:{rest // 60:02}:{rest % 60:02}"
    )


def text_of(jobs=DONE, steps: bool = True) -> str:
    lines = ["JobID|JobName|Account|State|Submit|Start|End|Elapsed|AllocTRES|NNodes"]
    for id, state, account, submit, start, end, gpus, nodes in jobs:
        run = end - start
        elapsed = f"{run // 3600:02}:{run % 3600 // 60:02}:{run % 60:02}"
        if run >= 86400:
            elapsed = f"{run // 86400}-{run % 86400 // 3600:02}:{run % 3600 // 60:02}:{run % 60:02}"
        tres = f"billing=9,cpu=8,gres/gpu:a100={gpus},gres/gpu={gpus},mem=64G,node={nodes}"
        row = ["train", account, state, stamp(submit), stamp(start), stamp(end), elapsed, tres]
        lines.append("|".join([str(id), *row, str(nodes)]))
        for step in ("batch", "extern", "0") if steps else ():
            lines.append("|".join([f"{id}.{step}", *row, str(nodes)]))
    return "\n".join(lines) + "\n"


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def json_of(jobs=DONE, wrap=lambda n: n) -> dict[str, Any]:
    return {
        "meta": {"slurm": {"version": {"major": "24"}}},
        "jobs": [
            {
                "job_id": id,
                "account": account,
                "state": {"current": [state], "reason": "None"},
                "time": {
                    "submission": wrap(T0 + submit),
                    "start": wrap(T0 + start),
                    "end": wrap(T0 + end),
                    "elapsed": end - start,
                },
                "tres": {
                    "allocated": [
                        {"type": "cpu", "name": "", "id": 1, "count": 8},
                        {"type": "mem", "name": "", "id": 2, "count": 65536},
                        {"type": "node", "name": "", "id": 4, "count": nodes},
                        {"type": "gres", "name": "gpu", "id": 1001, "count": gpus},
                        {"type": "gres", "name": "gpu:a100", "id": 1002, "count": gpus},
                    ],
                    "requested": [],
                },
            }
            for id, state, account, submit, start, end, gpus, nodes in jobs
        ],
    }


def write(path: Path, content: str | dict[str, Any]) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_text_and_json_of_the_same_jobs_are_the_same_instance(tmp_path) -> None:
    text, account = slurm_instance(write(tmp_path / "a.txt", text_of()), num_hosts=2, name="x")
    assert [(j.id, j.arrival_s, j.work, j.tenant) for j in text.jobs] == [
        ("11", 0.0, 3600.0, "vision"),
        ("12", 60.0, 129_600.0, "speech"),
        ("13", 90.0, 100.0, "speech"),
    ]
    [group] = text.job("12").configurations[0].tasks
    assert (group.count, group.gpu_milli) == (2, 8000)
    assert {t.reason: t.count for t in account.dropped} == {
        "a step of a job of Slurm, not a job": 9
    }
    assert account.rows_read == 12
    assert "Slurm accounting a.txt, a file of the user" in text.description["source"]
    variants: tuple[str | dict[str, Any], ...] = (
        text_of(steps=False),
        text_of(steps=False).replace("\n", "|\n"),  # --parsable
        json_of(),
        json_of(wrap=number),
    )
    for k, content in enumerate(variants):
        same, account = slurm_instance(write(tmp_path / f"{k}", content), num_hosts=2, name="x")
        assert same.fingerprint == text.fingerprint, k
        assert account.num_dropped == 0
    zoned, _ = slurm_instance(tmp_path / "a.txt", timezone="Asia/Tokyo", num_hosts=2, name="x")
    assert zoned.fingerprint == text.fingerprint


def test_jobs_that_never_ran_or_still_run_are_counted(tmp_path) -> None:
    document = json_of()
    waiting, running = document["jobs"][0], document["jobs"][1]
    waiting["time"] |= {"start": 0, "end": 0, "elapsed": 0}
    waiting["tres"] = {"allocated": [], "requested": waiting["tres"]["allocated"]}
    running["time"] |= {"end": 0, "elapsed": 7200}
    running["state"] = {"current": ["RUNNING"]}
    document["jobs"] += [{"job_id": 99}, 7, {**running, "job_id": 12}]
    instance, account = slurm_instance(write(tmp_path / "sacct.json", document), num_hosts=2)
    assert [(j.id, j.work) for j in instance.jobs] == [("12", 7200.0), ("13", 100.0)]
    assert [t.reason for t in account.dropped] == ["has no run time: it has not run, or not ended"]
    assert {t.reason: t.count for t in account.skipped} == {
        "has no time or tres; take it with sacct --json": 1,
        "is no object": 1,
        "job_id appears before": 1,
    }
    assert "still ran" in account.altered[0].reason
    assert account.rows_read + account.rows_skipped == 6


A100 = HostType("8xa100", 8, "a100-sxm-80gb", 64_000, 512 * 1024)
T4 = HostType("4xt4", 4, "t4", 32_000, 128 * 1024)
CLUSTER = Topology(
    "cluster", (A100, T4), (*(Host(f"gpu0{k}", "8xa100") for k in range(1, 4)), Host("t1", "4xt4"))
)


def queued(id: int, state: str, tres: str, nodes: str = "", **more: Any) -> dict[str, Any]:
    runs = state == "RUNNING"
    return {
        "job_id": id,
        "job_state": [state],
        "account": "vision",
        "submit_time": number(T0 - 9000 + id),
        "start_time": number(T0 - 600 if runs else 0),
        "time_limit": number(60),
        "tres_req_str": tres,
        "tres_alloc_str": tres if runs else "",
        "nodes": nodes,
        "node_count": number(int(tres.partition("node=")[2].partition(",")[0] or 1)),
        "state_reason": "None" if runs else "Resources",
        **more,
    }


def queue(*jobs: Any) -> dict[str, Any]:
    return {"last_update": number(T0), "jobs": list(jobs)}


def test_a_queue_is_what_runs_on_its_hosts_and_what_waits(tmp_path) -> None:
    path = write(
        tmp_path / "squeue.json",
        queue(
            queued(3, "PENDING", "cpu=8,node=1,gres/gpu=4"),
            queued(1, "RUNNING", "cpu=8,node=2,gres/gpu:a100=16,gres/gpu=16", "gpu[01-02]"),
            queued(2, "RUNNING", "node=1,gres/gpu=2", "t1", time_limit=number(5)),
            queued(4, "PENDING", "node=1,gres/gpu:t4=2,gres/gpu=2", job_state="PENDING"),
            queued(5, "PENDING", "node=1,gres/gpu=1", time_limit={"set": True, "infinite": True}),
            queued(6, "PENDING", "node=1,gres/gpu=1", state_reason="JobHeldUser"),
            queued(7, "PENDING", "node=1,cpu=4"),
            queued(8, "RUNNING", "node=1,gres/gpu=1", "elsewhere"),
            queued(9, "RUNNING", "node=1,gres/gpu=3", "t1"),
            queued(10, "COMPLETED", "node=1,gres/gpu=1", "t1"),
            queued(11, "PENDING", "node=4,gres/gpu=32"),
            queued(12, "PENDING", "node=1,gres/gpu=1", array_task_string="1-9"),
            queued(1, "RUNNING", "node=1,gres/gpu=1", "t1"),
            "job",
        ),
    )
    instance, account = slurm_instance(path, topology=CLUSTER)
    assert [job.id for job in instance.jobs] == ["1", "2", "3", "4", "5", "12"]
    assert {job.arrival_s for job in instance.jobs} == {0.0}
    assert [(j.work, j.work_done) for j in instance.jobs[:3]] == [
        (3600.0, 600.0),
        (660.0, 600.0),
        (3600.0, 0.0),
    ]
    stands = {a.job: [(t.host, t.count) for t in a.tasks] for a in instance.running}
    assert stands == {"1": [("gpu01", 1), ("gpu02", 1)], "2": [("t1", 1)]}
    assert instance.job("4").configurations[0].gpu_type == "t4"
    assert {t.reason: t.examples for t in account.dropped} == {
        "waits whatever is free: JobHeldUser": ("6",),
        "asks for no GPU": ("7",),
        "runs on nodes that the topology has not": ("8 (elsewhere)",),
        "runs where the topology has not so many GPUs left": ("9 (t1)",),
        "is neither running nor waiting: COMPLETED": ("10",),
        "larger than the cluster of 28 GPUs": ("11 (4 x 8 GPUs)",),
    }
    assert {t.reason: t.count for t in account.altered} == {
        "is past its time limit; taken to end in a minute": 1,
        "has no time limit; taken to run for a year": 1,
        "is an array of waiting jobs, read as the first of them": 1,
    }
    assert [t.count for t in account.skipped] == [1, 1]
    assert account.rows_read == len(instance.jobs) + account.num_dropped
    assert "A job runs to its time limit." in instance.description["assumed"]


def test_what_waits_is_placed_beside_what_runs(tmp_path) -> None:
    """The GPUs that are free decide, and no running job is moved."""
    from alloc.solving.placing.place import place

    path = write(
        tmp_path / "squeue.json",
        queue(
            queued(1, "RUNNING", "node=3,gres/gpu=12", "gpu[01-03]"),
            queued(2, "PENDING", "node=3,gres/gpu=12"),
            queued(3, "PENDING", "node=1,gres/gpu=8"),
        ),
    )
    instance, _ = slurm_instance(path, topology=CLUSTER)
    placement = place(instance)
    assert placement.result.certificate.status == "optimal"
    assert list(placement.result.solution.unplaced) == ["3"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "neither JSON nor text with bars; take it with sacct --parsable2"),
        ("JobID   State\n1   COMPLETED\n", {}, "neither JSON nor text with bars"),
        ("JobID|State\n1|COMPLETED\n", {}, "no column looks like the arrival"),
        (json.dumps(json_of())[:-30], {}, "ends too early, .* it was cut off"),
        ('{"nodes": []}', {}, 'has no list "jobs"; take it with sacct --json'),
        ('{"jobs": []}', {}, "holds no job that can be read: it has no rows"),
        (queue(queued(1, "PENDING", "gres/gpu=1")), {}, "give its topology, for example"),
        (queue(queued(1, "PENDING", "gres/gpu=1")), {"states": "COMPLETED"}, "is a queue, a mom"),
        (
            queue(queued(1, "PENDING", "gres/gpu=1")),
            {"topology": CLUSTER, "num_hosts": 3},
            "is a queue, a moment; leave cluster_gpus",
        ),
        (
            queue(queued(1, "PENDING", "gres/gpu:1g.10gb=1")),
            {"topology": CLUSTER},
            "no job is left for it; .* asks for MIG slices",
        ),
        (json_of(), {"timezone": "UTC"}, "times in UTC; leave timezone out"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, content, options, message) -> None:
    path = write(tmp_path / "dump", content)
    with pytest.raises(InstanceError, match=message) as raised:
        slurm_instance(path, **options)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(InstanceError, match="there is no such file"):
        slurm_instance(tmp_path / "none.json")


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e400,
    float("nan"),
    10**40,
    "",
    "x",
    "\x00",
    [],
    {},
    [[]],
    {"set": 1},
)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_json_it_is_read_or_refused(tmp_path, seed) -> None:
    """Values are replaced at random places: no dump ends in a traceback, and all is counted."""
    rng = random.Random(seed)
    jobs = [
        queued(1, "RUNNING", "node=2,gres/gpu=16", "gpu[01-02]"),
        queued(2, "PENDING", "node=1,gres/gpu:a100=4"),
        queued(3, "RUNNING", "node=1,gres/gpu=2", "t1"),
    ]
    for document in (json_of(), queue(*jobs)):
        for holder, key in rng.sample(list(_places(document)), 3):
            holder[key] = rng.choice(JUNK)
        path = write(tmp_path / "dump.json", document)
        try:
            instance, account = slurm_instance(path, topology=CLUSTER)
        except InstanceError:
            continue
        assert account.rows_read == len(instance.jobs) + account.num_dropped
        assert account.rows_read + account.rows_skipped == len(document["jobs"])


def _places(value: Any):
    """Yield every place in a document, with what holds it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


@pytest.mark.parametrize("state", [" ", "", None, {}, [], [" "], {"current": ["\t"]}])
def test_a_state_of_nothing_is_no_state(tmp_path, state) -> None:
    document = json_of()
    document["jobs"][0]["state"] = state
    instance, _ = slurm_instance(write(tmp_path / "sacct.json", document))
    assert len(instance.jobs) == len(DONE)


def test_a_node_named_twice_spoils_its_job_alone(tmp_path) -> None:
    twice = queued(1, "RUNNING", "node=2,gres/gpu=16", "gpu01,gpu01")
    document = queue(twice, queued(2, "RUNNING", "node=1,gres/gpu=8", "gpu01"))
    instance, account = slurm_instance(write(tmp_path / "squeue.json", document), topology=CLUSTER)
    assert [a.job for a in instance.running] == ["2"]
    assert [t.reason for t in account.skipped] == ["nodes names a node twice"]


@pytest.mark.parametrize("limit", [0, -5, None])
def test_a_time_limit_that_is_no_time_is_none(tmp_path, limit) -> None:
    waits = queued(1, "PENDING", "node=1,gres/gpu=1", time_limit=limit)
    path = write(tmp_path / "squeue.json", queue(waits))
    instance, account = slurm_instance(path, topology=CLUSTER)
    assert instance.jobs[0].work == 365 * 86400
    assert [t.reason for t in account.altered] == ["has no time limit; taken to run for a year"]
