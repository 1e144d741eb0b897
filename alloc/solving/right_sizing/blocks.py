"""The blocks of right-sizing, solved again and again: the same matrix, other right-hand sides.

Every block has, besides its own columns, a slack column for each row of demand and of carbon,
and each in which a margin is kept, at a price far above any offer's, so that every first stage can
be valued; a value with slack is not a plan, but its duals are cuts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from alloc.backends.linear_program import LinearProgram
from alloc.formulation import ArrayModel
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.problems.right_sizing.offers import HostOffer
from alloc.solving.right_sizing.known_bases import KnownBases

_PENALTY = 30.0
"""Penalty of a missing GPU, in prices of the dearest GPU that can be had: high enough that a plan
never prefers it, low enough that costs stay above the solver's tolerances beside it."""
_USUAL_NEED = 10.0
"""GPUs for a unit of demand up to which that price is far above any other."""

SHORT = 1e-6
"""Missing GPUs, relative to the demand, that rounding explains."""
_LEAST_SCALE = 1e-3
"""GPUs below which what is missing is no longer compared with what is asked for: of next to
nothing, rounding would be a large part."""

Task = tuple[int, int]
"""Scenario and quarter."""


@dataclass(frozen=True, eq=False)
class BlockValue:
    """The optimum of a block.

    Parameters
    ----------
    value
        Cost in units of money, penalties included.
    dual
        Dual values of the rows, 0 or more, shape (rows,).
    slack
        How much is missing in all: GPUs of demand and of margins, and of carbon over the cap as
        much as a busy GPU stands for.
    short
        The largest part of a row that is missing: of the demand of a class in a band, of a pool, of
        the carbon cap. It is the checker's measure: what is little of all may be much of one class.
    unserved
        Demand that is missing, mean over the hours, GPUs of the leanest options.
    values
        Values of the block's own columns, shape (columns,).
    missing
        What is missing of each row that has slack, if anything, shape (rows with slack,).
    """

    value: float
    dual: Array
    slack: float
    short: float
    unserved: float
    values: Array
    missing: Array


@dataclass(frozen=True, eq=False)
class Opening:
    """Rows that tie jobs to an open level: what a row allows differs from block to block.

    Parameters
    ----------
    rows
        Their positions among the rows of a block, shape (count,).
    columns
        Positions of the levels among what links to the blocks, shape (count,).
    share
        What an open level adds to the row in each block, shape (scenarios, quarters, count).
    """

    rows: Ints
    columns: Ints
    share: Array

    def with_more(self, other: Opening) -> Opening:
        """Return these rows and others."""
        return Opening(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.columns, other.columns]),
            np.concatenate([self.share, other.share], axis=2),
        )


@dataclass(frozen=True, eq=False)
class BlockData:
    """What a process needs to solve blocks.

    Parameters
    ----------
    matrix
        With the slack columns last, shape (rows, columns).
    cost
        In units of money, shape (columns,).
    right, waived
        Shape (scenarios, quarters, rows).
    upper
        Of the columns that differ from block to block, shape (scenarios, quarters, len(varying)).
    fixed_upper
        Of all columns, shape (columns,).
    varying
        Their positions.
    first_stage
        Shape (rows, linked).
    own
        Columns that are not slack.
    slack_rows
        The row of each slack column.
    slack_units
        What a slack column adds to its row: 1 GPU, or about the carbon of one that is busy.
    slack_share
        Share of the hours that the slack columns are for; 0 for all but demand.
    opening
        Rows in which only whether a level is open comes from the first stage.
    """

    matrix: sparse.csc_array
    cost: Array
    right: Array
    waived: Array
    upper: Array
    fixed_upper: Array
    varying: np.ndarray
    first_stage: sparse.csr_array
    own: int
    slack_rows: Ints
    slack_units: Array
    slack_share: Array
    opening: Opening

    def opened(self, linked: Array) -> Array:
        """Return what open levels add to the rows `opening`, shape (scenarios, quarters, count).

        Parameters
        ----------
        linked
            What links to the blocks, whether each level is open last, shape (quarters, linked).
        """
        return np.asarray(self.opening.share * linked[:, self.opening.columns])


def with_raised_penalty(data: BlockData) -> BlockData:
    """Return the same blocks with slack at ten times the penalty."""
    cost = data.cost.copy()
    cost[data.own :] *= 10.0
    return replace(data, cost=cost)


def block_data(
    data: SizingData, blocks: Blocks, unit: float, feasibility: bool, levels: int = 0
) -> BlockData:
    """Return what a process needs; with `feasibility`, slack is all that costs.

    With `levels`, whether each of them is open links to the blocks too, for rows that may come.

    Parameters
    ----------
    data
        The problem.
    blocks
        Its blocks.
    unit
        Unit of money.
    feasibility
        Whether slack is all that costs.
    levels
        Levels that may be open, at least 0.
    """
    rows = [r for name in ("demand", "carbon") for r in range(*blocks.family[name].indices(10**9))]
    rows += blocks.margin_rows
    units = _slack_units(blocks, rows)
    extra = sparse.coo_array(
        (units, (rows, np.arange(len(rows)))), shape=(blocks.num_rows, len(rows))
    )
    hours = float(data.bands.hours.sum())
    classes = data.problem.classes
    served = [
        (1.0 if classes[c].deferrable else float(data.bands.hours[b]) / hours) / scale
        for (c, b), scale in zip(
            blocks.demand_rows, blocks.row_scale[blocks.family["demand"]].tolist(), strict=True
        )
    ]
    penalty = _penalties(data, blocks, unit, len(rows)) / unit
    upper, varying, differing = blocks.uppers()
    cost = np.concatenate([blocks.cost / unit, penalty])
    if feasibility:
        cost = np.concatenate([np.zeros(blocks.num_columns), np.ones(len(rows))])
    levels_apart = sparse.csr_array((blocks.num_rows, levels))
    return BlockData(
        sparse.hstack([blocks.matrix, extra], format="csc"),
        cost,
        blocks.right_hand_sides(),
        blocks.waived(),
        differing,
        np.concatenate([upper, np.full(len(rows), np.inf)]),
        varying,
        sparse.hstack([blocks.first_stage, levels_apart], format="csr"),
        blocks.num_columns,
        np.array(rows, dtype=np.int64),
        units,
        np.array([*served, *(0.0 for _ in rows[len(served) :])]),
        Opening(
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
            np.zeros((*data.demand.shape[:2], 0)),
        ),
    )


def _slack_units(blocks: Blocks, rows: list[int]) -> Array:
    """Return what a slack column adds to its row, so that slack of carbon costs what GPUs do.

    A kg may be next to nothing of what is emitted, or far more than all of it.
    """
    units = np.ones(len(rows))
    largest = float(np.abs(blocks.matrix[blocks.family["carbon"]].data).max(initial=0.0))
    if largest:
        first, stop, _ = blocks.family["carbon"].indices(10**9)
        units[[first <= row < stop for row in rows]] = np.exp2(np.floor(np.log2(largest)))
    return units


def _penalties(data: SizingData, blocks: Blocks, unit: float, rows: int) -> Array:
    """Return the penalty of slack in each row of demand, of carbon and with a margin, money.

    A block counts with its probability, and a host is paid for whether that block comes or not: who
    cannot rent pays for the rarest block as for all of them.
    """
    hours, classes = float(data.bands.hours.sum()), len(data.problem.classes)
    offers = data.problem.offers
    rented = max((o.price / o.gpus for o in offers if o.is_hourly), default=0.0)
    rented *= hours * data.gpu_unit
    prices = [_price_of_host(data, data.offer(group)) for group in data.host_groups]
    sizes = [data.offer(group).gpus / data.gpu_unit for group in data.host_groups]
    bought = max((p / gpus for p, gpus in zip(prices, sizes, strict=True)), default=0.0)
    # Of a host of which a part is never asked for, the rest pays for all.
    of_use = [data.host_gpus(group) / data.host_unit for group in data.host_groups]
    alone = max((p / gpus for p, gpus in zip(prices, of_use, strict=True)), default=0.0)
    rarest = float((data.probability[:, None] * data.discount).min())
    # GPUs that a unit of demand may need, and whether they can always be rented.
    need, can_rent = np.ones(classes), np.zeros(classes, dtype=bool)
    for mode in data.modes:
        need[mode.job_class] = max(need[mode.job_class], mode.gpus_per_unit * mode.room)
    # A limit of four hosts is none where all of the demand needs a billionth of one.
    ever = float((data.demand_in_band.max(axis=1) * need).sum())
    anywhere = {
        (rental.pool, rental.spot)
        for rental in data.rental_options
        if math.isinf(rental.most) or (not rental.spot and rental.most * rental.gpus >= ever)
    }
    for mode in data.modes:
        can_rent[mode.job_class] |= (mode.pool, mode.spot) in anywhere
    least = _PENALTY * max(rented, bought, float(blocks.cost.max(initial=0.0)), unit)
    once = _PENALTY * alone / rarest * np.maximum(need / _USUAL_NEED, 1.0)
    of_class = np.maximum(least, _PENALTY / _USUAL_NEED * rented * need)
    of_class = np.where(can_rent, of_class, np.maximum(of_class, once))
    found = [float(of_class[c]) for c, _ in blocks.demand_rows]
    return np.array([*found, *[max(found, default=least)] * (rows - len(found))])


def _price_of_host(data: SizingData, offer: HostOffer) -> float:
    """Return what a host that is not rented by the hour costs over the plan at most."""
    if offer.terms == "purchase":
        return offer.price
    return offer.price * min(offer.service_quarters, data.num_quarters)


class BlockSolver:
    """One HiGHS with the matrix of the blocks; each solve starts from the nearest basis known.

    Parameters
    ----------
    data
        The blocks.
    """

    def __init__(self, data: BlockData) -> None:
        rows, columns = data.matrix.shape
        model = ArrayModel(
            "min",
            data.cost,
            data.matrix.tocsr(),
            data.right[0, 0],
            np.full(rows, np.inf),
            np.zeros(columns),
            data.fixed_upper,
            np.zeros(columns, dtype=bool),
        )
        # Presolve would throw away the basis. From scenario to scenario Devex weights take half of
        # the time of steepest edges, planning-large.
        self.program = LinearProgram(model, presolve=False, method="simplex", devex=True)
        self._take(data)
        self._bases = KnownBases(rows)

    def _take(self, data: BlockData) -> None:
        self.data = data
        self._transposed = data.matrix.T.tocsr()
        self._rows = np.arange(data.matrix.shape[0])
        self._none = np.full(len(self._rows), np.inf)
        self._is_bounded = np.isfinite(data.fixed_upper)
        self._is_bounded[data.varying] = True

    def change(self, data: BlockData) -> None:
        """Take blocks with more rows, or dearer slack; known bases stay of use."""
        before = self.data.matrix.shape[0]
        added = data.matrix[before:].tocsr()
        self.program.add_rows(
            data.right[0, 0, before:],
            np.full(added.shape[0], np.inf),
            added.indptr[:-1],
            added.indices,
            added.data,
        )
        self._bases.add_rows(added.shape[0])
        if not np.array_equal(data.cost, self.data.cost):
            self.program.set_costs(np.arange(len(data.cost)), data.cost)
        self._take(data)

    def solve(
        self, task: Task, linked: Array, waived: float, seconds: float = math.inf
    ) -> BlockValue:
        """Solve a block.

        Parameters
        ----------
        task
            Scenario and quarter.
        linked
            Usable GPUs and hosts in service, shape (linked,).
        waived
            Whether the scenario is waived, 0 to 1.
        seconds
            Wall time, seconds.

        Raises
        ------
        OutOfTime
            If the time was too short.
        """
        data, (w, t) = self.data, task
        right = data.right[w, t] - data.first_stage @ linked - waived * data.waived[w, t]
        opening = data.opening
        right[opening.rows] -= opening.share[w, t] * linked[opening.columns]
        self.program.set_row_bounds(self._rows, right, self._none)
        upper = data.fixed_upper
        if len(data.varying):
            zeros = np.zeros(len(data.varying))
            self.program.set_column_bounds(data.varying, zeros, data.upper[w, t])
            upper = upper.copy()
            upper[data.varying] = data.upper[w, t]
        nearest = self._bases.nearest(right, upper)
        if nearest is not None:
            self.program.set_basis(nearest)
        found = self.program.optimum("a block of the plan", seconds)
        reduced = data.cost - self._transposed @ found.duals
        self._bases.add(self.program.basis(), found.duals, reduced * self._is_bounded)
        values = found.values
        missing = values[data.own :]
        scale = np.maximum(np.abs(right[data.slack_rows]) / data.slack_units, _LEAST_SCALE)
        short = float((missing / scale).max(initial=0.0))
        return BlockValue(
            found.value,
            np.maximum(found.duals, 0.0),
            float(missing.sum()),
            short,
            float(data.slack_share @ missing),
            np.maximum(values[: data.own], 0.0),
            missing if short > SHORT / 2 else np.zeros(0),
        )
