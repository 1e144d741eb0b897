"""The cheapest profiles on the true work: labels, cut off by what the dynamic program proves.

The programs of `alloc.models.malleable.profiles` round the work left to a grid, and what rounding
loses adds up over the slots. A label is a job that has run so far in some way, with the exact work
left and the exact cost until now. In every slot each label runs in every configuration or waits;
the value of the ``lower`` program at its state bounds what it can still become. Labels that cannot
become cheaper than a complete profile are dropped, as are those that have both more work left and a
higher cost than another (label setting with dominance: Irnich, Desaulniers, "Shortest path problems
with resource constraints", in Column Generation, 2005). Where more labels are left than a job may
have, the least bound among those given up takes part in the bound: it holds whatever the width is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from alloc.errors import OutOfTime
from alloc.models.malleable.costs import Multipliers
from alloc.models.malleable.data import Array, Index, SlotData
from alloc.models.malleable.profiles import IDLE, Pricing, Profile, Program, Solved, never

_FIT = 1e-9
"""Relative slack of work against a slot's work and of ends against limits, as in the profiles."""
WIDTH = 64
"""Labels a job may have in a slot: more are rare, and make a slot of hundreds of jobs slow."""


@dataclass(frozen=True)
class Cheapest:
    """The cheapest profiles of all jobs at some prices.

    Parameters
    ----------
    least
        For each job, a lower bound on the cost of its completion plus what it pays, shape (J,).
    costs
        What its profile costs, infinite without one, shape (J,).
    profiles
        A profile of each job that costs about the least; None where none ends in the priced slots.
    """

    least: Array
    costs: Array
    profiles: list[Profile | None]


def cheapest_profiles(
    pricing: Pricing, solved: list[list[Solved]], prices: Array, width: int = WIDTH
) -> Cheapest:
    """Return the cheapest profiles on the true work.

    Parameters
    ----------
    pricing
        The pricing problems.
    solved
        Their ``lower`` programs, solved for the prices.
    prices
        Price of each row in each slot, 0 or more, shape (slots, R).
    width
        Labels a job may have in a slot; where it has more the bound may be below the cost.

    Raises
    ------
    OutOfTime
        If time is up.
    """
    data = pricing.data
    least = pricing.costs(solved)
    costs: Array = np.full(data.num_jobs, np.inf)
    profiles: list[Profile | None] = [None] * data.num_jobs
    for (_, jobs), programs in zip(pricing.groups, solved, strict=True):
        if programs[0].program.counted:
            for j, profile in zip(jobs.tolist(), pricing.profiles_of(jobs, programs), strict=True):
                profiles[j] = profile
                costs[j] = np.inf if profile is None else least[j]
            continue
        base = np.array([pricing.job_costs.of(j, int(data.release[j])) for j in jobs])
        price = np.ascontiguousarray(prices @ programs[0].program.table.use.T)
        start = _Labels.of(data, jobs)
        found = _follow(programs[0], price, start, np.full(len(jobs), np.inf), 1, pricing.stop)
        if width > 1 and (found.least < found.cost).any():
            wider = _follow(programs[0], price, start, found.cost, width, pricing.stop)
            for i, profile in enumerate(wider.profiles):
                found.profiles[i] = profile or found.profiles[i]
            found.cost, found.least = wider.cost, np.maximum(found.least, wider.least)
        least[jobs] = np.maximum(least[jobs], base + found.least)
        costs[jobs] = base + found.cost
        for i, j in enumerate(jobs):
            profiles[j] = found.profiles[i]
    return Cheapest(least, costs, profiles)


def lagrangian_bound(
    data: SlotData,
    prices: Array,
    num_states: int = 4000,
    stop: Callable[[], bool] = never,
    multipliers: Multipliers | None = None,
) -> float:
    """Return the lower bound on the objective that prices prove, in plain numpy.

    ``sum_j min over profiles (cost of its completion + prices) - sum_tr B_r p_tr``, for any prices
    p >= 0, shape (slots, R), and, where peaks or held levels link jobs, any multipliers of theirs
    (`Target.relaxed`). Schedules may be longer than the priced slots: what comes after them is
    free, which only lowers the bound.

    Parameters
    ----------
    data
        The instance on its slots.
    prices
        What a unit of each capacity row costs in each slot, shape (slots, R); below 0
        counts as 0.
    num_states
        Grid steps for the job with the most work of each program, 1 or more: more of them
        round less and take longer.
    stop
        Asked again and again whether time is up.
    multipliers
        Those of peaks and held levels; None for 0.

    Returns
    -------
    float
        The bound, in the objective's unit.

    Raises
    ------
    OutOfTime
        If `stop`, asked again and again, says so.
    """
    prices = np.maximum(prices, 0.0)
    costs, constant = data.target.relaxed(multipliers or data.target.nothing())
    pricing = Pricing(data, num_states, stop, costs)
    least = cheapest_profiles(pricing, pricing.solve(prices, "lower"), prices).least
    return float(least.sum() + constant - (prices @ data.rows.capacity).sum()) * data.slot_s


@dataclass(frozen=True)
class _Labels:
    """Labels of some jobs of one program, at the start of a slot.

    Parameters
    ----------
    owner
        Job of each, by position among the jobs of the program, shape (L,).
    left, cost
        Work left, and the cost until now, shape (L,).
    running
        Whether it runs and may not pause, shape (L,).
    parent, choice
        Its label in the slot before, -1 at the release, and what it did there, shape (L,).
    """

    owner: Index
    left: Array
    cost: Array
    running: npt.NDArray[np.bool_]
    parent: Index
    choice: Index
    release: Index

    @classmethod
    def of(cls, data: SlotData, jobs: Index) -> _Labels:
        """Return the labels of jobs that have done nothing yet."""
        nothing = np.full(len(jobs), -1)
        return cls(
            np.arange(len(jobs)),
            data.work[jobs],
            np.zeros(len(jobs)),
            data.started[jobs],
            nothing,
            nothing,
            data.release[jobs],
        )

    def at(self, rows: Index | npt.NDArray[np.bool_]) -> _Labels:
        """Return some of the labels."""
        return _Labels(*(own[rows] for own in self._fields()))

    def beside(self, other: _Labels) -> _Labels:
        """Return these labels and others."""
        pairs = zip(self._fields(), other._fields(), strict=True)
        return _Labels(*(np.concatenate(pair) for pair in pairs))

    def _fields(self) -> tuple[np.ndarray, ...]:
        return (
            self.owner, self.left, self.cost, self.running, self.parent, self.choice, self.release
        )  # fmt: skip


@dataclass
class _Found:
    """What following the labels found: costs, bounds and profiles of the jobs of a program."""

    cost: Array
    least: Array
    profiles: list[Profile | None] = field(default_factory=list)


def _follow(
    solved: Solved,
    price: Array,
    start: _Labels,
    cutoff: Array,
    width: int,
    stop: Callable[[], bool],
) -> _Found:
    """Return the cheapest profiles below a cutoff, with at most `width` labels a job and slot."""
    program, horizon, num_jobs = solved.program, len(price), len(start.owner)
    rate, rise = program.table.rate[program.columns], program.delay_of_slots(len(price))
    ahead = solved.value if program.pausable else solved.run_value
    best, dropped = cutoff.copy(), np.full(num_jobs, np.inf)
    ends: dict[int, tuple[int, int, int, float]] = {}
    history: list[_Labels] = []
    first = int(min(start.release.min(), horizon))
    labels = start.at(np.zeros(0, dtype=np.int64))
    for t in range(first, horizon):
        if stop():
            raise OutOfTime
        labels = labels.beside(start.at(start.release == t))
        history.append(labels)
        if not len(labels.owner):
            if (start.release <= t).all():
                break
            continue
        owner, left = labels.owner, labels.left[:, None]
        fraction = left / rate
        fits = fraction <= 1 + _FIT
        if fits.any():
            i, c = np.nonzero(fits)
            part = np.minimum(fraction[i, c], 1.0)
            whole = labels.cost[i] + price[t, c] + program.delay(t, part)
            whole[t + part > program.limit + _FIT] = np.inf
            order = np.argsort(whole, kind="stable")
            whose, least = np.unique(owner[i[order]], return_index=True)
            for k, at in zip(whose.tolist(), order[least].tolist(), strict=True):
                if whole[at] < best[k]:
                    best[k] = whole[at]
                    ends[k] = (t, int(i[at]), int(c[at]), float(part[at]))
        after = np.maximum(left - rate, 0.0)
        spent = labels.cost[:, None] + (price[t] + rise[t])
        bound = spent + ahead[t + 1][program.states(after)]
        i, c = np.nonzero(~fits & (bound < best[owner][:, None]))
        going = _Labels(
            owner[i], after[i, c], spent[i, c], np.ones(len(i), dtype=bool), i, c, labels.release[i]
        )
        waited = labels.cost + rise[t]
        bound_waits = waited + solved.value[t + 1][program.states(labels.left)]
        waits = program.pausable | ~labels.running
        w = np.flatnonzero(waits & (bound_waits < best[owner]))
        idle = np.full(len(w), IDLE)
        waiting = _Labels(
            owner[w], labels.left[w], waited[w], labels.running[w], w, idle, labels.release[w]
        )
        labels = going.beside(waiting)
        bounds = np.concatenate([bound[i, c], bound_waits[w]])
        kept = _undominated(labels, program.pausable)
        labels, bounds = labels.at(kept), bounds[kept]
        few = _best_of_each(labels.owner, bounds, width)
        np.minimum.at(dropped, labels.owner[~few], bounds[~few])
        labels = labels.at(few)
    beyond = np.full(num_jobs, np.inf)
    late = start.at(start.release >= horizon)
    for own in (labels, late):
        value = own.cost + ahead[horizon][program.states(own.left)]
        np.minimum.at(beyond, own.owner, value)
    found = _Found(best, np.minimum(np.minimum(best, dropped), beyond))
    found.profiles = [
        _profile(program, history, first, *ends[k]) if k in ends else None for k in range(num_jobs)
    ]
    return found


def _undominated(labels: _Labels, pausable: bool) -> Index:
    """Return the labels of which no other of the job has less or equal work left and cost."""
    kind = labels.owner if pausable else 2 * labels.owner + labels.running
    order = np.lexsort((labels.cost, labels.left, kind))
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.argsort(labels.cost[order], kind="stable")] = np.arange(len(order))
    # Later kinds count from lower, so that the least so far is one of the label's own kind.
    rank -= kind[order] * len(order)
    least = np.minimum.accumulate(rank)
    return np.sort(order[rank == least])


def _best_of_each(owner: Index, bounds: Array, width: int) -> npt.NDArray[np.bool_]:
    """Return which labels are among the `width` of least bound of their job."""
    order = np.lexsort((bounds, owner))
    sorted_owner = owner[order]
    begin = np.searchsorted(sorted_owner, sorted_owner, side="left")
    kept = np.zeros(len(owner), dtype=bool)
    kept[order] = np.arange(len(owner)) - begin < width
    return kept


def _profile(
    program: Program, history: list[_Labels], first: int, t: int, at: int, c: int, part: float
) -> Profile:
    """Return the profile of a label that completes in slot t after a part of it."""
    chosen = [int(program.columns[c])]
    end = t + part
    while history[t - first].parent[at] >= 0:
        labels = history[t - first]
        choice = int(labels.choice[at])
        chosen.append(choice if choice == IDLE else int(program.columns[choice]))
        at, t = int(labels.parent[at]), t - 1
    while chosen[-1] == IDLE:
        chosen.pop()
        t += 1
    return Profile(t, tuple(reversed(chosen)), end)
