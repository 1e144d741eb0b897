"""The choice of a domain as a policy: what it is shown of domains and gangs, and how it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alloc.problems.allocation.instance import Instance
from alloc.schedulers.learned.domain_choice import (
    DOMAIN_COLUMNS,
    GANG_COLUMNS,
    DomainChoice,
    DomainFeatures,
)
from alloc.schedulers.learned.kinds import feature_spec, policy_kind
from alloc.schedulers.learned.stepwise import Reply
from alloc.simulation import Simulation
from alloc.topology import HostType, Topology
from alloc.topology.fabrics import leaf_spine
from alloc.workload import Configuration, Job, PlacementRules, TaskGroup, rigid_gang

HOST = HostType("h", 4, "generic", 16_000)
LEAVES = leaf_spine(HOST, 2, 2, 1, port_gb_per_s=50.0)
FEATURES = DomainFeatures(domains=3)


def gang(name: str, gpus: int, arrival_s: float = 0.0, **changes: Any) -> Job:
    ways = (rigid_gang(gpus, cpu_milli_per_gpu=1000),)
    return Job(name, arrival_s, 3600.0, ways, elasticity="rigid").replace(**changes)


def opened(*jobs: Job, topology: Topology = LEAVES, **options: Any) -> Any:
    driven = Simulation(Instance("gangs", topology, jobs), **options)
    choice = DomainChoice(FEATURES)
    choice.open(driven.next_decision())
    return choice, driven


def test_domains_and_gang_are_shown() -> None:
    """By hand: two leaves of two hosts with four GPUs; the first gang takes three of the first."""
    choice, driven = opened(gang("a", 3), gang("b", 6, 0.0))
    choice.act(0)
    of_domain = len(DOMAIN_COLUMNS)
    # Five of eight GPUs are free in the first leaf, at most four on a host; six do not fit.
    assert choice.observation[0, :of_domain].tolist() == pytest.approx(
        [5 / 8, 5 / 16, 1.0, 0.5, 29 / 32, 0.0]
    )
    assert choice.observation[1, :of_domain].tolist() == [1, 0.5, 1, 1, 1, 1]
    assert not choice.observation[2].any(), "there are two leaves"
    assert choice.observation[3, :of_domain].tolist() == pytest.approx(
        [13 / 16, 13 / 16, 1.0, 0.75, 61 / 64, 1.0]
    )
    asked = [6 / 16, 0.25, 0.5, 0.0, 0.0]
    for row in (0, 1, 3):
        assert choice.observation[row, of_domain:].tolist() == asked
    assert len(asked) == len(GANG_COLUMNS)
    assert choice.mask.tolist() == [False, True, False, True, True]
    driven.apply(choice.close())
    assert not choice.observation.any()


def test_work_that_is_not_told_is_not_shown() -> None:
    choice, _ = opened(gang("a", 3), knowledge="none")
    assert choice.observation[0, len(DOMAIN_COLUMNS) + 2] == 0.0


def test_required_level_is_kept_anywhere() -> None:
    """A gang that must stay in one leaf and fits in none now is not asked for."""
    choice, _ = opened(gang("a", 6), gang("b", 6), gang("c", 4, placement=PlacementRules("leaf")))
    choice.act(0)
    choice.act(1)
    assert choice.asked is None
    assert choice.act(1) is Reply.MASKED


def test_gang_of_two_kinds_of_tasks_is_placed_as_a_whole() -> None:
    """Room for each kind by itself is not enough: the domain must hold them together."""
    both = Configuration(
        (TaskGroup("worker", 2, 4000, 2000), TaskGroup("loader", 2, 0, 15_000)), 1.0
    )
    choice, _ = opened(Job("a", 0.0, 60.0, (both,), elasticity="rigid"))
    assert choice.mask.tolist() == [False, False, False, True, False]
    assert choice.act(3) is Reply.GRANTED


def test_kind_runs_a_network() -> None:
    """The largest allowed logit: leaf 1 for the first gang, and anywhere for one of three hosts."""
    spec = feature_spec("gang-domain/1", domains=3)
    assert [tensor.text for tensor in spec.inputs] == ["float32 [batch, 4, 11]"]
    assert [tensor.text for tensor in spec.outputs] == ["float32 [batch, 5]"]
    kind: Any = policy_kind("gang-domain/1")
    parameters = kind.parameters.model_validate(spec.parameters)

    def network(inputs: Any) -> Any:
        assert inputs["domains"].shape == (1, 4, 11)
        return {"logits": np.array([[0, 2, 3, 1, -1]], np.float32)}

    decider = kind.make_decider(network, parameters, name="p")
    decider.reset()
    driven = Simulation(Instance("gangs", LEAVES, (gang("a", 4), gang("b", 12))))
    decision = decider.decide(driven.next_decision())
    hosts = [{task.host for task in assignment.tasks} for assignment in decision.assign]
    leaf = LEAVES.domain_of_host["leaf"]
    leaves = [{int(leaf[LEAVES.host_index[host]]) for host in its} for its in hosts]
    assert [len(its) for its in leaves] == [1, 2]
    assert leaves[0] == {int(leaf.max())}
