"""The specialised exact method of F6.

1. Jobs that miss their limit even alone are refused (`alloc.models.admission.admission_data`).
2. First answers by minimum satisfactory shares, in several orders.
3. Linear tables: a knapsack with flow cuts (`alloc.solving.admission.flow`).
4. Large programs of jobs that may pause at no cost fall into parts that share no slot: columns of
   plans, their bound recomputed in numpy (`alloc.solving.admission.plan_columns`), then some jobs
   are planned again at a time.
5. All others: the linear relaxation, its bound recomputed in numpy, then the integer program, told
   what the hosts do not hold together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.linear_program import LinearProgram
from alloc.backends.second_proof import solve_and_prove
from alloc.backends.weak_duality import WeakDuality
from alloc.certificate import OPTIMALITY_GAP, BoundProof, Limit, is_within
from alloc.families import FAMILIES
from alloc.formulation import Array, ArrayModel, BuiltModel, RawResult
from alloc.models.admission.arrays import (
    Columns,
    array_model,
    build_data,
    plan_of_accepted,
    start_values,
)
from alloc.models.admission.data import AdmissionData, admission_data
from alloc.models.malleable.grid import Held
from alloc.models.malleable.profiles import IDLE
from alloc.objectives import is_kept
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.solving.admission.flow import FlowCuts, network_of
from alloc.solving.admission.neighbourhood import Neighbourhoods
from alloc.solving.admission.parts import Parts, columns_apply
from alloc.solving.admission.shares import fill
from alloc.solving.outcome import Outcome, Progress, Settings
from alloc.solving.refinement import Question, solve_refined

_BACKEND = "alloc admission + HiGHS"
_LARGE = 3_000
"""Columns from which jobs are planned again in parts first: smaller programs end by themselves."""
_IMPROVE_SHARE = 0.7
"""Part of the time for that: the rest is for the whole program, which proves."""
_MANY = 20_000
"""Choices of job, slot and configuration from which columns of plans are generated first: the
relaxation of such a program takes longer than they do, from a second to a minute."""
_COLUMNS_SHARE = 0.8
"""Part of the time for columns of plans: the rest is for the program, which plans some jobs
again."""


def solve_admission(
    instance: Instance,
    objective: str,
    settings: Settings,
    warm_start: Solution | None,
    report: Progress,
) -> Outcome[Solution]:
    """Solve an instance of F6: the method behind ``solve(..., "admission")``.

    Parameters
    ----------
    instance
        The instance.
    objective
        One level of a goal.
    settings
        Limits, and earlier levels of the goal.
    warm_start
        A schedule to start from, or None; the answer is never worse.
    report
        Takes a line of progress.
    """
    data = admission_data(instance, objective, settings.held)
    if data.hopeless:
        report(f"{len(data.hopeless)} jobs miss their limit even alone on the cluster")
    question = Question(instance, FAMILIES["admission"], objective)
    search = _Search(data, question, settings, report)
    try:
        if isinstance(warm_start, Schedule):
            search.take(warm_start)
        return search.run()
    except KeyboardInterrupt:
        # What was found until here is kept and certified.
        return search.outcome("interrupt")


class _Search:
    """The search: the best schedule known, and the best bound."""

    def __init__(
        self, data: AdmissionData, question: Question, settings: Settings, report: Progress
    ) -> None:
        self.data, self.question, self.settings, self.report = data, question, settings, report
        self.best: Schedule | None = None
        self.filled: list[list[Held]] = []
        self.bound, self.proof = self._first_bound()

    def _first_bound(self) -> tuple[float, BoundProof]:
        """Return what holds before anything is solved: no more than all that are not hopeless."""
        level = self.data.level
        if [term.name for _, term in level.terms] != ["value"]:
            return (math.inf if level.sense == "max" else -math.inf), "none"
        able = [job.weight for j, job in enumerate(self.data.jobs) if j not in self.data.hopeless]
        return level.terms[0][0] * math.fsum(able), "recomputed"

    def run(self) -> Outcome[Solution]:
        """Search until the best schedule is proved, or the time is up."""
        for order in self._orders():
            self._fill(order)
            if self.settings.time_is_up():
                return self.outcome("time")
        network = network_of(self.data)
        if network is not None:
            return self._by_flow(FlowCuts(self.data, network, self.settings, self.report))
        by_columns = self.data.grid.num_choices >= _MANY and columns_apply(self.data)
        if by_columns:
            self._by_columns()
            if self._is_proved():
                return self.outcome(None)
            if self.settings.time_is_up():
                return self.outcome("time")
        model, columns = array_model(self.data)
        if by_columns and self.best is not None:
            self._improve(model, columns, 1.0)
        elif (infeasible := self._relax(model, columns)) is not None:
            return infeasible
        elif not self._is_proved():
            self._improve(model, columns, _IMPROVE_SHARE)
        if self._is_proved():
            return self.outcome(None)
        if self.settings.time_is_up():  # what is left is to build the program once more
            return self.outcome("time")
        return self._by_program()

    def _by_columns(self) -> None:
        """Answer each part by columns of plans, and put the answers together."""
        data, settings, question = self.data, self.settings, self.question
        known = list(self.filled)
        if self.best is not None:
            plans = plan_of_accepted(data, self.best)
            first = {j: data.slots(j).start for j in plans}
            known.append(
                [
                    (j, first[j] + k, c)
                    for j, own in plans.items()
                    for k, c in enumerate(own)
                    if c != IDLE
                ]
            )
        within = settings.within(_COLUMNS_SHARE * settings.seconds_left())
        parts = Parts(data, known, within, self._rounded, self.report)
        try:
            if parts.run():
                raise KeyboardInterrupt
        finally:
            # Ctrl-C keeps what the parts have until then.
            self.bound, self.proof = min(self.bound, parts.bound), "recomputed"
            held = parts.held
            self.take(data.schedule(held, sorted({j for j, _, _ in held})))
        if self.best is not None:
            self.report(f"columns of plans: value {question.value(self.best):g}")

    def _improve(self, model: ArrayModel, columns: list[Columns], share: float) -> None:
        """Plan some jobs again, where the whole program is too large to be solved at once."""
        data, settings = self.data, self.settings
        level = [term.name for _, term in data.level.terms]
        if level != ["value"] or data.held or len(model.cost) < _LARGE or self.best is None:
            return
        start = start_values(data, columns, len(model.cost), self.best)
        if start is None:
            return
        within = settings.within(share * settings.seconds_left())
        search = Neighbourhoods(data, model, columns, within)
        for values in search.run(start):
            self.take(data.schedule(*search.answer(values)))
            self.report(f"neighbourhoods: value {self.question.value(self.best):g}")
            if self._is_proved():
                return

    def _orders(self) -> Iterator[list[int]]:
        """Yield orders of the jobs: promised ones first, then by deadline, density and value."""
        data = self.data
        area = data.grid.data.area.max(axis=1)
        weight = np.array([job.weight for job in data.jobs])
        promised = np.array([not job.refusable for job in data.jobs])
        for key in (data.grid.data.limit, -weight / np.maximum(area, 1e-12), -weight):
            order = np.lexsort((key, ~promised))
            yield [j for j in order.tolist() if j not in data.hopeless]

    def _fill(self, order: list[int]) -> None:
        held, accepted = fill(self.data, order)
        self.filled.append(held)
        self.take(self.data.schedule(held, accepted))

    def take(self, schedule: Schedule | None) -> None:
        """Keep a schedule if it keeps all rules and is the best one."""
        question = self.question
        if schedule is None or question.family.check(question.problem, schedule):
            return
        if not is_kept(self.data.instance, schedule, self.data.held):
            return
        kept = question.best(self.best, schedule)
        self.best = schedule if self.best is None else kept

    def _is_proved(self) -> bool:
        return self.best is not None and is_within(
            self.question.value(self.best), self.bound, OPTIMALITY_GAP
        )

    def _by_flow(self, cuts: FlowCuts) -> Outcome[Solution]:
        jobs = self.data.jobs
        starts = []
        if self.best is not None:
            starts.append(np.array([float(job.id in self.best.runs_of) for job in jobs]))
        answer = cuts.run(starts)
        if answer.infeasible and self.best is None:
            return self._infeasible()
        if not math.isinf(answer.bound):
            self.bound, self.proof = answer.bound, answer.bound_proof
        if answer.held is not None:
            self.take(self.data.schedule(answer.held, answer.accepted))
        limited = not self._is_proved() and self.settings.time_is_up()
        return self.outcome("time" if limited else None)

    def _relax(self, model: ArrayModel, columns: list[Columns]) -> Outcome[Solution] | None:
        """Take the bound of the linear relaxation, and what its values say of the order."""
        program = LinearProgram(model)
        found = program.solve(self.settings.seconds_left())
        duality = WeakDuality(model)
        if found is None:
            ray = program.infeasibility_ray() if program.is_infeasible else None
            if ray is not None and self.best is None and duality.proves_infeasible(ray):
                return self._infeasible()
            return None
        bound = duality.bound(found.duals)
        if math.isfinite(bound):
            closer = min if self.data.level.sense == "max" else max
            self.bound, self.proof = closer(self.bound, self._rounded(bound)), "recomputed"
        self.report(f"linear relaxation: bound {self.bound:g}")
        accepted = np.array([found.values[at.a] for at in columns])
        promised = np.array([not job.refusable for job in self.data.jobs])
        for key in (-accepted, -np.round(accepted, 1)):
            order = np.lexsort((self.data.grid.data.limit, key, ~promised))
            self._fill([j for j in order.tolist() if j not in self.data.hopeless])
        return None

    def _rounded(self, bound: float) -> float:
        """Return a bound on values that are sums of weights at a multiple of all weights."""
        terms = self.data.level.terms
        if len(terms) > 1 or terms[0][1].name != "value":
            return bound
        weight = terms[0][0] * np.array([job.weight for job in self.data.jobs])
        step = float(weight.min())
        if max(abs(bound), float(weight.max())) > step * 2.0**40:
            return bound
        if (weight / step != np.rint(weight / step)).any():
            return bound
        # Of very many steps, rounding is a share of their number.
        return step * math.floor(bound / step * (1 + 1e-12) + 1e-6)

    def _by_program(self) -> Outcome[Solution]:
        def run(tried: BuiltModel) -> RawResult:
            start: Array | None = None
            if tried.start is not None and self.best is not None:
                start = tried.start(self.best)
            raw = solve_and_prove(
                cast(ArrayModel, tried.model),
                SolverOptions(
                    self.settings.seconds_left(),
                    self.settings.seed,
                    self.settings.workers,
                    gap=OPTIMALITY_GAP / 2,
                    start=start,
                    stoppable=True,
                ),
            )
            self.report(f"integer program: {raw.native_status}, bound {raw.bound:g}")
            return raw

        raw, solution = solve_refined(
            self.question, build_data(self.data), run, self.settings, self.report, self.best
        )
        if raw.status == "infeasible" and solution is None:
            return self._infeasible()
        if isinstance(solution, Schedule):
            self.take(solution)
        closer = (
            raw.bound < self.bound if self.data.level.sense == "max" else raw.bound > self.bound
        )
        if closer and raw.status != "infeasible":
            self.bound, self.proof = raw.bound, raw.bound_proof
        limit = raw.limit or ("time" if self.settings.time_is_up() else None)
        return self.outcome(limit)

    def _infeasible(self) -> Outcome[Solution]:
        worst = -math.inf if self.data.level.sense == "max" else math.inf
        return Outcome(
            None,
            worst,
            "claimed",
            _BACKEND,
            highs.version(),
            infeasible=True,
            conflict=FAMILIES["admission"].conflict,
        )

    def outcome(self, limit: Limit | None) -> Outcome[Solution]:
        """Return the outcome, as far as it is known."""
        return Outcome(self.best, self.bound, self.proof, _BACKEND, highs.version(), limit=limit)
