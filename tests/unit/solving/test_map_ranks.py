"""`map_ranks`: what is asked for, what is refused, and answers whose optimum is known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from communication_trees import symmetric_tree

from alloc.errors import CertificateError, InstanceError, UnsupportedFeatureError
from alloc.problems.rank_mapping import value_mapping
from alloc.result import Limits
from alloc.solving.rank_mapping import method as rank_mapping
from alloc.solving.rank_mapping.method import map_ranks
from alloc.topology import GpuLink, HostType, dgx_h100, leaf_spine
from alloc.topology.communication import CommunicationGraph, CommunicationTree
from alloc.topology.job_fabric import job_fabric
from alloc.topology.topology import flat_cluster
from alloc.workload.parallelism import Parallelism, transformer_parallelism

JOB = transformer_parallelism(
    layers=8, hidden=4096, sequence=2048, tensor=8, pipeline=4, data=4, micro_batches=8
)


def places_in(fabric, answer):
    """Return the position among the fabric's GPUs of the GPU of each rank."""
    return np.array([fabric.gpus.index(gpu) for gpu in answer.solution.gpus])


def test_tensor_groups_get_hosts_and_the_dearer_of_data_and_pipeline_gets_leaves():
    """The rule of thumb, here as a theorem: 8 ranks a host, 4 hosts a leaf."""
    tree = symmetric_tree(
        (("spine", 4), ("leaf", 4), ("host", 8)), {"spine": 10, "leaf": 50, "host": 450}
    )
    answer = map_ranks(tree, JOB)
    places = places_in(tree, answer).reshape(4, 4, 8)
    assert (places // 8 == places[:, :, :1] // 8).all()
    leaf = places[:, :, 0] // 32
    assert (leaf == leaf[:, :1]).all()  # the gradients of a stage stay in its leaf
    chatty = JOB.replace(pipeline_bytes=1e3 * JOB.pipeline_bytes)
    leaf = places_in(tree, map_ranks(tree, chatty)).reshape(4, 4, 8)[:, :, 0] // 32
    assert (leaf == leaf[:1]).all()  # now the pipelines do


def test_a_placement_in_pieces_is_solved_too():
    """Leaves of 5, 3 and 2 hosts: runs of stages of different length, beyond the simple case."""
    hosts = [0] * 5 + [1] * 3 + [2] * 2
    domains = np.array([[0, leaf, h] for h, leaf in enumerate(hosts) for _ in range(4)])
    tree = CommunicationTree(
        tuple(f"g{g}" for g in range(40)),
        ("spine", "leaf", "host"),
        domains,
        np.array([10.0, 50.0, 450.0]),
        np.array([1e-5, 5e-6, 1e-6]),
    )
    job = Parallelism(4, 5, 2, 1, 1e6, 8, 1e6, 1, pipeline_bytes=1e8, micro_batches=2)
    answer = map_ranks(tree, job)
    assert answer.status == "optimal"
    assert answer.objective < value_mapping(job, tree, np.arange(40)).time.step_s


def test_ranks_fill_the_gpus_that_suit_them_when_there_are_some_to_spare():
    """Six GPUs here, two there: a tensor group of two in the small host would do no harm, but of
    four none fits there."""
    domains = np.array([[0, h] for h in (0, 0, 1, 1, 1, 1, 1, 1)])
    tree = CommunicationTree(
        tuple("abcdefgh"), ("top", "host"), domains, np.array([1.0, 100.0]), np.zeros(2)
    )
    answer = map_ranks(tree, Parallelism(tensor=4, tensor_bytes=1e6, tensor_operations=1))
    assert set(places_in(tree, answer).tolist()) < {2, 3, 4, 5, 6, 7}
    assert answer.status == "optimal"


def test_a_topology_and_its_hosts_are_enough():
    topology = leaf_spine(dgx_h100(), 2, 4, num_spines=2, oversubscription=4)
    gpus = [f"host-{h}/gpu{g}" for h in (0, 4, 1, 5) for g in range(8)]
    job = transformer_parallelism(layers=4, hidden=2048, sequence=2048, tensor=8, data=4)
    answer = map_ranks(topology, job, gpus)
    assert answer.certificate.backend == "alloc counts"
    assert answer.status == "optimal"
    assert set(answer.solution.gpus) == set(gpus)
    assert answer.gap == 0
    assert isinstance(job_fabric(topology, gpus), CommunicationTree)


def mesh() -> HostType:
    """Four GPUs in a ring of NVLinks, the diagonals over PCIe."""
    ring = ((0, 2), (2, 1), (1, 3), (3, 0))
    links = [GpuLink(f"gpu{a}", f"gpu{b}", "nvlink", 50.0) for a, b in ring]
    links += [GpuLink(f"gpu{g}", "plx0", "pcie", 12.0) for g in range(4)]
    return HostType("mesh", 4, "v100", links=tuple(links))


def test_on_nvlinks_a_ring_of_ranks_follows_the_ring_of_links():
    topology = flat_cluster("mesh", mesh(), 1)
    job = Parallelism(tensor=4, tensor_bytes=1e9, tensor_operations=1)
    answer = map_ranks(topology, job, algorithm="ring")
    fabric = job_fabric(topology)
    assert isinstance(fabric, CommunicationGraph)
    assert answer.certificate.objective_name == "transfer"
    assert answer.status == "optimal"
    assert answer.objective == pytest.approx(4 * 1.5e9 / 50e9)
    naive = value_mapping(job, fabric, np.arange(4), "ring")
    assert answer.solution.time.step_s < naive.time.step_s


def test_a_tree_can_be_asked_for_the_least_traffic_time():
    tree = symmetric_tree((("top", 2), ("host", 3)), {"top": 10, "host": 100})
    job = Parallelism(pipeline=2, data=3, data_bytes=1e9, pipeline_bytes=1e6, micro_batches=1)
    answer = map_ranks(tree, job, objective="transfer")
    assert answer.certificate.backend == "alloc quadratic-assignment"
    # Both data groups in a host of their own: 2 rings x 3 edges x 4/3 GB, and 3 pipelines.
    assert answer.objective == pytest.approx(8e9 / 100e9 + 2 * 3 * 1e6 / 10e9)
    assert answer.status == "optimal"


def test_a_job_that_says_nothing_is_mapped_for_free():
    answer = map_ranks(symmetric_tree((("host", 4),), {"host": 10}), Parallelism(data=4))
    assert answer.objective == answer.bound == 0
    assert answer.status == "optimal"
    graph = CommunicationGraph(tuple("abcd"), np.ones((4, 4)), np.array(0.0))
    assert map_ranks(graph, Parallelism(data=4)).objective == 0


def test_out_of_time_the_naive_order_is_kept_and_the_bound_stays_true():
    tree = symmetric_tree(
        (("spine", 4), ("leaf", 4), ("host", 8)), {"spine": 10, "leaf": 50, "host": 450}
    )
    best = map_ranks(tree, JOB)
    answer = map_ranks(tree, JOB, limits=Limits(seconds=1e-6))
    assert answer.certificate.limit == "time"
    assert answer.status == "feasible"
    naive = value_mapping(JOB, tree, np.arange(128)).time.step_s
    assert answer.bound <= best.objective <= answer.objective <= naive


def test_the_algorithm_is_part_of_what_is_optimised():
    tree = symmetric_tree((("top", 2), ("host", 4)), {"top": 10, "host": 100}, 1e-6)
    job = Parallelism(data=8, data_bytes=1e3)
    times = {name: map_ranks(tree, job, algorithm=name).objective for name in ("ring", "tree")}
    assert times["tree"] < times["ring"]
    assert map_ranks(tree, job).objective == times["tree"]


def test_what_cannot_be_done_is_refused():
    tree = symmetric_tree((("host", 4),), {"host": 10})
    job = Parallelism(data=4)
    graph = CommunicationGraph(tuple("abcd"), np.ones((4, 4)), np.array(0.0))
    with pytest.raises(InstanceError, match="the job has 8 ranks and its placement 4 GPUs"):
        map_ranks(tree, Parallelism(data=8))
    with pytest.raises(InstanceError, match='does not take objective "stp"; did you mean "step"'):
        map_ranks(tree, job, objective="stp")  # type: ignore[arg-type]
    with pytest.raises(InstanceError, match='algorithm "bus"'):
        map_ranks(tree, job, algorithm="bus")  # type: ignore[arg-type]
    with pytest.raises(InstanceError, match="seconds is 0"):
        map_ranks(tree, job, limits=Limits(seconds=0))
    with pytest.raises(InstanceError, match="with a topology only"):
        map_ranks(tree, job, gpus=["gpu0"])
    with pytest.raises(UnsupportedFeatureError, match='use objective "transfer"'):
        map_ranks(graph, job, objective="step")


@pytest.mark.long
@pytest.mark.parametrize("objective", ["step", "transfer"])
def test_an_answer_passes_the_checker_before_it_is_returned(objective, monkeypatch):
    """A wrong time, or a GPU for two ranks, is an error of the program and never an answer."""
    tree = symmetric_tree((("top", 2), ("host", 4)), {"top": 10, "host": 100})
    job = Parallelism(tensor=2, data=4, tensor_bytes=1e6, tensor_operations=1, data_bytes=1e7)
    right = value_mapping(job, tree, np.arange(8))
    time = dataclasses.replace(right.time, data_s=0.5 * right.time.data_s)
    for wrong in (
        dataclasses.replace(right, time=time),
        dataclasses.replace(right, gpus=(right.gpus[0], *right.gpus[:-1])),
    ):
        monkeypatch.setattr(rank_mapping, "value_mapping", lambda *args, wrong=wrong: wrong)
        with pytest.raises(CertificateError, match="breaks a rule"):
            map_ranks(tree, job, objective=objective)
