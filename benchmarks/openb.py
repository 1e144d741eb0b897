"""Replay openb's arrivals under placement rules, beside FGD's published ratios and a proved bound.

Run it with ``python -m benchmarks.openb``. It needs the trace: the folder of the trace extracts is
looked for where the environment variable ``ALLOC_TRACES`` says, or in ``../shared/data/traces``
beside the repository.

The published evaluation (Weng et al., USENIX ATC 2023, and the results released with its simulator)
lets the pods of the trace arrive in random order, and then pods drawn from it, until 130 % of the
GPUs have been asked for; nobody leaves. Its cluster is the 1,213 hosts with GPUs of the 1,523.
Reported is the allocated part of all GPUs when a given part has been asked for, as a mean over ten
seeds. The seeds here give other sequences of the same distribution.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from alloc.errors import InstanceError
from alloc.instances.inflation import arrivals_in_order, inflated_arrivals
from alloc.instances.readers.openb import Pod, pod_configurations, read_openb_nodes, read_openb_pods
from alloc.models.offline_packing.data import PackingData
from alloc.problems.allocation.instance import Instance
from alloc.result import Limits, Result
from alloc.schedulers.placement import (
    BestFit,
    ExactPlan,
    Fgd,
    FirstFit,
    HivedCells,
    KaiBinPack,
    KueueBestFit,
    PlacementPolicy,
    RandomFit,
    Shape,
)
from alloc.schedulers.placement.fragmentation import shapes_of
from alloc.schedulers.placement.sequence import SequenceResult, place_in_order
from alloc.solving.sharing.offline_packing import bound_gpus, pack_offline
from alloc.topology import Topology
from alloc.units import MILLI
from alloc.verification import verify
from benchmarks.data import data_folder
from benchmarks.environment import describe_environment
from benchmarks.verdict import Verdict, conclude

ON_REQUEST = True
"""It needs the trace, and minutes."""

POINTS = (100, 130)
"""Arrived demand at which ratios are compared, percent of the GPUs."""

TARGET_POINTS = 0.5
PUBLISHED = {"random-fit": "01-Random", "best-fit": "05-BestFit", "fgd": "06-FGD"}
SEEDS = range(42, 52)


@dataclass(frozen=True)
class Trace:
    """The trace and what was published on it.

    Parameters
    ----------
    gpu_hosts, all_hosts
        The cluster of the published evaluation, and with the hosts without GPUs.
    pods
        The pods, in order.
    published
        Mean ratio for each policy by percentage of demand.
    """

    gpu_hosts: Topology
    all_hosts: Topology
    pods: tuple[Pod, ...]
    published: Mapping[str, Mapping[int, float]]


@dataclass
class Line:
    """What one policy reached, a value a seed."""

    ratios: dict[int, list[float]] = field(default_factory=dict)
    bounds: dict[int, list[float]] = field(default_factory=dict)
    curves: list[list[float]] = field(default_factory=list)
    decision_s: list[float] = field(default_factory=list)

    def mean(self, percent: int) -> float:
        """Return the mean ratio at a percentage of demand."""
        return statistics.mean(self.ratios[percent])

    def gap(self, percent: int) -> float | None:
        """Return the mean of bound over ratio, less 1."""
        if not self.bounds.get(percent):
            return None
        pairs = zip(self.bounds[percent], self.ratios[percent], strict=True)
        return statistics.mean(bound / ratio - 1 for bound, ratio in pairs)


def read_trace(folder: Path) -> Trace:
    """Read nodes, pods and published results.

    Raises
    ------
    InstanceError
        If the folder is not there.
    """
    openb = folder / "alibaba-gpu-v2023-openb"
    if not openb.is_dir():
        raise InstanceError(
            f"the openb trace is not in {folder}; set ALLOC_TRACES to the folder of the extracts."
        )
    return Trace(
        read_openb_nodes(openb / "openb_node_list_gpu_node.csv.gz")[0],
        read_openb_nodes(openb / "openb_node_list_all_node.csv.gz")[0],
        tuple(read_openb_pods(openb / "openb_pod_list_default.csv.gz")[0]),
        _published(openb / "fgd-published-results" / "analysis_allo_discrete.csv.gz"),
    )


def _published(path: Path) -> dict[str, dict[int, float]]:
    found: dict[str, list[dict[int, float]]] = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["workload"] == "openb_pod_list_default":
                curve = {p: float(row[str(p)]) for p in range(131)}
                found.setdefault(row["sc_policy"], []).append(curve)
    return {
        name: {p: statistics.mean(curve[p] for curve in found[key]) for p in range(131)}
        for name, key in PUBLISHED.items()
    }


def mix_of(pods: Sequence[Pod]) -> Counter[Shape]:
    """Return how often each shape occurs in a trace: what FGD is told."""
    mix: Counter[Shape] = Counter()
    for pod in pods:
        mix.update(shapes_of(pod_configurations(pod, pod.gpu_types)))
    return mix


def expected_jobs(trace: Trace, demand: float, seed: int | None) -> Instance:
    """Return the jobs that the plan expects: the trace's own pods, or as many drawn from them."""
    topology, pods = trace.gpu_hosts, list(trace.pods)
    if seed is not None:
        rng = np.random.default_rng(seed)
        number = round(len(pods) * demand * topology.num_gpus * MILLI / _demand(pods))
        pods = [pods[k] for k in rng.integers(len(pods), size=number)]
    return arrivals_in_order(topology, pods, name="expected")


def _demand(pods: Sequence[Pod]) -> int:
    return sum(pod.gpu_milli for pod in pods)


def arrived_by(result: SequenceResult, percent: int) -> Instance:
    """Return the instance of the jobs that had arrived by a percentage of demand."""
    unit = result.instance.topology.num_gpus * MILLI / 100.0
    count = int((np.round(result.arrived / unit) <= percent).sum())
    return result.instance.replace(jobs=result.instance.jobs[:count])


def add_run(line: Line, result: SequenceResult, bounds: Mapping[int, float]) -> None:
    """Add a checked run to a line."""
    problems = verify(result.instance, result.allocation)
    if problems:
        raise InstanceError(f"the checker refuses a placement: {problems[0]}")
    for percent in POINTS:
        line.ratios.setdefault(percent, []).append(result.ratio_at(percent))
        if percent in bounds:
            line.bounds.setdefault(percent, []).append(bounds[percent])
    line.curves.append([result.ratio_at(p) for p in range(131)])
    line.decision_s.append(result.decision_s)


def replay(
    topology: Topology,
    pods: Sequence[Pod],
    policies: Mapping[str, Callable[[], PlacementPolicy]],
    seeds: Sequence[int],
    *,
    bounded: bool = True,
) -> dict[str, Line]:
    """Run policies on the arrival sequence of each seed."""
    lines = {name: Line() for name in policies}
    for seed in seeds:
        instance = inflated_arrivals(topology, pods, seed=seed)
        bounds: dict[int, float] = {}
        for name, make in policies.items():
            result = place_in_order(instance, make(), seed=seed)
            if bounded and not bounds:
                bounds = {p: _bound(arrived_by(result, p)) for p in POINTS}
            add_run(lines[name], result, bounds)
    return lines


def _bound(instance: Instance) -> float:
    """Return the proved bound on the allocated part of the GPUs, percent."""
    return 100.0 * bound_gpus(PackingData.of(instance)).bound / instance.topology.num_gpus


def offline(instance: Instance, seconds: float) -> dict[int, Result]:
    """Return the offline answer for what has arrived by each percentage."""
    everything = place_in_order(instance, FirstFit())
    return {
        percent: pack_offline(arrived_by(everything, percent), limits=Limits(seconds, seed=percent))
        for percent in POINTS
    }


def worst_difference(line: Line, published: Mapping[int, float]) -> float:
    """Return the largest difference of mean curves over all percentages, points."""
    curves = np.array(line.curves)
    seen = ~np.isnan(curves).all(axis=0)  # a short sequence skips percentages
    means = np.nanmean(curves[:, seen], axis=0)
    wanted = np.array([published[p] for p in range(131)])[seen]
    return float(np.abs(means - wanted)[1:].max())


def _row(name: str, line: Line, published: Mapping[int, float] | None) -> str:
    cells = []
    for percent in POINTS:
        ours = line.mean(percent)
        if published is None:
            cells.append(f"{ours:7.2f} {'':>9s} {'':>6s}")
        else:
            cells.append(f"{ours:7.2f} {published[percent]:9.2f} {ours - published[percent]:+6.2f}")
    gaps = [line.gap(percent) for percent in POINTS]
    said = " ".join(f"{'' if gap is None else f'{gap:.2%}':>7s}" for gap in gaps)
    decision_ms = 1000 * statistics.mean(line.decision_s)
    return f"{name:26s} {' '.join(cells)} {said} {decision_ms:8.3f} {len(line.decision_s):5d}"


def _head() -> str:
    parts = " ".join(f"{f'{p} %':>7s} {'published':>9s} {'diff':>6s}" for p in POINTS)
    gaps = " ".join(f"{f'gap {p}':>7s}" for p in POINTS)
    return f"{'policy':26s} {parts} {gaps} {'ms/pod':>8s} {'seeds':>5s}"


def _plans(trace: Trace, seconds: float) -> dict[str, Callable[[], PlacementPolicy]]:
    exact = expected_jobs(trace, 1.0, None).jobs
    drawn = expected_jobs(trace, 1.0, 7).jobs
    return {
        "exact-plan (numbers known)": lambda: ExactPlan(exact, limits=Limits(seconds)),
        "exact-plan (mix known)": lambda: ExactPlan(drawn, limits=Limits(seconds)),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.openb")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="seeds of published rules")
    parser.add_argument("--other-seeds", type=int, default=2, help="seeds of the other rules")
    parser.add_argument("--plan-seconds", type=float, default=90.0, metavar="S")
    parser.add_argument("--skip-exact", action="store_true", help="no plans, no offline answer")
    arguments = parser.parse_args(argv)
    trace = read_trace(data_folder("traces"))
    seeds = [SEEDS[0] + k for k in range(arguments.seeds)]
    few = seeds[: arguments.other_seeds]
    mix = mix_of(trace.pods)
    rules: dict[str, Callable[[], PlacementPolicy]] = {
        "random-fit": RandomFit,
        "best-fit": BestFit,
        "fgd": lambda: Fgd(mix=mix),
    }
    others: dict[str, Callable[[], PlacementPolicy]] = {
        "fgd (mix learned)": Fgd,
        "fgd (exact scores)": lambda: Fgd(mix=mix, points=None),
        "fgd (ties at random)": lambda: Fgd(mix=mix, ties="random"),
        "first-fit": FirstFit,
        "kai": KaiBinPack,
        "hived": HivedCells,
        "kueue-best-fit": KueueBestFit,
    }
    print(
        f"{len(trace.pods):,} pods on {trace.gpu_hosts.num_hosts:,} hosts with "
        f"{trace.gpu_hosts.num_gpus:,} GPUs; allocated part of the GPUs, percent, when 100 and "
        "130 % of them have been asked for; gap: proved bound over it, less 1"
    )
    print(_head())
    lines = replay(trace.gpu_hosts, trace.pods, rules, seeds)
    for name, line in lines.items():
        print(_row(name, line, trace.published[name]), flush=True)
    if not arguments.skip_exact:
        others |= _plans(trace, arguments.plan_seconds)
    for name, make in others.items():
        line = replay(trace.gpu_hosts, trace.pods, {name: make}, few)[name]
        print(_row(name, line, None), flush=True)
    verdicts = _verdicts(lines, trace)
    if not arguments.skip_exact:
        verdicts += _offline_verdicts(trace, seeds[0], arguments.plan_seconds)
    print(f"\nthe complete node list, {trace.all_hosts.num_hosts:,} hosts (nothing published)")
    print(_head())
    complete = replay(trace.all_hosts, trace.pods, rules, few)
    for name, line in complete.items():
        print(_row(name, line, None), flush=True)
    return conclude(verdicts)


def _verdicts(lines: Mapping[str, Line], trace: Trace) -> list[Verdict]:
    verdicts = []
    for name, line in lines.items():
        published = trace.published[name]
        apart = max(abs(line.mean(p) - published[p]) for p in POINTS)
        curve = worst_difference(line, published)
        verdicts.append(
            Verdict(
                f"{name} within {TARGET_POINTS:g} points of the published ratio",
                f"{apart:.2f} at 100 and 130 %, {curve:.2f} at worst from 1 to 130 %",
                apart <= TARGET_POINTS,
            )
        )
    return verdicts


def _offline_verdicts(trace: Trace, seed: int, seconds: float) -> list[Verdict]:
    instance = inflated_arrivals(trace.gpu_hosts, trace.pods, seed=seed)
    verdicts = []
    for percent, result in offline(instance, seconds).items():
        certificate = result.certificate
        assert certificate.objective is not None
        assert certificate.gap is not None
        unit = trace.gpu_hosts.num_gpus / 100
        print(
            f"{'offline optimum':26s} at {percent} %: {certificate.objective / unit:.3f} "
            f"allocated, bound {certificate.bound / unit:.3f} ({certificate.bound_proof}), gap "
            f"{certificate.gap:.4%}, {certificate.seconds:.1f} s, seed {seed}",
            flush=True,
        )
        verdicts.append(
            Verdict(
                f"offline bound at {percent} % proved, answer within 0.1 %",
                f"gap {certificate.gap:.4%}, bound {certificate.bound_proof}",
                certificate.bound_proof == "recomputed" and certificate.gap <= 1e-3,
            )
        )
    return verdicts


if __name__ == "__main__":
    print(describe_environment())
    sys.exit(main())
