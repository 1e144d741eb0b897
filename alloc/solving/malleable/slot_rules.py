"""First schedules of F2 by rules that decide slot by slot, as schedulers do.

In every slot the jobs that are there share the capacity anew. A job that kept a configuration from
now on would complete after its work left over the rate; a rule minimises the weighted sum of these
times (Optimus), or of some power of them. The price of capacity is searched by halving; what the
choices at that price leave goes to the jobs that gain the most from it. The rules decide for jobs
that may change and pause, and for no others.

References
----------
Peng et al., "Optimus: an efficient dynamic resource scheduler for deep learning clusters",
EuroSys 2018; Everett, "Generalized Lagrange multiplier method", Operations Research 11 (1963).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from alloc.formulation import Array
from alloc.models.malleable.data import Index, SlotData
from alloc.models.malleable.profiles import IDLE, Profile
from alloc.solving.malleable.master import Column, make_column

_FIT = 1e-9
"""Relative slack of work against a slot's work, as in the profiles."""
_ROOM = 1e-6
"""Slack of use against capacity, as in the insertion."""
_HALVINGS = 20
"""Of the multiplier in a slot: a millionth of the range is less than what rounding down loses."""
_ALONE = 10.0
"""A job that waits counts as so many times slower than in its slowest configuration: it would be
infinitely slower, and no power of that could be compared."""
POWERS = (-0.5, 0.0, -1.0, 1.0)
"""Of the remaining time whose weighted sum a rule minimises, the one that is best under contention
first: below 0 what is nearly done comes first, and -1 gets the most done of the jobs, each by its
work left; 0 stands for the logarithm, which makes fair shares; 1 is Optimus."""


def applies(data: SlotData) -> bool:
    """Return whether the rules decide for all jobs: each may pause and change, without a limit."""
    jobs = data.instance.jobs
    return all(job.preemptible and job.elasticity == "malleable" for job in jobs)


def plan_by_rule(
    data: SlotData, power: float, num_slots: int, stop: Callable[[], bool]
) -> dict[int, Column] | None:
    """Return the plan of a rule; None if it does not end in some slots, or if time is up.

    Parameters
    ----------
    data
        The instance on its slots, to which `applies` says yes.
    power
        Of the remaining time of a job.
    num_slots
        Slots in which all jobs complete.
    stop
        Asked in every slot whether time is up.
    """
    rules = _Tables(data)
    left = data.work.astype(float).copy()
    choices: list[list[int]] = [[] for _ in range(data.num_jobs)]
    first: dict[int, int] = {}
    plan: dict[int, Column] = {}
    costs = data.target.costs
    weight = np.maximum(costs.rate + costs.late, 1e-3 * data.target.level.size)
    for t in range(num_slots):
        if stop():
            return None
        present = np.flatnonzero((data.release <= t) & (left > 0))
        if not len(present):
            if (data.release <= t).all():
                break
            continue
        chosen = rules.share(present, _worth(rules, data, present, left, weight, power))
        for j, c in zip(present.tolist(), chosen.tolist(), strict=True):
            if not choices[j] and c == IDLE:
                continue
            first[j] = first.get(j, t)
            choices[j].append(c)
            if c == IDLE:
                continue
            rate = float(data.table(j).rate[c])
            if left[j] <= rate * (1 + _FIT):
                end = t + min(left[j] / rate, 1.0)
                if end > data.limit[j] + _FIT:
                    return None
                plan[j] = make_column(data, j, Profile(first[j], tuple(choices[j]), float(end)))
                left[j] = 0.0
            else:
                left[j] -= rate
    return plan if len(plan) == data.num_jobs else None


def _worth(
    rules: _Tables, data: SlotData, jobs: Index, left: Array, weight: Array, power: float
) -> Array:
    """Return what each configuration spares a job against waiting, shape (jobs, C)."""
    rate = rules.rate[data.table_of[jobs]]
    slowest = rules.slowest[data.table_of[jobs]] / _ALONE
    with np.errstate(divide="ignore"):
        remaining = left[jobs, None] / rate
    waiting = (left[jobs] / slowest)[:, None]
    if power:
        spared = (waiting**power - remaining**power) / power
    else:
        spared = np.log(waiting) - np.log(remaining)
    spared[rate == 0] = -np.inf
    return np.asarray(weight[jobs, None] * spared)


class _Tables:
    """The tables of all jobs side by side, and sharing of one slot."""

    def __init__(self, data: SlotData) -> None:
        width = max(len(table.rate) for table in data.tables)
        self.data = data
        self.capacity = data.rows.capacity
        self.rate = np.zeros((len(data.tables), width))
        self.use = np.zeros((len(data.tables), width, len(self.capacity)))
        for k, table in enumerate(data.tables):
            self.rate[k, : len(table.rate)] = table.rate
            self.use[k, : len(table.rate)] = table.use
        self.slowest = np.array([table.rate.min() for table in data.tables])
        scale = np.where(self.capacity > 0, self.capacity, 1.0)
        self.share_of_all = (self.use / scale).max(axis=2)

    def share(self, jobs: Index, worth: Array) -> Index:
        """Return the configuration of each job in a slot, `IDLE` for none, within the capacity."""
        kinds = self.data.table_of[jobs]
        use, dominant = self.use[kinds], self.share_of_all[kinds]
        own = np.arange(len(jobs))
        low, high = 0.0, float((worth / np.maximum(dominant, 1e-12)).max())
        if not self._fits(use[own, worth.argmax(axis=1)].sum(axis=0)):
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                best = (worth - middle * dominant).argmax(axis=1)
                runs = (worth - middle * dominant)[own, best] > 0
                fits = self._fits(use[own, best][runs].sum(axis=0))
                low, high = (low, middle) if fits else (middle, high)
        else:
            high = 0.0
        net = worth - high * dominant
        best = net.argmax(axis=1)
        chosen = np.where(net[own, best] > 0, best, IDLE)
        room = self.capacity - use[own, best][chosen != IDLE].sum(axis=0)
        return self._fill(chosen, worth, use, dominant, room)

    def _fill(self, chosen: Index, worth: Array, use: Array, dominant: Array, room: Array) -> Index:
        """Give what is left to the jobs that gain the most from it for their share."""
        own = np.arange(len(chosen))
        held = np.where((chosen != IDLE)[:, None], use[own, chosen], 0.0)
        has = np.where(chosen != IDLE, worth[own, chosen], 0.0)
        part = np.where(chosen != IDLE, dominant[own, chosen], 0.0)
        while True:
            more = use - held[:, None]
            fits = (more <= room + _ROOM).all(axis=2) & (worth > has[:, None] + _FIT)
            if not fits.any():
                return chosen
            gain = (worth - has[:, None]) / np.maximum(dominant - part[:, None], 1e-9)
            gain[~fits] = -np.inf
            best = gain.argmax(axis=1)
            order = np.argsort(-gain[own, best], kind="stable")
            order = order[np.isfinite(gain[own, best][order])]
            taken = np.cumsum(more[order, best[order]], axis=0)
            # Alike jobs gain alike: as many as fit together at once.
            count = max(int((taken <= room + _ROOM).all(axis=1).cumprod().sum()), 1)
            j, c = order[:count], best[order[:count]]
            room = room - taken[count - 1]
            held[j], has[j], part[j], chosen[j] = use[j, c], worth[j, c], dominant[j, c], c

    def _fits(self, total: Array) -> bool:
        return bool((total <= self.capacity + _ROOM).all())
