"""The second stage: one linear program for each scenario and quarter, all with the same matrix.

``min cost @ y  subject to  matrix @ y + first_stage @ z >= right_hand_side(w, t)`` and
``0 <= y <= upper(w, t)``, where z are the usable GPUs of the pools, the hosts in service at the
host_groups, the margins of pools, and where jobs are sent that need one, in quarter t.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from alloc.model_builder import ModelBuilder
from alloc.models.right_sizing.data import Array, Ints, SizingData

if TYPE_CHECKING:
    from scipy import sparse

BOUND_SLACK = 2.0
"""Factor on bounds that only say what is never of use: one that is reached would share a dual."""
AMPLE_SENT = 1.01
"""The same for (C18), which is better the tighter it is."""

_FAMILIES = ("demand", "firm room", "spot room", "busy", "kind", "carbon", "short", "sent")


@dataclass(frozen=True, eq=False)
class Columns:
    """Where the variables of a block are; -1 where there is none.

    Parameters
    ----------
    mode
        GPUs busy for a mode in a band, shape (modes, bands).
    rental
        Hosts rented, shape (rental_options, bands).
    kind
        GPUs busy on hosts of a power kind, shape (kinds, bands).
    short
        Demand left unserved, GPUs of the leanest option, shape (classes, bands); a deferrable
        class has it in band 0, mean over all hours.
    """

    mode: Ints
    rental: Ints
    kind: Ints
    short: Ints


class Blocks:
    """The linear programs of the second stage.

    A column is counted in `scale`, 1 but for what runs of classes with next to no demand: in the
    units of `Columns` it is its value times that. A row is multiplied by `row_scale`.

    Parameters
    ----------
    data
        The problem.
    short
        For each class whether its demand may be left unserved.
    """

    def __init__(self, data: SizingData, short: Iterable[bool] | None = None) -> None:
        self.data = data
        classes = data.problem.classes
        if short is None:
            allowed = data.problem.epsilon > 0
            short = [allowed and not c.critical for c in classes]
        self.may_be_short = np.array(list(short), dtype=bool)
        self._direct = self._direct_energy()
        self.columns = self._number_columns()
        self.cost, self.carbon = self._cost()
        self.matrix: sparse.csr_array
        self.first_stage: sparse.csr_array
        self._build()
        self.scale, self.row_scale = self._scales()
        self.matrix = self.matrix.multiply(self.row_scale[:, None] * self.scale).tocsr()
        self.first_stage = self.first_stage.multiply(self.row_scale[:, None]).tocsr()
        self.cost, self.carbon = self.cost * self.scale, self.carbon * self.scale

    def _scales(self) -> tuple[Array, Array]:
        """Return in what the columns are counted, and the factors of the rows.

        What runs of a class whose largest demand is a small part of a GPU is counted in about that
        demand: what a solver takes for the rounding of 0 would be all of it.
        """
        demand = self.data.demand.max(axis=(0, 1))
        rare = (demand > 0) & (demand < 1)
        # One over a unit is finite, too.
        about = np.maximum(np.where(rare, demand, 1.0), np.finfo(float).tiny)
        unit = np.exp2(np.floor(np.log2(about)))
        columns, rows = np.ones(self._num_columns), np.ones(self.matrix.shape[0])
        for w, mode in enumerate(self.data.modes):
            columns[self.columns.mode[w]] = unit[mode.job_class]
        for c, b in np.argwhere(self.columns.short >= 0).tolist():
            columns[self.columns.short[c, b]] = unit[c]
        of_class = {"demand": self.demand_rows, "short": self.short_rows, "sent": self.sent_rows}
        for family, places in of_class.items():
            rows[self.family[family]] = [1 / unit[c] for c, _ in places]
        return columns, rows

    @property
    def num_rows(self) -> int:
        """Rows of a block."""
        return int(self.matrix.shape[0])

    @property
    def num_columns(self) -> int:
        """Columns of a block."""
        return len(self.cost)

    @property
    def num_linked(self) -> int:
        """Length of z: usable GPUs of pools, hosts at host_groups, margins, where jobs are sent."""
        data = self.data
        parts = (data.pools, data.host_groups, data.with_margin, data.destinations)
        return sum(len(part) for part in parts)

    def _direct_energy(self) -> dict[int, float]:
        """Return the pools in which every busy GPU draws the same power, with its kW.

        There the energy is charged to the jobs; elsewhere it depends on which hosts are busy.
        """
        data = self.data
        hired = {rental.pool for rental in data.rental_options if not rental.spot}
        found: dict[int, list[float]] = defaultdict(list)
        for kind in data.kinds:
            found[kind.pool].append(kind.kw_per_gpu)
        return {
            pool: kws[0]
            for pool, kws in found.items()
            if max(kws) == 0 or (len(kws) == 1 and pool not in hired)
        }

    def _number_columns(self) -> Columns:
        data, bands = self.data, self.data.bands.count
        count = 0

        def number(shape: tuple[int, int], wanted: Array) -> Ints:
            nonlocal count
            found = np.full(shape, -1, dtype=np.int64)
            picked = np.broadcast_to(wanted, shape)
            total = int(picked.sum())
            found[picked] = np.arange(count, count + total)
            count += total
            return found

        def every(items: int) -> Array:
            return np.ones((items, 1), dtype=bool)

        with_kind = np.array([[k.pool not in self._direct] for k in data.kinds], dtype=bool)
        short = np.repeat(self.may_be_short[:, None], bands, axis=1)
        for c, job_class in enumerate(data.problem.classes):
            if job_class.deferrable:
                short[c, 1:] = False
        columns = Columns(
            number((len(data.modes), bands), every(len(data.modes))),
            number((len(data.rental_options), bands), every(len(data.rental_options))),
            number((len(data.kinds), bands), with_kind.reshape(-1, 1)),
            number(short.shape, short),
        )
        self._num_columns = count
        return columns

    def _cost(self) -> tuple[Array, Array]:
        """Return money and kg of carbon dioxide per unit of each column, for a quarter."""
        data, hours = self.data, self.data.bands.hours
        cost, carbon = np.zeros(self._num_columns), np.zeros(self._num_columns)

        def draw(column: Ints, kw: float, site: int) -> None:
            cost[column] += kw * hours * data.energy_cost[site]
            carbon[column] += kw * hours * data.bands.carbon[site]

        for w, mode in enumerate(data.modes):
            if not mode.spot and mode.pool in self._direct:
                site = data.pools[mode.pool].site
                draw(self.columns.mode[w], self._direct[mode.pool], site)
        for k, kind in enumerate(data.kinds):
            if kind.pool not in self._direct:
                draw(self.columns.kind[k], kind.kw_per_gpu, data.pools[kind.pool].site)
        for h, rental in enumerate(data.rental_options):
            cost[self.columns.rental[h]] += rental.price * hours
        for c, job_class in enumerate(data.problem.classes):
            loss = job_class.loss_per_job / data.base[c] * data.gpu_unit
            columns = self.columns.short[c]
            if job_class.deferrable:
                cost[columns[:1][columns[:1] >= 0]] += loss * hours.sum()
            else:
                cost[columns[columns >= 0]] += loss * hours[columns >= 0]
        return cost, carbon

    def _build(self) -> None:
        """Build the rows of one block, and what the first stage adds to each."""
        data = self.data
        builder = ModelBuilder(*_FAMILIES)
        builder.columns(self._num_columns + self.num_linked)
        self.margin_rows: list[int] = []
        self.margin_pools: list[tuple[int, bool]] = []
        self._modes_of_pool = defaultdict(list)
        for w, mode in enumerate(data.modes):
            self._modes_of_pool[mode.pool, mode.spot].append(w)
        self._rentals_of_pool = defaultdict(list)
        for h, rental in enumerate(data.rental_options):
            self._rentals_of_pool[rental.pool, rental.spot].append(h)
        self._kinds_of_pool = defaultdict(list)
        for k, kind in enumerate(data.kinds):
            if kind.pool not in self._direct:
                self._kinds_of_pool[kind.pool].append(k)
        self._demand(builder)
        self._room(builder, spot=False)
        self._room(builder, spot=True)
        self._busy(builder)
        self._kinds(builder)
        self._carbon(builder)
        self._short(builder)
        self._sent(builder)
        model = builder.model("min")
        self.family = model.rows
        columns = model.matrix.tocsc()
        self.matrix = columns[:, : self._num_columns].tocsr()
        self.first_stage = columns[:, self._num_columns :].tocsr()

    def _demand(self, builder: ModelBuilder) -> None:
        """(C9) What is served of a class covers its demand."""
        data, columns, bands = self.data, self.columns, self.data.bands.count
        modes_of_class = defaultdict(list)
        for w, mode in enumerate(data.modes):
            modes_of_class[mode.job_class].append(w)
        self.demand_rows: list[tuple[int, int]] = []
        share = data.bands.hours / data.bands.hours.sum()
        for c, job_class in enumerate(data.problem.classes):
            if not data.demand[:, :, c].any():
                continue
            per_unit = [(w, 1 / data.modes[w].gpus_per_unit) for w in modes_of_class[c]]
            for b in range(1 if job_class.deferrable else bands):
                if job_class.deferrable:
                    found = [
                        (int(columns.mode[w, at]), value * float(share[at]))
                        for w, value in per_unit
                        for at in range(bands)
                    ]
                else:
                    found = [(int(columns.mode[w, b]), value) for w, value in per_unit]
                if columns.short[c, b] >= 0:
                    found.append((int(columns.short[c, b]), 1.0))
                builder.row("demand", found)
                self.demand_rows.append((c, b))

    def _rented(self, pool: int, spot: bool, band: int) -> list[tuple[int, float]]:
        """Return the GPUs rented in a pool, as entries of a row."""
        return [
            (int(self.columns.rental[h, band]), float(self.data.rental_options[h].gpus))
            for h in self._rentals_of_pool[pool, spot]
        ]

    def _room(self, builder: ModelBuilder, *, spot: bool) -> None:
        """(C10) Jobs find room with headroom on firm hosts, (C11) on spot hosts."""
        data = self.data
        groups_of_pool = {group.pool for group in data.host_groups}
        for p in range(len(data.pools)):
            modes = self._modes_of_pool[p, spot]
            if not modes:
                continue
            for b in range(data.bands.count):
                used = [(int(self.columns.mode[w, b]), -data.modes[w].room) for w in modes]
                usable = [(self._num_columns + p, 1.0)] if not spot and p in groups_of_pool else []
                margin = self._margin(p, spot, b)
                entries = [*used, *self._rented(p, spot, b), *usable, *margin]
                row = builder.row("spot room" if spot else "firm room", entries)
                if margin:
                    self.margin_rows.append(row)
                    self.margin_pools.append((p, spot))

    def _margin(self, pool: int, spot: bool, band: int) -> list[tuple[int, float]]:
        """Return the margin that a pool keeps in a band, as an entry of a row if there is any."""
        if (pool, spot) not in self.data.with_margin:
            return []
        at = self.data.margin_of(pool, spot)
        part = self.data.margin_parts[at][band]
        begin = len(self.data.pools) + len(self.data.host_groups)
        return [(self._num_columns + begin + at, -part)] if part > 0 else []

    def _busy(self, builder: ModelBuilder) -> None:
        """(C12) Busy GPUs are on hosts of some power kind, or rented."""
        for p, kinds in self._kinds_of_pool.items():
            modes = self._modes_of_pool[p, False]
            if not modes:
                continue
            for b in range(self.data.bands.count):
                busy = [(int(self.columns.mode[w, b]), -1.0) for w in modes]
                drawing = [(int(self.columns.kind[k, b]), 1.0) for k in kinds]
                builder.row("busy", [*busy, *self._rented(p, False, b), *drawing])

    def _kinds(self, builder: ModelBuilder) -> None:
        """(C13) No more GPUs of a power kind are busy than there are."""
        data, pools = self.data, len(self.data.pools)
        for kinds in self._kinds_of_pool.values():
            for k in kinds:
                for b in range(data.bands.count):
                    hosts = [
                        (self._num_columns + pools + s, data.host_gpus(data.host_groups[s]))
                        for s in data.kinds[k].host_groups
                    ]
                    builder.row("kind", [(int(self.columns.kind[k, b]), -1.0), *hosts])

    def _carbon(self, builder: ModelBuilder) -> None:
        """(C14) Carbon keeps within the quarter's cap."""
        data, pools = self.data, len(self.data.pools)
        if data.problem.carbon_caps_kg:
            emitted = np.append(-self.carbon, np.zeros(self.num_linked))
            first = self._num_columns + pools
            emitted[first : first + len(data.idle_carbon)] = -data.idle_carbon
            at = np.flatnonzero(emitted)
            builder.row("carbon", [(at, emitted[at])])

    def _short(self, builder: ModelBuilder) -> None:
        """(C15) Only what is waived is short; the link with v depends on the scenario."""
        self.short_rows: list[tuple[int, int]] = []
        for c, b in np.argwhere(self.columns.short >= 0).tolist():
            builder.row("short", [(int(self.columns.short[c, b]), -1.0)])
            self.short_rows.append((c, b))

    def _sent(self, builder: ModelBuilder) -> None:
        """(C18) Jobs run only where they are sent; in units of demand, to none more than it all."""
        data = self.data
        begin = len(data.pools) + len(data.host_groups) + len(data.with_margin)
        self.sent_rows: list[tuple[int, int]] = []
        for i, at in enumerate(data.destinations):
            for c in at.job_classes:
                modes = [
                    w for w in self._modes_of_pool[at.pool, at.spot] if data.modes[w].job_class == c
                ]
                for b in range(data.bands.count):
                    most = AMPLE_SENT * float(data.demand_in_band[c, b])
                    running = [
                        (int(self.columns.mode[w, b]), -1 / data.modes[w].gpus_per_unit)
                        for w in modes
                    ]
                    builder.row("sent", [*running, (self._num_columns + begin + i, most)])
                    self.sent_rows.append((c, b))

    # What differs from block to block ---------------------------------------------------------

    @cached_property
    def _arrivals(self) -> Array:
        """Demand in a band over the class's mean, with 1 for deferrable classes."""
        found = self.data.bands.arrivals.copy()
        for c, job_class in enumerate(self.data.problem.classes):
            if job_class.deferrable:
                found[c] = 1.0
        return found

    def natural_demand(self) -> Array:
        """Return the demand of each row of demand, GPUs, shape (scenarios, quarters, rows)."""
        data = self.data
        at = np.array(self.demand_rows, dtype=np.int64).reshape(-1, 2)
        return np.asarray(data.demand[:, :, at[:, 0]] * self._arrivals[at[:, 0], at[:, 1]])

    def right_hand_sides(self) -> Array:
        """Return the right-hand sides, shape (scenarios, quarters, rows)."""
        data = self.data
        found = np.zeros((*data.demand.shape[:2], self.num_rows))
        found[:, :, self.family["demand"]] = self.natural_demand()
        if data.problem.carbon_caps_kg:
            found[:, :, self.family["carbon"]] = -np.array(data.problem.carbon_caps_kg)[
                None, :, None
            ]
        return np.asarray(found * self.row_scale)

    def waived(self) -> Array:
        """Return what waiving a scenario adds to each row, shape (scenarios, quarters, rows)."""
        return np.asarray(self._waived() * self.row_scale)

    def _waived(self) -> Array:
        """Return the same with rows as they are before they are scaled."""
        data = self.data
        found = np.zeros((*data.demand.shape[:2], self.num_rows))
        if self.short_rows:
            at = np.array(self.short_rows)
            found[:, :, self.family["short"]] = (
                data.demand[:, :, at[:, 0]] * self._arrivals[at[:, 0], at[:, 1]]
            )
        return found

    def uppers(self) -> tuple[Array, Ints, Array]:
        """Return upper bounds of the columns, all finite; those that differ between blocks apart.

        Those that only say what is never of use are ample, so that none is reached: a bound that
        holds a value together with a row would share the row's dual value.

        Returns
        -------
        upper : ndarray
            Of the first block, shape (columns,).
        varying : ndarray
            Positions of the columns whose bounds differ from block to block.
        differing : ndarray
            Bounds of these, shape (scenarios, quarters, len(varying)).
        """
        data, columns = self.data, self.columns
        upper = np.zeros(self.num_columns)
        room: dict[tuple[int, bool, int], float] = defaultdict(float)
        """The most GPUs for a unit of work of a class in a pool, on spot hosts or not."""
        for w, mode in enumerate(data.modes):
            most = BOUND_SLACK * data.demand_in_band[mode.job_class] * mode.gpus_per_unit
            upper[columns.mode[w]] = most
            place = mode.pool, mode.spot, mode.job_class
            room[place] = max(room[place], mode.gpus_per_unit * mode.room)
        need = np.zeros((len(data.pools), 2, data.bands.count))
        for (p, spot, c), gpus in room.items():
            need[p, int(spot)] += BOUND_SLACK * data.demand_in_band[c] * gpus
        for spot in (False, True):
            need[:, int(spot)] += BOUND_SLACK * data.max_margin(spot).max(axis=1)[:, None]
        for k, kind in enumerate(data.kinds):
            if columns.kind[k, 0] >= 0:
                upper[columns.kind[k]] = need[kind.pool, 0]
        at: list[Ints] = [np.zeros(0, dtype=np.int64)]
        bounds: list[Array] = [np.zeros((*data.demand.shape[:2], 0))]
        for h, rental in enumerate(data.rental_options):
            useful = need[rental.pool, int(rental.spot)] / rental.gpus
            upper[columns.rental[h]] = np.minimum(rental.most, useful)
            if rental.spot and np.isfinite(rental.most):
                at.append(columns.rental[h])
                limit = rental.most * data.spot_available
                bounds.append(np.minimum(limit[:, :, None], useful))
        if (columns.short >= 0).any():
            at.append(columns.short[columns.short >= 0])
            bounds.append(BOUND_SLACK * self._waived()[:, :, self.family["short"]])
        of_block, positions = np.concatenate(bounds, axis=2), np.concatenate(at)
        of_block = of_block / self.scale[positions]
        upper /= self.scale
        upper[positions] = of_block[0, 0]
        varying = (of_block != of_block[:1, :1]).any(axis=(0, 1))
        return upper, positions[varying], of_block[:, :, varying]
