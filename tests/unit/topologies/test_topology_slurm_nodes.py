"""Slurm's nodes and licences: what `slurm.conf` says beside a topology of switches."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies import read_topology

NODES = """
NodeName=DEFAULT CPUs=64 RealMemory=512000
NodeName=gpu[0-2] Gres=gpu:a100:4(S:0-1),nvme:2,lustre:no_consume:4G,shard:a100:8 State=UNKNOWN
NodeName=cpu1 Sockets=2 CoresPerSocket=16
Licenses=matlab:4,ansys
"""
TREE = "SwitchName=leaf0 Nodes=gpu[0-1]\nSwitchName=leaf1 Nodes=cpu1,gpu2\n"
TREE += "SwitchName=top Switches=leaf[0-1]\n"


def test_lines_of_slurm_conf_say_what_nodes_and_the_cluster_offer(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_text(TREE + NODES)
    topology, report = read_topology(path)
    by_id = {host.id: topology.host_type(host) for host in topology.hosts}
    assert by_id["gpu0"] == by_id["gpu2"]
    assert (by_id["gpu0"].num_gpus, by_id["gpu0"].gpu_type) == (4, "a100-sxm-40gb")
    assert by_id["gpu0"].resources == {"gres/nvme": 2, "gres/shard": 8}
    assert by_id["cpu1"].capacity == (0, 32000, 512000)
    assert topology.resources == {"license/matlab": 4, "license/ansys": 1}
    assert [tally.reason for tally in report.altered] == [
        "Gres that is never used up (no_consume) is not read"
    ]
    chosen, _ = read_topology(path, host_type={"gpu*": "dgx-a100"})
    assert chosen.num_gpus == 24, "what is chosen counts before what the file says"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("NodeName=gpu0 Gres=gpu:a100:4,gpu:t4:1", "a host has GPUs of one type"),
        ("NodeName=gpu0 Gres=gpu:a:b:c", "write name, name:count or name:type:count"),
        ("NodeName=gpu0 RealMemory=much", "RealMemory is .much.; give a whole number"),
        ("NodeName=gpu[0-1]\nNodeName=gpu1", "node .gpu1. is said again"),
        ("Licenses=:4", "write name, name:count"),
        ("NodeName=gpu0 Gres=nvme:4G", "more than a billion; use a larger unit"),
    ],
)
def test_what_slurm_conf_says_wrongly_is_refused_in_place(tmp_path, line, words):
    path = tmp_path / "topology.conf"
    path.write_text(f"{TREE}{line}\n")
    with pytest.raises(InstanceError, match=words):
        read_topology(path, host_type="dgx-a100")
