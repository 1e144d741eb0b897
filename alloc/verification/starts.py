"""Warm starts: a solution to start from must be one of the instance that is solved."""

from __future__ import annotations

from alloc.certificate import Result
from alloc.errors import InstanceError
from alloc.instance import Instance
from alloc.solution import Solution
from alloc.verification import verify
from alloc.verification.claims import require_same_instance


def require_start(instance: Instance, start: Solution | Result) -> Solution:
    """Return the solution to start from.

    Parameters
    ----------
    instance
        The problem.
    start
        A solution, alone or in a result.

    Raises
    ------
    InstanceError
        If the result is for another instance or holds no solution, or the solution breaks a rule
        of this one: a search that begins there would begin nowhere, and nobody would be told.
    """
    if isinstance(start, Result):
        require_same_instance(instance, start.certificate)
        if start.solution is None:
            raise InstanceError(
                f"warm start: the result holds no solution, its status is "
                f"{start.certificate.status}; give one with a solution, or none."
            )
        start = start.solution
    violations = verify(instance, start)
    if violations:
        raise InstanceError(
            f'warm start: it is no solution of "{instance.name}": {violations[0]} Start from an '
            "answer to this instance, or without one."
        )
    return start
