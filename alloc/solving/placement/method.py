"""The specialised method of F4: placements of any size, with a bound.

1. A start: the warm start, what runs as it stands, waiting jobs put beside it; repaired if need be.
   Sizes that divide each other are packed by first-fit decreasing, and that is the end of it.
2. Waiting jobs beside jobs that stay are an admission problem, solved exactly.
3. Small problems go to HiGHS on the sparse arrays, and end with a proof.
4. Goals of host costs and moves: exchanges, host patterns and their prices (`search`). Whole jobs
   are put elsewhere for what single moves cannot do, and for all other goals (`gang_search`).
5. A bound from host patterns, or from HiGHS where it has solved the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from alloc.backends import SolverOptions, highs
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit, is_within
from alloc.clock import time_limit
from alloc.collector import collector_paused
from alloc.errors import UnsupportedFeatureError
from alloc.families import require_family
from alloc.formulation import ArrayModel, RawResult
from alloc.models.placement.arrays import build_arrays
from alloc.models.placement.data import PlacementData
from alloc.objectives.goals import parse_level
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Solution
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.placement.admission import solve_admission
from alloc.solving.placement.bounds import placement_bound
from alloc.solving.placement.buddies import buddy_optimum
from alloc.solving.placement.clock import Clock
from alloc.solving.placement.companions import Companions
from alloc.solving.placement.compiling import Problem, compile_state, read_counts
from alloc.solving.placement.fragments_bound import (
    Standing,
    counts_fragments,
    planned_again,
    relaxed,
)
from alloc.solving.placement.gang_search import (
    GangSearch,
    first_placements,
    fresh_placements,
    only_places,
)
from alloc.solving.placement.incumbent import Incumbent
from alloc.solving.placement.ranges import range_bound
from alloc.solving.placement.search import Search
from alloc.solving.placement.terms import is_split
from alloc.solving.placement.waiting import admission_obstacle

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Report = Callable[[str], None]

_BACKEND = "alloc exchanges and patterns + HiGHS"
_CHECKS, _KEPT_SHARE, _MAX_KEPT = 3.0, 0.01, 0.35
"""Time kept to read the answer back, check it and write the certificate: so many times what it took
to check the first placement, but at least and at most such shares of the limit."""
_PATIENCE = 400
"""Vain tries to put some jobs elsewhere after which an exact program is more promising."""
_TURN = 100
"""The same between two turns of the search by patterns, about as long as one of these."""
_PROOF_WORK, _PROOF_PATTERNS, _PROOF_STEPS = 5e7, 10_000, 10
"""Cells of tables filled in an evaluation of prices, some tenths of a second, patterns met, a
master of ten seconds, and steps that make the bound sharper: up to these there is a bound from
patterns first on a goal that they know in part only. It is work that is counted, not seconds: a
longer limit begins with what a shorter one does.
"""
_DRAWN_S = 5e-5
"""Seconds to draw the exact program, for each task group and host."""
_PLAN_SHARE = 0.5
"""Share of the time left for a plan of the hosts: what it finds is not lost if it takes longer."""
_ATTEMPTS = 30
"""Placements afresh that are tried where what runs breaks a rule."""
_ANY_PLACEMENT = "moves"
"""A goal that every program has and that is soon met: for any placement at all, or a proof that
there is none."""
_FEW_CELLS = 2_500
"""Task groups times hosts up to which HiGHS is asked first: so small a program soon ends with a
proof."""
_MANY_CELLS = 250_000
"""The same up to which it is asked at all, at last: to draw up a larger program takes a dozen
seconds."""


def solve_placement(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Report,
) -> Outcome[Solution]:
    """Solve an instance of F4: the method behind ``solve(..., "placement")``.

    Parameters
    ----------
    instance
        The problem.
    objective
        One level of a goal, such as ``"balance + 0.05 moves"``.
    settings
        Limits, and earlier levels to hold.
    warm_start
        An allocation to start from, or None.
    report
        Takes a line of progress.

    Raises
    ------
    UnsupportedFeatureError
        If a task shares a GPU or holds a MIG slice.
    """
    with collector_paused():
        search = _Solve(instance, objective, settings, warm_start, report)
    limit: Limit | None = None
    try:
        with search.companions.team:
            search.run()
    except KeyboardInterrupt:
        # What was found until here is kept and certified.
        limit = "interrupt"
    if limit is None and not search.proved and search.settings.seconds_left() <= 0:
        limit = "time"
    return search.outcome(limit)


class _Solve:
    """One solve; incumbent and bound are valid at every moment."""

    def __init__(
        self,
        instance: Instance,
        objective: str,
        settings: Settings,
        warm_start: Solution | None,
        report: Report,
    ) -> None:
        self.instance = instance
        self.objective = objective
        self.settings = settings
        self.time_limit_s = settings.time_limit_s
        self.warm_start = warm_start
        self.report = report
        self.level = parse_level(objective)
        self.data = PlacementData.of(instance)
        self.problem = Problem(self.data)
        self.best = Incumbent(self.problem, self.level, settings.held)
        self.bound = -math.inf
        self.proof: BoundProof = "none"
        self.infeasible = False
        self.companions = Companions(self.best, settings.workers, report)

    @property
    def proved(self) -> bool:
        """Whether the incumbent is proved optimal, or that there is none."""
        if self.infeasible:
            return True
        if not math.isfinite(self.best.cost):
            return False
        return is_within(self.best.cost, self.bound, OPTIMALITY_GAP)

    def outcome(self, limit: Limit | None) -> Outcome[Solution]:
        """Return what was found."""
        conflict = require_family("placement").conflict if self.infeasible else None
        return Outcome(
            self.best.allocation,
            self.best.sign * self.bound,
            self.proof,
            _BACKEND,
            highs.version(),
            limit,
            self.infeasible,
            conflict,
        )

    def run(self) -> None:
        """Solve."""
        self._prove_by(self.best.sign * range_bound(self.instance, self.level), "recomputed")
        # The rules of schedulers come first: no bound takes their time.
        with collector_paused():
            self._start()
        # Of earlier levels, other bounds see nothing.
        self._bound_fragments(domains=False)
        ranged = self.bound
        self._plan_hosts()
        self._pack_buddies()
        if self.proved:
            return
        admits = not self.settings.held and admission_obstacle(self.data, self.level) is None
        if admits and self._left() > 0:
            self._admit()
        cells = len(self.data.groups) * self.instance.topology.num_hosts
        if not self.proved and cells <= _FEW_CELLS:
            self._exactly(self._left())
        if not self.proved and self.best.counts is not None and self._left() > 0:
            self._improve()
        if not self.proved and cells <= _MANY_CELLS and self._left() > _DRAWN_S * cells:
            self._exactly(self._left())
        if not self.proved and self.bound <= ranged and self._left() > 0:
            self._prove()
        if not self.proved and self.best.counts is not None and self._whole_jobs:
            self.companions.gangs(self._gangs(), self.settings, self.bound)

    def _left(self) -> float:
        return self.settings.seconds_left()

    def _start(self) -> None:
        """Find a first placement, and see how long it takes to check one."""
        self.best.offer(self.warm_start)
        with time_limit(self._left()):
            for counts in self._first_placements():
                before = self._left()
                self.best.offer_counts(counts)
                self._keep_time(before - self._left())
                if self.best.counts is not None and (only_places(self.level) or self._left() <= 0):
                    break  # they come with the most placed first
        if self.best.counts is None and not self.problem.tied:
            # Hosts that start over-full: relieve them first.
            state = compile_state(self.problem, self.data.initial, [self.level])
            state.descend()
            self.best.offer_counts(read_counts(self.problem, self.data.initial, state))
        if self.best.counts is None:
            for counts in fresh_placements(self.problem, _ATTEMPTS, self.settings.seed):
                if self.best.offer_counts(counts) or self._left() <= 0:
                    break
        if self.best.counts is not None:
            self._say("first placement")

    def _first_placements(self) -> Iterator[csr_array]:
        settings = self.settings
        return first_placements(
            self.problem, self.level, settings.held, settings.later, self.best.offer_counts
        )

    def _keep_time(self, checked_s: float) -> None:
        """Keep time to read the answer back, check it and write the certificate."""
        limit_s = self.time_limit_s
        kept_s = min(max(_CHECKS * checked_s, _KEPT_SHARE * limit_s), _MAX_KEPT * limit_s)
        self.settings = replace(self.settings, time_limit_s=limit_s - kept_s)

    def _bound_fragments(self, *, domains: bool) -> Standing:
        """Bound fragmentation where the level counts it; return where gangs stand by the bound."""
        held, left = self.settings.held, self._left()
        found, standing = relaxed(self.problem, self.level, held, left, domains=domains)
        self._prove_by(found, "recomputed")
        return standing

    def _plan_hosts(self) -> None:
        """Put jobs down along plans of the hosts: quick ones first, and each as long as it helps.

        First beside gangs that must stand in one domain, then with these where the bound has them,
        then wherever the plan has them.
        """
        if not counts_fragments(self.level) or self.best.counts is None:
            return
        self._plan(domains=False)
        if self.proved or self._left() <= 0:
            return
        standing = self._bound_fragments(domains=True)
        if not standing:
            return
        self._say("a bound by what domains hold")
        self._plan(domains=True, standing=standing)
        self._plan(domains=True)

    def _plan(self, *, domains: bool, standing: Standing | None = None) -> None:
        """Put jobs down along a plan of the hosts, for as long as that helps."""
        while not self.proved and self._left() > 0 and self.best.counts is not None:
            counts = planned_again(
                self.problem,
                self.best.counts,
                self.settings.held,
                _PLAN_SHARE * self._left(),
                domains=domains,
                standing=standing,
            )
            if counts is None or not self.best.offer_counts(counts):
                return
            self._say("hosts as planned")

    def _pack_buddies(self) -> None:
        """Take first-fit decreasing where it is optimal."""
        names = [*(held.level.name for held in self.settings.held), self.level.name]
        if names not in (["gpus_placed"], ["gpus_placed", "gpu_hosts_used"]):
            return
        packed = buddy_optimum(self.instance)
        if packed is not None and math.isfinite(cost := self.best.cost_of(packed)):
            self.best.offer(packed)
            self._prove_by(cost, "recomputed")
            self.report("sizes divide each other: first-fit decreasing is optimal")

    def _say(self, what: str) -> None:
        sign = self.best.sign
        self.report(f"incumbent {sign * self.best.cost:.6g}, bound {sign * self.bound:.6g}: {what}")

    def _admit(self) -> None:
        found = solve_admission(
            self.data,
            self.level,
            self._left(),
            self.report,
            known=self.best.sign * self.best.cost,
            workers=self.settings.workers,
            seed=self.settings.seed,
        )
        self.best.offer(found.allocation)
        self._prove_by(self.best.sign * found.bound, found.proof)

    def _prove_by(self, bound: float, proof: BoundProof) -> None:
        """Take a bound in minimisation."""
        if math.isfinite(bound) and bound > self.bound:
            self.bound, self.proof = bound, proof

    def _prove(self, *, early: bool = False) -> None:
        """Bound the level by patterns; early, as far as counted work goes."""
        bound, proof = placement_bound(
            self.data,
            self.level,
            self._left(),
            self.report,
            max_work=_PROOF_WORK if early else math.inf,
            max_rounds=_PROOF_PATTERNS // self.instance.topology.num_hosts if early else math.inf,
            max_steps=_PROOF_STEPS if early else None,
        )
        self._prove_by(self.best.sign * bound, proof)

    def _exactly(self, seconds: float) -> None:
        """Solve the sparse arrays; where none have the goal, for a placement to start from."""
        try:
            raw = self._solve_arrays(self.objective, seconds)
        except UnsupportedFeatureError as reason:
            self.report(f"no exact program: {reason}")
            if self.best.counts is None:
                with suppress(UnsupportedFeatureError):  # a goal held before may have none either
                    self._solve_arrays(_ANY_PLACEMENT, self._left())
            return
        if raw.status != "infeasible":
            self._prove_by(self.best.sign * raw.bound, "claimed")

    def _solve_arrays(self, objective: str, seconds: float) -> RawResult:
        """Solve the sparse arrays of a goal; take what is found, or that there is nothing."""
        built = build_arrays(self.instance, objective, self.settings.held)
        start = None
        if self.best.allocation is not None and built.start is not None:
            start = built.start(self.best.allocation)
        options = SolverOptions(
            seconds, self.settings.seed, self.settings.workers, OPTIMALITY_GAP / 2, start
        )
        raw = highs.solve(cast(ArrayModel, built.model), options)
        self.report(
            f"HiGHS on the arrays of {objective}: {raw.native_status}, bound {raw.bound:.6g}"
        )
        self.infeasible = raw.status == "infeasible" and self.best.allocation is None
        if raw.values is not None:
            self.best.offer(built.extract(raw.values))
        return raw

    def _improve(self) -> None:
        """Search for better placements."""
        gangs, companions = self._gangs(), self.companions

        def rearrange(clock: Clock) -> None:
            self._prove_by(search.bound, "recomputed")
            gangs.run(clock, self.bound, _TURN)

        if not self._split:
            companions.gangs(gangs, self.settings, self.bound, _PATIENCE)
            if not self.proved and self._left() > 0:
                self._prove(early=True)
            return
        search = Search(
            self.problem,
            self.level,
            self.best,
            self.bound,
            self.settings,
            self.report,
            OPTIMALITY_GAP,
            rearrange if self._whole_jobs else None,
            (lambda *given: companions.exchange(search, *given)) if companions.others else None,
        )
        companions.begin(self.settings, self.bound)
        try:
            search.run()
        finally:
            self._prove_by(search.bound, "recomputed")
        if not self.proved:
            companions.collect()

    def _gangs(self) -> GangSearch:
        return GangSearch(self.problem, self.best, self.settings.seed, self._say)

    @property
    def _split(self) -> bool:
        """Whether host costs, move prices and who runs make up the whole goal."""
        return is_split(self.level) and all(is_split(held.level) for held in self.settings.held)

    @property
    def _whole_jobs(self) -> bool:
        """Whether there is more to gain than single tasks and host patterns can."""
        return not self._split or bool(self.problem.tied) or self._has_waiting()

    def _has_waiting(self) -> bool:
        names = {term.name for _, term in self.level.terms}
        placed = bool(names & {"gpus_placed", "weight_placed"})
        return placed and len(self.data.running) < len(self.instance.jobs)
