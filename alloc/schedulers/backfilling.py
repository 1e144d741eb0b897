"""Backfilling of rigid jobs: a reservation for one job, and others as long as they do not delay it.

References
----------
Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY); Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling",
IEEE TPDS 12(6), 2001.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.workload import Configuration

_NAMED = 4
"""Hosts that a sentence names."""


@dataclass
class Reservation:
    """The time at which a waiting job can start at the latest, and what is free then.

    Parameters
    ----------
    job
        The job.
    start_s
        When it fits once those that run have ended as expected, seconds.
    then
        What is free then, before the job is placed.
    tasks
        Its hosts, where they are held for it.
    """

    job: JobView
    start_s: float
    then: HostPool
    tasks: tuple[TaskPlacement, ...] = ()

    @property
    def sentence(self) -> str:
        """When and where the job starts, for people."""
        hosts = list(dict.fromkeys(task.host for task in self.tasks))
        more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
        where = f" on {', '.join(hosts[:_NAMED])}{more}" if hosts else ""
        return (
            f"a start is reserved at {self.start_s:,.6g} s{where}, if what runs ends as expected "
            "and jobs start in order of arrival"
        )


class Backfilling:
    """A decision: start jobs, reserve for one, start others behind it.

    Running jobs are never touched: in slots they get again what they had. A job that may choose its
    configuration runs in the fastest one that the empty cluster and its tenant's quota hold.

    Parameters
    ----------
    state
        What the policy sees.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.pool = state.pool
        self.reservation: Reservation | None = None
        self.started: list[Assignment] = []
        self._held = dict(state.held)
        self._choices: dict[tuple[int, str | None, str | None], int | None] = {}
        # What runs from now on: expected end, configuration and hosts.
        self._running: list[tuple[float, Configuration, Assignment]] = []
        for view in state.running:
            current = view.current
            assert current is not None
            configuration = view.configurations[current.configuration]
            if state.slot_s is not None:
                self.pool.take(configuration, current.tasks)
                self.started.append(current)
                self._hold(view, configuration)
            end_s = state.now_s + run_s(view, configuration)
            self._running.append((end_s, configuration, current))

    def configuration(self, view: JobView) -> Configuration | None:
        """Return the configuration that a waiting job would run in, or None if none is allowed."""
        c = self.choice(view)
        return None if c is None else view.configurations[c]

    def choice(self, view: JobView) -> int | None:
        """Return the position of that configuration, or None."""
        if view.bound_to is not None:
            return view.bound_to
        if len(view.configurations) == 1:
            return 0
        key = (id(view.configurations), view.tenant, view.placement.required)
        if key not in self._choices:
            self._choices[key] = self._fastest(view)
        return self._choices[key]

    def _fastest(self, view: JobView) -> int | None:
        quota = self.state.quotas.get(view.tenant or "", math.inf)
        order = sorted(
            range(len(view.configurations)),
            key=lambda c: (-view.configurations[c].rate, view.configurations[c].demand),
        )
        for c in order:
            configuration = view.configurations[c]
            if configuration.rate <= 0 or configuration.demand[0] > quota:
                continue
            empty = HostPool(self.state.topology)
            if empty.place(configuration, required=view.placement.required) is not None:
                return c
        return None

    def _hold(self, view: JobView, configuration: Configuration) -> None:
        if view.tenant is not None:
            self._held[view.tenant] = self._held.get(view.tenant, 0) + configuration.demand[0]

    def within_quota(self, view: JobView) -> bool:
        """Return whether the job's tenant has quota left for it."""
        configuration = self.configuration(view)
        if configuration is None:
            return False
        if view.tenant is None or view.tenant not in self.state.quotas:
            return True
        held = self._held.get(view.tenant, 0) + configuration.demand[0]
        return held <= self.state.quotas[view.tenant]

    def fits(self, view: JobView) -> bool:
        """Return whether a job could start now without delaying the reservation."""
        placed = self._place(view)
        if placed is None:
            return False
        configuration = view.configurations[placed.configuration]
        self.pool.release(configuration, placed.tasks)
        return self._harmless(view, placed)

    def start(self, view: JobView) -> bool:
        """Start a job, if it fits and does not delay the reservation; return whether it did."""
        placed = self._place(view)
        if placed is None:
            return False
        configuration = view.configurations[placed.configuration]
        if not self._harmless(view, placed):
            self.pool.release(configuration, placed.tasks)
            return False
        end_s = self.state.now_s + run_s(view, configuration)
        self._running.append((end_s, configuration, placed))
        self.started.append(placed)
        self._hold(view, configuration)
        if self.reservation is not None and end_s > self.reservation.start_s:
            self.reservation.then.take(configuration, placed.tasks)
        return True

    def reserve(self, view: JobView) -> Reservation | None:
        """Reserve for a job that does not fit now: the first time at which it will.

        None where it would not even fit if all that runs had ended: it waits for hosts that are
        down, nobody knows how long, and nobody waits for it.
        """
        topology = self.state.topology
        then = HostPool(topology)
        for _, configuration, running in self._running:
            then.take(configuration, running.tasks)
        start_s = self.state.now_s
        wanted, required = self.configuration(view), view.placement.required
        assert wanted is not None
        for end_s, configuration, running in sorted(self._running, key=lambda r: r[0]):
            placed = then.place(wanted, required=required)
            if placed is not None:
                then.release(wanted, placed)
                break
            then.release(configuration, running.tasks)
            start_s = end_s
        else:
            if (placed := then.place(wanted, required=required)) is None:
                return None
            then.release(wanted, placed)
        self.reservation = Reservation(view, start_s, then)
        return self.reservation

    def decision(self) -> Decision:
        """Return the decision."""
        return Decision(assign=tuple(self.started))

    def _place(self, view: JobView) -> Assignment | None:
        choice = self.choice(view)
        if choice is None or not self.within_quota(view):
            return None
        tasks = self.pool.place(view.configurations[choice], required=view.placement.required)
        return None if tasks is None else Assignment(view.id, choice, tasks)

    def _harmless(self, view: JobView, placed: Assignment) -> bool:
        """Return whether the reserved job still starts in time beside a job on its hosts."""
        reserved, configuration = self.reservation, view.configurations[placed.configuration]
        if reserved is None or self.state.now_s + run_s(view, configuration) <= reserved.start_s:
            return True
        then, wanted = reserved.then, self.configuration(reserved.job)
        if wanted is None or not then.fits(configuration, placed.tasks):
            return False
        then.take(configuration, placed.tasks)
        room = then.place(wanted, required=reserved.job.placement.required)
        if room is not None:
            then.release(wanted, room)
        then.release(configuration, placed.tasks)
        return room is not None


def run_s(view: JobView, configuration: Configuration) -> float:
    """Return the remaining time of a job as known, seconds; infinite if unknown.

    Parameters
    ----------
    view
        What the scheduler sees of the job.
    configuration
        One of its configurations.
    """
    if view.work_left is None or configuration.rate <= 0:
        return math.inf
    return view.work_left / configuration.rate


class EasyBackfill:
    """First come, first served, with EASY backfilling.

    Jobs start in order of arrival. The first that does not fit gets a reservation: the time at
    which it fits if those that run end as expected. Jobs behind it start now if they fit and do
    not delay it: they end before, or stand on hosts that it does not need. Nothing that runs is
    touched, also in slots. A job that may choose runs in its fastest configuration; one that only
    its tenant's quota holds back is passed over.

    References
    ----------
    Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.
    """

    name = "easy-backfill"
    draws = False
    needs: Knowledge = "estimate"
    information = "order of arrival and run time"
    features = ("required levels", "GPU memory", "MIG slices")

    def reset(self) -> None:
        """Forget everything; called before each simulation."""

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        filling = Backfilling(state)
        for view in state.waiting:
            started = filling.start(view)
            if not started and filling.reservation is None and filling.within_quota(view):
                filling.reserve(view)
        return filling.decision()
