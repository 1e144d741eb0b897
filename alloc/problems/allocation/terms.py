"""What an instance asks beside its jobs: quotas, jobs together or apart, and moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alloc.errors import InstanceError
from alloc.units import require_count, require_share


@dataclass(frozen=True)
class Tenant:
    """A tenant and its quota.

    Parameters
    ----------
    name
        Unique name.
    gpu_quota_milli
        Most GPU that its jobs may hold at any time without borrowing, milli-GPU.
    cohort
        Tenants of one cohort lend each other what they leave idle: together they hold at most the
        sum of their quotas. None: the tenant neither lends nor borrows.
    borrowing_milli
        Most GPU beyond its quota that it may borrow from its cohort, milli-GPU.
    """

    name: str
    gpu_quota_milli: int
    cohort: str | None = None
    borrowing_milli: int = 0

    def __post_init__(self) -> None:
        where = f'tenant "{self.name}"'
        require_share(self.gpu_quota_milli, where, "gpu_quota_milli")
        require_share(self.borrowing_milli, where, "borrowing_milli")
        if self.borrowing_milli and self.cohort is None:
            raise InstanceError(
                f"{where}: may borrow {self.borrowing_milli} milli-GPU but from nobody; name the "
                "cohort that lends to it."
            )


@dataclass(frozen=True)
class Affinity:
    """Jobs that stand together or apart.

    Parameters
    ----------
    kind
        ``"together"``: all tasks of those of the jobs that run stand in one domain of the level;
        ``"apart"``: no domain of the level holds tasks of two of the jobs.
    level
        Level, "host" included.
    jobs
        Ids of the jobs, two or more.
    """

    kind: Literal["together", "apart"]
    level: str
    jobs: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.kind not in ("together", "apart"):
            raise InstanceError(f'affinity: kind is "{self.kind}"; it is "together" or "apart".')
        if len(set(self.jobs)) != len(self.jobs) or len(self.jobs) < 2:
            raise InstanceError(
                f'affinity "{self.kind}" in one {self.level}: names the jobs '
                f"{', '.join(self.jobs) or '(none)'}; name two or more, each once."
            )


@dataclass(frozen=True)
class Moves:
    """What a placement may do to the jobs that run: without it they stay where they are.

    A running job that is not preemptible stays on its hosts. Tasks of one role are alike, so the
    moves of a job are the tasks that leave a host: the sum over hosts of those it has less of.

    Parameters
    ----------
    budget
        Most tasks that may move; ``None``: any number; 0 pins all.
    evict
        Whether running preemptible jobs may be stopped; otherwise each of them keeps running.
    """

    budget: int | None = None
    evict: bool = False

    def __post_init__(self) -> None:
        if self.budget is not None:
            require_count(self.budget, "moves", "budget")


NO_MOVES = Moves(budget=0)
"""What a placement may do to running jobs where nothing is said: they stay, all of them."""
