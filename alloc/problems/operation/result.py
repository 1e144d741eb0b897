"""What a decision in operation comes to: costs and certificate beside the plan."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.certificate import Certificate
from alloc.problems.operation.problem import OperationPlan


@dataclass(frozen=True)
class OperationCosts:
    """What a plan costs, part by part.

    Parameters
    ----------
    operating
        What its nodes are charged (`OperationProblem.accounting`), money.
    tardiness
        Of the jobs that run, money.
    postponement
        Of the jobs that wait, money.
    power_w
        Power that the plan draws at first, watts.
    """

    operating: float
    tardiness: float
    postponement: float
    power_w: float

    @property
    def total(self) -> float:
        """The objective, money."""
        return self.operating + self.tardiness + self.postponement


@dataclass(frozen=True)
class OperationResult:
    """A plan with its costs and certificate.

    Parameters
    ----------
    plan
        The plan; there always is one: every job may wait.
    costs
        Its costs, as the checker recomputes them.
    certificate
        What is proved about it. Of a policy that proves nothing, the bound is -inf.
    log
        What the method reports, one line a step.
    """

    plan: OperationPlan
    costs: OperationCosts
    certificate: Certificate
    log: tuple[str, ...] = ()
