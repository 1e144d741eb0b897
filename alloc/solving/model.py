"""`model`: the mathematics of a problem in Pyomo, to read, extend and solve with any solver."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike, fspath
from typing import Any

import numpy as np

from alloc.backends import SolverOptions
from alloc.errors import InstanceError, SolverError
from alloc.families import Family, family_of
from alloc.fingerprint import digest
from alloc.formulation import BuiltModel, ProvedInfeasible, PyomoModel
from alloc.result import Limits, Result
from alloc.solving.certify import certify
from alloc.solving.outcome import Outcome, Settings

_OWN = "the bound is that of the model as it was solved, with what its user added"
_NO_SOLUTION = "the model, with what was added to it, has no solution; take some of that out"


@dataclass(frozen=True)
class _Parts:
    """What a Pyomo model consists of, by the identity of its expressions."""

    objective: tuple[Any, ...]
    constraints: tuple[Any, ...]
    variables: tuple[Any, ...]

    @classmethod
    def of(cls, model: Any) -> _Parts:
        """Look at a model."""
        import pyomo.environ as pyo

        def parts(kind: Any) -> Iterator[Any]:
            yield from model.component_data_objects(kind, active=True)

        return cls(
            tuple((id(o), id(o.expr), o.sense) for o in parts(pyo.Objective)),
            tuple((id(c), id(c.expr)) for c in parts(pyo.Constraint)),
            tuple(
                (v.lb, v.ub, v.fixed, v.domain)
                for v in model.component_data_objects(pyo.Var, active=True)
            ),
        )

    @staticmethod
    def text(model: Any) -> str:
        """Return the constraints of a model as text, for a fingerprint."""
        import pyomo.environ as pyo

        return "\n".join(
            f"{c.name}: {c.expr}" for c in model.component_data_objects(pyo.Constraint, active=True)
        )


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
    built
        The model as it was built.
    parts
        What it consisted of then: a user's own constraints are told from those of the family.
    """

    problem: Any
    family: Family
    objective: str
    built: BuiltModel
    parts: _Parts

    @property
    def pyomo(self) -> Any:
        """The Pyomo ``ConcreteModel``; add constraints to it as to any other."""
        return self._pyomo.model

    @property
    def _pyomo(self) -> PyomoModel:
        assert isinstance(self.built.model, PyomoModel)
        return self.built.model

    def extract(self) -> Any:
        """Return the solution that the variables' present values state.

        Raises
        ------
        SolverError
            If a variable has no value yet, or the values state no solution.
        """
        values = [variable.value for variable in self._pyomo.variables]
        if any(value is None for value in values):
            raise SolverError("the model has variables without values; solve it first.")
        found = self.built.extract(np.array(values, dtype=float))
        if found is None:
            raise SolverError("the values state no solution: tasks find no hosts.")
        return found

    def solve(self, solver: str = "appsi_highs", *, limits: Limits = Limits()) -> Result[Any]:
        """Solve the model with any solver that Pyomo knows; the answer is checked.

        Parameters
        ----------
        solver
            ``gurobi``, ``scip``, ``cbc``, ``appsi_highs`` ...
        limits
            Time, seconds. Gap, seed and threads are left to the solver, which has options of its
            own for them; to ask for others than the defaults is refused.

        Returns
        -------
        Result
            Checked against the problem. The bound is the solver's claim about the model as it is,
            with whatever constraints were added to it.

        Raises
        ------
        BackendUnavailableError
            If the solver is not here.
        InstanceError
            If the objective was changed, or more than the time is limited.
        CertificateError
            If the answer breaks a rule of the problem, or beats the bound.
        """
        from alloc.backends.pyomo_solver import solve as solve_pyomo

        now = _Parts.of(self.pyomo)
        if now.objective != self.parts.objective:
            raise InstanceError(
                "the objective was changed, and the certificate would be about another; add "
                "constraints only, or solve model.pyomo yourself."
            )
        if limits != Limits(seconds=limits.seconds):
            raise InstanceError(
                "gap, seed and workers of a model that Pyomo solves are options of the solver; "
                "give limits=Limits(seconds=...) alone, or set them there and solve model.pyomo."
            )
        settings = Settings.of(limits)
        raw = solve_pyomo(self._pyomo, solver, SolverOptions(limits.seconds))
        own = now != self.parts
        outcome: Outcome[Any] = Outcome(
            solution=None if raw.values is None else self.built.extract(raw.values),
            bound=raw.bound,
            bound_proof="claimed" if math.isfinite(raw.bound) else "none",
            backend=solver,
            backend_version=f"Pyomo {version('pyomo')}",
            limit=raw.limit,
            infeasible=raw.status == "infeasible",
            conflict=(_NO_SOLUTION if own else self.family.conflict)
            if raw.status == "infeasible"
            else None,
            assumptions=(_OWN,) if own else (),
        )
        result = certify(self.family, self.problem, self.objective, outcome, settings)
        if not own:
            return result
        # What is proved is proved of another problem, whose name and fingerprint say so.
        certificate = result.certificate.replace(
            formulation=f"{self.family.name} with own constraints",
            fingerprint=digest(self.problem.fingerprint, now.text(self.pyomo)),
        )
        return result.replace(certificate=certificate)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the model in the format that the file's ending says: ``.mps``, ``.lp``, ``.nl``."""
        try:
            self.pyomo.write(fspath(path), io_options={"symbolic_solver_labels": True})
        except FileNotFoundError as error:
            raise InstanceError(
                f"{fspath(path)}: there is no such folder; make it first."
            ) from error
        except ValueError as error:
            raise InstanceError(
                f"{fspath(path)}: Pyomo writes no such format; end the name in .mps, .lp or .nl."
            ) from error


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
        built = chosen.build("pyomo", problem, wanted)
    except ProvedInfeasible as proof:
        raise InstanceError(f"there is nothing to model: {proof}.") from proof
    assert isinstance(built.model, PyomoModel)
    return Model(problem, chosen, wanted, built, _Parts.of(built.model.model))
