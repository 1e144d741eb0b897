"""Dual approximation: for a guess of a peak, the hosts are filled until no job is left over.

The guess gives each job a deadline. Some hosts at a time are packed anew by CP-SAT, with the jobs
that stand there and some of those left over, so that what runs in time is worth most; a job is
worth the least area with which it keeps its deadline. The makespan itself says nothing of a move
that makes room on a host that is not the last to end: the area that is left over does.

References
----------
Hochbaum, Shmoys, "Using dual approximation algorithms for scheduling problems", J. ACM 34 (1987).
Turek, Wolf, Yu, SPAA 1992 (the allotment of least area for a guess). Shaw, CP 1998 (large
neighbourhoods).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from alloc.backends import SolverOptions, cpsat
from alloc.clock import time_limit
from alloc.errors import OutOfTime
from alloc.models.moldable.cpsat_model import Builder
from alloc.models.moldable.data import Array, MoldableData
from alloc.models.moldable.serial import Plan
from alloc.solving.moldable.lists import value_of
from alloc.solving.outcome import Progress, Settings

Index = npt.NDArray[np.int64]

_HOSTS = 2
"""Hosts packed at once: one leaves no exchange, and three take far longer."""
_OPEN = 12
"""Jobs left over that a packing may choose from: a host of eight GPUs takes about eight."""
_STEP_S = 1.0
"""Seconds for a packing: most of what it gains comes in the first tenths."""
_WORTH, _NOISE = 10_000, 0.05
"""Worth of the largest job, and by what share worths differ from step to step: a choice of jobs
that is tied with another would never be left otherwise."""
_PATIENCE, _PATIENCE_HOST = 10, 5
"""Packings without a gain after which a guess is given up, for all and for each host more."""
_GAP = 1e-4
"""Relative gap of a packing: worths are less sure."""
_FIRST, _NEXT = 0.75, 0.25
"""How far guesses go from the best schedule to the bound. Lists are far off at first; later a guess
that fails takes all of its patience, and one that is kept far less."""
_CLOSE = 1e-3
"""Least step of a guess, relative."""


def lower_peak(
    data: MoldableData,
    value: float,
    low: float,
    settings: Settings,
    take: Callable[[Plan], None],
    report: Progress,
    failures: float = math.inf,
) -> None:
    """Look for schedules with a lower peak, by guesses between a bound and the best one known.

    Parameters
    ----------
    data
        An instance whose target is one peak, with no earlier level.
    value
        The peak of the best schedule known.
    low
        A bound of the peak.
    settings
        Limits.
    take
        Takes each better schedule at once: an interrupt loses none.
    report
        Takes a line of progress.
    failures
        Guesses that may fail before it ends.
    """
    filling, share, patience = Filling(data, settings), _FIRST, 1
    while patience <= failures and not settings.time_is_up() and value - low > _CLOSE * value:
        guess = value - max(share * (value - low), _CLOSE * value)
        found = filling.run(guess, patience)
        reached = math.inf if found is None else value_of(data, found)
        if found is not None and reached < value:
            value, share = reached, min(2 * share, _NEXT)
            take(found)
        else:
            share, patience = share / 2, patience + 1
        report(f"filled hosts to {guess:g}: {filling.left} jobs left over; {value:g}")


class Filling:
    """Hosts that are filled for one guess after the other, each from empty ones on.

    What fitted a longer guess is a bad start for a shorter one: its jobs stand in ways that are too
    narrow, and repairing that takes far longer than to fill the hosts again.

    Parameters
    ----------
    data
        An instance whose target is one peak.
    settings
        Limits.
    """

    def __init__(self, data: MoldableData, settings: Settings) -> None:
        self._whole = self._data = data
        self._settings = settings
        self._rng = np.random.default_rng(settings.seed)
        self._rows_of, self._shared = data.rows_of_hosts
        capacity = np.where(data.pool.capacity > 0, data.pool.capacity, 1.0)
        self._area = [
            [float((way.load / capacity).max()) * way.hold_s for way in ways] for ways in data.ways
        ]

    @property
    def left(self) -> int:
        """Number of jobs that are left over."""
        return len(self._waiting())

    def _waiting(self) -> Index:
        """Return the jobs that are left over."""
        return np.flatnonzero(~np.isfinite(self._plan.start))

    def run(self, guess: float, patience: int) -> Plan | None:
        """Return a schedule in which all jobs run with a peak of a guess, or None without one.

        Parameters
        ----------
        guess
            The peak.
        patience
            How long to go on without a gain.
        """
        latest = self._whole.target.level.peaks[0].latest(guess)
        self._data = replace(self._whole, deadline=np.minimum(self._whole.deadline, latest))
        never = np.full(self._whole.num_jobs, math.inf)
        self._plan = Plan([(0, 0)] * self._whole.num_jobs, never, never.copy())
        worth = self._worth()
        hosts = [str(h) for h in self._rng.permutation(list(self._rows_of))]
        for host in hosts:
            if self.left and not self._settings.time_is_up():
                self._pack({host}, worth)
        steps = patience * (_PATIENCE + _PATIENCE_HOST * len(hosts))
        least, idle = math.inf, 0
        while self.left and idle < steps and not self._settings.time_is_up():
            waiting = self._waiting()
            over = float(worth[waiting].sum())
            least, idle = (over, 0) if over < least else (least, idle + 1)
            if self._pack(self._some_hosts(int(self._rng.choice(waiting))), worth):
                break
        return None if self.left else self._plan

    def _worth(self) -> Array:
        """Return the least area with which each job keeps its deadline, of the largest, (J,)."""
        data = self._data
        area = np.array(
            [
                min(
                    (
                        area
                        for area, way in zip(areas, ways, strict=True)
                        if data.release[j] + way.run_s <= data.deadline[j]
                    ),
                    default=max(areas),
                )
                for j, (areas, ways) in enumerate(zip(self._area, data.ways, strict=True))
            ]
        )
        return np.asarray(area / max(float(area.max()), 1e-300))

    def _some_hosts(self, j: int) -> set[str]:
        """Return hosts on which a job may stand, and some others."""
        ways = self._data.ways[j]
        placements = ways[self._rng.integers(len(ways))].placements
        tasks = placements[self._rng.integers(len(placements))].tasks
        hosts = {task.host for task in tasks}
        for host in self._rng.permutation(list(self._rows_of)):
            if len(hosts) >= _HOSTS:
                break
            hosts.add(str(host))
        return hosts

    def _pack(self, hosts: set[str], worth: Array) -> bool:
        """Pack some hosts anew, so that what runs in time on them is worth most.

        Returns whether nothing is worth more on all hosts, so that the guess is decided.
        """
        data, rng, plan = self._data, self._rng, self._plan
        rows = self._shared.union(*(self._rows_of[host] for host in hosts))
        waiting = self._waiting()
        free = rng.permutation(waiting)[:_OPEN].tolist()
        for j in np.flatnonzero(np.isfinite(plan.start)).tolist():
            w, p = plan.choice[j]
            if all(row in rows for row, _ in data.ways[j][w].placements[p].use):
                free.append(j)
        noise = rng.uniform(1 - _NOISE, 1 + _NOISE, len(worth))
        whole = np.maximum(np.rint(_WORTH * worth * noise), 1).astype(int).tolist()
        seconds = min(_STEP_S, self._settings.seconds_left())
        try:
            with time_limit(seconds):
                builder = Builder(data, plan, sorted(free), rows, worth=dict(enumerate(whole)))
                model, hint = builder.filling(), builder.hint(plan)
        except OutOfTime:
            return False
        seed = int(rng.integers(2**31))
        raw = cpsat.solve(model, SolverOptions(seconds, seed, self._settings.workers, _GAP, hint))
        if raw.values is not None:
            self._plan = builder.plan_of_values(raw.values, plan)
        everything = len(free) == data.num_jobs and len(hosts) == len(self._rows_of)
        return everything and raw.status == "optimal"
