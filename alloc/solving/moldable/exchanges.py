"""Some hosts at a time deal their jobs out anew among themselves, as well as can be.

Two hosts have a dozen jobs, and of so few the best schedule is listed in a fraction of a second
(`exact`). Of a peak the host that is last is always among them.

References
----------
Thompson, Psaraftis, "Cyclic transfer algorithms for multivehicle routing and scheduling problems",
Operations Research 41 (1993).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from alloc.models.malleable.costs import JobCosts, LevelCosts, Peak, Target
from alloc.models.moldable.data import MoldableData
from alloc.models.moldable.host_classes import HostClass, Index, modes_of
from alloc.models.moldable.sequences import TimePrices
from alloc.models.moldable.serial import Plan
from alloc.solving.moldable.exact import Exact, Hosts
from alloc.solving.moldable.host_sets import MAX_JOBS
from alloc.solving.moldable.lists import value_of
from alloc.solving.moldable.sequence_master import SequenceMaster
from alloc.solving.outcome import Settings

_BEAM = 2000
"""States to go on with: of two hosts these are nearly all that matter."""
_STEP_S = 3.0
"""Wall time of an exchange, seconds: one that takes longer has too many jobs."""
_SHARES = (0.4, 1.0)
"""Of the excess of some hosts, how much their jobs may have dealt out anew, one after the other."""
_NOISE = 0.1
"""Of the load of a host, by how much it is taken for more or less where hosts of little load are
sought: the same ones would be asked again and again."""
_CLOSE = 2e-3
"""How close to the best one a bound of some hosts' peak is sought: it only says where to begin."""
_TRIES = 3
"""Times the number of hosts, so many exchanges without a gain end the search with so many hosts."""
_MAX_HOSTS = 4
"""Hosts at a time: schedules of the jobs of more are too many to list."""


class Exchanges:
    """The search.

    Parameters
    ----------
    data
        An instance without held levels, asked for costs of single jobs or for one peak.
    classes
        Its hosts.
    plan
        A schedule in which all jobs run.
    prices
        Prices of time for the costs; None for a peak.
    settings
        Limits.
    take
        Takes each better schedule at once: an interrupt loses none.
    """

    def __init__(
        self,
        data: MoldableData,
        classes: tuple[HostClass, ...],
        plan: Plan,
        prices: TimePrices | None,
        settings: Settings,
        take: Callable[[Plan], None],
    ) -> None:
        self._data, self._classes, self._prices = data, classes, prices
        self._settings, self._take = settings, take
        self._rng = np.random.default_rng(settings.seed)
        self._first = np.cumsum([0, *(len(own) for own in data.ways)]).tolist()
        self._class_of = {h: c for c, own in enumerate(classes) for h in own.hosts}
        self._position = {host.id: h for h, host in enumerate(data.instance.topology.hosts)}
        self._failed: set[frozenset[int]] = set()
        self.plan, self.value = plan, value_of(data, plan)
        self.steps = 0

    def run(self, is_good: Callable[[float], bool]) -> None:
        """Search until time is up, the value is good enough, or no exchange gains any more.

        Parameters
        ----------
        is_good
            Says of a value whether the search may end.
        """
        hosts, idle = 2, 0
        number = len(self._class_of)
        while not self._settings.time_is_up() and not is_good(self.value):
            if self._step(min(hosts, number)):
                hosts, idle = 2, 0
                continue
            idle += 1
            if idle >= _TRIES * number:
                hosts, idle = hosts + 1, 0
                if hosts > min(number, _MAX_HOSTS):
                    return

    def _hosts(self) -> Index:
        """Return the host of each job, shape (J,)."""
        found = []
        for j, (w, p) in enumerate(self.plan.choice):
            n = self._first[j] + w
            tasks = self._data.ways[j][w].placements[p].tasks
            able = [self._position[task.host] for task in tasks]
            able = [
                h
                for h in able
                if h in self._class_of and (h, n) in self._classes[self._class_of[h]].placement
            ]
            found.append(able[0])
        return np.array(found)

    def _load_of(self, on: Index) -> dict[int, float]:
        """Return for what share of the time a host's units run, give or take: the least first."""
        load = dict.fromkeys(self._class_of, 0.0)
        for j, h in enumerate(on.tolist()):
            w, _ = self.plan.choice[j]
            own = self._classes[self._class_of[h]]
            amount = int(own.amount[self._first[j] + w])
            load[h] += amount * self._data.ways[j][w].hold_s / own.units
        end = max(load.values())
        noise = self._rng.uniform(-_NOISE, _NOISE, len(load)) * end
        return {h: own + float(by) for (h, own), by in zip(load.items(), noise, strict=True)}

    def _step(self, number: int) -> bool:
        """Let some hosts deal out their jobs anew; return whether that gained."""
        on, data = self._hosts(), self._data
        level = data.target.level
        every = list(self._class_of)
        chosen = {int(h) for h in self._rng.choice(every, number, replace=False)}
        if level.is_peak:
            last = int(on[int(np.argmax(level.peaks[0].at(self.plan.completion)))])
            others = sorted(set(every) - {last}, key=self._load_of(on).__getitem__)
            chosen = {last, *others[: number - 1]}
        jobs = np.flatnonzero(np.isin(on, list(chosen)))
        key = frozenset(jobs.tolist())
        if key in self._failed or not 1 < len(jobs) <= MAX_JOBS:
            return False
        self.steps += 1
        part = self._part(jobs)
        classes, rows = self._classes_of(chosen, jobs)
        settings = self._settings.within(min(_STEP_S, self._settings.seconds_left()))
        if level.is_peak:
            found = self._of_peak(part, classes, jobs, settings)
        else:
            found = self._of_costs(part, classes, rows, jobs, settings)
        if found is not None:
            plan = Plan(list(self.plan.choice), self.plan.start.copy(), self.plan.completion.copy())
            for k, j in enumerate(jobs.tolist()):
                plan.choice[j] = found.choice[k]
                plan.start[j], plan.completion[j] = found.start[k], found.completion[k]
            value = value_of(data, plan)
            # Of a peak, a host less that is last is a gain too.
            if value < self.value or (level.is_peak and value <= self.value):
                self.plan, self.value = plan, value
                self._take(plan)
                return True
        self._failed.add(key)
        return False

    def _of_peak(
        self, part: MoldableData, classes: tuple[HostClass, ...], jobs: Index, settings: Settings
    ) -> Plan | None:
        peak = part.target.level.peaks[0]
        value = float(peak.at(self.plan.completion[jobs]).max())
        low = float(peak.at(part.earliest_end).max())
        master = SequenceMaster(modes_of(part, classes), settings)
        low = master.least_peak(peak, low, value, _CLOSE)
        exact = Exact(part, classes, settings, lambda line: None, _BEAM)
        return exact.of_peak(peak, value, low)[1]

    def _of_costs(
        self,
        part: MoldableData,
        classes: tuple[HostClass, ...],
        rows: list[int],
        jobs: Index,
        settings: Settings,
    ) -> Plan | None:
        assert self._prices is not None
        prices = TimePrices(
            self._prices.least[jobs],
            tuple(self._prices.paid[row] for row in rows),
            tuple(self._prices.end[row] for row in rows),
        )
        total = np.array([float(own.total) for own in classes])
        low = math.fsum(prices.least) - prices.offered(total)
        room = part.target.value(self.plan.completion[jobs]) * (1 - 1e-9) - low
        hosts = Hosts(part, classes, settings, lambda line: None, _BEAM)
        for share in _SHARES:
            found = hosts.listed(prices, share * room, part.deadline, None)
            if found is None:
                return None
            if found.plan is not None:
                return found.plan
        return None

    def _part(self, jobs: Index) -> MoldableData:
        """Return the instance with some jobs alone."""
        data, level = self._data, self._data.target.level
        own = level.jobs
        costs = JobCosts(own.base[jobs], own.rate[jobs], own.late[jobs], own.due[jobs])
        peaks = tuple(Peak(peak.slope[jobs], peak.origin[jobs]) for peak in level.peaks)
        return replace(
            data,
            target=Target(LevelCosts(costs, peaks)),
            release=data.release[jobs],
            deadline=data.deadline[jobs],
            ways=tuple(data.ways[j] for j in jobs),
        )

    def _classes_of(self, chosen: set[int], jobs: Index) -> tuple[tuple[HostClass, ...], list[int]]:
        """Return some hosts in classes, for some jobs, and the rows of these classes."""
        ways = [n for j in jobs for n in range(self._first[j], self._first[j + 1])]
        number = {n: k for k, n in enumerate(ways)}
        found, rows = [], []
        for row, own in enumerate(self._classes):
            hosts = tuple(h for h in own.hosts if h in chosen)
            if hosts:
                placement = {
                    (h, number[n]): own.placement[h, n]
                    for h in hosts
                    for n in ways
                    if (h, n) in own.placement
                }
                found.append(HostClass(hosts, own.units, own.amount[ways], placement))
                rows.append(row)
        return tuple(found), rows
