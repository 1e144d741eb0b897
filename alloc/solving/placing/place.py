"""`place`: the best placement of a queue on a cluster as it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alloc.errors import AllocError, CertificateError
from alloc.families import AUTO
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution
from alloc.result import Limits, Result
from alloc.solving.gang import Decider
from alloc.solving.placing.standing import leave_broken
from alloc.solving.solver import solve
from alloc.verification import check_claims, initial_violations, verify_placement
from alloc.verification.violation import Violation

DEFAULT_GOAL = "gpus_placed then moves"
"""As many GPUs in use as possible, and as few moves for that as it takes."""
_MAX_REASONS = 100
"""Jobs whose reason is decided one by one, as for a single job; all others get the general
sentence, so that the answer on a long queue does not wait for its reasons."""


@dataclass(frozen=True)
class Placement:
    """A placement, and what was wrong before it.

    Parameters
    ----------
    result
        The placement with its certificate. `Allocation.unplaced` gives for each job that waits the
        reason it cannot start beside the others.
    broken
        The rules that the running jobs broke before anything was decided.
    repaired
        Whether the placement removes them; otherwise the jobs concerned stay as they are, also
        where a repair was asked for and there is none, because what runs may not move.
    """

    result: Result[Solution]
    broken: tuple[Violation, ...] = ()
    repaired: bool = False


def place(
    instance: Instance,
    goal: str = DEFAULT_GOAL,
    *,
    backend: str = AUTO,
    repair: bool = False,
    limits: Limits = Limits(),
    progress: Callable[[str], None] | None = None,
) -> Placement:
    """Place the waiting jobs of an instance, and move running ones where it allows that.

    Parameters
    ----------
    instance
        The cluster, what runs (`running`) and may be moved (`moves`), and the queue.
    goal
        Objectives, as `alloc.objectives.parse_goal` reads them.
    backend
        ``"auto"`` or a general solver; as in `alloc.solve`.
    repair
        Running jobs may break rules from the start: an over-full host, a split gang. By default
        such jobs are left exactly as they are, and so is what they break. With repair every rule
        holds in the end; put ``moves`` first in the goal to repair at least cost. It moves and
        evicts only what `moves` of the instance allows: without, there is no placement.
    limits, progress
        As in `alloc.solve`.

    Raises
    ------
    CertificateError
        If the answer breaks a rule that was kept before.
    """
    broken = tuple(initial_violations(instance))
    problem = instance if repair else leave_broken(instance, broken)
    result = solve(
        problem,
        "placement",
        backend,
        objective=goal,
        limits=limits,
        progress=progress,
    )
    if isinstance(result.solution, Allocation):
        accepted: Sequence[Violation] = () if repair else broken
        wrong = verify_placement(instance, result.solution, accept=accepted)
        if wrong:
            raise CertificateError(f"the placement breaks a rule: {wrong[0]}")
        proved = result.certificate.status == "optimal"
        reasons = _reasons(instance, result.solution, proved=proved)
        solution = dataclasses.replace(result.solution, unplaced=reasons)
        result = dataclasses.replace(result, solution=solution)
        own = result.certificate.replace(fingerprint=instance.fingerprint)
        answer = dataclasses.replace(result, certificate=own)
        # With something left broken, goals that look at all hosts or jobs may have another value.
        if not check_claims(instance, answer):
            result = answer
    return Placement(result, broken, repair and bool(broken) and result.solution is not None)


def _reasons(instance: Instance, allocation: Allocation, *, proved: bool) -> dict[str, str]:
    """Return for each job without hosts why it cannot start beside the others."""
    placed = allocation.configuration_of
    waiting = [job for job in instance.jobs if job.id not in placed]
    settled = Decider(instance.replace(running=allocation.assignments))
    fits = (
        "it would fit, but the goal gains nothing from it"
        if proved
        else "it would fit, but the search ended before it was placed"
    )
    reasons = {}
    for k, job in enumerate(waiting):
        if k >= _MAX_REASONS:
            reasons[job.id] = "no place is left for it, or the goal gains nothing from it"
            continue
        try:
            explanation = settled.decide(job.id).explanation
        except AllocError as error:
            reasons[job.id] = str(error)
            continue
        reasons[job.id] = fits if explanation is None else explanation.sentence
    return reasons
