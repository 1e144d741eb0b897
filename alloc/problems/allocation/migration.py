"""Migrations: the order in which running tasks change hosts."""

from __future__ import annotations

from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.problems.allocation.solution import Allocation
from alloc.units import require_count


@dataclass(frozen=True)
class Move:
    """Tasks of one role of a job that change hosts, stop or start.

    Parameters
    ----------
    job, role
        Whose tasks they are.
    count
        Number of tasks, 1 or more.
    source
        Host they leave, or None: they start.
    target
        Host they go to, or None: they stop, to start again in a later step.
    """

    job: str
    role: str
    count: int
    source: str | None
    target: str | None

    def __post_init__(self) -> None:
        where = f'move of job "{self.job}"'
        require_count(self.count, where, "count", least=1)
        if self.source == self.target:
            raise InstanceError(
                f"{where}: goes from {self.source} to {self.target}; give two different hosts."
            )

    def __str__(self) -> str:
        """Return the move in words."""
        tasks = f'{self.count} {self.role} of "{self.job}"'
        if self.source is None:
            return f"start {tasks} on {self.target}"
        if self.target is None:
            return f"stop {tasks} on {self.source}"
        return f"move {tasks} from {self.source} to {self.target}"


@dataclass(frozen=True)
class Migration:
    """Steps that lead from the running placement to another one.

    The moves of a step go on at the same time: a task that moves holds its resources on both hosts
    until the step ends (the target is warmed up before the source is given up).

    Parameters
    ----------
    steps
        The moves, step by step.
    allocation
        The placement after the last step.
    """

    steps: tuple[tuple[Move, ...], ...]
    allocation: Allocation

    @property
    def num_moves(self) -> int:
        """Number of tasks that change hosts, those that pass through a third host twice."""
        return sum(move.count for step in self.steps for move in step if move.target is not None)
