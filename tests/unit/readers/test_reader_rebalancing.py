"""The rebalancing sets: what a file of our own says is what the instance holds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers.rebalancing import read_rebalancing
from alloc.objectives import parse_level
from alloc.problems.allocation.solution import Allocation
from alloc.verification import verify


def small_set() -> dict[str, Any]:
    """Return two racks of a host each, a gang of two pods and a pod without GPU."""
    return {
        "name": "small",
        "hosts": [
            {"id": "h0", "rack": "r0", "gpu": 8, "cpu": 128, "mem": 1024},
            {"id": "h1", "rack": "r1", "gpu": 8, "cpu": 128, "mem": 1024},
        ],
        "jobs": [{"id": "j0", "pods": ["p0", "p1"]}, {"id": "j1", "pods": ["p2"]}],
        "pods": [
            {"id": "p0", "gpu": 2, "cpu": 16, "mem": 128, "initial": "h0"},
            {"id": "p1", "gpu": 2, "cpu": 16, "mem": 128, "initial": "h0"},
            {"id": "p2", "gpu": 0, "cpu": 8, "mem": 64, "initial": "h1"},
        ],
    }


def write(folder: Path, raw: object, name: str = "set.json") -> Path:
    """Write a set, gzip when the name says so."""
    file = folder / name
    text = json.dumps(raw).encode()
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return file


@pytest.mark.parametrize("name", ["set.json", "set.json.gz"])
def test_reads_gangs_hosts_and_where_they_run(tmp_path: Path, name: str) -> None:
    """Units and gangs decide everything that is measured on the sets."""
    instance = read_rebalancing(write(tmp_path, small_set(), name))
    gang, single = instance.jobs
    assert instance.topology.capacity.tolist() == [[8000, 128000, 1024 * 1024]] * 2
    assert gang.configurations[0].tasks[0].count == 2
    assert gang.configurations[0].tasks[0].demand == (2000, 16000, 128 * 1024)
    assert gang.placement.required == "rack"
    assert single.placement.required is None
    assert {(t.host, t.count) for a in instance.running for t in a.tasks} == {("h0", 2), ("h1", 1)}
    assert instance.moves is not None
    assert instance.moves.budget is None
    assert "left_out" not in instance.description
    standing = Allocation(instance.running)
    assert verify(instance, standing) == []
    # By hand: means 1/4, 5/32, 5/32; h0 is above by 1/4, 3/32, 3/32.
    value = parse_level("balance + 0.05 moves").evaluate(instance, standing)
    assert value == pytest.approx(0.4375)


def test_admission_sets_pin_what_runs_and_name_what_never_fits(tmp_path: Path) -> None:
    """A waiting pod larger than any host is left out by name, not silently."""
    raw = small_set()
    raw["pending_jobs"] = [{"id": "w0", "pods": ["q0"]}, {"id": "w1", "pods": ["q1"]}]
    raw["pending_pods"] = [
        {"id": "q0", "gpu": 1, "cpu": 4, "mem": 32, "initial": None},
        {"id": "q1", "gpu": 8, "cpu": 160, "mem": 32, "initial": None},
    ]
    instance = read_rebalancing(write(tmp_path, raw))
    assert [j.id for j in instance.jobs] == ["j0", "j1", "w0"]
    assert instance.moves is not None
    assert instance.moves.budget == 0
    assert instance.description["left_out"] == "1 waiting job that fits no host: w1"


@pytest.mark.parametrize("raw", [[], {"hosts": []}, {"hosts": 3, "jobs": [], "pods": []}, "text"])
def test_refuses_what_is_no_set(tmp_path: Path, raw: object) -> None:
    """One sentence with the file and the cure."""
    with pytest.raises(InstanceError, match="give a JSON file with hosts, jobs and pods"):
        read_rebalancing(write(tmp_path, raw))


def test_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A wrong path is bad input, not a traceback."""
    with pytest.raises(InstanceError, match="is not a rebalancing set"):
        read_rebalancing(tmp_path / "nowhere.json")
