"""What the rule-based policies share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from alloc.collector import collector_paused
from alloc.packing import HostPool
from alloc.schedulers.grant import Outcome
from alloc.schedulers.honouring import REQUIRED_LEVELS
from alloc.schedulers.memory import Memory
from alloc.schedulers.published import PublishedRule, Rules, published_rule
from alloc.schedulers.round import Round, Watch
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge

NO_DEPARTURES: Mapping[str, bool] = MappingProxyType({})


class Policy:
    """A policy that gives jobs tasks or gangs by a rule.

    In slots every job competes from the empty cluster, except jobs that must not be paused, which
    keep what they have. In continuous time running jobs keep what they have, too, unless they are
    malleable and preemptible, or the policy is `preemptive`. A policy that serves one job after the
    other gives them a `_rank`; another rule is an `_allot`.

    Attributes
    ----------
    watch
        Told of each task as it is given out, in order, or None: how a policy is imitated.
    """

    name: str
    needs: Knowledge
    information: str
    # What `HostPool` keeps, whichever policy asks it.
    features: tuple[str, ...] = (REQUIRED_LEVELS, "GPU memory", "MIG slices")
    preemptive = False
    draws = False
    # Whether the next job is looked at when one does not fit.
    _skip = False

    def __init__(
        self,
        rules: Rules = "alloc",
        max_tasks: int | None = None,
        departures: Mapping[str, bool] = NO_DEPARTURES,
    ) -> None:
        self._memory = Memory()
        self._pool: HostPool | None = None
        self._published: PublishedRule | None = None
        if rules != "alloc" or max_tasks is not None:
            self._published = published_rule(self.name, rules, max_tasks, departures)
        self.watch: Watch | None = None

    @property
    def skip(self) -> bool:
        """Whether the next job is looked at when one does not fit."""
        return self._skip

    @property
    def is_plain(self) -> bool:
        """Whether it goes by the rules of its class alone, and nobody watches."""
        return self._published is None and self.watch is None

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        self._memory.clear()
        self._pool = None
        if self._published is not None:
            self._published.reset()

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        if self._published is not None:
            return self._published.decide(state)
        with collector_paused():
            round_, competing = self._open(state)
            self._allot(round_, competing)
            return self._close(round_, competing)

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        """Give out tasks and gangs by the rule: here to one job after the other, by `_rank`."""
        order = sorted(competing, key=self._rank)  # they come in order of arrival
        serve(round_, order, skip=self._skip)

    def _rank(self, view: JobView) -> float:
        """Return what decides who is served first, the least first; ties go to the arrival."""
        return 0.0

    def _open(self, state: ClusterState) -> tuple[Round, list[JobView]]:
        """Return a round with all that must stay pinned, and the jobs that compete in it."""
        self._memory.begin(len(state.jobs))
        kept: list[JobView] = []
        competing: list[JobView] = []
        for view in state.jobs:
            if view.current is not None and self._stays(view, state):
                kept.append(view)
            else:
                competing.append(view)
        round_ = Round(state, self._memory, self._empty_pool(state), {}, self.watch)
        round_.pin(kept)
        return round_, competing

    def _close(self, round_: Round, competing: Sequence[JobView]) -> Decision:
        """Return the decision of a round."""
        round_.rescue(competing)
        return round_.decision([view for view in competing if view.current is not None])

    def _stays(self, view: JobView, state: ClusterState) -> bool:
        if view.current is None:
            return False
        if not view.preemptible:
            return True
        return state.slot_s is None and not self.preemptive and view.elasticity != "malleable"

    def _empty_pool(self, state: ClusterState) -> HostPool:
        if state.slot_s is not None:
            return state.pool
        if self._pool is None or self._pool.topology is not state.topology:
            self._pool = HostPool(state.topology)
        self._pool.reset()
        return self._pool


def serve(round_: Round, views: Iterable[JobView], *, skip: bool) -> JobView | None:
    """Give jobs as much as they take, one after the other.

    Parameters
    ----------
    round_
        The round.
    views
        The jobs in order of priority.
    skip
        Whether to go on to the next job when one does not fit, or to stop.

    Returns
    -------
    JobView or None
        The job that did not fit and ended the round, if one did.
    """
    for view in views:
        if round_.fill(view) is Outcome.MISFIT and not skip:
            return view
    return None
