"""Cluster-wide capacity rows: what all jobs together may use, whatever the placement.

Summing host capacities relaxes placement: every placeable set of configurations satisfies the rows.
Where tasks pack without loss (DL2's servers, one-GPU workers) the relaxation is exact; elsewhere
`alloc.models.host_conflicts` makes it so.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from alloc.models.host_conflicts import kind_of
from alloc.packing import which_stand_alone
from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology
from alloc.workload import Configuration

Array = npt.NDArray[np.float64]
_PAIRS = 2**15
"""Pairs of configurations, over all tables, up to which each is compared with each at once. That
takes a third to two thirds of the time of looking for one undominated after the other; from four
times as many on it takes longer."""


@dataclass(frozen=True)
class CapacityRows:
    """The capacity rows of a cluster.

    Parameters
    ----------
    names
        Name of each row, length R.
    capacity
        Capacity B_r of each row, shape (R,).
    resource
        For each row, the position of its resource in `Topology.resource_names`.
    gpu_type
        For each row, the GPU type it is restricted to, or None.
    tenant
        For each row, the tenant it is restricted to, or None.
    """

    names: tuple[str, ...]
    capacity: Array
    resource: tuple[int, ...]
    gpu_type: tuple[str | None, ...]
    tenant: tuple[str | None, ...]

    def use(self, configurations: Sequence[Configuration], tenant: str | None) -> Array:
        """Return what each configuration takes of each row, shape (configurations, R).

        Parameters
        ----------
        configurations
            A table of configurations.
        tenant
            Whose quota their use counts against; None for a job without a tenant.
        """
        if not configurations:
            return np.zeros((0, len(self.names)))
        use = np.array([c.demand for c in configurations], dtype=float)[:, list(self.resource)]
        for k, (gpu_type, owner) in enumerate(zip(self.gpu_type, self.tenant, strict=True)):
            if owner is not None and owner != tenant:
                use[:, k] = 0.0
            if gpu_type is not None:
                use[[c.gpu_type != gpu_type for c in configurations], k] = 0.0
        return use


def capacity_rows(
    topology: Topology,
    configuration_sets: Sequence[Sequence[Configuration]],
    quotas: Mapping[str, int],
) -> CapacityRows:
    """Return the rows that the configurations can touch.

    One row per resource in demand; one more per resource and GPU type where configurations insist
    on a type; one per tenant quota.

    Parameters
    ----------
    topology
        The cluster.
    configuration_sets
        The tables of all jobs; the same table may come again and again.
    quotas
        GPU quota of each tenant that has one, milli-GPU.
    """
    seen = {id(cs): cs for cs in configuration_sets}.values()
    used = np.zeros(len(topology.resource_names), dtype=bool)
    demands = {c.demand for configurations in seen for c in configurations}
    if demands:
        used |= (np.array([*demands]) > 0).any(axis=0)
    named = {c.gpu_type for configurations in seen for c in configurations}
    types = {gpu_type for gpu_type in named if gpu_type is not None}
    if not used.any():
        used[0] = True  # jobs that ask for nothing: one row that never binds
    rows: list[tuple[str, float, int, str | None, str | None]] = []
    totals = topology.totals
    for r in np.flatnonzero(used):
        rows.append((topology.resource_names[r], float(totals[r]), int(r), None, None))
    on_type = np.array([t or "" for t in topology.gpu_types] if types else ())
    for gpu_type in sorted(types):
        of_type = topology.sum_over(on_type == gpu_type)
        if (of_type == totals).all():
            continue
        for r in np.flatnonzero(used):
            if r in topology.cluster_columns:
                continue  # the same wherever a task stands
            name = f"{topology.resource_names[r]} on {gpu_type}"
            rows.append((name, float(of_type[r]), int(r), gpu_type, None))
    for tenant in sorted(quotas):
        rows.append((f"quota of {tenant}", float(quotas[tenant]), 0, None, tenant))
    names, capacity, resource, gpu_type_of, tenant_of = zip(*rows, strict=True)
    return CapacityRows(names, np.array(capacity), resource, gpu_type_of, tenant_of)


def fitting_configurations(
    topology: Topology, rows: CapacityRows, configurations: Sequence[Configuration], use: Array
) -> npt.NDArray[np.int64]:
    """Return the positions of the configurations that can run at all.

    They fit all rows, and their tasks stand together on the empty hosts, or nobody has proved that
    they do not (`alloc.packing.stands_alone`). Others must never reach a model, which sees rows
    alone: it would choose what no placement can carry out.

    Parameters
    ----------
    topology
        The cluster.
    rows
        Its capacity rows.
    configurations
        The configurations of a job.
    use
        Their use of the rows, shape (configurations, R).
    """
    within_rows = np.flatnonzero((use <= rows.capacity).all(axis=1))
    able = which_stand_alone(topology, [configurations[c] for c in within_rows.tolist()])
    return np.asarray(within_rows[able], dtype=np.int64)


class _Shape:
    """All of some configurations but their rates, as a key.

    Keys are equal only if they begin with the very same task groups: the hash is that of these
    objects, where one of everything would take as long as what the key is to spare.
    """

    __slots__ = ("_parts",)

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        # Field by field: a tuple for each configuration would keep the garbage collector busy.
        self._parts = [
            tuple(map(attrgetter(field), configurations))
            for field in ("tasks", "gpu_type", "within")
        ]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._parts[0][0] if self._parts[0] else ())))

    def __eq__(self, other: object) -> bool:
        # Tuples that hold the very same objects are compared without looking into these.
        return (
            isinstance(other, _Shape) and hash(self) == hash(other) and self._parts == other._parts
        )


def shape_of(configurations: Sequence[Configuration]) -> Hashable:
    """Return a key that sets share only if they differ in nothing but their rates.

    Then use, burden and order are the same too, and are worked out once. Sets that begin with equal
    groups kept twice have keys of their own, which only costs time.
    """
    return _Shape(configurations)


def burden(configurations: Sequence[Configuration], use: Array) -> Array:
    """Return all that makes a configuration dear or hard to place, shape (configurations, B).

    Its use of the rows, the demand of its largest task, the level and the GPU type it is tied to. A
    configuration that is no worse in all of them can take another's place in the capacity rows, and
    nearly always on the hosts (not where its tasks just miss a host that two of the other fill; see
    `burden_on_hosts`).

    Parameters
    ----------
    configurations
        A table of configurations.
    use
        What each takes of each capacity row, shape (configurations, R).
    """
    if not configurations:
        return use
    # The first group is named twice: with a single argument, map(max, ...) would not compare.
    largest = [
        tuple(map(max, c.tasks[0].demand, *[g.demand for g in c.tasks])) for c in configurations
    ]
    return np.hstack([use, np.array(largest, dtype=float), *_ties(configurations)])


def burden_on_hosts(configurations: Sequence[Configuration], use: Array) -> Array:
    """Return what makes a configuration hard to place, so that less of all is never harder.

    Its tasks of each shape, and the level and the GPU type it is tied to: a configuration with no
    more of any of them stands wherever the other does.

    Parameters
    ----------
    configurations
        A table of configurations.
    use
        What each takes of each capacity row, shape (configurations, R).
    """
    if not configurations:
        return use
    tasks = [
        {shape: count for shape, count in kind_of(configuration)[0]}
        for configuration in configurations
    ]
    shapes = list(dict.fromkeys(shape for own in tasks for shape in own))
    counts = np.array([[own.get(shape, 0) for shape in shapes] for own in tasks], dtype=float)
    return np.hstack([use, counts, *_ties(configurations)])


def _ties(configurations: Sequence[Configuration]) -> list[Array]:
    """Return for each level and each GPU type which configurations are tied to it."""
    levels = sorted({c.within for c in configurations if c.within is not None})
    types = sorted({c.gpu_type for c in configurations if c.gpu_type is not None})
    tied = [np.array([[float(c.within == level)] for c in configurations]) for level in levels]
    typed = [np.array([[float(c.gpu_type == t)] for c in configurations]) for t in types]
    return [*tied, *typed]


def quotas_of(instance: Instance) -> dict[str, int]:
    """Return the GPU quota of each tenant, milli-GPU."""
    return {tenant.name: tenant.gpu_quota_milli for tenant in instance.tenants}


@dataclass(frozen=True)
class UseOrder:
    """Which configurations use no more than which.

    Parameters
    ----------
    position
        The configurations so ordered that one which uses less of some row, and no more of any,
        comes before the other; of equals the first comes first.
    no_more
        Pairwise ``[d, c]``, both in this order: d uses no more of every row than c.
    """

    position: npt.NDArray[np.int64]
    no_more: npt.NDArray[np.bool_]


def use_order(use: Array) -> UseOrder:
    """Compare the burdens (or uses) of configurations, shape (configurations, B), pairwise."""
    no_more = np.ones((len(use), len(use)), dtype=bool)
    for r in range(use.shape[1]):
        no_more &= use[:, r, None] <= use[None, :, r]
    # What uses less has fewer that use no more than it, and equals have as many.
    position = np.argsort(no_more.sum(axis=0), kind="stable")
    return UseOrder(position, no_more[np.ix_(position, position)])


def pareto_front(order: UseOrder, rate: Array) -> npt.NDArray[np.int64]:
    """Return the configurations that no other dominates and whose rate is above 0, in order.

    `rate` has shape (configurations,); see `pareto_fronts`.

    Parameters
    ----------
    order
        Which configuration burdens the cluster no more than which.
    rate
        Work per second of each, 0 or more, shape (configurations,); see `pareto_fronts`.
    """
    return np.flatnonzero(pareto_fronts(order, rate[None])[0])


def pareto_fronts(order: UseOrder, rates: Array) -> npt.NDArray[np.bool_]:
    """Return which configurations no other dominates, for some tables that differ in their rates.

    Configuration c is dominated by d if d uses no more of every row and is faster, or uses less of
    some row and is as fast (of equals the first stands for all). Dropping c loses nothing wherever
    the value of a configuration does not fall with its rate: any solution stays feasible, and as
    good, with d in the place of c.

    Parameters
    ----------
    order
        How the uses compare; all tables share it.
    rates
        Rates of each table, 0 or more, shape (tables, configurations).

    Returns
    -------
    ndarray
        Whether each is undominated and its rate above 0, shape (tables, configurations).
    """
    fronts = np.zeros(rates.shape, dtype=bool)
    left, tables = rates[:, order.position], np.arange(len(rates))
    if left.size * left.shape[1] <= _PAIRS:
        one, other = left[:, :, None], left[:, None, :]
        size = np.arange(left.shape[1])
        # Of those as fast, what comes first in this order uses less, or is the first of equals.
        better = (one > other) | ((one == other) & (size[:, None] < size))
        fronts[:, order.position] = (left > 0) & ~(better & order.no_more).any(axis=1)
        return fronts
    while (left > 0).any():
        # The fastest left, the first of equals in this order, is dominated by none; what uses no
        # less is no faster, and goes.
        best = left.argmax(axis=1)
        runs = left[tables, best] > 0
        fronts[tables[runs], order.position[best[runs]]] = True
        np.copyto(left, 0.0, where=order.no_more[best])
    return fronts
