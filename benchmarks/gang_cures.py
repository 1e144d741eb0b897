"""What a named cure says, applied to the instance: only its words are read, as a user does."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

from alloc.problems.allocation.instance import Instance
from alloc.workload import Configuration, Job, TaskGroup

_JOINT = " let it start, but only together"


def worlds_with(instance: Instance, name: str, sentence: str) -> Iterator[Instance]:
    """Yield what a cure may mean: the job is to start in one of these worlds.

    Raises
    ------
    ValueError
        If the words are unknown.
    """
    if sentence.endswith(_JOINT):
        yield with_parts(instance, name, parts_of(sentence))
        return
    if found := re.fullmatch(r"([\d.]+) (GPUs?|tasks?) would start now", sentence):
        yield from _with_fewer(instance, name, float(found[1]), found[2].startswith("GPU"))
        return
    for pattern, part in _SINGLE.items():
        if found := re.fullmatch(pattern, sentence):
            yield _with(instance, name, found.expand(part))
            return
    raise ValueError(f"unknown cure: {sentence}")


_SINGLE = {
    r"([\d.]+) GPUs? more quota lets? it start": r"\1 GPUs more quota",
    r"with ([\d.]+) MiB of memory a task it would start": r"\1 MiB of memory a task",
    r"with ([\d.]+) cores? of CPU a task it would start": r"\1 cores of CPU a task",
    r"it fits in one (\w+)": r"one \1",
    r"it fits over more than one (\w+)": r"no required level",
    r"without its (slices|spread|affinity) it would start": r"no \1",
    r"without its GPU type it would start": r"GPUs of any type",
    r"without its required level it would start": r"no required level",
    r"on (\w+) it would start": r"GPUs of type \1",
}


def parts_of(sentence: str) -> list[str]:
    """Return the parts of a cure that gives up several requirements, or none."""
    if not sentence.endswith(_JOINT):
        return []
    *parts, last = sentence.removesuffix(_JOINT).split(" and ")
    return [*", ".join(parts).split(", "), last]


def with_parts(instance: Instance, name: str, parts: list[str]) -> Instance:
    """Return the world with some parts of a cure."""
    # Smaller demands, which are named last, come first: on other GPUs only they may fit at all.
    for part in reversed(parts):
        instance = _with(instance, name, part)
    return instance


def _with(instance: Instance, name: str, part: str) -> Instance:
    """Return the world with one part of a cure."""
    job = instance.job(name)
    if found := re.fullmatch(r"([\d.]+) GPUs? more quota", part):
        more = round(1000 * float(found[1]))
        tenants = tuple(
            dataclasses.replace(t, gpu_quota_milli=t.gpu_quota_milli + more)
            if t.name == job.tenant
            else t
            for t in instance.tenants
        )
        return instance.replace(tenants=tenants)
    if part == "no affinity":
        kept = []
        for affinity in instance.affinities:
            others = tuple(other for other in affinity.jobs if other != name)
            if len(others) > 1:
                kept.append(dataclasses.replace(affinity, jobs=others))
        return instance.replace(affinities=tuple(kept))
    return instance.replace(
        jobs=tuple(_changed(j, part) if j.id == name else j for j in instance.jobs)
    )


def _changed(job: Job, part: str) -> Job:
    rules = job.placement
    if found := re.fullmatch(r"([\d.]+) MiB of memory a task", part):
        return _capped(job, memory_mib=int(found[1]))
    if found := re.fullmatch(r"([\d.]+) cores? of CPU a task", part):
        return _capped(job, cpu_milli=round(1000 * float(found[1])))
    if found := re.fullmatch(r"GPUs of type (\w+)", part):
        gpu_type = found[1]
        return _each(job, lambda c: dataclasses.replace(c, gpu_type=gpu_type))
    if part == "GPUs of any type":
        return _each(job, lambda c: dataclasses.replace(c, gpu_type=None))
    if part == "no slices":
        return job.replace(placement=dataclasses.replace(rules, slices=()))
    if part == "no spread":
        return job.replace(placement=dataclasses.replace(rules, spread=()))
    found = re.fullmatch(r"one (\w+)(?: instead of one \w+)?|no required level", part)
    if found is None:
        raise ValueError(f"unknown part of a cure: {part}")
    free = _each(job, lambda c: dataclasses.replace(c, within=None))
    return free.replace(placement=dataclasses.replace(rules, required=found[1]))


def _each(job: Job, change: Callable[[Configuration], Configuration]) -> Job:
    return job.replace(configurations=tuple(map(change, job.configurations)))


def _capped(job: Job, **most: int) -> Job:
    """Return a job whose tasks ask for no more than so much of a resource."""
    ((field, limit),) = most.items()

    def cut(group: TaskGroup) -> TaskGroup:
        return dataclasses.replace(group, **{field: min(getattr(group, field), limit)})

    return _each(job, lambda c: dataclasses.replace(c, tasks=tuple(map(cut, c.tasks))))


def _with_fewer(instance: Instance, name: str, amount: float, in_gpus: bool) -> Iterator[Instance]:
    """Yield the worlds in which a configuration of one group of tasks has fewer of them."""
    job = instance.job(name)
    for way in job.configurations:
        if len(way.tasks) > 1:
            continue
        (group,) = way.tasks
        count = amount * 1000 / group.gpu_milli if in_gpus and group.gpu_milli else amount
        if count != int(count) or not 0 < count < group.count:
            continue
        fewer = dataclasses.replace(way, tasks=(dataclasses.replace(group, count=int(count)),))
        try:
            small = job.replace(configurations=(fewer,), elasticity="rigid")
        except ValueError:
            continue  # the slices do not divide so many tasks
        yield instance.replace(jobs=tuple(small if j.id == name else j for j in instance.jobs))


def without(instance: Instance, name: str, requirements: set[str]) -> Instance:
    """Return the world in which a job does without some of `REQUIREMENTS`."""
    for requirement in requirements:
        if requirement == "quota":
            instance = instance.replace(
                jobs=tuple(j.replace(tenant=None) if j.id == name else j for j in instance.jobs)
            )
        elif requirement != "running jobs":
            instance = _with(instance, name, _DROPPED[requirement])
    return instance


_DROPPED = {
    "affinity": "no affinity",
    "spread": "no spread",
    "slices": "no slices",
    "memory": "0 MiB of memory a task",
    "CPU": "0 cores of CPU a task",
    "GPU type": "GPUs of any type",
    "level": "no required level",
}
