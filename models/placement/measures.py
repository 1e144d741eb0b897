"""The objectives of F4 as columns and rows: each exact at the optimum, in its own sense.

A term is always wanted in its own sense (see `alloc.objectives.WeightedSum`), so that auxiliary
variables need to be held from one side only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import Array
from alloc.model_builder import Index
from alloc.models.placement.bandwidth import Step, steps_of
from alloc.models.placement.program import Program
from alloc.objectives import WeightedSum
from alloc.objectives.fragmentation import Shape, gang_domains, mix_of
from alloc.units import GB_PER_MIB, MILLI

FINE = 10**8
"""Units of a utilisation in integer models where no smaller number makes every share whole: a
share is then rounded to eight digits."""


@dataclass(frozen=True)
class Expression:
    """A linear expression ``value @ x[column] + constant``."""

    column: Index
    value: Array
    constant: float = 0.0


class Measures:
    """Adds the variables that objectives need, once each.

    Parameters
    ----------
    program
        The program with its rules.
    whole
        Whether every column must be an integer: utilisations are then counted in parts of one.
    """

    def __init__(self, program: Program, *, whole: bool = False) -> None:
        self.program = program
        self.facts = program.facts
        self.builder = program.builder
        self.whole = whole
        self.rounding = 0.0
        self._known: dict[str, Expression] = {}
        self._made: dict[str, Callable[[], Expression]] = {
            "gpus_placed": self._gpus_placed,
            "weight_placed": self._weight_placed,
            "domains_spanned": self._domains_spanned,
            "bottleneck_bandwidth": self._bottleneck,
            "fragmentation": self._fragmentation,
            "largest_gang": self._largest_gang,
            "whole_hosts_free": self._whole_hosts_free,
            "balance": self._balance,
            "moves": partial(self._moved, per_mib=None),
            "moved_gb": partial(self._moved, per_mib=GB_PER_MIB),
            "gpu_hosts_used": partial(self._hosts_used, gpu=True),
            "hosts_used": partial(self._hosts_used, gpu=False),
        }

    def of(self, level: WeightedSum) -> Expression:
        """Return the expression of a level of a goal."""
        parts = []
        for weight, term in level.terms:
            if term.name not in self._known:
                if term.name not in self._made:
                    raise UnsupportedFeatureError(
                        f"the models of placement do not have {term.name}; they have: "
                        f"{', '.join(self._made)}."
                    )
                self._known[term.name] = self._made[term.name]()
            found = self._known[term.name]
            sign = weight if term.sense == level.sense else -weight
            parts.append(Expression(found.column, sign * found.value, sign * found.constant))
        return Expression(
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.value for part in parts]),
            sum(part.constant for part in parts),
        )

    def _per_gang(self, value: Array) -> Expression:
        return Expression(self.program.x, value)

    def _gpus_placed(self) -> Expression:
        ways = self.facts.ways
        held = [self.facts.configuration(way).demand[0] / MILLI for way in ways]
        return self._per_gang(np.array(held, dtype=float))

    def _weight_placed(self) -> Expression:
        weights = [self.facts.job(way.job_class).weight for way in self.facts.ways]
        return self._per_gang(np.array(weights, dtype=float))

    def _domains_spanned(self) -> Expression:
        """Count places of presence, minus one for each job that runs and level that counts."""
        columns: list[int] = []
        first = np.zeros(len(self.facts.ways))
        for k, ways in enumerate(self.facts.ways_by_class):
            for level in self.facts.levels_spanned(k):
                columns += self.program.presence(k, level).column.values()
                first[list(ways)] -= 1.0
        return Expression(
            np.concatenate([np.array(columns, dtype=np.int64), self.program.x]),
            np.concatenate([np.ones(len(columns)), first]),
        )

    def _bottleneck(self) -> Expression:
        """Sum over gangs of steps b_t - b_(t-1) for every width b_t that joins all their GPUs."""
        columns: list[int] = []
        values: list[float] = []
        steps = steps_of(self.facts.instance.topology)
        for k, ways in enumerate(self.facts.ways_by_class):
            several = [v for v in ways if self.facts.gpus(self.facts.ways[v]) > 1]
            for step in steps if several else ():
                e = int(self.builder.columns(1, 1.0)[0])
                gangs = self.program.x[several]
                self.builder.row("C14", [(e, 1.0), (gangs, -1.0)], upper=0.0)
                self._join(k, step, e, [i for v in ways for i in self.facts.ways[v].rows])
                columns.append(e)
                values.append(step.rise)
        return Expression(np.array(columns, dtype=np.int64), np.array(values))

    def _join(self, k: int, step: Step, e: int, rows: list[int]) -> None:
        """With e, all GPUs of a gang stand in one part, and no host joins two of them worse."""
        with_gpu = [i for i in rows if self.facts.demand[i, 0]]
        parts = np.unique(step.part)
        w = self.builder.columns(len(parts), 1.0)
        self.builder.row("C14", [(w, 1.0), (e, -1.0)], 0.0, 0.0)
        for i in with_gpu:
            hosts = self.program.hosts_of(i)
            count = self.facts.rows[i].count
            for p, column in zip(parts, w, strict=True):
                y = self.program.at[i, hosts[step.part[hosts] == p]]
                if len(y):
                    terms = [(y, 1.0), (e, float(count)), (int(column), -float(count))]
                    self.builder.row("C14", terms, upper=count)
        for h in np.flatnonzero(step.too_narrow):
            held = [
                (int(self.program.at[i, h]), self.facts.demand[i, 0] / MILLI)
                for i in with_gpu
                if self.program.at[i, h] >= 0
            ]
            most = max(self.facts.gpus(self.facts.ways[self.facts.rows[i].way]) for i in with_gpu)
            if held:
                terms = [(column, gpus) for column, gpus in held]
                self.builder.row("C14", [*terms, (e, most - 1.0)], upper=most)

    def _taken_gpus(self) -> tuple[Index, Index, Array]:
        """Return host, column and GPUs of every task that holds GPUs."""
        program = self.program
        gpus = self.facts.demand[program.y_row, 0] / MILLI
        held = gpus > 0
        return program.y_host[held], program.y[held], gpus[held]

    def _fragmentation(self) -> Expression:
        """Free GPUs, minus for every shape t of those it can use: t <= free, t <= most a."""
        topology = self.facts.instance.topology
        capacity = topology.capacity
        gpu_hosts = np.flatnonzero(capacity[:, 0])
        number = capacity[:, 0] / MILLI
        host, column, gpus = self._taken_gpus()
        types = np.array([str(t) for t in topology.gpu_types])
        columns, values = [column], [-gpus]
        for shape, frequency in mix_of(self.facts.instance).items():
            if not shape.num_gpus:
                continue
            able = [h for h in gpu_hosts if _fits(shape, capacity[h], types[h])]
            if not able:
                continue
            hosts = np.array(able, dtype=np.int64)
            position = np.full(len(capacity), -1, dtype=np.int64)
            position[hosts] = np.arange(len(hosts))
            k = np.arange(len(hosts))
            a = self.builder.columns(len(hosts), 1.0)
            t = self.builder.columns(len(hosts), number[hosts])
            inside = position[host] >= 0
            taken = (position[host[inside]], column[inside], gpus[inside])
            self.builder.rows("C15", len(hosts), [(k, t, 1.0), taken], upper=number[hosts])
            self.builder.rows("C15", len(hosts), [(k, t, 1.0), (k, a, -number[hosts])], upper=0.0)
            needs = (shape.num_gpus * MILLI, shape.cpu_milli, shape.memory_mib)
            for r, need in enumerate(needs):
                if need:
                    self._leave_room(r, need, hosts, position, a)
            columns.append(t)
            values.append(np.full(len(hosts), -frequency))
        return Expression(np.concatenate(columns), np.concatenate(values), float(number.sum()))

    def _leave_room(self, r: int, need: int, hosts: Index, position: Index, a: Index) -> None:
        """Add: what tasks use of a resource, plus the need where a, is at most the capacity."""
        program = self.program
        amount = self.facts.demand[program.y_row, r]
        used = (amount > 0) & (position[program.y_host] >= 0)
        unit = int(np.gcd.reduce([need, *amount[used].tolist()]))
        terms = [
            (position[program.y_host[used]], program.y[used], amount[used] // unit),
            (np.arange(len(hosts)), a, need // unit),
        ]
        capacity = self.facts.instance.topology.capacity[hosts, r] // unit
        self.builder.rows("C15", len(hosts), terms, upper=capacity)

    def _largest_gang(self) -> Expression:
        """One place s is chosen, and the gang L is at most what it has free."""
        place = gang_domains(self.facts.instance)
        number = self.facts.instance.topology.capacity[:, 0] / MILLI
        total = np.bincount(place, weights=number)
        s = self.builder.columns(len(total), 1.0)
        largest = int(self.builder.columns(1, float(total.max()))[0])
        self.builder.row("C16", [(s, 1.0)], 1.0, 1.0)
        host, column, gpus = self._taken_gpus()
        k = np.arange(len(total))
        most = float(total.max())
        self.builder.rows(
            "C16",
            len(total),
            [(k, largest, 1.0), (place[host], column, gpus), (k, s, most)],
            upper=total + most,
        )
        return Expression(np.array([largest]), np.ones(1))

    def _used(self, *, gpu: bool) -> tuple[Index, Index]:
        """Return hosts that tasks may use, and o: whether any does."""
        program, facts = self.program, self.facts
        held = np.ones(len(program.y), dtype=bool)
        if gpu:
            held = facts.demand[program.y_row, 0] > 0
        hosts, where = np.unique(program.y_host[held], return_inverse=True)
        o = self.builder.columns(len(hosts), 1.0)
        y, rows = program.y[held], program.y_row[held]
        n = np.arange(len(y))
        most = facts.upper[rows, program.y_host[held]]
        self.builder.rows("C12", len(y), [(n, y, 1.0), (n, o[where], -most)], upper=0.0)
        capacity = facts.instance.topology.capacity
        for r in range(capacity.shape[1]):
            # All tasks together: what makes the relaxation strong.
            amount = facts.demand[rows, r]
            need = amount > 0
            if need.any():
                unit = int(np.gcd.reduce(amount[need]))
                terms = [
                    (where[need], y[need], amount[need] // unit),
                    (np.arange(len(hosts)), o, -(capacity[hosts, r] // unit)),
                ]
                self.builder.rows("C12", len(hosts), terms, upper=0.0)
        return hosts, o

    def _hosts_used(self, *, gpu: bool) -> Expression:
        _, o = self._used(gpu=gpu)
        return Expression(o, np.ones(len(o)))

    def _whole_hosts_free(self) -> Expression:
        hosts, o = self._used(gpu=False)
        with_gpus = self.facts.instance.topology.capacity[:, 0] > 0
        counted = o[with_gpus[hosts]]
        return Expression(counted, -np.ones(len(counted)), float(with_gpus.sum()))

    def _balance(self) -> Expression:
        """Per host and resource what its share is above the mean share, which varies too."""
        capacity = self.facts.instance.topology.capacity
        scale = float(self._parts(capacity)) if self.whole else 1.0
        above = []
        for r in range(capacity.shape[1]):
            hosts = np.flatnonzero(capacity[:, r])
            amount = self.facts.demand[self.program.y_row, r]
            needed = amount > 0
            if not len(hosts) or not needed.any():
                continue
            host, y = self.program.y_host[needed], self.program.y[needed]
            position = np.full(len(capacity), -1, dtype=np.int64)
            position[hosts] = np.arange(len(hosts))
            share = scale * amount[needed] / capacity[host, r]
            part = share / len(hosts)
            if self.whole:
                # What rounding adds up to: on a task's host, and in the mean of all hosts.
                most = self.facts.upper[self.program.y_row[needed], host]
                off = np.abs(np.rint(share) - share) + len(hosts) * np.abs(np.rint(part) - part)
                self.rounding += float(off @ most) / scale
                share, part = np.rint(share), np.rint(part)
            mean = self.builder.columns(1, 2 * scale, integer=self.whole)
            self.builder.row("C13", [(mean, 1.0), (y, -part)], 0.0, 0.0)
            b = self.builder.columns(len(hosts), 2 * scale, integer=self.whole)
            k = np.arange(len(hosts))
            terms = [(k, b, 1.0), (position[host], y, -share), (k, mean, 1.0)]
            self.builder.rows("C13", len(hosts), terms, 0.0)
            above.append(b)
        columns = np.concatenate([np.zeros(0, dtype=np.int64), *above])
        return Expression(columns, np.full(len(columns), 1.0 / scale))

    def _parts(self, capacity: npt.NDArray[np.int64]) -> int:
        """Return into how many parts utilisations are cut: all shares are whole if that is few."""
        parts = 1
        for r in range(capacity.shape[1]):
            hosts = np.unique(capacity[capacity[:, r] > 0, r])
            amount = np.unique(self.facts.demand[self.program.y_row, r])
            amount = amount[amount > 0]
            if not len(hosts) or not len(amount):
                continue
            whole = hosts[:, None] // np.gcd(hosts[:, None], amount[None, :])
            # The mean over hosts divides a share once more.
            of_mean = int(np.count_nonzero(capacity[:, r]))
            parts = math.lcm(parts, of_mean * math.lcm(*(int(n) for n in whole.ravel())))
            if parts > FINE:
                return FINE
        return parts

    def _moved(self, per_mib: float | None) -> Expression:
        moved = self.program.moved
        columns = np.array(list(moved.values()), dtype=np.int64)
        if per_mib is None:
            return Expression(columns, np.ones(len(columns)))
        memory = []
        for k, role, _ in moved:
            running = self.facts.data.running[self.facts.classes[k][0]]
            tasks = self.facts.job(k).configurations[running.configuration].tasks
            memory.append(next(g.memory_mib for g in tasks if g.role == role) * per_mib)
        return Expression(columns, np.array(memory, dtype=float))


def _fits(shape: Shape, capacity: Index, gpu_type: str) -> bool:
    needs = (shape.num_gpus * MILLI, shape.cpu_milli, shape.memory_mib)
    return (shape.gpu_type in (None, gpu_type)) and bool(
        (np.array(needs) <= capacity[: len(needs)]).all()
    )
