"""What a little more of each thing would change, by solving again; interrupts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from alloc.certificate import Certificate, Result
from alloc.errors import InstanceError
from alloc.problems.inference_sizing.result import InferenceResult, Resolve
from alloc.problems.quota_planning.result import QuotaResult
from alloc.solving.outcome import Settings

P = TypeVar("P")
A = TypeVar("A", InferenceResult, QuotaResult, Result[Any])
Report = Callable[[str], None]


class Changed(NamedTuple, Generic[P]):
    """What makes a problem with a little more of something; the rest as in `Resolve`."""

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
    report: Report,
) -> tuple[tuple[Resolve, ...], bool]:
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
    found: list[Resolve] = []
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
        except KeyboardInterrupt:
            report(f"interrupted: {len(changes) - k} of {len(changes)} what-ifs left out")
            return tuple(found), True
        value, base = after.objective, before.objective
        difference = None if value is None or base is None else value - base
        exact = before.status == after.status == "optimal"
        found.append(Resolve(*change[:4], difference, exact))
    return tuple(found), False


def as_interrupted(answer: A) -> A:
    """Return an answer whose certificate says that an interrupt (Ctrl-C) ended the search."""
    return dataclasses.replace(answer, certificate=answer.certificate.replace(limit="interrupt"))
