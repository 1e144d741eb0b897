"""F5 as sparse arrays (matrix form)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import ArrayModel, BuiltModel
from alloc.model_builder import Index, ModelBuilder
from alloc.models.sharing.data import Array, SharingData, Whole, sharing_data
from alloc.models.sharing.patterns import Pattern
from alloc.models.sharing.unrolling import allocation_of
from alloc.objectives import Sense
from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI

PLACES_ALL = ("gpus_used", "reconfigurations")
"""The objectives that want every job to run."""


@dataclass(frozen=True)
class Column:
    """A pattern on a group of GPUs."""

    group: int
    pattern: Pattern


def listed_columns(data: SharingData) -> list[Column]:
    """Return the columns of the patterns that are listed."""
    return [Column(g, q) for g, patterns in enumerate(data.patterns) for q in patterns]


def sense_of(objective: str) -> Sense:
    """Return whether less or more of an objective is better."""
    return "min" if objective in PLACES_ALL else "max"


def costs(data: SharingData, columns: Sequence[Column], objective: str) -> Array:
    """Return the coefficients of an objective for z, y and x.

    Parameters
    ----------
    data
        The numbered problem.
    columns
        The columns x: each a pattern on a group of GPUs.
    objective
        Name of an objective of the family.
    """
    z = np.zeros(len(data.options))
    x = np.zeros(len(columns))
    if objective == "weight_placed":
        z[:] = [data.classes[k].weight for k, _ in data.options]
    elif objective == "gpus_placed":
        z[:] = [data.classes[k].configurations[c].demand[0] / MILLI for k, c in data.options]
    elif objective == "gpus_used":
        x[:] = 1.0
    else:
        x[:] = [column.pattern.reconfigures for column in columns]
    return np.concatenate([z, np.zeros(len(data.pairs)), x])


def quota_rows(data: SharingData) -> tuple[Array, Array]:
    """Return what each option takes of limits on what runs, and the limits.

    The milli-GPU of every tenant with a quota, then each of the cluster's own resources.
    """
    topology = data.instance.topology
    tenants = {tenant.name: t for t, tenant in enumerate(data.instance.tenants)}
    asked = np.array([data.classes[k].configurations[c].demand for k, c in data.options])
    cluster = [r for r in topology.cluster_columns if len(asked) and asked[:, r].any()]
    use = np.zeros((len(tenants) + len(cluster), len(data.options)))
    for o, (k, c) in enumerate(data.options):
        demand = data.classes[k].configurations[c].demand
        t = tenants.get(data.classes[k].tenant or "")
        if t is not None:
            use[t, o] = demand[0]
        use[len(tenants) :, o] = [demand[r] for r in cluster]
    quota = [float(tenant.gpu_quota_milli) for tenant in data.instance.tenants]
    return use, np.array([*quota, *topology.totals[cluster].astype(float)])


def array_model(
    data: SharingData,
    columns: Sequence[Column],
    objective: str,
    *,
    all_run: bool,
    held: Mapping[str, float] | None = None,
) -> ArrayModel:
    """Return the integer program over some patterns.

    Parameters
    ----------
    data
        The problem.
    columns
        The patterns to choose from.
    objective
        What to optimise.
    all_run
        Whether every job must run.
    held
        Values of other objectives that may not get worse.
    """
    builder = ModelBuilder()
    max_z = np.array([len(data.classes[k].members) for k, _ in data.options], dtype=float)
    lowest = np.zeros(len(max_z))
    if all_run:
        ruled = set(_rules_options(data, all_run).tolist())
        lowest = np.where([k in ruled for k, _ in data.options], 0.0, max_z)
    max_x = np.array([len(data.groups[column.group].gpus) for column in columns], dtype=float)
    z = builder.columns(len(max_z), max_z, lowest)
    y = builder.columns(len(data.pairs), np.array(_max_tasks(data), dtype=float))
    x = builder.columns(len(max_x), max_x)
    _add_rows(builder, data, columns, (z, y, x), all_run=all_run)
    for name, value in (held or {}).items():
        kept = costs(data, columns, name)
        at, slack = np.flatnonzero(kept), 1e-9 * abs(value)
        if sense_of(name) == "max":
            builder.row("held", [(at, kept[at])], lower=value - slack)
        else:
            builder.row("held", [(at, kept[at])], upper=value + slack)
    return builder.model(sense_of(objective), cost=costs(data, columns, objective))


def _rules_options(data: SharingData, all_run: bool) -> Whole:
    """Return the classes with a row (C1): for one with a single option the limits of z say it.

    Thousands of jobs of different weight would otherwise be thousands of rows. While patterns are
    generated for jobs that must all run, each class has its row, so that some may wait meanwhile.
    """
    if all_run and not data.listed:
        return np.arange(len(data.classes))
    number = np.bincount([k for k, _ in data.options], minlength=len(data.classes))
    return np.flatnonzero(number != 1)


def _max_tasks(data: SharingData) -> list[int]:
    """Return the most tasks there are of the kind of each pair."""
    most = np.zeros(len(data.items), dtype=np.int64)
    for o, (k, _) in enumerate(data.options):
        most += data.need[:, o] * len(data.classes[k].members)
    return [int(most[i]) for i, _ in data.pairs]


def _add_rows(
    builder: ModelBuilder,
    data: SharingData,
    columns: Sequence[Column],
    variables: tuple[Index, Index, Index],
    *,
    all_run: bool,
) -> None:
    z, y, x = variables
    pair_item = np.array([i for i, _ in data.pairs], dtype=np.int64)
    pair_class = np.array([h for _, h in data.pairs], dtype=np.int64)
    group_of = np.array([column.group for column in columns], dtype=np.int64)
    class_of = np.array([group.host_class for group in data.groups], dtype=np.int64)

    ruled = _rules_options(data, all_run)
    position = np.full(len(data.classes), -1)
    position[ruled] = np.arange(len(ruled))
    row_of = position[np.array([k for k, _ in data.options], dtype=np.int64)]
    jobs = np.array([len(k.members) for k in data.classes], dtype=float)[ruled]
    at = row_of >= 0
    lower = jobs if all_run else -np.inf
    builder.rows("C1_one_option", len(ruled), [(row_of[at], z[at], 1.0)], lower, jobs)

    item, option = np.nonzero(data.need)
    needed = (item, z[option], -data.need[item, option])
    builder.rows("C2_tasks_stand", len(data.items), [needed, (pair_item, y, 1.0)], 0.0, 0.0)

    num_sizes, num_classes = len(data.sizes), len(data.host_classes)
    size = np.array([data.items[i].size for i in pair_item], dtype=np.int64)
    units = np.array([data.items[i].units for i in pair_item], dtype=float)
    on_gpu = np.flatnonzero(size >= 0)
    taken = (size[on_gpu] * num_classes + pair_class[on_gpu], y[on_gpu], units[on_gpu])
    counts = np.array([column.pattern.counts for column in columns], dtype=np.int64)
    counts = counts.reshape(len(columns), num_sizes)
    column, s = np.nonzero(counts)
    offered = (s * num_classes + class_of[group_of[column]], x[column], -counts[column, s])
    builder.rows("C3_slots", num_sizes * num_classes, [taken, offered], upper=0.0)

    gpus = np.array([len(group.gpus) for group in data.groups], dtype=float)
    builder.rows("C4_gpus", len(gpus), [(group_of, x, 1.0)], upper=gpus)

    for r, name in enumerate(data.beside):
        position = np.full(num_classes, -1)
        bound = [h for h in range(num_classes) if data.tight[h][r]]
        position[bound] = np.arange(len(bound))
        here = np.flatnonzero(position[pair_class] >= 0)
        amount = np.array([data.items[i].beside[r] for i in pair_item[here]], dtype=float)
        classes = [data.host_classes[h] for h in bound]
        have = [float(len(hosts.hosts) * hosts.beside[r]) for hosts in classes]
        used = (position[pair_class[here]], y[here], amount)
        builder.rows(f"C5_{name}", len(bound), [used], upper=np.array(have))

    use, quota = quota_rows(data)
    tenant, option = np.nonzero(use)
    builder.rows("C6_quotas", len(quota), [(tenant, z[option], use[tenant, option])], upper=quota)


def require_listed(data: SharingData) -> None:
    """Refuse a model that would not hold all patterns.

    Raises
    ------
    UnsupportedFeatureError
        If the patterns of shares are too many to list.
    """
    if not data.listed:
        raise UnsupportedFeatureError(
            f'instance "{data.instance.name}": its shares of GPUs make too many patterns to draw; '
            'use the backend "auto", which generates them as it needs them.'
        )


def build_arrays(instance: Instance, objective: str) -> BuiltModel:
    """Build an instance as arrays, host by host.

    Parameters
    ----------
    instance
        Its patterns must be few enough to list.
    objective
        Name of an objective of the family.
    """
    data = sharing_data(instance, aggregate=False)
    require_listed(data)
    columns = listed_columns(data)
    model = array_model(data, columns, objective, all_run=objective in PLACES_ALL)
    used = [(column.group, column.pattern) for column in columns]
    return BuiltModel(model, lambda x: allocation_of(data, used, x))
