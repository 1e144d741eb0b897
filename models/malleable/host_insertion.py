"""Schedules built on hosts from the start: each job takes the first slots in which its gang stands.

Profiles see capacity rows, not hosts. Where gangs fit the rows of a slot and not its hosts
together, placing a plan pauses jobs, and some must not be paused. Insertion on hosts loses to good
profiles where everything packs, but what it returns is placed, and it always returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from alloc.models.malleable.data import Array, SlotData
from alloc.models.malleable.placing import Held, Placed, runs_of
from alloc.packing import HostPool, place_alone
from alloc.problems.allocation.solution import Schedule, TaskPlacement, same_place
from alloc.progress import WORK_TOLERANCE


def insert_on_hosts(data: SlotData, order: Iterable[int]) -> Schedule:
    """Return the schedule in which jobs take their slots in order; limits are not looked at.

    Parameters
    ----------
    data
        The instance on its slots.
    order
        Positions of all jobs; those that run and may not pause go first in any case.
    """
    builder = _Hosts(data)
    jobs = data.instance.jobs
    slots = {j: builder.insert(j) for j in sorted(order, key=lambda j: not data.started[j])}
    return Schedule(tuple(run for j in slots for run in runs_of(data, jobs[j], slots[j])))


class _Hosts:
    """The hosts and the capacity rows left in every slot."""

    def __init__(self, data: SlotData) -> None:
        self.data = data
        self.pools: list[HostPool] = []
        self.left: list[Array] = []
        self.running = {
            data.instance.job_index[a.job]: (a.configuration, a.tasks)
            for a in data.instance.running
        }

    def insert(self, j: int) -> list[Placed]:
        """Give a job the slots in which it completes earliest, in the ways tried."""
        job, table = self.data.instance.jobs[j], self.data.table(j)
        fastest = np.argsort(-table.rate, kind="stable").tolist()
        if job.preemptible and job.elasticity == "malleable":
            return self._run(j, fastest)[0]
        tried = []
        for c in fastest:
            slots, end = self._run(j, [c])
            tried.append((end, c))
            self._give_back(j, slots)
        return self._run(j, [min(tried)[1]])[0]

    def _run(self, j: int, columns: Sequence[int]) -> tuple[list[Placed], float]:
        """Run a job in the first of some configurations that stands in each slot; when it ends.

        A job that may not pause begins again where it would have to. On an empty cluster it goes
        on, so this ends.
        """
        job, table = self.data.instance.jobs[j], self.data.table(j)
        restart = job.restart_cost_s / self.data.slot_s
        held: Held | None = self.running.get(j)
        started = held is not None or job.work_done > 0
        again = started
        work = float(self.data.work[j])
        left, t = work, int(self.data.release[j])
        slots: list[Placed] = []
        while True:
            found = self._place(t, j, columns, held)
            if found is None and slots and not job.preemptible:
                self._give_back(j, slots)
                slots, left, started = [], work, again
            if found is None:
                held = None
            else:
                column, tasks = found
                c = int(table.configuration[column])
                stays = held is not None and held[0] == c and same_place(held[1], tasks)
                pause = restart if started and not stays else 0.0
                slots.append((t, c, tasks))
                held, started = (c, tasks), True
                rate = float(table.rate[column])
                if left <= rate * (1 - pause) + WORK_TOLERANCE * job.work:
                    return slots, t + pause + left / rate
                left -= rate * (1 - pause)
            t += 1

    def _place(
        self, t: int, j: int, columns: Sequence[int], held: Held | None
    ) -> tuple[int, tuple[TaskPlacement, ...]] | None:
        """Take the capacity of the first configuration that stands in a slot, if one does."""
        while len(self.pools) <= t:
            self.pools.append(HostPool(self.data.instance.topology))
            self.left.append(self.data.rows.capacity.copy())
        job, table, pool = self.data.instance.jobs[j], self.data.table(j), self.pools[t]
        empty = bool((self.left[t] >= self.data.rows.capacity).all())
        for column in columns:
            if (table.use[column] > self.left[t] + 1e-6).any():
                continue
            c = int(table.configuration[column])
            configuration = job.configurations[c]
            if held is not None and held[0] == c and held[1] and pool.fits(configuration, held[1]):
                tasks: tuple[TaskPlacement, ...] | None = tuple(held[1])
                pool.take(configuration, held[1])
            else:
                tasks = pool.place(configuration)
            if tasks is None and empty:
                tasks = place_alone(self.data.instance.topology, configuration)
                pool.take(configuration, tasks or ())
            if tasks is not None:
                self.left[t] -= table.use[column]
                return column, tasks
        return None

    def _give_back(self, j: int, slots: Sequence[Placed]) -> None:
        """Give the capacity of slots back."""
        job, table = self.data.instance.jobs[j], self.data.table(j)
        for t, c, tasks in slots:
            self.pools[t].release(job.configurations[c], tasks)
            self.left[t] += table.use[table.column_of[c]]
