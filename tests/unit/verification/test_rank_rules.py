"""The checker of rank mappings finds what was tampered with."""

from __future__ import annotations

import dataclasses

import pytest
from communication_trees import symmetric_tree

from alloc.solving.rank_mapping.method import map_ranks
from alloc.verification.rank_mapping import check_mapping
from alloc.workload.parallelism import Parallelism

TREE = symmetric_tree((("rack", 2), ("host", 4)), {"rack": 10, "host": 100}, 1e-6)
JOB = Parallelism(2, 2, 2, 1, 1e6, 2, 1e7, 1, pipeline_bytes=1e5, micro_batches=3)


@pytest.fixture
def mapping():
    return map_ranks(TREE, JOB).solution


def test_an_honest_mapping_is_clean(mapping):
    assert check_mapping(JOB, TREE, mapping) == []


def test_the_algorithm_of_the_claim_matters(mapping):
    codes = {violation.code for violation in check_mapping(JOB, TREE, mapping, "tree")}
    assert codes == {"predicted_time"}


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda gpus: gpus[:-1], "rank_count", "8 ranks and the mapping 7"),
        (lambda gpus: (gpus[1], *gpus[1:]), "shared_gpu", "runs 2 ranks"),
        (lambda gpus: ("gpu99", *gpus[1:]), "unknown_gpu", 'GPU "gpu99" is not'),
    ],
)
def test_ranks_need_gpus_of_their_own(mapping, change, code, said):
    broken = dataclasses.replace(mapping, gpus=change(mapping.gpus))
    found = check_mapping(JOB, TREE, broken)
    assert [violation.code for violation in found] == [code]
    assert said in str(found[0])


@pytest.mark.parametrize("claim", [0.5, float("nan")])
def test_a_time_that_is_made_up_is_found(mapping, claim):
    time = dataclasses.replace(mapping.time, data_s=claim)
    found = check_mapping(JOB, TREE, dataclasses.replace(mapping, time=time))
    assert [violation.ids for violation in found] == [("data_s",)]
    found = check_mapping(JOB, TREE, dataclasses.replace(mapping, transfer_s=claim))
    assert [violation.ids for violation in found] == [("transfer_s",)]
