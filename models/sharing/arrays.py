"""F5 as sparse arrays (matrix form)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import ArrayModel, BuiltModel
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
    """Return the coefficients of an objective for z, y and x."""
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
    """Return the milli-GPU of each option by tenant with a quota, and the quotas."""
    tenants = {tenant.name: t for t, tenant in enumerate(data.instance.tenants)}
    use = np.zeros((len(tenants), len(data.options)))
    for o, (k, c) in enumerate(data.options):
        t = tenants.get(data.classes[k].tenant or "")
        if t is not None:
            use[t, o] = data.classes[k].configurations[c].demand[0]
    return use, np.array([float(tenant.gpu_quota_milli) for tenant in data.instance.tenants])


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
    rows, lower, upper, slices = _rows(data, columns, all_run)
    for name, value in (held or {}).items():
        rows.append(sparse.csr_array(costs(data, columns, name)[None, :]))
        least = sense_of(name) == "max"
        slack = 1e-9 * abs(value)
        lower.append(np.array([value - slack if least else -np.inf]))
        upper.append(np.array([np.inf if least else value + slack]))
    most_z = [len(data.classes[k].members) for k, _ in data.options]
    most_y = _most_tasks(data)
    most_x = [len(data.groups[column.group].gpus) for column in columns]
    num_columns = len(most_z) + len(most_y) + len(most_x)
    lowest = np.zeros(num_columns)
    if all_run:
        ruled = set(rules_options(data, all_run).tolist())
        for o, (k, _) in enumerate(data.options):
            lowest[o] = 0 if k in ruled else most_z[o]
    return ArrayModel(
        sense=sense_of(objective),
        cost=costs(data, columns, objective),
        matrix=sparse.vstack(rows, format="csr"),
        row_lower=np.concatenate(lower),
        row_upper=np.concatenate(upper),
        lower=lowest,
        upper=np.concatenate([most_z, most_y, most_x]).astype(float),
        integer=np.ones(num_columns, dtype=bool),
        rows=slices,
    )


def rules_options(data: SharingData, all_run: bool) -> Whole:
    """Return the classes with a row (C1): for one with a single option the limits of z say it.

    Thousands of jobs of different weight would otherwise be thousands of rows. While patterns are
    generated for jobs that must all run, each class has its row, so that some may wait meanwhile.
    """
    if all_run and not data.listed:
        return np.arange(len(data.classes))
    number = np.bincount([k for k, _ in data.options], minlength=len(data.classes))
    return np.flatnonzero(number != 1)


def _most_tasks(data: SharingData) -> list[int]:
    """Return the most tasks there are of the kind of each pair."""
    most = np.zeros(len(data.items), dtype=np.int64)
    for o, (k, _) in enumerate(data.options):
        most += data.need[:, o] * len(data.classes[k].members)
    return [int(most[i]) for i, _ in data.pairs]


def _rows(
    data: SharingData, columns: Sequence[Column], all_run: bool
) -> tuple[list[sparse.csr_array], list[Array], list[Array], dict[str, slice]]:
    num_options, num_pairs, num_columns = len(data.options), len(data.pairs), len(columns)
    pair_item = np.array([i for i, _ in data.pairs], dtype=np.int64)
    pair_class = np.array([h for _, h in data.pairs], dtype=np.int64)
    group_of = np.array([column.group for column in columns], dtype=np.int64)
    class_of = np.array([group.host_class for group in data.groups], dtype=np.int64)

    def block(z: object, y: object, x: object, height: int) -> sparse.csr_array:
        widths = (num_options, num_pairs, num_columns)
        parts = [
            sparse.csr_array((height, width)) if part is None else sparse.csr_array(part)
            for part, width in zip((z, y, x), widths, strict=True)
        ]
        return sparse.hstack(parts, format="csr")

    def incidence(rows: Whole, height: int) -> sparse.csr_array:
        ones = np.ones(len(rows))
        return sparse.csr_array((ones, (rows, np.arange(len(rows)))), shape=(height, len(rows)))

    rows: list[sparse.csr_array] = []
    lower: list[Array] = []
    upper: list[Array] = []
    slices: dict[str, slice] = {}

    def add(name: str, part: sparse.csr_array, low: Array, high: Array) -> None:
        begin = sum(len(a) for a in lower)
        rows.append(part)
        lower.append(np.asarray(low, dtype=float))
        upper.append(np.asarray(high, dtype=float))
        slices[name] = slice(begin, begin + part.shape[0])

    def at_most(name: str, part: sparse.csr_array, high: Array) -> None:
        add(name, part, np.full(part.shape[0], -np.inf), high)

    jobs = np.array([len(k.members) for k in data.classes], dtype=float)
    option_class = np.array([k for k, _ in data.options], dtype=np.int64)
    ruled = rules_options(data, all_run)
    one = block(incidence(option_class, len(jobs))[ruled], None, None, len(ruled))
    limit = jobs[ruled]
    add("C1_one_option", one, limit if all_run else np.full(len(limit), -np.inf), limit)

    num_items = len(data.items)
    stand = block(-data.need.astype(float), incidence(pair_item, num_items), None, num_items)
    add("C2_tasks_stand", stand, np.zeros(num_items), np.zeros(num_items))

    num_sizes, num_classes = len(data.sizes), len(data.host_classes)
    slots = num_sizes * num_classes
    size = np.array([data.items[i].size for i in pair_item], dtype=np.int64)
    units = np.array([data.items[i].units for i in pair_item], dtype=float)
    on_gpu = np.flatnonzero(size >= 0)
    taken = sparse.csr_array(
        (units[on_gpu], (size[on_gpu] * num_classes + pair_class[on_gpu], on_gpu)),
        shape=(slots, num_pairs),
    )
    counts = np.array([column.pattern.counts for column in columns], dtype=np.int64)
    counts = counts.reshape(num_columns, num_sizes)
    column, s = np.nonzero(counts)
    offered = sparse.csr_array(
        (
            -counts[column, s].astype(float),
            (s * num_classes + class_of[group_of[column]], column),
        ),
        shape=(slots, num_columns),
    )
    at_most("C3_slots", block(None, taken, offered, slots), np.zeros(slots))

    gpus = np.array([len(group.gpus) for group in data.groups], dtype=float)
    at_most("C4_gpus", block(None, None, incidence(group_of, len(gpus)), len(gpus)), gpus)

    for r, name in enumerate(("cpu_milli", "memory_mib")):
        bound = [h for h in range(num_classes) if data.tight[h][r]]
        row_of = {h: k for k, h in enumerate(bound)}
        here = np.array([p for p, (_, h) in enumerate(data.pairs) if h in row_of], dtype=np.int64)
        amount = np.array([getattr(data.items[pair_item[p]], name) for p in here], dtype=float)
        used = sparse.csr_array(
            (amount, ([row_of[pair_class[p]] for p in here], here)), shape=(len(bound), num_pairs)
        )
        have = [
            float(len(data.host_classes[h].hosts) * getattr(data.host_classes[h], name))
            for h in bound
        ]
        at_most(f"C5_{name}", block(None, used, None, len(bound)), np.array(have))

    use, quota = quota_rows(data)
    at_most("C6_quotas", block(use, None, None, len(quota)), quota)
    return rows, lower, upper, slices


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
    """Build an instance as arrays, host by host."""
    data = sharing_data(instance, aggregate=False)
    require_listed(data)
    columns = listed_columns(data)
    model = array_model(data, columns, objective, all_run=objective in PLACES_ALL)
    used = [(column.group, column.pattern) for column in columns]
    return BuiltModel(model, lambda x: allocation_of(data, used, x))
