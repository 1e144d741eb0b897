"""Right-sizing by Benders decomposition with shared cuts.

1. The expected scenario alone gives a first point.
2. The linear relaxation: the block master [3]_ is solved, and the blocks of some scenarios between
   its optimum and the best point so far (in-out separation [1]_); every dual solution becomes a cut
   for all blocks. With spare hosts, rows that tie jobs to open pools are added where it breaks them
   (`alloc.solving.right_sizing.opening_rows`), and it is solved again.
3. Dives: which pools are open, where spare hosts make opening cost something, is first what the
   relaxation has open in good part, and then found by slope scaling [2]_; numbers of hosts by a
   small integer program around the relaxation. Every candidate is valued by the blocks, so that
   what is returned is a plan and its true cost; and what its cuts say makes the next dive better.
4. Tightening: how large a pool can be in a plan cheaper than the best, for the big M of "open".
5. The bound: the integer program over quarterly cuts, each the expectation of cuts with the
   multipliers of the relaxation, so that it starts from the relaxation's bound. Meanwhile other
   processes choose anew what is open among some pools (large neighbourhoods [4]_).
6. Add-drop search, where none of this found a better plan: pools are closed and opened one by one.

References
----------
.. [1] W. Ben-Ameur, J. Neto, "Acceleration of cutting-plane and column generation algorithms",
   Networks 49(1), 2007.
.. [2] D. Kim, P. M. Pardalos, "A solution approach to the fixed charge network flow problem using a
   dynamic slope scaling procedure", Operations Research Letters 24(4), 1999.
.. [3] R. M. Van Slyke, R. Wets, "L-shaped linear programs with applications to optimal control and
   stochastic programming", SIAM Journal on Applied Mathematics 17(4), 1969; J. R. Birge,
   F. V. Louveaux, "A multicut algorithm for two-stage stochastic linear programs", EJOR 34, 1988.
.. [4] P. Shaw, "Using constraint programming and local search methods to solve vehicle routing
   problems", CP 1998.
"""

from __future__ import annotations

import dataclasses
import math
import time
from contextlib import suppress
from itertools import combinations

import numpy as np

from alloc.backends import highs
from alloc.certificate import Limit
from alloc.errors import OutOfTime
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.reading import read_plan
from alloc.problems.right_sizing.plan import Plan
from alloc.result import Sensitivity
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.right_sizing.blocks import SHORT
from alloc.solving.right_sizing.candidates import Candidates
from alloc.solving.right_sizing.marginals import estimates_of_cuts, is_small
from alloc.solving.right_sizing.opening_tree import OpeningTree
from alloc.solving.right_sizing.relaxation import MAX_STEPS, Relaxation
from alloc.solving.right_sizing.state import BACKEND, Watch

_OPEN = 1e-6
"""Hosts from which on a pool is open in the relaxation: above the tolerance of HiGHS (1e-7)."""
_SHARE_OF_RELAXATION = 0.4
"""Of the time, for the linear relaxation: what guides all dives deserves it, but these must
begin."""
_SHARE_OF_ROWS = 0.45
"""Of the time left, for rows that tie jobs to open pools: dives need the rest, and find better
plans the more of these rows there are."""
_WORTH_MORE_ROWS = 0.25
"""Part of the gap asked for that a round of these rows must gain before the first plan is looked
for. On planning-large the bound is then within half of that gap of where they end, after half of
the time."""
_BEFORE_ROWS = 1e-3
"""Relative gap to which the relaxation is closed before these rows: more is lost with the first."""
_OPENED = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
"""Parts of a pool open in the relaxation from which on all of it may be opened, the master being
asked which of them is cheapest: in its optimum most parts are near 0 or 1, but from 0.3 on one more
level opens on planning-large/03 for 0.11 % of the cost, and from 0.2 on one too few."""
_MAX_OPENED = 2
"""Of them, the cheapest that are tried: the second is for where the first finds no plan."""
_SHARE_OF_FIRST_TREE = 0.4
"""Of the time left, for branching before the first dive: it shows what to open."""
_SHARE_OF_TREE = 0.6
"""Of the time left, for branching after that: what promises more is to be tried, too."""
_SHARE_OF_FIRST_PROOF = 0.15
"""Of the time left, for a first integer program: with these rows it knows well what to open."""
_SHARE_OF_WAIVERS = 0.4
"""Of the time left, for the relaxations of sets of scenarios that may be waived."""
_MAX_WAIVERS = 12
"""Such sets, and scenarios, up to which each has a relaxation of its own: about a second each."""
_ATTEMPTS_AT_START = 2
"""Times that the dive at the start goes on when its plans go short: a known plan needs a few more
hosts at most, or else another dive."""
_MAX_FAILURES = 2
"""Dives without much gain after which it is time for a proof: one may just have drawn badly."""
_SECONDS_TO_PROVE = 4.0
"""Wall time of the first proof, seconds; each that fails makes the next one longer."""
_SHARE_OF_PROOF = 0.5
"""Of the time left, for a proof: each begins anew, so few long ones prove more than many short."""
_LONGER = 2.5
"""By which factor more is given to the proof after one without a better plan: all before take less
than the next one together."""
_MAX_IDLE = 30
"""Turns without any change after which the search ends: its cuts say all they can."""


class Decomposition:
    """One solve: the relaxation, and the search for plans, in turns.

    Parameters
    ----------
    data, settings, gap, watch, feasibility
        As `Relaxation` has them.
    """

    def __init__(
        self,
        data: SizingData,
        settings: Settings,
        gap: float,
        watch: Watch | None = None,
        feasibility: bool = False,
    ) -> None:
        self.relaxation = Relaxation(data, settings, gap, watch, feasibility)
        self.candidates = Candidates(self.relaxation)
        self._seconds_to_prove = _SECONDS_TO_PROVE
        self._tried_to_refute = False
        self._tree: OpeningTree | None = None

    def run(self, start: Plan | None = None) -> Outcome[Plan]:
        """Search until the gap is closed, the time is up, or an interrupt; keep what was found."""
        with self.relaxation.values:
            try:
                limit = self._run(start)
            except OutOfTime:
                limit = "time"
            except KeyboardInterrupt:
                limit = "interrupt"
        return self._outcome(limit)

    def _run(self, start: Plan | None) -> Limit | None:
        relaxation = self.relaxation
        began = relaxation.start()
        if start is not None:
            self.candidates.try_mended(relaxation.completing.from_plan(start), "start")
        if relaxation.incumbent is not None:
            # Cuts around a plan say more of what is better than those around an expectation.
            began = relaxation.incumbent.values
        elif began is not None and relaxation.seconds_left() > 0:
            # Something to return, should the time be up before the relaxation is solved.
            self.candidates.try_candidate(relaxation.completing.round_up(began), "first")
        share = _SHARE_OF_RELAXATION * relaxation.seconds_left()
        target, gets_rows = relaxation.gap / 5, relaxation.setting.levels > 0
        if gets_rows:
            target = max(target, _BEFORE_ROWS)
        relaxed = relaxation.relax(began, MAX_STEPS, target, share, surely=not gets_rows)
        if relaxed is None:
            relaxation.refute()
            return None
        relaxation.keep_optimum(*relaxed)
        relaxation.say("relaxation")
        if gets_rows:
            self._strengthen()
        if len(self.candidates.switches):
            at = relaxation.first.counted[relaxation.first.open >= 0]
            opened = relaxation.relaxed_point[at] > _OPEN
            self.candidates.seen[: len(self.candidates.switches)] |= opened
            if len(relaxation.first.sent):
                # Of use to dives by slopes, which begin there.
                self.candidates.add_pool_closing_cuts(relaxation.relaxed_point)
        if not relaxation.closed():
            self._learn_what_is_waived(_SHARE_OF_WAIVERS * relaxation.seconds_left())
        if start is not None and len(relaxation.first.sent) and not relaxation.closed():
            # Where margins were kept before, some more hosts may do.
            known = relaxation.completing.complete(relaxation.completing.from_plan(start))
            self.candidates.dive(known, _ATTEMPTS_AT_START)
        return self._search()

    def _strengthen(self) -> None:
        """Add rows that tie jobs to open pools, until they gain nothing or a plan is good enough.

        A plan is looked for as soon as they gain little: it says how much more is worth it.
        """
        relaxation = self.relaxation
        ends = time.perf_counter() + _SHARE_OF_ROWS * relaxation.seconds_left()
        relaxation.strengthen(relaxation.gap / 5, ends - time.perf_counter(), _WORTH_MORE_ROWS)
        if not relaxation.closed() and relaxation.seconds_left() > 5 * relaxation.seconds_to_value:
            self._dive_at_relaxation()
        relaxation.strengthen(relaxation.gap / 5, ends - time.perf_counter())

    def _learn_what_is_waived(self, seconds: float) -> None:
        """Close the relaxation for each set of scenarios that may be waived, if they are few.

        Cuts around a little of every waiver promise too much where one is decided on.
        """
        relaxation = self.relaxation
        waive, sets = relaxation.first.waive, self._waivers()
        if not sets:
            return
        ends = time.perf_counter() + seconds
        for waived in sets:
            left = ends - time.perf_counter()
            if left < 2 * relaxation.seconds_to_value:
                break
            relaxation.master.fix(waive, waived, waived)
            share = max(left / len(sets), relaxation.seconds_to_value)
            if relaxation.relax(None, MAX_STEPS, relaxation.gap / 5, share) is not None:
                relaxation.aggregate_cuts(keep=True)
        relaxation.master.release(waive)
        relaxation.say("waivers")

    def _waivers(self) -> list[Array]:
        """Return the largest sets of scenarios that may be waived; none if they are many."""
        problem = self.relaxation.data.problem
        chances = [scenario.probability for scenario in problem.scenarios]
        if not problem.epsilon or len(chances) > _MAX_WAIVERS:
            return []
        limit = problem.epsilon + 1e-9  # as (C8) has it
        largest = []
        for size in range(len(chances) + 1):
            for chosen in combinations(range(len(chances)), size):
                left = limit - sum(chances[w] for w in chosen)
                others = [chance for w, chance in enumerate(chances) if w not in chosen]
                if left >= 0 and min(others, default=math.inf) > left:
                    largest.append(chosen)
        if len(largest) > _MAX_WAIVERS:
            return []
        return [np.isin(np.arange(len(chances)), chosen).astype(float) for chosen in largest]

    def _search(self) -> Limit | None:
        """Turn between dives for plans and proofs, until the gap is closed."""
        relaxation = self.relaxation
        idle, dived = 0, False
        enough_time = relaxation.seconds_left() > relaxation.seconds_to_value
        if len(self.candidates.switches) and enough_time and not relaxation.closed():
            dived = self._branch(_SHARE_OF_FIRST_TREE) or self._dive_at_relaxation()
            enough_time = relaxation.seconds_left() > relaxation.seconds_to_value
            if enough_time and not relaxation.closed():
                # Most large plans are closed by now; of others more than the openings is open.
                if not len(relaxation.first.sent):
                    self.candidates.add_pool_closing_cuts(relaxation.relaxed_point)
                self.candidates.prove(_SHARE_OF_FIRST_PROOF * relaxation.seconds_left())
        while not relaxation.closed() and math.isfinite(relaxation.bound):
            if relaxation.seconds_left() < relaxation.seconds_to_value:
                return "time"
            if idle and relaxation.incumbent is None and self._prove_infeasible():
                relaxation.refute()
                return None
            before = relaxation.bound
            better = dived or self._dive_repeatedly()
            dived = False
            better |= self._prove_and_polish()
            enough_time = relaxation.seconds_left() > 3 * relaxation.seconds_to_value
            if not better and not relaxation.closed() and enough_time:
                better = self.candidates.add_and_drop()
            idle = 0 if better or relaxation.bound > before else idle + 1
            if idle >= _MAX_IDLE:
                return None
        return None

    def _branch(self, share: float) -> bool:
        """Branch on what is open, for a share of the time left, and dive at what promises most.

        Returns
        -------
        bool
            Whether that found a better plan.
        """
        relaxation = self.relaxation
        if len(relaxation.first.sent) or len(relaxation.first.waive):
            return False
        if self._tree is None:
            self._tree = OpeningTree(relaxation, self.candidates.switches)
        guess = self._tree.branch(share * relaxation.seconds_left())
        return guess is not None and not relaxation.closed() and self.candidates.dive(guess)

    def _dive_at_relaxation(self) -> bool:
        """Dive with what the relaxation has open in good part; return whether that found a plan."""
        relaxation, switches = self.relaxation, self.candidates.switches
        if len(relaxation.first.sent):
            return False  # what is sent where is rounded with what is open, by slopes
        chosen = {}
        for part in _OPENED:
            opened = np.asarray(relaxation.relaxed_point[switches] > part, dtype=float)
            chosen[opened.tobytes()] = opened
        promises = [relaxation.promise(switches, opened) for opened in chosen.values()]
        promises.sort(key=lambda promise: promise[0])
        return any(
            self.candidates.dive(guess)
            for cost, guess in promises[:_MAX_OPENED]
            if math.isfinite(cost)
        )

    def _dive_repeatedly(self) -> bool:
        """Dive while that helps much: what one dive learns makes the next one better."""
        relaxation = self.relaxation
        better, failures = False, 0
        while failures < (_MAX_FAILURES if len(self.candidates.choices) else 1):
            if relaxation.closed() or relaxation.seconds_left() < 3 * relaxation.seconds_to_value:
                break
            self.candidates.tighten()
            wanted = relaxation.wanted()
            better |= self.candidates.dive(None)
            failures += relaxation.cost >= wanted
        return better

    def _prove_and_polish(self) -> bool:
        """Prove and polish while that finds better plans; return whether it found one."""
        relaxation = self.relaxation
        better = False
        while math.isfinite(relaxation.bound) and not relaxation.closed():
            if relaxation.seconds_left() < relaxation.seconds_to_value:
                break
            self.candidates.tighten()
            if self._tree is None or self._tree.is_done:
                gained = self.candidates.prove(
                    min(self._seconds_to_prove, _SHARE_OF_PROOF * relaxation.seconds_left())
                )
            else:
                gained = self._branch(_SHARE_OF_TREE)
            if relaxation.values.count == 1 and not relaxation.closed():
                # Of several processes one proves while the others polish.
                gained |= self.candidates.polish()
            better |= gained
            if not gained:
                self._seconds_to_prove *= _LONGER
            if not gained or not len(self.candidates.choices):
                break
        return better

    def _prove_infeasible(self) -> bool:
        """Return whether it can be proved that there is no plan.

        The same decomposition with no cost but that of slack: a bound above 0 is the proof,
        of the relaxation or, failing that, of integers.
        """
        relaxation = self.relaxation
        if relaxation.setting.feasibility or self._tried_to_refute:
            return False
        self._tried_to_refute = True
        settings = dataclasses.replace(
            relaxation.settings,
            time_limit_s=0.5 * relaxation.settings.seconds_left(),
            started=time.perf_counter(),
            workers=relaxation.values.count,
        )
        relaxation.learn_late(wait_for_all=True)  # its workers give way to those of the check
        check = Decomposition(relaxation.data, settings, 0.5, None, feasibility=True)
        with check.relaxation.values:
            needed = check.unavoidable_slack()
        if check.relaxation.incumbent is not None:
            self.candidates.try_candidate(check.relaxation.incumbent.values, "feasible")
        return needed > SHORT

    def unavoidable_slack(self) -> float:
        """Return a lower bound on the slack of all blocks together, relative to the demand."""
        relaxation = self.relaxation
        most = max(1.0, float(relaxation.data.demand.sum(axis=2).max()))
        with suppress(OutOfTime):  # what is proved by then counts
            relaxed = relaxation.relax(
                relaxation.start(), MAX_STEPS, 1e-3, 0.5 * relaxation.seconds_left()
            )
            if relaxed is None:
                return math.inf
            relaxation.raise_bound(relaxed[0])
            if relaxation.bound <= SHORT * most:
                self._raise_slack(SHORT * most)
        return relaxation.bound / most

    def _raise_slack(self, enough: float) -> None:
        """Raise the bound on slack by integer programs, until it or a plan says enough."""
        relaxation = self.relaxation
        relaxation.aggregate_cuts(keep=True)
        for _ in range(_MAX_IDLE):
            if relaxation.seconds_left() < relaxation.seconds_to_value:
                break
            if not self.candidates.prove(_SECONDS_TO_PROVE) or relaxation.bound > enough:
                break
            if relaxation.incumbent is not None and relaxation.incumbent.cost <= enough:
                break

    def _outcome(self, limit: Limit | None) -> Outcome[Plan]:
        relaxation = self.relaxation
        infeasible = math.isinf(relaxation.bound) and relaxation.bound > 0
        plan = None
        if relaxation.incumbent is not None and not relaxation.setting.feasibility:
            running = np.zeros((*relaxation.setting.shape, relaxation.blocks.num_columns))
            for task, value in relaxation.incumbent.blocks.items():
                running[task] = value.values
            plan = read_plan(
                relaxation.data,
                relaxation.first,
                relaxation.blocks,
                relaxation.incumbent.values,
                running,
            )
        return Outcome(
            plan,
            relaxation.bound * relaxation.unit,
            "claimed" if math.isfinite(relaxation.bound) else "none",
            BACKEND,
            highs.version(),
            limit,
            infeasible and plan is None,
            sensitivities=self._estimates(),
        )

    def _estimates(self) -> tuple[Sensitivity, ...]:
        """Return marginal values by duals, where the relaxation is too large to solve again."""
        relaxation = self.relaxation
        if relaxation.duals is None or is_small(relaxation.data):
            return ()
        return estimates_of_cuts(
            self.relaxation,
            relaxation.duals,
            max(relaxation.cost - relaxation.relaxed_bound, 0.0),
        )


def solve_by_decomposition(
    data: SizingData,
    settings: Settings,
    gap: float,
    start: Plan | None = None,
    watch: Watch | None = None,
) -> Outcome[Plan]:
    """Return the best plan within the limits, and the bound of the masters.

    Parameters
    ----------
    data
        The problem.
    settings
        Limits.
    gap
        Relative gap at which to stop, 0 or more.
    start
        A plan to start from, which need not be feasible, or None.
    watch
        Takes lines of progress, or None.
    """
    return Decomposition(data, settings, gap, watch).run(start)
