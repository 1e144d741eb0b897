"""Warm starts: a solution to start from must be one of the instance that is solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alloc.errors import InstanceError
from alloc.result import Result
from alloc.verification import verify
from alloc.verification.claims import require_same_instance
from alloc.verification.violation import Violation


def require_start(
    problem: Any, start: Any, check: Callable[[Any, Any], list[Violation]] = verify
) -> Any:
    """Return the solution to start from.

    Parameters
    ----------
    problem
        The problem.
    start
        A solution, alone or in a result.
    check
        Returns the rules that a solution of such a problem breaks.

    Raises
    ------
    InstanceError
        If the result is for another problem or holds no solution, or the solution breaks a rule
        of this one: a search that begins there would begin nowhere, and nobody would be told.
    """
    if isinstance(start, Result):
        require_same_instance(problem, start.certificate)
        if start.solution is None:
            raise InstanceError(
                f"warm start: the result holds no solution, its status is "
                f"{start.certificate.status}; give one with a solution, or none."
            )
        start = start.solution
    violations = check(problem, start)
    if violations:
        raise InstanceError(
            f'warm start: it is not a solution of "{problem.name}": {violations[0]} Start from an '
            "answer to this instance, or without one."
        )
    return start
