"""What the program says with its exit code."""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from alloc.errors import (
    AllocError,
    BackendUnavailableError,
    InstanceError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from alloc.certificate import Certificate
    from alloc.problems.allocation.solution import Solution
    from alloc.result import Result


class ExitCode(IntEnum):
    """Exit codes of ``alloc``."""

    SOLVED = 0
    """Done: an answer was found, or the answer handed in is feasible."""
    UNEXPECTED = 1
    """Something broke that should not: a bug, a full disk, a solver that crashed."""
    BAD_INPUT = 2
    """The command line, a file or a name is wrong, or the method cannot do what is asked."""
    INFEASIBLE = 3
    """Proved to have no solution, or the answer handed in breaks a rule."""
    NO_SOLUTION = 4
    """A limit was reached before any solution was found; nothing is proved."""
    MISSED = 5
    """There is a plan, but the simulator, or demand held out, shows that it misses its goals."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C or SIGTERM; what had been found is saved."""
    BROKEN_PIPE = 141
    """The reader of standard output went away."""


_CALLER_CAN_CURE = (InstanceError, UnsupportedFeatureError, BackendUnavailableError)


def code_of_error(error: AllocError) -> ExitCode:
    """Return the exit code for an error of alloc."""
    return ExitCode.BAD_INPUT if isinstance(error, _CALLER_CAN_CURE) else ExitCode.UNEXPECTED


def code_of_result(result: "Result[Solution]") -> ExitCode:
    """Return the exit code for a result; limits and infeasibility are results, not errors."""
    return code_of_certificate(result.certificate)


def code_of_certificate(certificate: "Certificate") -> ExitCode:
    """Return the exit code for what is claimed about an answer, or that there is none."""
    if certificate.limit == "interrupt":
        return ExitCode.INTERRUPTED
    if certificate.status == "infeasible":
        return ExitCode.INFEASIBLE
    return ExitCode.NO_SOLUTION if certificate.objective is None else ExitCode.SOLVED


def worst_code(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the exit code for several answers; a plan that misses goals is better than none."""
    order = (ExitCode.MISSED, ExitCode.INFEASIBLE, ExitCode.NO_SOLUTION, ExitCode.INTERRUPTED)
    found = set(codes)
    return next((code for code in reversed(order) if code in found), ExitCode.SOLVED)
