"""What inference sizing reports: the plan with its proof, and how the simulation sees it."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.problems.inference_sizing.plan import InferencePlan
from alloc.result import Result
from alloc.tabular import Tabular


@dataclass(frozen=True)
class GoalCheck:
    """One goal of one class in one group of replicas, by the closed form and by simulation.

    Parameters
    ----------
    period, model, option
        The group; the option in words.
    replicas, batch_cap, rate_per_s
        Its size and its load.
    request_class
        Name of the class.
    measure
        ``ttft`` or ``tpot``.
    goal_s
        The latency of the goal, seconds.
    allowed, predicted, simulated
        Share of the requests that may exceed it, that the closed form says do, and that did.
    requests
        Requests of the class that were measured.
    """

    period: str
    model: str
    option: str
    replicas: int
    batch_cap: int
    rate_per_s: float
    request_class: str
    measure: str
    goal_s: float
    allowed: float
    predicted: float
    simulated: float
    requests: int

    @property
    def holds(self) -> bool:
        """Whether the simulation kept the goal."""
        return self.simulated <= self.allowed


@dataclass(frozen=True)
class InferenceReport(Tabular):
    """A plan for inference with what the simulation says of it.

    Parameters
    ----------
    result
        The plan with its certificate, against the closed form.
    checks
        Every goal by both fidelities, in the last iteration.
    iterations
        Iterations of solving and simulating.
    converged
        Whether the simulation of the last iteration kept every goal (also without simulation: no).
    """

    result: Result[InferencePlan]
    checks: tuple[GoalCheck, ...] = ()
    iterations: int = 1
    converged: bool = False

    def __post_init__(self) -> None:
        self.result.require_kind(InferencePlan, "inference report")
