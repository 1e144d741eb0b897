"""Named resources: what hosts and the cluster offer by name, on one axis with GPU, CPU, memory."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.packing import HostPool, stands_alone
from alloc.problems.allocation.instance import Instance
from alloc.resources import Amounts
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup

DISK = HostType("disk", 2, "a", 8000, 1024, resources={"nvme_gib": 10})
BARE = HostType("bare", 2, "a", 8000, 1024)
HOSTS = (Host("h0", "disk"), Host("h1", "bare"), Host("h2", "disk"))
CLUSTER = Topology("c", (DISK, BARE), HOSTS, resources={"licence": 3})


def gang(count: int, **resources: int) -> Configuration:
    return Configuration((TaskGroup("w", count, 1000, resources=resources),), 1.0)


def instance(*configurations: Configuration, topology: Topology = CLUSTER) -> Instance:
    jobs = tuple(Job(f"j{k}", 0.0, 1.0, (c,)) for k, c in enumerate(configurations))
    return Instance("named", topology, jobs)


def test_the_axis_is_gpu_cpu_memory_and_then_names_in_order() -> None:
    asked = instance(gang(1, licence=2), gang(2, nvme_gib=4), gang(1))
    names = ("gpu_milli", "cpu_milli", "memory_mib", "licence", "nvme_gib")
    assert asked.resource_names == asked.topology.resource_names == names
    demands = [job.configurations[0].demand for job in asked.jobs]
    assert demands == [(1000, 0, 0, 2, 0), (2000, 0, 0, 0, 8), (1000, 0, 0, 0, 0)]
    assert asked.topology.capacity[:, 4].tolist() == [10, 0, 10]
    assert asked.topology.totals.tolist() == [6000, 24000, 3072, 3, 20]


def test_without_names_the_axis_has_three_and_nothing_is_made_anew() -> None:
    jobs = (Job("j", 0.0, 1.0, (gang(1),)),)
    bare = Topology("c", (BARE,), (Host("h", "bare"),))
    asked = Instance("bare", bare, jobs)
    assert asked.topology is bare
    assert asked.jobs is jobs
    assert asked.topology.capacity.shape == (1, 3)


def test_jobs_that_share_configurations_share_them_on_the_axis_too() -> None:
    table = (gang(1), gang(2, licence=1))
    jobs = tuple(Job(f"j{k}", 0.0, 1.0, table) for k in range(3))
    asked = Instance("shared", CLUSTER, jobs)
    assert len({id(job.configurations) for job in asked.jobs}) == 1
    again = asked.replace(name="again")
    assert again.jobs is asked.jobs, "what is on the axis stays as it is"


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"x": -1}, '"x" is -1; it must be 0 or more'),
        ({"x": 1.5}, '"x" is 1.5; give a whole number'),
        ({"x": True}, '"x" is True; give a whole number'),
        ({"x": "4"}, "\"x\" is '4'; give a whole number"),
        ({"x": 10**10}, "more than a billion; use a larger unit"),
        ({"cpu_milli": 1}, '"cpu_milli", which has a field of its own'),
        ({"GPU": 1}, '"GPU", which has a field of its own'),
        ({"quota": 1}, '"quota", which is the name of a rule of placement'),
        ({" ": 1}, "has the name ' '; use a word"),
        ({"": 1}, "has the name ''; use a word"),
        ({"GPU type": 1}, "has the name 'GPU type'; use a word"),
        ({"a\nb": 1}, "; use a word"),
        ({"\ud800": 1}, "; use a word"),
        (["x"], "give amounts by name"),
    ],
)
def test_amounts_that_make_no_sense_are_refused_wherever_they_stand(resources, words) -> None:
    for make in (
        lambda: HostType("k", 1, "a", resources=resources),
        lambda: TaskGroup("w", 1, resources=resources),
        lambda: CLUSTER.replace(resources=resources),
    ):
        with pytest.raises(InstanceError, match=re.escape(words)):
            make()


def test_a_name_is_of_hosts_or_of_the_cluster() -> None:
    with pytest.raises(InstanceError, match='"nvme_gib" is offered by hosts of type "disk" and by'):
        CLUSTER.replace(resources={"nvme_gib": 1})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (gang(1, nvmegib=1), 'which no host and not the cluster has; did you mean "nvme_gib"?'),
        (gang(1, licence=4), "needs 4 licence of 3 licence"),
        (gang(4, licence=1), "needs 4 licence of 3 licence"),
        (gang(3, nvme_gib=7), "needs 21 nvme_gib of 20 nvme_gib"),
        (gang(3, nvme_gib=6), "3 w tasks of 1 GPU, 0 CPU, 0 MiB, 6 nvme_gib each, but the empty"),
    ],
)
def test_what_can_never_run_is_said_with_the_name(asked: Configuration, words: str) -> None:
    with pytest.raises(InstanceError, match=re.escape(words)):
        instance(asked)


def test_another_configuration_may_ask_for_what_nobody_has() -> None:
    job = Job("j", 0.0, 1.0, (gang(1), gang(2, unknown=1)))
    asked = Instance("either", CLUSTER, (job,))
    assert stands_alone(asked.topology, asked.jobs[0].configurations[0])
    assert not stands_alone(asked.topology, asked.jobs[0].configurations[1])
    assert not stands_alone(CLUSTER, job.configurations[1])


def test_documents_hold_names_and_no_zeros() -> None:
    asked = instance(gang(1, licence=2, nvme_gib=0), gang(1))
    text = asked.to_json()
    assert text.count('"resources"') == 3  # of the topology, of a host type, of a task
    assert Instance.from_json(text) == asked
    assert Instance.from_json(text).fingerprint == asked.fingerprint
    assert pickle.loads(pickle.dumps(asked)) == asked
    plain = instance(gang(1), topology=Topology("c", (BARE,), (Host("h", "bare"),)))
    assert "resources" not in plain.to_json()


def test_amounts_are_equal_whatever_zeros_they_name() -> None:
    assert Amounts({"a": 1}, ("b",)) == Amounts({"a": 1, "c": 0}) == {"a": 1}
    assert hash(Amounts({"a": 1}, ("b",))) == hash(Amounts({"a": 1}))
    assert Amounts({"a": 1}, ("b",)).row == (1, 0)


def test_a_pool_gives_a_licence_to_any_host_and_back() -> None:
    asked = instance(gang(2, licence=1), gang(1, licence=2))
    pool = HostPool(asked.topology)
    first, second = (job.configurations[0] for job in asked.jobs)
    placed = pool.place(first)
    assert placed is not None
    assert pool.free_in_all()[3] == 1
    assert (pool.free[:, 3] == 1).all(), "each host shows what is left in the cluster"
    assert pool.place(second) is None
    pool.release(first, placed)
    assert np.array_equal(pool.free, asked.topology.capacity)
    assert pool.place(second) is not None


def test_a_pool_takes_a_configuration_from_outside_its_instance() -> None:
    pool = HostPool(CLUSTER)
    assert pool.place(gang(1)) is not None
    assert pool.place(gang(1, nvme_gib=11)) is None
    with pytest.raises(InstanceError, match='asks for "licenses", which is not in topology "c"'):
        pool.place(gang(1, licenses=1))
