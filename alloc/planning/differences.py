"""What if: a changed problem planned anew, and held against the base."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.planning.changes import Change, apply_all
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import PLAN_LIMITS, PlanReport, plan
from alloc.problems.right_sizing.accounting import mean_hosts
from alloc.problems.right_sizing.headroom import reference_gpus
from alloc.problems.right_sizing.plan import CostBreakdown, Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Limits, Result
from alloc.solving.outcome import Progress

_DIGITS = 6
"""Decimals of a mean number of hosts beyond which there is only the solver's tolerance."""


@dataclass(frozen=True)
class CostChange:
    """How a cost changes, and what is proved of it.

    Parameters
    ----------
    found
        Cost of the plan found after the change less that found before, money.
    at_least, at_most
        Ends of the range in which the difference of the two optima lies, by the proved bounds;
        infinite where there is none yet.
    why_unproved
        Why nothing is proved, or what to do, where that is so.
    """

    found: float
    at_least: float
    at_most: float
    why_unproved: str = "give more time"

    @property
    def sentence(self) -> str:
        """What is proved, in words, to a whole unit of money."""
        return self.in_words()

    def in_words(self, currency: str = "") -> str:
        """Return what is proved, in words, to a whole unit of money."""
        unit = f" {currency}" if currency else ""
        if math.isinf(self.at_least) or math.isinf(self.at_most):
            return self._open(unit)
        low, high = round(self.at_least), round(self.at_most)
        if self.at_least == self.at_most == 0:
            return "does not change the cost, proved"
        if low == high == 0:
            return f"changes the cost by less than 1{unit}, proved"
        if low >= 0:
            return f"costs {_range(low, high)}{unit} more, proved"
        if high <= 0:
            return f"saves {_range(-high, -low)}{unit}, proved"
        return (
            f"changes the cost by {low:+,} to {high:+,}{unit}: within the gap of the two solves, "
            "so solve with a smaller gap to know the sign"
        )

    def _open(self, unit: str) -> str:
        """Return what is proved where a solve had no time to prove a bound: one end, or none."""
        if math.isfinite(self.at_most):
            high = round(self.at_most)
            if high < 0:
                return f"saves at least {-high:,}{unit}, proved"
            return f"costs at most {high:,}{unit} more, proved"
        if math.isfinite(self.at_least):
            low = round(self.at_least)
            if low > 0:
                return f"costs at least {low:,}{unit} more, proved"
            return f"saves at most {-low:,}{unit}, proved"
        return (
            f"changes the cost found by {round(self.found):+,}{unit}, of which nothing is proved: "
            f"{self.why_unproved}"
        )


@dataclass(frozen=True)
class WhatIf:
    """A what-if beside its base.

    Parameters
    ----------
    changes
        What was changed, in words.
    base, changed
        The plan before and after.
    """

    changes: tuple[str, ...]
    base: PlanReport
    changed: PlanReport

    @property
    def cost(self) -> CostChange | None:
        """How the cost changes, or None if one of the two has no plan.

        Nothing is proved where a plan keeps the capacity buffers of a replay: then its bound is
        about those, and the other plan's about others or none.
        """
        if self.changed is self.base and self.base.result.solution is not None:
            return CostChange(0.0, 0.0, 0.0)
        change = cost_change(self.base.result, self.changed.result)
        if change is None or all(
            report.certified_problem == report.problem for report in (self.base, self.changed)
        ):
            return change
        why = "each plan keeps capacity buffers of its own replays"
        return CostChange(change.found, -math.inf, math.inf, why)

    @property
    def costs(self) -> Mapping[str, tuple[float, float]]:
        """What the cost is made of, before and after."""
        before, after = self.base.costs, self.changed.costs
        return {
            field.name: (
                0.0 if before is None else getattr(before, field.name),
                0.0 if after is None else getattr(after, field.name),
            )
            for field in dataclasses.fields(CostBreakdown)
        }

    @property
    def hosts(self) -> Mapping[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]]:
        """Hosts by offer and site, quarter by quarter, before and after, that differ.

        Of hosts rented by the hour, means over scenarios and hours.
        """
        before, after = _fleet(self.base), _fleet(self.changed)
        none = (0.0,) * self.base.problem.num_quarters
        return {
            place: (before.get(place, none), after.get(place, none))
            for place in sorted(before.keys() | after.keys())
            if before.get(place, none) != after.get(place, none)
        }


def what_if(
    problem: PlanningProblem,
    changes: Sequence[Change] = (),
    *,
    base: PlanReport | None = None,
    limits: Limits = PLAN_LIMITS,
    replay: ReplaySettings | None = None,
    changed_replay: ReplaySettings | None = None,
    max_iterations: int = 5,
    progress: Progress | None = None,
) -> WhatIf:
    """Plan a changed problem, and compare it with the base.

    Without a replay both take pools to be as large as the base's load makes them, unless their size
    is given: else more jobs would make larger pools, which need less for each busy GPU, and could
    make a plan cheaper. So a plan for fewer jobs costs no more. A replay measures the pools.

    Parameters
    ----------
    problem
        The base.
    changes
        Changes to apply (`alloc.planning.changes`).
    base
        The plan of the base, if there is one already.
    limits, replay, max_iterations, progress
        As in `alloc.planning.plan`, for both.
    changed_replay
        How the changed plan is replayed if not like the base: another policy.

    Returns
    -------
    WhatIf
        At an interrupt (Ctrl-C) with what was found until then: what is proved of the difference
        is proved all the same, and a plan that was not begun is one without a solution.

    Raises
    ------
    InstanceError
        If nothing is changed, or a change names what is not there.
    """
    if not changes and changed_replay in (None, replay):
        raise InstanceError("what if: nothing is changed; name a change, for example demand=+20%.")
    after = apply_all(problem, changes)
    tell = progress or (lambda sentence: None)
    if base is None:
        tell("base: planning")
        base = plan(
            problem,
            limits=limits,
            replay=replay,
            max_iterations=max_iterations,
            progress=progress,
        )
    sentences = [change.sentence for change in changes]
    if changed_replay is not None and changed_replay != replay:
        sentences.append(f"policy {changed_replay.scheduler}")
    if after == problem and changed_replay in (None, replay):
        # The change is none, for example no budget where there was none.
        return WhatIf(tuple(sentences), base, base)
    if replay is None and changed_replay is None and after.pool_gpus is None:
        after = after.replace(pool_gpus=reference_gpus(problem) or None)
    if base.interrupted:
        return WhatIf(tuple(sentences), base, _not_planned(after, base))
    tell(f"{'; '.join(sentences)}: planning")
    try:
        changed = plan(
            after,
            limits=limits,
            replay=changed_replay or replay,
            max_iterations=max_iterations,
            before=base.result,
            progress=progress,
        )
    except KeyboardInterrupt:
        changed = _not_planned(after, base)
    return WhatIf(tuple(sentences), base, changed)


def cost_change(before: Result[Plan], after: Result[Plan]) -> CostChange | None:
    """Return how the cost changes, or None if one of the two has no plan.

    An optimum lies between the proved bound and the cost found, so the difference of two optima
    lies between bound less cost and cost less bound.

    Parameters
    ----------
    before, after
        The cheapest plans of two problems.
    """
    old, new = before.certificate, after.certificate
    if old.objective is None or new.objective is None or old.bound is None or new.bound is None:
        return None
    return CostChange(
        found=new.objective - old.objective,
        at_least=new.bound - old.objective,
        at_most=new.objective - old.bound,
    )


def _not_planned(problem: PlanningProblem, base: PlanReport) -> PlanReport:
    """Return the report of a problem whose plan an interrupt (Ctrl-C) left out."""
    certificate = base.result.certificate.replace(
        status="no_solution",
        objective=None,
        bound=-math.inf,
        seconds=0.0,
        fingerprint=problem.fingerprint,
        limit="interrupt",
        verified=False,
        bound_proof="none",
    )
    return PlanReport(problem, Result(None, certificate))


def _range(low: int, high: int) -> str:
    if low == high:
        return f"{low:,}"
    return f"at most {high:,}" if low == 0 else f"{low:,} to {high:,}"


def _fleet(report: PlanReport) -> dict[tuple[str, str], tuple[float, ...]]:
    found = report.result.solution
    if found is None:
        return {}
    return {
        place: tuple(round(count, _DIGITS) for count in counts.tolist())
        for place, counts in mean_hosts(report.certified_problem, found).items()
    }
