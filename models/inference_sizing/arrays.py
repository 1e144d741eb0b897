"""Inference sizing as sparse arrays (matrix form)."""

from __future__ import annotations

import numpy as np

from alloc.formulation import ArrayModel
from alloc.model_builder import ModelBuilder
from alloc.models.inference_sizing.layout import Layout


def array_model(layout: Layout) -> ArrayModel:
    """Return the integer program."""
    data = layout.data
    first_x = len(layout.z)
    first_y = first_x + len(layout.x)
    first_h = first_y + len(layout.y)
    z_of: dict[int, list[tuple[int, int]]] = {}
    for k, (c, j) in enumerate(layout.z):
        z_of.setdefault(c, []).append((k, j))
    x_at = {key: first_x + k for k, key in enumerate(layout.x)}
    h_at = {p: first_h + k for k, p in enumerate(layout.held)}
    builder = ModelBuilder("C1_one_column", "C2_rate", "C3_replicas_stand", "C4_C5_hosts")
    for columns in z_of.values():
        builder.row("C1_one_column", ((k, 1.0) for k, _ in columns), upper=1.0)
    _cover(builder, layout, z_of)
    _stand(builder, layout, z_of, x_at)
    _room(builder, layout, x_at, h_at, first_y)
    number = layout.num_columns
    cost, upper = np.zeros(number), np.ones(number)
    problem = data.problem
    for (t, p, s), k in x_at.items():
        pool = problem.pools[p]
        upper[k] = data.hosts(p, t) * (pool.gpus_per_host // s)
        cost[k] = s * data.price(p, t) if pool.billing == "used" else 0.0
    for k, (t, p, _) in enumerate(layout.y):
        upper[first_y + k] = data.hosts(p, t)
    for p, k in h_at.items():
        upper[k], cost[k] = data.max_held(p), data.held_price(p)
    builder.columns(number, upper, cost=cost)
    return builder.model("min")


def _cover(builder: ModelBuilder, layout: Layout, z_of: dict[int, list[tuple[int, int]]]) -> None:
    """Add (C2), each row relative to its demand."""
    data = layout.data
    of: dict[tuple[int, int], list[int]] = {}
    for c, choice in enumerate(data.choices):
        of.setdefault((choice.model, choice.period), []).append(c)
    for m in range(len(data.problem.models)):
        for t in range(len(data.periods)):
            demand = data.demand(m, t)
            if demand <= 0:
                continue
            for loss in data.losses[m]:
                terms = []
                for c in of.get((m, t), []):
                    choice = data.choices[c]
                    for k, j in z_of[c]:
                        rate = choice.columns[j].rates[loss[choice.option]]
                        if rate > 0:
                            terms.append((k, rate / demand))
                builder.row("C2_rate", terms, lower=1.0)


def _stand(
    builder: ModelBuilder,
    layout: Layout,
    z_of: dict[int, list[tuple[int, int]]],
    x_at: dict[tuple[int, int, int], int],
) -> None:
    """Add (C3)."""
    data = layout.data
    wanted: dict[tuple[int, str, int], list[tuple[int, float]]] = {}
    for c, choice in enumerate(data.choices):
        option = data.problem.models[choice.model].options[choice.option]
        terms = wanted.setdefault((choice.period, option.gpu_type, option.gpus), [])
        terms += [(k, -float(choice.columns[j].replicas)) for k, j in z_of[c]]
    for (t, gpu_type, s), terms in wanted.items():
        stand = [
            (x_at[t, p, s], 1.0)
            for p, pool in enumerate(data.problem.pools)
            if pool.gpu_type == gpu_type and (t, p, s) in x_at
        ]
        builder.row("C3_replicas_stand", [*stand, *terms], 0.0, 0.0)


def _room(
    builder: ModelBuilder,
    layout: Layout,
    x_at: dict[tuple[int, int, int], int],
    h_at: dict[int, int],
    first_y: int,
) -> None:
    """Add (C4) and (C5), or the one row that stands for both where sizes nest."""
    data = layout.data
    here: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (t, p, s), k in x_at.items():
        here.setdefault((t, p), []).append((s, k))
    for (t, p), sized in here.items():
        room = data.problem.pools[p].gpus_per_host
        if p not in layout.patterned:
            used = [(k, float(s)) for s, k in sized]
            builder.row("C4_C5_hosts", used, upper=float(room * data.hosts(p, t)))
            if p in h_at:
                builder.row("C4_C5_hosts", [*used, (h_at[p], -float(room))], upper=0.0)
            continue
        hosts = [(first_y + k, q) for k, (u, v, q) in enumerate(layout.y) if (u, v) == (t, p)]
        for s, k in sized:
            position = data.sizes[p].index(s)
            offered = [(y, -float(layout.patterns[p][q][position])) for y, q in hosts]
            builder.row("C4_C5_hosts", [(k, 1.0), *((y, v) for y, v in offered if v)], upper=0.0)
        number = [(y, 1.0) for y, _ in hosts]
        builder.row("C4_C5_hosts", number, upper=float(data.hosts(p, t)))
        if p in h_at:
            builder.row("C4_C5_hosts", [*number, (h_at[p], -1.0)], upper=0.0)
