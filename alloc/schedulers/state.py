"""What a scheduler sees, and what it answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, overload

import numpy as np

from alloc.packing import HostPool
from alloc.problems.allocation.executors import Executors
from alloc.problems.allocation.job_view import JobView as JobView
from alloc.problems.allocation.solution import Assignment
from alloc.topology import Topology
from alloc.workload import InterferenceTable

Knowledge = Literal["exact", "estimate", "none"]


class JobTable(Sequence[JobView]):
    """Jobs in order of arrival, looked up by position or id, that a simulator keeps up to date.

    Adding the last to arrive, removing, and looking at the first take constant time, so that a
    policy which only looks at the head of the queue costs the same however long the queue is.

    Parameters
    ----------
    views
        The first jobs.
    refresh
        Brings a view up to the present; called for each view that is handed out.
    """

    def __init__(
        self, views: Iterable[JobView] = (), refresh: Callable[[JobView], None] | None = None
    ) -> None:
        # Not a plain dict: deleting from the head of one leaves holes that every look at the head
        # has to step over.
        self._views: OrderedDict[str, JobView] = OrderedDict()
        self._refresh = refresh
        self._in_order = True
        for view in views:
            self.add(view)

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[JobView]:
        if not self._in_order:
            self._sort()
        if self._refresh is None:
            return iter(self._views.values())
        return self._refreshed(self._refresh)

    def _refreshed(self, refresh: Callable[[JobView], None]) -> Iterator[JobView]:
        for view in self._views.values():
            refresh(view)
            yield view

    @overload
    def __getitem__(self, position: int) -> JobView: ...

    @overload
    def __getitem__(self, position: slice) -> list[JobView]: ...

    def __getitem__(self, position: int | slice) -> JobView | list[JobView]:
        return list(self)[position]

    def get(self, job_id: str) -> JobView | None:
        """Return the job with that id, or None if it is not here."""
        view = self._views.get(job_id)
        if view is not None and self._refresh is not None:
            self._refresh(view)
        return view

    def add(self, view: JobView) -> None:
        """Add a job."""
        if self._views and self._views[next(reversed(self._views))].in_order > view.in_order:
            self._in_order = False
        self._views[view.id] = view

    def remove(self, job_id: str) -> None:
        """Remove a job."""
        del self._views[job_id]

    def _sort(self) -> None:
        views = sorted(self._views.values(), key=lambda view: view.in_order)
        self._views = OrderedDict((view.id, view) for view in views)
        self._in_order = True


@dataclass
class ClusterState:
    """What a scheduler may look at: the time, the jobs in the system, the cluster.

    Parameters
    ----------
    now_s
        Time of the decision, seconds.
    slot_s
        Length of the coming slot, seconds, or None in continuous time.
    jobs
        Jobs that have arrived and are not complete, in order of arrival (ties: instance order).
    topology
        The cluster as it stands: hosts that are down are not in it. It is another object after a
        host went down or came back, and only then.
    pool
        Free capacity: in rounds the empty cluster; in continuous time what running jobs leave.
        A scheduler may take from it while it decides.
    quotas
        Most GPU of each tenant, milli-GPU.
    knowledge
        What the scheduler was given.
    rng
        The experiment's random generator, for policies that draw.
    waiting, running
        The jobs without and with something in `current`, each in order of arrival; derived from
        `jobs` unless given.
    executors
        Where GPUs take time to move from job to job: which job each served last; else None.
    held
        GPU that running jobs hold, for each tenant with a quota, milli-GPU; zero in rounds, which
        start from an empty cluster. Derived unless given.
    interference
        How jobs slow each other down on one GPU, by their models; rates are those without.
    """

    now_s: float
    slot_s: float | None
    jobs: Sequence[JobView]
    topology: Topology
    pool: HostPool
    quotas: Mapping[str, int]
    knowledge: Knowledge
    rng: np.random.Generator
    waiting: Sequence[JobView] = ()
    running: Sequence[JobView] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    executors: Executors | None = None
    interference: tuple[InterferenceTable, ...] = ()

    def __post_init__(self) -> None:
        if self.jobs and not self.waiting and not self.running:
            self.waiting = [view for view in self.jobs if view.current is None]
            self.running = [view for view in self.jobs if view.current is not None]
        if self.quotas and not self.held:
            held = dict.fromkeys(self.quotas, 0)
            for view in self.running if self.slot_s is None else ():
                if view.current is not None and view.tenant in held:
                    configuration = view.configurations[view.current.configuration]
                    held[view.tenant] += configuration.demand[0]
            self.held = held


@dataclass(frozen=True)
class Decision:
    """What a scheduler wants from now on.

    Parameters
    ----------
    assign
        Jobs with the configuration and hosts they get from now on.
    release
        Running jobs to pause. In rounds every job that is not in `assign` is paused anyway.
    notes
        Counters for the report, for example fallbacks of a rolling horizon.
    wake_s
        In continuous time, ask to decide again at this time at the latest, seconds; None: at the
        next arrival or completion.
    refuse
        Jobs that are left out for good: they may be refused and have never run.
    """

    assign: tuple[Assignment, ...] = ()
    release: tuple[str, ...] = ()
    notes: Mapping[str, float] = field(default_factory=dict)
    wake_s: float | None = None
    refuse: tuple[str, ...] = ()


class Scheduler(Protocol):
    """A scheduling policy.

    `name` is unique; `needs` is the least knowledge it works with (``none`` for policies that never
    look at work); `information` says in one sentence what it uses. An optional attribute `features`
    names the rules that it honours (`alloc.schedulers.honouring`); without it, it honours none, and
    instances with such rules are refused. An optional attribute `draws` says whether the policy
    uses `ClusterState.rng`; without it, it may.
    """

    name: str
    needs: Knowledge
    information: str

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        ...

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        ...
