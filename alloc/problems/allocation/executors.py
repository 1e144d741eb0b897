"""Executors: which job each GPU served last, and how long a run waits for those that move.

Of an instance with `move_s` a GPU stays with the job whose stage it ran last. What starts on a host
takes GPUs of its own job first, then those that served nobody yet, then those of other jobs, the
longest idle first. If it takes one of another job, it does nothing for `move_s` at its start. What
goes on where it is keeps its GPUs. A GPU whose run ends while it still moves serves nobody: whoever
takes it next, that job as well, waits for the whole of `move_s`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Assignment, Run, Schedule, same_place
from alloc.problems.allocation.stages import graph_of
from alloc.units import MILLI

_UNDERWAY = -1
"""Owner of GPUs that began to move and did not arrive: no job has this position."""


@dataclass(order=True)
class _Idle:
    """GPUs of a host that have been idle since one moment, and the job that they served."""

    since_s: float
    owner: int
    count: int


class Executors:
    """Keeps which job each GPU served last, while runs start and end in order of time.

    Parameters
    ----------
    instance
        The problem, as it is asked.
    """

    def __init__(self, instance: Instance) -> None:
        parts = instance.unfolded.jobs
        self.move_s = instance.move_s
        self._jobs = {part.id: part for part in parts}
        self._position = {part.id: k for k, part in enumerate(parts)}
        self._owner = dict(zip(self._position, graph_of(instance).owner, strict=True))
        topology = instance.topology
        self._fresh = {
            host.id: int(row[0]) // MILLI
            for host, row in zip(topology.hosts, topology.capacity, strict=True)
        }
        # Of runs that took GPUs of other jobs: when these have moved, seconds, and how many on each
        # host.
        self._moving: dict[str, tuple[float, dict[str, int]]] = {}
        # Sorted, so that the longest idle come first.
        self._idle: dict[str, list[_Idle]] = {host.id: [] for host in topology.hosts}

    def delay_s(self, part: str, gpus: float) -> float:
        """Return for how long so many GPUs would move to a stage's job, hosts left aside, seconds.

        Parameters
        ----------
        part
            Id of the stage.
        gpus
            GPUs that it would take.
        """
        owner = self._owner[part]
        own = sum(i.count for its in self._idle.values() for i in its if i.owner == owner)
        return self.move_s if gpus > own + sum(self._fresh.values()) else 0.0

    def start(self, started: Iterable[Assignment | Run], now_s: float) -> dict[str, float]:
        """Let runs start at one moment; return how long each waits for GPUs that move, seconds.

        Those of a moment see the same idle GPUs: all take their own first, then in the order of the
        instance.

        Parameters
        ----------
        started
            What starts.
        now_s
            When, seconds.
        """
        runs = sorted(started, key=lambda run: self._position[run.job])
        needs = [self._needs(run) for run in runs]
        for run, need in zip(runs, needs, strict=True):
            for host in need:
                need[host] -= self._take(host, need[host], self._owner[run.job])
        for need in needs:
            for host in need:
                fresh = min(need[host], self._fresh[host])
                self._fresh[host] -= fresh
                need[host] -= fresh
        found = {}
        for run, need in zip(runs, needs, strict=True):
            moves = any(need.values())
            found[run.job] = self.move_s if moves else 0.0
            self._moving.pop(run.job, None)
            if moves:
                self._moving[run.job] = (now_s + self.move_s, need)
            for host, count in need.items():
                self._take(host, count, None)
        return found

    def end(self, run: Assignment | Run, now_s: float) -> None:
        """Let a run end: its GPUs are idle from now on, and stay with its job if they moved to it.

        Parameters
        ----------
        run
            What ends.
        now_s
            When, seconds.
        """
        moved_s, moving = self._moving.pop(run.job, (now_s, {}))
        for host, count in self._needs(run).items():
            underway = moving.get(host, 0) if now_s < moved_s else 0
            for owner, part in ((self._owner[run.job], count - underway), (_UNDERWAY, underway)):
                if part:
                    self._idle[host].append(_Idle(now_s, owner, part))
            self._idle[host].sort()

    def _needs(self, run: Assignment | Run) -> dict[str, int]:
        """Return the GPUs that a run takes on each host."""
        groups = {g.role: g for g in self._jobs[run.job].configurations[run.configuration].tasks}
        found: dict[str, int] = {}
        for task in run.tasks:
            gpus = groups[task.role].gpu_milli // MILLI * task.count
            found[task.host] = found.get(task.host, 0) + gpus
        return found

    def _take(self, host: str, count: int, owner: int | None) -> int:
        """Take up to so many idle GPUs of a host, of one job or of any; return how many."""
        left = count
        for idle in self._idle[host]:
            if owner is None or idle.owner == owner:
                taken = min(left, idle.count)
                idle.count -= taken
                left -= taken
        self._idle[host] = [idle for idle in self._idle[host] if idle.count]
        return count - left


def move_delays(instance: Instance, schedule: Schedule) -> Mapping[str, Mapping[float, float]]:
    """Return how long each job of an instance unfolded waits at its starts for GPUs that move.

    By job and by start, seconds; empty without `move_s`. A run that only continues the one before
    is no start: its GPUs stay where they are.

    Parameters
    ----------
    instance
        The problem.
    schedule
        A schedule of it.
    """
    if not instance.move_s:
        return {}
    executors, found = Executors(instance), dict[str, dict[float, float]]()
    runs = [run for own in _known_runs(instance, schedule) for run in _joined(own)]
    ending: Sequence[Run] = sorted(runs, key=lambda run: run.end_s)
    starting: dict[float, list[Run]] = {}
    for run in runs:
        starting.setdefault(run.start_s, []).append(run)
    at = 0
    for now_s in sorted(starting):
        while at < len(ending) and ending[at].end_s <= now_s:
            executors.end(ending[at], ending[at].end_s)
            at += 1
        for job, delay_s in executors.start(starting[now_s], now_s).items():
            found.setdefault(job, {})[now_s] = delay_s
    return found


def _known_runs(instance: Instance, schedule: Schedule) -> Iterator[list[Run]]:
    """Yield the runs of each job in order; what is no run at all is for the checker to say."""
    known = {part.id: part for part in instance.unfolded.jobs}
    hosts = instance.topology.host_index
    for job, runs in schedule.runs_of.items():
        if job not in known:
            continue
        ways = known[job].configurations
        yield [
            run
            for run in runs
            if 0 <= run.configuration < len(ways)
            and math.isfinite(run.start_s)
            and math.isfinite(run.end_s)
            and all(
                task.host in hosts
                and any(group.role == task.role for group in ways[run.configuration].tasks)
                for task in run.tasks
            )
        ]


def _joined(runs: Iterable[Run]) -> list[Run]:
    """Return the runs of a job, those that continue the one before joined to it."""
    found: list[Run] = []
    for run in runs:
        before = found[-1] if found else None
        if (
            before is not None
            and before.configuration == run.configuration
            and before.end_s == run.start_s
            and same_place(before.tasks, run.tasks)
        ):
            found.pop()
            run = replace(before, end_s=run.end_s)
        found.append(run)
    return found
