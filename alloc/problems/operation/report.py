"""What a decision in operation comes to: the plan with its proof, and its costs."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.problems.operation.problem import OperationPlan
from alloc.result import Result
from alloc.tabular import Tabular


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
class OperationReport(Tabular):
    """A decision in operation with the parts of its cost.

    Parameters
    ----------
    result
        The plan with its certificate. There always is a plan, for every job may wait. Of a policy
        that proves nothing, the bound is -inf.
    costs
        Its costs, as the checker recomputes them.
    """

    result: Result[OperationPlan]
    costs: OperationCosts

    def __post_init__(self) -> None:
        self.result.require_kind(OperationPlan, "operation report")
