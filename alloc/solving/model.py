"""`model`: the mathematics of a problem in Pyomo, to read, extend and solve with any solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np

from alloc.backends import SolverOptions
from alloc.certificate import Result
from alloc.errors import InstanceError, SolverError
from alloc.families import Family, family_of
from alloc.formulation import Drawing, ProvedInfeasible, PyomoModel
from alloc.solving.certify import certify
from alloc.solving.outcome import Outcome, Settings

_OWN = "the bound is that of the model as it was solved, with what its user added"


@dataclass(frozen=True)
class Model:
    """A problem's Pyomo model with the way back to a checked answer.

    Parameters
    ----------
    problem
        What is asked.
    family
        The family of the problem.
    objective
        What is optimised.
    drawing
        The model as it was built.
    """

    problem: Any
    family: Family
    objective: str
    drawing: Drawing

    @property
    def pyomo(self) -> Any:
        """The Pyomo ``ConcreteModel``; add constraints to it as to any other."""
        return self._drawn.model

    @property
    def _drawn(self) -> PyomoModel:
        assert isinstance(self.drawing.model, PyomoModel)
        return self.drawing.model

    def extract(self) -> Any:
        """Return the solution that the variables' present values state.

        Raises
        ------
        SolverError
            If a variable has no value yet, or the values state no solution.
        """
        values = [variable.value for variable in self._drawn.variables]
        if any(value is None for value in values):
            raise SolverError("the model has variables without values; solve it first.")
        found = self.drawing.extract(np.array(values, dtype=float))
        if found is None:
            raise SolverError("the values state no solution: tasks find no hosts.")
        return found

    def solve(
        self, solver: str = "appsi_highs", *, time_limit_s: float = 60.0, seed: int = 0
    ) -> Result[Any]:
        """Solve the model with any solver that Pyomo knows; the answer is checked.

        Parameters
        ----------
        solver
            ``gurobi``, ``scip``, ``cbc``, ``appsi_highs`` ...
        time_limit_s
            Wall time, seconds.
        seed
            For the certificate; solvers have options of their own.

        Returns
        -------
        Result
            Checked against the problem. The bound is the solver's claim about the model as it is,
            with whatever constraints were added to it.

        Raises
        ------
        BackendUnavailableError
            If the solver is not here.
        CertificateError
            If the answer breaks a rule of the problem, or beats the bound.
        """
        from alloc.backends.pyomo_solver import solve as solve_pyomo

        settings = Settings(time_limit_s, seed)
        raw = solve_pyomo(self._drawn, solver, SolverOptions(time_limit_s, seed))
        outcome: Outcome[Any] = Outcome(
            solution=None if raw.values is None else self.drawing.extract(raw.values),
            bound=raw.bound,
            bound_proof="claimed" if math.isfinite(raw.bound) else "none",
            backend=solver,
            backend_version=raw.native_status,
            limit=raw.limit,
            infeasible=raw.status == "infeasible",
            conflict=self.family.conflict if raw.status == "infeasible" else None,
            assumptions=(_OWN,),
        )
        return certify(self.family, self.problem, self.objective, outcome, settings)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the model in the format that the file's ending says: ``.mps``, ``.lp``, ``.nl``."""
        self.pyomo.write(fspath(path), io_options={"symbolic_solver_labels": True})


def model(problem: Any, family: str | None = None, objective: str | None = None) -> Model:
    """Return the mathematics of a problem in Pyomo.

    Parameters
    ----------
    problem
        The problem.
    family
        Name of the family, or None for the default of the problem's type.
    objective
        Name of the objective or one level of a goal, or None for the family's default.

    Raises
    ------
    InstanceError
        If a name is unknown, or the problem's data alone prove that it has no solution.
    UnsupportedFeatureError
        If the family has no Pyomo model, or does not model what the problem asks for.

    Examples
    --------
    >>> from alloc.instances import load
    >>> built = model(load("elastic-tiny/01"), "round")
    >>> built.solve().status
    'optimal'
    """
    chosen = family_of(problem, family)
    wanted = chosen.require_objective(problem, objective)
    try:
        return Model(problem, chosen, wanted, chosen.draw("pyomo", problem, wanted))
    except ProvedInfeasible as proof:
        raise InstanceError(f"there is nothing to model: {proof}.") from proof
