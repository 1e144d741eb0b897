"""Admission: proofs on made queues, and ElasticFlow held against the bound on its own trace.

``python -m benchmarks.admission [--seeds 3] [--part tables|linear|trace|cluster] [--seconds 120]
[--prefixes 100 1595]``.
Queues of 20 jobs with tables that are not concave on 24 slots of 16 GPUs; of 1,000 jobs with linear
tables on 500 slots; the 195 jobs of ElasticFlow's testbed with their deadlines, their first ones by
themselves too; and a whole cluster of ITP over a month (in the extracts at ``ALLOC_TRACES``). Times
are CPU time.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Literal

import numpy as np

from alloc.instances.readers.itp import itp_instance
from alloc.objectives import objective, without_late
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.schedulers.state import ClusterState, Decision
from alloc.simulation import simulate
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
DECISION_S, P99_S = 0.1, 1.0
"""Targets: median and 99th percentile of the time of a decision online."""
TESTBED = "195job"
"""The trace of ElasticFlow's testbed."""
PREFIXES = (25, 50, 75, 100, 125, 150, 175, 195)
CLUSTER = "cluster01"
"""The cluster of ITP: 1,595 jobs in 34 days, the smallest but one of the ten."""
CLUSTER_PREFIXES = (100, 200, 400, 800, 1595)
VALUE = objective("value")
ONLINE = ("elasticflow", "exact-admission", "primal-dual", "mlfs", "edf", "chronus")
"""Policies that are measured; the first two are held against each other."""
CLUSTER_ONLINE = ONLINE[:-1]
"""Those on the cluster: `chronus` solves 2,400 programs there, for twenty minutes of CPU time."""
SLOT_S = 600.0
"""Slots of the trace: its shortest job takes eleven minutes."""


Shape = Literal["steps", "concave", "rigid"]
"""What the tables of a made queue look like."""


def _cluster(gpus: int, per_host: int = 8) -> Topology:
    hosts = tuple(Host(f"h{h}", "k") for h in range(gpus // per_host))
    return Topology("cluster", (HostType("k", per_host, "a100"),), hosts)


def _ways(rates: dict[int, float]) -> tuple[Configuration, ...]:
    return tuple(
        Configuration((TaskGroup("worker", gpus, MILLI),), rate) for gpus, rate in rates.items()
    )


def queue_of_tables(
    seed: int,
    jobs: int = 20,
    slots: int = 24,
    gpus: int = 16,
    *,
    shape: Shape = "steps",
    at_once: bool = False,
    alike: bool = False,
) -> Instance:
    """Return jobs with deadlines and measured tables, about three times as many as there is room.

    Parameters
    ----------
    seed
        Random seed.
    jobs, slots, gpus
        Size of the queue and of the cluster; slots of an hour.
    shape
        ``steps``: tables with steps and peaks, where no size is a mix of its neighbours;
        ``concave``: each GPU adds less than the one before; ``rigid``: one size of such a table.
    at_once
        Whether all jobs arrive at the start.
    alike
        Whether all weigh 1, and not 1 to 9.
    """
    rng = Random(seed)
    made = []
    for j in range(jobs):
        rates, rate, gain = {}, 1.0, 1.0
        for size in (1, 2, 4, 8, 16):
            rates[size] = rate
            if shape == "steps":
                # A step that gains little is often followed by one that gains much.
                rate *= rng.choice((0.95, 1.2, 1.5, 2.0, 2.6))
            else:
                gain *= rng.uniform(0.6, 0.95)
                rate *= 1.0 + gain
        if shape == "rigid":
            size = rng.choice((1, 2, 4, 8))
            rates = {size: rates[size]}
        begin = rng.randrange(slots * 2 // 3)
        end = min(begin + rng.randint(2, 12), slots)
        most = max(rates.values()) * (end - begin)
        made.append(
            Job(
                f"j{j}",
                0.0 if at_once else begin * 3600.0,
                rng.uniform(0.2, 0.7) * most * 3600.0,
                _ways(rates),
                weight=float(rng.randint(1, 9)) if not alike else 1.0,
                deadline_s=end * 3600.0,
                elasticity="rigid" if shape == "rigid" else "malleable",
                refusable=True,
            )
        )
    name = ("tables" if shape == "steps" else shape) + "-at-once" * at_once + "-alike" * alike
    return Instance(f"{name}-{seed}", _cluster(gpus), tuple(made), slot_s=3600.0)


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


def trace_instance(max_jobs: int | None = None, cluster: str = TESTBED) -> Instance | None:
    """Return the 195 jobs of ElasticFlow's testbed on its 128 GPUs, None where they are not.

    Parameters
    ----------
    max_jobs
        Only so many of the first.
    cluster
        Or those of this cluster of ITP, on GPUs of which they ask 85 % at their traced sizes.
    """
    traces = data_folder("traces")
    table = traces / "microsoft-itp-2021" / "elasticflow" / f"{cluster}.csv.gz"
    if not table.is_file():
        return None
    topology = _cluster(128)
    if cluster != TESTBED:
        topology = itp_instance(table)[0].topology
    made, _ = itp_instance(
        table,
        topology=topology,
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


class Timed:
    """A policy whose decisions are timed, in CPU seconds: the machine may have other work.

    Parameters
    ----------
    name
        The policy.
    """

    def __init__(self, name: str) -> None:
        self._inner = make_scheduler(name)
        self.name, self.needs = name, self._inner.needs
        self.information = self._inner.information
        self.features = getattr(self._inner, "features", ())
        self.cpu_s: list[float] = []

    def reset(self) -> None:
        """Forget everything."""
        self._inner.reset()
        self.cpu_s.clear()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision of the policy."""
        began = time.process_time()
        decision = self._inner.decide(state)
        self.cpu_s.append(time.process_time() - began)
        return decision


def _decisions(label: str, policies: Sequence[Timed]) -> list[Verdict]:
    """Print how long decisions take, and judge those of the two policies that are held to it."""
    print(f"{'decisions, CPU ms':20s} {'median':>10s} {'p99':>10s} {'longest':>10s}")
    verdicts = []
    for policy in policies:
        median, p99 = (float(np.percentile(policy.cpu_s, q)) for q in (50, 99))
        row = (median, p99, max(policy.cpu_s))
        print(f"{policy.name:20s} " + " ".join(f"{1000 * s:10.1f}" for s in row))
        if policy.name in ONLINE[:2]:
            verdicts.append(
                Verdict(
                    f"{label}: {policy.name} decides in {1000 * DECISION_S:g} ms, p99 {P99_S:g} s",
                    f"{1000 * median:.1f} ms, p99 {p99:.2f} s",
                    median <= DECISION_S and p99 <= P99_S,
                )
            )
    return verdicts


def first_prefix_with_less(made: Instance, less: Schedule, more: Schedule) -> int | None:
    """Return after how many arrivals one schedule has accepted less value, None if never.

    Online, what comes later changes nothing of what was accepted before, so that one run of all
    jobs says it of every prefix. Jobs that come within one slot are decided on together.
    """
    lead, slot_s = 0.0, made.slot_s or 1.0
    arrivals = sorted(made.jobs, key=lambda job: job.arrival_s)
    slots = [math.ceil(job.arrival_s / slot_s) for job in arrivals]
    for number, job in enumerate(arrivals, 1):
        lead += job.weight * ((job.id in less.runs_of) - (job.id in more.runs_of))
        if lead < 0 and (number == len(arrivals) or slots[number] > slots[number - 1]):
            return number
    return None


def _trace(
    cluster: str, names: Sequence[str], prefixes: Sequence[int], seconds: float
) -> list[Verdict]:
    """Print values online and offline for the first jobs of a trace, and judge them."""
    if trace_instance(prefixes[0], cluster) is None:
        print("The trace is not there; set ALLOC_TRACES.")
        return []
    header = (*names, "offline", "bound")
    print(f"{cluster:20s} " + " ".join(f"{name:>15s}" for name in header))
    never_less, gap, policies, less = True, 0.0, list[Timed](), None
    for number in prefixes:
        made = trace_instance(number, cluster)
        assert made is not None
        policies = [Timed(name) for name in names]
        schedules = {policy.name: simulate(made, policy).schedule for policy in policies}
        values = {name: VALUE.evaluate(made, schedule) for name, schedule in schedules.items()}
        best = max(names, key=lambda name: values[name])
        start = without_late(made, schedules[best], "late")
        limits = Limits(seconds=seconds)
        found = solve(made, "admission", warm_start=start, limits=limits).certificate
        assert found.objective is not None
        never_less &= found.objective >= values["elasticflow"]
        gap = found.bound / found.objective - 1.0
        kept = {name: without_late(made, schedules[name], "late") for name in ONLINE[:2]}
        less = first_prefix_with_less(made, kept["exact-admission"], kept["elasticflow"])
        row = (*values.values(), found.objective, found.bound)
        print(f"{number:20d} " + " ".join(f"{value:15.0f}" for value in row), flush=True)
    return [
        Verdict(f"{cluster}: offline never worth less than ElasticFlow", "all", never_less),
        Verdict(
            f"{cluster}: exact-admission never worth less than ElasticFlow",
            "on every prefix" if less is None else f"less after {less} jobs",
            less is None,
        ),
        Verdict(f"{cluster}: within {TRACE_GAP:.0%} of the bound", f"{gap:.2%}", gap <= TRACE_GAP),
        *_decisions(cluster, policies),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print values, bounds and times; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.admission")
    parser.add_argument("--seeds", type=int, default=3, help="made queues of each kind")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each prefix of the trace")
    parser.add_argument(
        "--prefixes", type=int, nargs="+", help="first jobs of a trace; default: some"
    )
    parser.add_argument("--part", choices=("tables", "linear", "trace", "cluster"))
    arguments = parser.parse_args(argv)
    verdicts = []
    print(f"{'queue':20s} {'jobs':>6s} {'value':>9s} {'bound':>9s} {'CPU s':>8s}  status")
    for part in ("tables", "linear"):
        if arguments.part in (None, part):
            verdicts.append(_made(part, arguments.seeds))
    if arguments.part in (None, "trace"):
        prefixes = arguments.prefixes or PREFIXES
        verdicts += _trace(TESTBED, ONLINE, prefixes, arguments.seconds)
    if arguments.part in (None, "cluster"):
        prefixes = arguments.prefixes or CLUSTER_PREFIXES
        verdicts += _trace(CLUSTER, CLUSTER_ONLINE, prefixes, arguments.seconds)
    print(describe_environment())
    return conclude(verdicts)


if __name__ == "__main__":
    sys.exit(main())
