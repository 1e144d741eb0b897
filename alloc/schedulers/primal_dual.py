"""Admission by prices: a job is let in if it is worth more than the GPU time it would take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from alloc.objectives.rounds import Array
from alloc.schedulers.elasticflow import ElasticFlow, Holding, Planned, take
from alloc.schedulers.srtf import work_of

_HALVINGS = 50
"""Halvings of the multiplier: it is then known to more digits than the prices have."""


class PrimalDual(ElasticFlow):
    """Admit a job if its weight exceeds the price of the cheapest slots that do its work in time.

    A GPU in a slot costs the more, the more of that slot is promised: with a share z promised and
    worths of a GPU slot between L and U, ``(L / e) (U e / L) ** z``: an empty slot is cheap, and
    the last GPU costs what the best job is worth. The cheapest slots and sizes are found with one
    multiplier on work, and are kept for the job. What the promises leave free in the coming slot
    goes by marginal return, as in `elasticflow`. A job that may not be refused takes the cheapest
    slots whatever they cost.

    References
    ----------
    The primal-dual dispatch rule for deadline-aware multi-server jobs (arXiv 2112.02456): prices in
    a mesh of slots, cheapest plan, admission by positive utility. The price is that of Zhou,
    Chakrabarty, Lukose, "Budget constrained bidding in keyword auctions and online knapsack
    problems", WINE 2008: alone, and with small jobs, it is worth at least one part in
    ``ln(U / L) + 1`` of the optimum. Departures: L and U are those of the jobs seen so far, the
    worth of a job is its weight, whenever it completes before its deadline; a large gang pays for
    each of its GPUs in turn; GPUs are the only resource with a price; what is free is given away.
    """

    name = "primal-dual"
    information = "deadline, remaining work and weight"

    def __init__(self) -> None:
        super().__init__()
        self._low, self._high = math.inf, 0.0

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        super().reset()
        self._low, self._high = math.inf, 0.0

    def _held(self, admitted: Sequence[Planned], gone: int, total: float) -> Holding:
        return Holding(self._kept_plan(admitted, gone, total), set())

    def _with(
        self, job: Planned, admitted: Sequence[Planned], held: Holding, total: float
    ) -> Holding | None:
        if not job.columns:
            return None  # nothing that it asks for can run
        slots = len(job.usable)
        area = _least_gpu_slots(job)
        if area > 0:  # who needs no GPU pays for none
            worth = job.view.weight / area
            self._low, self._high = min(self._low, worth), max(self._high, worth)
        free = np.full((slots, 1), total)
        for other in admitted:
            take(free, other, held.plan[other.view.id])
        cost = prices(total - free[:, 0], job.gpus, total, self._low, self._high)
        share = cheapest_share(job, cost)
        if share is None:
            return None
        price = math.fsum(float(cost[t, k]) for t, k in share)
        if job.view.refusable and price > job.view.weight:
            return None
        return Holding({**held.plan, job.view.id: share}, set())


def _least_gpu_slots(job: Planned) -> float:
    """Return the least GPU time in which a job can be done, GPU slots."""
    return float((job.gpus / job.rate).min()) * work_of(job.view)[1]


def prices(taken: Array, gpus: Array, total: float, low: float, high: float) -> Array:
    """Return what a job pays in each slot at each size, in units of weight, shape (T, K).

    Parameters
    ----------
    taken
        GPUs that are promised in each slot, shape (T,).
    gpus
        GPUs of each size, shape (K,).
    total
        GPUs of the cluster.
    low, high
        The least and most that a GPU slot is worth; 0 for the most where nobody says.

    Returns
    -------
    ndarray
        The integral of the price over the GPUs taken; infinite where they are not free.
    """
    if not high:  # no job so far needs a GPU
        low = high = 1.0
    growth = 1.0 + math.log(high / low)
    total = max(total, 1.0)
    before = taken[:, None] / total
    after = before + gpus[None] / total
    cost = low / math.e * total / growth * (np.exp(growth * after) - np.exp(growth * before))
    return np.where(after <= 1.0 + 1e-9, cost, math.inf)


def cheapest_share(job: Planned, cost: Array) -> list[tuple[int, int]] | None:
    """Return slots and columns that do a job's work before its deadline at little cost, or None.

    Each slot takes what is best under a multiplier on work, the least multiplier that is enough;
    then the dearest slots that are not needed are dropped. With one size, and slots that all lie
    before the deadline, no others cost less. A job that is not malleable keeps one size.

    Parameters
    ----------
    job
        The job.
    cost
        What each slot costs at each size, shape (T, K); infinite where it is not free.
    """
    done = np.outer(job.usable, job.rate)
    if job.view.elasticity != "malleable":
        alone = [(k, _cheapest(done[:, [k]], cost[:, [k]], job.need)) for k in range(len(job.rate))]
        found = [[(t, k) for t, _ in share] for k, share in alone if share is not None]
        return min(found, key=lambda s: math.fsum(float(cost[t, k]) for t, k in s), default=None)
    return _cheapest(done, cost, job.need)


def _cheapest(done: Array, cost: Array, need: float) -> list[tuple[int, int]] | None:
    """Return slots and columns with work of at least `need`, cheap by one multiplier, or None."""
    free = np.isfinite(cost) & (done > 0)
    most = np.where(free, done, 0.0).max(axis=1, initial=0.0)
    if not len(most) or most.sum() < need:
        return None
    finite = np.where(free, cost, 0.0)

    def chosen(multiplier: float) -> np.ndarray:
        """Return the column of each slot under a multiplier, -1 for none."""
        gain = np.where(free, multiplier * done - finite, -math.inf)
        best = gain.argmax(axis=1)
        return np.where(gain.max(axis=1) >= 0, best, -1)

    def work(columns: np.ndarray) -> float:
        at = np.flatnonzero(columns >= 0)
        return math.fsum(done[at, columns[at]].tolist())

    low, high = 0.0, float((finite[free] / done[free]).max()) or 1.0
    while work(chosen(high)) < need:
        high *= 2.0
        if not math.isfinite(high):
            return None  # only the fastest size everywhere is enough, but for rounding
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if work(chosen(middle)) < need:
            low = middle
        else:
            high = middle
    columns = chosen(high)
    left = work(columns) - need
    at = np.flatnonzero(columns >= 0)
    # The dearest first, of equal ones the last: what is early is done early.
    for t in sorted(at.tolist(), key=lambda t: (-finite[t, columns[t]], -t)):
        if done[t, columns[t]] <= left:
            left -= done[t, columns[t]]
            columns[t] = -1
    return [(int(t), int(columns[t])) for t in np.flatnonzero(columns >= 0)]
