"""A placement rule on one queue: who waits is placed beside what runs, in order."""

from __future__ import annotations

import numpy as np

from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.schedulers.placement.free_hosts import FreeHosts
from alloc.schedulers.placement.policy import PlacementPolicy, Request


def place_queue(problem: Instance, policy: PlacementPolicy, seed: int = 0) -> Allocation:
    """Return where a placement rule puts the jobs that wait, in order, beside what runs.

    Who does not fit is passed over. What runs stays where it is.

    Parameters
    ----------
    problem
        The cluster, what runs on it, and the queue.
    policy
        The rule.
    seed
        Seed of rules that draw.
    """
    pool, rng = HostPool(problem.topology), np.random.default_rng(seed)
    jobs = {job.id: job for job in problem.jobs}
    kept = list(problem.running)
    for assignment in kept:
        pool.take(jobs[assignment.job].configurations[assignment.configuration], assignment.tasks)
    free = FreeHosts.of_pool(pool)
    policy.reset()
    running = {assignment.job for assignment in kept}
    for job in problem.jobs:
        if job.id in running:
            continue
        policy.observe(job.configurations)
        for c, configuration in enumerate(job.configurations):
            tasks = policy.place(free, Request(configuration, job.placement), rng)
            if tasks is not None:
                kept.append(Assignment(job.id, c, tasks))
                break
    held = {assignment.job for assignment in kept}
    left = {job.id: "no room" for job in problem.jobs if job.id not in held}
    return Allocation(tuple(kept), left)
