"""A policy file and a queue that its decisions show in."""

from __future__ import annotations

from pathlib import Path

import pytest
from policy_files import write_short_first

from alloc import Configuration, HostType, Instance, Job, TaskGroup
from alloc.topology import flat_cluster


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a policy that serves the shortest job first."""
    path = tmp_path / "short-first.onnx"
    write_short_first(path)
    return path


@pytest.fixture
def queue() -> Instance:
    """Return jobs of 400 s, 100 s and 200 s that arrive together at one GPU, in slots of 100 s."""
    one_gpu = (Configuration((TaskGroup("worker", 1, 1000),), 1.0),)
    jobs = tuple(
        Job(f"job-{work:g}", 0.0, work, one_gpu, preemptible=False)
        for work in (400.0, 100.0, 200.0)
    )
    cluster = flat_cluster("one GPU", HostType("box", 1, "gpu"), 1)
    return Instance("a queue", cluster, jobs, slot_s=100.0)
