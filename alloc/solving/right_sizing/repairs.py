"""Repairs: what to give way when there is no plan, and by how much.

One kind of limit at a time gives way, and the least amount is found by which it must when all
others stay: less demand served, goals given up, more budget, space, ports, power or carbon. Every
option is applied to the problem and solved again before it is named; where it is not enough yet
(another pool is too full, a future was not looked at), what is still missing is added. Amounts are
rounded up first, so that what is tried is what is said.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.errors import SolverError
from alloc.models.right_sizing.data import SizingData
from alloc.problems.right_sizing.bands import expected_load
from alloc.problems.right_sizing.demand import JobClass
from alloc.problems.right_sizing.headroom import headroom, reference_gpus
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.problems.right_sizing.repairs import apply_repairs
from alloc.result import Repair
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.elastic import LIMITS, Elastic, What
from alloc.units import format_number

HasPlan = Callable[[PlanningProblem, Settings], bool | None]
"""Whether a problem has a plan; None if that was not found out in time."""

_MAX_COLUMNS = 60_000
"""Columns of an elastic program; with more scenarios only those with the most work are in it."""
_ATTEMPTS = 6
"""Times that an option is tried, each time with more; most are enough the first or second time."""
_RAISE_FACTOR = 1.001
"""By what amounts are raised that miss by no more than the solver's tolerance: nobody sees a
thousandth, and it is far above any tolerance."""
_LEAST_SECONDS = 2.0
"""Looked for repairs for so long even where the proof that there is no plan took all the time."""
_DIGITS = 4
"""Digits of an amount, rounded up: a thousandth too much at most, and easy to read."""
_TOGETHER = ("demand", *LIMITS)


@dataclass(frozen=True)
class _Option:
    """An option that was tried: its repairs, and all of them in hosts."""

    repairs: tuple[Repair, ...]
    hosts: float


def find_repairs(
    problem: PlanningProblem, settings: Settings, has_plan: HasPlan
) -> tuple[str, tuple[Repair, ...]]:
    """Return what is missing, in a sentence, and the repairs, the smallest option first.

    Parameters
    ----------
    problem
        A problem without a plan.
    settings
        Limits of the solve; the time that is left is used.
    has_plan
        Tells whether a problem has a plan.
    """
    search = _Search(problem, settings, has_plan)
    options: dict[str, _Option] = {}
    demand = search.raised(("demand",))
    for kind in LIMITS:
        found = search.raised((kind,))
        if found is not None:
            options[kind] = found
    goal = search.without_goals()
    if goal is not None:
        options["goal"] = goal
    if not set(options) & set(LIMITS):
        found = search.raised(LIMITS)
        if found is not None:
            options["limits"] = found
    if demand is not None:
        options["demand"] = demand
    if not options:
        found = search.raised(_TOGETHER)
        if found is not None:
            options["together"] = found
    kinds = sorted(options, key=lambda kind: options[kind].hosts)
    repairs = tuple(
        replace(repair, option=number)
        for number, kind in enumerate(kinds)
        for repair in options[kind].repairs
    )
    return _conflict(problem, options, kinds, search), repairs


class _Search:
    """Looks for repairs of one problem."""

    def __init__(self, problem: PlanningProblem, settings: Settings, has_plan: HasPlan) -> None:
        self.problem, self.settings, self._has_plan = problem, settings, has_plan
        self._until = time.perf_counter() + max(settings.seconds_left(), _LEAST_SECONDS)
        self.scenarios = _most_work(problem)
        self.out_of_time = False
        """Whether there was no time to try an option."""
        self.has_failed = False
        """Whether the solver failed at an option."""

    def seconds(self) -> float:
        """Return the time that the next solve may take: a third of what is left."""
        return max((self._until - time.perf_counter()) / 3, 0.05)

    def has_plan(self, problem: PlanningProblem) -> bool | None:
        """Return whether a problem has a plan, as far as there is time to find out."""
        if time.perf_counter() > self._until:
            self.out_of_time = True
            return None
        limits = Settings(self.seconds(), self.settings.seed, self.settings.workers)
        found = self._has_plan(problem, limits)
        self.out_of_time |= found is None
        return found

    def raised(self, kinds: Sequence[str]) -> _Option | None:
        """Return how some kinds of limits give way together; None if they are no cure in time."""
        amounts: dict[What, float] = {}
        hosts, least = 0.0, self._is_exact(kinds)
        eased = self.problem
        for attempt in range(_ATTEMPTS):
            if time.perf_counter() > self._until:
                self.out_of_time = True
                return None
            try:
                missing = Elastic(_only(eased, self.scenarios)).least(kinds, self.seconds)
            except SolverError:  # of numbers far apart; the proof that there is no plan is kept
                self.has_failed = True
                return None
            if missing is None or not (missing.amounts or amounts):
                return None
            least = least and missing.proved and attempt == 0
            hosts += missing.hosts
            if missing.amounts:
                for what, amount in missing.amounts.items():
                    amounts[what] = amounts.get(what, 0.0) + amount
            else:
                amounts = {what: _RAISE_FACTOR * amount for what, amount in amounts.items()}
            repairs = self._repairs(amounts, least)
            eased = apply_repairs(self.problem, repairs)
            enough = self.has_plan(eased)
            if enough is None:
                return None
            if enough:
                return _Option(repairs, hosts)
        return None

    def without_goals(self) -> _Option | None:
        """Return goals to give up, of which none can be kept; None if none is found in time."""
        wanted = [c for c in self.problem.classes if c.goal is not None]
        if not wanted or not self.has_plan(apply_repairs(self.problem, self._given_up(wanted))):
            return None
        # The goals that take most room are the last that are tried to be kept.
        wanted.sort(key=lambda job_class: self._hosts_for_goal(job_class.name))
        kept: list[str] = []
        needed: list[JobClass] = []
        proved, half = True, len(wanted) // 2
        groups = [wanted[:half], wanted[half:]] if half else [wanted]
        while groups:
            group = groups.pop(0)
            names = {c.name for c in group} | set(kept)
            rest = [c for c in wanted if c.name not in names]
            answer = self.has_plan(apply_repairs(self.problem, self._given_up(rest)))
            if answer:
                kept += [c.name for c in group]
            elif len(group) == 1:
                needed += group
                proved &= answer is False
            else:
                middle = len(group) // 2
                groups[:0] = [group[:middle], group[middle:]]
        hosts = math.fsum(self._hosts_for_goal(c.name) for c in needed)
        return _Option(self._given_up(needed, proved), hosts)

    def _given_up(self, classes: Sequence[JobClass], least: bool = True) -> tuple[Repair, ...]:
        found = []
        for job_class in self.problem.classes:
            if job_class in classes and job_class.goal is not None:
                sentence = (
                    f'the goal of job class "{job_class.name}" is given up '
                    f"({job_class.goal.sentence})"
                )
                found.append(Repair("goal", job_class.name, 1.0, "goal", sentence, least=least))
        return tuple(found)

    def _hosts_for_goal(self, name: str) -> float:
        """Return about how many hosts a goal takes, for the order of the options."""
        problem = self.problem
        at = problem.class_index[name]
        pool_gpus = reference_gpus(problem)
        rooms = [
            room
            for k in range(len(problem.classes[at].options))
            if (room := headroom(problem, problem.classes[at], k, pool_gpus)) is not None
        ]
        more = min(rooms, default=1 / problem.utilisation) - 1 / problem.utilisation
        gpus = float(np.mean([offer.gpus for offer in problem.offers]))
        return float(expected_load(problem)[at]) * more / gpus

    def _is_exact(self, kinds: Sequence[str]) -> bool:
        """Return whether the elastic program's optimum is a lower bound on what must give way.

        It is not with some of the scenarios only, for these count as more probable; nor with less
        demand, where the hours of the week may then fall into other bands.
        """
        if len(self.scenarios) < len(self.problem.scenarios):
            return False
        return "demand" not in kinds or not SizingData(self.problem).bands.merged

    def _repairs(self, amounts: dict[What, float], least: bool) -> tuple[Repair, ...]:
        found = [
            self._repair(what, amount, least)
            for what, amount in sorted(amounts.items(), key=lambda item: self._order(*item))
        ]
        return tuple(found)

    def _order(self, what: What, amount: float) -> tuple[object, ...]:
        """Classes by how much is missing of them, each with its cases from the worst."""
        if what.kind != "demand":
            return (what.kind, what.name, -1 if what.quarter is None else what.quarter, "")
        hours = min(o.gpu_hours for o in self._class(what.name).options)
        return (what.kind, -round(amount * hours, 9), what.quarter, what.scenario)

    def _class(self, name: str) -> JobClass:
        return self.problem.classes[self.problem.class_index[name]]

    def _repair(self, what: What, amount: float, least: bool) -> Repair:
        kind, name, scenario, quarter = what
        rounded = float(format_number(amount, _DIGITS, up=True).replace(",", ""))
        said = format_number(rounded, _DIGITS, up=True)
        when = "" if quarter is None else f" in quarter {quarter}"
        if kind == "demand":
            known = self.problem.scenarios[self.problem.scenario_index[str(scenario)]]
            rate = known.arrivals[name][quarter or 0]
            part = f"{said} of {format_number(rate, _DIGITS)}"
            if rounded >= rate:
                rounded, part = rate, f"all of {format_number(rate, _DIGITS)}"
            sentence = (
                f'job class "{name}" has {part} jobs per hour fewer in scenario "{scenario}", '
                f"quarter {quarter}"
            )
            return Repair(
                kind,
                name,
                rounded,
                "jobs/h",
                sentence,
                scenario,
                quarter,
                before=rate,
                after=max(rate - rounded, 0.0),
                least=least,
            )
        unit, more = {
            "budget": (self.problem.currency, f"{self.problem.currency} of budget"),
            "carbon": ("kg", "kg under the carbon cap"),
            "rack_units": ("rack units", "rack units"),
            "ports": ("ports", "ports"),
            "power_kw": ("kW", "kW"),
        }[kind]
        who = f'site "{name}"' if name else "the plan"
        sentence = f"{who} needs {said} more {more}{when}"
        return Repair(kind, name, rounded, unit, sentence, quarter=quarter, least=least)


def _conflict(
    problem: PlanningProblem, options: dict[str, _Option], kinds: list[str], search: _Search
) -> str:
    """Return what is missing and the cheapest option, with all its parts."""
    sentence = "no plan serves the forecast"
    if not options:
        if search.has_failed:
            return (
                f"{sentence}; the solver failed to find what would be enough: amounts or prices "
                "are too far apart for it."
            )
        if search.out_of_time:
            return f"{sentence}; there was no time to find what would be enough: give more time."
        return (
            f"{sentence}, and neither less demand nor higher limits are enough to change that; "
            "take away hosts that are owned, or wait for those with long lead times."
        )
    if "demand" in options:
        worst = options["demand"].repairs[0]
        job_class = problem.classes[problem.class_index[worst.name]]
        goal = "" if job_class.goal is None else f" ({job_class.goal.sentence})"
        others = len(options["demand"].repairs) - 1
        sentence += (
            f': job class "{worst.name}"{goal} cannot be served in full: '
            f"{format_number(worst.amount, _DIGITS, up=True)} jobs per hour are left over in "
            f'scenario "{worst.scenario}", quarter {worst.quarter}'
            f"{f', the worst of {others + 1} cases' if others else ''}"
        )
    cheapest = next((kind for kind in kinds if kind != "demand"), None)
    if cheapest is not None:
        parts = "; and ".join(repair.sentence for repair in options[cheapest].repairs)
        sentence += f"; the cheapest repair: {parts}"
    return f"{sentence}."


def _most_work(problem: PlanningProblem) -> tuple[str, ...]:
    """Return the scenarios that an elastic program has room for: those with the most work."""
    data = SizingData(problem)
    size = len(data.modes) * data.bands.count * data.num_quarters
    most = max(_MAX_COLUMNS // max(size, 1), 1)
    load = data.demand.sum(axis=(1, 2))
    chosen = sorted(np.argsort(-load, kind="stable")[:most].tolist())
    return tuple(problem.scenarios[w].name for w in chosen)


def _only(problem: PlanningProblem, names: Sequence[str]) -> PlanningProblem:
    """Return the problem with some of its scenarios, in relation as probable as they were."""
    if len(names) == len(problem.scenarios):
        return problem
    kept = [scenario for scenario in problem.scenarios if scenario.name in names]
    total = math.fsum(scenario.probability for scenario in kept)
    return problem.replace(
        scenarios=tuple(replace(s, probability=s.probability / total) for s in kept),
        # Goals are kept in pools as large as all scenarios make them.
        pool_gpus=reference_gpus(problem) or None,
    )
