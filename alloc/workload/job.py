"""Jobs: what arrives, how much work it brings, and how it may run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.units import require_non_negative, require_positive, require_time
from alloc.workload.configuration import Configuration
from alloc.workload.placement_rules import NO_RULES, PlacementRules
from alloc.workload.stages import Stage, order_of, require_stages

Elasticity = Literal["malleable", "moldable", "rigid"]
_RATE = attrgetter("rate")
_ELASTICITIES: tuple[Elasticity, ...] = get_args(Elasticity)


@dataclass(frozen=True)
class Job:
    """A training job.

    Parameters
    ----------
    id
        Unique name, not empty.
    arrival_s
        Arrival, seconds since the start of the instance, 0 or more.
    work
        Total work, in the work units of the configurations' rates, more than 0; of a job with
        stages 0, since each of them has its own.
    configurations
        The ways the job can run. Jobs of one kind should share one tuple: it is stored once. Of a
        job with stages none.
    weight
        Importance in weighted objectives, more than 0.
    deadline_s
        Hard limit on the completion, seconds since the start.
    due_date_s
        Soft limit on the completion, seconds since the start; later is tardiness.
    tenant
        Name of the tenant whose quota the job uses, or None.
    elasticity
        malleable: may change its configuration while it runs; moldable: chooses one and keeps it;
        rigid: has exactly one.
    preemptible
        Whether the job may be paused after it has started.
    restart_cost_s
        Seconds without progress each time the job resumes after a pause, or goes on with another
        configuration or on other hosts. Its first start is free.
    work_done
        Work already done at the start, work units, at least 0, less than work.
    model
        What is trained, for example ``"resnet-50"``; for people, learned schedulers, and the tables
        of `alloc.problems.allocation.instance.Instance.interference`.
    placement
        Rules about the domains that its tasks stand in.
    refusable
        Whether a schedule may leave the job out: an admission decides. Every other job is promised.
    checkpoint_s
        Seconds of progress after which its state is saved, again and again, while a run goes on: a
        run that fails keeps what it did up to the last save. 0: nothing is ever lost; ``None``: the
        state is saved only where a run ends in order, and one that fails has done nothing. What
        the saves cost belongs into the rates.
    stages
        Its stages, if it is a graph of them: each is run as the job would be, with its weight,
        limits, elasticity and rules, and the job completes with the last of them.
    """

    id: str
    arrival_s: float
    work: float = 0.0
    configurations: tuple[Configuration, ...] = ()
    weight: float = 1.0
    deadline_s: float | None = None
    due_date_s: float | None = None
    tenant: str | None = None
    elasticity: Elasticity = "malleable"
    preemptible: bool = True
    restart_cost_s: float = 0.0
    work_done: float = 0.0
    model: str | None = None
    placement: PlacementRules = NO_RULES
    refusable: bool = False
    checkpoint_s: float | None = None
    stages: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise InstanceError("a job has an empty id; give every job a unique id.")
        where = f'job "{self.id}"'
        require_time(self.arrival_s, where, "arrival_s")
        require_positive(self.weight, where, "weight")
        require_time(self.restart_cost_s, where, "restart_cost_s")
        require_non_negative(self.work_done, where, "work_done")
        self._check_limits(where)
        if self.elasticity not in _ELASTICITIES:
            raise InstanceError(
                f'{where}: elasticity "{self.elasticity}" is unknown'
                f"{nearest(str(self.elasticity), _ELASTICITIES, ';')} "
                f"known: {', '.join(_ELASTICITIES)}."
            )
        if self.stages:
            self._check_stages(where)
        else:
            self._check_work(where)
        self._check_slices(where)

    def _check_stages(self, where: str) -> None:
        for field in ("work", "work_done", "configurations", "refusable"):
            if getattr(self, field):
                raise InstanceError(
                    f"{where}: has stages and {field}; leave {field} out of a job with stages, "
                    "which run to their end and bring their own work and configurations."
                )
        require_stages(self.stages, where)
        for stage in self.stages:
            if self.elasticity == "rigid" and len(stage.configurations) != 1:
                raise InstanceError(
                    f'{where}, stage "{stage.id}": is rigid but has {len(stage.configurations)} '
                    "configurations; keep one or call the job moldable."
                )

    def _check_limits(self, where: str) -> None:
        if self.deadline_s is self.due_date_s is self.checkpoint_s is None:
            return
        for field in ("deadline_s", "due_date_s", "checkpoint_s"):
            value = getattr(self, field)
            if value is not None:
                require_time(value, where, field)
        if self.deadline_s is not None and self.deadline_s <= self.arrival_s:
            raise InstanceError(
                f"{where}: deadline_s {self.deadline_s:g} is not after its arrival "
                f"{self.arrival_s:g}; a job must arrive before its deadline."
            )

    def _check_work(self, where: str) -> None:
        require_positive(self.work, where, "work")
        if self.work_done >= self.work:
            raise InstanceError(
                f"{where}: work_done {self.work_done:g} is not less than its work {self.work:g}; "
                "leave finished jobs out."
            )
        if not self.configurations:
            raise InstanceError(f"{where}: has no configurations; give at least one way to run it.")
        if self.elasticity == "rigid" and len(self.configurations) != 1:
            raise InstanceError(
                f"{where}: is rigid but has {len(self.configurations)} configurations; "
                "keep one or call it moldable."
            )
        if not any(map(_RATE, self.configurations)):  # none is below 0
            raise InstanceError(f"{where}: no configuration has a rate above 0; it never finishes.")

    def _check_slices(self, where: str) -> None:
        if not self.placement.slices:
            return
        coarsest = self.placement.slices[0]
        ways = [*self.configurations, *(c for stage in self.stages for c in stage.configurations)]
        for configuration in ways:
            for group in configuration.ruled_groups:
                if group.count % coarsest.size:
                    raise InstanceError(
                        f"{where}: {group.count} {group.role} tasks are no multiple of the slice "
                        f"of {coarsest.size} per {coarsest.level}; let the slice divide the tasks."
                    )

    @property
    def parts(self) -> tuple[Job, ...]:
        """What runs: the job, or each of its stages as a job ``JOB/STAGE`` of its own."""
        return self._stage_jobs if self.stages else (self,)

    @cached_property
    def _stage_jobs(self) -> tuple[Job, ...]:
        return tuple(
            self.replace(
                id=f"{self.id}/{stage.id}",
                work=stage.work,
                configurations=stage.configurations,
                stages=(),
            )
            for stage in self.stages
        )

    @property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Positions in `parts` of what ends before each of them starts."""
        position = {stage.id: k for k, stage in enumerate(self.stages)}
        return tuple(
            tuple(dict.fromkeys(position[p] for p in stage.predecessors)) for stage in self.stages
        ) or ((),)

    @property
    def work_left(self) -> float:
        """Work still to do when the instance starts, work units."""
        return self.work - self.work_done

    @cached_property
    def max_rate(self) -> float:
        """Highest rate of any configuration, work units per second."""
        return max(configuration.rate for configuration in self.configurations)

    @cached_property
    def min_rate(self) -> float:
        """Lowest rate above 0 of any configuration, work units per second."""
        return min(
            configuration.rate for configuration in self.configurations if configuration.rate
        )

    @property
    def min_run_s(self) -> float:
        """Least time for the remaining work, seconds: with stages the longest path."""
        if not self.stages:
            return self.work_left / self.max_rate
        ends: dict[int, float] = {}
        predecessors = self.predecessors
        for k in order_of(self.stages, self.id):
            ready = max((ends[p] for p in predecessors[k]), default=0.0)
            ends[k] = ready + self.stages[k].min_run_s
        return max(ends.values())

    def replace(self, **changes: Any) -> Job:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)
