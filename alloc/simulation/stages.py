"""Jobs with stages in the simulator: a stage arrives when those before it have ended."""

from __future__ import annotations

from collections.abc import Iterator

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.stages import graph_of
from alloc.simulation.information import Forecast
from alloc.simulation.live import LiveJob


class StagedJobs:
    """The stages of jobs in the system, and which of them wait for others.

    Positions are those of the instance unfolded.

    Parameters
    ----------
    instance
        The truth, with its stages.
    forecast
        What the policy is told.
    """

    def __init__(self, instance: Instance, forecast: Forecast) -> None:
        self._graph = graph_of(instance)
        self._names = [job.id for job in instance.jobs]
        self._jobs = instance.unfolded.jobs
        self._running = {assignment.job: assignment for assignment in instance.running}
        self._forecast = forecast
        self._waits_for = [len(before) for before in self._graph.before]
        self._ready_s = [job.arrival_s for job in self._jobs]
        self._seen: dict[int, list[LiveJob]] = {}

    @property
    def first(self) -> list[int]:
        """Positions of what arrives with its job."""
        return [k for k, count in enumerate(self._waits_for) if not count]

    def live_job(self, position: int) -> LiveJob:
        """Return what arrives; with the first stage of a job all its stages become known."""
        owner = self._graph.owner[position]
        parts = self._graph.parts[owner]
        if owner not in self._seen:
            self._seen[owner] = self._arrive(owner, parts)
        return self._seen[owner][position - parts[0]]

    def _arrive(self, owner: int, parts: range) -> list[LiveJob]:
        """Return the stages of a job, each of which sees the others."""
        stages = [
            self._forecast.live_job(k, job := self._jobs[k], self._running.get(job.id))
            for k in parts
        ]
        if len(parts) == 1 and self._jobs[parts[0]].id == self._names[owner]:
            return stages  # a job without stages
        views = [live.view for live in stages]
        for k, view in zip(parts, views, strict=True):
            view.job, view.stages = self._names[owner], views
            view.before = [p - parts[0] for p in self._graph.before[k]]
        if self._forecast.speeds_vary:
            self._forecast.look(views, {live.job.id: live for live in stages})
        return stages

    def complete(self, live: LiveJob) -> Iterator[tuple[int, float]]:
        """End a stage; yield the positions of those that waited for it last, and from when."""
        position, end_s = live.view.position, live.completion_s
        live.view.is_complete = True
        if end_s is None:
            raise AssertionError("complete without a completion")
        for k in self._graph.after[position]:
            self._waits_for[k] -= 1
            self._ready_s[k] = max(self._ready_s[k], end_s)
            if not self._waits_for[k]:
                yield k, self._ready_s[k]
        owner = self._graph.owner[position]
        if all(stage.view.is_complete for stage in self._seen[owner]):
            del self._seen[owner]
