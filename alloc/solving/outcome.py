"""What methods and `solve` hand each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit
from alloc.errors import UnsupportedFeatureError
from alloc.objectives import Held, WeightedSum
from alloc.result import Limits, Repair, Sensitivity

S = TypeVar("S")
Progress = Callable[[str], None]
"""Takes a line of progress."""


def _now() -> float:
    """Return the time by the clock as it is now: benchmarks put one of CPU seconds in its place."""
    return time.perf_counter()


@dataclass(frozen=True)
class Settings:
    """Limits of a solve (`alloc.result.Limits`), the clock that is running, and what is held.

    Parameters
    ----------
    time_limit_s
        Wall time for the whole solve, seconds.
    seed
        Random seed.
    workers
        Threads.
    started
        When the solve started, on the clock of `time.perf_counter`.
    held
        Earlier levels of a goal of several levels, with the values that they must keep.
    later
        Levels of the goal that come after: of answers that are as good, what they like best.
    gap
        Relative gap between value and bound at which a search may stop.
    nodes
        Most nodes of each integer program, or None: for answers that must not depend on the
        machine. Only rounds look at it.
    """

    time_limit_s: float = 60.0
    seed: int = 0
    workers: int = 1
    started: float = field(default_factory=_now)
    held: tuple[Held, ...] = ()
    later: tuple[WeightedSum, ...] = ()
    gap: float = OPTIMALITY_GAP
    nodes: int | None = None

    @classmethod
    def of(cls, limits: Limits) -> Settings:
        """Return the settings of a solve that starts now.

        Raises
        ------
        UnsupportedFeatureError
            If memory is limited: only `alloc.solve` starts the process that keeps that limit.
        """
        if limits.memory_mib is not None:
            raise UnsupportedFeatureError(
                "limits: memory_mib is kept by alloc.solve, in a process of its own; leave it out "
                "here."
            )
        return cls(limits.seconds, limits.seed, limits.workers, gap=limits.gap)

    def seconds_left(self) -> float:
        """Return the wall time left, seconds, 0 or more."""
        return max(self.time_limit_s - (time.perf_counter() - self.started), 0.0)

    def time_is_up(self) -> bool:
        """Return whether no time is left: what every loop asks."""
        return self.seconds_left() <= 0

    def within(self, seconds: float) -> Settings:
        """Return the settings of a step that may take so many seconds from now, and no more."""
        spent = time.perf_counter() - self.started
        return replace(self, time_limit_s=min(self.time_limit_s, spent + max(seconds, 0.0)))


@dataclass(frozen=True)
class Stage:
    """What is proved of one level of a goal.

    Parameters
    ----------
    objective
        Name of the level.
    bound, bound_proof
        As in `Outcome`.
    limit
        What stopped the search of this level early, or None.
    """

    objective: str
    bound: float
    bound_proof: BoundProof
    limit: Limit | None = None


@dataclass(frozen=True)
class Outcome(Generic[S]):
    """What a method found, before the checker has looked at it.

    Parameters
    ----------
    solution
        The incumbent, or None.
    bound
        The proved bound, infinite when there is none.
    bound_proof
        Whether the bound was recomputed in numpy or is a solver's claim.
    backend, backend_version
        Who says so.
    limit
        What stopped the search early, or None.
    infeasible
        Whether the problem is proved to have no solution.
    conflict
        Then, the requirements in conflict in the user's words.
    stages
        For a goal of several levels that the method solves by itself, what is proved of each.
    repairs, sensitivities, assumptions
        As in `alloc.result.Result`.
    """

    solution: S | None
    bound: float
    bound_proof: BoundProof
    backend: str
    backend_version: str
    limit: Limit | None = None
    infeasible: bool = False
    conflict: str | None = None
    stages: tuple[Stage, ...] = ()
    repairs: tuple[Repair, ...] = ()
    sensitivities: Sequence[Sensitivity] = ()
    assumptions: tuple[str, ...] = ()


def timed_log(settings: Settings, progress: Progress | None) -> tuple[list[str], Progress]:
    """Return a log, and what writes a line into it with the time and passes it on.

    Parameters
    ----------
    settings
        Holds when the solve started.
    progress
        Takes each line too, or None.
    """
    log: list[str] = []

    def report(line: str) -> None:
        log.append(f"{time.perf_counter() - settings.started:8.2f} s  {line}")
        if progress is not None:
            progress(log[-1])

    return log, report
