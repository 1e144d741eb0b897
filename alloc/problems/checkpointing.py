"""Checkpointing: after which phases of a run is its state saved, when failures lose the rest?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.problems import Problem
from alloc.tabular import Tabular
from alloc.units import require_non_negative

MAX_MTBFS = 50.0
"""The longest attempt at a phase, or recovery, in mean times between failures. It is survived once
in exp(50) = 5e21 tries; a run with a longer one never ends, and its expected time is not a
number."""


@dataclass(frozen=True)
class Phase:
    """A stretch of a run between two points at which its state can be saved.

    Parameters
    ----------
    work_s
        Time that it takes without failures, seconds, above 0.
    checkpoint_s
        Time to save the state after it, seconds, 0 or more.
    recovery_s
        Time to load the state saved after it, seconds, 0 or more.
    """

    work_s: float
    checkpoint_s: float = 0.0
    recovery_s: float = 0.0


@dataclass(frozen=True)
class CheckpointProblem(Problem):
    """A run on machines that fail: phases one after the other, each of which may end in a save.

    Failures are a Poisson process that never rests: one may fall into work, a save or a recovery.
    It takes the run back to the last state saved.

    Parameters
    ----------
    name
        For people.
    phases
        The phases in order, at least one.
    mtbf_s
        Mean time between failures of all machines of the run together, seconds, above 0: of one
        machine, divided by their number.
    downtime_s
        Time from a failure to the beginning of the recovery, seconds, 0 or more.
    restart_s
        Time to begin the run anew where nothing is saved yet, seconds, 0 or more.

    Raises
    ------
    InstanceError
        If a number makes no sense, or a phase is so long that the run would never end.
    """

    name: str
    phases: tuple[Phase, ...]
    mtbf_s: float
    downtime_s: float = 0.0
    restart_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.phases:
            raise InstanceError(f"{self.name}: has no phases; give at least one.")
        if not (self.mtbf_s > 0 and math.isfinite(self.mtbf_s)):
            raise InstanceError(f"{self.name}: mtbf_s is {self.mtbf_s:g}; give seconds above 0.")
        require_non_negative(self.downtime_s, self.name, "downtime_s")
        require_non_negative(self.restart_s, self.name, "restart_s")
        longest = self.restart_s
        for k, phase in enumerate(self.phases):
            where = f"{self.name}: phase {k}"
            if not (phase.work_s > 0 and math.isfinite(phase.work_s)):
                raise InstanceError(f"{where}: work_s is {phase.work_s:g}; give seconds above 0.")
            require_non_negative(phase.checkpoint_s, where, "checkpoint_s")
            require_non_negative(phase.recovery_s, where, "recovery_s")
            longest = max(longest, phase.work_s + phase.checkpoint_s, phase.recovery_s)
        if longest > MAX_MTBFS * self.mtbf_s:
            raise InstanceError(
                f"{self.name}: {longest:g} s without a point to save at are more than "
                f"{MAX_MTBFS:g} times mtbf_s, {self.mtbf_s:g}, so the run never ends; split the "
                "phase, or use fewer machines."
            )
        everywhere = CheckpointPlan(tuple(range(len(self.phases)))).expected_s(self)
        if not math.isfinite(everywhere):
            raise InstanceError(
                f"{self.name}: the expected time is beyond all numbers; give mtbf_s and downtime_s "
                "in seconds."
            )

    def expected_s(self, begin: int, end: int) -> float:
        """Return the expected time from one saved state to the next.

        Parameters
        ----------
        begin
            First phase of the stretch; the state before it is saved, or the run begins with it.
        end
            First phase that is not part of it; the state is saved before that one.

        Returns
        -------
        float
            Seconds: ``(1/l + D) exp(l R) (exp(l (W + C)) - 1)`` for the rate of failures l,
            downtime D, recovery R, work W and save C (M. Bougeret et al., "Checkpointing strategies
            for parallel jobs", SC 2011, Theorem 1); infinite where that is not a number.
        """
        work = math.fsum(phase.work_s for phase in self.phases[begin:end])
        attempt = (work + self.phases[end - 1].checkpoint_s) / self.mtbf_s
        recovery = self.phases[begin - 1].recovery_s if begin else self.restart_s
        try:
            tries = math.exp(recovery / self.mtbf_s) * math.expm1(attempt)
        except OverflowError:
            return math.inf
        return (self.mtbf_s + self.downtime_s) * tries


@dataclass(frozen=True)
class CheckpointPlan(Tabular):
    """When the state of a run is saved.

    Parameters
    ----------
    after
        The phases after which it is, by position from 0, in order; the last phase is one of them.

    Raises
    ------
    InstanceError
        If a position is not a whole number.
    """

    after: tuple[int, ...]

    def __post_init__(self) -> None:
        for k in self.after:
            if not isinstance(k, int) or isinstance(k, bool):
                raise InstanceError(f"checkpoint plan: after has {k!r}; give positions of phases.")

    def expected_s(self, problem: CheckpointProblem) -> float:
        """Return the expected time of the whole run, seconds."""
        begins = (0, *(k + 1 for k in self.after))
        return math.fsum(
            problem.expected_s(begin, k + 1) for begin, k in zip(begins, self.after, strict=False)
        )
