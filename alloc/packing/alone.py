"""Whether a gang can stand on the empty cluster at all: an exact test, and where it then stands.

Totals and single tasks do not decide it: a worker and a parameter server may each fit some host and
both fit the sums, yet need the same host. The search goes host by host and keeps, after each, the
sets of tasks left over that no other set is smaller than. The GPUs of a host that tasks share are
filled in the same way.

Parameters
----------
topology
    The cluster, all of it free.
configuration
    Task groups of the gang, with what each task asks for.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from alloc.clock import time_is_up
from alloc.packing.pool import HostPool
from alloc.problems.allocation.solution import TaskPlacement
from alloc.topology import HostType, Topology
from alloc.topology.gpu_fit import gpu_memory_mib, type_admits
from alloc.units import MILLI, RESOURCES
from alloc.workload import Configuration, TaskGroup

Counts = tuple[int, ...]
"""Number of tasks of each group."""

_UNKNOWN = object()
"""Stands for a verdict that is not there: None is one."""

_MAX_STEPS = 500_000
"""Steps of an exact search for one gang, about a second; usual gangs take some thousands."""


def stands_alone(topology: Topology, configuration: Configuration) -> bool:
    """Return whether a gang can run on the empty cluster.

    Exact but for MIG slices beside other tasks, and for gangs of which an exact search takes more
    than `_MAX_STEPS`: there True may mean that a greedy rule found no room. The answer is kept with
    the topology, since schedulers ask about the same gangs all along.
    """
    return _verdict(topology, configuration) is not False


def which_stand_alone(
    topology: Topology, configurations: Sequence[Configuration]
) -> npt.NDArray[np.bool_]:
    """Return what `stands_alone` says of each of many configurations.

    The largest gangs are asked for first, and whatever is no larger than one that stands is not
    searched for: a table of workers and parameter servers, as a rule, takes a search or two.

    Parameters
    ----------
    topology
        The cluster, empty.
    configurations
        The gangs.
    """
    known = topology.known_gangs
    verdicts: list[object] = [known.get(one.gang, _UNKNOWN) for one in configurations]
    unknown = [c for c, verdict in enumerate(verdicts) if verdict is _UNKNOWN]
    for c in sorted(unknown, key=lambda c: sum(_counts(configurations[c])), reverse=True):
        gang = configurations[c]
        verdicts[c] = is_known_to_stand(topology, gang) or _verdict(topology, gang)
        if verdicts[c] and len(gang.demand) == len(topology.resource_names):
            known[gang.gang] = True  # asked again, it is found at once
    return np.array([verdict is not False for verdict in verdicts], dtype=bool)


def surely_stands_alone(topology: Topology, configuration: Configuration) -> bool:
    """Return whether a way to run a gang on the empty cluster is known.

    False where `stands_alone` is True for want of a proof that there is none.
    """
    return _verdict(topology, configuration) is True


def is_known_to_stand(topology: Topology, configuration: Configuration) -> bool:
    """Return whether an earlier question found a way to run a gang; takes no search."""
    # Hosts that hold a gang hold one with fewer tasks of the same kinds.
    larger = topology.standing_gangs.get(_kinds(configuration))
    if larger is None:
        return False
    counts = _counts(configuration)
    return any(all(map(operator.le, counts, other)) for other in larger)


def _verdict(topology: Topology, configuration: Configuration) -> bool | None:
    """Return whether a gang can run on the empty cluster, or None if that is not decided."""
    if configuration.within not in (None, *topology.domain_of_host):
        return False
    topology, configuration = on_one_axis(topology, configuration)
    key, known = configuration.gang, topology.known_gangs
    if key not in known and is_known_to_stand(topology, configuration):
        known[key] = True
    if key not in known:
        cut = any(group.mig_profile is not None for group in configuration.tasks)
        try:
            stands = (
                _fits_one_host(topology, configuration)
                or place_alone(topology, configuration, Steps(_MAX_STEPS)) is not None
            )
            known[key] = None if cut and not stands else stands
        except Undecided:
            known[key] = None
        if known[key]:
            standing = topology.standing_gangs.setdefault(_kinds(configuration), [])
            standing.append(_counts(configuration))
    return known[key]


def _counts(configuration: Configuration) -> Counts:
    return tuple(group.count for group in configuration.tasks)


def _kinds(configuration: Configuration) -> Hashable:
    """Return all of a gang but the numbers of its tasks."""
    return (
        configuration.gpu_type,
        configuration.within,
        # Demands are on an axis of resources; without the names they are not comparable.
        *[
            (g.demand, g.gpu_memory_mib, g.mig_profile, g.resources_on_axis)
            for g in configuration.tasks
        ],
    )


def on_one_axis(topology: Topology, configuration: Configuration) -> tuple[Topology, Configuration]:
    """Return a topology and a configuration with the same axis of resources (`alloc.resources`).

    Those of one `Instance` have it already, and come back as they are.
    """
    if len(configuration.demand) == len(topology.resource_names) == len(RESOURCES):
        return topology, configuration
    topology = topology.with_resources(configuration.tasks[0].resources_on_axis)
    return topology, configuration.with_resources(topology.resource_names[len(RESOURCES) :])


def place_alone(
    topology: Topology, configuration: Configuration, steps: Steps | None = None
) -> tuple[TaskPlacement, ...] | None:
    """Place a gang on the empty cluster; None if it fits there in no way.

    A gang with MIG slices is placed by the greedy rule of `HostPool` alone.

    Parameters
    ----------
    topology, configuration
        The cluster and the gang.
    steps
        The steps that the search may take, or None for all that it needs.

    Raises
    ------
    InstanceError
        If its level is not in the topology.
    Undecided
        If the steps do not suffice.
    """
    topology, configuration = on_one_axis(topology, configuration)
    pool = HostPool(topology)
    if not pool.cluster_has(configuration):
        return None
    placed = pool.place(configuration)
    if placed is not None or any(group.mig_profile for group in configuration.tasks):
        return placed
    kinds = [topology.host_type(host) for host in topology.hosts]
    by_name = {kind.name: kind for kind in kinds}
    row = {kind.name: topology.capacity[h].tolist() for h, kind in enumerate(kinds)}
    contents = {
        n: HostContents(kind, row[n], configuration.tasks, steps=steps)
        for n, kind in by_name.items()
    }
    for hosts in _domains(topology, configuration):
        left = tuple(group.count for group in configuration.tasks)
        chosen = cover(left, [contents[kinds[h].name].largest for h in hosts], steps)
        if chosen is not None:
            return tuple(
                task
                for h, counts in zip(hosts, chosen, strict=False)
                for task in contents[kinds[h].name].tasks(topology.hosts[h].id, counts)
            )
    return None


def _fits_one_host(topology: Topology, configuration: Configuration) -> bool:
    """Return whether some host takes a gang of whole GPUs: quick, and the usual case."""
    if any(g.mig_profile or g.shares_gpu or g.gpu_memory_mib for g in configuration.tasks):
        return False
    enough = (topology.capacity >= configuration.demand).all(axis=1)
    if configuration.gpu_type is not None:
        enough &= np.array([t == configuration.gpu_type for t in topology.gpu_types])
    if configuration.within is not None:
        enough &= topology.domain_of_host[configuration.within] >= 0
    return bool(enough.any())


def _domains(topology: Topology, configuration: Configuration) -> Iterator[list[int]]:
    """Yield the positions of the hosts of each domain that may hold the whole gang."""
    of_type = [
        h
        for h, gpu_type in enumerate(topology.gpu_types)
        if configuration.gpu_type in (None, gpu_type)
    ]
    if configuration.within is None:
        yield of_type
        return
    domain = topology.domain_of_host[configuration.within]
    for k in sorted({int(domain[h]) for h in of_type if domain[h] >= 0}):
        yield [h for h in of_type if domain[h] == k]


_STEPS_A_LOOK = 1000
"""Steps from one look at the clock to the next: a few milliseconds."""


class Undecided(Exception):
    """A search of a packing that has used up its steps: nothing is known."""


class Steps:
    """The steps that a search may take, and the time: `alloc.clock.time_limit`.

    Parameters
    ----------
    left
        How many, 0 or more. A search with all it wants is one that must be decided, however long
        it takes: it has no clock either.
    """

    def __init__(self, left: float = math.inf) -> None:
        self.left = self._next_look = left

    def take(self, number: int = 1) -> None:
        """Count some steps.

        Raises
        ------
        Undecided
            If there are no more, or the time is up.
        """
        self.left -= number
        if self.left < self._next_look:
            self._next_look = self.left - _STEPS_A_LOOK
            if self.left < 0 or time_is_up():
                raise Undecided
        elif self.left < 0:
            raise Undecided


class HostContents:
    """What the hosts of one type can hold of some task groups.

    Parameters
    ----------
    kind
        The type of the hosts.
    capacity
        What one of them can give, shape (resources,): a row of `Topology.capacity`.
    groups
        The task groups, with all their tasks.
    allowed
        Which groups may stand there at all; None for all of them.
    steps
        The steps that the search may take.
    """

    def __init__(
        self,
        kind: HostType,
        capacity: Sequence[int],
        groups: Sequence[TaskGroup],
        allowed: Sequence[bool] | None = None,
        steps: Steps | None = None,
    ) -> None:
        self.kind = kind
        self.groups = groups
        self._steps = steps or Steps()
        self._sharing = [i for i, group in enumerate(groups) if group.shares_gpu]
        self._on_gpus: dict[Counts, list[Counts] | None] = {}
        memory = gpu_memory_mib(kind.gpu_type) or 0
        shares = [(groups[i].gpu_milli, groups[i].gpu_memory_mib) for i in self._sharing]
        self._of_gpu = _largest(
            (MILLI, memory), shares, tuple(groups[i].count for i in self._sharing), self._steps
        )
        usable = [type_admits(kind.gpu_type, group) for group in groups]
        if allowed is not None:
            usable = [able and may for able, may in zip(usable, allowed, strict=True)]
        self.largest = _largest(
            capacity,
            [group.demand for group in groups],
            tuple(group.count * able for group, able in zip(groups, usable, strict=True)),
            self._steps,
            lambda counts: self._shares_fit(counts),
        )

    def _shares_fit(self, counts: Counts) -> bool:
        """Return whether the tasks that share GPUs fit on those that whole ones leave."""
        if not self._sharing:
            return True
        whole = sum(
            n * group.gpu_milli
            for n, group in zip(counts, self.groups, strict=True)
            if not group.shares_gpu
        )
        held = self._gpus(counts)
        return held is not None and len(held) + whole // MILLI <= self.kind.num_gpus

    def _gpus(self, counts: Counts) -> list[Counts] | None:
        """Return what the fewest GPUs that hold the sharing tasks hold each."""
        shares = tuple(counts[i] for i in self._sharing)
        if shares not in self._on_gpus:
            self._on_gpus[shares] = cover(shares, [self._of_gpu] * sum(shares), self._steps)
        return self._on_gpus[shares]

    def tasks(self, host: str, counts: Counts) -> Iterator[TaskPlacement]:
        """Yield the placements of so many tasks of each group on a host of this type.

        Parameters
        ----------
        host
            Id of the host.
        counts
            Tasks of each of the groups, 0 or more, in the order of the groups.
        """
        positions = self.positions(counts)
        for i, (count, group) in enumerate(zip(counts, self.groups, strict=True)):
            if count:
                yield TaskPlacement(host, group.role, count, positions.get(i, ()))

    def positions(self, counts: Counts) -> dict[int, tuple[int, ...]]:
        """Return, for each group whose tasks share GPUs, the GPU of each task on a host."""
        held = (self._gpus(counts) or []) if self._sharing else []
        return {
            i: tuple(g for g, content in enumerate(held) for _ in range(content[k]))
            for k, i in enumerate(self._sharing)
        }


def _largest(
    capacity: Sequence[int],
    demands: Sequence[Sequence[int]],
    most: Counts,
    steps: Steps,
    admits: Callable[[Counts], bool] = lambda counts: True,
) -> list[Counts]:
    """Return the counts of tasks that fit a capacity and to which no task can be added."""
    found: list[Counts] = []

    def extend(chosen: Counts, left: tuple[int, ...]) -> None:
        steps.take()
        i = len(chosen)
        if i == len(demands):
            found.append(chosen)
            return
        here = [room // need for room, need in zip(left, demands[i], strict=True) if need]
        rest = (0,) * (len(demands) - i - 1)
        for n in range(min([most[i], *here]), -1, -1):
            if not admits((*chosen, n, *rest)):
                continue
            extend(
                (*chosen, n),
                tuple(room - n * need for room, need in zip(left, demands[i], strict=True)),
            )
            if not rest:
                break  # of the last group, fewer are no better

    extend((), tuple(capacity))
    return [tuple(-n for n in c) for c in _smallest((tuple(-n for n in c) for c in found), steps)]


def cover(
    left: Counts, places: Sequence[Sequence[Counts]], steps: Steps | None = None
) -> list[Counts] | None:
    """Return what each of the first places holds so that all tasks stand, or None.

    Parameters
    ----------
    left
        Tasks to be placed.
    places
        For each place, the largest counts of tasks that it can hold.
    steps
        The steps that the search may take.
    """
    steps = steps or Steps()
    before: list[dict[Counts, tuple[Counts, Counts]]] = []
    reached: Iterable[Counts] = [left]
    if not any(left):
        return []
    for contents in places:
        step: dict[Counts, tuple[Counts, Counts]] = {}
        for rest in reached:
            steps.take(len(contents))
            for held in contents:
                after = tuple(max(n - m, 0) for n, m in zip(rest, held, strict=True))
                step.setdefault(after, (rest, held))
        before.append(step)
        reached = _smallest(step, steps)
        if not any(next(iter(reached), (1,))):
            return _trace(before)
    return None


def _trace(before: Sequence[dict[Counts, tuple[Counts, Counts]]]) -> list[Counts]:
    """Return what each place holds on the way to no tasks left."""
    chosen: list[Counts] = []
    rest = tuple(0 for _ in next(iter(before[-1])))
    for step in reversed(before):
        previous, _ = step[rest]
        # What is placed, not what there is room for: never more tasks than there are.
        chosen.append(tuple(a - b for a, b in zip(previous, rest, strict=True)))
        rest = previous
    return chosen[::-1]


def _smallest(vectors: Iterable[Counts], steps: Steps) -> list[Counts]:
    """Return the vectors that no other is as small as in all parts, in rising order."""
    kept: list[Counts] = []
    for vector in sorted(set(vectors)):
        steps.take(len(kept))
        # Whatever is smaller comes earlier in this order.
        if not any(all(a <= b for a, b in zip(other, vector, strict=True)) for other in kept):
            kept.append(vector)
    return kept
