"""The best of all ways to share GPUs: every GPU for every task, every start for MIG instances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType
from alloc.topology.mig import mig_profiles
from alloc.workload import TaskGroup

GPU_MEMORY = {"a100": 40 * 1024, "t4": 16 * 1024}


def arrangements(names: tuple[str, ...]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield every way to put instances on one empty A100."""
    profiles = [mig_profiles("a100")[name] for name in names]
    if sum(p.compute_slices for p in profiles) > 7 or sum(p.media for p in profiles) > 1:
        return
    for starts in itertools.product(*(p.starts for p in profiles)):
        slices = [s for p, start in zip(profiles, starts, strict=True) for s in p.slices(start)]
        if len(slices) == len(set(slices)):
            yield tuple(zip(names, starts, strict=True))


@cache
def gpu_cost(
    gpu_type: str, content: tuple[TaskGroup, ...], state: tuple[tuple[str, int], ...]
) -> float:
    """Return 1 if the GPU must be cut anew for its content, 0 if not, inf if it cannot hold it."""
    mig = tuple(sorted(g.mig_profile for g in content if g.mig_profile))
    if not mig:
        alone = len(content) > 1 and any(g.gpu_milli >= 1000 for g in content)
        milli = sum(min(g.gpu_milli, 1000) for g in content)
        memory = sum(g.gpu_memory_mib for g in content)
        if alone or milli > 1000 or memory > GPU_MEMORY[gpu_type]:
            return math.inf
        return float(bool(content and state))
    if len(mig) < len(content) or gpu_type != "a100":
        return math.inf
    costs = [_beside(state, layout) for layout in arrangements(mig)]
    return min(costs, default=math.inf)


def _beside(state: tuple[tuple[str, int], ...], layout: tuple[tuple[str, int], ...]) -> float:
    """Return 0 if new instances can stand beside those of the state, else 1."""
    both = {*state, *layout}
    profiles = [(mig_profiles("a100")[name], start) for name, start in both]
    slices = [s for p, start in profiles for s in p.slices(start)]
    fits = (
        len(slices) == len(set(slices))
        and sum(p.compute_slices for p, _ in profiles) <= 7
        and sum(p.media for p, _ in profiles) <= 1
    )
    return 0.0 if fits else 1.0


def brute_force(instance: Instance, objective: str) -> float | None:
    """Return the best value over all choices, or None if not all jobs can run and they must."""
    topology = instance.topology
    kinds = [topology.host_type(host) for host in topology.hosts]
    state: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for a in instance.running:
        name = instance.job(a.job).configurations[0].tasks[0].mig_profile
        for task in a.tasks:
            key = (topology.host_index[task.host], task.gpus[0])
            state.setdefault(key, []).append((str(name), task.starts[0]))
    held = {key: tuple(sorted(layout)) for key, layout in state.items()}
    quota = {t.name: t.gpu_quota_milli for t in instance.tenants}
    all_run = objective in ("gpus_used", "reconfigurations")
    on_hosts = {name for kind in topology.host_types for name in kind.resources}
    best: list[float | None] = [None]

    def places(group: TaskGroup, gpu_type: str | None) -> Iterator[tuple[int, tuple[int, ...]]]:
        for h, kind in enumerate(kinds):
            if gpu_type not in (None, kind.gpu_type):
                continue
            number = max(group.gpu_milli // 1000, 1) if group.uses_gpu else 0
            for gpus in itertools.combinations(range(kind.num_gpus), number):
                if group.mig_profile and kind.gpu_type != "a100":
                    continue
                if group.gpu_memory_mib > GPU_MEMORY.get(str(kind.gpu_type), 0):
                    continue
                yield h, gpus

    def leaf(content: dict[tuple[int, int], tuple[TaskGroup, ...]], weight: float) -> None:
        costs = [
            gpu_cost(str(kinds[h].gpu_type), groups, held.get((h, g), ()))
            for (h, g), groups in content.items()
        ]
        if math.inf in costs:
            return
        value = {
            "weight_placed": weight,
            "gpus_placed": weight,
            "gpus_used": float(len(content)),
            "reconfigurations": sum(costs),
        }[objective]
        if best[0] is None or (value < best[0] if all_run else value > best[0]):
            best[0] = value

    def offer(kind: HostType) -> dict[str, int]:
        return {"cpu": kind.cpu_milli, "memory": kind.memory_mib, **kind.resources}

    def extend(j, tasks, free, content, weight, used) -> None:
        if tasks:
            (group, gpu_type), rest = tasks[0], tasks[1:]
            own = {name: n for name, n in group.resources.items() if name in on_hosts}
            asked = {"cpu": group.cpu_milli, "memory": group.memory_mib, **own}
            for h, gpus in places(group, gpu_type):
                left = dict(free[h])
                for name, n in asked.items():
                    left[name] = left.get(name, 0) - n
                if any(left[name] < 0 for name in asked):
                    continue
                more = dict(content)
                for g in gpus:
                    more[h, g] = (*more.get((h, g), ()), group)
                    if gpu_cost(str(kinds[h].gpu_type), more[h, g], ()) == math.inf:
                        break
                else:
                    now = [*free[:h], left, *free[h + 1 :]]
                    extend(j, rest, now, more, weight, used)
            return
        if j == len(instance.jobs):
            leaf(content, weight)
            return
        job = instance.jobs[j]
        for c in job.configurations:
            held_by = dict(used)
            if job.tenant in quota:
                held_by[job.tenant] = held_by.get(job.tenant, 0) + c.demand[0]
                if held_by[job.tenant] > quota[job.tenant]:
                    continue
            for g in c.tasks:
                for name in g.resources.keys() - on_hosts:
                    held_by[name, "of the cluster"] = (
                        held_by.get((name, "of the cluster"), 0) + g.count * g.resources[name]
                    )
            if any(
                held_by.get((name, "of the cluster"), 0) > topology.resources.get(name, 0)
                for g in c.tasks
                for name in g.resources.keys() - on_hosts
            ):
                continue
            every = [(g, c.gpu_type) for g in c.tasks for _ in range(g.count)]
            gain = job.weight if objective == "weight_placed" else c.demand[0] / 1000
            extend(j + 1, every, free, content, weight + gain, held_by)
        if not all_run:
            extend(j + 1, [], free, content, weight, used)

    extend(0, [], [offer(kind) for kind in kinds], {}, 0.0, {})
    return best[0]
