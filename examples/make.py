"""The sample files of this folder: ``python examples/make.py [FOLDER]`` writes them again.

A test holds the files to what this script writes, and runs the README's commands on them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from alloc import Assignment, Configuration, Instance, Job, PlacementRules, TaskGroup, TaskPlacement
from alloc.documents.reading import save
from alloc.instances.operation import generate_operation
from alloc.instances.topologies import read_topology
from alloc.planning.quotas import resample_days
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem, Period
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass, TokenSummary
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel
from alloc.problems.quota_planning.problem import GpuCapacity, QuotaProblem, QuotaTenant

TOPOLOGY = """\
# Twelve DGX H100 under three leaf switches: 96 GPUs.
SwitchName=leaf0 Nodes=node[00-03]
SwitchName=leaf1 Nodes=node[04-07]
SwitchName=leaf2 Nodes=node[08-11]
SwitchName=spine Switches=leaf[0-2]
"""

JOBS = """\
JobID,User,Submit,Start,End,GPUs,Nodes
1,ana,2026-03-02 08:00:00,2026-03-02 08:00:00,2026-03-02 14:00:00,48,6
2,ben,2026-03-02 08:00:00,2026-03-02 08:00:00,2026-03-02 11:00:00,32,4
3,ana,2026-03-02 08:20:00,2026-03-02 14:00:00,2026-03-02 19:00:00,96,12
4,cleo,2026-03-02 08:20:00,2026-03-02 19:00:00,2026-03-02 19:40:00,8,1
5,cleo,2026-03-02 08:40:00,2026-03-02 19:00:00,2026-03-02 19:40:00,8,1
6,dan,2026-03-02 08:40:00,2026-03-02 19:00:00,2026-03-02 20:00:00,16,2
7,ben,2026-03-02 09:00:00,2026-03-02 19:00:00,2026-03-02 22:20:00,32,4
8,cleo,2026-03-02 09:20:00,2026-03-02 19:00:00,2026-03-02 19:20:00,8,1
9,dan,2026-03-02 10:20:00,2026-03-02 19:00:00,2026-03-02 20:00:00,16,2
"""
"""What an accounting system prints of a morning, under first in, first out."""


def queue(folder: Path) -> Instance:
    """Return running jobs on the cluster of `TOPOLOGY`, and a queue that does not all fit."""
    cluster, _ = read_topology(folder / "topology.conf", host_type="dgx-h100")

    def gang(name: str, tasks: int, gpus: int, rules: PlacementRules | None = None) -> Job:
        """Return a rigid gang of tasks with so many GPUs each, 12 cores and 100 GiB a GPU."""
        task = TaskGroup("worker", tasks, gpus * 1000, gpus * 12_000, gpus * 102_400)
        return Job(
            name,
            0,
            7200,
            (Configuration((task,), 1.0),),
            elasticity="rigid",
            placement=rules or PlacementRules(),
        )

    def on(name: str, *hosts: str) -> Assignment:
        return Assignment(name, 0, tuple(TaskPlacement(host, "worker", 1) for host in hosts))

    jobs = (
        gang("llama", 2, 8),
        gang("vision", 1, 4),
        gang("speech", 1, 4),
        gang("search", 1, 6),
        gang("train", 4, 8, PlacementRules(required="leaf")),
        gang("rank", 2, 8, PlacementRules(preferred="leaf")),
        gang("tune", 4, 2),
        gang("notebook", 1, 1),
        gang("eval", 1, 8),
    )
    running = (
        on("llama", "node00", "node01"),
        on("vision", "node04"),
        on("speech", "node05"),
        on("search", "node08"),
    )
    return Instance("queue", cluster, jobs, running=running)


def inference() -> InferenceProblem:
    """Return a model served day and night, with a way to run it on either of two GPU types."""
    ways = (
        ReplicaOption("h100", 4, 8800, ((1, 34), (8, 254), (32, 868), (64, 1222))),
        ReplicaOption("a100", 4, 3700, ((1, 22), (8, 175), (32, 611), (64, 877))),
    )
    chat = RequestClass(
        "chat",
        rate_per_s=(1.0, 5.0, 9.0),
        input_tokens=TokenSummary(mean=1155, percentile=99, value=4500),
        output_tokens=TokenSummary(mean=211, percentile=99, value=800),
        ttft=LatencyGoal(seconds=2.0, percentile=95),
        tpot=LatencyGoal(seconds=0.15, percentile=95),
    )
    model = ServedModel("assistant-70b", 131_500, (chat,), ways, kv_mib_per_token=0.3125)
    pools = (
        GpuPool("own", "h100", 8, hosts=4, price_per_gpu_hour=2.6, gpu_memory_mib=81_559),
        GpuPool("lent", "a100", 8, hosts=(4, 1, 4), price_per_gpu_hour=1.6, gpu_memory_mib=81_559),
    )
    periods = (Period("night", 8), Period("day", 12), Period("peak", 4))
    return InferenceProblem(models=(model,), pools=pools, periods=periods)


def quotas() -> QuotaProblem:
    """Return two teams that lend to each other, one busy by day and one by night."""
    rng = np.random.default_rng(0)
    day = 12 + 8 * np.array([0, 1, 1, 0]) + rng.normal(0, 3, (20, 4))
    night = 10 + 8 * np.array([1, 0, 0, 1]) + rng.normal(0, 3, (20, 4))
    series = np.clip(np.stack([day, night], axis=2), 0, None).round() * 1000
    names = ("day", "night")
    return QuotaProblem(
        tenants=tuple(
            QuotaTenant(name, cohort="research", borrowing_milli=8000, exceeding=0.1)
            for name in names
        ),
        capacity=(GpuCapacity("a100", 30_000),),
        scenarios=resample_days(series, names, "a100", 20, rng),
        period_hours=(6.0, 6.0, 6.0, 6.0),
        goal="expected_shortfall",
    )


def main(folder: Path) -> None:
    """Write every sample."""
    (folder / "topology.conf").write_text(TOPOLOGY, encoding="utf-8")
    (folder / "jobs.csv").write_text(JOBS, encoding="utf-8")
    queue(folder).to_json(folder / "queue.json")
    save(generate_operation("decision", num_jobs=8, num_nodes=4, seed=1), folder / "decision.json")
    save(inference(), folder / "inference.json")
    save(quotas(), folder / "quotas.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
