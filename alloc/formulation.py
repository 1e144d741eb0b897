"""The seam between drawings and backends: built models, raw results, and the registry.

A *formulation* is a problem family with its mathematics; a *drawing* is one way to write it down:
sparse arrays for HiGHS (the fast lane), a Pyomo model (the whiteboard), a CP-SAT model. Drawings
know nothing of solvers; backends know nothing of GPUs; they meet here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from alloc.certificate import BoundProof, Limit
from alloc.errors import InstanceError, UnsupportedFeatureError, nearest
from alloc.instance import Instance
from alloc.objectives import PLACEMENT_OBJECTIVES, Held, Sense, parse_goal
from alloc.solution import Solution

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[np.float64]
RawStatus = Literal["optimal", "feasible", "infeasible", "no_solution"]


class ProvedInfeasible(Exception):
    """A drawing's proof, while it gathers its data, that an instance has no solution.

    `alloc.solve` turns it into a result; its text names the requirements in conflict.
    """


@dataclass(frozen=True)
class ArrayModel:
    """A mixed-integer linear program as sparse arrays.

    ``sense  cost @ x + offset  subject to  row_lower <= matrix @ x <= row_upper,
    lower <= x <= upper, x integer where integer``.

    Parameters
    ----------
    sense
        ``min`` or ``max``.
    cost
        Objective coefficients, shape (columns,).
    matrix
        Constraint matrix, shape (rows, columns).
    row_lower, row_upper
        Row limits, shape (rows,); infinite where there is none.
    lower, upper
        Column limits, shape (columns,).
    integer
        Which columns are integer, shape (columns,).
    offset
        Constant of the objective.
    rows
        For each named constraint family (C1 ...), its slice of rows.
    """

    sense: Sense
    cost: Array
    matrix: csr_array
    row_lower: Array
    row_upper: Array
    lower: Array
    upper: Array
    integer: npt.NDArray[np.bool_]
    offset: float = 0.0
    rows: Mapping[str, slice] = field(default_factory=dict)


@dataclass(frozen=True)
class CpSatModel:
    """A CP-SAT model and how to read it.

    Parameters
    ----------
    model
        The ``cp_model.CpModel``.
    variables
        Its variables in the order of the values that `Drawing.extract` wants.
    scale
        Integer objective units per original unit: CP-SAT needs integers, this is the one place
        where they are made.
    offset
        Constant of the objective, original units.
    bound_slack
        By how much rounding may have raised (lowered, in maximisation) the optimum, original
        units; the backend takes it off the bound.
    trivial_bound
        A bound that the variables' own limits prove, original units, or None: what rounding takes
        off the solver's bound never falls below it. So 0 is proved where no value is negative.
    """

    model: Any
    variables: tuple[Any, ...]
    sense: Sense
    scale: float
    offset: float = 0.0
    bound_slack: float = 0.0
    trivial_bound: float | None = None


@dataclass(frozen=True)
class PyomoModel:
    """A Pyomo model and the variables whose values `Drawing.extract` wants, in order."""

    model: Any
    variables: tuple[Any, ...]
    sense: Sense


@dataclass(frozen=True)
class Drawing:
    """A built model with the way back to a solution.

    Parameters
    ----------
    model
        What the backend solves.
    extract
        Turns the values of the variables, shape (columns,), into a solution of the instance, or
        None when tasks could not be put on hosts.
    start
        Turns a solution into values for a warm start, NaN where unknown (None if it does not suit
        the drawing), or None if the drawing takes none.
    """

    model: ArrayModel | CpSatModel | PyomoModel
    extract: Callable[[Array], Solution | None]
    start: Callable[[Solution], Array | None] | None = None


@dataclass(frozen=True)
class RawResult:
    """What a backend says, normalised: no incumbent is None, no bound is infinite, never 0.

    Parameters
    ----------
    status
        As in `alloc.certificate.Certificate`.
    values
        Values of the variables, or None without an incumbent.
    objective
        The solver's value of the incumbent, or None.
    bound
        The solver's bound; -inf (minimisation) or inf when it has none.
    limit
        What stopped the search early, else None.
    native_status
        The solver's own word.
    bound_proof
        As in `alloc.certificate.Certificate`.
    """

    status: RawStatus
    values: Array | None
    objective: float | None
    bound: float
    limit: Limit | None
    native_status: str
    bound_proof: BoundProof = "claimed"


@dataclass(frozen=True)
class Formulation:
    """A registry line.

    Parameters
    ----------
    name
        Unique name, used by `alloc.solve`.
    family
        Its family, F1 to F12.
    title
        One line for people.
    module
        The module in `alloc.models` whose docstring is the page of mathematics and whose functions
        ``draw_<kind>(instance, objective)`` build the drawings.
    objective
        Name of the default objective.
    objectives
        Names of all objectives it can take.
    drawings
        The drawings there are: ``arrays``, ``pyomo``, ``cpsat``.
    method
        ``module:function`` of the specialised exact method behind ``backend="auto"``, or None if
        only general backends solve it.
    features
        Which of `alloc.instance.FEATURES` it models; an instance that asks for another is refused.
    goals
        Whether it takes goals: weighted sums of its objectives, one level after the other
        (`alloc.objectives.parse_goal`).
    conflict
        What is in conflict when an instance has no solution, in words.
    """

    name: str
    family: str
    title: str
    module: str
    objective: str
    objectives: tuple[str, ...]
    drawings: tuple[str, ...]
    method: str | None
    features: tuple[str, ...] = ()
    goals: bool = False
    conflict: str = "capacity, deadlines and horizon together leave no schedule; add hosts or time"

    @property
    def page(self) -> str:
        """The page of mathematics."""
        return import_module(self.module).__doc__ or ""

    def draw(
        self,
        kind: str,
        instance: Instance,
        objective: str | None = None,
        held: tuple[Held, ...] = (),
    ) -> Drawing:
        """Build a drawing.

        Parameters
        ----------
        kind
            One of `drawings`.
        instance
            The problem.
        objective
            Name of the objective, or one level of a goal; None: the default.
        held
            Earlier levels of the goal, with the values that they must keep.

        Raises
        ------
        UnsupportedFeatureError
            If there is no such drawing.
        """
        if kind not in self.drawings:
            raise UnsupportedFeatureError(
                f'formulation "{self.name}" has no {kind} drawing'
                f"{nearest(kind, self.drawings, '.')} It has: {', '.join(self.drawings)}."
            )
        self.require_features(instance)
        builder = getattr(import_module(self.module), f"draw_{kind}")
        wanted = self.require_objective(objective)
        drawing: Drawing = builder(instance, wanted, held) if held else builder(instance, wanted)
        return drawing

    def require_features(self, instance: Instance) -> None:
        """Refuse an instance that asks for what the formulation does not model.

        Raises
        ------
        UnsupportedFeatureError
            If it does; the message names the feature and who asks for it.
        """
        for feature, owner in instance.features.items():
            if feature not in self.features:
                able = [f.name for f in FORMULATIONS.values() if feature in f.features]
                raise UnsupportedFeatureError(
                    f'formulation "{self.name}" does not model {feature}, which {owner} '
                    f"asks for; {_able(able)}."
                )

    def require_objective(self, name: str | None) -> str:
        """Return the objective to use, the default when None.

        A goal is returned as `alloc.objectives.Goal.text` writes it.

        Raises
        ------
        InstanceError
            If the formulation cannot take it.
        """
        if name is None:
            return self.objective
        if self.goals:
            return parse_goal(name).text
        if name not in self.objectives:
            raise InstanceError(
                f'formulation "{self.name}" does not take objective "{name}"'
                f"{nearest(name, self.objectives, '.')} It takes: {', '.join(self.objectives)}."
            )
        return name


def _able(names: list[str]) -> str:
    return f"use one that does: {', '.join(names)}" if names else "leave it out of the instance"


FORMULATIONS: dict[str, Formulation] = {
    f.name: f
    for f in (
        Formulation(
            name="round",
            family="F1",
            title="Round allocation: which configuration does each job get for the coming slot?",
            module="alloc.models.round_allocation",
            objective="progress",
            objectives=("progress", "remaining_time", "goodput"),
            drawings=("arrays", "pyomo", "cpsat"),
            method="alloc.solving.rounds:solve_round",
        ),
        Formulation(
            name="malleable",
            family="F2",
            title="Malleable jobs over time: who runs in which configuration in every slot?",
            module="alloc.models.malleable",
            objective="weighted_jct",
            objectives=("weighted_jct",),
            drawings=("arrays", "pyomo", "cpsat"),
            method="alloc.solving.malleable:solve_malleable",
        ),
        Formulation(
            name="placement",
            family="F4",
            title="Gang placement: which jobs run, and on which hosts do their tasks stand?",
            module="alloc.models.placement",
            objective="gpus_placed",
            objectives=tuple(o.name for o in PLACEMENT_OBJECTIVES),
            drawings=("arrays", "pyomo", "cpsat"),
            method="alloc.solving.placement.placement:solve_placement",
            features=("placement rules", "GPU memory", "affinities", "moves", "borrowing"),
            goals=True,
            conflict="capacity, placement rules and the jobs that must keep running together leave "
            "no placement; allow moves or evictions, relax a rule or add hosts",
        ),
        Formulation(
            name="sharing",
            family="F5",
            title="GPU sharing: which shares, MIG slices and whole GPUs does every GPU hold?",
            module="alloc.models.gpu_sharing",
            objective="weight_placed",
            objectives=("weight_placed", "gpus_placed", "gpus_used", "reconfigurations"),
            drawings=("arrays", "pyomo"),
            method="alloc.solving.sharing:solve_sharing",
            features=("MIG slices", "GPU memory"),
            conflict="the GPUs, CPU, memory and quotas do not hold all jobs at once; take the "
            "objective weight_placed, which chooses, or add hosts",
        ),
    )
}


def require_formulation(name: str) -> Formulation:
    """Return the formulation of that name.

    Raises
    ------
    InstanceError
        If there is none.
    """
    if name not in FORMULATIONS:
        raise InstanceError(
            f'unknown formulation "{name}"{nearest(name, FORMULATIONS, ".")} '
            f"Known: {', '.join(FORMULATIONS)}."
        )
    return FORMULATIONS[name]


def build_model(
    instance: Instance, formulation: str = "malleable", objective: str | None = None
) -> Any:
    """Return the Pyomo ``ConcreteModel`` of a formulation, to read, extend and solve.

    Parameters
    ----------
    instance
        The problem.
    formulation
        Name of the formulation.
    objective
        Name of the objective, or None for the formulation's default.
    """
    drawing = require_formulation(formulation).draw("pyomo", instance, objective)
    assert isinstance(drawing.model, PyomoModel)
    return drawing.model.model
