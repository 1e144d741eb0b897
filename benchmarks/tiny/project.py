"""Tiny projects: every choice of modes, and every order in which activities can be put in."""

from __future__ import annotations

import itertools
import math
from random import Random

from alloc.problems.project import Activity, Mode, ProjectJob, ProjectProblem, Resource, job_cost
from alloc.result import Limits
from alloc.solving import solve as solve_problem
from alloc.verification.project import verify_project
from benchmarks.tiny.family import SCALES, Answer, Family, Truth, of_result

Asked = tuple[ProjectProblem, str]
_OBJECTIVES = ("makespan", "weighted_jct", "weighted_tardiness")


def make(rng: Random, scaled: bool, large: bool) -> Asked:
    """Return a few jobs of a few stages, on one or two resources, with a budget or without."""
    unit = rng.choice(SCALES) if scaled else 1.0
    weight = rng.choice(SCALES) if scaled else 1.0
    whole = rng.random() < 0.5
    capacities = {"gpu": rng.randint(2, 5), "cpu": rng.randint(2, 6), "money": rng.randint(8, 30)}
    names = ["gpu", *(name for name in ("cpu", "money") if rng.random() < 0.5)]

    def mode(size: int) -> Mode:
        length = rng.randint(1, 9) if whole else rng.uniform(0.5, 9.0)
        uses = {name: rng.randint(0, capacities[name] if name != "money" else 6) for name in names}
        return Mode(unit * length / size, {**uses, "gpu": min(size, capacities["gpu"])})

    def release() -> float:
        return unit * rng.choice((0, 0, rng.randint(1, 12)))

    jobs = []
    for j in range(rng.randint(4, 8) if large else rng.randint(1, 3)):
        at = release()
        due = rng.choice((None, at + unit * rng.randint(2, 20)))
        jobs.append(ProjectJob(f"j{j}", at, weight * rng.choice((0.0, 1.0, 2.5)), due))
    activities: list[Activity] = []
    for job in jobs:
        ids: list[str] = []
        for _ in range(rng.randint(8, 15) if large else rng.randint(1, 6 // len(jobs))):
            modes = tuple(mode(size) for size in range(1, rng.randint(1, 3) + 1))
            before = tuple(i for i in ids if rng.random() < 0.5)
            ids.append(f"{job.id}-{len(ids)}")
            activities.append(Activity(ids[-1], modes, before, job.id))
    rng.shuffle(activities)
    resources = tuple(Resource(name, capacities[name], name != "money") for name in names)
    problem = ProjectProblem("project", tuple(activities), resources, tuple(jobs))
    return problem, rng.choice(_OBJECTIVES)


class _Enumeration:
    """Puts activities in, one after the other, in every order, as early as each fits."""

    def __init__(self, problem: ProjectProblem, objective: str, modes: tuple[int, ...]) -> None:
        self.problem, self.objective = problem, objective
        self.modes = [a.modes[m] for a, m in zip(problem.activities, modes, strict=True)]
        self.best = math.inf

    def fits(self, k: int, start: float, runs: dict[int, float]) -> bool:
        """Return whether an activity fits from a start, beside those that run already."""
        end = start + self.modes[k].duration_s
        moments = [start, *(s for s in runs.values() if start < s < end)]
        for resource in self.problem.resources:
            if not resource.is_renewable:
                continue
            for moment in moments:
                used = self.modes[k].uses.get(resource.name, 0) + sum(
                    self.modes[i].uses.get(resource.name, 0)
                    for i, s in runs.items()
                    if s <= moment < s + self.modes[i].duration_s
                )
                if used > resource.capacity:
                    return False
        return True

    def value(self, ends: dict[int, float]) -> float:
        """Return the value of what is put in: what comes after only adds to it."""
        if self.objective == "makespan":
            return max(ends.values(), default=0.0)
        last: dict[int, float] = {}
        for k, end in ends.items():
            j = self.problem.job_of[k]
            last[j] = max(last.get(j, 0.0), end)
        return sum(job_cost(self.problem.jobs[j], end, self.objective) for j, end in last.items())

    def search(self, runs: dict[int, float]) -> None:
        """Put every activity that can come next in, and go on."""
        ends = {k: s + self.modes[k].duration_s for k, s in runs.items()}
        value = self.value(ends)
        if value >= self.best:
            return
        if len(runs) == len(self.modes):
            self.best = value
            return
        for k in range(len(self.modes)):
            before = self.problem.predecessors[k]
            if k in runs or not all(p in runs for p in before):
                continue
            release = self.problem.jobs[self.problem.job_of[k]].release_s
            ready = max([release, *(ends[p] for p in before)])
            starts = sorted({ready, *(end for end in ends.values() if end > ready)})
            start = next(s for s in starts if self.fits(k, s, runs))
            self.search({**runs, k: start})


def truth(asked: Asked) -> Truth:
    """Try every choice of modes and every order."""
    problem, objective = asked
    best = math.inf
    for modes in itertools.product(*(range(len(a.modes)) for a in problem.activities)):
        chosen = [a.modes[m] for a, m in zip(problem.activities, modes, strict=True)]
        if not all(problem.fits(mode) for mode in chosen) or any(
            sum(mode.uses.get(r.name, 0) for mode in chosen) > r.capacity
            for r in problem.resources
            if not r.is_renewable
        ):
            continue
        found = _Enumeration(problem, objective, modes)
        found.best = best
        found.search({})
        best = found.best
    return Truth((best,) if math.isfinite(best) else None, size=_size(problem, objective))


def _size(problem: ProjectProblem, objective: str) -> float:
    """Return what counts as much: all run times, by the largest weight."""
    times = sum(mode.duration_s for a in problem.activities for mode in a.modes)
    return times * (1.0 if objective == "makespan" else max(job.weight for job in problem.jobs))


def solve(asked: Asked, way: str, seconds: float) -> Answer:
    """Solve it."""
    problem, objective = asked
    result = solve_problem(
        problem, backend=way, objective=objective, limits=Limits(seconds=seconds)
    )
    found = () if result.solution is None else verify_project(problem, result.solution)
    return of_result(result, found)


PROJECT = Family("project", make, ("auto", "cpsat", "pyomo"), truth, solve)
