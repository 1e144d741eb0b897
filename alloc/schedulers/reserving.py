"""Reservations for every waiting job: conservative backfilling, and lists that look ahead.

Nothing that runs is touched, also in slots. Reservations are made anew at each decision, with the
run times as known then.

References
----------
Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling", IEEE TPDS 12(6), 2001 (conservative). Graham, "Bounds on
multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969 (longest first). Turek, Wolf, Yu,
"Approximate algorithms for scheduling parallelizable tasks", SPAA 1992 (allotments).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from alloc.clock import check_time
from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.backfilling import Backfilling, Reservation, run_s
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.workload import Configuration


@dataclass(frozen=True)
class _Held:
    """Tasks on hosts from a time to another."""

    start_s: float
    end_s: float
    configuration: Configuration
    tasks: tuple[TaskPlacement, ...]


class Reservations:
    """What is free when, as jobs that run and jobs with a reservation hold it.

    Parameters
    ----------
    state
        What the policy sees.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._held: list[_Held] = []
        self._quota = dict(state.held)
        self.started: list[Assignment] = []
        for view in state.running:
            current = view.current
            assert current is not None
            configuration = view.configurations[current.configuration]
            # What runs holds its hosts now, even if the time that it has left is lost in the sum.
            end_s = max(
                state.now_s + run_s(view, configuration), math.nextafter(state.now_s, math.inf)
            )
            self._held.append(_Held(state.now_s, end_s, configuration, current.tasks))
            if state.slot_s is not None:
                self.started.append(current)
                self._count(view, configuration)
        self._pools: dict[float, HostPool] = {}

    def _count(self, view: JobView, configuration: Configuration) -> None:
        if view.tenant is not None:
            held = self._quota.get(view.tenant, 0) + configuration.demand[0]
            self._quota[view.tenant] = held

    def within_quota(self, view: JobView, configuration: Configuration) -> bool:
        """Return whether the job's tenant has quota left for a configuration now.

        Parameters
        ----------
        view
            The job.
        configuration
            The configuration.
        """
        if view.tenant is None or view.tenant not in self.state.quotas:
            return True
        held = self._quota.get(view.tenant, 0) + configuration.demand[0]
        return held <= self.state.quotas[view.tenant]

    def first(self, view: JobView, configuration: Configuration) -> Reservation | None:
        """Return the first reservation of a job in a configuration; None for none.

        It is the first time at which hosts that the rule of placement chooses stay free as long as
        the job is expected to run.

        Parameters
        ----------
        view
            The job.
        configuration
            The configuration.
        """
        length_s, required = run_s(view, configuration), view.placement.required
        moments = sorted({self.state.now_s, *(own.end_s for own in self._held)})
        for start_s in moments:
            check_time()
            if math.isinf(start_s):
                break
            pool = self._pool(start_s)
            tasks = pool.place(configuration, required=required)
            if tasks is None:
                continue
            pool.release(configuration, tasks)
            later = (
                own.start_s for own in self._held if start_s < own.start_s < start_s + length_s
            )
            if all(self._pool(moment).fits(configuration, tasks) for moment in sorted(set(later))):
                return Reservation(view, start_s, pool, tasks)
        return None

    def now(self, view: JobView, configuration: Configuration) -> tuple[TaskPlacement, ...] | None:
        """Return hosts that are free for a job now, whatever comes later; None for none.

        Parameters
        ----------
        view
            The job.
        configuration
            The configuration.
        """
        pool = self._pool(self.state.now_s)
        tasks = pool.place(configuration, required=view.placement.required)
        if tasks is not None:
            pool.release(configuration, tasks)
        return tasks

    def keep(self, reserved: Reservation, choice: int) -> bool:
        """Hold what a job has reserved, and start it if its time is now; return whether it did.

        Parameters
        ----------
        reserved
            The reservation.
        choice
            Position of its configuration.
        """
        view, tasks = reserved.job, reserved.tasks
        configuration = view.configurations[choice]
        end_s = reserved.start_s + run_s(view, configuration)
        self._held.append(_Held(reserved.start_s, end_s, configuration, tasks))
        self._pools.clear()
        if reserved.start_s > self.state.now_s:
            return False
        self.started.append(Assignment(view.id, choice, tasks))
        self._count(view, configuration)
        return True

    def _pool(self, moment_s: float) -> HostPool:
        """Return what is free at a time."""
        if moment_s not in self._pools:
            pool = HostPool(self.state.topology)
            for own in self._held:
                if own.start_s <= moment_s < own.end_s:
                    pool.take(own.configuration, own.tasks)
            self._pools[moment_s] = pool
        return self._pools[moment_s]


class _Reserving:
    """What all policies here have in common: no memory, and nothing drawn."""

    draws = False
    needs: Knowledge = "estimate"
    features = ("required levels", "GPU memory", "MIG slices")

    def reset(self) -> None:
        """Forget everything; called before each simulation."""


class ConservativeBackfill(_Reserving):
    """First come, first served, with a reservation for every job that waits.

    In order of arrival each job gets the first time at which it fits beside all jobs that run and
    all reservations before its own; whose time is now starts. So a job may overtake only if it
    delays nobody, and a large gang is never starved. A job that may choose runs in its fastest
    configuration; one that only its tenant's quota holds back is passed over.

    References
    ----------
    Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.
    """

    name = "conservative-backfill"
    information = "order of arrival and run time"

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Parameters
        ----------
        state
            What the policy sees.
        """
        return Decision(assign=tuple(reserved_in_order(state)[0].started))


def reserved_in_order(state: ClusterState) -> tuple[Reservations, dict[str, Reservation]]:
    """Return the reservations of the jobs that wait, each the first beside those before its own.

    Parameters
    ----------
    state
        What the policy sees.
    """
    choices, ahead = Backfilling(state), Reservations(state)
    reserved = {}
    for view in state.waiting:
        c = choices.choice(view)
        if c is None or not ahead.within_quota(view, view.configurations[c]):
            continue
        found = ahead.first(view, view.configurations[c])
        if found is not None:
            ahead.keep(found, c)
            reserved[view.id] = found
    return ahead, reserved


class TurnAround(_Reserving):
    """In order of arrival, each job in the configuration in which it completes first.

    The completion counts the wait for the configuration beside all jobs that run and all that came
    before: a small gang now, or a large one later. Whose reservation is now starts.

    References
    ----------
    Turek, Wolf, Yu, SPAA 1992, for allotments and lists; the choice by completion is the earliest
    finish of list scheduling.
    """

    name = "turn-around"
    information = "order of arrival and run time"

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Parameters
        ----------
        state
            What the policy sees.
        """
        ahead = Reservations(state)
        for view in state.waiting:
            best: tuple[float, int, Reservation] | None = None
            for c in choices_of(view):
                configuration = view.configurations[c]
                if not ahead.within_quota(view, configuration):
                    continue
                found = ahead.first(view, configuration)
                if found is None:
                    continue
                end_s = found.start_s + run_s(view, configuration)
                if best is None or end_s < best[0]:
                    best = (end_s, c, found)
            if best is not None:
                ahead.keep(best[2], best[1])
        return Decision(assign=tuple(ahead.started))


class Lpt(_Reserving):
    """Longest processing time first, in allotments that balance the longest run against the load.

    Of the allotments of least area that keep every run within a time, the one is taken whose longer
    of longest run and load over capacity is least, over all jobs that wait. Jobs start longest
    first; one that does not fit is passed over.

    References
    ----------
    Graham, SIAM J. Appl. Math. 17, 1969; Turek, Wolf, Yu, SPAA 1992.
    """

    name = "lpt"
    information = "run time"

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`.

        Parameters
        ----------
        state
            What the policy sees.
        """
        ahead = Reservations(state)
        waiting = list(state.waiting)
        chosen = allotment(waiting, state.topology.totals)
        order = sorted(waiting, key=lambda v: -run_s(v, v.configurations[chosen[v.id]]))
        for view in order:
            c = chosen[view.id]
            configuration = view.configurations[c]
            if not ahead.within_quota(view, configuration):
                continue
            tasks = ahead.now(view, configuration)
            if tasks is not None:
                ahead.keep(Reservation(view, state.now_s, state.pool, tasks), c)
        return Decision(assign=tuple(ahead.started))


def choices_of(view: JobView) -> list[int]:
    """Return the configurations that a waiting job may run in, the fastest first.

    Parameters
    ----------
    view
        The job.
    """
    if view.bound_to is not None:
        return [view.bound_to]
    able = [c for c, configuration in enumerate(view.configurations) if configuration.rate > 0]
    return sorted(able, key=lambda c: (-view.configurations[c].rate, view.configurations[c].demand))


def allotment(views: Iterable[JobView], totals: Iterable[float]) -> dict[str, int]:
    """Return a configuration for each job: of least area within the time that balances all.

    Parameters
    ----------
    views
        The jobs.
    totals
        What the cluster has of each resource.
    """
    have = [float(total) for total in totals]
    ways: dict[str, list[tuple[float, float, int]]] = {}
    for view in views:
        ways[view.id] = []
        for c in choices_of(view):
            configuration = view.configurations[c]
            if any(n > total for n, total in zip(configuration.demand, have, strict=True)):
                continue
            shares = [n / total for n, total in zip(configuration.demand, have, strict=True) if n]
            length_s = run_s(view, configuration)
            ways[view.id].append((length_s, max(shares, default=0.0) * length_s, c))
        if not ways[view.id]:
            ways[view.id] = [(math.inf, math.inf, choices_of(view)[0])]
    best: tuple[float, dict[str, int]] = (math.inf, {id_: own[0][2] for id_, own in ways.items()})
    for time_s in sorted({length for own in ways.values() for length, _, _ in own}):
        chosen = {}
        longest = area = 0.0
        for id_, own in ways.items():
            # Of those within the time the least area; if none is, the fastest.
            able = [way for way in own if way[0] <= time_s] or own[:1]
            length_s, load, c = min(able, key=lambda way: (way[1], way[0]))
            chosen[id_], longest, area = c, max(longest, length_s), area + load
        if max(longest, area) < best[0]:
            best = (max(longest, area), chosen)
    return best[1]
