"""Mending: a first stage that goes short gets more hosts, or other places, where it does.

Dives round what cuts know, and cuts of a few steps know little of what a margin takes. What is
missing, pool by pool and class by class, is known once the first stage is valued: a host more
cures it most often, and where a site has no room, or spot hosts are too few, jobs go elsewhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from alloc.models.right_sizing.data import Array, Ints
from alloc.solving.right_sizing.blocks import SHORT, BlockValue, Task
from alloc.solving.right_sizing.relaxation import Relaxation

_SURE = 1e-6
"""Part by which more is asked for than is missing, for rounding."""


class Mending:
    """Mends a first stage again and again; places that it closed once stay closed.

    Parameters
    ----------
    relaxation
        Whose problem it is.
    """

    def __init__(self, relaxation: Relaxation) -> None:
        self.relaxation = relaxation
        self.data, self.first = relaxation.data, relaxation.first
        self._closed: set[tuple[int, int]] = set()

    def mend(self, point: Array, found: Mapping[Task, BlockValue]) -> Array | None:
        """Return a first stage with less missing.

        Parameters
        ----------
        point
            A first stage, complete.
        found
            The values of its blocks.

        Returns
        -------
        ndarray or None
            The first stage, complete; None if there is nothing to change, or no time for it.
        """
        of_pools, of_classes = self._missing(found)
        values = point.copy()

        def gained(pool: int, t: int) -> float:
            """GPUs of hosts that came for another quarter, or for others."""
            column = self.first.usable[pool, t]
            return float(values[column] - point[column])

        for (pool, spot, t), gpus in sorted(of_pools.items(), key=lambda item: item[0][2]):
            if self._is_late():
                return None
            lacking = gpus if spot else gpus - gained(pool, t)
            if lacking > 0:
                more = None if spot else self._with_hosts(values, pool, t, lacking)
                values = self._without_jobs(values, pool, spot, t, gpus) if more is None else more
        for (c, t), gpus in sorted(of_classes.items(), key=lambda item: item[0][1]):
            if self._is_late():
                return None
            need = self._need(values, c, t, gpus)
            if not any(gained(pool, t) >= most for pool, most in need.items()):
                values = self._with_place(values, c, t, need)
        return None if np.array_equal(values, point) else values

    def _is_late(self) -> bool:
        return self.relaxation.seconds_left() <= 0

    def _missing(
        self, found: Mapping[Task, BlockValue]
    ) -> tuple[dict[tuple[int, bool, int], float], dict[tuple[int, int], float]]:
        """Return the most GPUs that pools lack, and those that classes do, in each quarter."""
        blocks, rows = self.relaxation.blocks, self.relaxation.block_data.slack_rows
        pools = dict(zip(blocks.margin_rows, blocks.margin_pools, strict=True))
        of_pools: dict[tuple[int, bool, int], float] = defaultdict(float)
        of_classes: dict[tuple[int, int], float] = defaultdict(float)
        for (_, t), value in found.items():
            if value.short <= SHORT / 2:
                continue
            for at in np.flatnonzero(value.missing > 0).tolist():
                row, gpus = int(rows[at]), float(value.missing[at]) * (1 + _SURE)
                if row < len(blocks.demand_rows):
                    c = blocks.demand_rows[row][0]
                    gpus /= float(blocks.row_scale[row])
                    of_classes[c, t] = max(of_classes[c, t], gpus)
                elif row in pools:
                    of_pools[(*pools[row], t)] = max(of_pools[(*pools[row], t)], gpus)
        return of_pools, of_classes

    def _with_hosts(self, values: Array, pool: int, t: int, gpus: float) -> Array | None:
        """Return a first stage with so many more GPUs in a pool in a quarter.

        Those that cost least over the plan; None where the site has no room for them.
        """
        data, first = self.data, self.first
        choices = []
        for k, group in enumerate(data.host_groups):
            for q in range(t + 1) if group.pool == pool else ():
                service = data.in_service(k, q)
                if first.order[k, q] >= 0 and t in service:
                    columns = [first.order[k, q], *first.hosts[k, service.start : service.stop]]
                    size = data.host_gpus(group)
                    choices.append((float(first.cost[columns].sum()) / size, q, k, size))
        for _, q, k, size in sorted(choices):
            column, usable = first.order[k, q], first.usable[pool, t]
            wanted = values[usable] + gpus
            # Hosts that open a pool are spare ones first.
            least = math.ceil(gpus / size)
            for count in range(least, least + data.problem.failures + 1):
                more = values.copy()
                more[column] += count
                more = self.relaxation.completing.complete(more)
                if more[column] > first.upper[column] or not self._has_room(more):
                    break
                if more[usable] >= wanted:
                    return more
        return None

    def _has_room(self, values: Array) -> bool:
        """Return whether sites have room, ports and power for the hosts."""
        first = self.first
        rows = slice(first.rows["C2"].start, first.rows["C4"].stop)
        limits = first.row_upper[rows]
        return bool((first.matrix[rows] @ values <= limits + 1e-9 * np.abs(limits)).all())

    def _without_jobs(self, values: Array, pool: int, spot: bool, t: int, gpus: float) -> Array:
        """Return a first stage in which a pool keeps so much less, for fewer classes go there."""
        first = self.first
        here = [
            i for i, at in enumerate(self.data.destinations) if (at.pool, at.spot) == (pool, spot)
        ]
        column = first.margin[self.data.margin_of(pool, spot), t]
        most = values[column] - gpus
        while values[column] > max(most, 0.0):
            # Whoever makes most of a difference goes.
            left = []
            for i in here:
                if values[first.sent[i, t]] > 0.5:
                    fewer = values.copy()
                    fewer[first.sent[i, t]] = 0.0
                    fewer = self.relaxation.completing.complete(fewer)
                    left.append((float(fewer[column]), i, fewer))
            if not left:
                break
            _, i, values = min(left, key=lambda one: one[:2])
            self._closed.add((i, t))
        return values

    def _need(self, values: Array, c: int, t: int, gpus: float) -> dict[int, float]:
        """Return what so many GPUs more of a class take in each pool that keeps firm hosts."""
        data, first = self.data, self.first
        asking = {(d.pool, i) for i, d in enumerate(data.destinations) if c in d.job_classes}
        asking = {(pool, i) for pool, i in asking if not data.destinations[i].spot}
        closed = {pool for pool, i in asking if values[first.sent[i, t]] < 0.5}
        need: dict[int, float] = {}
        for mode in data.modes:
            if mode.job_class == c and not mode.spot and mode.pool not in closed:
                most = gpus * mode.gpus_per_unit * mode.room
                need[mode.pool] = max(need.get(mode.pool, 0.0), most)
        return need

    def _with_place(self, values: Array, c: int, t: int, need: Mapping[int, float]) -> Array:
        """Return a first stage with room for more of a class in a quarter.

        With hosts in a pool where it needs fewest, or with one more place that it is sent to.
        """
        data, first = self.data, self.first
        for pool in sorted(need, key=lambda pool: need[pool]):
            more = self._with_hosts(values, pool, t, need[pool])
            if more is not None:
                return more
        own = [i for i, at in enumerate(data.destinations) if c in at.job_classes]
        choices = []
        for i in own:
            column = first.sent[i, t]
            may_open = values[column] < 0.5 and first.upper[column] > 0
            if may_open and (i, t) not in self._closed:
                more = values.copy()
                more[column] = 1.0
                more = self.relaxation.completing.complete(more)
                choices.append((float((more - values)[first.margin[:, t]].sum()), i, more))
        return min(choices, key=lambda one: one[:2])[2] if choices else values


def to_blame(relaxation: Relaxation, found: Mapping[Task, BlockValue]) -> Ints:
    """Return where the classes of what is short may be sent instead, in its quarters.

    Parameters
    ----------
    relaxation
        Tells the rows of the blocks, and the columns of where jobs are sent.
    found
        Values of the blocks at a first stage.
    """
    data, blocks = relaxation.data, relaxation.blocks
    columns = set()
    for (_, t), value in found.items():
        pools, classes = set(), set()
        for row in relaxation.block_data.slack_rows[np.flatnonzero(value.missing > SHORT)]:
            if row < len(blocks.demand_rows):
                classes.add(blocks.demand_rows[row][0])
            elif row in blocks.margin_rows:
                pools.add(blocks.margin_pools[blocks.margin_rows.index(row)])
        for at in data.destinations:
            if (at.pool, at.spot) in pools:
                classes.update(at.job_classes)
        columns |= {
            int(relaxation.first.sent[i, t])
            for i, at in enumerate(data.destinations)
            if classes & set(at.job_classes)
        }
    return np.array(sorted(columns), dtype=np.int64)
