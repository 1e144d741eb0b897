"""What the network of the kind ``stage-graph/1`` is shown: stages, jobs, and the ways to go on.

Nothing names a job, and nothing grows with the cluster or the queue: GPUs are shares of the
cluster, and times are stated relative to the mean GPU time that a stage in the system still takes.
So a network can be asked about more jobs, larger graphs and other clusters than it was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.schedulers.graphs import least_gpu_s, least_time_s, paths_of, stages_of
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import ClusterState, JobView
from alloc.units import MILLI

STAGE_FEATURES = ("time", "work", "scaling", "path", "held", "ready", "waits_for")
"""The columns of a stage that has not ended. ``time``, ``work`` and ``path``: logs of the least
time and the least GPU time that it still takes, and of the longest path from its start to the end
of its job, over the unit. ``scaling``: rate per GPU of its fastest configuration over that of its
thriftiest, 0 to 1. ``held``: share of the cluster's GPUs that it holds. ``ready``: 1 if it may be
started in this step, else 0. ``waits_for``: log of 1 plus the stages that it still waits for. The
unit is the mean GPU time that a stage in the system still takes, GPU seconds."""

JOB_FEATURES = ("left", "weight", "path", "held", "stages")
"""The columns of a job. ``left``: log of the GPU time that its stages still take over the mean of
the jobs. ``weight``: log of its weight over their mean. ``path``: log of its longest path over the
unit. ``held``: share of the cluster's GPUs that it holds. ``stages``: log of 1 plus its stages that
have not ended."""

WAY_FEATURES = (
    "gpus",
    "of_free",
    "time",
    "slower",
    "thrift",
    "free",
    "others",
    "next_end",
    "delay",
    "waits",
)
"""The columns of a way to go on: to start a stage in a configuration, or to wait. ``gpus`` and
``of_free``: the GPUs that it takes, of the cluster and of those that are free, 0 to 1. ``time``:
log of the time that the stage then takes over the unit. ``slower``: log of that time over the time
of the fastest configuration. ``thrift``: log of its rate per GPU over that of the thriftiest
configuration. ``free``: share of the cluster's GPUs that is free. ``others``: log of 1 plus the
other stages that may be started. ``next_end``: log of 1 plus the time to the next end of a stage
that runs, over the unit; 0 if none runs. ``delay``: log of 1 plus the time for which GPUs move to
the job over the time of the stage. ``waits``: 1 for waiting, where all that speaks of a stage is
0."""

CLIP = 8.0
"""Largest size of a feature: logs of ratios up to 3,000."""

_TINY = 1e-12
"""Least number that a logarithm is taken of, or that divides: far below what `CLIP` leaves."""

Array = npt.NDArray[np.float64]
Tensors = dict[str, npt.NDArray[np.float32]]

STAGES, JOBS, WAYS = "stages", "jobs", "ways"
"""Inputs of features, and the axes over them."""
FOLLOWS, STAGES_OF, STAGE_OF = "follows", "stages_of", "stage_of"
"""Inputs of zeros and ones: which stages (columns) wait for which (rows); which are of which job;
and which one each way starts, none for waiting."""


@dataclass(frozen=True)
class Way:
    """A way to go on: start a stage in a configuration.

    Parameters
    ----------
    view
        The stage.
    configuration
        Position of the configuration.
    delay_s
        Time for which GPUs first move to the job, seconds.
    """

    view: JobView
    configuration: int
    delay_s: float = 0.0


class StageGraph:
    """The stages of all jobs in the system that have not ended, as arrays.

    Parameters
    ----------
    state
        What the scheduler sees.
    """

    def __init__(self, state: ClusterState) -> None:
        self._gpus = float(max(state.topology.num_gpus, 1))
        jobs: dict[str, Sequence[JobView]] = {}
        for view in state.jobs:
            jobs.setdefault(view.job or view.id, stages_of(view))
        self.views: list[JobView] = []
        self._job_of: list[int] = []
        paths: list[float] = []
        edges: list[tuple[int, int]] = []
        for j, stages in enumerate(jobs.values()):
            row_of: dict[int, int] = {}
            for k, (view, path) in enumerate(
                zip(stages, paths_of(stages, least_time_s), strict=True)
            ):
                if not view.is_complete:
                    row_of[k] = len(self.views)
                    self.views.append(view)
                    self._job_of.append(j)
                    paths.append(path)
            edges += [
                (row_of[p], row)
                for k, row in row_of.items()
                for p in stages[k].before
                if p in row_of
            ]
        self.row = {view.id: row for row, view in enumerate(self.views)}
        work = np.array([least_gpu_s(view) for view in self.views])
        self.unit_s = max(float(work.mean()), _TINY) if len(work) else 1.0
        self._ends_s = [(v.id, _left_s(v)) for v in self.views if v.current is not None]
        self._ways = [_Table(view) for view in self.views]
        n, m = len(self.views), len(jobs)
        self._follows = np.zeros((n, n), np.float32)
        for before, after in edges:
            self._follows[before, after] = 1.0
        self._stages_of = np.zeros((m, n), np.float32)
        self._stages_of[self._job_of, np.arange(n)] = 1.0
        rows = np.zeros((n, len(STAGE_FEATURES)))
        rows[:, 0] = self._logs([least_time_s(view) for view in self.views])
        rows[:, 1] = self._logs(work)
        rows[:, 2] = [table.scaling for table in self._ways]
        rows[:, 3] = self._logs(paths)
        rows[:, 6] = np.log1p(self._follows.sum(axis=0))
        self._stages = rows
        weight = np.zeros(m)
        weight[self._job_of] = [view.weight for view in self.views]
        left = self._stages_of @ work
        longest = np.zeros(m)
        np.maximum.at(longest, self._job_of, paths)
        rows = np.zeros((m, len(JOB_FEATURES)))
        if m:
            rows[:, 0] = np.log(np.maximum(left / max(left.mean(), _TINY), _TINY))
            rows[:, 1] = np.log(weight / weight.mean())
            rows[:, 2] = self._logs(longest)
            rows[:, 4] = np.log1p(self._stages_of.sum(axis=1))
        self._jobs = rows

    def _logs(self, values: Sequence[float] | Array) -> Array:
        return np.asarray(np.log(np.maximum(np.asarray(values) / self.unit_s, _TINY)))

    def tensors(
        self, ways: Sequence[Way], held: Mapping[str, float], ready: int, *, may_wait: bool
    ) -> Tensors:
        """Return what the network is shown before a step.

        Parameters
        ----------
        ways
            The ways to start a stage.
        held
            GPUs that each running stage holds, by id.
        ready
            Stages that may be started.
        may_wait
            Whether waiting is one more way, the last.
        """
        share = np.array([held.get(view.id, 0.0) for view in self.views]) / self._gpus
        stages = self._stages.copy()
        stages[:, 4] = share
        stages[[self.row[way.view.id] for way in ways], 5] = 1.0
        jobs = self._jobs.copy()
        jobs[:, 3] = self._stages_of @ share
        free = max(self._gpus - sum(held.values()), 0.0)
        count = len(ways) + may_wait
        stage_of = np.zeros((count, len(self.views)), np.float32)
        rows = np.zeros((count, len(WAY_FEATURES)))
        for k, way in enumerate(ways):
            at = self.row[way.view.id]
            stage_of[k, at] = 1.0
            table, c = self._ways[at], way.configuration
            time_s = table.left / table.rates[c]
            rows[k, :5] = (
                table.gpus[c] / self._gpus,
                min(table.gpus[c] / free, 1.0) if free > 0 else 1.0,
                math.log(max(time_s / self.unit_s, _TINY)),
                math.log(table.fastest / table.rates[c]),
                math.log(table.rates[c] / max(table.gpus[c], 1 / MILLI) / table.thriftiest),
            )
            rows[k, 8] = math.log1p(way.delay_s / max(time_s, _TINY))
        ends = [end for name, end in self._ends_s if name in held]
        rows[:, 5] = free / self._gpus
        rows[:, 6] = math.log1p(max(ready - 1, 0))
        rows[:, 7] = math.log1p(min(ends) / self.unit_s) if ends else 0.0
        if may_wait:
            rows[-1, 9] = 1.0
        return {
            STAGES: _clipped(stages),
            FOLLOWS: self._follows,
            JOBS: _clipped(jobs),
            STAGES_OF: self._stages_of,
            WAYS: _clipped(rows),
            STAGE_OF: stage_of,
        }


class _Table:
    """Rates and GPUs of a stage's configurations, and the work that it has left."""

    def __init__(self, view: JobView) -> None:
        self.left = max(work_of(view)[1], _TINY)
        self.rates = [c.rate for c in view.configurations]
        self.gpus = [c.demand[0] / MILLI for c in view.configurations]
        thrift = [r / max(g, 1 / MILLI) for r, g in zip(self.rates, self.gpus, strict=True)]
        best = max(range(len(self.rates)), key=self.rates.__getitem__)
        self.fastest, self.thriftiest = self.rates[best], max(thrift)
        self.scaling = thrift[best] / self.thriftiest


def _left_s(view: JobView) -> float:
    """Return the time that a running stage still takes as it runs, seconds."""
    assert view.current is not None
    rate = view.configurations[view.current.configuration].rate
    return work_of(view)[1] / rate if rate > 0 else math.inf


def _clipped(rows: Array) -> npt.NDArray[np.float32]:
    return np.clip(rows, -CLIP, CLIP).astype(np.float32)
