"""What quota planning answers: the quotas, what is proved, and how they hold out of sample."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.certificate import Certificate
from alloc.problems.answers import Answer
from alloc.problems.inference_sizing.result import Relaxation, Resolve
from alloc.problems.quota_planning.problem import QuotaPlan


@dataclass(frozen=True)
class TenantOutlook:
    """What a tenant gets, as planned and by the rule of equal borrowing.

    Parameters
    ----------
    tenant
        Name.
    sample
        ``planned``: the scenarios of the problem, shared out as the plan does; ``replayed``: the
        same scenarios by the rule; ``held out``: other scenarios by the rule.
    service
        Share of the GPU-hours asked for that it gets.
    coverage
        Share of the time in which it gets all that it asks for.
    shortfall_gpu_h
        Expected GPU-hours asked for and not had.
    """

    tenant: str
    sample: str
    service: float
    coverage: float
    shortfall_gpu_h: float


@dataclass(frozen=True)
class QuotaResult(Answer[QuotaPlan]):
    """Quotas with what is known about them.

    Parameters
    ----------
    plan
        The best plan found, or None.
    certificate
        The value of its goal and the proved bound; of a fair goal the worst tenant's level.
    stages
        Of a fair goal, the certificate of each level: the sum of the 1, 2, ... worst tenants.
    outlooks
        What every tenant gets, planned, replayed and held out.
    rounds
        Rounds of solving and checking.
    converged
        For ``least_quota`` with scenarios held out: whether the promise holds on them too.
    resolves
        What one more GPU of a type or 10 % more demand of a tenant would change.
    conflict
        For an infeasible problem, what is missing, in a sentence.
    relaxations
        For an infeasible problem, changes of which each is enough, the least change first.
    assumptions
        What the plan takes for granted, in sentences.
    log
        What was done, one line a step.
    """

    plan: QuotaPlan | None
    certificate: Certificate
    stages: tuple[Certificate, ...] = ()
    outlooks: tuple[TenantOutlook, ...] = ()
    rounds: int = 1
    converged: bool = False
    resolves: tuple[Resolve, ...] = ()
    conflict: str | None = None
    relaxations: tuple[Relaxation, ...] = ()
    assumptions: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
