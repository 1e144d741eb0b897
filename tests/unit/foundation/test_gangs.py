"""The key of a gang: equal gangs are one object, in whatever process they were made."""

from __future__ import annotations

import pickle
import subprocess
import sys

from alloc.packing import is_known_to_stand, stands_alone
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, TaskGroup, rigid_gang


def test_equal_gangs_have_one_key_whatever_their_rate() -> None:
    """The rate does not decide where tasks stand."""
    first, second = rigid_gang(2, rate=1.0), rigid_gang(2, rate=3.0)
    assert first != second
    assert first.gang is second.gang
    assert first.gang != rigid_gang(3).gang
    for changed in (
        Configuration(first.tasks, 1.0, gpu_type="v100"),
        Configuration(first.tasks, 1.0, within="host"),
        Configuration((*first.tasks, TaskGroup("ps", 1, 0, 1000)), 1.0),
    ):
        assert changed.gang != first.gang


def test_a_key_from_another_process_is_found_again() -> None:
    """Hashes of text differ between processes; a key that kept its own would never be found."""
    code = (
        "import pickle, sys; from alloc.workload import rigid_gang; gang = rigid_gang(2); "
        "gang.gang; sys.stdout.buffer.write(pickle.dumps(gang))"
    )
    sent = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    there = pickle.loads(sent.stdout)
    assert {there.gang: 1}[rigid_gang(2).gang] == 1


def test_what_is_known_to_stand_is_not_asked_again() -> None:
    topology = Topology("one", (HostType("box", 2, "v100"),), (Host("h", "box"),))
    assert not is_known_to_stand(topology, rigid_gang(2))
    assert stands_alone(topology, rigid_gang(2))
    assert is_known_to_stand(topology, rigid_gang(2, rate=5.0))
    assert not stands_alone(topology, rigid_gang(3))
    assert not is_known_to_stand(topology, rigid_gang(3))
