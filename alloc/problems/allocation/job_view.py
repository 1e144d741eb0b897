"""A job as a scheduler may see it at the time of a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from alloc.problems.allocation.solution import Assignment
from alloc.workload import NO_RULES, Configuration, Elasticity, PlacementRules


@dataclass(slots=True)
class JobView:
    """A job as a scheduler may see it at the time of a decision.

    The experiment decides what is known: with ``exact`` knowledge the numbers are the truth, with
    ``estimate`` they carry the error that the experiment set, with ``none`` work and remaining
    work are None. A view is good for the decision it was given for: the simulator updates it.

    Parameters
    ----------
    id
        Job id.
    arrival_s
        Arrival, seconds.
    configurations
        The ways it can run, with rates as known.
    weight
        Importance.
    work, work_left
        Total and remaining work as known, work units, more than 0, or None when unknown.
    attained_gpu_s
        GPU time received so far, GPU seconds (LAS).
    started_s
        First start, seconds, or None.
    current
        What it runs now (in slots: what it ran in the slot that just ended), or None.
    preemptible, elasticity, restart_cost_s, deadline_s, due_date_s, model, tenant, refusable
        As in `Job`.
    last
        What it runs now or ran last, or None if it never ran. A job that is not malleable is bound
        to the configuration in `last`.
    position
        Position in the instance: the order of jobs that arrive at the same time.
    placement
        Rules about the domains that its tasks stand in.
    work_done
        Work done so far, work units, or None when unknown. With an estimate it may pass `work`,
        while `work_left` stays above 0.
    job
        Id of the job that it is a stage of, or empty.
    stages
        The views of all stages of that job, itself among them, also of those that have ended or
        still wait for others; empty without stages. Rates of those that wait are as known at the
        job's arrival.
    before
        Positions in `stages` of those that ended before it started.
    is_complete
        Whether it has ended.
    """

    id: str
    arrival_s: float
    configurations: tuple[Configuration, ...]
    weight: float
    work: float | None
    work_left: float | None
    attained_gpu_s: float = 0.0
    started_s: float | None = None
    current: Assignment | None = None
    preemptible: bool = True
    model: str | None = None
    tenant: str | None = None
    elasticity: Elasticity = "malleable"
    restart_cost_s: float = 0.0
    deadline_s: float | None = None
    due_date_s: float | None = None
    last: Assignment | None = None
    position: int = 0
    placement: PlacementRules = NO_RULES
    work_done: float | None = None
    refusable: bool = False
    job: str = ""
    stages: Sequence[JobView] = field(default=(), compare=False, repr=False)
    before: Sequence[int] = ()
    is_complete: bool = False

    @property
    def in_order(self) -> tuple[float, int]:
        """Sort key of the order of arrival."""
        return (self.arrival_s, self.position)

    @property
    def bound_to(self) -> int | None:
        """Position of the configuration the job is bound to, or None if it may still choose."""
        if self.elasticity == "malleable" or self.last is None:
            return None
        return self.last.configuration
