"""The future as a rollout sees it: the known jobs served in a fixed order until all are complete.

Capacity is that of the whole cluster; hosts, and jobs still to arrive, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import lt

_FIELD_BITS = 48
"""Bits of one resource in a packed demand: more than any cluster has MiB of memory."""


@dataclass(frozen=True)
class KnownJob:
    """A job as the future sees it.

    Parameters
    ----------
    weight, left_s
        Weight of its completion time, and seconds that its remaining work takes, more than 0.
    demand
        What its gang takes of the whole cluster's resources.
    restart_s
        Seconds lost when it resumes after a pause.
    started, runs
        Whether it has run before, so that its next start is a restart unless it runs now; whether
        it does.
    pausable
        Whether it may be paused.
    """

    weight: float
    left_s: float
    demand: tuple[int, ...]
    restart_s: float = 0.0
    started: bool = False
    runs: bool = False
    pausable: bool = True


class ListFuture:
    """List schedules of the known jobs: what each order of service costs.

    At every decision jobs are served in one fixed order; each runs if its gang fits what is left of
    the cluster's resources, and is passed over if not. The next decision comes when a job has
    completed: at once in continuous time, at the end of the slot in slots, as in the simulator.
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
        scarce = [r for r, have in enumerate(capacity) if sum(job.demand[r] for job in jobs) > have]
        self._guard = sum(1 << (_FIELD_BITS * (k + 1) - 1) for k in range(len(scarce)))
        self._free = self._guard + _pack(capacity[r] for r in scarce)
        self._amounts = [tuple(job.demand[r] for r in scarce) for job in jobs]
        self._demand = [_pack(amounts) for amounts in self._amounts]
        self._left_s = [job.left_s for job in jobs]
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
        left_s, demand, weight = self._left_s.copy(), self._demand, self._weight
        least_behind = self._least_behind(queue)
        pauses = None if self._plain else _Pauses(self.jobs, queue)
        if pauses is not None:
            queue = pauses.pinned_first(queue)
        waiting_weight = math.fsum(weight)
        now_s = total = 0.0
        while queue:
            free = self._free
            running: list[int] = []
            for i in queue:
                rest = free - demand[i]
                if rest & guard == guard:
                    free = rest
                    running.append(i)
                    if (free - least_behind[i]) & guard != guard:
                        break
            self.num_steps += len(running)
            if not running:
                return math.inf
            if pauses is not None:
                pauses.charge(running, left_s)
            step_s = min([left_s[i] for i in running])
            if slot_s is not None:
                # What is left may be less than rounding; it takes a slot all the same.
                step_s = slot_s * max(math.ceil(step_s / slot_s - 1e-9), 1)
            for i in running:
                rest_s = left_s[i] - step_s
                if rest_s <= 1e-9 * step_s:
                    total += weight[i] * (now_s + left_s[i])
                    waiting_weight -= weight[i]
                    queue.remove(i)
                else:
                    left_s[i] = rest_s
            now_s += step_s
            if total + waiting_weight * now_s > at_most:
                return math.inf
            if pauses is not None:
                queue = pauses.pinned_first(queue)
        return total

    def _least_behind(self, queue: Sequence[int]) -> list[int]:
        """Return for each job a packed demand that none behind it is below, in any resource.

        It is 0 for the last, and for what must not be paused: that moves to the front.
        """
        least = [0] * len(self.jobs)
        behind, so_far = 0, None
        for i in reversed(queue):
            if self.jobs[i].pausable:
                least[i] = behind
            amounts = self._amounts[i]
            if so_far is None or any(map(lt, amounts, so_far)):
                so_far = amounts if so_far is None else tuple(map(min, so_far, amounts))
                behind = _pack(so_far)
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

    def charge(self, running: Sequence[int], left_s: list[float]) -> None:
        """Add the restarts of those that run now to the seconds that are left of them."""
        for i in running:
            if i in self._started and i not in self._ran:
                left_s[i] += self._jobs[i].restart_s
        self._ran = set(running)
        self._started |= self._ran


def _pack(amounts: Iterable[int]) -> int:
    return sum(int(amount) << (_FIELD_BITS * k) for k, amount in enumerate(amounts))
