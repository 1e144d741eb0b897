"""The relaxation over GPU patterns, its pricing problem, and the bound proved by its prices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alloc.formulation import Array, ArrayModel
from alloc.model_builder import ModelBuilder
from alloc.models.offline_packing.data import PackingData
from alloc.units import MILLI

CORE, GIB = 1000, 1024
"""Units of the CPU and memory rows, milli-cores and MiB: numbers that a simplex likes."""

Pattern = tuple[int, ...]
"""How many tasks of each share (`PackingData.shares`) stand together on one GPU."""


@dataclass(frozen=True)
class Prices:
    """What a unit of everything scarce is worth, in GPUs; all 0 or more.

    Parameters
    ----------
    cpu, memory
        Per milli-core and MiB of each class of hosts, shape (C,).
    gpu
        Per GPU of each class, shape (C,).
    slot
        Per place for a share on a GPU of each class, shape (C, S).
    """

    cpu: Array
    memory: Array
    gpu: Array
    slot: Array


def first_patterns(data: PackingData) -> list[Pattern]:
    """Return for each share the GPU that is filled with it alone."""
    number = len(data.shares)
    return [
        tuple(int(MILLI // share) if s == k else 0 for s in range(number))
        for k, share in enumerate(data.shares)
    ]


def relaxation(data: PackingData) -> ArrayModel:
    """Return the linear relaxation before it has patterns: the columns x_ck, class by class.

    Rows as in `alloc.models.offline_packing`: (C1) copies, (C2) CPU, (C3) memory, (C4) GPUs, (C5)
    places. `pattern_entries` has the columns y_cp.
    """
    num_classes, num_kinds = data.most.shape
    builder = ModelBuilder("C1", "C2", "C3", "C4", "C5")
    most = data.most * data.hosts[:, None]
    x = builder.columns(most.shape, most, cost=data.value, integer=False)
    c, k = np.arange(num_classes)[:, None], np.arange(num_kinds)
    whole, sharing = data.share_index < 0, np.flatnonzero(data.share_index >= 0)
    builder.rows("C1", num_kinds, [(k, x, 1.0)], upper=data.copies)
    capacity = data.hosts[:, None] * data.size
    builder.rows("C2", num_classes, [(c, x, data.cpu / CORE)], upper=capacity[:, 1] / CORE)
    builder.rows("C3", num_classes, [(c, x, data.memory / GIB)], upper=capacity[:, 2] / GIB)
    gpus = (c, x[:, whole], data.num_gpus[whole])
    builder.rows("C4", num_classes, [gpus], upper=capacity[:, 0])
    slot = c * len(data.shares) + data.share_index[sharing]
    places = num_classes * len(data.shares)
    builder.rows("C5", places, [(slot, x[:, sharing], 1.0)], upper=0.0)
    return builder.model("max")


def pattern_entries(
    data: PackingData, model: ArrayModel, c: int, pattern: Pattern
) -> tuple[list[int], list[float]]:
    """Return the rows and values of the column y_cp of a pattern on a class of hosts.

    Parameters
    ----------
    data
        The numbered problem.
    model
        The relaxation whose rows are meant.
    c
        Position of the class of hosts.
    pattern
        Requests of each share on one GPU.
    """
    first = model.rows["C5"].start + c * len(data.shares)
    held = [s for s, number in enumerate(pattern) if number]
    rows = [model.rows["C4"].start + c, *(first + s for s in held)]
    return rows, [1.0, *(-float(pattern[s]) for s in held)]


def prices_of(data: PackingData, model: ArrayModel, duals: Array) -> Prices:
    """Return the prices that the dual values of the relaxation's rows stand for.

    Parameters
    ----------
    data
        The numbered problem.
    model
        The relaxation.
    duals
        Dual values of its rows, shape (rows,); below 0 counts as 0.
    """
    part = {name: np.maximum(duals[rows], 0.0) for name, rows in model.rows.items()}
    slot = part["C5"].reshape(len(data.members), len(data.shares))
    return Prices(part["C2"] / CORE, part["C3"] / GIB, part["C4"], slot)


def best_gpu(data: PackingData, slot: Array) -> tuple[float, Pattern]:
    """Return the most valuable set of shares for one GPU, by dynamic programming.

    Parameters
    ----------
    data
        The shares.
    slot
        Value of each share, shape (S,).
    """
    shares = data.shares
    unit = int(np.gcd.reduce(np.append(shares, MILLI)))
    sizes = (shares // unit).tolist()
    best = np.zeros(MILLI // unit + 1)
    choice = np.full(MILLI // unit + 1, -1)
    for filled in range(1, len(best)):
        best[filled] = best[filled - 1]
        for s, size in enumerate(sizes):
            if size <= filled and best[filled - size] + slot[s] > best[filled]:
                best[filled], choice[filled] = best[filled - size] + slot[s], s
    pattern = [0] * len(sizes)
    left = MILLI // unit
    while left > 0:
        if choice[left] < 0:
            left -= 1
        else:
            pattern[choice[left]] += 1
            left -= sizes[choice[left]]
    return float(best[-1]), tuple(pattern)


def proved_bound(data: PackingData, prices: Prices) -> float:
    """Return the upper bound on the GPUs held that prices prove, by weak duality.

    For any prices of 0 or more, with the price of a GPU raised to what the best set of shares on it
    is worth, no allocation holds more GPUs than all resources are worth plus what the jobs gain
    over the resources they use; each kind gains at most where it gains most. Plain arithmetic: it
    does not matter where the prices come from.

    Parameters
    ----------
    data
        The numbers.
    prices
        Any prices of 0 or more.
    """
    gpu = np.array(
        [
            max(float(price), best_gpu(data, slot)[0]) if data.shares.size else float(price)
            for price, slot in zip(prices.gpu, prices.slot, strict=True)
        ]
    )
    worth = data.size[:, 0] * gpu + data.size[:, 1] * prices.cpu + data.size[:, 2] * prices.memory
    place = np.where(
        data.share_index >= 0,
        prices.slot[:, np.maximum(data.share_index, 0)] if data.shares.size else 0.0,
        data.num_gpus * gpu[:, None],
    )
    cost = data.cpu * prices.cpu[:, None] + data.memory * prices.memory[:, None] + place
    gain = np.maximum(data.value - cost, 0.0)
    limit = data.most * data.hosts[:, None]
    total = float((data.hosts * worth).sum())
    for kind, copies in enumerate(data.copies.tolist()):
        for c in np.argsort(-gain[:, kind], kind="stable"):
            taken = min(copies, int(limit[c, kind]))
            total += taken * float(gain[c, kind])
            copies -= taken
    return total
