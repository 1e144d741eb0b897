"""Quick needs: what pools require, for thousands of ways of sending jobs to them.

`alloc.planning.capacity` asks Erlang's formula, server by server. Here it is the limit of many
servers, in which the chance to wait depends on one number alone [1]_: with R GPUs for a load L of
variance V it is ``1 / (1 + sqrt(2 pi) b N(b) exp(b^2 / 2))``, where ``b = (R - L) / sqrt(V)`` and N
is the normal distribution. So what a goal requires is ``R = L + b sqrt(V)`` with a b that is looked
up in a table. Gangs are whole, though: the jobs of a goal wait for their own GPUs, while those that
are free stand idle. So half a gang is required besides, of theirs or the mean one, the larger of
the two. What is still wrong is corrected, pool by pool and regime by regime, by what the formula
says of the jobs that come there now.

References
----------
.. [1] S. Halfin, W. Whitt, "Heavy-traffic limits for queues with many exponential servers",
   Operations Research 29(3), 1981.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from alloc.formulation import Array
from alloc.models.right_sizing.data import SizingData
from alloc.planning.pools import Pool, Regime
from alloc.problems.right_sizing.goals import ServiceGoal
from alloc.problems.right_sizing.plan import Plan, Share

Ints = npt.NDArray[np.int64]

# Values of b in the table. Below the least the wait is as good as certain, and no goal asks for
# more than the largest: the chance to wait is 1e-32 there. 400 are 2.4 % apart.
_SPARE = np.geomspace(1e-3, 12.0, 400)
# Jobs an hour below which none come: the round-off of linear programs and of moves.
NO_JOBS = 1e-9


def _table(fraction: float | None) -> tuple[Array, Array]:
    """Return the waits that goals allow, rising, and b for each.

    Waits are in units of the mean run time over the square root of the servers offered.
    """
    log_waits = -np.logaddexp(
        0.0, 0.5 * math.log(2 * math.pi) + np.log(_SPARE) + log_ndtr(_SPARE) + _SPARE**2 / 2
    )
    if fraction is None:
        waits = np.exp(log_waits) / _SPARE
    else:
        waits = np.maximum(log_waits - math.log1p(-fraction), 0.0) / _SPARE
    return waits[::-1], _SPARE[::-1]


class QuickNeeds:
    """The jobs of a plan, by mode and regime, and what pools need for them.

    Parameters
    ----------
    data
        The problem.
    plan
        Where its jobs are at first.

    Attributes
    ----------
    rates
        Jobs an hour of each mode in each regime, shape (modes, regimes).
    needs
        GPUs that each pool needs in each regime: the room that the model sets aside, or what is
        required if that is more.
    """

    def __init__(self, data: SizingData, plan: Plan) -> None:
        self.data, self.plan, problem = data, plan, data.problem
        self.regimes = [
            Regime(scenario.name, quarter, band)
            for scenario in problem.scenarios
            for quarter in range(data.num_quarters)
            for band in range(data.bands.count)
        ]
        self.position = {regime: i for i, regime in enumerate(self.regimes)}
        self.quarter = np.array([regime.quarter for regime in self.regimes])
        self.pool = [Pool(*self.pool_of(mode.pool), mode.spot) for mode in data.modes]
        self.modes_of: dict[Pool, list[int]] = defaultdict(list)
        for i, pool in enumerate(self.pool):
            self.modes_of[pool].append(i)
        self._modes_of_class: dict[int, list[int]] = defaultdict(list)
        for i, mode in enumerate(data.modes):
            self._modes_of_class[mode.job_class].append(i)
        classes = [problem.classes[mode.job_class] for mode in data.modes]
        options = [c.options[m.option] for c, m in zip(classes, data.modes, strict=True)]
        self.gpus = np.array([option.gpus for option in options], dtype=float)
        self.hours = np.array(
            [
                option.hours * (1 + (c.spot_overhead if m.spot else 0.0))
                for c, m, option in zip(classes, data.modes, options, strict=True)
            ]
        )
        self._room = np.array([mode.room for mode in data.modes])
        self._goals: list[ServiceGoal | None] = [c.goal for c in classes]
        fractions = {goal.fraction for goal in self._goals if goal is not None}
        self._tables = {fraction: _table(fraction) for fraction in fractions}
        self.rates = np.zeros((len(data.modes), len(self.regimes)))
        mode_of = {
            (c.name, m.option, pool): i
            for i, (c, m, pool) in enumerate(zip(classes, data.modes, self.pool, strict=True))
        }
        for share in plan.shares:
            c = problem.classes[problem.class_index[share.job_class]]
            pool = Pool(c.options[share.option].gpu_type, share.site, share.spot)
            at = self.position[Regime(share.scenario, share.quarter, share.band)]
            self.rates[mode_of[c.name, share.option, pool], at] += share.jobs_per_hour
        # Where hosts are rented by the hour, jobs may come though none do now.
        hourly = {Pool(*self.pool_of(h.pool), h.spot) for h in data.rental_options}
        used = {self.pool[i] for i in np.flatnonzero(self.rates.any(axis=1))}
        self.pools = sorted(used | (hourly & set(self.pool)))
        self._correction = {pool: np.ones(len(self.regimes)) for pool in self.pools}
        self.needs: dict[Pool, Array] = {}
        self.refresh(self.pools)

    def others(self, mode: int) -> Sequence[int]:
        """Return the modes of the same class in other pools."""
        same = self._modes_of_class[self.data.modes[mode].job_class]
        return [j for j in same if self.pool[j] != self.pool[mode] and self.pool[j] in self.needs]

    def pool_of(self, position: int) -> tuple[str, str]:
        """Return the GPU type and the site of a pool of the problem."""
        pool = self.data.pools[position]
        return pool.gpu_type, self.data.problem.sites[pool.site].name

    def refresh(self, pools: Iterable[Pool]) -> None:
        """Work out anew what pools need."""
        every = np.arange(len(self.regimes))
        for pool in pools:
            self.needs[pool] = self.need(pool, every, {})

    def correct(self, required: Mapping[tuple[Pool, Regime], float]) -> None:
        """Correct the table by what pools require with the jobs that come to them now.

        Parameters
        ----------
        required
            GPUs; of a pool in other regimes the median correction of these counts.
        """
        exact = {pool: np.full(len(self.regimes), math.nan) for pool in self.pools}
        for (pool, regime), gpus in required.items():
            exact[pool][self.position[regime]] = gpus
        for pool in self.pools:
            load, beyond, spread, _, _ = self._parts(pool, np.arange(len(self.regimes)), {})
            known = np.isfinite(exact[pool]) & (beyond > 0)
            if known.any():
                required = exact[pool][known] - load[known]
                part = np.clip(required / beyond[known], 0.0, 1.0)
                ratios = part + np.maximum(required - beyond[known], 0.0) / spread[known]
                self._correction[pool][:] = np.median(ratios)
                self._correction[pool][known] = ratios
        self.refresh(self.pools)

    def need(self, pool: Pool, regimes: Ints, changed: Mapping[int, Array]) -> Array:
        """Return the GPUs that a pool needs in regimes.

        Parameters
        ----------
        pool
            One of `pools`.
        regimes
            Positions.
        changed
            Of modes of the pool the jobs an hour there, if other than `rates`.
        """
        load, beyond, spread, gang, room = self._parts(pool, regimes, changed)
        ratios = self._correction[pool][regimes]
        required = load + np.minimum(ratios, 1.0) * beyond + np.maximum(ratios - 1.0, 0.0) * spread
        required = np.maximum(required, gang)
        return np.maximum(np.where(beyond > 0, required, 0.0), room)

    def _parts(
        self, pool: Pool, regimes: Ints, changed: Mapping[int, Array]
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return the load, what the table adds, the load's spread, the largest gang, the room."""
        modes = [i for i in self.modes_of[pool] if i in changed or self.rates[i, regimes].any()]
        if not modes:
            nothing = np.zeros(len(regimes))
            return nothing, nothing, nothing, nothing, nothing
        rates = np.stack([changed[i] if i in changed else self.rates[i, regimes] for i in modes])
        gpus, hours = self.gpus[modes][:, None], self.hours[modes][:, None]
        loads = rates * gpus * hours
        load, variance = loads.sum(axis=0), (loads * gpus).sum(axis=0)
        comes = rates > NO_JOBS
        servers = np.divide(load, np.sqrt(variance), out=np.zeros_like(load), where=variance > 0)
        runs = np.divide((loads * hours).sum(axis=0), load, out=np.ones_like(load), where=load > 0)
        mean_gang = np.divide(variance, load, out=np.zeros_like(load), where=load > 0)
        step = np.gcd.reduce(np.where(comes, gpus, 0.0).astype(np.int64), axis=0)
        beyond, spread = np.zeros(len(regimes)), np.sqrt(variance)
        for k, i in enumerate(modes):
            goal = self._goals[i]
            if goal is not None:
                wait = max(goal.wait_hours(float(self.hours[i])), 0.0)
                spare = np.interp(servers * wait / runs, *self._tables[goal.fraction])
                idle = (np.maximum(mean_gang, self.gpus[i]) - step) / 2
                own = spare * spread + idle
                beyond = np.where(comes[k], np.maximum(beyond, own), beyond)
        gang = np.where(comes, gpus, 0.0).max(axis=0)
        room = (loads * self._room[modes][:, None]).sum(axis=0)
        return load, beyond, spread, gang, room

    def moved_plan(self) -> Plan:
        """Return the plan with its jobs where they are now; its hosts are those of before."""
        problem, shares = self.data.problem, []
        for i, at in zip(*np.nonzero(self.rates > 0), strict=True):
            mode, regime = self.data.modes[i], self.regimes[at]
            name = problem.classes[mode.job_class].name
            where = name, mode.option, self.pool[i].site, mode.spot
            rate = float(self.rates[i, at])
            shares.append(Share(regime.scenario, regime.quarter, regime.band, *where, rate))
        return replace(self.plan, shares=tuple(shares))
