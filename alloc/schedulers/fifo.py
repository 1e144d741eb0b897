"""FIFO: first come, first served."""

from __future__ import annotations

from alloc.schedulers.policy import Policy, serve
from alloc.schedulers.published import Rules
from alloc.schedulers.round import Round
from alloc.schedulers.state import ClusterState, Decision, Knowledge
from alloc.topology import Topology


class Fifo(Policy):
    """Serve jobs in order of arrival; each takes all it can use before the next.

    Parameter-server jobs take bundles of one worker and one PS up to the top of their table; other
    jobs take the fastest configuration that fits. Nobody overtakes: the first job that does not fit
    ends the round. In continuous time running jobs are never touched, so only the head of the queue
    is looked at. A job that only its tenant's quota holds back is passed over.

    Parameters
    ----------
    skip
        Go on to the next job when one does not fit (departure from the published rule, which
        stops).
    rules
        ``dl2`` follows the rules of DL2's evaluation to the letter (`alloc.schedulers.published`),
        for comparisons with its code; ``alloc`` as far as they make sense on any cluster and table.
    max_tasks
        With the rules of DL2, most workers, and most PSs, of a job; None: as its table has.

    References
    ----------
    The FIFO of the DL2 evaluation: Peng et al., "DL2: A Deep Learning-Driven Scheduler for Deep
    Learning Clusters", IEEE TPDS 2021, and its released code. Departures: ties go to the order of
    the instance (there: memory addresses).
    """

    name = "fifo"
    needs: Knowledge = "none"
    information = "order of arrival"

    def __init__(
        self, *, skip: bool = False, rules: Rules = "alloc", max_tasks: int | None = None
    ) -> None:
        super().__init__(rules, max_tasks, {"skip": skip})
        self._skip = skip
        self._blocked: tuple[str, int, Topology] | None = None

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        super().reset()
        self._blocked = None

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        if state.slot_s is None and self._published is None:
            return self._admit(state)
        return super().decide(state)

    def _admit(self, state: ClusterState) -> Decision:
        """Start waiting jobs in continuous time."""
        head = next(iter(state.waiting), None)
        # The same job is at the head, nobody has left and no host is back: still nothing fits.
        if head is None or self._blocked == (head.id, len(state.running), state.topology):
            return Decision()
        round_ = Round(state, self._memory, state.pool, dict(state.held))
        stopped_at = serve(round_, state.waiting, skip=self._skip)
        if not state.running:
            round_.rescue(state.waiting)
        decision = round_.decision()
        self._blocked = None
        if stopped_at is not None and not decision.assign:
            self._blocked = (head.id, len(state.running), state.topology)
        elif stopped_at is not None and stopped_at is not head:
            crowd = len(state.running) + len(decision.assign)
            self._blocked = (stopped_at.id, crowd, state.topology)
        return decision
