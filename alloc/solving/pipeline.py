"""Pipeline stages by dynamic programming: the bottleneck path over the layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from alloc.backends import SolverOptions, highs
from alloc.backends.second_proof import solve_and_prove
from alloc.certificate import is_within
from alloc.clock import time_limit
from alloc.errors import OutOfTime, UnsupportedFeatureError
from alloc.formulation import Array, ArrayModel
from alloc.models.pipeline import MAX_RANGE, StageTimes, build_arrays
from alloc.problems.pipeline.problem import PipelinePlan, PipelineProblem
from alloc.problems.pipeline.timetable import timetable
from alloc.solving.outcome import Outcome, Settings
from alloc.units import MILLI
from alloc.verification.pipeline import verify_pipeline
from alloc.workload import Configuration, TaskGroup

_TOO_MUCH = "the layers do not fit in the memory of the devices, whatever the cuts"


def cut_layers(
    problem: PipelineProblem,
    objective: str,
    settings: Settings,
    start: PipelinePlan | None,
    report: Callable[[str], None],
) -> Outcome[PipelinePlan]:
    """Find the stages whose bottleneck is shortest.

    The label of a stage and a layer is the shortest bottleneck of the stages up to there. The label
    of the end bounds every plan; where the stages of a device share its memory, it is the bound of
    a relaxation, and HiGHS solves the model where the relaxation's plan does not fit.

    Parameters
    ----------
    problem
        The pipeline.
    objective
        ``bottleneck``.
    settings
        Limits.
    start
        A plan that is returned where no other is found in time, or None.
    report
        Takes a line of progress.
    """
    outcome = _by_labels(problem, settings, start)
    plan = outcome.solution
    if outcome.limit or plan is None or not verify_pipeline(problem, plan):
        return outcome
    report("the stages of a device do not fit together; the integer program decides")
    try:
        return _in_windows(problem, settings, outcome.bound, start)
    except UnsupportedFeatureError:
        report("that program is too large; the bound is the relaxation's")
        return replace(outcome, solution=start)


def _by_labels(
    problem: PipelineProblem, settings: Settings, start: PipelinePlan | None
) -> Outcome[PipelinePlan]:
    """Run the dynamic program; memory counts stage by stage."""
    done = Outcome(start, 0.0, "recomputed", "alloc dynamic program", "1")
    times = StageTimes(problem)
    label, before = np.zeros(1), []
    for s in range(problem.num_stages):
        if settings.time_is_up():
            return replace(done, limit="time")
        begins, ends, cost = times.of(s)
        through: Array = np.maximum(label[:, None], cost)
        chosen = through.argmin(axis=0)
        before.append((begins.start, ends.start, chosen))
        label = through[chosen, np.arange(through.shape[1])]
    if not np.isfinite(label[0]):
        return replace(done, solution=None, bound=np.inf, infeasible=True, conflict=_TOO_MUCH)
    firsts, end = [], len(problem.layers)
    for begin, first_end, chosen in reversed(before):
        end = begin + int(chosen[end - first_end])
        firsts.append(end)
    return replace(done, solution=PipelinePlan(tuple(reversed(firsts))), bound=float(label[0]))


def _in_windows(
    problem: PipelineProblem, settings: Settings, bound: float, start: PipelinePlan | None
) -> Outcome[PipelinePlan]:
    """Solve the integer program with the shortest arcs, and with longer ones where these fail.

    Tolerances would lose short arcs beside far longer ones.
    """
    _, longest = StageTimes(problem).range_s
    while True:
        most = MAX_RANGE * bound
        outcome = _by_arrays(problem, settings, (bound, most), start)
        if not outcome.infeasible or most >= longest:
            return outcome
        bound = most


def _by_arrays(
    problem: PipelineProblem,
    settings: Settings,
    between: tuple[float, float],
    start: PipelinePlan | None,
) -> Outcome[PipelinePlan]:
    """Solve the integer program, in which the stages of a device share its memory.

    `between` is a bound on the bottleneck, and the longest arc that there is to be, seconds.
    """
    bound, _ = between
    options = SolverOptions(seed=settings.seed, workers=settings.workers, gap=settings.gap)
    outcome = Outcome(start, bound, "recomputed", "highs", highs.version())
    try:
        with time_limit(settings.seconds_left()):
            built = build_arrays(problem, between=between)
        assert isinstance(built.model, ArrayModel)
        left = replace(options, time_limit_s=settings.seconds_left(), stoppable=True)
        raw = solve_and_prove(built.model, left)
    except OutOfTime:
        return replace(outcome, limit="time")
    except KeyboardInterrupt:
        return replace(outcome, limit="interrupt")
    if raw.status == "infeasible":
        return replace(
            outcome,
            solution=None,
            bound=np.inf,
            bound_proof=raw.bound_proof,
            infeasible=True,
            conflict=_TOO_MUCH,
        )
    found = start if raw.values is None else built.extract(raw.values)
    # The relaxation's bound is proved; the solver's counts where it says more.
    more = raw.bound > bound and not is_within(raw.bound, bound, 1e-9)
    return replace(
        outcome,
        solution=found,
        bound=raw.bound if more else bound,
        bound_proof=raw.bound_proof if more else "recomputed",
        limit=raw.limit,
    )


def pipeline_configurations(
    problems: Sequence[PipelineProblem], gpu_type: str | None = None
) -> tuple[Configuration, ...]:
    """Return how many training steps a second a job makes with each row of devices.

    Parameters
    ----------
    problems
        The same model on rows of different length, one GPU a device. Those that do not fit are left
        out.
    gpu_type
        GPU type of the configurations, or None for any.

    Returns
    -------
    tuple of Configuration
        One for each problem that fits: as many workers as devices, training steps a second with the
        best stages. Work of such a job is counted in training steps.
    """
    made = []
    for problem in problems:
        plan = cut_layers(problem, "bottleneck", Settings(), None, lambda line: None).solution
        if plan is not None:
            workers = TaskGroup("worker", len(problem.devices), MILLI)
            rate = 1 / timetable(problem, plan).step_s
            made.append(Configuration((workers,), rate, gpu_type))
    return tuple(made)
