"""What a problem family is: the registry's line, and what every door asks it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import Any

from alloc.errors import InstanceError, UnsupportedFeatureError, nearest
from alloc.formulation import BuiltModel
from alloc.objectives import Held, Measure, parse_goal
from alloc.verification.violation import Violation

AUTO = "auto"
"""The family's own exact method."""
CURRENCY = "the problem's currency"
"""Unit of money, which each problem names itself."""


@dataclass(frozen=True)
class Family:
    """A registry line. Names of code are ``module:name``, loaded when they are used.

    Parameters
    ----------
    name
        Unique name, used by `alloc.solve`.
    code
        Its number in the documentation, F1 to F12.
    title
        One line for people.
    problem, solution
        The types of what is asked and what answers it.
    kind, solution_kind
        What their documents are called; empty: as their classes are, ``quota_plan`` for
        ``QuotaPlan``. Two families may share a kind only with one type of problem.
    report
        The type of what planning adds to a result, with documents of its own; empty: nothing.
    page
        The module whose docstring is the page of mathematics and whose functions
        ``build_<kind>(problem, objective)`` build the models.
    objective
        Name of the default objective; empty where the problem itself names it (its attribute
        ``objective``).
    objectives
        Names of all objectives it can take.
    measure
        Returns the objective of a name: sense, recomputed value, rounding.
    checker
        ``checker(problem, solution)`` returns the rules that a solution breaks; imports no solver.
    models
        The models there are: ``arrays``, ``pyomo``, ``cpsat``.
    methods
        The methods of its own by name, ``auto`` first: ``method(problem, objective, settings,
        start, report)`` returns an `alloc.solving.outcome.Outcome`.
    approximate
        The names of those methods that end short of the optimum also with time enough; their bound
        says how far from it they may be.
    units
        Units of its objectives, where the objectives do not say them; `CURRENCY` for that of the
        problem.
    features
        Which of `alloc.problems.allocation.instance.FEATURES` it models; an instance that asks for
        another is refused.
    goals
        Whether it takes goals: weighted sums of its objectives, one level after the other
        (`alloc.objectives.parse_goal`).
    default
        Whether it is meant where a problem is one of several families and none is named.
    takes_hints
        Whether a start need not be a solution: what a plan of a similar problem decides is one.
    conflict
        What is in conflict when a problem has no solution, in words.
    """

    name: str
    code: str
    title: str
    problem: str
    solution: str
    page: str
    objective: str
    objectives: tuple[str, ...]
    measure: str
    checker: str
    kind: str = ""
    solution_kind: str = ""
    report: str = ""
    models: tuple[str, ...] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    approximate: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    goals: bool = False
    default: bool = False
    takes_hints: bool = False
    conflict: str = "capacity, deadlines and horizon together leave no schedule; add hosts or time"

    def __post_init__(self) -> None:
        for name, code in (("kind", self.problem), ("solution_kind", self.solution)):
            object.__setattr__(self, name, getattr(self, name) or kind_of_class(code))

    @property
    def documents(self) -> Mapping[str, str]:
        """The kinds of its documents, with the types that they hold."""
        found = {self.kind: self.problem, self.solution_kind: self.solution}
        return found | ({kind_of_class(self.report): self.report} if self.report else {})

    @property
    def exact_methods(self) -> tuple[str, ...]:
        """The names of the methods that go on to the optimum while there is time."""
        return tuple(name for name in self.methods if name not in self.approximate)

    @property
    def page_text(self) -> str:
        """The page of mathematics."""
        return import_module(self.page).__doc__ or ""

    def takes(self, problem: object) -> bool:
        """Return whether a problem is one of this family, without loading the family's types."""
        return self.problem in map(path_of, type(problem).__mro__)

    def build(
        self, kind: str, problem: Any, objective: str | None = None, held: tuple[Held, ...] = ()
    ) -> BuiltModel:
        """Build a model.

        Parameters
        ----------
        kind
            One of `models`.
        problem
            The problem.
        objective
            Name of the objective, or one level of a goal; None: the default.
        held
            Earlier levels of the goal, with the values that they must keep.

        Raises
        ------
        UnsupportedFeatureError
            If there is no such model.
        """
        if kind not in self.models:
            raise UnsupportedFeatureError(
                f'family "{self.name}" has no {kind} model'
                f"{nearest(kind, self.models, '.')} It has: {', '.join(self.models) or 'none'}."
            )
        self.require_features(problem)
        builder = getattr(import_module(self.page), f"build_{kind}")
        wanted = self.require_objective(problem, objective)
        built: BuiltModel = builder(problem, wanted, held) if held else builder(problem, wanted)
        return built

    def measure_of(self, objective: str) -> Measure:
        """Return an objective by name: its sense, and what recomputes its value."""
        measure: Measure = load(self.measure)(objective)
        return measure

    def unit(self, problem: Any, objective: str) -> str:
        """Return the unit of an objective of a problem, or of a level of one; empty: none.

        Parameters
        ----------
        problem
            The problem; its currency is the unit of costs.
        objective
            Name of the objective or of the level.
        """
        known = self.units.get(objective)
        if known == CURRENCY:
            return str(problem.currency)
        return str(getattr(self.measure_of(objective), "unit", "")) if known is None else known

    def check(self, problem: Any, solution: Any) -> list[Violation]:
        """Return the rules that a solution breaks, recomputed without a solver.

        Parameters
        ----------
        problem
            A problem of the family.
        solution
            An answer to it, whoever made it.

        Raises
        ------
        InstanceError
            If it is not an answer to such a problem at all.
        """
        kinds = {load(f.solution) for f in FAMILIES.values() if f.problem == self.problem}
        if not isinstance(solution, tuple(kinds)):
            wanted = " or ".join(sorted(kind.__name__ for kind in kinds))
            raise InstanceError(
                f"{type(solution).__name__} is not an answer to a problem of {self.name}; give "
                f"{wanted}."
            )
        found: list[Violation] = load(self.checker)(problem, solution)
        return found

    def require_features(self, problem: Any) -> None:
        """Refuse a problem that asks for what the family does not model.

        Raises
        ------
        UnsupportedFeatureError
            If it does; the message names the feature and who asks for it.
        """
        for feature, owner in getattr(problem, "features", {}).items():
            if feature not in self.features:
                able = [f.name for f in FAMILIES.values() if feature in f.features]
                raise UnsupportedFeatureError(
                    f'family "{self.name}" does not model {feature}, which {owner} '
                    f"asks for; {_able(able)}."
                )

    def require_objective(self, problem: Any, name: str | None) -> str:
        """Return the objective to use, the default when None.

        A goal is returned as `alloc.objectives.Goal.text` writes it.

        Parameters
        ----------
        problem
            The problem, which may name its own objective.
        name
            Name of an objective, or the text of a goal where the family takes goals; None: the
            default.

        Raises
        ------
        InstanceError
            If the family cannot take it.
        """
        if name is None:
            return self.objective or str(problem.objective)
        if self.goals:
            return parse_goal(name, self.objectives).text
        if name not in self.objectives:
            raise InstanceError(
                f'family "{self.name}" does not take objective "{name}"'
                f"{nearest(name, self.objectives, '.')} It takes: {', '.join(self.objectives)}."
            )
        return name


def kind_of_class(path: str) -> str:
    """Return what the documents of a class are called: ``quota_plan`` for ``QuotaPlan``."""
    name = path.rpartition(":")[2].rpartition(".")[2]
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def load(path: str) -> Any:
    """Return what ``module:name`` names."""
    module, name = path.split(":")
    return attrgetter(name)(import_module(module))


def path_of(code: Any) -> str:
    """Return ``module:name`` of a class or function, which `load` takes."""
    return f"{code.__module__}:{code.__qualname__}"


def _able(names: list[str]) -> str:
    return f"use one that does: {', '.join(names)}" if names else "leave it out of the instance"


FAMILIES: dict[str, Family] = {}
"""Every family by name; `alloc.families` has the lines."""
