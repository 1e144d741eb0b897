"""Admission: proofs on made queues, and ElasticFlow held against the bound on its own trace.

``python -m benchmarks.admission [--seeds 3] [--part tables|linear|trace] [--seconds 120]``. Queues
of 20 jobs with tables that are not concave on 24 slots of 16 GPUs; of 1,000 jobs with linear tables
on 500 slots; and the 195 jobs of ElasticFlow's testbed with their deadlines, their first ones by
themselves too (in the extracts at ``ALLOC_TRACES``). Times are CPU time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from random import Random

import numpy as np

from alloc.instances.readers.itp import itp_instance
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits
from alloc.simulation import simulate
from alloc.simulation.metrics import metrics_of
from alloc.solving import solve
from alloc.topology import Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, TaskGroup
from benchmarks.data import data_folder
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True

TABLES_S, LINEAR_S = 30.0, 60.0
"""Targets: CPU seconds of a proof."""
TRACE_GAP = 0.02
"""Target: gap to the bound on the trace, offline."""
DECISION_S = 0.1
"""Target: median time of a decision online."""
PREFIXES = (25, 50, 75, 100, 125, 150, 175, 195)
SLOT_S = 600.0
"""Slots of the trace: its shortest job takes eleven minutes."""


def _cluster(gpus: int, per_host: int = 8) -> Topology:
    hosts = tuple(Host(f"h{h}", "k") for h in range(gpus // per_host))
    return Topology("cluster", (HostType("k", per_host, "a100"),), hosts)


def _ways(rates: dict[int, float]) -> tuple[Configuration, ...]:
    return tuple(
        Configuration((TaskGroup("worker", gpus, MILLI),), rate) for gpus, rate in rates.items()
    )


def queue_of_tables(seed: int, jobs: int = 20, slots: int = 24, gpus: int = 16) -> Instance:
    """Return jobs whose tables have steps and peaks: no size is a mix of its neighbours.

    Parameters
    ----------
    seed
        Random seed.
    jobs, slots, gpus
        Size of the queue and of the cluster; slots of an hour.
    """
    rng = Random(seed)
    made = []
    for j in range(jobs):
        rates, rate = {}, 1.0
        for size in (1, 2, 4, 8, 16):
            rates[size] = rate
            # A step that gains little is often followed by one that gains much.
            rate *= rng.choice((0.95, 1.2, 1.5, 2.0, 2.6))
        begin = rng.randrange(slots * 2 // 3)
        end = min(begin + rng.randint(2, 12), slots)
        most = max(rates.values()) * (end - begin)
        made.append(
            Job(
                f"j{j}",
                begin * 3600.0,
                rng.uniform(0.2, 0.7) * most * 3600.0,
                _ways(rates),
                weight=float(rng.randint(1, 9)),
                deadline_s=end * 3600.0,
                refusable=True,
            )
        )
    return Instance(f"tables-{seed}", _cluster(gpus), tuple(made), slot_s=3600.0)


def queue_of_linear(seed: int, jobs: int = 1000, slots: int = 500, gpus: int = 64) -> Instance:
    """Return jobs that are twice as fast on twice the GPUs, about twice as many as there is room.

    Parameters
    ----------
    seed
        Random seed.
    jobs, slots, gpus
        Size of the queue and of the cluster; slots of ten minutes.
    """
    rng = Random(seed)
    tables = {m: _ways({k: float(k) for k in range(1, m + 1)}) for m in (4, 8, 16)}
    made = []
    for j in range(jobs):
        most = rng.choice((4, 8, 16))
        span = rng.randint(3, 60)
        begin = rng.randrange(slots - span)
        area = rng.uniform(0.1, 0.6) * most * span
        made.append(
            Job(
                f"j{j}",
                begin * SLOT_S,
                area * SLOT_S,
                tables[most],
                weight=float(rng.randint(1, 20)),
                deadline_s=(begin + span) * SLOT_S,
                refusable=True,
            )
        )
    return Instance(f"linear-{seed}", _cluster(gpus), tuple(made), slot_s=SLOT_S)


def trace_instance(max_jobs: int | None = None) -> Instance | None:
    """Return the 195 jobs of ElasticFlow's testbed on its 128 GPUs, None where they are not.

    Parameters
    ----------
    max_jobs
        Only so many of the first.
    """
    traces = data_folder("traces")
    table = traces / "microsoft-itp-2021" / "elasticflow" / "195job.csv.gz"
    if not table.is_file():
        return None
    made, _ = itp_instance(
        table,
        num_hosts=16,
        slot_s=SLOT_S,
        scaling=traces / "elasticflow" / "throughputs_A100",
        deadlines="refusable",
        max_jobs=max_jobs,
    )
    return made


def _proved(name: str, made: Instance, seconds: float) -> tuple[float, str]:
    began = time.process_time()
    found = solve(made, "admission", limits=Limits(seconds=seconds))
    cpu_s = time.process_time() - began
    c = found.certificate
    print(
        f"{name:20s} {len(made.jobs):6d} {c.objective or 0.0:9.0f} {c.bound:9.0f} "
        f"{cpu_s:8.1f}  {c.status}, {c.bound_proof}"
    )
    return cpu_s, c.status


def _made(part: str, seeds: int) -> Verdict:
    target = TABLES_S if part == "tables" else LINEAR_S
    queue = queue_of_tables if part == "tables" else queue_of_linear
    found = [_proved(f"{part} {seed}", queue(seed), 10 * target) for seed in range(seeds)]
    worst = max(cpu_s for cpu_s, _ in found)
    good = all(status == "optimal" for _, status in found) and worst <= target
    return Verdict(f"{part}: proved in {target:g} s", f"{worst:.1f} s at worst", good)


def _trace(seconds: float) -> list[Verdict]:
    whole = trace_instance()
    if whole is None:
        print("The trace is not there; set ALLOC_TRACES.")
        return []
    header = ("elasticflow", "exact-admission", "edf", "offline", "bound")
    print(f"{'first jobs':20s} " + " ".join(f"{name:>15s}" for name in header))
    never_less, online, gap, decisions = True, True, 0.0, np.zeros(0)
    for number in PREFIXES:
        made = trace_instance(number)
        assert made is not None
        done = {name: simulate(made, name) for name in header[:3]}
        values = {name: metrics_of(result).value for name, result in done.items()}
        decisions = done["exact-admission"].decision_s
        best = max(header[:2], key=lambda name: values[name])
        found = solve(
            made,
            "admission",
            warm_start=done[best].schedule,
            limits=Limits(seconds=seconds),
        ).certificate
        assert found.objective is not None
        never_less &= found.objective >= values["elasticflow"]
        online &= values["exact-admission"] >= values["elasticflow"]
        gap = found.bound / found.objective - 1.0
        row = (*values.values(), found.objective, found.bound)
        print(f"{number:20d} " + " ".join(f"{value:15.0f}" for value in row), flush=True)
    median, p99 = float(np.median(decisions)), float(np.percentile(decisions, 99))
    return [
        Verdict("trace: offline never worth less than ElasticFlow", "every prefix", never_less),
        Verdict("trace: online never worth less than ElasticFlow", "every prefix", online),
        Verdict(f"trace: within {TRACE_GAP:.0%} of the bound", f"{gap:.2%}", gap <= TRACE_GAP),
        Verdict(
            f"trace: median decision in {1000 * DECISION_S:g} ms",
            f"{1000 * median:.1f} ms, p99 {1000 * p99:.1f} ms",
            median <= DECISION_S,
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print values, bounds and times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admission")
    parser.add_argument("--seeds", type=int, default=3, help="made queues of each kind")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each prefix of the trace")
    parser.add_argument("--part", choices=("tables", "linear", "trace"))
    arguments = parser.parse_args(argv)
    verdicts = []
    print(f"{'queue':20s} {'jobs':>6s} {'value':>9s} {'bound':>9s} {'CPU s':>8s}  status")
    for part in ("tables", "linear"):
        if arguments.part in (None, part):
            verdicts.append(_made(part, arguments.seeds))
    if arguments.part in (None, "trace"):
        verdicts += _trace(arguments.seconds)
    print(describe_environment())
    return conclude(verdicts)


if __name__ == "__main__":
    sys.exit(main())
