"""Priority rules: which activity is put in next (`alloc.models.project.data.ProjectData.schedule`).

``critical-path``
    The longest path to the end first (R. Kolisch, EJOR 90(2), 1996, latest finish time). With one
    processor type it is the upward rank of HEFT (H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS
    13(3), 2002, doi:10.1109/71.993206).
``shortest-job``
    The job with the least work first, in resource seconds, as Decima's baseline has it (H. Mao et
    al., SIGCOMM 2019, section 7.1, doi:10.1145/3341302.3342080).
``weighted-fair``
    Each job in turn, by the work that its activities so far have had over the job's weight: shares
    of the cluster in proportion to weights (same source).
``troublesome-first``
    Long activities that use much of a resource first, then the others, as Graphene places them (R.
    Grandl et al., OSDI 2016, section 4). Its search over which ones are troublesome is left out:
    here they are ranked by duration times the largest share of a resource.
``release``
    By release, then by the longest path: first in, first out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from alloc.errors import InstanceError, nearest
from alloc.models.project.data import Modes, ProjectData
from alloc.problems.project import ProjectPlan, ProjectProblem


def _paths(data: ProjectData, modes: Modes) -> list[float]:
    """Return the longest path from the start of each activity to the end, seconds."""
    paths = [0.0] * data.num_activities
    for k in reversed(data.problem.order):
        behind = max((paths[s] for s in data.successors[k]), default=0.0)
        paths[k] = data.durations[k][modes[k]] + behind
    return paths


def _shares(data: ProjectData, modes: Modes) -> list[float]:
    """Return the largest share of a renewable resource that each activity uses."""
    return [
        max(
            (
                use / resource.capacity
                for use, resource in zip(data.rates[k][modes[k]], data.renewable, strict=True)
                if use
            ),
            default=0.0,
        )
        for k in range(data.num_activities)
    ]


def _works(data: ProjectData, modes: Modes) -> list[float]:
    """Return the work of each activity: duration times its largest share of a resource."""
    shares = _shares(data, modes)
    return [data.durations[k][modes[k]] * shares[k] for k in range(data.num_activities)]


def _by_rank(keys: Sequence[tuple[float, ...]]) -> list[float]:
    """Return positions in the order of keys, equal ones alike."""
    rank = {key: float(i) for i, key in enumerate(sorted(set(keys)))}
    return [rank[key] for key in keys]


def _critical_path(data: ProjectData, modes: Modes) -> list[float]:
    return [-path for path in _paths(data, modes)]


def _shortest_job(data: ProjectData, modes: Modes) -> list[float]:
    works, totals = _works(data, modes), [0.0] * len(data.problem.jobs)
    for k, j in enumerate(data.problem.job_of):
        totals[j] += works[k]
    paths = _paths(data, modes)
    return _by_rank([(totals[j], -paths[k]) for k, j in enumerate(data.problem.job_of)])


def _weighted_fair(data: ProjectData, modes: Modes) -> list[float]:
    works = _works(data, modes)
    had, finish = [0.0] * len(data.problem.jobs), [0.0] * data.num_activities
    for k in data.by_priority(_critical_path(data, modes)):
        j = data.problem.job_of[k]
        had[j] += works[k] / max(data.problem.jobs[j].weight, 1e-12)
        finish[k] = had[j]
    return finish


def _troublesome_first(data: ProjectData, modes: Modes) -> list[float]:
    return [-work for work in _works(data, modes)]


def _release(data: ProjectData, modes: Modes) -> list[float]:
    paths = _paths(data, modes)
    return _by_rank([(data.release[k], -paths[k]) for k in range(data.num_activities)])


RULES: dict[str, Callable[[ProjectData, Modes], list[float]]] = {
    "critical-path": _critical_path,
    "shortest-job": _shortest_job,
    "weighted-fair": _weighted_fair,
    "troublesome-first": _troublesome_first,
    "release": _release,
}
"""The rules by name: the priority of each activity, the least first."""


def plans_by_rule(data: ProjectData, rule: str, choices: Sequence[Modes]) -> Iterator[ProjectPlan]:
    """Yield the schedule of a rule for each choice of modes.

    Parameters
    ----------
    data
        The project.
    rule
        One of `RULES`.
    choices
        Modes that keep the budgets.
    """
    for modes in choices:
        order = data.by_priority(RULES[rule](data, modes))
        yield data.plan(modes, data.schedule(modes, order))


def schedule_by_rule(
    problem: ProjectProblem, rule: str, objective: str = "makespan"
) -> ProjectPlan | None:
    """Return the best schedule that a rule makes with the modes of `quick_modes`.

    Parameters
    ----------
    problem
        The project; the rule knows all of it, also the jobs not yet released.
    rule
        One of `RULES`.
    objective
        What decides between choices of modes: ``makespan``, ``weighted_jct`` or
        ``weighted_tardiness``.

    Returns
    -------
    ProjectPlan or None
        None where no choice of modes was found that keeps the budgets.

    Raises
    ------
    InstanceError
        If there is no such rule.
    """
    if rule not in RULES:
        raise InstanceError(
            f'unknown rule "{rule}"{nearest(rule, RULES, ";")} known: {", ".join(RULES)}.'
        )
    data = ProjectData(problem)
    plans = plans_by_rule(data, rule, quick_modes(data))
    return min(plans, key=lambda plan: plan.value(problem, objective), default=None)


def quick_modes(data: ProjectData) -> list[list[int]]:
    """Return choices of modes that keep the budgets, found without a search.

    The shortest modes, those with the least work, and between them: of the modes that use least of
    the budgets, activity by activity the shorter one that the budgets still allow.

    Parameters
    ----------
    data
        The project.

    Returns
    -------
    list of list of int
        None where even the modes that use least, by share of the budgets, are too much: other ones
        may keep them.
    """
    capacity = [max(r.capacity, 1) for r in data.used_up]

    def best(key: Callable[[int, int], float]) -> list[int]:
        return [
            min(range(len(ways)), key=lambda m, k=k: key(k, m))  # type: ignore[misc]
            for k, ways in enumerate(data.modes)
        ]

    def work(k: int, m: int) -> float:
        rates = zip(data.rates[k][m], data.renewable, strict=True)
        return data.durations[k][m] * max((u / r.capacity for u, r in rates if u), default=0.0)

    def budget(k: int, m: int) -> float:
        return sum(u / c for u, c in zip(data.amounts[k][m], capacity, strict=True))

    def is_kept(modes: list[int]) -> bool:
        return all(
            sum(data.amounts[k][m][n] for k, m in enumerate(modes)) <= r.capacity
            for n, r in enumerate(data.used_up)
        )

    found = [best(lambda k, m: data.durations[k][m]), best(work)]
    thrifty = best(budget)
    if data.used_up and is_kept(thrifty):
        for k in sorted(range(data.num_activities), key=lambda k: -data.shortest[k]):
            for m in sorted(range(len(data.modes[k])), key=lambda m, k=k: data.durations[k][m]):  # type: ignore[misc]
                tried = [*thrifty[:k], m, *thrifty[k + 1 :]]
                if is_kept(tried):
                    thrifty = tried
                    break
        found.append(thrifty)
    kept = [modes for modes in found if is_kept(modes)]
    return [modes for i, modes in enumerate(kept) if modes not in kept[:i]]
