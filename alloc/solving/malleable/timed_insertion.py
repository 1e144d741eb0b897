"""Building schedules of F2 in continuous time job by job: each takes the cheapest room left.

What slots are to `alloc.solving.malleable.insertion`, segments are here: capacity left is constant
between two moments at which a job starts, changes or ends, or a price changes. A job that may pause
runs in the segments in which its work costs less than some price of work, in the configuration that
earns the most there, until it is done. For every moment of completion the cheapest runs are of this
kind, and several prices of work are tried. A job that must not pause, or had better not, takes one
piece in one configuration, which starts or ends where a segment does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from alloc.formulation import Array
from alloc.models.malleable.costs import JobCosts
from alloc.models.malleable.data import SlotData
from alloc.models.malleable.profiles import never
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.progress import completions
from alloc.solving.malleable.insertion import steering_costs
from alloc.solving.malleable.reinsertion import Inserter

_FIT = 1e-6
"""Capacity by which a job may exceed what is left: rounding of sums of whole units."""
_DONE = 1e-12
"""Relative slack of work: sums of double precision."""
_SHORTEST = 1e-9
"""Length of a segment, slots, below which it is rounding and nobody runs there."""
_WORK_PRICES = 12
"""Prices of work that are tried for a job besides none: more are slower, and hardly better."""
_FIRST_SEGMENTS = 64
"""Segments that are looked at first; twice as many each time the work is not done in them."""

Piece = tuple[float, float, int]
"""Start and end, slots, and the column in the job's table."""


@dataclass(frozen=True)
class TimedProfile:
    """When a job runs, and in what.

    Parameters
    ----------
    pieces
        Its pieces in order of time.
    completion
        Completion, slots since the start.
    """

    pieces: tuple[Piece, ...]
    completion: float


@dataclass(frozen=True)
class TimedColumn:
    """A job's profile with its cost.

    Parameters
    ----------
    job
        Position of the job.
    profile
        When it runs.
    cost
        What its completion costs.
    """

    job: int
    profile: TimedProfile
    cost: float


@dataclass
class Room:
    """Capacity left from each moment to the next.

    Parameters
    ----------
    at
        Starts of the segments, slots, rising from 0, shape (M,). The last one has no end.
    left
        Capacity left, shape (M, R).
    """

    at: Array
    left: Array

    def copy(self) -> Room:
        """Return a room that changes on its own."""
        return Room(self.at.copy(), self.left.copy())

    def split(self, moment: float) -> int:
        """Return the segment that starts at a moment, made if there is none."""
        i = int(np.searchsorted(self.at, moment))
        if i < len(self.at) and self.at[i] == moment:
            return i
        self.at = np.insert(self.at, i, moment)
        self.left = np.insert(self.left, i, self.left[i - 1], axis=0)
        return i


class TimedBuilder(Inserter[TimedColumn, Room]):
    """Capacity left over time, and insertion of jobs into it.

    Parameters
    ----------
    data
        The instance on a grid of slots, which here is only a unit of time.
    edges
        Ends of the intervals of constant prices, slots, rising from 0.
    """

    def __init__(self, data: SlotData, edges: Array) -> None:
        self.data = data
        self.edges = edges
        self.job_costs: JobCosts = steering_costs(data)
        jobs = data.instance.jobs
        self._whole = [not job.preemptible or job.restart_cost_s > 0 for job in jobs]

    def empty(self) -> Room:
        """Return the room of an empty schedule."""
        return Room(self.edges.copy(), np.tile(self.data.rows.capacity, (len(self.edges), 1)))

    def room_of(self, columns: Iterable[TimedColumn]) -> Room:
        """Return what some jobs leave."""
        pieces = [
            (start, end, self.data.table(column.job).use[c])
            for column in columns
            for start, end, c in column.profile.pieces
        ]
        if not pieces:
            return self.empty()
        starts, ends = np.array([p[0] for p in pieces]), np.array([p[1] for p in pieces])
        use = np.array([p[2] for p in pieces])
        at = np.unique(np.concatenate([self.edges, starts, ends]))
        change = np.zeros((len(at), use.shape[1]))
        np.add.at(change, np.searchsorted(at, starts), use)
        np.add.at(change, np.searchsorted(at, ends), -use)
        return Room(at, self.data.rows.capacity - np.cumsum(change, axis=0))

    def take(self, room: Room, column: TimedColumn) -> None:
        """Take a column's capacity."""
        self._change(room, column, -1.0)

    def give_back(self, room: Room, column: TimedColumn) -> None:
        """Give a column's capacity back."""
        self._change(room, column, 1.0)

    def _change(self, room: Room, column: TimedColumn, sign: float) -> None:
        use = self.data.table(column.job).use
        for start, end, c in column.profile.pieces:
            first, last = room.split(start), room.split(end)
            room.left[first:last] += sign * use[c]

    def insert(self, job: int, room: Room, prices: Array | None) -> TimedColumn | None:
        """Return the cheapest column of a job that is found in the room, or None.

        Parameters
        ----------
        job
            Position of the job.
        room
            Capacity left.
        prices
            Price of each row per slot of time in each interval, shape (intervals, R): what other
            jobs would pay for the capacity. None where all are 0.
        """
        table = self.data.table(job)
        own = self.data.instance.jobs[job]
        ways = np.arange(len(table.rate))
        each = own.elasticity == "malleable" and not self._whole[job]
        found = []
        for columns in [ways] if each else ways[:, None]:
            made = (
                self._in_one_piece(job, room, prices, int(columns[0]))
                if self._whole[job]
                else self._in_pieces(job, room, prices, columns)
            )
            if made is not None:
                found.append(made)
        if not found:
            return None
        profile = min(found, key=lambda each: each[0])[1]
        return TimedColumn(job, profile, self.data.target.costs.of(job, profile.completion))

    def insert_all(
        self, order: Iterable[int], prices: Array | None, is_over: Callable[[], bool] = never
    ) -> dict[int, TimedColumn] | None:
        """Insert jobs in order into an empty schedule, then let each use what is left over.

        None when one does not fit, or time is over.

        Parameters
        ----------
        order
            Positions of the jobs.
        prices
            Prices as `insert` takes them.
        is_over
            Says whether time is over.
        """
        room = self.empty()
        placed: dict[int, TimedColumn] = {}
        for job in order:
            column = None if is_over() else self.insert(job, room, prices)
            if column is None:
                return None
            self.take(room, column)
            placed[job] = column
        if prices is not None:
            for job in sorted(placed, key=lambda j: placed[j].profile.completion):
                if is_over():
                    break
                self.advance(job, room, placed)
        return placed

    def advance(self, job: int, room: Room, placed: dict[int, TimedColumn]) -> None:
        """Let a job complete earlier where capacity that is left allows it.

        Parameters
        ----------
        job
            Position of the job.
        room
            Capacity left beside all that is placed, changed in place.
        placed
            Column of each job, changed in place.
        """
        self.give_back(room, placed[job])
        column = self.insert(job, room, None)
        if column is not None and column.profile.completion < placed[job].profile.completion:
            placed[job] = column
        self.take(room, placed[job])

    def _window(
        self, job: int, room: Room, first: int, last: int, columns: np.ndarray
    ) -> tuple[Array, Array, np.ndarray]:
        """Return starts and lengths of segments, and which configurations fit in them."""
        starts = room.at[first:last].copy()
        starts[0] = self.data.arrival[job]
        ends = room.at[first + 1 : last + 1]
        if last == len(room.at):
            ends = np.append(ends, np.inf)
        use = self.data.table(job).use[columns]
        fits = (room.left[first:last, None, :] >= use - _FIT).all(axis=2)
        lengths = ends - starts
        fits[lengths < _SHORTEST] = False
        return starts, lengths, fits

    def _cost(self, job: int, prices: Array, starts: Array, columns: np.ndarray) -> Array:
        """Return the price per slot of time of configurations in segments."""
        cell = np.searchsorted(self.edges, starts, side="right") - 1
        per_cell = prices @ self.data.table(job).use[columns].T
        per_cell = np.concatenate([per_cell, np.zeros((1, len(columns)))])
        return np.asarray(per_cell[np.minimum(cell, len(prices))])

    def _in_pieces(
        self, job: int, room: Room, prices: Array | None, columns: np.ndarray
    ) -> tuple[float, TimedProfile] | None:
        rate, work = self.data.table(job).rate[columns], float(self.data.work[job])
        first = int(np.searchsorted(room.at, self.data.arrival[job], side="right")) - 1
        count = _FIRST_SEGMENTS
        while True:
            last = min(first + count, len(room.at))
            starts, lengths, fits = self._window(job, room, first, last, columns)
            fastest = np.where(fits, rate, 0.0)
            way = fastest.argmax(axis=1)
            speed = fastest[np.arange(len(way)), way]
            done = np.cumsum(np.where(speed > 0, speed * lengths, 0.0))
            if done[-1] >= work * (1 - _DONE) or last == len(room.at):
                break
            count *= 2
        earliest = _cut(starts, lengths, speed, done, work)
        if earliest is None or earliest[1] > self.data.limit[job] + _SHORTEST:
            return None
        cost_of = self.job_costs
        until, end = earliest
        value = cost_of.of(job, end)
        if prices is None:
            return value, _profile(starts, lengths, speed, way, columns, until, end)
        cost = self._cost(job, prices, starts, columns)
        paid = _paid(cost[np.arange(len(way)), way], speed, starts, lengths, until, end)
        best = value + paid, until, end, speed, way
        # Completing later cannot cost more than completing now and paying.
        latest = min(
            float(_latest_end(cost_of, job, best[0])), float(self.data.limit[job]) + _SHORTEST
        )
        last = min(int(np.searchsorted(room.at, latest)) + 1, len(room.at))
        if last > first:
            starts, lengths, fits = self._window(job, room, first, last, columns)
            cost = self._cost(job, prices, starts, columns)
            for price in _tried(cost, rate, fits):
                gain = np.where(fits, price * rate - cost, -np.inf)
                way = gain.argmax(axis=1)
                rows = np.arange(len(way))
                speed = np.where(gain[rows, way] >= 0, rate[way], 0.0)
                done = np.cumsum(np.where(speed > 0, speed * lengths, 0.0))
                reached = _cut(starts, lengths, speed, done, work)
                if reached is None or reached[1] > latest:
                    continue
                until, end = reached
                asked = cost_of.of(job, end)
                asked += _paid(cost[rows, way], speed, starts, lengths, until, end)
                if asked < best[0]:
                    best = asked, until, end, speed, way
        value, until, end, speed, way = best
        return value, _profile(starts, lengths, speed, way, columns, until, end)

    def _in_one_piece(
        self, job: int, room: Room, prices: Array | None, column: int
    ) -> tuple[float, TimedProfile] | None:
        columns = np.array([column])
        length = float(self.data.work[job] / self.data.table(job).rate[column])
        arrival = float(self.data.arrival[job])
        first = int(np.searchsorted(room.at, arrival, side="right")) - 1
        starts, lengths, fits = self._window(job, room, first, len(room.at), columns)
        blocked = np.flatnonzero(~fits[:, 0] & (lengths >= _SHORTEST))
        moments = starts[:1]
        if not self.data.started[job]:
            moments = np.unique(np.concatenate([starts, starts - length]))
            moments = moments[moments >= arrival]
        # The first segment without room that ends after each moment.
        behind = np.searchsorted((starts + lengths)[blocked], moments, side="right")
        until = np.append(starts[blocked], np.inf)[behind]
        ends = moments + length
        good = (until >= ends - _SHORTEST) & (ends <= self.data.limit[job] + _SHORTEST)
        if not good.any():
            return None
        moments, ends = moments[good], ends[good]
        costs = self.job_costs
        value = costs.base[job] + costs.rate[job] * ends
        value = value + costs.late[job] * np.maximum(ends - costs.due[job], 0.0)
        if prices is not None:
            per_cell = prices @ self.data.table(job).use[column]
            total = np.concatenate([[0.0], np.cumsum(per_cell * np.diff(self.edges))])
            value = value + np.interp(ends, self.edges, total)
            value = value - np.interp(moments, self.edges, total)
        i = int(value.argmin())
        end = float(ends[i])
        return float(value[i]), TimedProfile(((float(moments[i]), end, column),), end)


def timed_plan(
    data: SlotData, instance: Instance, schedule: Schedule
) -> dict[int, TimedColumn] | None:
    """Return the columns of a schedule; None where a job never completes.

    A run in a configuration that no table has, for another dominates it, is one in the slowest that
    is no slower.

    Parameters
    ----------
    data
        The instance on its grid, which gives the unit of time.
    instance
        The same in continuous time.
    schedule
        A schedule of it.
    """
    ends = completions(instance, schedule)
    plan: dict[int, TimedColumn] = {}
    for j, job in enumerate(instance.jobs):
        end_s = ends[job.id]
        if end_s is None:
            return None
        end, arrival = end_s / data.slot_s, float(data.arrival[j])
        pieces = tuple(
            (
                max(run.start_s / data.slot_s, arrival),
                min(run.end_s / data.slot_s, end),
                _column(data, j, run.configuration),
            )
            for run in schedule.runs_of.get(job.id, ())
            if run.start_s < end_s
        )
        plan[j] = TimedColumn(j, TimedProfile(pieces, end), data.target.costs.of(j, end))
    return plan


def _column(data: SlotData, j: int, configuration: int) -> int:
    """Return the column of a configuration, or of the slowest that is no slower."""
    table = data.table(j)
    if configuration in table.column_of:
        return table.column_of[configuration]
    rate = data.instance.jobs[j].configurations[configuration].rate * data.slot_s
    enough = np.where(table.rate >= rate * (1 - _DONE), table.rate, np.inf)
    return int(enough.argmin() if np.isfinite(enough).any() else table.rate.argmax())


def pieces_s(
    data: SlotData, plan: Mapping[int, TimedColumn]
) -> tuple[tuple[tuple[float, float, int], ...], ...]:
    """Return the pieces of each job in seconds, with the configurations of the job itself.

    Parameters
    ----------
    data
        The instance on its grid.
    plan
        Column of each job by its position.
    """
    return tuple(
        tuple(
            (start * data.slot_s, end * data.slot_s, int(data.table(j).configuration[c]))
            for start, end, c in plan[j].profile.pieces
        )
        for j in range(data.num_jobs)
    )


def _cut(
    starts: Array, lengths: Array, speed: Array, done: Array, work: float
) -> tuple[int, float] | None:
    """Return the segment in which the work is done, and when; None if it is not."""
    i = int(np.searchsorted(done, work * (1 - _DONE)))
    if i == len(done):
        return None
    before = float(done[i - 1]) if i else 0.0
    return i, float(min(starts[i] + max(work - before, 0.0) / speed[i], starts[i] + lengths[i]))


def _paid(
    cost: Array, speed: Array, starts: Array, lengths: Array, until: int, end: float
) -> float:
    """Return what running at a speed costs up to an end."""
    runs = speed[:until] > 0
    before = float(cost[:until][runs] @ lengths[:until][runs])
    return before + float(cost[until]) * (end - float(starts[until]))


def _profile(
    starts: Array,
    lengths: Array,
    speed: Array,
    way: np.ndarray,
    columns: np.ndarray,
    until: int,
    end: float,
) -> TimedProfile:
    """Return the profile that runs in segments up to an end, neighbours merged."""
    pieces: list[Piece] = []
    # Neighbours share the very number at which one ends and the other starts.
    for i in np.flatnonzero(speed[: until + 1] > 0).tolist():
        start = float(starts[i])
        stop = end if i == until else float(starts[i + 1])
        c = int(columns[way[i]])
        if pieces and pieces[-1][1] == start and pieces[-1][2] == c:
            start = pieces.pop()[0]
        pieces.append((start, stop, c))
    return TimedProfile(tuple(pieces), end)


def _tried(cost: Array, rate: Array, fits: np.ndarray) -> Array:
    """Return prices of work to try: some of those at which configurations begin to earn."""
    begins = np.unique((cost / rate)[fits])
    if len(begins) > _WORK_PRICES:
        begins = begins[np.linspace(0, len(begins) - 1, _WORK_PRICES).astype(np.int64)]
    if len(rate) > 1 and len(begins):
        # Above the price at which it begins to earn, the fastest configuration is worth its use.
        begins = np.concatenate([begins, begins[-1] * np.array([1.5, 2.5])])
    return np.asarray(begins)


def _latest_end(costs: JobCosts, job: int, value: float) -> float:
    """Return the completion up to which a job costs no more than a value, slots."""
    base, rate, late, due = (
        float(part[job]) for part in (costs.base, costs.rate, costs.late, costs.due)
    )
    plain = (value - base) / rate if rate > 0 else np.inf
    if late <= 0 or plain <= due:
        return plain
    return due + (value - base - rate * due) / (rate + late)
