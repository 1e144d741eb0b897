"""Planning: the cheapest plan with its proof, and what the simulator says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alloc.errors import CertificateError
from alloc.planning.loop import Replayed, plan_and_replay
from alloc.planning.replay import ReplaySettings
from alloc.problems.right_sizing.accounting import account
from alloc.problems.right_sizing.demand import Scenario
from alloc.problems.right_sizing.plan import CostBreakdown, Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Limits, Result
from alloc.solving.outcome import Progress
from alloc.solving.right_sizing.check import OutOfSample, check_out_of_sample
from alloc.solving.right_sizing.method import right_size
from alloc.tabular import Tabular

PLAN_LIMITS = Limits(gap=0.01)
"""Limits of a plan: forecasts are known no better than to 1 %."""


def solve_plan(
    problem: PlanningProblem,
    limits: Limits,
    before: Result[Plan] | None = None,
    progress: Progress | None = None,
    *,
    keep: bool = False,
) -> Result[Plan]:
    """Return the plan of a problem, starting from one of a similar problem if there is one.

    An interrupt (Ctrl-C) ends it: with `keep` with what was found until then and its proved
    bound, else as it does everything.

    Parameters
    ----------
    problem
        What can be had and must be served.
    limits
        How far the search goes.
    before
        A plan of a similar problem to start from.
    progress
        Takes a line of text now and then.
    keep
        Whether an interrupt returns what was found instead of being raised.
    """
    start = None if before is None else before.solution
    result = right_size(problem, limits=limits, start=start, progress=progress)
    if keep:
        return result
    result = result.complete()
    if result.certificate.limit == "interrupt":
        raise KeyboardInterrupt
    return result


@dataclass(frozen=True)
class PlanReport(Tabular):
    """A plan in both fidelities: the model's, with its proof, and the simulator's.

    Parameters
    ----------
    problem
        What was asked.
    result
        The plan, its certificate, its assumptions in words and its sensitivities.
    replayed
        Iterations of planning and replaying, or None if the plan was not replayed.
    out_of_sample
        How its orders do in scenarios that it was not made for, or None if there were none.
    """

    problem: PlanningProblem
    result: Result[Plan]
    replayed: Replayed | None = None
    out_of_sample: OutOfSample | None = None

    @property
    def costs(self) -> CostBreakdown | None:
        """What the expected discounted cost is made of; None without a plan."""
        if self.result.solution is None:
            return None
        return account(self.certified_problem, self.result.solution).costs

    @property
    def holds(self) -> bool:
        """Whether there is a plan and nothing contradicts it."""
        if self.result.solution is None:
            return False
        return self.replayed is None or self.replayed.outcome == "holds"

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it before it was done."""
        if self.result.certificate.limit == "interrupt":
            return True
        return self.replayed is not None and self.replayed.outcome == "interrupted"

    @property
    def certified_problem(self) -> PlanningProblem:
        """The problem that the certificate is about, as tightened in the plan's iteration."""
        if self.replayed is None:
            return self.problem
        for turn in self.replayed.iterations:
            if turn.result is self.result:
                return turn.problem
        raise CertificateError("the plan is not that of any iteration; this is a bug of the loop.")


def plan(
    problem: PlanningProblem,
    *,
    limits: Limits = PLAN_LIMITS,
    replay: ReplaySettings | None = None,
    max_iterations: int = 5,
    before: Result[Plan] | None = None,
    held_out: Sequence[Scenario] = (),
    progress: Progress | None = None,
) -> PlanReport:
    """Return the cheapest plan that meets the goals, with a proof of how cheap any plan can be.

    Parameters
    ----------
    problem
        What can be had, what must be served, within which limits.
    limits
        How far each plan is sought; with a replay, its time is that of all solves of an iteration.
    replay
        How the plan is replayed in the simulator, with more capacity kept until the goals hold
        there; None: it is not.
    max_iterations
        Most iterations of planning and replaying, 1 or more.
    before
        The result of a similar problem, to start from.
    held_out
        Scenarios that the plan does not see, in which its orders are checked.
    progress
        Takes a sentence on what each step does.

    Returns
    -------
    PlanReport
        An infeasible problem is a result too: it says what is missing and the cheapest repair. So
        is an interrupt (Ctrl-C), with what was found until then (`PlanReport.interrupted`).

    Raises
    ------
    InstanceError
        If an option makes no sense.
    """
    if replay is None:
        result = solve_plan(problem, limits, before, progress, keep=True).complete()
        return _checked(PlanReport(problem, result), held_out, limits)

    def within(seconds: float | None) -> Limits:
        return limits if seconds is None else replace(limits, seconds=seconds)

    replayed = plan_and_replay(
        problem,
        lambda tightened, last, seconds: solve_plan(
            tightened, within(seconds), last or before, progress, keep=True
        ),
        replay,
        max_iterations=max_iterations,
        seconds=limits.seconds,
        progress=progress,
    )
    replayed = _complete(replayed)
    return _checked(PlanReport(problem, replayed.result, replayed), held_out, limits)


def _complete(replayed: Replayed) -> Replayed:
    """Work out what the answer defers: of all plans this one alone is reported."""
    answer = replayed.answer
    complete = replace(answer, result=answer.result.complete())
    turns = tuple(complete if turn is answer else turn for turn in replayed.iterations)
    return replace(replayed, iterations=turns)


def _checked(report: PlanReport, held_out: Sequence[Scenario], limits: Limits) -> PlanReport:
    """Return the report with a check of its orders in scenarios held out, if there are any."""
    if not held_out or report.result.solution is None or report.interrupted:
        return report
    found = check_out_of_sample(
        report.certified_problem, report.result.solution, tuple(held_out), workers=limits.workers
    )
    return replace(report, out_of_sample=found)
