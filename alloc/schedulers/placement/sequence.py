"""Arrival sequences: jobs come one by one and stay, and a rule places each or turns it away."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.schedulers.placement.free_hosts import FreeHosts
from alloc.schedulers.placement.policy import PlacementPolicy, Request
from alloc.units import MILLI


@dataclass(frozen=True)
class SequenceResult:
    """What became of an arrival sequence.

    Parameters
    ----------
    instance
        The jobs in order of arrival, and the cluster.
    allocation
        Where the placed jobs are; the others are in `Allocation.unplaced`.
    seconds
        Time that the rule took in all, seconds.
    """

    instance: Instance
    allocation: Allocation
    seconds: float

    @cached_property
    def arrived(self) -> npt.NDArray[np.int64]:
        """GPU demand that has arrived with each job, milli-GPU, shape (jobs,)."""
        return np.cumsum([job.configurations[0].demand[0] for job in self.instance.jobs])

    @cached_property
    def allocated(self) -> npt.NDArray[np.int64]:
        """GPU held after the arrival of each job, milli-GPU, shape (jobs,)."""
        held = np.zeros(len(self.instance.jobs), dtype=np.int64)
        for a in self.allocation.assignments:
            j = self.instance.job_index[a.job]
            held[j] = self.instance.jobs[j].configurations[a.configuration].demand[0]
        return np.cumsum(held)

    def ratio_at(self, percent: int) -> float:
        """Return the allocated part of all GPUs, percent, when a part of them was asked for.

        As in the published evaluation of FGD, the mean over all jobs with whose arrival the demand
        that has arrived rounds to that percentage of the cluster's GPUs; NaN if there is none.
        """
        unit = self.instance.topology.num_gpus * MILLI / 100.0
        at = np.round(self.arrived / unit) == percent
        return float((self.allocated[at] / unit).mean()) if at.any() else float("nan")

    @property
    def decision_s(self) -> float:
        """Mean time of a decision, seconds."""
        return self.seconds / len(self.instance.jobs)


def place_in_order(instance: Instance, policy: PlacementPolicy, *, seed: int = 0) -> SequenceResult:
    """Let a rule place the jobs of an instance one by one; who finds no room is turned away.

    Parameters
    ----------
    instance
        The jobs, in order of arrival. Times mean nothing: nobody leaves, and nobody tries again.
    policy
        The rule. Of a job with several configurations the fastest that finds room is taken.
    seed
        Seed of what the rule draws.
    """
    rng = np.random.default_rng(seed)
    free = FreeHosts(instance.topology)
    policy.reset()
    requests: dict[tuple[int, int], tuple[tuple[int, Request], ...]] = {}
    placed: list[Assignment] = []
    unplaced: dict[str, str] = {}
    began = time.perf_counter()
    for job in instance.jobs:
        policy.observe(job.configurations)
        key = (id(job.configurations), id(job.placement))
        if key not in requests:
            order = sorted(enumerate(job.configurations), key=lambda item: -item[1].rate)
            requests[key] = tuple((c, Request(found, job.placement)) for c, found in order)
        for c, request in requests[key]:
            tasks = policy.place(free, request, rng)
            if tasks is not None:
                placed.append(Assignment(job.id, c, tasks))
                break
        else:
            unplaced[job.id] = f"{policy.name} found no room for it when it arrived."
    seconds = time.perf_counter() - began
    return SequenceResult(instance, Allocation(tuple(placed), unplaced), seconds)
