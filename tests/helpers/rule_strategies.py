"""Hypothesis strategies for placement: ``from rule_strategies import ruled_instances``.

`instances` of `strategies` draws what every method takes; these draw what only placement takes:
rules about domains, affinities, moves, cohorts, GPU memory and MIG slices.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st
from strategies import instances

from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant, misfit
from alloc.topology.topology import HOST
from alloc.units import MILLI
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup


@st.composite
def placement_rules(draw: st.DrawFn, levels: tuple[str, ...], counts: tuple[int, ...]) -> Any:
    """Rules over levels (outermost first), with slices that divide every one of the counts."""
    level = st.sampled_from((None, *levels))
    sliced = draw(st.lists(st.sampled_from(levels), unique=True, max_size=2))
    sizes: list[int] = []
    for _ in sliced:
        of = counts if not sizes else (sizes[-1],)
        sizes.append(draw(st.sampled_from([d for d in (1, 2, 3) if all(n % d == 0 for n in of)])))
    ordered = sorted(sliced, key=levels.index)
    spread = draw(st.lists(st.sampled_from(levels), unique=True, max_size=2))
    return PlacementRules(
        draw(level),
        draw(level),
        tuple(Slice(name, size) for name, size in zip(ordered, sizes, strict=True)),
        tuple(Spread(name, draw(st.integers(1, 4))) for name in spread),
    )


def _group(draw: st.DrawFn, group: TaskGroup) -> TaskGroup:
    if not group.gpu_milli:
        return group
    kind = draw(st.sampled_from(("gpu", "memory", "mig")))
    if kind == "memory":
        return dataclasses.replace(group, gpu_memory_mib=draw(st.integers(1, 80 * 1024)))
    if kind == "mig":
        profile = draw(st.sampled_from(("1g.5gb", "3g.20gb")))
        return dataclasses.replace(group, gpu_milli=0, mig_profile=profile)
    return group


def _configuration(draw: st.DrawFn, instance: Instance, c: Configuration) -> Configuration:
    """Return a configuration with GPU memory or slices where some GPU of the cluster has them."""
    asking = dataclasses.replace(c, tasks=tuple(_group(draw, group) for group in c.tasks))
    return c if misfit(instance.topology, asking) is not None else asking


@st.composite
def ruled_instances(draw: st.DrawFn, *, wild: bool = False) -> Any:
    """Instances with any of the features of placement; their rules need not be satisfiable."""
    instance: Instance = draw(instances(wild=wild))
    levels = (*instance.topology.levels, HOST)
    changed: dict[int, tuple[Configuration, ...]] = {}
    for job in instance.jobs:
        if id(job.configurations) not in changed:
            changed[id(job.configurations)] = tuple(
                _configuration(draw, instance, c) for c in job.configurations
            )
    jobs: list[Job] = []
    for job in instance.jobs:
        ways = changed[id(job.configurations)]
        counts = tuple(group.count for c in ways for group in c.ruled_groups)
        rules = draw(placement_rules(levels, counts))
        jobs.append(job.replace(configurations=ways, placement=rules))
    affinities: tuple[Affinity, ...] = ()
    ids = [job.id for job in jobs]
    if len(ids) > 1 and draw(st.booleans()):
        some = st.lists(st.sampled_from(ids), min_size=2, max_size=3, unique=True)
        kinds = draw(st.lists(st.sampled_from(("together", "apart")), min_size=1, max_size=2))
        affinities = tuple(
            Affinity(kind, draw(st.sampled_from(levels)), tuple(draw(some)))  # type: ignore[arg-type]
            for kind in kinds
        )
    tenants = tuple(
        Tenant(t.name, t.gpu_quota_milli, "pool", MILLI * draw(st.integers(0, 2)))
        if draw(st.booleans())
        else t
        for t in instance.tenants
    )
    budget = st.one_of(st.none(), st.integers(0, 5))
    moves = draw(st.one_of(st.none(), st.builds(Moves, budget, st.booleans())))
    return instance.replace(jobs=tuple(jobs), affinities=affinities, tenants=tenants, moves=moves)
