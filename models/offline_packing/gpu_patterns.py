"""The relaxation over GPU patterns, its pricing problem, and the bound proved by its prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from alloc.formulation import Array, ArrayModel
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


def relaxation(data: PackingData, patterns: Sequence[Sequence[Pattern]]) -> ArrayModel:
    """Return the linear relaxation over the given patterns of each class of hosts.

    Columns: x_ck for every class and kind, class by class, then y_cp. Rows as in
    `alloc.models.offline_packing`: (C1) copies, (C2) CPU, (C3) memory, (C4) GPUs, (C5) places.
    """
    num_classes, num_kinds = data.most.shape
    num_shares = len(data.shares)
    num_x = num_classes * num_kinds
    first = np.cumsum([0, num_kinds, num_classes, num_classes, num_classes])
    c, k = (index.ravel() for index in np.indices((num_classes, num_kinds)))
    x = np.arange(num_x)
    sharing = data.share_index[k] >= 0
    rows = [k, first[1] + c, first[2] + c, (first[3] + c)[~sharing]]
    columns = [x, x, x, x[~sharing]]
    values = [
        np.ones(num_x),
        data.cpu[k] / CORE,
        data.memory[k] / GIB,
        data.num_gpus[k][~sharing],
    ]
    rows.append((first[4] + c * num_shares + data.share_index[k])[sharing])
    columns.append(x[sharing])
    values.append(np.ones(int(sharing.sum())))
    column = num_x
    for here, known in enumerate(patterns):
        for pattern in known:
            held = np.flatnonzero(pattern)
            rows += [np.array([first[3] + here]), first[4] + here * num_shares + held]
            columns.append(np.full(len(held) + 1, column))
            values += [np.ones(1), -np.array(pattern)[held]]
            column += 1
    matrix = csr_array(
        coo_array(
            (
                np.concatenate(values).astype(float),
                (np.concatenate(rows), np.concatenate(columns)),
            ),
            shape=(int(first[4]) + num_classes * num_shares, column),
        )
    )
    limits = np.concatenate(
        [
            data.copies,
            data.hosts * data.size[:, 1] / CORE,
            data.hosts * data.size[:, 2] / GIB,
            data.hosts * data.size[:, 0],
            np.zeros(num_classes * num_shares),
        ]
    )
    upper = np.full(column, np.inf)
    upper[:num_x] = (data.most * data.hosts[:, None]).ravel()
    return ArrayModel(
        "max",
        np.concatenate([np.tile(data.value, num_classes), np.zeros(column - num_x)]),
        matrix,
        np.full(len(limits), -np.inf),
        limits,
        np.zeros(column),
        upper,
        np.zeros(column, dtype=bool),
        rows={
            f"C{i + 1}": slice(int(a), int(b))
            for i, (a, b) in enumerate(zip(first, [*first[1:], matrix.shape[0]], strict=True))
        },
    )


def prices_of(data: PackingData, model: ArrayModel, duals: Array) -> Prices:
    """Return the prices that the dual values of the relaxation's rows stand for."""
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
