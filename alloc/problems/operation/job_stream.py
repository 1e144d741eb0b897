"""A stream of jobs for a cluster in operation: what arrives when, and when it really ends."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from alloc.errors import InstanceError
from alloc.problems.operation.problem import (
    Accounting,
    NodePool,
    NodeType,
    OperationJob,
    OperationProblem,
)
from alloc.units import HOUR_S, require_positive


@dataclass(frozen=True)
class StreamJob:
    """A job of a stream.

    Parameters
    ----------
    job
        The job as it is at its arrival: durations of all its work, chances to stop early. Its
        `restart_s` is charged from its second configuration on.
    ends_after
        Part of its work after which it really ends, more than 0 and at most 1: unknown to every
        policy, and 1 or one of its chances.
    """

    job: OperationJob
    ends_after: float = 1.0

    def __post_init__(self) -> None:
        if self.ends_after not in (1.0, *(stop.fraction for stop in self.job.stops)):
            chances = ", ".join(f"{stop.fraction:g}" for stop in self.job.stops) or "none"
            raise InstanceError(
                f'job "{self.job.id}": ends after {self.ends_after:g} of its work; it ends after '
                f"all of it, 1, or at one of its early stops ({chances})."
            )


@dataclass(frozen=True)
class OperationStream:
    """Jobs that arrive over time at nodes; `OperationProblem` says what the fields mean.

    Parameters
    ----------
    name
        For people.
    types, pools
        The nodes.
    jobs
        The jobs, ids unique, at least one.
    replan_s
        While a job waits, there is a decision at least so often, seconds, more than 0.
    postponement_factor, currency, energy_price_per_kwh, power_cap_w, accounting
        As in `OperationProblem`.
    """

    name: str
    types: tuple[NodeType, ...]
    pools: tuple[NodePool, ...]
    jobs: tuple[StreamJob, ...]
    replan_s: float = HOUR_S
    postponement_factor: float = 1.0
    currency: str = "EUR"
    energy_price_per_kwh: float = 0.0
    power_cap_w: float | None = None
    accounting: Accounting = "whole-job"

    def __post_init__(self) -> None:
        require_positive(self.replan_s, f'stream "{self.name}"', "replan_s")
        # The checks of a decision with all jobs are those of the stream.
        last = max((stream.job.arrival_s for stream in self.jobs), default=0.0)
        self.decision(last, tuple(stream.job for stream in self.jobs))

    def decision(
        self, now_s: float, jobs: tuple[OperationJob, ...], **changes: Any
    ) -> OperationProblem:
        """Return the decision to take at a time about some jobs.

        Parameters
        ----------
        now_s
            When it is taken, seconds.
        jobs
            Those that wait or run by then.
        **changes
            More fields of the `OperationProblem`.
        """
        return OperationProblem(
            self.name,
            self.types,
            self.pools,
            jobs,
            now_s=now_s,
            replan_s=self.replan_s,
            postponement_factor=self.postponement_factor,
            currency=self.currency,
            energy_price_per_kwh=self.energy_price_per_kwh,
            power_cap_w=self.power_cap_w,
            accounting=self.accounting,
            **changes,
        )

    def replace(self, **changes: Any) -> OperationStream:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)
