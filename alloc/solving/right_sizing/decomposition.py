"""Right-sizing by Benders decomposition with shared cuts.

1. The expected scenario alone gives a first point.
2. The linear relaxation: the block master [3]_ is solved, and the blocks of some scenarios between
   its optimum and the best point so far (in-out separation [1]_); every dual solution becomes a cut
   for all blocks.
3. Dives: which pools are open is found by slope scaling [2]_ where spare hosts make opening cost
   something; numbers of hosts by a small integer program around the relaxation. Every candidate is
   valued by the blocks, so that what is returned is a plan and its true cost; and what its cuts say
   makes the next dive better.
4. Tightening: how large a pool can be in a plan cheaper than the best, for the big M of "open".
5. The bound: the integer program over quarterly cuts, each the expectation of cuts with the
   multipliers of the relaxation, so that it starts from the relaxation's bound. Meanwhile other
   processes choose anew what is open among some pools (large neighbourhoods [4]_).
6. Probing, where none of this found a better plan: pools are closed and opened one by one.

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

import numpy as np

from alloc.errors import OutOfTime
from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.reading import read_plan
from alloc.problems.right_sizing.plan import Plan
from alloc.result import Sensitivity
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.blocks import SHORT
from alloc.solving.right_sizing.candidates import Candidates
from alloc.solving.right_sizing.marginals import estimates_of_cuts, is_small
from alloc.solving.right_sizing.start import expected_start
from alloc.solving.right_sizing.state import Found, Watch

_MOST_STEPS = 60
_OPEN = 1e-6
"""Hosts from which on a pool is open in the relaxation."""
_SHARE_OF_RELAXATION = 0.4
"""Of the time, for the linear relaxation."""
_ATTEMPTS_AT_START = 2
"""Times that the dive at the start goes on when its plans go short."""
_MOST_FAILURES = 2
"""Dives without much gain after which it is time for a proof."""
_SECONDS_TO_PROVE = 4.0
"""At first."""
_LONGER = 1.5
"""By which factor more is given to the proof after one without a better plan."""
_MOST_IDLE = 30
"""Turns without any change after which the search ends: its cuts say all they can."""


class Decomposition(Candidates):
    """One solve."""

    duals: tuple[Array, Array] | None = None
    """Dual values of the relaxation's rows and cuts, once it is solved."""
    _seconds_to_prove = _SECONDS_TO_PROVE
    _checked_for_hope = False

    def run(self, start: Plan | None = None) -> Found:
        """Search until the gap is closed, the time is up, or an interrupt; keep what was found."""
        with self.values:
            try:
                limit = self._run(start)
            except OutOfTime:
                limit = "time"
            except KeyboardInterrupt:
                limit = "interrupt"
        return self._found(limit)

    def _run(self, start: Plan | None) -> str | None:
        began = expected_start(self)
        if start is not None:
            self.try_candidate(self.completing.from_plan(start), "start")
        if began is not None and self.seconds_left() > 0:
            # Something to return, should the time be up before the relaxation is solved.
            self.try_candidate(self.completing.round_up(began), "first")
        share = _SHARE_OF_RELAXATION * self.seconds_left()
        relaxed = self.relax(began, _MOST_STEPS, self.gap / 5, share)
        if relaxed is None:
            self.bound = math.inf
            return None
        self.relaxed_bound, self.relaxed_point = relaxed
        self.bound = max(self.bound, self.relaxed_bound)
        self.mix(keep=True)
        self.duals = self.master.duals()
        self.say("relaxation")
        if len(self.switches):
            at = self.first.counted[self.first.open >= 0]
            self.seen[: len(self.switches)] |= relaxed[1][at] > _OPEN
            self.add_pool_closing_cuts(relaxed[1])
        if start is not None and len(self.first.sent) and not self.closed():
            # Where margins were kept before, some more hosts may do.
            known = self.completing.complete(self.completing.from_plan(start))
            self.dive(known, _ATTEMPTS_AT_START)
        return self._search()

    def _search(self) -> str | None:
        """Turn between dives for plans and proofs, until the gap is closed."""
        idle = 0
        while not self.closed() and math.isfinite(self.bound):
            if self.seconds_left() < self.seconds_to_value:
                return "time"
            if idle and self.incumbent is None and self._hopeless():
                self.bound = math.inf
                return None
            before = self.bound
            better = self._dive_repeatedly()
            better |= self._prove_and_polish()
            enough_time = self.seconds_left() > 3 * self.seconds_to_value
            if not better and not self.closed() and enough_time:
                better = self.probe()
            idle = 0 if better or self.bound > before else idle + 1
            if idle >= _MOST_IDLE:
                return None
        return None

    def _dive_repeatedly(self) -> bool:
        """Dive while that helps much: what one dive learns makes the next one better."""
        better, failures = False, 0
        while failures < (_MOST_FAILURES if len(self.choices) else 1):
            if self.closed() or self.seconds_left() < 3 * self.seconds_to_value:
                break
            self.tighten()
            wanted = self.wanted()
            better |= self.dive(None)
            failures += self.cost >= wanted
        return better

    def _prove_and_polish(self) -> bool:
        """Prove and polish while that finds better plans; return whether it found one."""
        better = False
        while math.isfinite(self.bound) and not self.closed():
            if self.seconds_left() < self.seconds_to_value:
                break
            self.tighten()
            gained = self.prove(min(self._seconds_to_prove, 0.3 * self.seconds_left()))
            if self.settings.workers == 1 and not self.closed():
                # Of several processes one proves while the others polish.
                gained |= self.polish()
            better |= gained
            if not gained:
                self._seconds_to_prove *= _LONGER
            if not gained or not len(self.choices):
                break
        return better

    def _hopeless(self) -> bool:
        """Return whether it can be proved that emergencies are unavoidable.

        The same decomposition with no cost but that of emergencies: a bound above 0 is the proof,
        of the relaxation or, failing that, of integers.
        """
        if self.setting.feasibility or self._checked_for_hope:
            return False
        self._checked_for_hope = True
        settings = dataclasses.replace(
            self.settings,
            time_limit_s=0.5 * self.settings.seconds_left(),
            started=time.perf_counter(),
        )
        check = Decomposition(self.data, settings, 0.5, None, feasibility=True)
        with check.values:
            needed = check.emergencies()
        if check.incumbent is not None:
            self.try_candidate(check.incumbent.values, "feasible")
        return needed > SHORT

    def emergencies(self) -> float:
        """Return a lower bound on emergencies in all blocks together, relative to the demand."""
        most = max(1.0, float(self.data.demand.sum(axis=2).max()))
        relaxed = self.relax(expected_start(self), _MOST_STEPS, 1e-3, 0.5 * self.seconds_left())
        if relaxed is None:
            return math.inf
        self.bound = relaxed[0]
        if self.bound <= SHORT * most:
            self.mix(keep=True)
            for _ in range(_MOST_IDLE):
                if self.seconds_left() < self.seconds_to_value:
                    break
                if not self.prove(_SECONDS_TO_PROVE) or self.bound > SHORT * most:
                    break
                if self.incumbent is not None and self.incumbent.cost <= SHORT * most:
                    break
        return self.bound / most

    def _found(self, limit: str | None) -> Found:
        infeasible = math.isinf(self.bound) and self.bound > 0
        plan = None
        if self.incumbent is not None and not self.setting.feasibility:
            running = np.zeros((*self.setting.shape, self.blocks.num_columns))
            for task, value in self.incumbent.blocks.items():
                running[task] = value.values
            plan = read_plan(self.data, self.first, self.blocks, self.incumbent.values, running)
        return Found(
            plan,
            self.bound * self.unit,
            "claimed" if math.isfinite(self.bound) else "none",
            infeasible and plan is None,
            "time" if limit == "time" else "interrupt" if limit == "interrupt" else None,
            self._estimates(),
        )

    def _estimates(self) -> tuple[Sensitivity, ...]:
        """Return marginal values by duals, where the relaxation is too large to solve again."""
        if self.duals is None or is_small(self.data):
            return ()
        return estimates_of_cuts(self, self.duals, max(self.cost - self.relaxed_bound, 0.0))


def solve_by_decomposition(
    data: SizingData,
    settings: Settings,
    gap: float,
    start: Plan | None = None,
    watch: Watch | None = None,
) -> Found:
    """Return the best plan within the limits, and the bound of the masters."""
    return Decomposition(data, settings, gap, watch).run(start)
