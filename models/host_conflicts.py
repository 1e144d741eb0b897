"""Gangs that the hosts do not hold together: the rows that make a relaxation of placement exact.

Capacity rows sum hosts up, so a model may run gangs together that no placement carries out. Such a
*conflict* says so many gangs of each kind are too many. It holds wherever the cluster is empty at
first: in every slot. And it holds for all gangs that are at least as hard to place.

As rows (combinatorial Benders cuts: Hooker, Ottosson 2003; Codato, Fischetti 2006), with N_k the
gangs of the conflict of kind k, X_k the jobs that run in a configuration of that kind or a harder
one, and U_k the number of jobs that can:

    X_k <= N_k - 1 + (U_k - N_k + 1) y_k  for all k,   sum_k y_k <= |K| - 1,   y binary.

A conflict of one kind is the row X_k <= N_k - 1 alone. The conflicts are found one by one, where an
answer of the model cannot be placed (`alloc.solving.refinement`); there are finitely many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from alloc.errors import SolverError
from alloc.packing import (
    MAX_STEPS,
    Steps,
    Undecided,
    place_jointly,
    place_together,
    shape_of_task,
)
from alloc.topology import Topology
from alloc.workload import Configuration

if TYPE_CHECKING:
    from scipy import sparse

Kind = tuple[frozenset[tuple[Hashable, int]], str | None, str | None]
"""What is the same to the hosts: tasks of each shape, and the GPU type and level of the gang."""
Column = TypeVar("Column", bound=Hashable)


def kind_of(configuration: Configuration) -> Kind:
    """Return the kind of a configuration: two of one kind stand on the same hosts."""
    tasks: Counter[Hashable] = Counter()
    for group in configuration.tasks:
        tasks[shape_of_task(group)] += group.count
    return frozenset(tasks.items()), configuration.gpu_type, configuration.within


def is_as_hard(kind: Kind, other: Kind) -> bool:
    """Return whether gangs of a kind hold all tasks, and are tied by all ties, of another kind.

    Parameters
    ----------
    kind
        Tasks and ties of the gangs that are asked about.
    other
        Those of the gangs that they are compared with.
    """
    tasks = dict(kind[0])
    return all(tasks.get(shape, 0) >= count for shape, count in other[0]) and all(
        theirs in (None, own) for own, theirs in zip(kind[1:], other[1:], strict=True)
    )


@dataclass(frozen=True)
class Part(Generic[Column]):
    """One kind of a conflict in a model.

    Parameters
    ----------
    columns
        The columns whose jobs count: of this kind, or of harder ones.
    number
        N_k: so many are a part of the conflict.
    most
        U_k: how many jobs there are that could.
    """

    columns: tuple[Column, ...]
    number: int
    most: int


@dataclass(frozen=True)
class Conflict:
    """Gangs that the empty hosts do not hold together, but do without any one of them.

    Parameters
    ----------
    gangs
        The kinds, and the number of gangs of each.
    """

    gangs: frozenset[tuple[Kind, int]]

    @cached_property
    def _parts(self) -> dict[Kind, int | None]:
        """What `part_of` has answered."""
        return {}

    @cached_property
    def _in_order(self) -> list[tuple[Kind, int]]:
        """The kinds in an order that does not depend on hash values."""
        return sorted(self.gangs, key=lambda gang: (sorted(map(repr, gang[0][0])), repr(gang)))

    def part_of(self, kind: Kind) -> int | None:
        """Return which part a kind counts for: its own, or the first that it is as hard as.

        Every gang counts for one part alone. So as many as a conflict has in all parts stand on no
        hosts: taking tasks and ties away from them leaves the conflict.
        """
        if kind not in self._parts:
            own = (p for p, (each, _) in enumerate(self._in_order) if each == kind)
            harder = (p for p, (each, _) in enumerate(self._in_order) if is_as_hard(kind, each))
            self._parts[kind] = next(chain(own, harder), None)
        return self._parts[kind]

    def parts(self, columns: Iterable[tuple[Column, Kind, Hashable, int]]) -> list[Part[Column]]:
        """Return the parts of the conflict in a model; none where its jobs are too few for it.

        Parameters
        ----------
        columns
            Each column with its kind, its class of jobs, and the number of jobs in that class.
        """
        members: list[list[Column]] = [[] for _ in self.gangs]
        jobs: list[dict[Hashable, int]] = [{} for _ in self.gangs]
        for column, kind, owner, count in columns:
            part = self.part_of(kind)
            if part is not None:
                members[part].append(column)
                jobs[part][owner] = count
        found = [
            Part(tuple(own), number, sum(counts.values()))
            for own, counts, (_, number) in zip(members, jobs, self._in_order, strict=True)
        ]
        return found if all(part.most >= part.number for part in found) else []


def with_new(known: Sequence[Conflict], found: Iterable[Conflict]) -> tuple[Conflict, ...]:
    """Return known conflicts and new ones.

    Parameters
    ----------
    known
        Conflicts that the model has rows for.
    found
        Conflicts in an answer of this model.

    Raises
    ------
    SolverError
        If none is new: then an answer breaks a row of the model it answers.
    """
    new = [conflict for conflict in found if conflict not in known]
    if not new:
        raise SolverError(
            "the solver's answer runs gangs together that a row of the model forbids; solve it "
            "with another backend."
        )
    return (*known, *new)


_GREEDY = 4
"""Hosts that the greedy rule looks at, in numpy, in the time of one step of a search."""


class Hosts:
    """What the empty hosts hold together; answers are kept.

    Parameters
    ----------
    topology
        The cluster.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._steps = Steps(MAX_STEPS)  # for all searches: a limit of time must be kept
        self._known: dict[frozenset[tuple[Kind, int]], bool | None] = {}

    def holds(self, gangs: Sequence[Configuration]) -> bool | None:
        """Return whether gangs stand together; None if the search was too large to tell."""
        key = frozenset(Counter(map(kind_of, gangs)).items())
        if key not in self._known:
            self._known[key] = self._search(gangs)
        return self._known[key]

    def _search(self, gangs: Sequence[Configuration]) -> bool | None:
        try:
            self._steps.take(len(gangs) * self.topology.num_hosts // _GREEDY)
            if None not in place_jointly(self.topology, [(gang, None) for gang in gangs]):
                return True
            return place_together(self.topology, gangs, self._steps) is not None
        except Undecided:
            return None

    def conflict(self, gangs: Sequence[Configuration]) -> Conflict | None:
        """Return a smallest part of some gangs that does not stand; None if none is known.

        A deletion filter: gangs are taken out one after the other, and put back where the others
        stand without them. Where the steps end first it is a conflict all the same, but not a
        smallest one.
        """
        if self.holds(gangs) is not False:
            return None
        kept = sorted(gangs, key=lambda gang: gang.demand)
        for gang in list(kept):
            without = list(kept)
            without.remove(gang)
            if self.holds(without) is False:
                kept = without
        return Conflict(frozenset(Counter(map(kind_of, kept)).items()))


@dataclass(frozen=True)
class Row(Generic[Column]):
    """A row of a model: the sum of `columns`, each once, and of `switches` is at most `limit`.

    Parameters
    ----------
    columns
        Columns of the model.
    switches
        Binaries y of the conflicts by number, each with its coefficient.
    limit
        The limit.
    """

    columns: tuple[Column, ...]
    switches: tuple[tuple[int, int], ...]
    limit: int


def conflict_rows(conflicts: Iterable[Sequence[Part[Column]]]) -> tuple[list[Row[Column]], int]:
    """Return the rows that forbid conflicts, and how many binaries y they need.

    Parameters
    ----------
    conflicts
        The parts of each conflict, see `Conflict.parts`; one without parts needs no rows.
    """
    rows: list[Row[Column]] = []
    count = 0
    for parts in conflicts:
        if len(parts) == 1:
            rows.append(Row(parts[0].columns, (), parts[0].number - 1))
            continue
        for y, part in enumerate(parts, count):
            switch = (y, -(part.most - part.number + 1))
            rows.append(Row(part.columns, (switch,), part.number - 1))
        if parts:
            ys = range(count, count + len(parts))
            rows.append(Row((), tuple((y, 1) for y in ys), len(parts) - 1))
            count += len(parts)
    return rows, count


def conflict_matrix(rows: Sequence[Row[int]], num_columns: int, switches: int) -> sparse.csr_array:
    """Return rows as a matrix: the columns of the model by position, then the binaries y.

    Parameters
    ----------
    rows
        The rows of the conflicts.
    num_columns
        Columns of the model without the binaries y.
    switches
        Number of binaries y.
    """
    from scipy import sparse  # slow to load, and hosts seldom conflict

    row = [r for r, each in enumerate(rows) for _ in (*each.columns, *each.switches)]
    column = [
        c for each in rows for c in (*each.columns, *(num_columns + y for y, _ in each.switches))
    ]
    value = [
        float(v) for each in rows for v in ([1] * len(each.columns) + [f for _, f in each.switches])
    ]
    return sparse.csr_array((value, (row, column)), shape=(len(rows), num_columns + switches))
