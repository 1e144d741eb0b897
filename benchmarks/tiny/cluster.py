"""Tiny clusters, gangs and queues, and whether gangs stand on hosts together: by trying it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance, Moves, overfull
from alloc.topology import Domain, Host, HostType, Topology
from alloc.units import MILLI
from alloc.workload import Configuration, Job, TaskGroup

NAMED = 0.5
"""How many of the problems have named resources."""
RACKS = (Domain("r0", "rack"), Domain("r1", "rack"))


def random_topology(rng: Random, hosts: int, *, cpu: bool = True) -> Topology:
    """Return one to `hosts` hosts of one or two types in racks; their CPU may be scarce."""
    kinds = []
    for k in range(rng.randint(1, 2)):
        gpus = rng.choice((0, 1, 2, 3, 4)) if k else rng.randint(1, 4)
        gpu_type = rng.choice(("a", "a", "b")) if gpus else None
        kinds.append(HostType(f"k{k}", gpus, gpu_type, 1000 * rng.randint(1, 8) if cpu else 0))
    made = [
        Host(f"h{h}", (kinds[0] if h == 0 else rng.choice(kinds)).name, rng.choice(("r0", "r1")))
        for h in range(rng.randint(1, hosts))
    ]
    return Topology("tiny", tuple(kinds), tuple(made), ("rack",), RACKS)


def random_gang(
    rng: Random, rate: float, *, shares: bool = True, cpu: bool = True
) -> Configuration:
    """Return a gang of one or two groups that may fit totals and not hosts."""
    sizes = (0, 300, 500, MILLI) if shares and rng.random() < 0.2 else (0, MILLI, MILLI, 2 * MILLI)
    groups = tuple(
        TaskGroup(
            role,
            rng.choice((1, 1, 2, 3)),
            rng.choice(sizes),
            rng.choice((0, 0, 1000, 2000, 3000)) if cpu else 0,
        )
        for role in ("a", "b")[: rng.choice((1, 1, 2))]
    )
    return Configuration(
        groups,
        rate,
        rng.choice((None, None, None, None, "a")),
        rng.choice((None, None, None, None, "rack", "host")),
    )


def with_named_resources(rng: Random, instance: Instance) -> Instance:
    """Return an instance whose jobs also ask for a disk of their hosts and seats of the cluster.

    The instance itself where no job could run then, or what runs would no longer fit.
    """
    topology, jobs = asking_for_names(rng, instance)
    able = {
        job.id
        for job in jobs
        if any(c.rate > 0 and packs(topology, [c]) for c in job.configurations)
    }
    if not able.issuperset(a.job for a in instance.running):
        return instance
    _require_agreement(topology, jobs, able)
    kept = tuple(job for job in jobs if job.id in able)
    if not kept:
        return instance
    named = instance.replace(topology=topology, jobs=kept, moves=instance.moves or Moves())
    if overfull(named) is not None:
        return instance
    return named.replace(moves=instance.moves)


def asking_for_names(rng: Random, instance: Instance) -> tuple[Topology, tuple[Job, ...]]:
    """Return the cluster with disks on its hosts and seats of its own, and jobs that ask."""
    kinds = tuple(
        replace(kind, resources={"disk": rng.randint(0, 6)})
        for kind in instance.topology.host_types
    )
    topology = instance.topology.replace(
        host_types=kinds, resources={"seat": rng.randint(1, 5), "unused": 7}
    )
    made: dict[tuple[Configuration, ...], tuple[Configuration, ...]] = {}
    for job in instance.jobs:
        if job.configurations not in made:
            made[job.configurations] = tuple(
                replace(c, tasks=tuple(_asking(rng, group) for group in c.tasks))
                for c in job.configurations
            )
    jobs = tuple(job.replace(configurations=made[job.configurations]) for job in instance.jobs)
    return topology, jobs


def _asking(rng: Random, group: TaskGroup) -> TaskGroup:
    return replace(
        group, resources={"disk": rng.choice((0, 0, 1, 2, 3)), "seat": rng.choice((0, 0, 1, 2))}
    )


def _require_agreement(topology: Topology, jobs: Sequence[Job], able: Container[str]) -> None:
    """Refuse an `Instance` that does not take exactly the jobs that stand somewhere."""
    for job in jobs:
        try:
            Instance("tiny", topology, (job,))
        except InstanceError as error:
            if job.id in able:
                raise AssertionError(f"Instance refuses what can run: {error}") from error
        else:
            if job.id not in able:
                raise AssertionError(f"Instance takes {job.id}, which stands nowhere")


def accepted(topology: Topology, jobs: Sequence[Job], **options: Any) -> Instance | None:
    """Return the instance of the jobs that can run; None if there is none.

    Raises
    ------
    AssertionError
        If `Instance` refuses a job that can run, or takes one that cannot.
    """
    able = [
        job for job in jobs if any(c.rate > 0 and packs(topology, [c]) for c in job.configurations)
    ]
    _require_agreement(topology, jobs, {job.id for job in able})
    return Instance("tiny", topology, tuple(able), **options) if able else None


def packs(topology: Topology, gangs: Sequence[Configuration]) -> bool:
    """Return whether gangs stand together on the empty cluster."""
    tasks = sorted(
        (
            (-group.gpu_milli, -group.cpu_milli, k, group, gang)
            for k, gang in enumerate(gangs)
            for group in gang.tasks
            for _ in range(group.count)
        ),
        key=lambda task: task[:3],
    )
    named: Counter[str] = Counter()
    for gang in gangs:
        for group in gang.tasks:
            for name, amount in group.resources.items():
                named[name] += group.count * amount
    on_hosts = {name for kind in topology.host_types for name in kind.resources}
    for name in named.keys() - on_hosts:
        if named[name] > topology.resources.get(name, 0):
            return False
    disks = [
        {name: topology.host_type(host).resources.get(name, 0) for name in named.keys() & on_hosts}
        for host in topology.hosts
    ]
    cpu = [topology.host_type(host).cpu_milli for host in topology.hosts]
    memory = [topology.host_type(host).memory_mib for host in topology.hosts]
    gpus = [[MILLI] * topology.host_type(host).num_gpus for host in topology.hosts]
    inside: dict[int, int] = {}
    levels = [of.tolist() for level, of in topology.domain_of_host.items() if level != "host"]
    domains = list(zip(*levels, range(len(cpu)), strict=True))
    dead: set[object] = set()  # what is left, from which the remaining tasks do not fit

    def extend(i: int) -> bool:
        if i == len(tasks):
            return True
        left = (
            *(i, tuple(sorted(inside.items())), tuple(cpu), tuple(memory)),
            tuple(tuple(sorted(free)) for free in gpus),
            tuple(tuple(disk.items()) for disk in disks),
        )
        if left in dead:
            return False
        _, _, k, group, gang = tasks[i]
        tried = set()
        for h in range(len(cpu)):
            # Of hosts that are alike one is tried; where a gang must stay on its host, none is.
            alone = gang.within == "host" or any(
                gangs[g].within == "host" and place == h for g, place in inside.items()
            )
            alike = domains[h] if alone else domains[h][:-1]
            here: tuple[object, ...] = (
                topology.gpu_types[h],
                alike,
                cpu[h],
                memory[h],
                tuple(disks[h].items()),
                tuple(gpus[h]),
            )
            if here in tried:
                continue
            tried.add(here)
            if gang.gpu_type not in (None, topology.gpu_types[h]):
                continue
            if cpu[h] < group.cpu_milli or memory[h] < group.memory_mib:
                continue
            own = {name: n for name, n in group.resources.items() if name in on_hosts}
            if any(disks[h][name] < n for name, n in own.items()):
                continue
            place = -1 if gang.within is None else int(topology.domain_of_host[gang.within][h])
            first = k not in inside
            if gang.within is not None and (place < 0 or inside.get(k, place) != place):
                continue
            for held in _ways_to_hold(gpus[h], group.gpu_milli):
                cpu[h] -= group.cpu_milli
                memory[h] -= group.memory_mib
                for name, n in own.items():
                    disks[h][name] -= n
                for g in held:
                    gpus[h][g] -= min(group.gpu_milli, MILLI)
                if gang.within is not None and first:
                    inside[k] = place
                found = extend(i + 1)
                if gang.within is not None and first:
                    del inside[k]
                for g in held:
                    gpus[h][g] += min(group.gpu_milli, MILLI)
                cpu[h] += group.cpu_milli
                memory[h] += group.memory_mib
                for name, n in own.items():
                    disks[h][name] += n
                if found:
                    return True
        dead.add(left)
        return False

    return extend(0)


def what_fits(
    instance: Instance,
) -> tuple[Callable[[tuple[int | None, ...]], bool], list[list[int]]]:
    """Return whether jobs fit together, a configuration or None each; and what each can run alone.

    Parameters
    ----------
    instance
        The instance, with its quotas.
    """
    jobs = instance.jobs
    quota = {tenant.name: tenant.gpu_quota_milli for tenant in instance.tenants}

    @cache
    def fits(chosen: tuple[int | None, ...]) -> bool:
        held: dict[str | None, int] = {}
        gangs = []
        for job, c in zip(jobs, chosen, strict=True):
            if c is not None:
                gangs.append(job.configurations[c])
                held[job.tenant] = held.get(job.tenant, 0) + gangs[-1].demand[0]
        within = all(held.get(name, 0) <= most for name, most in quota.items())
        return within and packs(instance.topology, gangs)

    able = [
        [
            c
            for c, way in enumerate(job.configurations)
            if way.rate > 0 and fits((*(None,) * j, c, *(None,) * (len(jobs) - j - 1)))
        ]
        for j, job in enumerate(jobs)
    ]
    return fits, able


def _ways_to_hold(free: list[int], milli: int) -> list[tuple[int, ...]]:
    """Return the GPUs that a task may take: whole ones, or one with a share left of each size."""
    if milli == 0:
        return [()]
    if milli >= MILLI:
        whole = [g for g, left in enumerate(free) if left == MILLI][: milli // MILLI]
        return [tuple(whole)] if len(whole) == milli // MILLI else []
    by_size = {left: (g,) for g, left in enumerate(free) if left >= milli}
    return list(by_size.values())
