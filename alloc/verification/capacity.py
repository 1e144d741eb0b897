"""Capacity rules: what runs at the same time fits on the hosts and in the quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from alloc.instance import Instance
from alloc.solution import Run
from alloc.units import MILLI, RESOURCES
from alloc.verification.violation import Violation
from alloc.workload import TaskGroup

# A count beyond is wrong by the gang rule anyway; its demand must not overflow 64 bits.
_MOST_TASKS = 1_000_000
_UNITS = {"gpu_milli": "milli-GPU", "cpu_milli": "milli-cores", "memory_mib": "MiB"}


def check_capacity(instance: Instance, runs: Sequence[Run]) -> Iterator[Violation]:
    """Yield hosts, GPUs and tenants that are over their capacity, each at its worst moment.

    Runs hold their resources from start to end, end excluded.
    """
    topology = instance.topology
    host_ids: list[int] = []
    spans: list[tuple[float, float]] = []
    demands: list[tuple[int, ...]] = []
    shares: dict[int, list[tuple[float, float, int, int]]] = {}
    wholes: dict[int, list[tuple[float, float, int]]] = {}
    groups_of: dict[int, dict[str, TaskGroup]] = {}
    for run in runs:
        configuration = instance.job(run.job).configurations[run.configuration]
        groups = groups_of.get(id(configuration))
        if groups is None:
            groups = {group.role: group for group in configuration.tasks}
            groups_of[id(configuration)] = groups
        for task in run.tasks:
            group = groups.get(task.role)
            if group is None or task.host not in topology.host_index:
                continue  # reported by the placement rules
            h = topology.host_index[task.host]
            host_ids.append(h)
            spans.append((run.start_s, run.end_s))
            count = min(max(task.count, 0), _MOST_TASKS)
            demands.append(tuple(amount * count for amount in group.demand))
            if group.shares_gpu:
                for g in task.gpus:
                    shares.setdefault(h, []).append((run.start_s, run.end_s, g, group.gpu_milli))
            elif group.gpu_milli:
                wholes.setdefault(h, []).append(
                    (run.start_s, run.end_s, count * group.gpu_milli // MILLI)
                )
    if host_ids:
        peaks, times = _peaks(
            np.array(host_ids), np.array(spans), np.array(demands), topology.num_hosts
        )
        for h, r in np.argwhere(peaks > topology.capacity):
            excess = int(peaks[h, r] - topology.capacity[h, r])
            unit = _UNITS[RESOURCES[r]]
            yield Violation(
                "host_capacity",
                (topology.hosts[h].id, RESOURCES[r]),
                excess,
                unit,
                f'host "{topology.hosts[h].id}" is over its {RESOURCES[r]} by {excess} {unit} at '
                f"{times[h, r]:g} s: {peaks[h, r]} used of {topology.capacity[h, r]}.",
            )
    for h, shared in shares.items():
        yield from _check_shared_host(instance, h, shared, wholes.get(h, []))
    yield from _check_quotas(instance, runs)


def _peaks(
    keys: npt.NDArray[np.int64],
    spans: npt.NDArray[np.float64],
    demands: npt.NDArray[np.int64],
    num_keys: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the largest simultaneous use per key and resource, and when it is reached."""
    key = np.concatenate([keys, keys])
    time = np.concatenate([spans[:, 0], spans[:, 1]])
    change = np.concatenate([demands, -demands])
    starts = np.concatenate([np.ones(len(keys)), np.zeros(len(keys))])
    # What ends at a moment is given back before what starts then takes it.
    order = np.lexsort((starts, time, key))
    key, time, change = key[order], time[order], change[order]
    level = np.cumsum(change, axis=0)  # every key's changes sum to zero, so keys do not mix
    peaks = np.zeros((num_keys, demands.shape[1]), dtype=np.int64)
    times = np.zeros((num_keys, demands.shape[1]))
    for r in range(demands.shape[1]):
        np.maximum.at(peaks[:, r], key, level[:, r])
        at_peak = level[:, r] == peaks[key, r]
        times[key[at_peak], r] = time[at_peak]
    return peaks, times


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


def _check_quotas(instance: Instance, runs: Sequence[Run]) -> Iterator[Violation]:
    """Tenants stay within their GPU quota at every moment."""
    quota = {tenant.name: tenant for tenant in instance.tenants}
    index = {name: k for k, name in enumerate(quota)}
    held = [run for run in runs if instance.job(run.job).tenant in quota]
    if not held:
        return
    jobs = [instance.job(run.job) for run in held]
    keys = np.array([index[job.tenant] for job in jobs if job.tenant is not None])
    spans = np.array([(run.start_s, run.end_s) for run in held])
    demands = np.array(
        [
            [job.configurations[run.configuration].demand[0]]
            for job, run in zip(jobs, held, strict=True)
        ]
    )
    peaks, times = _peaks(keys, spans, demands, len(quota))
    for name, k in index.items():
        excess = int(peaks[k, 0]) - quota[name].gpu_quota_milli
        if excess > 0:
            yield Violation(
                "quota",
                (name,),
                excess,
                "milli-GPU",
                f'tenant "{name}" holds {peaks[k, 0] / MILLI:g} GPUs at {times[k, 0]:g} s, '
                f"{excess / MILLI:g} over its quota.",
            )
