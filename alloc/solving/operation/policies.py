"""Named policies for a decision in operation: exact, searching and by rule, behind one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.families import FAMILIES
from alloc.models.operation.data import OperationData, operation_data
from alloc.problems.operation.problem import OperationPlan, OperationProblem
from alloc.result import Result
from alloc.solving.certify import certify
from alloc.solving.operation.rules import RULES, Rule
from alloc.solving.operation.search import path_relinking, randomised_greedy
from alloc.solving.operation.stages import stage_by_stage
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.solver import solve_within

_PASSES = 100
"""Greedy passes of a decision: a count and no time, so that an answer does not depend on the
machine."""
_WALKS = 60
"""Walks between plans of the elite: a count as well, so that an answer does not depend on the
machine."""


@dataclass(frozen=True)
class OperationPolicy:
    """A named way to decide.

    Parameters
    ----------
    name
        Unique name.
    title
        One line for people.
    proves
        Whether its answers come with a bound.
    decide
        Decides.
    """

    name: str
    title: str
    proves: bool
    decide: Decide


Build = Callable[[OperationData, Settings], OperationPlan]
Decide = Callable[[OperationProblem, Settings], Result[OperationPlan]]


def _by_rule(rule: Rule) -> Build:
    def build(data: OperationData, settings: Settings) -> OperationPlan:
        return rule(data).plan()

    return build


def _heuristic(name: str, build: Build) -> Decide:
    def decide(problem: OperationProblem, settings: Settings) -> Result[OperationPlan]:
        plan = build(operation_data(problem), settings)
        outcome = Outcome(plan, -math.inf, "none", name, "alloc")
        return certify(FAMILIES["operation"], problem, "operation-cost", outcome, settings)

    return decide


def _andreas(data: OperationData, settings: Settings) -> OperationPlan:
    rng = np.random.default_rng(settings.seed)
    boards = randomised_greedy(data, rng, _PASSES, lambda: settings.seconds_left() <= 0)
    return boards[0].plan()


def _path_relinking(data: OperationData, settings: Settings) -> OperationPlan:
    rng = np.random.default_rng(settings.seed)
    return path_relinking(data, rng, _WALKS, lambda: settings.seconds_left() <= 0).plan()


def _exact(objective: str) -> Decide:
    def decide(problem: OperationProblem, settings: Settings) -> Result[OperationPlan]:
        result: Result[OperationPlan] = solve_within(problem, settings, objective=objective)
        if result.certificate.limit == "interrupt":
            raise KeyboardInterrupt  # half a decision would be held against whole ones
        return result

    return decide


POLICIES: Mapping[str, OperationPolicy] = {
    policy.name: policy
    for policy in (
        *(
            OperationPolicy(name, title, False, _heuristic(name, _by_rule(rule)))
            for name, (title, rule) in RULES.items()
        ),
        OperationPolicy(
            "andreas",
            "randomised greedy: cheapest way alone, by pressure, repeated with chance",
            False,
            _heuristic("andreas", _andreas),
        ),
        OperationPolicy(
            "path-relinking",
            "an elite of randomised greedy plans and walks between them",
            False,
            _heuristic("path-relinking", _path_relinking),
        ),
        OperationPolicy(
            "sts",
            "stage by stage, by expected cost under early stops",
            False,
            _heuristic("sts", _by_rule(stage_by_stage)),
        ),
        OperationPolicy(
            "exact",
            "the aggregated model: best plan and proved bound",
            True,
            _exact("operation-cost"),
        ),
        OperationPolicy(
            "exact-expected",
            "the aggregated model with mean durations and tardiness under early stops",
            True,
            _exact("expected-operation-cost"),
        ),
    )
}
"""All policies by name, the least informed first."""


def require_policy(name: str) -> OperationPolicy:
    """Return the policy of that name.

    Raises
    ------
    InstanceError
        If there is none.
    """
    if name not in POLICIES:
        raise InstanceError(
            f'unknown operation policy "{name}"{nearest(name, POLICIES, ".")} '
            f"Known: {', '.join(POLICIES)}."
        )
    return POLICIES[name]


def decide_operation(
    problem: OperationProblem, policy: str = "exact", settings: Settings | None = None
) -> Result[OperationPlan]:
    """Return the plan of a named policy, checked.

    Parameters
    ----------
    problem
        The decision.
    policy
        One of `POLICIES`.
    settings
        Time limit, seed, threads.
    """
    return require_policy(policy).decide(problem, settings or Settings())
