"""Why a gang cannot start, in one sentence: what conflicts, and what would free it.

The conflict is a minimal set of requirements: left out together the others do not matter, and with
any one more dropped the gang would fit (a deletion filter over exact feasibility checks; Chinneck,
"Feasibility and Infeasibility in Optimization", 2008, chapter 6). What would free it is found, and
tried, in `alloc.solving.gang.cures`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from alloc.errors import SolverError
from alloc.solving.gang.cures import (
    Questions,
    Relaxation,
    amount,
    find_cures,
    fits,
    least,
    requirements,
)
from alloc.solving.gang.question import GangFeasibility
from alloc.solving.gang.room import Counts
from alloc.units import MILLI


@dataclass(frozen=True)
class Explanation:
    """Why a job cannot start now.

    Parameters
    ----------
    job
        Job id.
    conflict
        A minimal set of requirements that no host or domain meets together, in whatever
        configuration; empty if the job fits not even the empty cluster, rid of all of them.
    sentence
        The dominant reason in one sentence, with the cheapest relaxation.
    relaxations
        Each of them would do on its own; the cheapest first. Those that give up several
        requirements at once do so only where no single one would do.
    """

    job: str
    conflict: tuple[str, ...]
    sentence: str
    relaxations: tuple[Relaxation, ...] = ()

    def with_cure(self, cure: Relaxation) -> Explanation:
        """Return the explanation with one more relaxation."""
        reason = self.sentence.rpartition("; ")[0]  # what comes last is the cure
        cures = tuple(sorted((*self.relaxations, cure), key=lambda r: r.cost))
        return replace(self, relaxations=cures, sentence=f"{reason}; {cures[0].sentence}.")


def explain_gang(questions: Questions) -> Explanation | None:
    """Say why a job cannot start, or return None if it can.

    Parameters
    ----------
    questions
        The job and the cluster, a question for each configuration.
    """
    if fits(questions):
        return None
    conflict: tuple[str, ...] = ()
    cures: tuple[Relaxation, ...] = ()
    try:
        conflict, cures = _conflict(questions), tuple(find_cures(questions))
        cure = cures[0].sentence if cures else _outlook(questions)
    except SolverError:
        cure = "what would let it start is too hard to decide"
    job, question = questions[0].job, least(questions)
    sentence = f'job "{job.id}" {_need(questions)}; {_supply(question, conflict)}; {cure}.'
    return Explanation(job.id, conflict, sentence, cures)


def _outlook(questions: Questions) -> str:
    """Return what is known of a job that nothing it could give up lets start."""
    if fits(questions, frozenset({"running jobs"})):
        return "it fits once running jobs end"
    if not fits(questions, frozenset({"running jobs", "quota", "affinity"})):
        return "it does not fit even the empty cluster"
    return "it fits the empty cluster, but for its quota or affinity"


def _conflict(questions: Questions) -> tuple[str, ...]:
    dropped: frozenset[str] = frozenset()
    kept = []
    for requirement in requirements(questions):
        if fits(questions, dropped | {requirement}):
            kept.append(requirement)
        else:
            dropped |= {requirement}
    return tuple(reversed(kept))


def _need(questions: Questions) -> str:
    """Return what the job asks for at least, for example ``needs 16 GPUs (8 x 2) in one rack``."""
    question = least(questions)
    group, rules = question.main, question.job.placement
    if group.gpu_milli:
        needed = amount(group.count * group.gpu_milli / MILLI, "GPU")
        if group.count > 1 and group.gpu_milli != MILLI:
            needed += f" ({group.count} x {group.gpu_milli / MILLI:g})"
    else:
        needed = amount(group.count, f"{group.role} task")
    of_type = question.configuration.gpu_type
    kind = f" of type {of_type}" if of_type and group.gpu_milli else ""
    slices = "".join(f", {amount(cut.size, 'task')} per {cut.level}" for cut in rules.slices)
    spread = "".join(f", at most {s.most} per {s.level}" for s in rules.spread)
    level = question.level()
    where = f" in one {level}" if level else ""
    if level and level not in question.own_levels:
        where += " by its affinity"
    sizes = {q.configuration.demand for q in questions}
    at_least = " at least" if len(sizes) > 1 else ""
    named = "".join(f", {n} {name} a task" for name, n in group.resources.items())
    return f"needs{at_least} {needed}{kind}{named}{where}{slices}{spread}"


def _supply(question: GangFeasibility, conflict: tuple[str, ...]) -> str:
    """Return what quota is left and what the best domain has, as far as the job is short of it."""
    if lacking := question.lacking():
        left = ", ".join(f"{n} {name}" for name, n in lacking.items())
        cluster = f"the cluster has {left} left"
        if question.fits(frozenset(lacking)):
            return cluster
        return f"{cluster}, and {_besides_cluster(question, conflict)}"
    return _besides_cluster(question, conflict)


def _besides_cluster(question: GangFeasibility, conflict: tuple[str, ...]) -> str:
    if question.within_quota():
        return _hosts(question, conflict)
    left = max(question.quota_left_milli or 0, 0) / MILLI
    quota = f'its tenant "{question.job.tenant}" has {amount(left, "GPU")} of quota left'
    if question.fits(frozenset({"quota"})):
        return quota
    return f"{quota}, and {_hosts(question, conflict)}"


def _hosts(question: GangFeasibility, conflict: tuple[str, ...]) -> str:
    """Return what the best domain, or the cluster, has, and what keeps the job out of it."""
    tree, level, group = question.tree, question.level(), question.main
    room = question.reach(group)
    units = np.unique(tree.unit[level or tree.levels[-1]])
    hosts, who = np.arange(tree.topology.num_hosts), "the cluster"
    if level is not None and tree.proper[level][units].any():
        units = units[tree.proper[level][units]]
        free = np.bincount(tree.unit[level], question.pool.free[:, 0].clip(0), tree.size)
        # Of domains with equal room the one with most free GPUs is the nearest to doing.
        best = int(units[np.lexsort((-units, free[units], room[units]))[-1]])
        units, hosts = np.array([best]), np.flatnonzero(tree.unit[level] == best)
        who = f"best {level} {tree.name(best)}"
    have = int(room[units].sum())
    if not group.gpu_milli:
        limits = [name for name in conflict if name in (*_TASK_LIMITS, *question.named)]
        by = f", limited by {' and '.join(limits)}" if limits else ""
        return f"{who} has room for {have} of its tasks{by}"
    free_gpus = _free_gpus(question, hosts)
    if len(question.configuration.tasks) > 1 and have >= group.count:
        return f"{who} has {free_gpus:g} free, but not beside its other tasks"
    return f"{who} has {free_gpus:g} free{_listed(_losses(question, hosts, have))}"


_TASK_LIMITS = ("CPU", "memory", "slices", "spread", "affinity")
"""Requirements to name where tasks without GPUs find no room."""


def _free_gpus(question: GangFeasibility, hosts: Counts) -> float:
    """Return the free GPUs on some hosts; those that lack on an over-full one are not owed."""
    return float(np.maximum(question.pool.free[hosts, 0], 0).sum()) / MILLI


def _losses(question: GangFeasibility, hosts: Counts, have: int) -> list[tuple[float, str]]:
    """Return the free GPUs on some hosts that the job cannot use, and why.

    Of its tasks, `have` find room there under all rules.
    """
    group, none = question.main, frozenset[str]()
    every = frozenset({"GPU type", "CPU", "memory", "affinity", "level", *question.named})
    lacked = [
        (every - {"GPU type", "CPU", "memory", *question.named[: k + 1]}, name)
        for k, name in enumerate(question.named)
    ]
    steps: list[tuple[frozenset[str], str]] = [
        (every, f"in pieces smaller than {group.gpu_milli / MILLI:g}"),
        (every - {"GPU type"}, "of another GPU type"),
        (every - {"GPU type", "CPU"}, "on hosts without CPU for it"),
        (every - {"GPU type", "CPU", "memory"}, "on hosts without memory for it"),
        *((drop, f"on hosts without {name} for it") for drop, name in lacked),
        (frozenset({"level"}), "on hosts kept from it by affinity"),
        (none, "on hosts outside its level"),
    ]
    before = _free_gpus(question, hosts)
    losses = []
    for drop, reason in steps:
        now = question.gpus(int(question.hosts_room(group, drop)[hosts].sum()))
        losses.append((before - now, reason))
        before = now
    names = [name for name in ("slices", "spread") if getattr(question.job.placement, name)]
    losses.append((before - question.gpus(have), f"beyond its {' and '.join(names)}"))
    return [(lost, reason) for lost, reason in losses if lost > 0]


def _listed(losses: list[tuple[float, str]]) -> str:
    return "".join(
        f", {lost:g} of them {reason}" if k == 0 else f", {lost:g} {reason}"
        for k, (lost, reason) in enumerate(losses)
    )
