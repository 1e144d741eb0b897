"""What would let a gang start: the least changes of its demands and rules, each tried.

A cure gives up a set of requirements such that no subset of them is a cure (a minimal correction
set; Liffiton and Sakallah, "Algorithms for computing minimal unsatisfiable subsets of constraints",
Journal of Automated Reasoning 40, 2008). Sets are tried by size, up to the first size at which
there is one. Of each requirement in a set as little as possible is given up, and the job that is
left is decided on once more: a cure is named only if it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from alloc.resources import on_axis
from alloc.solving.gang.question import REQUIREMENTS, GangFeasibility
from alloc.units import MILLI
from alloc.workload import TaskGroup

_STEP = {"CPU": 100, "memory": 1}
"""How finely a smaller demand is looked for: tenths of a core, and MiB."""
_FIELD = {"CPU": "cpu_milli", "memory": "memory_mib"}
"""Fields of what else may be less; all other names are those of named resources."""
_SHARES = 1000
"""Parts in which CPU and memory are cut down together, before each is raised on its own; a
tenth of a per cent is finer than anybody asks for."""
_IN_PART = "level", "GPU type", "quota"
"""Requirements of which less than the whole may be given up, apart from CPU and memory."""

Questions = tuple[GangFeasibility, ...]
"""A job's question in each of its configurations."""


@dataclass(frozen=True)
class Relaxation:
    """One way to let the job start.

    Parameters
    ----------
    requirement
        What is given up: one of `REQUIREMENTS` or ``"GPUs"``; several joined by ``" and "``.
    cost
        How much is given up, in `unit`: GPUs more or fewer, or those of the tasks that a rule
        keeps out; for CPU and memory the share given up of the whole gang.
    sentence
        The same for people, for example ``moving job b frees it``.
    unit
        ``"GPUs"``, or ``"tasks"`` for a job without GPUs.
    """

    requirement: str
    cost: float
    sentence: str
    unit: str = "GPUs"


def fits(questions: Questions, drop: frozenset[str] = frozenset()) -> bool:
    """Return whether a job could start in some configuration without some requirements.

    Parameters
    ----------
    questions
        The job in each of its configurations.
    drop
        Requirements left out, of `requirements`.
    """
    return any(question.fits(drop) for question in questions)


def find_cures(questions: Questions) -> list[Relaxation]:
    """Return the cures of a job that cannot start, each of which would do; the cheapest first."""
    asked = [r for r in requirements(questions) if r != "running jobs" and _asks(questions, r)]
    found = list(_smallest(questions, asked))
    fewer = _fewer(questions)
    return sorted([*found, *fewer], key=lambda cure: cure.cost)


def _asks(questions: Questions, requirement: str) -> bool:
    """Return whether a job asks for a requirement at all."""
    job = questions[0].job
    groups = [group for question in questions for group in question.configuration.tasks]
    if requirement in _FIELD or requirement not in REQUIREMENTS:
        return any(_of(group, requirement) for group in groups)
    return {
        "affinity": bool(questions[0].together) or not questions[0].admitted.all(),
        "spread": bool(job.placement.spread),
        "slices": bool(job.placement.slices),
        "GPU type": any(q.configuration.gpu_type is not None for q in questions),
        "quota": questions[0].quota_left_milli is not None,
        "level": any(q.own_levels for q in questions),
    }[requirement]


def requirements(questions: Questions) -> tuple[str, ...]:
    """Return what a job may give up in some configuration, the first to be blamed last."""
    return tuple(dict.fromkeys(r for question in questions for r in question.requirements))


def _of(group: TaskGroup, name: str) -> int:
    """Return the CPU, memory or named resource that a task asks for."""
    return getattr(group, _FIELD[name]) if name in _FIELD else group.resources.get(name, 0)


def _smallest(questions: Questions, asked: Sequence[str]) -> Iterator[Relaxation]:
    """Yield the cures that give up the fewest requirements."""
    if not fits(questions, frozenset(asked)):
        return
    for size in range(1, len(asked) + 1):
        able = [set_ for set_ in map(frozenset, combinations(asked, size)) if fits(questions, set_)]
        found = [cure for set_ in able if (cure := _cure(questions, set_)) is not None]
        if found:
            yield from found
            return


@dataclass(frozen=True)
class _Part:
    """What is given up of one requirement: the words alone and beside others, and the cost."""

    alone: str
    beside: str
    cost: float


def _cure(questions: Questions, given_up: frozenset[str]) -> Relaxation | None:
    """Return the least that has to be given up of each of some requirements, tried together.

    None if nothing can be named: no CPU or no memory at all is no job that anybody runs.
    """
    parts: dict[str, _Part] = {}
    left = given_up
    short = _shortage(questions)
    for name in ("slices", "spread", "affinity"):
        if name in left:
            parts[name] = _Part(f"without its {name} it would start", f"no {name}", short)
    for name in _IN_PART:
        if name in left:
            step = {"level": _wider_level, "GPU type": _other_type, "quota": _more_quota}[name]
            questions, parts[name] = step(questions, left)
            left -= {name}
    named = [name for name in requirements(questions) if name not in REQUIREMENTS]
    amounts = [name for name in ("memory", "CPU", *named) if name in left]
    if amounts:
        less = _less(questions, amounts, left - set(amounts))
        if less is None:
            return None
        questions, parts_less = less
        parts |= parts_less
        left -= set(amounts)
    if not fits(questions, left):
        return None
    names = [name for name in reversed(requirements(questions)) if name in given_up]
    chosen = [parts[name] for name in names]
    sentence = chosen[0].alone
    if len(chosen) > 1:
        sentence = f"{_listed([p.beside for p in chosen])} let it start, but only together"
    unit = "GPUs" if questions[0].main.gpu_milli else "tasks"
    return Relaxation(" and ".join(names), sum(p.cost for p in chosen), sentence, unit)


def _shortage(questions: Questions) -> float:
    """Return the GPUs (or tasks) of the least configuration that find no place as it stands."""
    question = least(questions)
    return question.gpus(max(question.main.count - question.max_tasks(), 0))


def least(questions: Questions) -> GangFeasibility:
    """Return the question of the configuration that asks for least."""
    return min(questions, key=lambda question: question.configuration.demand)


def _wider_level(questions: Questions, drop: frozenset[str]) -> tuple[Questions, _Part]:
    """Return the job kept in one domain of the innermost wider level that does, or of none."""
    levels = questions[0].tree.levels
    inner = min((q.own_levels[0] for q in questions if q.own_levels), key=levels.index)
    short = _shortage(questions)
    for level in levels[levels.index(inner) + 1 :]:
        wider = tuple(_in_one(question, level) for question in questions)
        if fits(wider, drop - {"level"}):
            part = _Part(f"it fits in one {level}", f"one {level} instead of one {inner}", short)
            return wider, part
    free = tuple(_in_one(question, None) for question in questions)
    part = _Part("without its required level it would start", "no required level", short)
    return free, part


def _in_one(question: GangFeasibility, level: str | None) -> GangFeasibility:
    rules = replace(question.job.placement, required=level)
    return question.changed(rules, replace(question.configuration, within=None))


def _other_type(questions: Questions, drop: frozenset[str]) -> tuple[Questions, _Part]:
    """Return the job on the GPU type with most free GPUs of those that do, or on any."""
    first = questions[0]
    free: dict[str, int] = {}
    for gpu_type in dict.fromkeys(t for t in first.tree.topology.gpu_types if t is not None):
        of_type = first.pool.hosts_of_type(gpu_type)
        free[gpu_type] = int(first.pool.free[of_type, 0].sum())
    cost = least(questions).gpus(least(questions).main.count)
    for gpu_type in sorted(free, key=lambda t: (-free[t], t)):
        other = tuple(_of_type(question, gpu_type) for question in questions)
        if fits(other, drop - {"GPU type"}):
            beside = f"GPUs of type {gpu_type}"
            return other, _Part(f"on {gpu_type} it would start", beside, cost)
    mixed = tuple(_of_type(question, None) for question in questions)
    return mixed, _Part("without its GPU type it would start", "GPUs of any type", cost)


def _of_type(question: GangFeasibility, gpu_type: str | None) -> GangFeasibility:
    configuration = replace(question.configuration, gpu_type=gpu_type)
    return question.changed(question.job.placement, configuration)


def _more_quota(questions: Questions, drop: frozenset[str]) -> tuple[Questions, _Part]:
    """Return the job with the least more quota that does."""
    left = questions[0].quota_left_milli
    assert left is not None
    able = [question for question in questions if question.fits(drop)]
    more = min(question.configuration.demand[0] for question in able) - left
    raised = tuple(replace(question, quota_left_milli=left + more) for question in questions)
    beside = f"{amount(more / MILLI, 'GPU')} more quota"
    verb = "lets" if more == MILLI else "let"
    return raised, _Part(f"{beside} {verb} it start", beside, more / MILLI)


def _less(
    questions: Questions, names: Sequence[str], drop: frozenset[str]
) -> tuple[Questions, dict[str, _Part]] | None:
    """Return the job with as much of some amounts a task as does, or None if that is nothing."""
    most: dict[str, int] = {
        name: max(_of(g, name) for q in questions for g in q.configuration.tasks) for name in names
    }
    step = {name: _STEP.get(name, 1) for name in names}

    def steps(name: str) -> int:
        return -(-most[name] // step[name])

    def capped(limits: dict[str, int]) -> Questions:
        return tuple(_capped(question, limits) for question in questions)

    def at_share(share: int) -> dict[str, int]:
        return {name: step[name] * (steps(name) * share // _SHARES) for name in names}

    # Both by the same share first, then each as far up as the other leaves it.
    share = _bisect(lambda k: fits(capped(at_share(k)), drop), 0, _SHARES)
    limits = at_share(share)
    for name in names:

        def holds(k: int, name: str = name) -> bool:
            return fits(capped({**limits, name: step[name] * k}), drop)

        limits[name] = step[name] * _bisect(holds, limits[name] // step[name], steps(name) + 1)
    if not all(0 < limits[name] < most[name] for name in names):
        return None
    question = least(questions)
    whole = question.gpus(question.main.count)
    parts = {}
    for name in names:
        beside = f"{limits[name]} {name} a task"
        if name in _FIELD:
            cores = amount(limits[name] / MILLI, "core")
            beside = f"{cores if name == 'CPU' else f'{limits[name]} MiB'} of {name} a task"
        cost = whole * _share_lost(question, name, limits[name])
        parts[name] = _Part(f"with {beside} it would start", beside, cost)
    return capped(limits), parts


def _capped(question: GangFeasibility, limits: dict[str, int]) -> GangFeasibility:
    def cut(group: TaskGroup) -> TaskGroup:
        less = {name: min(_of(group, name), limit) for name, limit in limits.items()}
        own = {name: less.get(name, n) for name, n in group.resources.items()}
        return replace(
            group,
            cpu_milli=less.get("CPU", group.cpu_milli),
            memory_mib=less.get("memory", group.memory_mib),
            resources=on_axis(own, group.resources_on_axis),
        )

    tasks = tuple(map(cut, question.configuration.tasks))
    return question.changed(question.job.placement, replace(question.configuration, tasks=tasks))


def _share_lost(question: GangFeasibility, name: str, limit: int) -> float:
    """Return the share of an amount of a gang that a limit a task takes from it."""
    groups = [(_of(g, name), g.count) for g in question.configuration.tasks]
    before = sum(each * count for each, count in groups)
    after = sum(min(each, limit) * count for each, count in groups)
    return 1.0 - after / before if before else 0.0


def _bisect(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest integer in [low, high) for which a monotone test holds; it does at low."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _fewer(questions: Questions) -> Iterator[Relaxation]:
    """Yield the largest gang that would start, of the configurations of one task group."""
    best: tuple[float, GangFeasibility] | None = None
    for question in questions:
        (group, *others) = question.configuration.tasks
        if others:
            continue
        tasks = min(question.max_tasks(), group.count - 1)
        if group.gpu_milli and question.quota_left_milli is not None:
            tasks = min(tasks, question.quota_left_milli // group.gpu_milli)
        if question.job.placement.slices:
            tasks -= tasks % question.job.placement.slices[0].size
        if tasks < 1 or (best is not None and question.gpus(tasks) <= best[0]):
            continue
        fewer = replace(question.configuration, tasks=(replace(group, count=tasks),))
        if question.changed(question.job.placement, fewer).fits():
            best = question.gpus(tasks), question
    if best is not None:
        amount_now, question = best
        word = "GPU" if question.main.gpu_milli else "task"
        lost = question.gpus(question.main.count) - amount_now
        yield Relaxation("GPUs", lost, f"{amount(amount_now, word)} would start now", f"{word}s")


def amount(number: float, word: str) -> str:
    """Return a number of things, for example ``1 GPU`` or ``4 GPUs``.

    Parameters
    ----------
    number
        How many, 0 or more; a fraction of a GPU or core is one too.
    word
        What is counted, in the singular; an ``s`` makes the plural.
    """
    return f"{number:g} {word}{'' if number == 1 else 's'}"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
