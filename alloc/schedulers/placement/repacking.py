"""Exact placement online: every gang decided exactly, and running jobs moved to let one in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from alloc.errors import AllocError
from alloc.packing import HostPool
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment
from alloc.result import Limits
from alloc.schedulers.placement.exactly import in_its_ways, job_of, place_exactly, waiting_job
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.solving.gang import Tree
from alloc.solving.placing.defragmentation import make_room


@dataclass
class Repacking:
    """Serve jobs in order of arrival, each placed exactly; move running jobs when that lets one in.

    A gang starts if and only if there is a place for it beside what runs (`alloc.solving.gang`), in
    the narrowest and tightest domains that hold it. When the head of the queue finds none, the
    policy asks for the fewest moves of preemptible running jobs that let it in
    (`alloc.solving.placing.defragmentation.make_room`) and carries them out if they stay within the
    budget; the simulator charges each moved job its restart cost. The queue ends at the first job
    that does not fit. Jobs of several task groups of which some share GPUs are packed by a best fit
    instead, and never moved. Affinities are not seen: instances with them are refused by the
    simulator.

    Parameters
    ----------
    move_budget
        Most tasks moved for one job; 0 never moves anything.
    time_limit_s
        Wall time for one search for moves, seconds.
    skip
        Go on to the next job when one does not fit.
    """

    move_budget: int = 8
    time_limit_s: float = 2.0
    skip: bool = False
    name = "repack"
    draws = False
    needs: ClassVar[Knowledge] = "none"
    information = "order of arrival, where running jobs are; solves for the fewest moves"
    features: ClassVar[tuple[str, ...]] = ("placement rules",)
    _tree: Tree | None = field(default=None, init=False, repr=False)
    _hopeless: tuple[object, ...] | None = field(default=None, init=False, repr=False)

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._tree = None
        self._hopeless = None

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        if self._tree is None or self._tree.topology is not state.topology:
            self._tree = Tree.of(state.topology)
        pool, now = HostPool(state.topology), dict[str, Assignment]()
        for view in state.running:
            if view.current is not None and view.current.tasks:
                now[view.id] = view.current
                pool.take(view.configurations[view.current.configuration], view.current.tasks)
        before = dict(now)
        held = self._held(state)
        views = {view.id: view for view in state.jobs}
        moves = 0
        for view in state.waiting:
            left = None
            if view.tenant is not None and view.tenant in state.quotas:
                left = state.quotas[view.tenant] - held[view.tenant]
            placed = place_exactly(pool, view, self._tree, left)
            if placed is not None:
                now[view.id] = placed
            else:
                moved = self._make_room(state, view, views, now, left)
                if moved is None:
                    if self.skip:
                        continue
                    break
                moves += 1
                now = moved
                pool = HostPool(state.topology)
                for a in now.values():
                    pool.take(views[a.job].configurations[a.configuration], a.tasks)
            if view.tenant in held:
                chosen = view.configurations[now[view.id].configuration]
                held[view.tenant] += chosen.demand[0]
        # In slots what goes on must be said again; in continuous time only what changes.
        changed = [a for name, a in now.items() if state.slot_s or before.get(name) != a]
        return Decision(tuple(changed), notes={"repackings": float(moves)} if moves else {})

    def _held(self, state: ClusterState) -> dict[str | None, int]:
        held: dict[str | None, int] = dict.fromkeys(state.quotas, 0)
        for view in state.running:
            if view.current is not None and view.tenant in held:
                held[view.tenant] += view.configurations[view.current.configuration].demand[0]
        return held

    def _make_room(
        self,
        state: ClusterState,
        view: JobView,
        views: dict[str, JobView],
        now: dict[str, Assignment],
        left: int | None,
    ) -> dict[str, Assignment] | None:
        """Return a placement of all running jobs with one more, or None if none is found."""
        smallest = min(configuration.demand[0] for configuration in view.configurations)
        question = (view.id, frozenset(now), state.topology)
        if not self.move_budget or question == self._hopeless:
            return None
        free = HostPool(state.topology)
        for a in now.values():
            free.take(views[a.job].configurations[a.configuration], a.tasks)
        if smallest > free.free[:, 0].sum() or (left is not None and smallest > left):
            return None  # no moves make up for GPUs or quota that are not there
        quota = () if left is None else (Tenant(str(view.tenant), max(left, 0)),)
        jobs = [job_of(views[name]).replace(tenant=None) for name in now]
        try:  # a job may fit nowhere while hosts are down
            instance = Instance(
                "repacking",
                state.topology,
                (*jobs, waiting_job(view)),
                tenants=quota,
                running=tuple(now.values()),
            )
            found = make_room(
                instance,
                view.id,
                move_budget=self.move_budget,
                limits=Limits(seconds=self.time_limit_s),
            )
        except AllocError:
            found = None
        if found is None or found.migration is None:
            self._hopeless = question
            return None
        solution = found.result.solution
        assert isinstance(solution, Allocation)
        return {
            a.job: in_its_ways(view, a) if a.job == view.id else a for a in solution.assignments
        }
