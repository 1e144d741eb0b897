"""What a little more of each thing would change, by solving again; interrupts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from alloc.certificate import Certificate
from alloc.errors import InstanceError
from alloc.result import Result, Sensitivity
from alloc.solving.outcome import Progress, Settings

P = TypeVar("P")
S = TypeVar("S")


class Changed(NamedTuple, Generic[P]):
    """What makes a problem with a little more of something; the rest as in `Sensitivity`."""

    kind: str
    name: str
    amount: float
    unit: str
    make: Callable[[], P]


def solve_again(
    changes: Sequence[Changed[P]],
    before: Certificate,
    solve: Callable[[P, Settings], Certificate],
    settings: Settings,
    report: Progress,
) -> tuple[tuple[Sensitivity, ...], bool]:
    """Solve every changed problem, each with its share of the time that is left.

    Parameters
    ----------
    changes
        What makes the changed problems.
    before
        What is proved without any change.
    solve
        Solves one of them.
    settings
        Limits for all of them together.
    report
        Told if the time is up, or Ctrl-C pressed, before the end, and of a change that is left out
        because it would be beyond what a problem may have.

    Returns
    -------
    tuple
        What was solved until the end, or an interrupt (Ctrl-C); and whether there was one.
    """
    found: list[Sensitivity] = []
    for k, change in enumerate(changes):
        left = settings.seconds_left() / (len(changes) - k)
        if left <= 0:
            report(f"no time left for {len(changes) - k} of {len(changes)} what-ifs")
            break
        try:
            problem = change.make()
        except InstanceError:
            what = f'"{change.name}" ({change.amount:+g} {change.unit})'
            report(f"no what-if for {what}: there would be more than a problem may have")
            continue
        try:
            after = solve(problem, Settings(left, settings.seed, settings.workers))
            interrupted = after.limit == "interrupt"
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            report(f"interrupted: {len(changes) - k} of {len(changes)} what-ifs left out")
            return tuple(found), True
        found.append(_sensitivity(change, before, after))
    return tuple(found), False


def _sensitivity(change: Changed[P], before: Certificate, after: Certificate) -> Sensitivity:
    """Return what a change does: each optimum lies between its objective and its bound."""
    kind, name, amount, unit, _ = change
    if after.objective is None or before.objective is None:
        impossible = after.status == "infeasible" and before.status == "optimal"
        return Sensitivity(kind, name, amount, unit, None, is_exact=impossible)
    value = after.objective - before.objective
    if before.status == after.status == "optimal":
        return Sensitivity(kind, name, amount, unit, value, None, value, value, True)
    lowest = min(after.objective, after.bound) - max(before.objective, before.bound)
    highest = max(after.objective, after.bound) - min(before.objective, before.bound)
    lower, upper = (end if math.isfinite(end) else None for end in (lowest, highest))
    return Sensitivity(kind, name, amount, unit, value, None, lower, upper)


def as_interrupted(result: Result[S]) -> Result[S]:
    """Return a result whose certificate says that an interrupt (Ctrl-C) ended the search."""
    return result.replace(certificate=result.certificate.replace(limit="interrupt"))
