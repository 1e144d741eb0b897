"""Capacity rules: what runs at the same time fits on the hosts and in the quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run, TaskPlacement
from alloc.units import MILLI
from alloc.verification.mig import check_gpu_sharing
from alloc.verification.peaks import peaks_of
from alloc.verification.quotas import check_quotas
from alloc.verification.violation import Violation
from alloc.workload import Configuration

# A count beyond is wrong by the gang rule anyway; its demand must not overflow 64 bits.
_MAX_TASKS = 1_000_000
_NEW = -1
"""Stands for a kind of tasks that was not met before."""
_UNITS = {"gpu_milli": "milli-GPU", "cpu_milli": "milli-cores", "memory_mib": "MiB"}


def check_capacity(instance: Instance, runs: Sequence[Run]) -> Iterator[Violation]:
    """Yield hosts, GPUs, cluster and tenants over their capacity, each at its worst moment.

    Runs hold their resources from start to end, end excluded.

    Parameters
    ----------
    instance
        The problem.
    runs
        Runs of its jobs in known configurations.
    """
    topology = instance.topology
    host_ids: list[int] = []
    starts: list[float] = []
    ends: list[float] = []
    kind_of: list[int] = []
    # Tasks of one kind repeat by the thousand: what a count of them asks for is worked out once.
    kinds: list[_Kind] = []
    known: dict[tuple[int, str, int], int | None] = {}
    shares: dict[int, list[tuple[float, float, int, int]]] = {}
    jobs, index, host_index = instance.jobs, instance.job_index, topology.host_index
    for run in runs:
        configuration = jobs[index[run.job]].configurations[run.configuration]
        start, end = run.start_s, run.end_s
        for task in run.tasks:
            h = host_index.get(task.host)
            key = (id(configuration), task.role, task.count)
            kind = known.get(key, _NEW)
            if kind == _NEW:
                asked = _asked(configuration, task)
                kind = known[key] = None if asked is None else len(kinds)
                kinds += [] if asked is None else [asked]
            if kind is None or h is None:
                continue  # reported by the placement rules
            host_ids.append(h)
            starts.append(start)
            ends.append(end)
            kind_of.append(kind)
            if kinds[kind].share:
                spans = [(start, end, g, kinds[kind].share) for g in task.gpus]
                shares.setdefault(h, []).extend(spans)
    if host_ids:
        at = np.column_stack([np.array(starts, dtype=float), np.array(ends, dtype=float)])
        of = np.array([kind.demand for kind in kinds])[kind_of]
        names, cluster = topology.resource_names, list(topology.cluster_columns)
        peaks, times = peaks_of(np.array(host_ids), at, of, topology.num_hosts)
        over = peaks > topology.capacity
        over[:, cluster] = False  # one limit for all hosts together
        for h, r in np.argwhere(over):
            excess = int(peaks[h, r] - topology.capacity[h, r])
            unit = _UNITS.get(names[r], names[r])
            yield Violation(
                "host_capacity",
                (topology.hosts[h].id, names[r]),
                excess,
                unit,
                f'host "{topology.hosts[h].id}" is over its {names[r]} by {excess} {unit} at '
                f"{times[h, r]:g} s: {peaks[h, r]} used of {topology.capacity[h, r]}.",
            )
        if cluster:
            everywhere = np.zeros(len(at), dtype=np.int64)
            peaks, times = peaks_of(everywhere, at, of[:, cluster], 1)
            for k, r in enumerate(cluster):
                excess = int(peaks[0, k] - topology.totals[r])
                if excess > 0:
                    yield Violation(
                        "cluster_capacity",
                        (names[r],),
                        excess,
                        names[r],
                        f"the cluster is over its {names[r]} by {excess} at {times[0, k]:g} s: "
                        f"{peaks[0, k]} used of {topology.totals[r]}.",
                    )
    wholes: dict[int, list[tuple[float, float, int]]] = {h: [] for h in shares}
    if shares:
        for h, start, end, kind in zip(host_ids, starts, ends, kind_of, strict=True):
            if h in wholes and kinds[kind].gpus:
                wholes[h].append((start, end, kinds[kind].gpus))
    for h, shared in shares.items():
        yield from _check_shared_host(instance, h, shared, wholes[h])
    yield from check_gpu_sharing(instance, runs)
    yield from check_quotas(instance, runs)


@dataclass(frozen=True)
class _Kind:
    """What some tasks of a group ask for together.

    Parameters
    ----------
    demand
        Of each resource.
    gpus
        Whole GPUs.
    share
        Share of a GPU that each of them takes, milli-GPU, or 0.
    """

    demand: tuple[int, ...]
    gpus: int
    share: int


def _asked(configuration: Configuration, task: TaskPlacement) -> _Kind | None:
    """Return what placed tasks ask for; None where the configuration has no such group."""
    for group in configuration.tasks:
        if group.role == task.role:
            break
    else:
        return None
    count = min(max(task.count, 0), _MAX_TASKS)
    share = group.gpu_milli if group.shares_gpu else 0
    gpus = 0 if share else count * group.gpu_milli // MILLI
    return _Kind(tuple(amount * count for amount in group.demand), gpus, share)


def _check_shared_host(
    instance: Instance,
    h: int,
    shared: list[tuple[float, float, int, int]],
    wholes: list[tuple[float, float, int]],
) -> Iterator[Violation]:
    """On a host whose GPUs are shared: no GPU over 1,000, and whole GPUs left for whole tasks."""
    host = instance.topology.hosts[h]
    num_gpus = instance.topology.host_type(host).num_gpus
    moments = sorted({start for start, *_ in shared} | {start for start, *_ in wholes})
    for now in moments:
        load: dict[int, int] = {}
        for start, end, g, amount in shared:
            if start <= now < end:
                load[g] = load.get(g, 0) + amount
        whole = sum(count for start, end, count in wholes if start <= now < end)
        for g, amount in load.items():
            if amount > MILLI:
                yield Violation(
                    "gpu_capacity",
                    (host.id, f"gpu{g}"),
                    amount - MILLI,
                    "milli-GPU",
                    f'GPU {g} of host "{host.id}" is shared to {amount} milli-GPU at {now:g} s; '
                    "one GPU is 1000.",
                )
        if whole + len(load) > num_gpus:
            yield Violation(
                "gpu_capacity",
                (host.id,),
                whole + len(load) - num_gpus,
                "GPU",
                f'host "{host.id}" needs {whole} whole and {len(load)} shared GPUs at {now:g} s, '
                f"but has {num_gpus}.",
            )
