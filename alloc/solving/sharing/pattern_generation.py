"""The linear relaxation of F5: patterns of shares by pricing, and the bound its duals prove.

Gilmore and Gomory (1961): the dual prices of the slots say what a task of each size is worth on one
GPU of a host class; the best pattern is a two-dimensional knapsack, solved exactly. At any prices
the Lagrangian function bounds every solution; it is evaluated here in numpy, so that no word of a
solver is in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from alloc.backends.linear_program import LinearProgram
from alloc.backends.restricted_master import MasterColumn, RestrictedMaster
from alloc.formulation import Array, ArrayModel
from alloc.models.sharing.arrays import PLACES_ALL, Column, array_model
from alloc.models.sharing.data import SharingData
from alloc.models.sharing.patterns import Counts, Pattern, Size
from alloc.solving.outcome import Settings
from alloc.topology.gpu_fit import gpu_memory_mib
from alloc.units import MILLI

_CONVERGED = 1e-7
"""Relative difference of master and bound, and reduced cost in parts of the largest cost, that
count as none: what a linear program in double precision leaves as noise."""
_MAX_CELLS = 4_000_000
"""Cells of the knapsack's table; more are coarsened: a weaker bound, never a false one."""


@dataclass(frozen=True)
class Relaxation:
    """What the linear relaxation says.

    Parameters
    ----------
    columns
        The patterns it may use, generated ones included.
    bound
        The bound that its dual prices prove on every solution; infinite when it has none.
    reduced
        What a GPU loses by each pattern at the last prices, 0 or more, shape (columns,).
    option_reduced
        What the objective gains (below 0) or loses (above) by a job in each option at these prices,
        shape (options,).
    infeasible
        Whether not even fractions of patterns hold what must run.
    """

    columns: list[Column]
    bound: float
    reduced: Array
    option_reduced: Array
    infeasible: bool = False

    def core(self, most: int) -> list[Column]:
        """Return the patterns that lose the least, at most so many.

        Good integer solutions are made of these; the linear relaxation itself uses only those that
        lose nothing (Balas and Zemel 1980 call it the core).
        """
        order = np.argsort(self.reduced, kind="stable")[:most]
        return [self.columns[k] for k in sorted(order.tolist())]


def relax(
    data: SharingData,
    columns: Sequence[Column],
    objective: str,
    *,
    all_run: bool,
    settings: Settings,
    report: Callable[[str], None],
) -> Relaxation:
    """Solve the linear relaxation, generating patterns of shares if they are not all listed.

    Parameters
    ----------
    data
        The problem.
    columns
        The patterns to begin with.
    objective
        What to optimise.
    all_run
        Whether every job must run.
    settings
        Limits; generation stops with half of the time left.
    report
        Takes a line of progress.
    """
    first = list(columns)
    if not data.listed:
        first += _singles(data)
    model = _minimised(array_model(data, first, objective, all_run=all_run))
    # Presolve compares alike columns pair by pair: minutes for thousands of weights, for nothing.
    program = LinearProgram(model, presolve=False)
    master = RestrictedMaster[Column]("the relaxation of sharing", program, first)
    # What a reduced cost of nothing is, in the objective's unit.
    least_cost = _CONVERGED * float(np.abs(model.cost).max(initial=0.0))
    num_gpus = data.instance.topology.num_gpus
    if all_run and not data.listed:
        _let_jobs_wait(program, data, model, num_gpus + 1.0)
    half = settings.seconds_left() / 2
    best, rounds = -math.inf, 0
    reduced, of_options = np.zeros(len(first)), np.zeros(len(data.options))
    while True:
        optimum = program.solve(settings.seconds_left())
        if optimum is None:
            if program.is_infeasible and data.listed:
                none = np.zeros(len(data.options))
                return Relaxation(first, math.inf, np.zeros(len(first)), none, infeasible=True)
            break
        duals, of_columns = optimum.duals, optimum.reduced_costs
        of_options = of_columns[: len(data.options)]
        reduced = np.maximum(master.generated(of_columns), 0.0)
        priced = _price(data, model, duals, objective)
        best = max(best, _lagrangian(data, model, first, duals, priced))
        rounds += 1
        fresh = [column for column, cost in priced if cost < -least_cost and column not in master]
        value = optimum.value
        if data.listed or not fresh or value - best <= _CONVERGED * abs(value):
            break
        if settings.seconds_left() <= half:
            report("pattern generation stops for time; its bound holds")
            break
        master.add(_master_column(data, model, column, objective) for column in fresh)
    found = master.keys
    sign = 1.0 if objective in PLACES_ALL else -1.0
    report(f"linear relaxation after {rounds} rounds: {len(found)} patterns, bound {sign * best:g}")
    # No solution uses more GPUs than there are, so a bound beyond proves that there is none.
    reduced = np.pad(reduced, (0, len(found) - len(reduced)))
    return Relaxation(
        found,
        sign * best,
        reduced,
        of_options,
        infeasible=all_run and best > num_gpus + 1e-6,
    )


def _let_jobs_wait(
    program: LinearProgram, data: SharingData, model: ArrayModel, price: float
) -> None:
    """Let jobs wait at a price beyond all GPUs, so that the first patterns need not hold them."""
    first = model.rows["C1_one_option"].start
    count = len(data.classes)
    most = np.array([len(job_class.members) for job_class in data.classes], dtype=float)
    each = np.arange(count)
    program.add_columns(
        np.full(count, price), np.zeros(count), most, each, first + each, np.ones(count)
    )


def _singles(data: SharingData) -> list[Column]:
    """Return the patterns of as many tasks as fit of one size, for every group and share."""
    found = []
    for g, group in enumerate(data.groups):
        memory = gpu_memory_mib(data.host_classes[group.host_class].gpu_type) or 0
        for s, size in enumerate(data.sizes):
            if not size.is_share or size.memory_mib > memory:
                continue
            most = MILLI // size.gpu_milli
            if size.memory_mib:
                most = min(most, memory // size.memory_mib)
            counts = tuple(most * int(t == s) for t in range(len(data.sizes)))
            found.append(Column(g, Pattern(counts, reconfigures=bool(group.state))))
    return found


def _minimised(model: ArrayModel) -> ArrayModel:
    """Return the model as a minimisation, so that dual prices have one sign."""
    return model if model.sense == "min" else replace(model, sense="min", cost=-model.cost)


def _slot_prices(data: SharingData, model: ArrayModel, duals: Array) -> Array:
    """Return what one slot is worth, shape (sizes, host classes)."""
    rows = np.maximum(-duals[model.rows["C3_slots"]], 0.0)
    return rows.reshape(len(data.sizes), len(data.host_classes))


def _pattern_cost(pattern: Pattern, objective: str) -> float:
    if objective == "gpus_used":
        return 1.0
    return float(objective == "reconfigurations" and pattern.reconfigures)


def _price(
    data: SharingData, model: ArrayModel, duals: Array, objective: str
) -> list[tuple[Column, float]]:
    """Return the best pattern of shares of each group with (a bound below) its reduced cost."""
    if data.listed:
        return []
    prices = _slot_prices(data, model, duals)
    gpu = np.minimum(duals[model.rows["C4_gpus"]], 0.0)
    solved: dict[int, tuple[Counts, float]] = {}
    found = []
    for g, group in enumerate(data.groups):
        h = group.host_class
        if h not in solved:
            solved[h] = best_share_pattern(data.host_classes[h].gpu_type, data.sizes, prices[:, h])
        counts, worth = solved[h]
        pattern = Pattern(counts, reconfigures=bool(group.state))
        found.append((Column(g, pattern), _pattern_cost(pattern, objective) - worth - gpu[g]))
    return found


def best_share_pattern(
    gpu_type: str | None, sizes: Sequence[Size], prices: Array
) -> tuple[Counts, float]:
    """Return the pattern of shares of one GPU that is worth the most, and a bound on its worth.

    Parameters
    ----------
    gpu_type
        Type of the GPU.
    sizes
        All sizes.
    prices
        Worth of one task of each size, 0 or more, shape (sizes,).
    """
    memory = gpu_memory_mib(gpu_type) or 0
    able = [
        s
        for s, size in enumerate(sizes)
        if size.is_share and size.memory_mib <= memory and prices[s] > 0
    ]
    none = tuple(0 for _ in sizes)
    if not able:
        return none, 0.0
    step = math.gcd(MILLI, *(sizes[s].gpu_milli for s in able))
    width = MILLI // step
    with_memory = any(sizes[s].memory_mib for s in able)
    unit = math.gcd(memory, *(sizes[s].memory_mib for s in able)) if with_memory else 1
    # Beyond the table's limit a task's memory is rounded down: the worth is then a bound.
    unit = max(unit, -(-memory * (width + 1) // _MAX_CELLS)) if with_memory else 1
    depth = memory // unit if with_memory else 0
    weight = {s: sizes[s].gpu_milli // step for s in able}
    need = {s: sizes[s].memory_mib // unit if with_memory else 0 for s in able}
    worth = np.zeros((width + 1, depth + 1))
    choice = np.full((width + 1, depth + 1), -1, dtype=np.int16)
    for c in range(1, width + 1):
        row = worth[c - 1].copy()
        pick = np.full(depth + 1, -1, dtype=np.int16)
        for s in able:
            if weight[s] > c:
                continue
            m = need[s]
            candidate = worth[c - weight[s], : depth + 1 - m] + prices[s]
            better = candidate > row[m:]
            row[m:][better] = candidate[better]
            pick[m:][better] = s
        worth[c], choice[c] = row, pick
    counts = [0] * len(sizes)
    c, m, left = width, depth, memory
    while c > 0:
        s = int(choice[c, m])
        if s < 0:
            c -= 1
            continue
        if not sizes[s].memory_mib or sizes[s].memory_mib <= left:
            counts[s] += 1  # else the rounding let one too many in: leave it out
            left -= sizes[s].memory_mib
        c, m = c - weight[s], m - need[s]
    return tuple(counts), float(worth[width, depth])


def _lagrangian(
    data: SharingData,
    model: ArrayModel,
    columns: Sequence[Column],
    duals: Array,
    priced: Sequence[tuple[Column, float]],
) -> float:
    """Return the lower bound (of the minimisation) that dual prices prove, in plain numpy."""
    # A price of the wrong sign, by rounding, on a row without that limit counts as none.
    low = np.isfinite(model.row_lower)
    high = np.isfinite(model.row_upper)
    clean = np.where((duals > 0) & ~low | (duals < 0) & ~high, 0.0, duals)
    limits = np.where(clean > 0, model.row_lower, model.row_upper)
    bound = float(np.sum(np.where(clean != 0, clean, 0.0) * np.where(clean != 0, limits, 0.0)))
    reduced = model.cost - model.matrix.T @ clean
    num_fixed = len(model.cost) - _num_patterns(data, model)
    first = reduced[:num_fixed]
    at = np.where(first < 0, model.upper[:num_fixed], model.lower[:num_fixed])
    bound += float(first @ at)
    # A group's GPUs each hold one pattern: together they gain at most its best, n_g times.
    least = np.zeros(len(data.groups))
    for column, value in zip(columns, reduced[num_fixed:], strict=False):
        least[column.group] = min(least[column.group], value)
    for column, value in priced:
        least[column.group] = min(least[column.group], value)
    return bound + float(least @ [len(group.gpus) for group in data.groups])


def _num_patterns(data: SharingData, model: ArrayModel) -> int:
    return len(model.cost) - len(data.options) - len(data.pairs)


def _master_column(
    data: SharingData, model: ArrayModel, column: Column, objective: str
) -> MasterColumn[Column]:
    """Return a pattern on a group as a column of the linear program."""
    group = data.groups[column.group]
    first = model.rows["C3_slots"].start
    used = [s for s, n in enumerate(column.pattern.counts) if n]
    rows = [first + s * len(data.host_classes) + group.host_class for s in used]
    values = [-float(column.pattern.counts[s]) for s in used]
    rows.append(model.rows["C4_gpus"].start + column.group)
    values.append(1.0)
    cost = _pattern_cost(column.pattern, objective)
    return MasterColumn(column, cost, rows, values, float(len(group.gpus)))


def is_counted(data: SharingData, objective: str) -> bool:
    """Return whether every value of an objective is a whole number.

    Parameters
    ----------
    data
        The instance in counts.
    objective
        Name of the objective.
    """
    if objective == "gpus_placed":
        return False
    return objective != "weight_placed" or all(
        float(job_class.weight).is_integer() for job_class in data.classes
    )


def whole_gap(data: SharingData, objective: str, bound: float, otherwise: float) -> float:
    """Return the relative gap at which a search may stop, because whole values are proved equal.

    Whole values less than one apart are equal, and solvers divide their difference by the value of
    the incumbent: so by no more than the bound in maximisation, and than all GPUs in minimisation.

    Parameters
    ----------
    data
        The instance in counts.
    objective
        Name of the objective.
    bound
        A bound on it; it may be infinite.
    otherwise
        Relative gap where values are not whole or nothing bounds them, at least 0.
    """
    if not is_counted(data, objective):
        return otherwise
    most = data.instance.topology.num_gpus if objective in PLACES_ALL else bound
    if not math.isfinite(most):
        return otherwise
    return max(otherwise, 0.999 / max(most, 1.0))


def round_bound(data: SharingData, objective: str, bound: float) -> float:
    """Return the bound after the integers that any value of an objective must be.

    GPUs are counted; weights are summed, and whole weights have whole sums.

    Parameters
    ----------
    data
        The instance in counts.
    objective
        Name of the objective; all but ``gpus_placed`` and ``weight_placed`` are minimised.
    bound
        A bound on it; an infinite one is returned as it is.
    """
    if not math.isfinite(bound):
        return bound
    if objective == "gpus_placed":
        # Milli-GPU are counted.
        return math.floor(bound * MILLI + 1e-6) / MILLI
    if objective != "weight_placed":
        return float(math.ceil(bound - 1e-6))
    total = math.fsum([job.weight for job in data.instance.jobs])
    if is_counted(data, objective):
        # Of large weights, rounding is a share of the bound itself.
        return min(float(math.floor(bound + 1e-6 + 1e-12 * abs(bound))), total)
    return min(bound, total)
