"""Placement rules on an empty cluster: what can run does, whatever the rule sees."""

from __future__ import annotations

import pytest

from alloc.problems.allocation.instance import Instance
from alloc.schedulers import make_scheduler
from alloc.schedulers.registry import SCHEDULERS
from alloc.simulation import simulate
from alloc.topology import Host, HostType, Topology
from alloc.workload import Configuration, Job, TaskGroup

RULES = [name for name, made in SCHEDULERS.items() if "schedulers.placement" in made]


@pytest.mark.parametrize("name", RULES)
def test_a_job_whose_groups_compete_for_hosts_is_not_left_waiting_for_ever(name: str) -> None:
    """The server fits one host only, where a rule may have put the workers first."""
    large = HostType("large", 2, "v100", 4_000, 8_192)
    small = HostType("small", 1, "v100", 5_000, 4_096)
    topology = Topology("c", (large, small), (Host("h0", "large"), Host("h1", "small")))
    tasks = (TaskGroup("worker", 2, 250, 0, 4_096), TaskGroup("ps", 1, 0, 5_000, 4_096))
    job = Job("job", 0.0, 1.0, (Configuration(tasks, 0.25),))
    run = simulate(Instance("i", topology, (job,)), make_scheduler(name))
    assert run.verified
    assert run.schedule.runs_of["job"][-1].end_s == 4.0
