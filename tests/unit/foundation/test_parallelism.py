"""Parallelism and the predicted time of a step, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.problems.rank_mapping import (
    block_chains,
    step_time,
    transfer_time,
    value_mapping,
)
from alloc.topology.communication import (
    GB,
    CommunicationGraph,
    CommunicationTree,
    symmetric_tree,
)
from alloc.workload.parallelism import Parallelism, transformer_parallelism

ALPHA, S = 1e-6, 8e9
# Two leaves of two hosts of four GPUs; 10, 50 and 400 GB/s.
TREE = symmetric_tree(
    (("spine", 2), ("leaf", 2), ("host", 4)),
    {"spine": 10, "leaf": 50, "host": 400},
    {"spine": 4 * ALPHA, "leaf": 2 * ALPHA, "host": ALPHA},
)


def test_ranks_are_numbered_as_megatron_numbers_them():
    """Tensor first, then data, then pipeline: frameworks and this must mean the same rank."""
    job = Parallelism(tensor=2, pipeline=2, data=4, expert=2)
    assert job.groups("tensor")[:2].tolist() == [[0, 1], [2, 3]]
    assert job.groups("data")[:2].tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert job.groups("expert")[:2].tolist() == [[0, 2], [4, 6]]
    assert job.groups("pipeline")[:2].tolist() == [[0, 8], [1, 9]]


@pytest.mark.parametrize("kind", ["tensor", "data", "expert", "pipeline"])
def test_the_groups_of_a_kind_share_out_all_ranks(kind):
    job = Parallelism(tensor=2, pipeline=3, data=4, expert=2)
    groups = job.groups(kind)
    assert sorted(groups.ravel().tolist()) == list(range(24))
    assert groups.shape[1] == job.size(kind)


def test_the_volumes_of_gpt3_are_those_of_the_paper():
    """Narayanan et al. 2021: 8 b s h (t - 1) / t elements per layer, micro-batch and device."""
    job = transformer_parallelism(
        layers=96, hidden=12288, sequence=2048, tensor=8, pipeline=8, data=8, vocabulary=51200
    )
    bsh = 2048 * 12288 * 2
    moved = job.tensor_operations * 2 * 7 / 8 * job.tensor_bytes  # ring: sent by each rank
    assert moved == pytest.approx(8 * bsh * 7 / 8 * 96 / 8)
    assert job.pipeline_bytes == bsh / 8
    # 175 billion parameters over 64 ranks (equation 2), the embeddings on the first stage.
    parameters = job.data_bytes / 2 * 8 * 8
    layers = 12 * 96 * 12288**2 * (1 + 13 / (12 * 12288))
    assert parameters == pytest.approx(layers + 8 * (51200 + 2048) * 12288)


def test_a_mixture_of_experts_sends_each_token_to_each_of_its_experts_and_back():
    job = transformer_parallelism(
        layers=4, hidden=8, sequence=16, data=4, expert=4, experts_per_token=2, micro_batches=3
    )
    assert job.expert_bytes == 2 * 16 * 8 * 2
    assert job.expert_operations == 4 * 4 * 3


def test_a_ring_takes_its_rounds():
    job = Parallelism(data=4, data_bytes=S)
    inside = step_time(job, TREE, np.arange(4), "ring").data_s
    assert inside == pytest.approx(2 * 3 * (ALPHA + S / 4 / (400 * GB)))
    # One GPU of each host: two channels leave each leaf, one from each host.
    apart = step_time(job, TREE, np.array([0, 4, 8, 12]), "ring").data_s
    assert apart == pytest.approx(2 * 3 * (4 * ALPHA + S / 4 / (2 * 10 * GB)))


def test_channels_leave_a_host_side_by_side():
    """Two GPUs of the group in each host: two NICs carry it, each half of the bytes."""
    job = Parallelism(data=4, data_bytes=S)
    pairs = np.array([0, 1, 4, 5])
    assert step_time(job, TREE, pairs, "ring").data_s == pytest.approx(
        2 * 3 * (2 * ALPHA + S / 4 / (2 * 50 * GB))
    )
    # Three and one: a single channel.
    uneven = np.array([0, 1, 2, 4])
    assert step_time(job, TREE, uneven, "ring").data_s == pytest.approx(
        2 * 3 * (2 * ALPHA + S / 4 / (50 * GB))
    )


def test_a_tree_waits_less_and_sends_more():
    job = Parallelism(data=8, data_bytes=1.0)
    places = np.arange(8)
    tree, ring = (step_time(job, TREE, places, name).data_s for name in ("tree", "ring"))
    assert tree == pytest.approx(2 * 3 * 2 * ALPHA, rel=1e-3)
    assert step_time(job, TREE, places).data_s == min(tree, ring) == tree
    large = job.replace(data_bytes=S)
    assert step_time(large, TREE, places).data_s == step_time(large, TREE, places, "ring").data_s


def test_an_all_to_all_is_as_many_rounds_as_partners():
    job = Parallelism(data=8, expert=8, expert_bytes=S, expert_operations=2)
    share = S / 8
    # Three partners in the host, four in the other host of the leaf.
    assert step_time(job, TREE, np.arange(8)).expert_s == pytest.approx(
        2 * (3 * (ALPHA + share / (400 * GB)) + 4 * (2 * ALPHA + share / (50 * GB)))
    )


def test_a_pipeline_fills_drains_and_keeps_the_pace_of_its_slowest_boundary():
    job = Parallelism(pipeline=3, pipeline_bytes=S, micro_batches=5)
    # Host, then spine.
    host, spine = ALPHA + S / (400 * GB), 4 * ALPHA + S / (10 * GB)
    time = step_time(job, TREE, np.array([0, 1, 8])).pipeline_s
    assert time == pytest.approx(2 * (host + spine) + 2 * 4 * spine)


def test_a_step_waits_for_the_slowest_group_of_each_kind():
    job = Parallelism(tensor=2, data=2, tensor_bytes=S, tensor_operations=3)
    both_inside = step_time(job, TREE, np.array([0, 1, 4, 5])).tensor_s
    one_outside = step_time(job, TREE, np.array([0, 1, 4, 8])).tensor_s
    assert both_inside == pytest.approx(3 * 2 * (ALPHA + S / 2 / (400 * GB)))
    assert one_outside == pytest.approx(3 * 2 * (4 * ALPHA + S / 2 / (10 * GB)))


def test_what_hides_behind_the_backward_pass_costs_the_step_nothing():
    job = Parallelism(data=4, data_bytes=S)
    places = np.array([0, 4, 8, 12])
    whole = step_time(job, TREE, places).data_s
    assert step_time(job.replace(data_hidden=0.75), TREE, places).data_s == pytest.approx(whole / 4)
    assert transfer_time(job.replace(data_hidden=1), TREE, places) > 0


def test_the_times_of_a_mapping_add_up():
    job = Parallelism(2, 2, 2, 2, 1e6, 3, 1e7, 1, 1e5, 2, 1e6, 4)
    time = value_mapping(job, TREE, np.arange(8)).time
    parts = (time.tensor_s, time.expert_s, time.data_s, time.pipeline_s)
    assert time.step_s == sum(parts)
    assert min(parts) > 0


def test_blocks_divide_the_parts_of_a_group():
    assert block_chains(TREE, np.array([[0, 1, 4, 5], [0, 1, 2, 3], [0, 1, 2, 4]])).tolist() == [
        [4, 4, 2, 1],
        [4, 4, 4, 1],
        [4, 4, 1, 1],
    ]
    six = np.array([[0, 1, 2, 3, 4, 5]])
    assert block_chains(TREE, six).tolist() == [[6, 6, 2, 1]]


def test_on_one_level_tree_and_graph_agree():
    """The same formulas twice: NVLink matrices and trees must be comparable."""
    flat = symmetric_tree((("host", 8),), {"host": 100}, {"host": ALPHA})
    job = Parallelism(2, 2, 2, 2, 1e6, 3, 1e7, 1, 1e5, 2, 1e6, 4)
    for algorithm in ("ring", "tree", "auto"):
        one = step_time(job, flat, np.arange(8), algorithm)
        other = step_time(job, flat.graph(), np.arange(8), algorithm)
        assert one.step_s == pytest.approx(other.step_s)


def test_a_ring_over_pairs_is_as_slow_as_its_slowest_edge():
    width = np.full((3, 3), 100.0)
    width[2, 0] = 10.0
    graph = CommunicationGraph(("a", "b", "c"), width, np.array(ALPHA))
    job = Parallelism(data=3, data_bytes=S)
    time = step_time(job, graph, np.arange(3), "ring").data_s
    assert time == pytest.approx(4 * (ALPHA + S / 3 / (10 * GB)))
    # The other way round it does not use that edge.
    assert step_time(job, graph, np.array([1, 0, 2]), "ring").data_s == pytest.approx(
        4 * (ALPHA + S / 3 / (100 * GB))
    )


def test_all_traffic_is_bytes_over_bandwidth_of_each_pair():
    job = Parallelism(pipeline=2, data=2, data_bytes=S, pipeline_bytes=S / 4, micro_batches=2)
    places = np.array([0, 4, 8, 12])
    # Two rings of two, S over each of their two edges; four transfers of S / 4 over each chain.
    rings = 2 * 2 * S / (50 * GB)
    chains = 2 * 4 * S / 4 / (10 * GB)
    assert transfer_time(job, TREE, places) == pytest.approx(rings + chains)
    assert transfer_time(job, TREE.graph(), places) == pytest.approx(rings + chains)
    assert job.traffic().sum() == pytest.approx(2 * 2 * S + 2 * 4 * S / 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"expert": 3, "data": 4}, "expert degree 3 does not divide data degree 4"),
        ({"tensor": 0}, "tensor is 0"),
        ({"pipeline": 1.5}, "pipeline is 1.5; give a whole number"),
        ({"data": True}, "data is True"),
        ({"data_hidden": 2.0}, "data_hidden is 2; it is a share"),
        ({"tensor_bytes": -1.0}, "tensor_bytes is -1"),
        ({"pipeline_bytes": float("nan")}, "pipeline_bytes is nan"),
        ({"tensor": 10_000, "data": 10_000}, "more than a million"),
    ],
)
def test_malformed_jobs_are_refused(change, said):
    with pytest.raises(InstanceError, match=said):
        Parallelism(**change)


def test_malformed_models_and_mappings_are_refused():
    with pytest.raises(InstanceError, match="10 layers do not make 4 equal stages"):
        transformer_parallelism(layers=10, hidden=8, sequence=8, pipeline=4)
    with pytest.raises(InstanceError, match="bytes_per_element"):
        transformer_parallelism(layers=1, hidden=8, sequence=8, bytes_per_element=0)
    job = Parallelism(data=2)
    with pytest.raises(InstanceError, match="no groups of kind"):
        job.groups("tensr")  # type: ignore[arg-type]
    for places, said in (
        ([0], "expected the position of a GPU for each of 2 ranks"),
        ([0, 16], "names GPU 16"),
        ([0, -1], "names GPU -1"),
        ([3, 3], 'several ranks on GPU "gpu3"'),
        ([0.0, 1.0], "expected the position"),
    ):
        with pytest.raises(InstanceError, match=said):
            value_mapping(job, TREE, places)
    with pytest.raises(InstanceError, match='did you mean "ring"'):
        value_mapping(job, TREE, [0, 1], "rings")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpus": ()}, "no GPUs"),
        ({"gpus": ("a", "a")}, '"a" is given twice'),
        ({"domains": np.zeros((2, 3))}, "expected a row for each of 2 GPUs"),
        ({"domains": np.array([[0, 0], [1, 1]])}, "several domains"),
        ({"bandwidth_gb_per_s": np.array([5.0, 1.0])}, "gets better outwards"),
        ({"latency_s": np.array([0.0, 1.0])}, "gets better outwards"),
        ({"bandwidth_gb_per_s": np.array([0.0, 1.0])}, "is 0 at a level"),
        ({"latency_s": np.array([-1.0, -2.0])}, "0 or more"),
    ],
)
def test_malformed_trees_are_refused(change, said):
    good: dict[str, Any] = {
        "gpus": ("a", "b"),
        "levels": ("rack", "host"),
        "domains": np.array([[0, 0], [0, 1]]),
        "bandwidth_gb_per_s": np.array([1.0, 5.0]),
        "latency_s": np.array([2.0, 1.0]),
    }
    CommunicationTree(**good)
    with pytest.raises(InstanceError, match=said):
        CommunicationTree(**{**good, **change})


def test_domains_of_a_tree_must_nest():
    with pytest.raises(InstanceError, match='of level "host" lies in two of level "rack"'):
        CommunicationTree(
            ("a", "b"),
            ("top", "rack", "host"),
            np.array([[0, 0, 0], [0, 1, 0]]),
            np.ones(3),
            np.zeros(3),
        )


@pytest.mark.parametrize(
    ("width", "wait", "said"),
    [
        (np.ones((2, 3)), 0.0, "bandwidth_gb_per_s has shape"),
        (np.zeros((2, 2)), 0.0, 'no bandwidth from "a" to "b"'),
        (np.ones((2, 2)), -1.0, "latency_s must be 0 or more"),
        (np.ones((2, 2)), np.full((2, 2), np.nan), "latency_s must be"),
    ],
)
def test_malformed_graphs_are_refused(width, wait, said):
    with pytest.raises(InstanceError, match=said):
        CommunicationGraph(("a", "b"), width, np.array(wait))
