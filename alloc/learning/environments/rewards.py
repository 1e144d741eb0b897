"""Rewards: what an agent is told of how well the time between two decisions went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from alloc.errors import InstanceError, nearest
from alloc.schedulers.state import Scheduler
from alloc.simulation import Simulation
from alloc.workload import Job


class JobElapsed(NamedTuple):
    """What happened to one job between two decisions.

    Parameters
    ----------
    job
        The truth about it.
    seen_work
        Its total work as the agent sees it, work units; the truth where nothing is told.
    done
        Work done in the time, work units.
    in_system_s
        Time it was in the system and not yet counted, seconds: for a job new at this decision from
        its arrival on, and up to its completion if it completed.
    completion_s
        When it completed, seconds, or None.
    """

    job: Job
    seen_work: float
    done: float
    in_system_s: float
    completion_s: float | None


@dataclass(frozen=True)
class Elapsed:
    """What happened between two decisions.

    Parameters
    ----------
    start_s, end_s
        The time, seconds.
    unit_s
        What rewards count time in, seconds: the slot, or an hour in continuous time.
    jobs
        The jobs that were in the system at its start.
    """

    start_s: float
    end_s: float
    unit_s: float
    jobs: tuple[JobElapsed, ...]


Reward = Callable[[Elapsed], float]
"""Says what a time was worth."""


def progress(elapsed: Elapsed) -> float:
    """Return the sum over jobs of the work done over all their work: DL2's reward.

    Undiscounted it adds up to the number of jobs whatever the policy does.
    """
    return sum(job.done / job.seen_work for job in elapsed.jobs)


def jobs_in_system(elapsed: Elapsed) -> float:
    """Return minus the number of jobs in the system, averaged over the time, times its length.

    Undiscounted it adds up to minus the sum of all completion times: what mean JCT asks for.
    """
    return -sum(job.in_system_s for job in elapsed.jobs) / elapsed.unit_s


def weighted_jct(elapsed: Elapsed) -> float:
    """Return minus the weights of the jobs in the system, averaged over the time, times its length.

    Undiscounted it adds up to minus the weighted sum of all completion times.
    """
    return -sum(job.job.weight * job.in_system_s for job in elapsed.jobs) / elapsed.unit_s


def completions(elapsed: Elapsed) -> float:
    """Return the number of jobs that completed."""
    return float(sum(job.completion_s is not None for job in elapsed.jobs))


REWARDS: Mapping[str, Reward] = {
    "progress": progress,
    "jobs-in-system": jobs_in_system,
    "weighted-jct": weighted_jct,
    "completions": completions,
}
"""The rewards by name."""


def reward_function(reward: str | Reward) -> Reward:
    """Return a reward by name, or the function itself.

    Raises
    ------
    InstanceError
        If there is none of that name.
    """
    if not isinstance(reward, str):
        return reward
    if reward not in REWARDS:
        raise InstanceError(
            f'reward "{reward}" is unknown{nearest(reward, REWARDS, ";")} known: '
            f"{', '.join(REWARDS)}; or give a function of Elapsed."
        )
    return REWARDS[reward]


class Clock:
    """Measures what happens between decisions of a simulation, `unit_s` as in `Elapsed`."""

    def __init__(self, simulation: Simulation, unit_s: float) -> None:
        self._simulation = simulation
        self._unit_s = unit_s
        self._start_s = 0.0
        self._before: list[tuple[Job, float, float]] = []
        # Up to when the time of a job in the system has been counted.
        self._counted_s: dict[str, float] = {}

    def start(self) -> None:
        """Note how things stand at a decision, before it is applied."""
        self._start_s = self._simulation.end_s
        self._before = [
            (job, job.work if view.work is None else view.work, left)
            for job, view, left in self._simulation.in_system()
        ]

    def elapsed(self) -> Elapsed:
        """Return what happened since `start`, once the simulation has run to its next decision."""
        simulation, counted = self._simulation, self._counted_s
        end_s = simulation.end_s
        left = simulation.work_left()
        jobs = []
        for job, seen_work, before in self._before:
            since = counted.get(job.id, job.arrival_s)
            after = left.get(job.id)
            completion_s = None if after is not None else simulation.completion_s(job.id)
            until = end_s if completion_s is None else completion_s
            counted[job.id] = until
            jobs.append(
                JobElapsed(job, seen_work, before - (after or 0.0), until - since, completion_s)
            )
        return Elapsed(self._start_s, end_s, self._unit_s, tuple(jobs))


def decisions(
    simulation: Simulation, scheduler: Scheduler, unit_s: float
) -> Iterator[tuple[float, Elapsed]]:
    """Let a scheduler take all decisions of a simulation that has not begun; it is reset first.

    Yields the time of each decision, seconds, and what came of it, `unit_s` as in `Elapsed`.

    Parameters
    ----------
    simulation
        One that has not begun.
    scheduler
        Takes the decisions.
    unit_s
        What rewards count time in, seconds, above 0.
    """
    clock = Clock(simulation, unit_s)
    scheduler.reset()
    state = simulation.next_decision()
    while state is not None:
        now_s = state.now_s
        clock.start()
        simulation.apply(scheduler.decide(state))
        state = simulation.next_decision()
        yield now_s, clock.elapsed()
