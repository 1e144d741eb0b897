"""Certificates: what is claimed about an answer, and on whose word."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

Sense = Literal["min", "max"]
Status = Literal["optimal", "feasible", "infeasible", "no_solution"]
Limit = Literal["time", "memory", "interrupt", "nodes"]
BoundProof = Literal["recomputed", "confirmed", "claimed", "none"]
"""The strongest first."""

CONTRADICTION = 1e-6
"""By how much, relatively, a value must beat a bound to prove it false: less is rounding."""
OPTIMALITY_GAP = 1e-6
"""Relative gap up to which an answer is called optimal; solvers work in floating point."""


def relative_gap(objective: float | None, bound: float) -> float | None:
    """Return ``|objective - bound| / |objective|``, or None without an incumbent.

    It has no unit: an objective of 1e-12 is measured like one of 1e12. An objective of 0 has a gap
    of 0 if the bound is 0, and else an infinite one. The formula is alloc's own for every backend
    (HiGHS and CP-SAT each use another).

    Parameters
    ----------
    objective
        Value of the incumbent, or None.
    bound
        Value that no solution can be better than; infinite if nothing is proved.
    """
    if objective is None:
        return None
    if objective == bound:
        return 0.0
    if math.isinf(bound) or objective == 0.0:
        return math.inf
    return abs(objective - bound) / abs(objective)


def is_within(objective: float, bound: float, gap: float) -> bool:
    """Return whether an objective is within a relative gap of its bound.

    Parameters
    ----------
    objective
        Value of the incumbent.
    bound
        Value that no solution can be better than.
    gap
        The relative gap, 0 or more.
    """
    found = relative_gap(objective, bound)
    return found is not None and found <= gap


def beats(
    value: float,
    bound: float,
    sense: Sense,
    rounding: float = 0.0,
    tolerance: float = CONTRADICTION,
) -> bool:
    """Return whether a value is better than a bound, by more than rounding explains.

    Parameters
    ----------
    value
        Value of a solution.
    bound
        What is claimed to bound every solution's value.
    sense
        Whether less or more is better.
    rounding
        Absolute difference that counts as none, in the objective's unit: for sums whose terms
        cancel, a share of the terms' size (`alloc.objectives.Objective.rounding`).
    tolerance
        Difference relative to the larger of the two that counts as none.
    """
    better = value - bound if sense == "max" else bound - value
    if math.isinf(better):
        # A bound of infinity on the wrong side says that there is no solution; here is one.
        return better > 0
    return better > max(tolerance * max(abs(value), abs(bound)), rounding)


def weakest(proofs: Iterable[BoundProof]) -> BoundProof:
    """Return the proof of a sum of bounds: it is as good as the weakest of them."""
    return max(proofs, key=get_args(BoundProof).index, default="recomputed")


class Identified(Protocol):
    """What a certificate is about: a problem, told by its fingerprint."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the problem, hexadecimal."""
        ...

    @property
    def is_immutable(self) -> bool:
        """Whether nothing in it can change, arrays and mappings included."""
        ...


@dataclass(frozen=True)
class Certificate:
    """What is claimed about an answer, and on whose word.

    Parameters
    ----------
    status
        ``optimal``: the gap is at most `OPTIMALITY_GAP`; ``feasible``: an answer with a larger gap;
        ``infeasible``: proved that there is none; ``no_solution``: none found, nothing proved.
    limit
        Why the search stopped early; ``None`` if it did not.
    objective
        Value of the answer, recomputed by the checker, or None without one.
    bound
        Proved bound on every solution's value; -inf (minimisation) or inf when nothing is proved.
    sense
        Whether less or more is better.
    objective_name
        Name of the objective.
    formulation
        What was solved.
    backend
        By what.
    backend_version
        Version of the backend.
    seed
        Random seed of the solver.
    workers
        Threads of the solver.
    seconds
        Wall time from the call to the answer, seconds.
    fingerprint
        Fingerprint of the instance, SHA-256 in hexadecimal.
    verified
        Whether the checker recomputed every constraint and the objective.
    bound_proof
        ``recomputed``: the bound was evaluated again in plain numpy from multipliers (weak
        duality), at every leaf where the search had to branch; ``confirmed``: a second run of the
        solver, without its presolve and from another seed, or another solver on another model
        proves it too; ``claimed``: it is the solver's word; ``none``: there is no bound.
    """

    status: Status
    objective: float | None
    bound: float
    sense: Sense
    objective_name: str
    formulation: str
    backend: str
    backend_version: str
    seed: int
    workers: int
    seconds: float
    fingerprint: str
    limit: Limit | None = None
    verified: bool = False
    bound_proof: BoundProof = "claimed"

    @property
    def gap(self) -> float | None:
        """Relative gap between objective and bound, 0 or more; None without an incumbent."""
        return relative_gap(self.objective, self.bound)

    def about(self, problem: Identified) -> Certificate:
        """Return the same claims, about a problem.

        Of a large instance the fingerprint takes longer than the solve. Where nothing in a problem
        can change, it is worked out when somebody first looks at it; until then the certificate
        holds the problem. A copy for another process has the fingerprint.

        Parameters
        ----------
        problem
            What the claims are about.
        """
        if not problem.is_immutable:
            return self.replace(fingerprint=problem.fingerprint)
        made = self.replace(fingerprint="")
        fields = vars(made)
        del fields["fingerprint"]
        fields["_problem"] = problem
        return made

    def replace(self, **changes: Any) -> Certificate:
        """Return a copy with some fields changed."""
        fields = {**vars(self), **changes}
        problem = fields.pop("_problem", None)
        if problem is None or "fingerprint" in fields:
            return type(self)(**fields)
        return type(self)(**fields, fingerprint="").about(problem)

    if not TYPE_CHECKING:  # to a type checker, every name would be one of its attributes

        def __getattr__(self, name: str) -> str:
            """Return the fingerprint, asked for the first time."""
            fields = vars(self)
            if name != "fingerprint":
                raise AttributeError(f'a certificate has no "{name}".')
            problem = fields.get("_problem")
            if problem is not None:  # else another thread was quicker
                fields["fingerprint"] = problem.fingerprint
                fields.pop("_problem", None)
            return fields["fingerprint"]

    def __getstate__(self) -> dict[str, Any]:
        # What is sent, or kept, is the fingerprint and not the problem.
        fields = {**vars(self), "fingerprint": self.fingerprint}
        fields.pop("_problem", None)
        return fields
