"""Slurm's queue with its nodes: states, CPU and memory, partitions, limits of accounts."""

from __future__ import annotations

import pytest
from slurm_dumps import large_cluster, save, slurm_job, slurm_node

from alloc.errors import InstanceError
from alloc.instances.readers import slurm_instance
from alloc.problems.allocation.instance import Moves
from alloc.problems.allocation.solution import Allocation
from alloc.solving.placing.place import place


def read(tmp_path, jobs, nodes, **options):
    files = save(tmp_path, jobs, nodes)
    return slurm_instance(files["queue"], nodes=files["nodes"], **options)


def starts(instance) -> set[str]:
    found = place(instance.replace(moves=Moves(budget=0)), "weight_placed").result
    assert found.certificate.status == "optimal"
    assert isinstance(found.solution, Allocation)
    return {a.job for a in found.solution.assignments} - {a.job for a in instance.running}


def test_what_nodes_say_is_used_is_taken_off_once(tmp_path) -> None:
    """The job with GPUs stays a job; the CPUs of the job without are gone."""
    instance, account = read(
        tmp_path,
        [
            slurm_job(1, "RUNNING", 1, 4, on="n1"),
            slurm_job(2, "RUNNING", 1, 0, on="n1", cpus=100, memory=10),
            slurm_job(3, "PENDING", 1, 4, cpus=12),
            slurm_job(4, "PENDING", 1, 4, cpus=13),
        ],
        [slurm_node("n1", used=(4, 116, 75_776))],
    )
    assert instance.topology.capacity.tolist() == [[8000, 28_000, 1_000_000 - 10_240]]
    assert [a.job for a in instance.running] == ["1"]
    assert starts(instance) == {"3"}
    assert {t.reason for t in account.dropped} == {"asks for no GPU"}


@pytest.mark.parametrize(
    "state", [["IDLE", "DRAIN"], ["DOWN"], "DOWN*", ["IDLE", "RESERVED"], "idle+drain", "draining"]
)
def test_a_node_that_takes_no_jobs_keeps_what_stands_there(tmp_path, state) -> None:
    jobs = [slurm_job(1, "RUNNING", 1, 2, on="n1"), slurm_job(2, "PENDING", 1, 2)]
    nodes = [slurm_node("n1", used=(2, 16, 65_536), state=state), slurm_node("n2", used=(7, 0, 0))]
    assert starts(read(tmp_path, jobs, [slurm_node("n1"), nodes[1]])[0]) == {"2"}
    instance, account = read(tmp_path, [*jobs, slurm_job(3, "PENDING", 1, 1)], nodes)
    assert starts(instance) == {"3"}
    assert not instance.job("1").preemptible
    assert "takes no new jobs" in str(account.also[0])


def test_what_older_and_newer_versions_say_of_a_node(tmp_path) -> None:
    """Flags beside the base state; GPUs in use under either name."""
    drained, busy = slurm_node("n1", state="idle"), slurm_node("n2")
    drained["state_flags"] = ["DRAIN"]
    busy |= {"gres_used": "", "tres_used": "cpu=8,mem=1G,gres/gpu=7"}
    jobs = [slurm_job(1, "PENDING", 1, 1), slurm_job(2, "PENDING", 1, 2)]
    instance, _ = read(tmp_path, jobs, [drained, busy])
    assert instance.topology.capacity[:, 0].tolist() == [0, 1000]
    assert starts(instance) == {"1"}


def test_nodes_that_are_powered_down_are_started_when_needed(tmp_path) -> None:
    nodes = [slurm_node("n1", state=["IDLE", "POWERED_DOWN"])]
    assert starts(read(tmp_path, [slurm_job(1, "PENDING", 1, 8)], nodes)[0]) == {"1"}


def test_a_job_stays_within_its_partitions(tmp_path) -> None:
    nodes = [
        slurm_node("n1", partitions=["gpu"]),
        slurm_node("n2", partitions=["gpu", "short"]),
        slurm_node("n3", partitions=["other"]),
    ]
    jobs = [
        *(slurm_job(k, "PENDING", 1, 8, partition="gpu") for k in (1, 2, 3)),
        slurm_job(4, "PENDING", 1, 8, partition="other,nowhere"),
        slurm_job(5, "PENDING", 1, 8, partition="nowhere"),
    ]
    instance, account = read(tmp_path, jobs, nodes)
    placed = starts(instance)
    assert len(placed) == 3
    assert "4" in placed
    assert [t.examples for t in account.dropped] == [("5",)]


def test_limits_of_accounts_are_quotas(tmp_path) -> None:
    accounts = tmp_path / "assoc.txt"
    accounts.write_text(
        "Account|User|GrpTRES\nroot||\nvision||cpu=999,gres/gpu=8\nvision|eve|gres/gpu=1\n"
        "speech||cpu=4\nlarge||gres/gpu=9999\n"
    )
    jobs = [slurm_job(k, "PENDING", 1, 4) for k in range(1, 5)]
    jobs.append(slurm_job(9, "RUNNING", 1, 4, on="elsewhere"))
    nodes = [slurm_node(f"n{k}") for k in range(2)]
    instance, account = read(tmp_path, jobs, nodes, accounts=accounts)
    # One of the account's jobs runs where the dump has no node: its GPUs count all the same.
    quota = {t.name: t.gpu_quota_milli for t in instance.tenants}
    assert quota == {"vision": 4000, "large": 16_000}
    assert len(starts(instance)) == 1
    assert "limit of a user, which is not read" in str(account)


def test_the_tree_of_topology_conf_with_the_nodes_of_scontrol(tmp_path) -> None:
    from alloc.instances.readers.slurm.nodes import read_slurm_nodes
    from alloc.instances.topologies import read_topology

    jobs, nodes, tree = large_cluster(64, seed=5)
    files = save(tmp_path, jobs, nodes)
    (tmp_path / "topology.conf").write_text(tree)
    known, _ = read_slurm_nodes(files["nodes"])
    topology, _ = read_topology(
        tmp_path / "topology.conf", host_type={n: node.kind for n, node in known.items()}
    )
    instance, _ = slurm_instance(files["queue"], nodes=files["nodes"], topology=topology)
    assert instance.topology.levels == ("spine", "leaf")
    held = dict.fromkeys(known, 0)
    for running in instance.running:
        for task in running.tasks:
            group = instance.job(running.job).configurations[0].tasks[0]
            held[task.host] += task.count * group.gpu_milli
    for host, row in zip(instance.topology.hosts, instance.topology.capacity, strict=True):
        node = known[host.id]
        assert held[host.id] == 1000 * node.used["gpu"]
        if node.closed:
            assert row[0] == held[host.id]
        else:
            # Free cores are what scontrol says is free, whoever holds the others.
            used = held[host.id] // 1000 and 16_000
            assert row[1] - used == node.kind.cpu_milli - node.used["cpu"]


def test_nodes_and_hosts_that_only_one_side_knows(tmp_path) -> None:
    from alloc.topology import Host, HostType, Topology

    kind = HostType("box", 8, "a100", 128_000, 1_000_000)
    topology = Topology("c", (kind,), (Host("n1", "box"), Host("n9", "box")))
    instance, account = read(
        tmp_path,
        [slurm_job(k, "PENDING", 1, 8) for k in (1, 2)],
        [slurm_node("n1"), slurm_node("n2")],
        topology=topology,
    )
    assert len(starts(instance)) == 1
    changed = {t.reason: t.examples for t in account.altered}
    assert changed["host is not in the list of nodes and takes nothing"] == ("n9",)
    assert changed["node is not in the topology and is left out"] == ("n2",)


def test_mistakes_are_one_sentence(tmp_path) -> None:
    files = save(tmp_path, [slurm_job(1, "PENDING", 1, 1)], [])
    for nodes, message in (
        (files["queue"], 'has no list "nodes"; take it with scontrol show nodes --json'),
        (files["nodes"], "holds no node that can be read"),
        (tmp_path / "none", "there is no such file"),
    ):
        with pytest.raises(InstanceError, match=message):
            slurm_instance(files["queue"], nodes=nodes)
    odd = slurm_node("n1")
    save(tmp_path, [slurm_job(1, "PENDING", 1, 1)], [{**odd, "cpus": "many"}, odd, odd, None, 3])
    _, account = slurm_instance(files["queue"], nodes=files["nodes"])
    assert account.also[0].rows_skipped == 4
    with pytest.raises(InstanceError, match="has no columns Account and GrpTRES"):
        slurm_instance(files["queue"], nodes=files["nodes"], accounts=files["queue"])
    history = tmp_path / "sacct.txt"
    history.write_text(
        "JobID|Submit|Elapsed|AllocTRES\n1|2024-05-31T09:00:00|01:00:00|gres/gpu=1\n"
    )
    with pytest.raises(InstanceError, match="is a history; leave nodes and accounts"):
        slurm_instance(history, nodes=files["nodes"])
