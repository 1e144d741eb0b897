"""Jobs: what arrives, how much work it brings, and how it may run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from alloc.errors import InstanceError, nearest
from alloc.units import require_non_negative, require_positive, require_time
from alloc.workload.configuration import Configuration
from alloc.workload.placement_rules import NO_RULES, PlacementRules

Elasticity = Literal["malleable", "moldable", "rigid"]
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
        Total work, in the work units of the configurations' rates, more than 0.
    configurations
        The ways the job can run. Jobs of one kind should share one tuple: it is stored once.
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
        What is trained, for example ``"resnet-50"``; for people and learned schedulers.
    placement
        Rules about the domains that its tasks stand in.
    refusable
        Whether a schedule may leave the job out: an admission decides. Every other job is promised.
    """

    id: str
    arrival_s: float
    work: float
    configurations: tuple[Configuration, ...]
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

    def __post_init__(self) -> None:
        if not self.id:
            raise InstanceError("a job has an empty id; give every job a unique id.")
        where = f'job "{self.id}"'
        require_time(self.arrival_s, where, "arrival_s")
        require_positive(self.work, where, "work")
        require_positive(self.weight, where, "weight")
        require_time(self.restart_cost_s, where, "restart_cost_s")
        require_non_negative(self.work_done, where, "work_done")
        if self.work_done >= self.work:
            raise InstanceError(
                f"{where}: work_done {self.work_done:g} is not less than its work {self.work:g}; "
                "leave finished jobs out."
            )
        for field in ("deadline_s", "due_date_s"):
            value = getattr(self, field)
            if value is not None:
                require_time(value, where, field)
        if self.deadline_s is not None and self.deadline_s <= self.arrival_s:
            raise InstanceError(
                f"{where}: deadline_s {self.deadline_s:g} is not after its arrival "
                f"{self.arrival_s:g}; a job must arrive before its deadline."
            )
        if self.elasticity not in _ELASTICITIES:
            raise InstanceError(
                f'{where}: elasticity "{self.elasticity}" is unknown'
                f"{nearest(str(self.elasticity), _ELASTICITIES, ';')} "
                f"known: {', '.join(_ELASTICITIES)}."
            )
        if not self.configurations:
            raise InstanceError(f"{where}: has no configurations; give at least one way to run it.")
        if self.elasticity == "rigid" and len(self.configurations) != 1:
            raise InstanceError(
                f"{where}: is rigid but has {len(self.configurations)} configurations; "
                "keep one or call it moldable."
            )
        if not any(configuration.rate > 0 for configuration in self.configurations):
            raise InstanceError(f"{where}: no configuration has a rate above 0; it never finishes.")
        self._check_slices(where)

    def _check_slices(self, where: str) -> None:
        if not self.placement.slices:
            return
        coarsest = self.placement.slices[0]
        for configuration in self.configurations:
            for group in configuration.ruled_groups:
                if group.count % coarsest.size:
                    raise InstanceError(
                        f"{where}: {group.count} {group.role} tasks are no multiple of the slice "
                        f"of {coarsest.size} per {coarsest.level}; let the slice divide the tasks."
                    )

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
        """Least time in which the remaining work can be done, seconds."""
        return self.work_left / self.max_rate

    def replace(self, **changes: Any) -> Job:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)
