"""Rounds of a scheduler: the jobs as it knows them, decided by the exact method of F1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np

from alloc.formulation import Array
from alloc.models.round.data import Fronts, RoundData, make_round_data
from alloc.objectives import RoundUtility, round_utility
from alloc.packing import HostPool
from alloc.problems.allocation.job_view import JobView
from alloc.problems.allocation.solution import Assignment
from alloc.solving.outcome import Settings
from alloc.solving.round.method import optimise_round
from alloc.topology import Topology
from alloc.workload import Job

NODES = 200
"""Nodes of a tree in the round of a scheduler. A count, so that equal inputs give equal decisions
on every machine, busy or not; rounds of the rows of `benchmarks.online` need one."""

_MAX_DONE = 1 - 1e-12
"""Fraction of its work that a job has done at most: whoever is still there has some left."""


class RoundMemory:
    """What a scheduler remembers from round to round: what has not changed is taken over."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._fronts: Fronts | None = None
        self._pool: HostPool | None = None

    def lay_out(
        self,
        topology: Topology,
        views: Sequence[JobView],
        slot_s: float,
        utility: RoundUtility,
        quotas: Mapping[str, int],
    ) -> RoundData:
        """Return the data of a round; the parameters are those of `allocate_round`.

        Parameters
        ----------
        topology, views, slot_s, quotas
            As in `allocate_round`.
        utility
            The round utility.
        """
        jobs: Sequence[Job | JobView] = views
        amounts = None
        if utility.by_work:  # then it asks for nothing else, and no job need be made
            amounts = _amounts(views)
        else:
            self._jobs = {view.id: _as_job(view, self._jobs.get(view.id)) for view in views}
            jobs = list(self._jobs.values())
        data = make_round_data(
            topology, jobs, slot_s, utility, quotas, amounts=amounts, fronts=self._fronts
        )
        self._fronts = data.fronts
        return data

    def pool(self, topology: Topology) -> HostPool:
        """Return all hosts of a topology, free, with the placements that they had before."""
        if self._pool is None or self._pool.topology is not topology:
            self._pool = HostPool(topology)
        self._pool.reset()
        return self._pool


def allocate_round(
    topology: Topology,
    views: Sequence[JobView],
    slot_s: float,
    utility: str,
    quotas: Mapping[str, int],
    *,
    gap: float = 1e-4,
    nodes: int = NODES,
    memory: RoundMemory | None = None,
) -> tuple[tuple[Assignment, ...], dict[str, float]]:
    """Decide a slot for the jobs a scheduler sees, placed on hosts: the exact per-round policy.

    Parameters
    ----------
    topology
        The cluster, empty at the start of the slot.
    views
        The jobs in the system, with work as known.
    slot_s
        Length of the slot, seconds.
    utility
        Name of the round utility.
    quotas
        GPU quota of each tenant, milli-GPU.
    gap
        Relative gap at which to stop.
    nodes
        Most nodes of each integer program: the best choice found by then stands, and the notes
        carry its bound.
    memory
        Of the rounds before; it then remembers this one. None: there were none.

    Returns
    -------
    assignments
        The jobs that run, with hosts.
    notes
        ``utility``, ``bound``, and ``unplaced``: jobs chosen by the model that found no hosts.
    """
    memory = memory or RoundMemory()
    data = memory.lay_out(topology, views, slot_s, round_utility(utility), quotas)
    answer = optimise_round(data, gap=gap, settings=Settings(math.inf, nodes=nodes))
    assignments = data.assignments(answer.x, memory.pool(topology))
    chosen = int(np.rint(answer.x).sum())
    notes = {
        "utility": answer.value,
        "bound": answer.bound,
        "unplaced": float(chosen - len(assignments)),
    }
    return assignments, notes


def _with_work_done(job: Job, done: float) -> Job:
    """Return a job with other work done, which is in its range: nothing else is checked again."""
    changed: Job = object.__new__(Job)
    vars(changed).update(vars(job), work_done=done)
    return changed


def _amounts(views: Sequence[JobView]) -> Array:
    """Return weight, work and work left of jobs as `_as_job` has them, shape (3, jobs)."""
    weight, work, left = (
        np.array(list(map(attrgetter(name), views)), dtype=float)
        for name in ("weight", "work", "work_left")
    )
    work[np.isnan(work)] = 1.0  # None became no number
    left = np.where(np.isnan(left), work, left)
    done = np.minimum(np.maximum(work - left, 0.0), work * _MAX_DONE)
    return np.array([weight, work, work - done])


def _as_job(view: JobView, before: Job | None = None) -> Job:
    """Return the job as the scheduler knows it, the same as before where nothing has changed."""
    work = 1.0 if view.work is None else view.work
    left = work if view.work_left is None else view.work_left
    done = min(max(work - left, 0.0), work * _MAX_DONE)
    if (
        before is not None
        and before.configurations is view.configurations
        and (before.work, before.weight, before.tenant) == (work, view.weight, view.tenant)
        and before.preemptible == view.preemptible
    ):
        return before if before.work_done == done else _with_work_done(before, done)
    return Job(
        view.id,
        0.0,
        work,
        view.configurations,
        weight=view.weight,
        tenant=view.tenant,
        work_done=done,
        preemptible=view.preemptible,
    )
