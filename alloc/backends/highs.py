"""HiGHS on sparse arrays.

Every integer program goes through `solve`: it gets finite bounds and ordinary numbers (see
`alloc.backends.column_bounds` and `alloc.backends.scaling`), and answers in the caller's units.
Linear programs that are solved again and again go through `alloc.backends.linear_program`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache

import highspy
import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions
from alloc.backends.column_bounds import bounded
from alloc.backends.interrupts import Stop, stoppable
from alloc.backends.network import is_network
from alloc.backends.scaling import MAX_COST, Scaling, out_of_range, power_of_two, require_visible
from alloc.certificate import Limit, beats
from alloc.errors import SolverError
from alloc.formulation import Array, ArrayModel, CpSatModel, PyomoModel, RawResult
from alloc.objectives import Sense

MODEL_KIND = "arrays"

_STATUS = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kTimeLimit: "stopped",
    highspy.HighsModelStatus.kInterrupt: "stopped",
    highspy.HighsModelStatus.kIterationLimit: "stopped",
    highspy.HighsModelStatus.kSolutionLimit: "stopped",
}

_LIMITS: dict[highspy.HighsModelStatus, Limit] = {
    highspy.HighsModelStatus.kInterrupt: "interrupt",
    highspy.HighsModelStatus.kSolutionLimit: "nodes",
}

ANSWERED = (
    highspy.HighsModelStatus.kOptimal,
    highspy.HighsModelStatus.kModelEmpty,
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnbounded,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
)
_PATIENCE_S = 10.0
"""Seconds after which a linear program that starts from a basis had better start from none."""

_FAILED = highspy.HighsModelStatus.kSolveError
_INTERRUPTED = highspy.HighsModelStatus.kInterrupt

_SMALL = 500
"""Entries of a matrix up to which looking for a first solution by feasibility jumps takes several
times as long as solving the model."""

NO_AGGREGATOR = 1 << 12
"""Value of HiGHS's ``presolve_rule_off`` for integer programs. With its aggregator presolve makes
false optima: 3 of 236,000 small random programs, and one that calls 0.3 optimal where 0.6 is
(1.12 to 1.15). Without it none is known, and nothing here is slower."""
NO_PROBING = 1 << 15
"""The same for trying out what each binary column at 0 and at 1 entails."""

_REFUSED = (
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
)
SECONDS_FOR_SECOND, _TIMES_FOR_SECOND = 0.2, 2.0
"""For a second opinion on what presolve says: seconds at least, times what the first took."""
_SAME = 1e-9
"""Scaled objectives that differ by less are equal: the largest cost is about 1."""
_TINY = 2.0**-10
"""Scaled optima below this are solved once more in a finer scale: the 1e-7 to which HiGHS holds
reduced costs is then more than a ten-thousandth of the objective."""
_TOLERANCE = 1e-7
"""To how much HiGHS holds reduced costs, and here also rows and whole numbers."""


@cache
def version() -> str:
    """Return the solver's name and version."""
    return f"HiGHS {highspy.Highs().version()}"


def quiet_solver(options: SolverOptions) -> highspy.Highs:
    """Return a silent HiGHS with the options set."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", max(options.time_limit_s, 0.01))
    solver.setOptionValue("random_seed", options.seed % (2**31))
    solver.setOptionValue("threads", options.workers)
    # The default of 1e-4 accepts real money on large objectives.
    solver.setOptionValue("mip_rel_gap", options.gap)
    solver.setOptionValue("mip_abs_gap", _SAME)
    if options.nodes is not None:
        solver.setOptionValue("mip_max_nodes", options.nodes)
    # The default of 1e-6 is all that the checkers allow, and rounding needs a part of that.
    solver.setOptionValue("mip_feasibility_tolerance", _TOLERANCE)
    # HiGHS would drop entries below 1e-9 without a word.
    solver.setOptionValue("small_matrix_value", 1e-12)
    return solver


def run_warm(solver: highspy.Highs, seconds: float = math.inf) -> None:
    """Run a linear program from its last basis; where that comes to nothing, from none.

    The dual simplex method of HiGHS (1.13) may go round in circles, where a row looks infeasible
    and what should prove it misses a tolerance. So a run that takes long is broken off; the next
    begins without a basis, and the last is by the interior point method, which knows no circles.

    Parameters
    ----------
    solver
        The program.
    seconds
        Wall time for all of it, seconds.
    """
    _, method = solver.getOptionValue("solver")
    ends = time.perf_counter() + seconds
    tries = ((_PATIENCE_S, method), (6 * _PATIENCE_S, method), (math.inf, "ipm"))
    for n, (patience_s, other) in enumerate(tries):
        if n:
            solver.clearSolver()  # before the next run: after the last, its status would be lost
        left = ends - time.perf_counter()
        # HiGHS counts the time of all runs.
        solver.setOptionValue("time_limit", solver.getRunTime() + max(min(patience_s, left), 0.0))
        if other != method:
            solver.setOptionValue("solver", other)
        solver.run()
        status = solver.getModelStatus()
        if status in ANSWERED or status == _INTERRUPTED or time.perf_counter() >= ends:
            break
    if other != method:
        solver.setOptionValue("solver", method)


@contextmanager
def threads(workers: int) -> Iterator[None]:
    """Give HiGHS a pool of `workers` threads for a while, and then again a single one.

    The pool belongs to the process: a solver that wants another size than the first one got runs
    into an error, status "Not Set", instead of solving.
    """
    if workers == 1:
        yield
        return
    highspy.Highs.resetGlobalScheduler(True)
    try:
        yield
    finally:
        highspy.Highs.resetGlobalScheduler(True)


def highs_model(model: ArrayModel) -> highspy.HighsLp:
    """Return the model in HiGHS' own structure."""
    lp = highspy.HighsLp()
    matrix = model.matrix.tocsc()
    lp.num_col_, lp.num_row_ = matrix.shape[1], matrix.shape[0]
    lp.sense_ = highspy.ObjSense.kMaximize if model.sense == "max" else highspy.ObjSense.kMinimize
    lp.offset_ = model.offset
    lp.col_cost_ = model.cost
    lp.col_lower_, lp.col_upper_ = model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    if model.integer.any():
        kinds = np.where(
            model.integer, highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        )
        lp.integrality_ = kinds.tolist()
    return lp


def solve(model: ArrayModel | CpSatModel | PyomoModel, options: SolverOptions) -> RawResult:
    """Solve an array model, an incumbent never lost at a limit.

    Parameters
    ----------
    model
        An `ArrayModel`.
    options
        Limits of the search, a start, and what the solver may do.
    """
    assert isinstance(model, ArrayModel)
    if not len(model.cost):
        return _without_columns(model)
    ends = time.perf_counter() + options.time_limit_s
    if model.integer.any() and options.start is None and is_network(model):
        # HiGHS sees no clock while it prepares a tree for tens of thousands of whole columns.
        relaxed = replace(model, integer=np.zeros_like(model.integer))
        raw = _solve_in_scale(relaxed, model.integer, options)
        if raw.values is None or (np.abs(raw.values - np.rint(raw.values)) < _TOLERANCE).all():
            return raw
        options = replace(options, time_limit_s=max(ends - time.perf_counter(), 0.0))
    if model.integer.any():
        model = bounded(model)
    return _solve_in_scale(model, model.integer, options)


def _solve_in_scale(
    model: ArrayModel, whole: npt.NDArray[np.bool_], options: SolverOptions
) -> RawResult:
    """Solve a program in units in which its numbers are of ordinary size.

    `whole` marks the columns that are whole in some optimum, whether or not the program asks it.
    """
    ends = time.perf_counter() + options.time_limit_s
    model = _without_fixed_costs(model)
    scaling = Scaling.of(model)
    scaled = scaling.apply(model)
    require_visible(model, scaled)
    raw = _solve_scaled(scaled, _scaled_options(options, model, scaling))
    while (finer := _finer(model, scaling, raw)) is not None:
        # Its large costs set the unit, and the optimum does without them.
        assert raw.values is not None
        values = raw.values * scaling.columns
        left = max(ends - time.perf_counter(), 0.0)
        left_options = replace(options, time_limit_s=left, start=values)
        lean = _without_dear(model, whole, values)
        if lean is not model:
            finer = Scaling.of(lean)
        again = _solve_scaled(finer.apply(lean), _scaled_options(left_options, lean, finer))
        if again.status != "optimal" and again.limit is None:
            break
        known = _cost(raw, scaling, model.sense)
        if again.limit is not None and _cost(again, finer, model.sense) > known:
            # Time is up, and what was proved before rests on tolerances that decide here.
            bound = again.bound * (scaling.objective / finer.objective)
            raw = replace(raw, status="feasible", limit=again.limit, bound=bound)
            break
        raw, scaling = again, finer
        if lean is model:
            break
        model = lean
    return _unscaled(model, scaling, raw)


def _cost(raw: RawResult, scaling: Scaling, sense: Sense) -> float:
    """Return the value of a solution in units of the caller, less is better; infinite: none."""
    if raw.objective is None:
        return np.inf
    return (1.0 if sense == "min" else -1.0) * raw.objective / scaling.objective


def _without_fixed_costs(model: ArrayModel) -> ArrayModel:
    """Return the program with what fixed columns cost as a part of its constant.

    They decide nothing, so they must not set the unit: hosts a million times dearer than the work,
    of which none may be bought any more, made false optima of what was left.
    """
    is_fixed = (model.lower == model.upper) & (model.cost != 0)
    if not is_fixed.any():
        return model
    constant = float(model.cost[is_fixed] @ model.lower[is_fixed])
    return replace(model, cost=np.where(is_fixed, 0.0, model.cost), offset=model.offset + constant)


def _without_dear(model: ArrayModel, whole: npt.NDArray[np.bool_], values: Array) -> ArrayModel:
    """Return a program without the whole columns that alone cost more than a solution does.

    With one unit of such a column, a plan costs at least that much more than the columns' limits
    prove. Twice what the solution costs above them leaves room for its tolerances.
    """
    sign = 1.0 if model.sense == "min" else -1.0
    above = sign * (float(model.cost @ values) + model.offset - trivial_bound(model))
    dear = whole & (model.lower == 0) & (sign * model.cost > 2 * above)
    if not dear.any():
        return model
    return replace(
        model, cost=np.where(dear, 0.0, model.cost), upper=np.where(dear, 0.0, model.upper)
    )


def _scaled_options(options: SolverOptions, model: ArrayModel, scaling: Scaling) -> SolverOptions:
    if options.start is None:
        return options
    return replace(
        options, start=np.clip(options.start, model.lower, model.upper) / scaling.columns
    )


def _finer(model: ArrayModel, scaling: Scaling, raw: RawResult) -> Scaling | None:
    """Return a scaling in which an optimum is of ordinary size, None where it is already.

    Tolerances are a share of the largest cost. Where the optimum is far below it, as with one huge
    weight that finds no room beside small ones that do, they would decide the small ones.
    """
    if raw.status != "optimal" or raw.objective is None or raw.limit is not None:
        return None
    # A constant may be huge beside what is weighed, or be what costs nearly make up for.
    weighed = raw.objective - model.offset * scaling.objective
    objective = min(raw.objective, weighed, key=abs)
    if abs(objective) >= _TINY:
        return None
    sizes = np.abs(model.cost[model.cost != 0] * scaling.columns[model.cost != 0])
    if not len(sizes) or sizes.min() * scaling.objective >= _TINY:
        return None
    least = max(abs(objective), float(sizes.min()) * scaling.objective)
    return scaling.finer(min(power_of_two(least), MAX_COST))


def _unscaled(model: ArrayModel, scaling: Scaling, raw: RawResult) -> RawResult:
    """Return a result in the model's own units, with a bound that its tolerances allow."""
    bound, objective = raw.bound, raw.objective
    if math.isfinite(bound):
        sign = 1.0 if model.sense == "min" else -1.0
        if _finer(model, scaling, raw) is not None:
            # Even the finest scaling leaves the objective where tolerances decide.
            bound -= sign * _TOLERANCE
        elif objective is not None and abs(bound - objective) <= _SAME:
            bound = objective
        bound = sign * max(sign * bound, sign * trivial_bound(model) * scaling.objective)
        bound /= scaling.objective
    values = None if raw.values is None else raw.values * scaling.columns
    if objective is not None:
        objective /= scaling.objective
    return replace(raw, values=values, objective=objective, bound=bound)


def trivial_bound(model: ArrayModel) -> float:
    """Return the bound that the columns' own limits prove, infinite where they have none."""
    sign = 1.0 if model.sense == "min" else -1.0
    cost = sign * model.cost
    at = np.where(cost > 0, model.lower, model.upper)[cost != 0]
    return sign * float(cost[cost != 0] @ at) + model.offset


def _solve_scaled(model: ArrayModel, options: SolverOptions) -> RawResult:
    """Solve a program whose numbers are of ordinary size."""
    solver = quiet_solver(options)
    if solver.passModel(highs_model(model)) == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS refuses the program; {out_of_range(model)}")
    other_way = "off"  # of presolve, where the first fails
    if model.integer.any():
        rules_off = NO_AGGREGATOR | (NO_PROBING if options.brief else 0)
        solver.setOptionValue("presolve_rule_off", rules_off)
        solver.setOptionValue("mip_allow_restart", not options.brief)
        open_ended = np.isinf(model.lower).any() or np.isinf(model.upper).any()
        if open_ended or not options.presolve:
            # Presolve can crash the process on integer programs with unbounded columns.
            solver.setOptionValue("presolve", "off")
        elif _has_faint_entries(model):
            # It makes false optima of these, but refuses some on which the search fails.
            solver.setOptionValue("presolve", "off")
            other_way = "choose"
    if model.matrix.nnz <= _SMALL:
        solver.setOptionValue("mip_heuristic_run_feasibility_jump", False)
    if options.start is not None:
        _set_start(solver, options.start)
    with threads(options.workers), _stop_of(solver, options) as stop:
        solver.run()
        if options.start is not None and solver.getModelStatus() == _FAILED:
            # HiGHS completes a partial start by a program of its own, and fails as a whole where
            # the answer to that one misses a tolerance. A start is a hint, no more.
            solver.clearSolver()
            solver.run()
        if solver.getModelStatus() == _FAILED:
            # What presolve leaves may miss a tolerance in the same way; the program itself does
            # not: one of 8,000 drawn at random, of two rows and numbers of about one.
            solver.clearSolver()
            solver.setOptionValue("presolve", other_way)
            solver.run()
        if model.integer.any() and not stop.pressed and _is_of_presolve(solver):
            solver = _second_opinion(solver, model, options, stop)
        if model.integer.any() and stop.pressed and solver.getModelStatus() in _REFUSED:
            # A refusal needs the second opinion, for which there was no time.
            return _nothing(model)
    result = _read_result(solver, model)
    # Also where it was over already: whoever pressed Ctrl-C wants no more of what comes next.
    return replace(result, limit="interrupt") if stop.pressed else result


def _nothing(model: ArrayModel) -> RawResult:
    worst = math.inf if model.sense == "max" else -math.inf
    return RawResult("no_solution", None, None, worst, "interrupt", "Stopped")


def _stop_of(solver: highspy.Highs, options: SolverOptions) -> AbstractContextManager[Stop]:
    return stoppable(solver) if options.stoppable else nullcontext(Stop())


def _is_of_presolve(solver: highspy.Highs) -> bool:
    """Return whether an answer is a refusal, or found by presolve alone, without search."""
    info = solver.getInfo()
    searched = info.mip_node_count > 0 or info.simplex_iteration_count > 0
    status = solver.getModelStatus()
    return status in _REFUSED or (status == highspy.HighsModelStatus.kOptimal and not searched)


def _has_faint_entries(model: ArrayModel) -> bool:
    """Return whether a scaled program has entries below the tolerance of rows.

    Of columns that take billions they are all of a row, and presolve takes them for nothing.
    """
    sizes = np.abs(model.matrix.data)
    return bool(((sizes > 0) & (sizes < _TOLERANCE)).any())


def _second_opinion(
    first: highspy.Highs, model: ArrayModel, options: SolverOptions, stop: Stop
) -> highspy.Highs:
    """Return a solver that refutes the first one without presolve, or with it, else the first.

    HiGHS's presolve of integer programs has refused programs that have a solution (1.13.1; limits
    a little above a whole number of hosts), and its false optima (see `NO_AGGREGATOR`) are most
    often of programs of which it leaves nothing to search. Those take a millisecond to check. And
    without it HiGHS has refused a program of faint entries whose limit was just what was needed.
    """
    was_off = first.getOptionValue("presolve")[1] == "off"
    open_ended = np.isinf(model.lower).any() or np.isinf(model.upper).any()
    spent = first.getRunTime()
    seconds = min(spent * _TIMES_FOR_SECOND, options.time_limit_s - spent)
    solver = quiet_solver(options)
    solver.setOptionValue("time_limit", max(seconds, SECONDS_FOR_SECOND))
    solver.setOptionValue("presolve_rule_off", NO_AGGREGATOR)
    # Presolve can crash the process on integer programs with unbounded columns.
    solver.setOptionValue("presolve", "choose" if was_off and not open_ended else "off")
    if model.matrix.nnz <= _SMALL:
        solver.setOptionValue("mip_heuristic_run_feasibility_jump", False)
    solver.passModel(highs_model(model))
    if options.stoppable:
        stop.watch(solver)
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return first
    refuted = first.getModelStatus() in _REFUSED or beats(
        info.objective_function_value, first.getInfo().mip_dual_bound, model.sense, _SAME
    )
    return solver if refuted else first


def _set_start(solver: highspy.Highs, values: Array) -> None:
    """Hand a start over; of one with unknown (NaN) values HiGHS works the others out itself."""
    known = np.flatnonzero(np.isfinite(values))
    if len(known) == len(values):
        start = highspy.HighsSolution()
        start.col_value = values.tolist()
        solver.setSolution(start)
    else:
        solver.setSolution(len(known), known.astype(np.int32), values[known])


def _without_columns(model: ArrayModel) -> RawResult:
    """Return the result of a model without columns, which HiGHS answers with a status apart."""
    if (model.row_lower > 0).any() or (model.row_upper < 0).any():
        worst = math.inf if model.sense == "max" else -math.inf
        return RawResult("infeasible", None, None, -worst, None, "Empty")
    return RawResult("optimal", np.zeros(0), model.offset, model.offset, None, "Empty")


def _read_result(solver: highspy.Highs, model: ArrayModel) -> RawResult:
    """Normalise what HiGHS holds after a run."""
    native = solver.getModelStatus()
    word = solver.modelStatusToString(native)
    status = _STATUS.get(native)
    worst = math.inf if model.sense == "max" else -math.inf
    if native == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        # Every model of alloc has bounded columns, so unbounded is impossible.
        status = "infeasible"
    if status is None:
        raise SolverError(f'HiGHS stopped with status "{word}", which alloc does not expect.')
    if status == "infeasible":
        return RawResult("infeasible", None, None, -worst, None, word)
    info = solver.getInfo()
    has_incumbent = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values: Array | None = None
    objective = None
    if has_incumbent:
        values = np.array(solver.getSolution().col_value, dtype=float)
        objective = float(info.objective_function_value)
    if model.integer.any():
        bound = float(info.mip_dual_bound)
        bound = bound if math.isfinite(bound) else worst
    else:
        bound = objective if status == "optimal" and objective is not None else worst
    if status == "optimal":
        return RawResult("optimal", values, objective, bound, None, word)
    return RawResult(
        "feasible" if has_incumbent else "no_solution",
        values,
        objective,
        bound,
        _LIMITS.get(native, "time"),
        word,
    )
