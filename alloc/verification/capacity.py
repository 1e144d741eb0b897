"""Capacity rules: what runs at the same time fits on the hosts and in the quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.run_columns import UNKNOWN, RunColumns
from alloc.problems.allocation.solution import Run
from alloc.units import MILLI
from alloc.verification.mig import check_gpu_sharing
from alloc.verification.peaks import peaks_of
from alloc.verification.quotas import check_quotas
from alloc.verification.violation import Violation

_UNITS = {"gpu_milli": "milli-GPU", "cpu_milli": "milli-cores", "memory_mib": "MiB"}


def check_capacity(
    instance: Instance, runs: Sequence[Run], columns: RunColumns | None = None
) -> Iterator[Violation]:
    """Yield hosts, GPUs, cluster and tenants over their capacity, each at its worst moment.

    Runs hold their resources from start to end, end excluded.

    Parameters
    ----------
    instance
        The problem.
    runs
        Runs of its jobs in known configurations.
    columns
        The same as columns, where they are made already.
    """
    columns = RunColumns(instance, runs) if columns is None else columns
    # What is not known is reported by the placement rules.
    known = columns.task_is_known
    if known.any():
        of_run, hosts, demands = columns.task_run, columns.task_host, columns.demand
        if not known.all():
            of_run, hosts, demands = of_run[known], hosts[known], demands[known]
        spans = np.stack([columns.start_s[of_run], columns.end_s[of_run]], axis=1)
        yield from _check_totals(instance, hosts, spans, demands)
    if any(group.shares_gpu for kind in columns.kinds for group in kind.tasks):
        yield from _check_shares(instance, runs, columns)
    yield from check_gpu_sharing(instance, runs)
    yield from check_quotas(instance, runs)


def _check_totals(
    instance: Instance,
    hosts: npt.NDArray[np.int64],
    spans: npt.NDArray[np.float64],
    demands: npt.NDArray[np.int64],
) -> Iterator[Violation]:
    """Yield hosts, then cluster resources, over their capacity."""
    topology = instance.topology
    names, cluster = topology.resource_names, list(topology.cluster_columns)
    peaks, times = peaks_of(hosts, spans, demands, topology.num_hosts, topology.capacity)
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
        everywhere = np.zeros(len(spans), dtype=np.int64)
        peaks, times = peaks_of(everywhere, spans, demands[:, cluster], 1)
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


def _check_shares(
    instance: Instance, runs: Sequence[Run], columns: RunColumns
) -> Iterator[Violation]:
    """Yield GPUs that tasks share beyond what they have, or that whole tasks want too."""
    shares: dict[int, list[tuple[float, float, int, int]]] = {}
    wholes: dict[int, list[tuple[float, float, int]]] = {}
    tasks = [(run, k, task) for k, run in enumerate(runs) for task in run.tasks]
    kinds, hosts = columns.kind.tolist(), columns.task_host.tolist()
    groups, counts = columns.task_group.tolist(), columns.task_count.tolist()
    for (run, k, task), h, g, count in zip(tasks, hosts, groups, counts, strict=True):
        if UNKNOWN in (h, g):
            continue
        group, span = columns.kinds[kinds[k]].tasks[g], (run.start_s, run.end_s)
        if group.shares_gpu:
            for gpu in task.gpus:
                shares.setdefault(h, []).append((*span, gpu, group.gpu_milli))
        elif group.gpu_milli:
            wholes.setdefault(h, []).append((*span, count * group.gpu_milli // MILLI))
    for h, shared in shares.items():
        yield from _check_shared_host(instance, h, shared, wholes.get(h, []))


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
