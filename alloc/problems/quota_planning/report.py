"""What quota planning reports: the quotas with their proof, and how they hold out of sample."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.problems.quota_planning.problem import QuotaPlan
from alloc.result import Result
from alloc.tabular import Tabular


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
class QuotaReport(Tabular):
    """Quotas with what tenants get.

    Parameters
    ----------
    result
        The quotas with their certificate; of a fair goal that of the worst tenant's level.
    outlooks
        What every tenant gets, planned, replayed and held out.
    iterations
        Iterations of solving and checking.
    converged
        For ``least_quota`` with scenarios held out: whether the promise holds on them too.
    """

    result: Result[QuotaPlan]
    outlooks: tuple[TenantOutlook, ...] = ()
    iterations: int = 1
    converged: bool = False

    def __post_init__(self) -> None:
        self.result.require_kind(QuotaPlan, "quota report")
