"""What a worker remembers from one job to the next: the last topologies, and not too much."""

import dataclasses
import json

import pytest

from alloc.documents import kept
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, TaskPlacement, assignment_of_one
from alloc.server.worker import _MAX_GANGS, _MAX_HOSTS, _is_small, _names
from alloc.topology import HostType, Topology, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup

HOST = HostType("server", 8, "v100", 96_000, 524_288)


@pytest.fixture
def memory(monkeypatch):
    """Nothing is kept yet, and nothing afterwards."""
    monkeypatch.setattr(kept, "_KEPT", {})


def read(num_hosts, work=1.0, resources=None):
    """Return the topology of an instance that was just read."""
    jobs = (
        Job("j", 0.0, work, (Configuration((TaskGroup("worker", 1, 1000, 1000, 1000),), 1.0),)),
    )
    cluster = flat_cluster("c", HOST, num_hosts)
    document = json.loads(Instance("i", cluster, jobs).to_json())
    document["topology"]["resources"] = resources or {}
    return Instance.from_json(json.dumps(document)).topology


def test_without_being_asked_nothing_is_kept(memory):
    first = read(1)
    assert read(1) == first
    assert read(1) is not first


def test_the_last_topologies_are_known_again_with_what_was_worked_out_of_them(memory):
    kept.keep_last(Topology, 2, lambda topology: True, _names)
    first = read(1)
    first.known_gangs["a gang"] = True
    again = read(1, work=2.0)
    assert again is first
    assert again.known_gangs["a gang"]
    second = read(2)
    assert read(2) is second
    assert read(1) is first
    read(3)  # which takes the place of the one that was asked for longest ago
    assert read(1) is first
    assert read(2) is not second


def test_a_resource_of_which_there_is_none_is_not_forgotten_nor_remembered(memory):
    """Amounts are equal that differ in names of 0 alone, and the axis of vectors has these names.

    What a job is told then depended on what its worker was asked before.
    """
    kept.keep_last(Topology, 8, lambda topology: True, _names)
    plain = read(1)
    named = read(1, resources={"licence_x": 0})
    assert named == plain
    assert "licence_x" in named.resource_names
    assert "licence_x" not in read(1).resource_names
    assert read(1) is plain
    assert read(1, resources={"licence_x": 0}) is named


def test_what_is_too_large_is_forgotten(memory):
    kept.keep_last(Topology, 2, lambda topology: len(topology.known_gangs) < 100)
    first = read(1)
    assert read(1) is first
    first.known_gangs.update(dict.fromkeys(range(100)))
    assert read(1) is first  # once more, and then no longer
    assert read(1) is not first


def test_workers_keep_ordinary_topologies_only():
    usual = flat_cluster("c", HOST, 4)
    assert _is_small(usual)
    usual.known_gangs.update(dict.fromkeys(range(_MAX_GANGS + 1)))
    assert not _is_small(usual)
    assert not _is_small(flat_cluster("c", HOST, _MAX_HOSTS + 1))


def test_an_assignment_made_quickly_is_what_its_class_makes():
    placed = TaskPlacement("h", "slice", 1, (3,), (4,))
    usual = Assignment("j", 2, (placed,))
    quick = assignment_of_one("j", 2, "h", "slice", (3,), (4,))
    assert quick == usual
    assert hash(quick) == hash(usual)
    assert repr(quick) == repr(usual)
    assert dataclasses.astuple(quick) == dataclasses.astuple(usual)
