"""Why a gang cannot start, in one sentence: what conflicts, and what would free it.

The conflict is a minimal set of requirements: left out together they do not matter, and with any
one of them dropped the gang would fit (a deletion filter over exact feasibility checks; Chinneck,
"Feasibility and Infeasibility in Optimization", 2008, chapter 6). A relaxation gives up one
requirement as little as possible; its cost is the number of GPUs it concerns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from alloc.solving.gang.question import REQUIREMENTS, Question
from alloc.units import MILLI

_STEP = {"cpu_milli": 100, "memory_mib": 1}
"""How finely a smaller demand is looked for: tenths of a core, and MiB."""


@dataclass(frozen=True)
class Relaxation:
    """One way to let the job start.

    Parameters
    ----------
    requirement
        What is given up, one of `REQUIREMENTS` or ``"GPUs"``.
    cost
        GPUs concerned (tasks, for a job without GPUs): how much is given up.
    sentence
        The same for people, for example ``moving job b frees it``.
    """

    requirement: str
    cost: float
    sentence: str


@dataclass(frozen=True)
class Explanation:
    """Why a job cannot start now.

    Parameters
    ----------
    job
        Job id.
    conflict
        A minimal set of requirements that no host or domain meets together.
    sentence
        The dominant reason in one sentence, with the cheapest relaxation.
    relaxations
        Each of them would do on its own; the cheapest first.
    """

    job: str
    conflict: tuple[str, ...]
    sentence: str
    relaxations: tuple[Relaxation, ...] = ()


def explain_gang(question: Question, extra: tuple[Relaxation, ...] = ()) -> Explanation | None:
    """Say why a job cannot start, or return None if it can.

    Parameters
    ----------
    question
        The job and the cluster.
    extra
        Relaxations found elsewhere, such as moves of running jobs.
    """
    if question.fits():
        return None
    conflict = _conflict(question)
    found = [*_relaxations(question, conflict), *extra]
    ordered = tuple(sorted(found, key=lambda r: r.cost))
    cure = f"; {ordered[0].sentence}" if ordered else ""
    sentence = f'job "{question.job.id}" {_need(question)}; {_supply(question, conflict)}{cure}.'
    return Explanation(question.job.id, conflict, sentence, ordered)


def _conflict(question: Question) -> tuple[str, ...]:
    dropped: frozenset[str] = frozenset()
    kept = []
    for requirement in REQUIREMENTS:
        if question.fits(dropped | {requirement}):
            kept.append(requirement)
        else:
            dropped |= {requirement}
    return tuple(reversed(kept))


def _need(question: Question) -> str:
    """Return what the job asks for, for example ``needs 16 GPUs (8 x 2) in one rack``."""
    group = question.main
    if group.gpu_milli:
        amount = f"{group.count * group.gpu_milli / MILLI:g} GPUs"
        if group.count > 1 and group.gpu_milli != MILLI:
            amount += f" ({group.count} x {group.gpu_milli / MILLI:g})"
    else:
        amount = f"{group.count} {group.role} tasks"
    of_type = question.configuration.gpu_type
    kind = f" of type {of_type}" if of_type and group.gpu_milli else ""
    slices = "".join(f", {cut.size} tasks per {cut.level}" for cut in question.job.placement.slices)
    spread = "".join(f", at most {s.most} per {s.level}" for s in question.job.placement.spread)
    level = question.level(frozenset())
    where = f" in one {level}" if level else ""
    return f"needs {amount}{kind}{where}{slices}{spread}"


def _supply(question: Question, conflict: tuple[str, ...]) -> str:
    """Return what the best domain has, and what keeps the job out of it."""
    if not question.within_quota() and question.fits(frozenset({"quota"})):
        left = max(question.quota_left_milli or 0, 0) / MILLI
        return f'its tenant "{question.job.tenant}" has {left:g} GPUs of quota left'
    group, drop = question.main, frozenset[str]()
    level = question.level(drop)
    rooms = question.room(group, drop)
    hosts = np.arange(question.tree.topology.num_hosts)
    who = "the cluster"
    if level is not None:
        # Of domains with equal room the one with most free GPUs is the nearest to doing.
        free = np.bincount(question.tree.unit[level], question.pool.free[:, 0], question.tree.size)
        units = np.unique(question.tree.unit[level])
        best = int(units[np.lexsort((-units, free[units], rooms[level][units]))[-1]])
        hosts = np.flatnonzero(question.tree.unit[level] == best)
        who = f"best {level} {question.tree.name(best)}"
    reasons = _losses(question, hosts)
    have = question.gpus(
        int(rooms[level or question.tree.levels[-1]][hosts_unit(question, hosts, level)].sum())
    )
    free_gpus = float(question.pool.free[hosts, 0].sum()) / MILLI if group.gpu_milli else None
    if free_gpus is None:
        return f"{who} has room for {have:g} of its tasks{_listed(reasons)}"
    if not reasons and len(question.configuration.tasks) > 1 and have >= question.gpus(group.count):
        return f"{who} has {free_gpus:g} free, but not beside its other tasks"
    return f"{who} has {free_gpus:g} free{_listed(reasons)}"


def hosts_unit(question: Question, hosts: np.ndarray, level: str | None) -> np.ndarray:
    """Return the units that hold some hosts, at a level or at the outermost."""
    return np.unique(question.tree.unit[level or question.tree.levels[-1]][hosts])


def _losses(question: Question, hosts: np.ndarray) -> list[tuple[float, str]]:
    """Return the free GPUs (or tasks) on some hosts that the job cannot use, and why."""
    group, none = question.main, frozenset[str]()
    every = frozenset({"GPU type", "CPU", "memory", "affinity", "level"})
    steps: list[tuple[frozenset[str], str]] = [
        (every, ""),
        (every - {"GPU type"}, "of another GPU type"),
        (every - {"GPU type", "CPU"}, "on hosts without CPU for it"),
        (every - {"GPU type", "CPU", "memory"}, "on hosts without memory for it"),
        (frozenset({"level"}), "on hosts kept from it by affinity"),
        (none, "on hosts outside its level"),
    ]
    losses = []
    before: float | None = None
    for drop, reason in steps:
        now = question.gpus(int(question.hosts_room(group, drop)[hosts].sum()))
        if before is None:
            if group.gpu_milli:
                whole = float(question.pool.free[hosts, 0].sum()) / MILLI
                losses.append((whole - now, f"in pieces smaller than {group.gpu_milli / MILLI:g}"))
        else:
            losses.append((before - now, reason))
        before = now
    level = question.level(none)
    ruled = question.room(group, none)[level or question.tree.levels[-1]]
    under_rules = question.gpus(int(ruled[hosts_unit(question, hosts, level)].sum()))
    names = [name for name in ("slices", "spread") if getattr(question.job.placement, name)]
    losses.append(((before or 0.0) - under_rules, f"beyond its {' and '.join(names)}"))
    return [(lost, reason) for lost, reason in losses if lost > 0]


def _listed(losses: list[tuple[float, str]]) -> str:
    return "".join(
        f", {lost:g} of them {reason}" if k == 0 else f", {lost:g} {reason}"
        for k, (lost, reason) in enumerate(losses)
    )


def _relaxations(question: Question, conflict: tuple[str, ...]) -> list[Relaxation]:
    found: list[Relaxation | None] = []
    if "level" in conflict:
        found.append(_wider_level(question))
    if "quota" in conflict and question.quota_left_milli is not None:
        over = (question.configuration.demand[0] - question.quota_left_milli) / MILLI
        found.append(Relaxation("quota", over, f"{over:g} GPUs more quota let it start"))
    for name, field in (("memory", "memory_mib"), ("CPU", "cpu_milli")):
        if name in conflict:
            found.append(_less(question, name, field))
    for name in ("slices", "spread", "affinity"):
        if name in conflict:
            lost = question.gpus(question.main.count - _largest(question))
            found.append(Relaxation(name, lost, f"without its {name} it would start"))
    if "GPU type" in conflict:
        found.append(_other_type(question))
    if question.within_quota():
        found.append(_fewer(question))
    return [relaxation for relaxation in found if relaxation is not None]


def _wider_level(question: Question) -> Relaxation | None:
    """Return the innermost wider level that one domain of would hold the job."""
    inner = question.level(frozenset())
    assert inner is not None
    outside = question.tree.levels[question.tree.levels.index(inner) + 1 :]
    cost = question.gpus(max(question.main.count - _largest(question), 0))
    for level in outside:
        if question.within(level).fits():
            return Relaxation("level", cost, f"it fits in one {level}")
    if question.fits(frozenset({"level"})):
        return Relaxation("level", cost, f"it fits over more than one {inner}")
    return None


def _largest(question: Question) -> int:
    """Return the most tasks of the main group that one domain (or the cluster) has room for."""
    rooms = question.room(question.main, frozenset())
    level = question.level(frozenset())
    if level is None:
        return int(rooms[question.tree.levels[-1]].sum())
    return int(rooms[level].max())


def _fewer(question: Question) -> Relaxation | None:
    """Return the largest gang that would start, for a job of one task group."""
    tasks = _largest(question)
    if len(question.configuration.tasks) > 1 or not 0 < tasks < question.main.count:
        return None
    unit = "GPUs" if question.main.gpu_milli else "tasks"
    lost = question.gpus(question.main.count - tasks)
    return Relaxation("GPUs", lost, f"{question.gpus(tasks):g} {unit} would start now")


def _less(question: Question, name: str, field: str) -> Relaxation | None:
    """Return the most memory or CPU a task may ask for, by bisection over steps of it."""
    if not question.fits(frozenset({name})):
        return None
    asked = int(getattr(question.main, field))

    def with_amount(amount: int) -> Question:
        tasks = tuple(
            replace(g, **{field: min(getattr(g, field), amount)})
            for g in question.configuration.tasks
        )
        return replace(question, configuration=replace(question.configuration, tasks=tasks))

    step = _STEP[field]
    best = step * _bisect(lambda k: with_amount(step * k).fits(), 0, -(-asked // step))
    shown = f"{best / MILLI:g} cores" if field == "cpu_milli" else f"{best} MiB"
    gpus = question.gpus(question.main.count)
    return Relaxation(
        name, gpus * (1.0 - best / asked), f"with {shown} of {name} a task it would start"
    )


def _bisect(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest integer in [low, high) for which a monotone test holds; it does at low."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _other_type(question: Question) -> Relaxation | None:
    """Return another GPU type on which the job would fit, the one with the most free GPUs."""
    topology = question.tree.topology
    types = sorted({t for t in topology.gpu_types if t is not None})
    able = [
        t
        for t in types
        if t != question.configuration.gpu_type
        and replace(question, configuration=replace(question.configuration, gpu_type=t)).fits()
    ]
    if not able:
        return None
    free = {t: int(question.pool.free[question.pool.hosts_of_type(t), 0].sum()) for t in able}
    best = max(able, key=lambda t: (free[t], t))
    return Relaxation("GPU type", question.gpus(question.main.count), f"on {best} it would start")
