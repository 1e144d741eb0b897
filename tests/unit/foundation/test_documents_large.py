"""Large documents are read as they were written."""

from __future__ import annotations

from alloc.documents import format_of
from alloc.documents.reading import save
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup


def test_ten_thousand_jobs_share_their_eight_tables() -> None:
    """What makes reading fast (benchmarks/load_instance.py times it): one check for each table."""
    sets = [
        tuple(
            Configuration((TaskGroup("worker", w, 1000), TaskGroup("ps", p, 0, 2000)), w / (p + k))
            for w in range(1, 11)
            for p in range(1, 11)
        )
        for k in range(1, 9)
    ]
    jobs = tuple(Job(f"job-{j}", 1.5 * j, 10.0 + j, sets[j % 8]) for j in range(10_000))
    cluster = flat_cluster("c", HostType("h", 8, "v100", 64_000), 1000)
    instance = Instance("large", cluster, jobs)
    text = save(instance)
    found = format_of("instance").parse(text)
    assert len({id(job.configurations) for job in found.jobs}) == 8
    assert found.fingerprint == instance.fingerprint
