r"""The largest discounted return, exactly: family F2 with the reward as objective.

The time-indexed program of `alloc.models.malleable`, its constraints (C1) to (C12) and variables as
they are, under another objective: with the discount g, the return of slot t is counted g^t times.

``progress``
    max sum_jt g^t sum_c rho_jc v_jtc / W_j + g^T sum_j o_j / W_j, and (C1) with equality: no more
    work is done than there is. W_j is all work of job j, o_j what is left over after the last slot
    T - 1.
``completions``
    max sum_jt g^t (u_jt - u_j,t+1) + g^T sum_j u_jT.
``jobs-in-system``, ``weighted-jct``
    max - sum_jt g^t w_j e_jt - sum_j g^(T + p_j) w_j o_j / max_c rho_jc, with the lag from arrival
    to first slot as a constant; w_j = 1 for the first, p_j the least processing time rounded up.

What is left over after the last slot counts as if it were done at once and for free, so the optimum
of the program bounds the return of every schedule, of any length; where nothing is left over, it is
the return of the schedule found.

Ties: among the schedules whose return is within `TIE` of the largest, the one with the least or the
greatest sum of completion times; in undominated configurations, as all of F2. For the greatest,
stays must not be longer than they are: what is held and not done with works the whole slot,
sum_c v_jtc >= sum_c x_jtc + u_j,t+1 - 1 - delta_j z_jt, and
sum_{t' <= t} sum_c rho_jc v_jt'c <= Q_j - Q_j d u_j,t+1 and
e_jt <= u_j,t+1 + sum_c v_jtc + delta_j z_jt, with d = 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.certificate import OPTIMALITY_GAP, relative_gap
from alloc.errors import InstanceError
from alloc.formulation import Array, ArrayModel
from alloc.learning.reward_audit.measuring import weights_of
from alloc.learning.reward_audit.rewards import AuditedReward
from alloc.models.malleable.arrays import Columns, array_model, held_columns
from alloc.models.malleable.data import Index
from alloc.models.malleable.grid import Grid, grid_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule

TIE = 1e-6
"""Relative difference of returns that counts as none."""
_UNFINISHED = 1e-4
"""Least part of its work that an unfinished job has left, in the search for the worst tie.

Well above the 1e-6 by which a solver may break a row: else complete jobs count as unfinished.
"""
_GAP = OPTIMALITY_GAP / 2

Ties = Literal["any", "best", "worst"]
"""Which of the schedules of the largest return: any, or that of the least or greatest JCT."""


@dataclass(frozen=True)
class Maximiser:
    """A schedule of the largest return, with what is proved.

    Parameters
    ----------
    schedule, value, bound
        The best schedule found, its return by the program, and the proved bound on any return.
    proved
        Whether the return is proved to be the largest, and, with ties broken, that the JCT is the
        best or worst among those.
    mean_jct
        With ties broken, its mean completion time by the program (weighted if the reward is),
        slots.
    """

    schedule: Schedule
    value: float
    bound: float
    proved: bool
    mean_jct: float | None = None


def maximise_return(
    instance: Instance,
    reward: AuditedReward,
    *,
    ties: Ties = "any",
    time_limit_s: float = 60.0,
    seed: int = 0,
) -> Maximiser | None:
    """Return a clairvoyant schedule of the largest discounted return, or None if none was found.

    Parameters
    ----------
    instance
        The problem, in slots.
    reward
        A reward with a discount above 0 that is not constant.
    ties
        Which of several.
    time_limit_s
        Wall time of each of the two programs (the return; the ties), seconds.
    seed
        Random seed of the solver.

    Raises
    ------
    InstanceError
        If the reward looks at single slots only, or is the same for all schedules.
    """
    if reward.per_slot or reward.constant:
        why = "looks at each slot by itself" if reward.per_slot else "is the same for all schedules"
        raise InstanceError(f'reward "{reward.name}" ({reward.text}) {why}; it has no program.')
    grid = grid_of(instance)
    model, columns = _program(grid, reward)
    options = SolverOptions(time_limit_s, seed, gap=_GAP)
    raw = highs.solve(model, options)
    if raw.values is None or raw.objective is None:
        return None
    gap = relative_gap(raw.objective, raw.bound)
    over = sum(raw.values[at.o] / grid.data.work[j] for j, at in enumerate(columns))
    proved = gap is not None and gap <= OPTIMALITY_GAP and over <= OPTIMALITY_GAP
    schedule = _schedule(grid, columns, raw.values)
    found = Maximiser(schedule, raw.objective, raw.bound, proved)
    if ties == "any" or not proved:
        return found
    start = np.full(len(raw.values), np.nan)
    for at in columns:
        start[at.x] = raw.values[at.x]
    tied, columns = _tied(grid, model, reward, raw.objective, ties)
    again = highs.solve(tied, replace(options, start=start))
    if again.values is None or again.objective is None:
        return replace(found, proved=False)
    gap = relative_gap(again.objective, again.bound)
    weight = weights_of(instance, reward)
    return replace(
        found,
        schedule=_schedule(grid, columns, again.values),
        proved=gap is not None and gap <= OPTIMALITY_GAP,
        mean_jct=float((again.objective + weight @ grid.data.lag) / weight.sum()),
    )


def _schedule(grid: Grid, columns: list[Columns], values: Array) -> Schedule:
    found = grid.schedule(held_columns(grid, columns, values))
    assert found is not None  # no earlier level of a goal is held
    return found


def _program(grid: Grid, reward: AuditedReward) -> tuple[ArrayModel, list[Columns]]:
    """Return the program of F2 with the reward as its objective."""
    model, columns = array_model(grid)
    cost, offset = _objective(grid, columns, len(model.cost), reward)
    lower, row_upper = model.lower.copy(), model.row_upper.copy()
    if reward.base == "progress":
        first = _first_rows(model, columns)
        for j, at in enumerate(columns):
            row_upper[first[j]] = grid.data.work[j]  # (C1) with equality
            if not np.isfinite(grid.data.limit[j]):
                # The reward does not ask who is unfinished, and being so costs nothing.
                lower[at.u], lower[at.e] = 1.0, 1.0
    model = replace(model, sense="max", cost=cost, offset=offset, lower=lower, row_upper=row_upper)
    return model, columns


def _objective(
    grid: Grid, columns: Sequence[Columns], size: int, reward: AuditedReward
) -> tuple[Array, float]:
    """Return the coefficients of the return, and its constant."""
    data, cost, offset, gamma = grid.data, np.zeros(size), 0.0, reward.gamma
    for j, at in enumerate(columns):
        slots = grid.slots(j)
        discount = gamma ** np.array(slots, dtype=float)
        if reward.base == "progress":
            work = data.instance.jobs[j].work
            cost[at.v] = discount[:, None] * data.table(j).rate / work
            cost[at.o] = gamma**slots.stop / work
        elif reward.base == "completions":
            cost[at.u] = discount * (gamma - 1)
            offset += gamma**slots.start
        else:
            weight = float(data.weight[j]) if reward.weighted else 1.0
            last = slots.stop + np.ceil(data.shortest[j])
            cost[at.e] = -weight * discount
            cost[at.o] = -weight * gamma**last / float(data.table(j).rate.max())
            offset -= weight * gamma**slots.start * float(data.lag[j])
    return cost, offset


def _first_rows(model: ArrayModel, columns: Sequence[Columns]) -> list[int]:
    """Return the row of (C1) of each job: the first one that its work left over is in."""
    by_column = model.matrix.tocsc()
    return [int(by_column[:, [at.o]].nonzero()[0].min()) for at in columns]


def _tied(
    grid: Grid, returns: ArrayModel, reward: AuditedReward, value: float, ties: Ties
) -> tuple[ArrayModel, list[Columns]]:
    """Return the program of the JCT over the schedules of the largest return."""
    model, columns = array_model(grid)
    slack = TIE * max(1.0, abs(value))
    blocks = [model.matrix, sparse.csr_array(returns.cost[None, :])]
    lower = [model.row_lower, np.array([value - returns.offset - slack])]
    # (C1) is an equality here, too, if it is one in the program of the return.
    upper = [returns.row_upper, np.array([np.inf])]
    upper_bound = model.upper.copy()
    cost = np.zeros(len(model.cost))
    weights = weights_of(grid.data.instance, reward)
    for j, at in enumerate(columns):
        cost[at.e] = weights[j]
        # What the largest return completes is completed here, too.
        upper_bound[at.o] = 0.0
        if ties == "worst":
            block, limit = _true_stays(grid, j, at, len(model.cost))
            blocks.append(block)
            lower.append(np.full(block.shape[0], -np.inf))
            upper.append(limit)
    model = replace(
        model,
        sense="min" if ties == "best" else "max",
        cost=cost,
        offset=0.0,
        upper=upper_bound,
        matrix=sparse.csr_array(sparse.vstack(blocks, format="csr")),
        row_lower=np.concatenate(lower),
        row_upper=np.concatenate(upper),
    )
    return model, columns


def _true_stays(grid: Grid, j: int, at: Columns, size: int) -> tuple[sparse.csr_array, Array]:
    """Return the rows with which stays are not longer than the simulator's."""
    rate, work = grid.data.table(j).rate, float(grid.data.work[j])
    num, delta = len(at.e), grid.restart(j)
    rows: list[Index] = []
    cols: list[Index] = []
    values: list[Array] = []

    def put(row: Index, column: Index, value: float | Array) -> None:
        r, c, v = np.broadcast_arrays(row, column, value)
        rows.append(r.ravel())
        cols.append(c.ravel())
        values.append(v.ravel().astype(float))

    k = np.arange(num)
    put(k, at.u, _UNFINISHED)
    later, earlier = np.tril_indices(num)
    put(later[:, None], at.v[earlier], rate / work)
    put(num + k, at.e, 1.0)
    put(num + k, at.u, -1.0)
    put((2 * num + k)[:, None], at.x, 1.0)
    put(2 * num + k, at.u, 1.0)
    for block in (num, 2 * num):
        put((block + k)[:, None], at.v, -1.0)
        if delta:
            put(block + k, at.z, -delta)
    matrix = sparse.csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))),
        shape=(3 * num, size),
    )
    return matrix, np.concatenate([np.ones(num), np.zeros(num), np.ones(num)])
