"""Grants: what a job has been given in a round, and what came of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from alloc.problems.allocation.solution import TaskPlacement
from alloc.schedulers.ladder import SERVER, WORKER, Ladder, TaskLadder
from alloc.schedulers.state import JobView

BUNDLE = (WORKER, SERVER)
"""The roles of a bundle, in the order in which its tasks are told to a watch."""


class Outcome(Enum):
    """What came of a step."""

    GRANTED = "granted"
    MISFIT = "misfit"
    """The rules of placement found no room."""
    TOP = "top"
    """There is no further step for this job, or its tenant's quota forbids it."""


@dataclass(slots=True)
class Grant:
    """What one job has been given: tasks one by one, or a configuration as a whole.

    Parameters
    ----------
    workers_on, servers_on
        The host of each worker and of each PS, in the order in which they were given.
    """

    view: JobView
    ladder: Ladder
    workers_on: list[int] = field(default_factory=list)
    servers_on: list[int] = field(default_factory=list)
    configuration: int | None = None
    tasks: tuple[TaskPlacement, ...] = ()

    @property
    def workers(self) -> int:
        """Number of workers given."""
        return len(self.workers_on)

    @property
    def servers(self) -> int:
        """Number of PSs given."""
        return len(self.servers_on)

    @property
    def reached(self) -> int | None:
        """The configuration that the job could run now, or None if it has too little for any."""
        ladder = self.ladder
        if isinstance(ladder, TaskLadder):
            return ladder.index.get((len(self.workers_on), len(self.servers_on)))
        return self.configuration

    @property
    def rate(self) -> float:
        """Rate of that configuration as seen, work units per second; 0 if there is none."""
        reached = self.reached
        return 0.0 if reached is None else self.view.configurations[reached].rate

    @property
    def demand(self) -> tuple[int, ...]:
        """All that the job holds, in the order of `Configuration.demand`."""
        if isinstance(self.ladder, TaskLadder):
            workers, servers = self.workers, self.servers
            each = zip(self.ladder.worker, self.ladder.server, strict=True)
            return tuple([workers * w + servers * u for w, u in each])
        if self.configuration is None:
            return tuple(0 for _ in self.view.configurations[0].demand)
        return self.view.configurations[self.configuration].demand
