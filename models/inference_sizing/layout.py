"""The variables of inference sizing in one order for both models, and the way back to a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.models.inference_sizing.data import Choice, SizingData, nests, patterns_of
from alloc.problems.inference_sizing.plan import HostContents, InferencePlan, ReplicaGroup

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Where each variable stands: z, x, y of the pools that need patterns, then h.

    Parameters
    ----------
    data
        The data.
    """

    data: SizingData

    @cached_property
    def z(self) -> list[tuple[int, int]]:
        """Choice and column of each z."""
        return [(c, j) for c, k in enumerate(self.data.choices) for j in range(len(k.columns))]

    @cached_property
    def x(self) -> list[tuple[int, int, int]]:
        """Period class, pool and size of each x; sizes that no period needs have none."""
        needed = {
            (c.period, option.gpu_type, option.gpus)
            for c in self.data.choices
            for option in [self.data.problem.models[c.model].options[c.option]]
        }
        return [
            (t, p, s)
            for t in range(len(self.data.periods))
            for p, pool in enumerate(self.data.problem.pools)
            for s in self.data.sizes[p]
            if (t, pool.gpu_type, s) in needed
        ]

    @cached_property
    def patterned(self) -> frozenset[int]:
        """Pools whose sizes do not divide one another and the host."""
        return frozenset(
            p
            for p, pool in enumerate(self.data.problem.pools)
            if not nests(self.data.sizes[p], pool.gpus_per_host)
        )

    @cached_property
    def patterns(self) -> list[list[tuple[int, ...]]]:
        """Fullest contents of a host of each pool, counts in the order of its sizes."""
        return [
            patterns_of(self.data.sizes[p], pool.gpus_per_host)
            for p, pool in enumerate(self.data.problem.pools)
        ]

    @cached_property
    def y(self) -> list[tuple[int, int, int]]:
        """Period class, pool and pattern of each y."""
        used = sorted({(t, p) for t, p, _ in self.x if p in self.patterned})
        return [(t, p, q) for t, p in used for q in range(len(self.patterns[p]))]

    @cached_property
    def held(self) -> list[int]:
        """Pools paid by holding."""
        pools = self.data.problem.pools
        return [p for p, pool in enumerate(pools) if pool.billing == "held"]

    @property
    def num_columns(self) -> int:
        """Number of variables."""
        return len(self.z) + len(self.x) + len(self.y) + len(self.held)

    def plan(self, values: Array) -> InferencePlan:
        """Turn values of the variables into a plan, period classes spread over their periods."""
        whole = np.rint(values).astype(np.int64).tolist()
        ends = np.cumsum([len(self.z), len(self.x), len(self.y)]).tolist()
        z, x, y = whole[: ends[0]], whole[ends[0] : ends[1]], whole[ends[1] : ends[2]]
        groups = list(self._groups(z))
        contents = list(self._contents(x, y))
        periods = self.data.problem.periods
        held = []
        for p in self.held:
            pool = self.data.problem.pools[p]
            # What the fullest period needs; a solver may hold more at the same price of nothing.
            most = max(
                (
                    sum(c.hosts for c in contents if (c.period, c.pool) == (t.name, pool.name))
                    for t in periods
                ),
                default=0,
            )
            if most:
                held.append((pool.name, most))
        return InferencePlan(tuple(groups), tuple(contents), tuple(held))

    def _groups(self, z: list[int]) -> Iterator[ReplicaGroup]:
        taken: dict[tuple[int, int], list[tuple[Choice, int]]] = {}
        for k, value in enumerate(z):
            if value:
                c, j = self.z[k]
                choice = self.data.choices[c]
                taken.setdefault((choice.model, choice.period), []).append((choice, j))
        for (m, t), chosen in taken.items():
            yield from replica_groups(self.data, m, t, chosen)

    def _contents(self, x: list[int], y: list[int]) -> Iterator[HostContents]:
        problem = self.data.problem
        standing: dict[tuple[int, int], dict[int, int]] = {}
        for (t, p, s), number in zip(self.x, x, strict=True):
            if number:
                standing.setdefault((t, p), {})[s] = number
        hosts: dict[tuple[int, int], list[int]] = {}
        for (t, p, q), number in zip(self.y, y, strict=True):
            hosts.setdefault((t, p), []).extend([q] * number)
        for (t, p), counts in standing.items():
            room = problem.pools[p].gpus_per_host
            if p in self.patterned:
                packed = self._trim(p, hosts.get((t, p), []), counts)
            else:
                packed = largest_first(counts, room)
            for contents, number in sorted(Counter(packed).items(), reverse=True):
                for member in self.data.periods[t].members:
                    yield HostContents(
                        problem.periods[member].name, problem.pools[p].name, number, contents
                    )

    def _trim(self, pool: int, used: list[int], counts: dict[int, int]) -> list[tuple[int, ...]]:
        """Fill hosts of given patterns until all replicas stand."""
        left = dict(counts)
        packed = []
        for q in used:
            contents: list[int] = []
            for s, most in zip(self.data.sizes[pool], self.patterns[pool][q], strict=True):
                number = min(most, left.get(s, 0))
                left[s] = left.get(s, 0) - number
                contents += [s] * number
            if contents:
                packed.append(tuple(sorted(contents, reverse=True)))
        return packed


def replica_groups(
    data: SizingData, m: int, t: int, chosen: Sequence[tuple[Choice, int]]
) -> Iterator[ReplicaGroup]:
    """Yield the groups of the columns chosen for a model, in every period of a class.

    Requests are routed so that all groups are loaded alike, relative to what they sustain.

    Parameters
    ----------
    data
        The numbered problem.
    m
        Position of the model.
    t
        Position of the period class.
    chosen
        Each choice of an option with the position of its column.
    """
    model = data.problem.models[m]
    total = sum(choice.columns[j].rates[0] for choice, j in chosen)
    for choice, j in chosen:
        column = choice.columns[j]
        for member in data.periods[t].members:
            yield ReplicaGroup(
                data.problem.periods[member].name,
                model.name,
                *model.options[choice.option].key,
                column.replicas,
                column.batch_cap,
                column.rates[0] / total * model.rate_per_s(member),
            )


def largest_first(counts: dict[int, int], room: int) -> list[tuple[int, ...]]:
    """Pack replicas of sizes that divide one another onto hosts, largest first.

    Parameters
    ----------
    counts
        Replicas by the GPUs of one; these sizes divide one another and the room.
    room
        GPUs of a host.
    """
    hosts: list[list[int]] = []
    free = 0
    for size in sorted(counts, reverse=True):
        for _ in range(counts[size]):
            # Sizes divide: what is free on the last host is a multiple of the next size.
            if free < size:
                hosts.append([])
                free = room
            hosts[-1].append(size)
            free -= size
    return [tuple(contents) for contents in hosts]
