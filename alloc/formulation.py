"""The seam between models and backends: what is built, and what a solver says of it.

A *formulation* is a problem family with its mathematics; a *model* is one way to write it down:
sparse arrays for HiGHS, a Pyomo model, a CP-SAT model. Models
know nothing of solvers; backends know nothing of GPUs; they meet here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from alloc.certificate import BoundProof, Limit
from alloc.objectives import Sense

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[np.float64]
RawStatus = Literal["optimal", "feasible", "infeasible", "no_solution"]


class ProvedInfeasible(Exception):
    """A model's proof, while it gathers its data, that an instance has no solution.

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
        Its variables in the order of the values that `BuiltModel.extract` wants.
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
    """A Pyomo model and the variables whose values `BuiltModel.extract` wants, in order."""

    model: Any
    variables: tuple[Any, ...]
    sense: Sense


@dataclass(frozen=True)
class BuiltModel:
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
        the model), or None if the model takes none.
    refine
        Of a relaxation whose answers may not be carried out: takes values that the model allows and
        returns the problem built again, so that it no longer allows them; None where they can be
        carried out, or where that is not known. Every solution of the problem stays one. None if
        the model is no such relaxation.
    """

    model: ArrayModel | CpSatModel | PyomoModel
    extract: Callable[[Array], Any]
    start: Callable[[Any], Array | None] | None = None
    refine: Callable[[Array], BuiltModel | None] | None = None


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
