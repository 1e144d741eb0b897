"""Inference sizing over whole mixes: the strong model.

Where on every GPU type the sizes of replicas divide one another and the host, and all pools of the
type have hosts of one size, only the GPUs of each type matter: what fits by its sum fits host by
host, and a pool can be filled to its last GPU, largest replicas first, before the next one begins.
Then a *mix* - how many replicas of each option of a model - is good for nothing but its use of
GPUs, and only the mixes that serve everything with least GPUs are needed: the Pareto front in as
many dimensions as there are types, found by dynamic programming over options and types.

Variables: v_mtk binary, model m runs mix k in period t; X_tp GPUs used of pool p; h_p as before.
    min  sum_t w_t sum_{p used} a_pt X_tp + sum_{p held} h_p H_p sum_t w_t a_pt
    (D1) sum_k v_mtk = 1                                     each m, t with requests
    (D2) sum_{p of type g} X_tp = sum_{m,k} u_kg v_mtk       each t, g
    (D3) X_tp <= H_p B_pt, and <= H_p h_p for p held         each t, p
It has the same optimum as the model by columns, and a much better bound: the covering rows, with
their integrality gap, are gone (a Dantzig-Wolfe reformulation with all columns listed).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.models.inference_sizing.data import Choice, Column, SizingData, nests
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.inference_sizing.rates import Loss, fullest, largest_only

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

MAX_STATES = 20_000
"""Partial mixes kept at once; a problem with more is left to the model by columns."""
_ROUNDING = 1e-9
"""Share of the demand that sums of rates may miss: they are rounded in the 16th digit, and the
checker allows far more."""


@dataclass(frozen=True)
class Mix:
    """Replicas of a model that together serve everything in a period.

    Parameters
    ----------
    gpus
        GPUs used of each type, in the order of `Frontier.types`.
    columns
        Position of the choice and of the column of each option that takes part.
    """

    gpus: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Frontier:
    """The mixes worth having.

    Parameters
    ----------
    types
        GPU types in use.
    mixes
        For each model and period class with requests, its mixes; empty when nothing serves them.
    """

    types: tuple[str, ...]
    mixes: dict[tuple[int, int], tuple[Mix, ...]]


@dataclass(frozen=True)
class _States:
    """Partial mixes: their GPUs, what they serve at each loss, and how they are made.

    Parameters
    ----------
    gpus
        Shape (states, types).
    served
        Requests/s at each loss, shape (states, losses).
    made
        Columns of each, as in `Mix`.
    """

    gpus: Whole
    served: Array
    made: list[tuple[tuple[int, int], ...]]


def suits(problem: InferenceProblem, sizes: Sequence[Sequence[int]]) -> bool:
    """Return whether only the GPUs of each type matter.

    Parameters
    ----------
    problem
        Its pools are asked about.
    sizes
        For each pool, the GPUs of the replicas that could stand on its hosts.
    """
    rooms: dict[str, set[int]] = {}
    for p, pool in enumerate(problem.pools):
        rooms.setdefault(pool.gpu_type, set()).add(pool.gpus_per_host)
        if not nests(sizes[p], pool.gpus_per_host):
            return False
    return all(len(found) == 1 for found in rooms.values())


def frontier(data: SizingData) -> Frontier | None:
    """Return the mixes of a problem, or None where the model by columns has to do."""
    if not suits(data.problem, data.sizes):
        return None
    types = tuple(dict.fromkeys(pool.gpu_type for pool in data.problem.pools))
    chosen: dict[tuple[int, int], list[tuple[int, Choice]]] = {}
    for c, choice in enumerate(data.choices):
        chosen.setdefault((choice.model, choice.period), []).append((c, choice))
    mixes: dict[tuple[int, int], tuple[Mix, ...]] = {}
    for m in range(len(data.problem.models)):
        for t in range(len(data.periods)):
            if data.demand(m, t) > 0:
                found = _mixes(data, m, chosen.get((m, t), []), data.demand(m, t), types)
                if found is None:
                    return None
                mixes[m, t] = found
    return Frontier(types, mixes)


def _mixes(
    data: SizingData,
    m: int,
    choices: list[tuple[int, Choice]],
    demand: float,
    types: tuple[str, ...],
) -> tuple[Mix, ...] | None:
    """Return the mixes of a model in a period; None if there are too many on the way."""
    model = data.problem.models[m]
    units = model.failures
    whole = _States(np.zeros((1, len(types)), np.int64), np.zeros((1, units + 1)), [()])
    of_type: dict[str, list[tuple[int, Choice]]] = {}
    for c, choice in choices:
        of_type.setdefault(model.options[choice.option].gpu_type, []).append((c, choice))
    for g, here in of_type.items():
        states = _of_type(data, m, here, demand, types.index(g), len(types))
        if len(states.made) * len(whole.made) > 100 * MAX_STATES:
            return None
        last = g == next(reversed(of_type))
        whole = _combined(whole, states, demand, only_complete=last)
        if len(whole.made) > MAX_STATES:
            return None
    done = np.flatnonzero(whole.served[:, -1] >= demand * (1 - _ROUNDING))
    return tuple(Mix(tuple(whole.gpus[i].tolist()), whole.made[i]) for i in done)


def _of_type(
    data: SizingData,
    m: int,
    choices: list[tuple[int, Choice]],
    demand: float,
    g: int,
    num_types: int,
) -> _States:
    """Return the partial mixes of the options of one GPU type, served after 0, 1, ... failures."""
    model = data.problem.models[m]
    options = [choice.option for _, choice in choices]
    by_units = _losses_of_type(data, m, options)
    losses = [loss for group in by_units for loss in group]
    states = _States(np.zeros((1, num_types), np.int64), np.zeros((1, len(losses))), [()])
    for position, (c, choice) in enumerate(choices):
        gpus = model.options[choice.option].gpus
        lost = [loss[position] for loss in losses]
        added = _States(
            np.array([[0] * num_types] + [
                [gpus * column.replicas if k == g else 0 for k in range(num_types)]
                for column in choice.columns
            ]),
            np.array([[0.0] * len(losses)] + [_rates(column, lost) for column in choice.columns]),
            [(), *(((c, j),) for j in range(len(choice.columns)))],
        )  # fmt: skip
        states = _pruned(_sums(states, added, demand))
    ends = np.cumsum([len(group) for group in by_units])
    served = np.stack(
        [states.served[:, end - len(group) : end].min(axis=1)
         for group, end in zip(by_units, ends, strict=True)],
        axis=1,
    )  # fmt: skip
    return _pruned(_States(states.gpus, served, states.made))


def _rates(column: Column, lost: Sequence[int]) -> list[float]:
    return [column.rates[min(n, len(column.rates) - 1)] for n in lost]


def _losses_of_type(data: SizingData, m: int, options: Sequence[int]) -> list[list[Loss]]:
    """Return the losses of options of one type by 0, 1, ... failures, largest only."""
    model = data.problem.models[m]
    number = len(options)
    if model.failure_unit == "replica":
        single = [tuple(int(i == o) for i in range(number)) for o in range(number)]
    else:
        pools = data.problem.pools_of(model.options[options[0]].gpu_type)
        room = max(pool.gpus_per_host for pool in pools)
        single = fullest([model.options[o].gpus for o in options], room)
    found: list[list[Loss]] = [[(0,) * number]]
    for _ in range(model.failures):
        sums = (tuple(map(sum, zip(a, b, strict=True))) for a in found[-1] for b in single)
        found.append(largest_only(sums))
    return found


def _sums(a: _States, b: _States, most: float) -> _States:
    """Return all sums of partial mixes; what is served beyond `most` counts for nothing."""
    gpus = (a.gpus[:, None, :] + b.gpus[None, :, :]).reshape(-1, a.gpus.shape[1])
    served = (a.served[:, None, :] + b.served[None, :, :]).reshape(-1, a.served.shape[1])
    made = [x + y for x, y in itertools.product(a.made, b.made)]
    return _States(gpus, np.minimum(served, most), made)


def _combined(a: _States, b: _States, demand: float, *, only_complete: bool) -> _States:
    """Combine partial mixes of different types; the worst split of the failures counts."""
    units = a.served.shape[1]
    served = np.stack(
        [
            np.min(
                [a.served[:, i][:, None] + b.served[:, j - i][None, :] for i in range(j + 1)],
                axis=0,
            )
            for j in range(units)
        ],
        axis=2,
    )
    keep = np.ones(served.shape[:2], dtype=bool)
    if only_complete:
        keep = served[:, :, -1] >= demand * (1 - _ROUNDING)
    left, right = np.nonzero(keep)
    return _pruned(
        _States(
            a.gpus[left] + b.gpus[right],
            np.minimum(served[left, right], demand),
            [a.made[i] + b.made[k] for i, k in zip(left.tolist(), right.tolist(), strict=True)],
        )
    )


def _pruned(states: _States) -> _States:
    """Leave out partial mixes that another equals or beats in GPUs and in what it serves."""
    if len(states.made) <= 1:
        return states
    # In this order nothing later can beat what came before.
    total = states.gpus.sum(axis=1)
    order = np.lexsort((-states.served.sum(axis=1), total))
    kept: list[int] = []
    kept_gpus = np.empty((0, states.gpus.shape[1]), np.int64)
    kept_served = np.empty((0, states.served.shape[1]))
    for begin, end in _runs(total[order]):
        group = order[begin:end]
        beaten = _beaten(kept_gpus, kept_served, states, group)
        group = group[~beaten]
        new: list[int] = []
        for i in group.tolist():
            if new:
                among = np.array(new)
                fewer = (states.gpus[among] <= states.gpus[i]).all(axis=1)
                more = (states.served[among] >= states.served[i]).all(axis=1)
                if np.logical_and(fewer, more).any():
                    continue
            new.append(i)
        if new:
            kept += new
            kept_gpus = np.vstack([kept_gpus, states.gpus[new]])
            kept_served = np.vstack([kept_served, states.served[new]])
    return _States(states.gpus[kept], states.served[kept], [states.made[i] for i in kept])


def _runs(values: Whole) -> list[tuple[int, int]]:
    """Return begin and end of the runs of equal values."""
    cuts = np.flatnonzero(np.diff(values)) + 1
    edges = [0, *cuts.tolist(), len(values)]
    return list(itertools.pairwise(edges))


def _beaten(gpus: Whole, served: Array, states: _States, group: Whole) -> npt.NDArray[np.bool_]:
    """Return which of a group are beaten by states kept earlier."""
    beaten = np.zeros(len(group), dtype=bool)
    if not len(gpus):
        return beaten
    for begin in range(0, len(group), 1024):
        some = group[begin : begin + 1024]
        fewer = (gpus[None, :, :] <= states.gpus[some][:, None, :]).all(axis=2)
        more = (served[None, :, :] >= states.served[some][:, None, :]).all(axis=2)
        beaten[begin : begin + 1024] = np.logical_and(fewer, more).any(axis=1)
    return beaten
