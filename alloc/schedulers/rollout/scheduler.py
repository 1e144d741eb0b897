"""An online scheduler that prices the future: rollouts for gangs, fluid prices for elastic jobs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.learned.job_set import JobSetRound
from alloc.schedulers.learned.job_set_choice import Chooser
from alloc.schedulers.learned.job_set_hosts import Usher, usher_for
from alloc.schedulers.learned.job_set_ladders import Array, Index
from alloc.schedulers.learned.job_set_rule import SetRule
from alloc.schedulers.policy import Policy, serve
from alloc.schedulers.rollout.fluid import LEAST_FREE, FluidPrices, Kinds, follow, worth_of_work
from alloc.schedulers.rollout.future import KnownJob, ListFuture
from alloc.schedulers.rollout.orders import best_order
from alloc.schedulers.rollout.rounds_ahead import (
    LEAST_LEFT,
    LEAST_RATE,
    LEAST_ROUNDS,
    Ahead,
    ByRule,
    ByWorth,
    Followed,
    score_of,
    work_left,
)
from alloc.schedulers.state import ClusterState, Decision, JobView, Knowledge
from alloc.units import require_positive

_ROUND_QUANTILE = 0.1
"""In continuous time a round is taken to last as long as a tenth of the jobs need to complete."""


@dataclass(frozen=True)
class _Plan:
    """A choice for the coming round, the scores it was made by, and what decides the next ones."""

    column: Index
    score: Array
    policy: Followed


class Rollout(Policy):
    """Choose each round by what it leaves to the future of the known jobs.

    Two cases, by what the jobs in the system may still choose.

    **Gangs** (every job has one way to run): some orders of service - shortest remaining time
    first, Smith's rule on the area, between the two, arrival - are each followed to the completion
    of all known jobs, and so are changes to the best of them. The order with the least weighted
    sum of completion times decides this round: the rollout algorithm, whose base rules are the
    rules that it must not lose to.

    **Elastic jobs**: the fluid relaxation of all known jobs is brought near its optimum by prices
    of capacity over time. Its prices say what a unit of each job's work is worth; the round with
    the largest worth under the capacity of the cluster is chosen, and each choice is proved within
    `gap` of the best one, unless the integer program meets its limit of nodes. In slots, as far as
    the effort allows, the rounds to come are followed from this choice and from that of
    ``set-rule``, and the cheaper one is taken. The notes add up ``worth`` and its proved
    ``worth_bound``, the rounds that needed the integer program (``exact_rounds``), those that
    ``set-rule`` decided (``by_rule``), and the jobs that were chosen and found no hosts
    (``unplaced``).

    While a moldable job is there, which its first configuration binds, rounds are those of
    ``set-rule``: neither case foresees that.

    Running jobs that must not be paused keep what they have; jobs that do not fit on hosts are
    passed over. Capacity ahead is the whole cluster's, by resource: hosts, GPU types, domains and
    quotas bind this round and are not foreseen. Deadlines and due dates are not looked at.

    Parameters
    ----------
    moves
        Changes to the best order that are tried in each decision on gangs, 0 or more.
    gap
        Relative gap within which the round of elastic jobs is proved, more than 0.
    seed
        Seed of the choice of those changes.

    References
    ----------
    Bertsekas, Tsitsiklis, Wu, "Rollout algorithms for combinatorial optimization", Journal of
    Heuristics 3, 1997. Smith, "Various optimizers for single-stage production", Naval Research
    Logistics Quarterly 3, 1956. The fluid relaxation and its decomposition are as in Berg, Vesilo,
    Harchol-Balter, "heSRPT", Performance Evaluation 144, 2020, without their one common speed-up
    function, and in Whittle, "Restless bandits", Journal of Applied Probability 25, 1988: one
    price for what all jobs compete for.
    """

    name = "rollout"
    needs: Knowledge = "estimate"
    information = "remaining work and rates of all configurations of the jobs in the system"
    preemptive = True

    def __init__(self, *, moves: int = 30, gap: float = 5e-3, seed: int = 0) -> None:
        super().__init__()
        if moves < 0:
            raise InstanceError(f"rollout: moves is {moves}; it must be 0 or more.")
        require_positive(gap, "rollout", "gap")
        self._moves, self._gap, self._seed = moves, gap, seed
        self._usher: Usher | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        super().reset()
        self._rng = np.random.default_rng(self._seed)
        self._order: list[str] = []
        self._prices = FluidPrices()
        self._rule = SetRule()
        # What the plan of the decision before goes by: worth of each job's work, prices to start.
        self._before: tuple[Mapping[str, float], Array] | None = None

    def decide(self, state: ClusterState) -> Decision:
        """Return the decision at `state.now_s`."""
        usher = self._usher = usher_for(state.topology, self._usher)
        book = usher.book
        views = list(state.jobs)
        if any(view.elasticity == "moldable" and len(view.configurations) > 1 for view in views):
            # The first choice binds such a job, which neither orders nor fluid prices foresee.
            return self._by_rule(state)
        tables = book.tables_of(views)
        if ((book.rate > 0).sum(axis=1)[tables] <= 1).all():
            ways = [book.ladders[t].positions for t in tables.tolist()]
            ids = [view.id for view in views]
            return self._serve_gangs(state, dict(zip(ids, ways, strict=True)))
        return self._share_out(state, usher)

    # Gangs.

    def _serve_gangs(self, state: ClusterState, ways: Mapping[str, tuple[int, ...]]) -> Decision:
        """Serve all jobs in the order that costs the known jobs least."""
        round_, competing = self._open(state)
        # A gang that can never run would make every order cost the same: more than any sum.
        competing = [view for view in competing if ways[view.id]]
        if competing:
            # What must not be paused takes part, too: its capacity comes back one day.
            views = [*competing, *(view for view, _ in round_.pinned.values())]
            jobs = [_known(view, ways[view.id]) for view in views]
            future = ListFuture(jobs, state.topology.totals.tolist(), state.slot_s)
            place = {job_id: k for k, job_id in enumerate(self._order)}
            before = [place.get(view.id) for view in views]
            order, _ = best_order(future, before, self._moves, self._rng)
            self._order = [views[j].id for j in order]
            competing = [views[j] for j in order if j < len(competing)]
            serve(round_, competing, skip=True)
        return self._close(round_, competing)

    def _by_rule(self, state: ClusterState) -> Decision:
        """Decide as `set-rule` does."""
        if state.slot_s is not None:
            return self._rule.decide(state)
        return self._change(state, self._rule.decide(self._as_round(state)))

    @staticmethod
    def _change(state: ClusterState, decision: Decision) -> Decision:
        """Return the decision of a round as a change to what runs."""
        runs = {assignment.job for assignment in decision.assign}
        release = tuple(view.id for view in state.running if view.id not in runs)
        return dataclasses.replace(decision, release=release)

    # Elastic jobs.

    def _share_out(self, state: ClusterState, usher: Usher) -> Decision:
        """Choose a configuration for every job by the worth of its work, and put them on hosts."""
        shown = state if state.slot_s is not None else self._as_round(state)
        round_ = JobSetRound(shown, usher.book)
        from alloc.solving.round.choice import prove_choice

        seated: list[Assignment] = []
        notes: dict[str, float] = {}
        if round_.views:
            worth, prices = self._worth(round_)
            jobs, share = round_.jobs, round_.book.share
            table = jobs.table
            progress = round_.progress()
            score = score_of(worth * jobs.left, jobs.weight, progress, round_.slot_s)
            chosen = Chooser(score, table, share, round_.free).choose(prices)
            choice = prove_choice(
                state.topology, score, share[table], round_.free, chosen, gap=self._gap
            )
            ahead = Ahead(shown, round_, worth)
            plan = _Plan(choice.column, score, ByWorth(ahead, worth, prices))
            if state.slot_s is not None:
                plan = self._cheapest(ahead, plan, [view.id for view in round_.views], progress)
            seated = usher.seat(shown, round_.views, table, plan.column, plan.score)
            unplaced = int((plan.column >= 0).sum()) - len(seated)
            notes = {
                "worth": choice.value,
                "worth_bound": choice.bound,
                "exact_rounds": float(choice.solved),
                "by_rule": float(isinstance(plan.policy, ByRule)),
                "unplaced": float(max(unplaced, 0)),
            }
        decision = Decision(assign=(*round_.kept, *seated), notes=notes)
        return decision if state.slot_s is not None else self._change(state, decision)

    def _worth(self, round_: JobSetRound) -> tuple[Array, Array]:
        """Return the worth of a unit of each job's work, and the prices of the coming round."""
        jobs, book = round_.jobs, round_.book
        free = np.maximum(round_.free, LEAST_FREE)
        pairs = np.stack([jobs.table.astype(float), jobs.weight], axis=1)
        classes, of_job = np.unique(pairs, axis=0, return_inverse=True)
        of_job = of_job.reshape(-1)
        table = classes[:, 0].astype(np.int64)
        kinds = Kinds(book.rate[table], book.share[table] / free, classes[:, 1])
        self._prices.solve(kinds, of_job, jobs.left, round_.slot_s)
        courses = follow(kinds, self._prices.prices, self._prices.lengths)
        worth = worth_of_work(courses, of_job, jobs.left)
        return worth, self._prices.prices[0] * round_.slot_s / free

    def _cheapest(self, ahead: Ahead, priced: _Plan, ids: Sequence[str], progress: Array) -> _Plan:
        """Return the plan whose rounds to come cost least: as priced, by the rule, or as before.

        What the decision before followed takes part as long as no job has come: else its plan might
        be left for one that only looks better, at each decision again.
        """
        rounds = ahead.rounds
        if rounds < LEAST_ROUNDS:
            return priced
        rule = ByRule(ahead, self._rule)
        plans = [self._plan_of(ahead, rule, progress)]
        if self._before is not None:
            worths, prices = self._before
            if all(job_id in worths for job_id in ids):
                as_before = ByWorth(ahead, np.array([worths[job_id] for job_id in ids]), prices)
                plans.append(self._plan_of(ahead, as_before, progress))
        if all((plan.column == priced.column).all() for plan in plans):
            return priced
        courses: list[tuple[_Plan, Followed]] = [(priced, priced.policy), (priced, rule)]
        courses += [(plan, plan.policy) for plan in plans]
        best, followed, least = priced, priced.policy, math.inf
        for plan, policy in courses:
            cost = ahead.cost(plan.column, policy, rounds, at_most=least)
            # Rounding must not decide between equals.
            if cost < least * (1 - 1e-12):
                best, followed, least = plan, policy, cost
        self._before = None
        if isinstance(followed, ByWorth):
            worths = dict(zip(ids, followed.worth.tolist(), strict=True))
            self._before = worths, followed.prices
        return best

    @staticmethod
    def _plan_of(ahead: Ahead, policy: Followed, progress: Array) -> _Plan:
        """Return the plan of a policy, the coming round included."""
        score, prices = policy(np.arange(len(ahead.table)), ahead.left, progress)
        column = Chooser(score, ahead.table, ahead.share, ahead.free).choose(prices)
        return _Plan(column, score, policy)

    def _as_round(self, state: ClusterState) -> ClusterState:
        """Return the state in continuous time as if a round began: all may be given anew."""
        best = np.array([max(way.rate for way in view.configurations) for view in state.jobs])
        left = np.array([work_left(view) for view in state.jobs])
        round_s = float(np.quantile(left / best, _ROUND_QUANTILE))
        return dataclasses.replace(
            state, slot_s=max(round_s, LEAST_LEFT), pool=HostPool(state.topology)
        )


def _known(view: JobView, ways: tuple[int, ...]) -> KnownJob:
    """Return what the future needs of a job, whose ladder leaves at most one way to run."""
    now = view.current
    way = view.configurations[ways[0] if now is None or view.preemptible else now.configuration]
    return KnownJob(
        weight=view.weight,
        # What ran before the start may be bound to a configuration in which it stands still.
        left_s=work_left(view) / max(way.rate, LEAST_RATE),
        demand=way.demand,
        restart_s=view.restart_cost_s,
        started=view.last is not None,
        runs=view.current is not None,
        pausable=view.preemptible,
    )
