"""Projects: priority rules for a schedule, prices and layers for a bound, CP-SAT for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from alloc.algorithms.volume import raise_dual
from alloc.backends import SolverOptions, cpsat
from alloc.certificate import BoundProof, Limit, is_within
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.families import FAMILIES
from alloc.formulation import Array
from alloc.models.project.cpsat_model import Windows, build_cpsat
from alloc.models.project.data import ProjectData
from alloc.models.project.prices import PricesOfGraph
from alloc.models.project.whole_times import WholeTimes
from alloc.problems.project import ProjectPlan, ProjectProblem, cost_rounding
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.project.layers import Layers
from alloc.solving.project.partial_plans import Steps
from alloc.solving.project.rest_bounds import PathsAndWork, PricedRest, RestBound
from alloc.solving.project.rules import RULES, plans_by_rule, quick_modes
from alloc.solving.project.time_prices import TimePrice

_INTERVALS, _BUCKETS = 100, 10
"""Intervals of one price each, and buckets of time in each: stages are a few intervals long."""
_AHEAD = 1.25
"""The grid of prices ends this much after the best schedule: beyond, time is free."""
_VALUE = 1000.0
"""Value of the incumbent in the units of the ascent, whose smallest step is absolute."""
_EVERY = 5
"""Rounds of the ascent from one relaxed solution that is mended to the next: prices move slowly."""
_ASCENT, _SLICE = 0.3, 0.5
"""Of the time left: for prices, and for CP-SAT before a better schedule leaves it fewer starts."""
_FIRST_ROUNDS = 250
"""Rounds of the ascent before the first layers: they are three quarters of the time of a proof, and
most proofs need no more; where one does, the ascent goes on."""
_LAYERS, _BY_LAYERS, _AGAIN = 0.5, 0.95, 6.0
"""Of the time left, for layers of partial plans, and for those of a makespan without budgets, of
which CP-SAT would close no more in the time of half a pass. No wider pass begins that may take so
many times as long as the one before and has less time than that: half a pass finds nothing."""
_RELAXED_S = 0.02
"""Seconds a mode, for CP-SAT with linear relaxations on a makespan. What they see of choices of
modes they show by then: four of fifteen projects of MMLIB50 are proved in 0.2 to 2 of the 3 seconds
that this gives them, and not in 8 without relaxations."""
_USUAL = 0.25
"""Of the time of a makespan, for CP-SAT as it is or without relaxations. Without them it proves
hard projects with budgets four times as fast; what it does not close in the first seconds it moves
no further, as long as bound and value are far apart."""
_BETWEEN, _NEAR, _CLOSE = 0.5, 0.002, 0.0125
"""How far between value and bound a pass looks; the share of the value from which on it looks below
all of the value, since one such pass is shorter than those that halve what is left; and the share
from which on the widest passes prove ten jobs on ten GPUs in 10 to 20 CPU seconds each."""
_LAST_S = 4.0
"""Seconds below which CP-SAT gets all the time left: it takes a second or two to get going."""


def _why_there_is_none(data: ProjectData) -> str:
    """Return which budget is below what activities use in any of their modes, if one alone is."""
    for k, budget in enumerate(data.used_up):
        least = sum(min(use[k] for use in uses) for uses in data.amounts)
        if least > budget.capacity:
            return (
                f'budget "{budget.name}" is {budget.capacity}, and the activities need at least '
                f"{least} of it in modes that fit; raise it or add modes"
            )
    return FAMILIES["project"].conflict


def _has_choices(data: ProjectData) -> bool:
    """Return whether an activity has several modes, which linear relaxations see."""
    return any(len(modes) > 1 for modes in data.modes)


def schedule_project(
    problem: ProjectProblem,
    objective: str,
    settings: Settings,
    start: ProjectPlan | None,
    report: Callable[[str], None],
) -> Outcome[ProjectPlan]:
    """Find a schedule of a project and prove how good it is.

    Every rule puts the activities in, in the modes of `quick_modes`; the best of these schedules
    starts CP-SAT, unless longest paths and the work on the resources prove it best already. What it
    leaves open of a makespan, layers of partial plans take up, and it goes on from
    there. For sums over jobs, prices of time first raise the bound and order the activities for
    further schedules; layers that are held against them prove most small projects, and in the
    others CP-SAT gets only the starts that a better schedule may have.

    Parameters
    ----------
    problem
        The project.
    objective
        ``makespan``, ``weighted_jct`` or ``weighted_tardiness``.
    settings
        Limits.
    start
        A schedule to start from, or None; the answer is never worse.
    report
        Takes a line of progress.
    """
    begin_s = min(job.release_s for job in problem.jobs)
    if begin_s > 0:
        early = schedule_project(
            _moved(problem, begin_s),
            objective,
            settings,
            None if start is None else _moved_plan(start, -begin_s),
            report,
        )
        plan = None if early.solution is None else _moved_plan(early.solution, begin_s)
        if plan is not None and start is not None:
            # Times so far from 0 round: what was given is not lost for that.
            plan = min(plan, start, key=lambda one: one.value(problem, objective))
        if objective == "makespan":
            return replace(early, solution=plan, bound=early.bound + begin_s)
        # Costs are differences of times that are rounded there, and of decimals here.
        bound = max(0.0, early.bound - cost_rounding(problem, objective, problem.last_s))
        return replace(early, solution=plan, bound=bound)
    search = _Search(ProjectData(problem), objective, settings, report)
    search.take(start)
    limit: Limit | None = None
    try:
        with time_limit(settings.seconds_left()):
            limit = search.run()
    except OutOfTime:
        limit = "time"
    except KeyboardInterrupt:
        limit = "interrupt"
    outcome = Outcome(
        search.plan, search.bound, search.proof, "alloc rules + CP-SAT", cpsat.version(), limit
    )
    if not search.infeasible:
        return outcome
    return replace(
        outcome,
        bound=math.inf,
        bound_proof="claimed",
        infeasible=True,
        conflict=_why_there_is_none(search.data),
    )


def _moved(problem: ProjectProblem, begin_s: float) -> ProjectProblem:
    """Return a project that begins so much earlier: at 0, where decimal times are exact."""

    def earlier(moment_s: float) -> float:
        # As the decimals that people wrote: their difference as floats is none.
        return float(Decimal(repr(float(moment_s))) - Decimal(repr(float(begin_s))))

    jobs = tuple(
        replace(
            job,
            release_s=earlier(job.release_s),
            due_date_s=None if job.due_date_s is None else earlier(job.due_date_s),
        )
        for job in problem.jobs
    )
    return replace(problem, jobs=jobs)


def _moved_plan(plan: ProjectPlan, later_s: float) -> ProjectPlan:
    """Return a schedule whose runs start so much later."""
    return ProjectPlan(
        tuple(replace(run, start_s=max(0.0, run.start_s + later_s)) for run in plan.runs)
    )


class _Search:
    """What is found and proved so far."""

    def __init__(
        self,
        data: ProjectData,
        objective: str,
        settings: Settings,
        report: Callable[[str], None],
    ) -> None:
        self.data, self.objective, self.settings, self.report = data, objective, settings, report
        self.plan: ProjectPlan | None = None
        self.value = math.inf
        self.bound = data.bound(objective)
        self.proof: BoundProof = "recomputed"
        self.infeasible = False

    def take(self, plan: ProjectPlan | None) -> None:
        """Keep a schedule that is better than the one known."""
        if plan is not None:
            value = plan.value(self.data.problem, self.objective)
            if self.plan is None or value < self.value:
                self.plan, self.value = plan, value

    @property
    def is_closed(self) -> bool:
        """Whether the best schedule is as good as the bound."""
        return self.plan is not None and is_within(
            self.value, min(self.bound, self.value), self.settings.gap
        )

    def run(self) -> Limit | None:
        """Search; return what stopped it early, or None."""
        choices = quick_modes(self.data)
        for rule in RULES:
            if self.settings.time_is_up():
                break
            for plan in plans_by_rule(self.data, rule, choices):
                self.take(plan)
        self.report(f"rules: {self.value:g}, bound {self.bound:g}")
        if self.is_closed:
            return None
        if self.objective == "makespan" or self.plan is None:
            left = self.settings.seconds_left()
            if self.objective == "makespan":
                return self._close_makespan(left)
            return self._ask_cpsat(None, left)
        graph, prices = self._prices(most=_FIRST_ROUNDS)
        if self._sweep(lambda steps, *_: PricedRest(steps, graph, prices)) and not self.is_closed:
            graph, prices = self._prices(prices)
            self._sweep(lambda steps, *_: PricedRest(steps, graph, prices))
        while not self.is_closed and not self.settings.time_is_up():
            windows, left = graph.windows(prices, self.value), self.settings.seconds_left()
            limit = self._ask_cpsat(windows, left if left < _LAST_S else _SLICE * left)
            if limit != "time":
                return limit
        return None if self.is_closed else "time"

    def _close_makespan(self, seconds: float) -> Limit | None:
        """Prove a makespan by CP-SAT and layers in turn; return what stopped it early, or None."""
        data, usual = self.data, _USUAL * seconds
        by_layers = _has_choices(data) and not data.used_up
        if _has_choices(data):
            modes = sum(map(len, data.modes))
            limit = self._ask_cpsat(None, min(_RELAXED_S * modes, usual))
            if limit != "time" or self.is_closed:
                return limit
        if seconds < _LAST_S:
            return self._ask_cpsat(None, self.settings.seconds_left(), linear=by_layers)
        if not by_layers:
            limit = self._ask_cpsat(None, usual, linear=False)
            if limit != "time" or self.is_closed:
                return limit
        share = _BY_LAYERS if by_layers else _LAYERS
        self._sweep(PathsAndWork, share, to_the_end=not data.used_up)
        if self.is_closed:
            return None
        left = self.settings.seconds_left()
        return self._ask_cpsat(None, left, linear=by_layers, by_bound=True)

    def _prices(
        self, start: Array | None = None, most: float = math.inf
    ) -> tuple[PricesOfGraph, Array]:
        """Raise the bound by prices of time, in so many rounds at most, and return them."""
        assert self.plan is not None
        brief = self.settings.within(_ASCENT * self.settings.seconds_left())
        end_s = max(self.plan.ends_s(self.data.problem).values())
        last = max(_AHEAD * end_s, float(self.data.heads.max()) * (1 + 1e-9))
        edges = np.linspace(0.0, last, _INTERVALS + 1)
        factor = _VALUE / self.value
        graph = PricesOfGraph(self.data, self.objective, edges, _BUCKETS, factor, self.value)
        rounds = 0

        def relaxed(at: Array) -> tuple[float, Array]:
            nonlocal rounds
            found = graph.relaxed(at)
            if rounds % _EVERY == 0:
                self._mend(graph)
            rounds += 1
            return found

        found = raise_dual(
            relaxed,
            (graph.num_prices,),
            _VALUE,
            lambda: rounds >= most or brief.time_is_up(),
            lambda line: None,
            graph.start() if start is None else start,
        )
        # It is of the schedules that cost no more than the one known.
        self._raise(min(graph.bound(found.prices) / graph.factor, self.value), "recomputed")
        self.report(f"prices of time: {self.bound:g} after {found.rounds} rounds")
        return graph, found.prices

    def _sweep(
        self,
        bound: Callable[[Steps, float, Sequence[TimePrice]], RestBound],
        share: float = _LAYERS,
        *,
        to_the_end: bool = False,
    ) -> bool:
        """Look for better plans layer by layer, and raise the bound; return whether that can be.

        Of makespans a pass looks for plans halfway between bound and value alone, until little is
        left between them: they are fewer, so that more of them are seen. If there is none and no
        plan was left out, that is a bound.

        Parameters
        ----------
        bound
            Returns what plans cost at least that are better than a value, with prices of the pass
            before; asked anew for each pass.
        share
            Of the time left, how much it may take.
        to_the_end
            Whether passes begin however little time is left for them, and the last but one is left
            out where bound and value are close: as wide as can be, one proves that in less time.
        """
        steps = Steps(self.data, self.objective, WholeTimes(self.data))
        if self.is_closed or self.plan is None or not steps.fit:
            return False
        # Put in again it starts at ends and releases only, as all plans of layers do.
        self.take(self.data.put_in_again(self.plan))
        layers = Layers(steps, self.settings.gap)
        brief = self.settings.within(share * self.settings.seconds_left())
        between, near = _BETWEEN if self.objective == "makespan" else 0.0, False
        prices: Sequence[TimePrice] = ()
        widths = layers.widths()
        while widths and not self.is_closed:
            width, left = widths[0], brief.seconds_left()
            goal = self._goal(layers.grain, 0.0 if near else between)
            try:
                with time_limit(left):
                    rest = bound(steps, goal, prices)
                    swept = layers.sweep(width, goal, rest)
            except OutOfTime:
                break
            prices = rest.raised
            looked, known = goal < self.value, self.value
            self.take(swept.plan)
            self._raise(min(swept.bound, self.value), "recomputed")
            self.report(
                f"layers, {width} wide, below {goal:g}: {self.value:g}, bound {self.bound:g}"
            )
            took, is_cut = left - brief.seconds_left(), swept.bound < min(goal, self.value)
            near = self.value - self.bound <= _NEAR * self.value
            if looked and (not is_cut or (self.value < known and not near)):
                pass  # there is more to be had from as many plans
            elif looked and len(widths) == 1:
                between = 0.0
            else:
                close = to_the_end and self.value - self.bound <= _CLOSE * self.value
                widths = widths[2 if close and len(widths) == 3 else 1 :]
                took *= _AGAIN
            if brief.seconds_left() < took and not to_the_end:
                break
        return True

    def _goal(self, grain: float, between: float) -> float:
        """Return a value so far between value and bound, a whole number of grains below the value.

        Parameters
        ----------
        grain
            Of what costs are whole multiples, up to a constant; 0: nothing.
        between
            0 for the value itself to 1 for the bound.
        """
        below = between * (self.value - self.bound)
        return self.value - (grain * math.floor(below / grain) if grain else below)

    def _mend(self, graph: PricesOfGraph) -> None:
        """Put the activities in by their starts at prices, in the modes that they have there."""
        data = self.data
        if any(
            sum(data.amounts[k][m][n] for k, m in enumerate(graph.modes)) > resource.capacity
            for n, resource in enumerate(data.used_up)
        ):
            return
        order = data.order_of(graph.starts)
        self.take(data.plan(graph.modes, data.schedule(graph.modes, order)))

    def _raise(self, bound: float, proof: BoundProof) -> None:
        if bound > self.bound:
            self.bound, self.proof = bound, proof

    def _ask_cpsat(
        self,
        windows: Windows | None,
        seconds: float,
        *,
        linear: bool = True,
        by_bound: bool = False,
    ) -> Limit | None:
        """Ask CP-SAT for a better schedule; return what stopped it early, or None.

        Linear: with relaxations, which take most of its time. By bound it tries the least value
        that is not yet excluded, again and again.
        """
        brief, data = self.settings.within(seconds), self.data
        try:
            with time_limit(brief.seconds_left()):
                built = build_cpsat(data.problem, self.objective, windows, self.bound)
        except OutOfTime:
            return "time"  # of this turn; others may have time left
        hint = None if self.plan is None or built.start is None else built.start(self.plan)
        raw = cpsat.solve(
            built.model,
            SolverOptions(
                brief.seconds_left(),
                self.settings.seed,
                self.settings.workers,
                self.settings.gap,
                hint,
                stoppable=True,
                linear=linear,
                by_bound=by_bound,
            ),
        )
        known = self.value
        if raw.values is not None:
            self.take(built.extract(raw.values))
        if raw.status == "infeasible" and windows is not None:
            self._raise(known, "claimed")  # no better schedule starts where a better one would
        elif raw.status == "infeasible":
            self.infeasible, self.plan = True, None
        else:
            self._raise(raw.bound if windows is None else min(raw.bound, known), raw.bound_proof)
        self.report(f"CP-SAT: {self.value:g}, bound {self.bound:g}")
        return raw.limit
