"""The future as a rollout sees it: the known jobs served in a fixed order until all are complete.

Capacity is that of the whole cluster; hosts, and jobs still to arrive, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_FIELD_BITS = 48
"""Bits of one resource in a packed demand: more than any cluster has MiB of memory."""


@dataclass(frozen=True)
class KnownJob:
    """A job as the future sees it.

    Parameters
    ----------
    weight, left
        Weight of its completion time, and remaining work as known, work units, more than 0.
    ways
        The ways it may run, the fastest first: rate in work units per second, more than 0, and
        demand of the whole cluster's resources.
    restart_s
        Seconds lost when it resumes after a pause.
    started, runs
        Whether it has run before, so that its next start is a restart unless it runs now; whether
        it does.
    pausable
        Whether it may be paused.
    """

    weight: float
    left: float
    ways: tuple[tuple[float, tuple[int, ...]], ...]
    restart_s: float = 0.0
    started: bool = False
    runs: bool = False
    pausable: bool = True


class ListFuture:
    """List schedules of the known jobs: what each order of service costs.

    At every decision jobs are served in one fixed order; each takes the fastest of its ways that
    fits what is left of the cluster's resources, and is passed over if none does. The next decision
    comes when a job has completed: at once in continuous time, at the end of the slot in slots, as
    in the simulator.
    """

    def __init__(
        self, jobs: Sequence[KnownJob], capacity: Sequence[int], slot_s: float | None
    ) -> None:
        self.jobs = jobs
        self.capacity = capacity
        self._slot_s = slot_s
        # All resources of a demand in one integer, a guard bit above each: a difference that would
        # be negative borrows its guard, so that one comparison tells whether everything fits.
        # Amounts that no choice of the jobs can use up are left out.
        scarce = [
            r
            for r, have in enumerate(capacity)
            if sum(max(way[1][r] for way in job.ways) for job in jobs) > have
        ]
        self._guard = sum(1 << (_FIELD_BITS * (k + 1) - 1) for k in range(len(scarce)))
        self._free = self._guard + _pack(capacity[r] for r in scarce)
        self._ways = [
            tuple((_pack(demand[r] for r in scarce), rate) for rate, demand in job.ways)
            for job in jobs
        ]
        self._least = [tuple(min(way[1][r] for way in job.ways) for r in scarce) for job in jobs]
        self._left = [job.left for job in jobs]
        self._weight = [job.weight for job in jobs]
        # Most instances pause jobs at will and for free: the loop then need not look.
        self._plain = all(job.pausable and not job.restart_s for job in jobs)
        self.num_steps = 0

    def cost(self, order: Sequence[int], at_most: float = math.inf) -> float:
        """Return the weighted sum of completion times from now on, weight times seconds.

        Infinite if some job can never run.

        Parameters
        ----------
        order
            Positions of the jobs, the first to be served first.
        at_most
            The answer may be infinite as soon as it is known to exceed this.
        """
        guard, slot_s = self._guard, self._slot_s
        queue = list(order)
        left, ways, weight = self._left.copy(), self._ways, self._weight
        least = self._least_from(queue)
        pauses = None if self._plain else _Pauses(self.jobs, queue)
        if pauses is not None:
            queue = pauses.pinned_first(queue)
        waiting_weight = math.fsum(weight)
        now_s = total = 0.0
        while queue:
            free = self._free
            running: list[tuple[int, float]] = []
            soonest_s = math.inf
            for i in queue:
                if (free - least[i]) & guard != guard:
                    break
                for demand, rate in ways[i]:
                    rest = free - demand
                    if rest & guard == guard:
                        free = rest
                        running.append((i, rate))
                        lasts_s = left[i] / rate
                        if lasts_s < soonest_s:
                            soonest_s = lasts_s
                        break
            self.num_steps += len(running)
            if not running:
                return math.inf
            if pauses is not None:
                soonest_s = pauses.charge(running, left)
            step_s = soonest_s
            if slot_s is not None:
                # What is left may be less than rounding; it takes a slot all the same.
                step_s = slot_s * max(math.ceil(soonest_s / slot_s - 1e-9), 1)
            done = []
            for i, rate in running:
                rest_s = left[i] / rate - step_s
                if rest_s <= 1e-9 * step_s:
                    total += weight[i] * (now_s + left[i] / rate)
                    waiting_weight -= weight[i]
                    done.append(i)
                else:
                    left[i] = rest_s * rate
            now_s += step_s
            if total + waiting_weight * now_s > at_most:
                return math.inf
            gone = set(done)
            queue = [i for i in queue if i not in gone]
            if pauses is not None:
                queue = pauses.pinned_first(queue)
        return total

    def _least_from(self, queue: Sequence[int]) -> list[int]:
        """Return for each job the packed least demand of it and all behind it."""
        least = [0] * len(self.jobs)
        if queue:
            so_far = self._least[queue[-1]]
            for i in reversed(queue):
                so_far = tuple(map(min, so_far, self._least[i]))
                least[i] = _pack(so_far)
        return least


class _Pauses:
    """Keeps account of what pauses cost, and of what must not be paused."""

    def __init__(self, jobs: Sequence[KnownJob], order: Sequence[int]) -> None:
        self._jobs = jobs
        self._started = {i for i in order if jobs[i].started}
        self._ran = {i for i in order if jobs[i].runs}

    def pinned_first(self, queue: Sequence[int]) -> list[int]:
        """Return the queue with the jobs in front that must not be paused."""
        pinned = {i for i in self._ran if not self._jobs[i].pausable}
        if not pinned:
            return list(queue)
        return [i for i in queue if i in pinned] + [i for i in queue if i not in pinned]

    def charge(self, running: Sequence[tuple[int, float]], left: list[float]) -> float:
        """Add the restarts of those that run now; return when the first completes, seconds."""
        for i, rate in running:
            if i in self._started and i not in self._ran:
                left[i] += self._jobs[i].restart_s * rate
        self._ran = {i for i, _ in running}
        self._started |= self._ran
        return min(left[i] / rate for i, rate in running)


def _pack(amounts: Iterable[int]) -> int:
    return sum(int(amount) << (_FIELD_BITS * k) for k, amount in enumerate(amounts))
