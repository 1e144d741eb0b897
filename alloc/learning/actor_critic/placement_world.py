"""Rounds of placement under interference: a small world of its own.

The simulator's jobs run at the rates that their configurations state, whoever stands beside them,
so it cannot carry interference. Here they run at the speeds of an `InterferenceTable`: jobs arrive
in rounds, each is put on a host or waits, and does per round as much work as its normalised speed
beside the others on its host. It leaves at the end of the round in which its work is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from alloc.errors import SimulationError
from alloc.schedulers.learned.host_choice import host_rows
from alloc.workload.interference import InterferenceTable

Counts = npt.NDArray[np.int64]
"""Jobs of each class on each host, shape (hosts, classes)."""
Value = Callable[[tuple[int, ...]], float]
"""Sum of the normalised speeds of a host, by its jobs of each class."""

CLASSES = ("vision", "language", "recommendation", "speech", "graph")
"""Classes of jobs of the synthetic table."""

# What a job asks of compute, memory bandwidth and host CPU, as fractions: invented, not measured.
_PRESSURE = np.array(
    [[0.8, 0.2, 0.5], [0.9, 0.6, 0.1], [0.1, 0.8, 0.4], [0.3, 0.1, 0.8], [0.2, 0.5, 0.2]]
)


def synthetic_table() -> InterferenceTable:
    """Return the table: jobs slow each other by products of what they ask for."""
    beside = 1.0 / (1.0 + 0.5 * _PRESSURE @ _PRESSURE.T)
    return InterferenceTable("host", CLASSES, np.ones(len(CLASSES)), beside, "synthetic")


def value_of(table: InterferenceTable) -> Value:
    """Return the sum of normalised speeds of a host, as the table says; 0 where it cannot be."""

    @cache
    def value(on_host: tuple[int, ...]) -> float:
        kinds = [kind for kind, n in zip(table.kinds, on_host, strict=True) for _ in range(n)]
        return float(sum(table.speeds(kinds) or (0.0,)))

    return value


@dataclass(frozen=True)
class Stream:
    """Jobs that arrive in rounds, for `hosts` hosts that hold at most `most` jobs each.

    `arrivals` holds, for each round, class and work of each job; work in rounds at full speed.
    """

    hosts: int
    most: int
    arrivals: tuple[tuple[tuple[int, float], ...], ...]


@dataclass(frozen=True)
class Streams:
    """A distribution of streams.

    Parameters
    ----------
    hosts, most
        As in `Stream`.
    rounds, per_round
        Rounds in which jobs arrive, and their mean number in each.
    work
        Least and most work of a job, rounds at full speed.
    """

    hosts: int = 6
    most: int = 4
    rounds: int = 16
    per_round: float = 4.5
    work: tuple[float, float] = (1.0, 3.0)

    def __call__(self, rng: np.random.Generator) -> Stream:
        """Draw a stream."""
        # Each stream has its own mix of classes, so that none is what all are tuned to.
        mix = rng.dirichlet(np.full(len(CLASSES), 2.0))
        rounds = []
        for _ in range(self.rounds):
            number = int(rng.poisson(self.per_round))
            classes = rng.choice(len(CLASSES), size=number, p=mix).tolist()
            rounds.append(
                tuple(zip(classes, rng.uniform(*self.work, number).tolist(), strict=True))
            )
        return Stream(self.hosts, self.most, tuple(rounds))


@dataclass(frozen=True, eq=False)
class Asked:
    """A job that is asked for.

    Parameters
    ----------
    on_host
        What runs, shape (hosts, classes).
    queue
        Classes of the jobs of the round from this one on.
    most
        Most jobs of a host.
    """

    on_host: Counts
    queue: tuple[int, ...]
    most: int

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Hosts with room, and whether it may wait: only where something runs."""
        return np.append(self.on_host.sum(axis=1) < self.most, self.on_host.any())

    @property
    def seen(self) -> npt.NDArray[np.float32]:
        """What an agent is shown."""
        classes = self.on_host.shape[1]
        behind = np.bincount(self.queue[1:], minlength=classes)
        return host_rows(self.on_host, self.mask[:-1], self.queue[0], behind, self.most)


Place = Callable[[Asked], int]
"""Chooses a host for the first job of the queue, or the number of hosts to leave it waiting."""


def place_round(
    on_host: Counts, queue: tuple[int, ...], most: int, place: Place
) -> tuple[list[int], list[Asked]]:
    """Place the jobs of a round; return where each goes (hosts: it waits), and what was asked.

    `on_host` is brought up to date. A job that fits nowhere waits without being asked for.

    Parameters
    ----------
    on_host
        What runs, shape (hosts, classes).
    queue
        Class of each job to place, in order.
    most
        Most jobs of a host.
    place
        Chooses a host for each.

    Raises
    ------
    SimulationError
        If a job is put where it may not be.
    """
    hosts, went, asked = len(on_host), [], []
    for k, job in enumerate(queue):
        question = Asked(on_host.copy(), queue[k:], most)
        if not question.mask[:-1].any():
            went.append(hosts)
            continue
        host = place(question)
        if not 0 <= host <= hosts or not question.mask[host]:
            raise SimulationError(f"a job was put on host {host}, which is not allowed.")
        if host < hosts:
            on_host[host, job] += 1
        went.append(host)
        asked.append(question)
    return went, asked


@dataclass(frozen=True)
class Run:
    """What became of a stream.

    Parameters
    ----------
    jct
        Completion time of each job, rounds.
    value
        Mean over rounds of the sum of normalised speeds.
    rounds
        For each round what was asked, where those jobs went, and what ran in the end.
    """

    jct: npt.NDArray[np.float64]
    value: float
    rounds: tuple[tuple[list[Asked], list[int], Counts], ...]


def run_stream(stream: Stream, table: InterferenceTable, place: Place) -> Run:
    """Run a stream to its end.

    Parameters
    ----------
    stream
        The jobs and the hosts.
    table
        Speeds of the classes beside each other.
    place
        Chooses a host for each job.
    """
    on_host = np.zeros((stream.hosts, len(table.kinds)), np.int64)
    waiting: list[tuple[int, float, int]] = []
    running: list[tuple[int, float, int, int]] = []
    jct, values, rounds, now = [], [], [], 0
    while now < len(stream.arrivals) or waiting or running:
        if now < len(stream.arrivals):
            waiting += [(job, work, now) for job, work in stream.arrivals[now]]
        queue = tuple(job for job, _, _ in waiting)
        went, asked = place_round(on_host, queue, stream.most, place)
        if asked:
            of_asked = [went[len(queue) - len(question.queue)] for question in asked]
            rounds.append((asked, of_asked, on_host.copy()))
        running += [(*job, h) for job, h in zip(waiting, went, strict=True) if h < stream.hosts]
        waiting = [job for job, h in zip(waiting, went, strict=True) if h == stream.hosts]
        now += 1
        before, on_host = on_host, np.zeros_like(on_host)
        going, total = [], 0.0
        for job, left, since, host in running:
            others = before[host].copy()
            others[job] -= 1
            speed = float(np.prod(table.beside[job] ** others))
            total += speed
            if speed >= left:
                jct.append(now - 1 + left / speed - since)
            else:
                going.append((job, left - speed, since, host))
                on_host[host, job] += 1
        values.append(total)
        running = going
    return Run(np.array(jct), float(np.mean(values)), tuple(rounds))
