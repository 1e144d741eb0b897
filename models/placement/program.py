"""F4 as columns and rows: the rules of the page of mathematics, in its order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from alloc.formulation import Array
from alloc.model_builder import Index, ModelBuilder, Term
from alloc.models.placement.facts import Facts
from alloc.objectives.locality import places

_MAX_AMOUNT, _DIGIT = 2**20, 2**12
"""Largest amount of a row: a solver holds rows to 1e-7 of it or so, here a tenth of a unit. And the
base of the digits in which larger ones are written."""


@dataclass(frozen=True)
class Presence:
    """Where a class may be at a level: variables p by place."""

    column: dict[int, int]


class Program:
    """The columns x, y and those of the rules, with (C1) to (C11).

    Parameters
    ----------
    facts
        Sets and parameters.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.builder = ModelBuilder()
        self.num_hosts = facts.instance.topology.num_hosts
        sizes = np.array([facts.size(way.job_class) for way in facts.ways])
        self.x: Index = self.builder.columns(len(facts.ways), sizes)
        self._add_tasks()
        self._presence: dict[tuple[int, str], Presence] = {}
        self.moved: dict[tuple[int, str, int], int] = {}
        for rule in (
            self._one_way,
            self._gangs,
            self._capacity,
            self._inside,
            self._slices,
            self._spread,
            self._together,
            self._apart,
            self._quotas,
            self._moves,
        ):
            rule()

    def _add_tasks(self) -> None:
        """Add y where a task may stand: `at` gives the column of each row and host, or -1."""
        upper = self.facts.upper
        rows, hosts = np.nonzero(upper)
        columns = self.builder.columns(len(rows), upper[rows, hosts])
        self.at = np.full(upper.shape, -1, dtype=np.int64)
        self.at[rows, hosts] = columns
        self.y_row, self.y_host, self.y = rows, hosts, columns

    def hosts_of(self, i: int) -> Index:
        """Return the hosts on which tasks of a row may stand."""
        return np.flatnonzero(self.at[i] >= 0)

    def _by_domain(self, i: int, level: str) -> Iterator[tuple[int, Index]]:
        """Yield each domain of a level with the columns y of a row on its hosts."""
        hosts = self.hosts_of(i)
        domain = self.facts.domain(level)[hosts]
        for k in np.unique(domain):
            yield int(k), self.at[i, hosts[domain == k]]

    def _one_way(self) -> None:
        for k, ways in enumerate(self.facts.ways_by_class):
            least = self.facts.size(k) if self.facts.must(k) else -math.inf
            self.builder.row("C1", [(self.x[list(ways)], 1.0)], least, self.facts.size(k))

    def _gangs(self) -> None:
        for i, row in enumerate(self.facts.rows):
            columns = self.at[i, self.hosts_of(i)]
            self.builder.row("C2", [(columns, 1.0), (int(self.x[row.way]), -row.count)], 0.0, 0.0)

    def _capacity(self) -> None:
        """Hosts hold what they have."""
        capacity = self.facts.instance.topology.capacity
        for r in range(capacity.shape[1]):
            amount = self.facts.demand[self.y_row, r]
            needed = amount > 0
            if needed.any():
                hosts, where = np.unique(self.y_host[needed], return_inverse=True)
                self._within("C3", where, self.y[needed], amount[needed], capacity[hosts, r])

    def _within(self, name: str, where: Index, columns: Index, amounts: Index, room: Index) -> None:
        """Add rows of whole amounts with upper limits, in units of the greatest common divisor.

        Beside amounts of millions one unit is less than a solver's tolerance. Such amounts are
        written in digits: those that are low add up to what is carried, those that are high and
        what is carried to at most the high digits of the limit.
        """
        unit, every = int(np.gcd.reduce(amounts)), np.arange(len(room))
        amounts, room = amounts // unit, room // unit
        while int(amounts.max()) > _MAX_AMOUNT:
            carried = self.builder.columns(len(room), room // _DIGIT)
            low: list[Term] = [(where, columns, amounts % _DIGIT), (every, carried, -float(_DIGIT))]
            self.builder.rows(name, len(room), low, upper=room % _DIGIT)
            where, columns = np.append(where, every), np.append(columns, carried)
            amounts = np.append(amounts // _DIGIT, np.ones(len(room), dtype=np.int64))
            room = room // _DIGIT
        self.builder.rows(name, len(room), [(where, columns, amounts)], upper=room)

    def _inside(self) -> None:
        """Every level that must hold a gang: w counts the gangs in each domain."""
        for v, way in enumerate(self.facts.ways):
            for level in way.inside:
                domains = sorted({k for i in way.rows for k, _ in self._by_domain(i, level)})
                w = self.builder.columns(len(domains), self.facts.size(way.job_class))
                self.builder.row("C4", [(w, 1.0), (int(self.x[v]), -1.0)], 0.0, 0.0)
                column = dict(zip(domains, w, strict=True))
                for i in way.rows:
                    count = self.facts.rows[i].count
                    held = dict(self._by_domain(i, level))
                    for k in domains:
                        y = held.get(k, np.zeros(0, dtype=np.int64))
                        self.builder.row("C4", [(y, 1.0), (int(column[k]), -count)], 0.0, 0.0)

    def _slices(self) -> None:
        for i, row in enumerate(self.facts.rows):
            most = row.count * self.facts.size(self.facts.ways[row.way].job_class)
            for cut in self.facts.slices(row):
                for _, y in self._by_domain(i, cut.level):
                    q = self.builder.columns(1, most // cut.size)
                    self.builder.row("C5", [(y, 1.0), (q, -cut.size)], 0.0, 0.0)

    def _spread(self) -> None:
        for way in self.facts.ways:
            for limit in self.facts.job(way.job_class).placement.spread:
                held: dict[int, list[Index]] = {}
                for i in way.rows:
                    if self.facts.rows[i].ruled:
                        for k, y in self._by_domain(i, limit.level):
                            held.setdefault(k, []).append(y)
                for k, parts in held.items():
                    if k >= 0:
                        self.builder.row("C6", [(y, 1.0) for y in parts], upper=limit.most)

    def _together(self) -> None:
        facts = self.facts
        for affinity in facts.instance.affinities:
            if affinity.kind != "together":
                continue
            rows = [i for k in self._classes(affinity.jobs) for i in self._rows_of(k)]
            domains = sorted({k for i in rows for k, _ in self._by_domain(i, affinity.level)})
            p = self.builder.columns(len(domains), 1.0)
            self.builder.row("C7", [(p, 1.0)], upper=1.0)
            column = dict(zip(domains, p, strict=True))
            for i in rows:
                for k, y in self._by_domain(i, affinity.level):
                    count = facts.rows[i].count
                    self.builder.row("C7", [(y, 1.0), (int(column[k]), -count)], upper=0.0)

    def _apart(self) -> None:
        for affinity in self.facts.instance.affinities:
            if affinity.kind != "apart":
                continue
            real = {int(k) for k in self.facts.domain(affinity.level) if k >= 0}
            shared: dict[int, list[int]] = {}
            for k in self._classes(affinity.jobs):
                for place, column in self.presence(k, affinity.level).column.items():
                    if place in real:
                        shared.setdefault(place, []).append(column)
            for columns in shared.values():
                self.builder.row("C8", [(np.array(columns), 1.0)], upper=1.0)

    def _classes(self, jobs: tuple[str, ...]) -> list[int]:
        positions = {self.facts.instance.job_index[job] for job in jobs}
        return [k for k, members in enumerate(self.facts.classes) if members[0] in positions]

    def _rows_of(self, k: int) -> list[int]:
        return [i for v in self.facts.ways_by_class[k] for i in self.facts.ways[v].rows]

    def presence(self, k: int, level: str) -> Presence:
        """Return the variables of the places in which a class of one job may be (C9).

        Parameters
        ----------
        k
            Position of the class, which has one job.
        level
            Name of a level, as in `Topology.domain_of_host`.
        """
        key = (k, level)
        if key in self._presence:
            return self._presence[key]
        place = places(self.facts.instance, level)
        rows = self._rows_of(k)
        known = sorted({int(p) for i in rows for p in place[self.hosts_of(i)]})
        columns = self.builder.columns(len(known), 1.0)
        column = dict(zip(known, columns.tolist(), strict=True))
        runs = self.x[list(self.facts.ways_by_class[k])]
        for i in rows:
            hosts = self.hosts_of(i)
            for p in np.unique(place[hosts]):
                inside = hosts[place[hosts] == p]
                y = self.at[i, inside]
                most = min(self.facts.rows[i].count, int(self.facts.upper[i, inside].sum()))
                self.builder.row("C9", [(y, 1.0), (column[int(p)], -most)], upper=0.0)
        self.builder.row("C9", [(columns, 1.0), (runs, -1.0)], 0.0)
        for c in columns:
            self.builder.row("C9", [(int(c), 1.0), (runs, -1.0)], upper=0.0)
        self._presence[key] = Presence(column)
        return self._presence[key]

    def _quotas(self) -> None:
        for _, uses, most in self.facts.quotas():
            if uses:
                columns = self.x[[v for v, _ in uses]]
                amounts = np.array([amount for _, amount in uses])
                self._within("C10", np.zeros_like(columns), columns, amounts, np.array([most]))

    def _moves(self) -> None:
        """Tasks that leave a host: what was there beyond what is; pinned tasks stay."""
        facts = self.facts
        watched = facts.watches_moves
        rows_by: dict[tuple[int, str], list[int]] = {}
        for i, row in enumerate(facts.rows):
            role = facts.data.groups[row.group].tasks.role
            rows_by.setdefault((facts.ways[row.way].job_class, role), []).append(i)
        for (k, role, h), before in facts.initial.items():
            columns = [int(self.at[i, h]) for i in rows_by.get((k, role), ())]
            y = np.array([c for c in columns if c >= 0], dtype=np.int64)
            if facts.pinned(k):
                self.builder.row("C11", [(y, 1.0)], before)
            elif watched:
                m = int(self.builder.columns(1, before)[0])
                self.moved[k, role, h] = m
                self.builder.row("C11", [(y, 1.0), (m, 1.0)], before)
        budget = facts.instance.allowed_moves.budget
        if budget is not None and self.moved:
            every = np.array(list(self.moved.values()), dtype=np.int64)
            self.builder.row("C11", [(every, 1.0)], upper=budget)

    def values(self, x: Array, y: Index) -> Array:
        """Return x and y as columns of the program; the others, which follow, are NaN.

        Parameters
        ----------
        x
            Gangs of each way, shape (ways,).
        y
            Tasks of each row on each host, shape (rows, hosts).
        """
        found = np.full(self.builder.num_columns, np.nan)
        found[self.x] = x
        found[self.y] = y[self.y_row, self.y_host]
        return found
