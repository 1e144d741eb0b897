"""What inference sizing answers: the plan, what is proved, and how the simulation sees it."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.certificate import Certificate
from alloc.problems.answers import Answer
from alloc.problems.inference_sizing.plan import InferencePlan


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
class Resolve:
    """What a change of the problem does to the value of its plan, by solving again.

    Parameters
    ----------
    kind
        ``host`` (one more host of a pool) or ``rate`` (more requests of a model); of quotas ``gpu``
        (one more GPU of a type) or ``demand`` (more demand of a tenant).
    name
        The pool, model, GPU type or tenant.
    amount, unit
        The change.
    cost_change
        Value after less value before: of inference the cost, in the currency of the problem, of
        quotas the goal's; None if there is no plan after it.
    exact
        Whether both values are proved optimal.
    """

    kind: str
    name: str
    amount: float
    unit: str
    cost_change: float | None
    exact: bool


@dataclass(frozen=True)
class Relaxation:
    """One way to make a problem solvable, by itself enough unless its sentence says "at least".

    Parameters
    ----------
    kind
        ``goal``, ``rate``, ``hosts``, ``failures`` or ``memory``; of quotas ``capacity`` or
        ``exceeding``.
    name
        The model or pool, and the class or period, in words; of quotas the GPU types or tenants.
    before, after, unit
        The number that changes, in its unit.
    relative
        How large the change is in relation to what was there, 0 or more; the least comes first.
    cost
        Cost of the plan after the change, or None if it was not solved.
    sentence
        The same for people.
    """

    kind: str
    name: str
    before: float
    after: float
    unit: str
    relative: float
    cost: float | None
    sentence: str


@dataclass(frozen=True)
class InferenceResult(Answer[InferencePlan]):
    """A plan for inference with what is known about it.

    Parameters
    ----------
    plan
        The best plan found, or None.
    certificate
        Its cost and the proved bound.
    checks
        Every goal by both fidelities, in the last round.
    rounds
        Rounds of solving and simulating.
    converged
        Whether the simulation of the last round kept every goal (also without simulation: no).
    resolves
        What more GPUs or more requests would change.
    conflict
        For an infeasible problem, what is missing, in a sentence.
    relaxations
        For an infeasible problem, changes of which each is enough, the least change first.
    assumptions
        What the plan takes for granted, in sentences.
    log
        What was done, one line a step.
    """

    plan: InferencePlan | None
    certificate: Certificate
    checks: tuple[GoalCheck, ...] = ()
    rounds: int = 1
    converged: bool = False
    resolves: tuple[Resolve, ...] = ()
    conflict: str | None = None
    relaxations: tuple[Relaxation, ...] = ()
    assumptions: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
