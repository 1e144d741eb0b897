"""Placement policies: a queue in order of arrival, and a rule that says where each job goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment, TaskPlacement
from alloc.schedulers.placement.exactly import place_exactly
from alloc.schedulers.placement.free_hosts import FreeHosts
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.solving.gang import Tree
from alloc.topology import Topology
from alloc.workload import NO_RULES, Configuration, PlacementRules


@dataclass(frozen=True)
class Request:
    """One gang to place.

    Parameters
    ----------
    configuration
        Its tasks, and the GPU type and level that they must have.
    rules
        The job's rules about the domains its tasks stand in.
    """

    configuration: Configuration
    rules: PlacementRules = NO_RULES

    @property
    def required(self) -> tuple[str, ...]:
        """Levels of which a single domain must hold all tasks."""
        named = (self.rules.required, self.configuration.within)
        return tuple(dict.fromkeys(level for level in named if level is not None))


class PlacementPolicy(ABC):
    """A queue in order of arrival whose jobs go where a placement rule puts them.

    Jobs run in the fastest of their configurations that the rule finds room for, and stay where
    they are until they complete: nothing is paused or moved. The first job that does not fit ends
    the round. A job that only its tenant's quota holds back is passed over. When nothing runs and
    the rule starts nothing, the first job that can start does.

    Parameters
    ----------
    skip
        Go on to the next job when one does not fit.
    """

    name: str
    needs: Knowledge = "none"
    information: str
    features: tuple[str, ...] = ("placement rules", "GPU memory")
    draws = False

    def __init__(self, *, skip: bool = False) -> None:
        self._skip = skip
        self._blocked: tuple[str, int, Topology] | None = None
        self._observed: set[str] = set()

    @abstractmethod
    def place(
        self, free: FreeHosts, request: Request, rng: np.random.Generator
    ) -> tuple[TaskPlacement, ...] | None:
        """Place a gang and take its capacity, or do nothing.

        Parameters
        ----------
        free
            Free capacity, from which the tasks are taken.
        request
            The gang.
        rng
            For rules that draw.

        Returns
        -------
        tuple of TaskPlacement or None
            Where the tasks are, or None when the rule finds no room.
        """

    def observe(self, configurations: Iterable[Configuration]) -> None:  # noqa: B027 (optional)
        """Look at the configurations of a job that has arrived; for rules that learn the mix."""

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._blocked = None
        self._observed.clear()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        head = next(iter(state.waiting), None)
        if head is None and state.slot_s is None:
            return Decision()
        # The same job is at the head, nobody has left and no host is back: still nothing fits.
        crowd, cluster = len(state.running), state.topology
        if state.slot_s is None and head is not None and self._blocked == (head.id, crowd, cluster):
            return Decision()
        kept, free = self._kept(state)
        started, stopped_at = self._serve(state, free)
        if not started and not kept and not state.running:
            started = self._rescue(state)
        self._blocked = None
        if stopped_at is not None:
            self._blocked = (stopped_at.id, crowd + len(started), cluster)
        return Decision(assign=(*kept, *started))

    def _rescue(self, state: ClusterState) -> list[Assignment]:
        """Place the first job that can start on the empty cluster, whatever the rule.

        A rule may see no room even there, for gangs whose task groups compete for hosts. The job
        would wait for ever.
        """
        pool, tree = HostPool(state.topology), Tree.of(state.topology)
        for view in state.waiting:
            room = None if view.tenant is None else state.quotas.get(view.tenant)
            placed = place_exactly(pool, view, tree, room)
            if placed is not None:
                return [placed]
        return []

    def _kept(self, state: ClusterState) -> tuple[list[Assignment], FreeHosts]:
        """Return what running jobs keep (in slots it must be said again), and what is then free."""
        if state.slot_s is None:
            return [], FreeHosts.of_pool(state.pool)
        pool = HostPool(state.topology)
        kept = []
        for view in state.running:
            if view.current is None:
                continue
            configuration, current = view.configurations[view.current.configuration], view.current
            if current.tasks:
                pool.take(configuration, current.tasks)
                kept.append(current)
            elif (tasks := pool.place(configuration)) is not None:
                # What ran before the start may come without hosts.
                kept.append(Assignment(view.id, current.configuration, tasks))
        return kept, FreeHosts.of_pool(pool)

    def _serve(
        self, state: ClusterState, free: FreeHosts
    ) -> tuple[list[Assignment], JobView | None]:
        """Place waiting jobs; return those placed, and the job that ended the round, if any."""
        held = dict(state.held)
        if state.slot_s is not None:
            held = dict.fromkeys(state.quotas, 0)
            for view in state.running:
                if view.current is not None and view.tenant in held:
                    held[view.tenant] += view.configurations[view.current.configuration].demand[0]
        started: list[Assignment] = []
        for view in state.waiting:
            if view.id not in self._observed:
                self._observed.add(view.id)
                self.observe(view.configurations)
            room = None
            if view.tenant is not None and view.tenant in state.quotas:
                room = state.quotas[view.tenant] - held[view.tenant]
            assignment, held_back = self._start(view, free, room, state.rng)
            if assignment is not None:
                started.append(assignment)
                if room is not None and view.tenant is not None:
                    held[view.tenant] += view.configurations[assignment.configuration].demand[0]
            elif not held_back and not self._skip:
                return started, view
        return started, None

    def _start(
        self, view: JobView, free: FreeHosts, room: int | None, rng: np.random.Generator
    ) -> tuple[Assignment | None, bool]:
        """Place a job in the fastest configuration that fits; say whether only its quota bars it.

        Parameters
        ----------
        view
            The job.
        free
            What to take from.
        room
            What its tenant's quota leaves, milli-GPU, or None.
        rng
            For rules that draw.
        """
        configurations = view.configurations
        order = sorted(range(len(configurations)), key=lambda c: -configurations[c].rate)
        if view.bound_to is not None:
            order = [view.bound_to]
        within_quota = False
        for c in order:
            configuration = configurations[c]
            if configuration.rate <= 0 or (room is not None and configuration.demand[0] > room):
                continue
            within_quota = True
            if not _may_fit(free, configuration):
                continue
            tasks = self.place(free, Request(configuration, view.placement), rng)
            if tasks is not None:
                return Assignment(view.id, c, tasks), False
        return None, not within_quota


def _may_fit(free: FreeHosts, configuration: Configuration) -> bool:
    """Return whether the cluster as a whole has what a gang asks for."""
    return bool((configuration.demand <= free.in_all()).all())
