"""The integer program of the hosts of a plan whose jobs stay, and how it is solved.

Parameters
----------
h, regime
    Number of a rental option; scenario, quarter and band of hours.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from alloc.backends import SolverOptions, highs
from alloc.formulation import Array, ArrayModel, RawResult
from alloc.models.right_sizing.data import SizingData
from alloc.models.right_sizing.first_stage import FirstStage
from alloc.planning.pools import Pool, Regime
from alloc.problems.right_sizing.plan import Rental

# Relative gap of the hosts: a tenth of that to which plans are solved.
_GAP = 1e-3
# Relative gap, to the linear program, at which whole numbers next to those of it are near enough:
# that to which plans are solved.
_NEAR = 0.01
# Relative gap from which on hosts are dear for lack of time, and the plan is better left as it is.
_POOR = 0.03
# Part of a host by which a whole number of hosts may be missed: round-off.
_ROUND_OFF = 1e-6


@dataclass
class MoreRows:
    """Rows and columns beside those of the first stage.

    Parameters
    ----------
    begin_row, begin
        Rows and columns of the first stage.
    """

    begin_row: int
    begin: int
    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    rows: list[tuple[list[tuple[int, float]], float]] = field(default_factory=list)
    """Entries, and the least that they come to."""

    def column(self, cost: float, upper: float) -> int:
        """Add a column from 0 on, and return its position.

        Parameters
        ----------
        cost
            Money for one.
        upper
            The most of it, 0 or more.
        """
        self.cost.append(cost)
        self.upper.append(upper)
        return self.begin + len(self.cost) - 1

    def row(self, entries: list[tuple[int, float]], least: float) -> int:
        """Add a row of entries that come to no less, and return its position.

        Parameters
        ----------
        entries
            Columns and their coefficients.
        least
            The least that they come to.
        """
        self.rows.append((entries, least))
        return self.begin_row + len(self.rows) - 1

    def model(self, first: FirstStage, unit: float) -> ArrayModel:
        """Return these beside the first stage.

        Parameters
        ----------
        first
            The first stage that these follow.
        unit
            The unit of money, above 0.
        """
        more = len(self.cost)
        lengths = [len(entries) for entries, _ in self.rows]
        value = [v for entries, _ in self.rows for _, v in entries]
        column = [c for entries, _ in self.rows for c, _ in entries]
        row = np.repeat(np.arange(len(self.rows)), lengths)
        own = sparse.hstack([first.matrix, sparse.csr_array((first.matrix.shape[0], more))])
        added = sparse.coo_array((value, (row, column)), (len(self.rows), self.begin + more))
        return ArrayModel(
            sense="min",
            cost=np.concatenate([first.cost, self.cost]) / unit,
            matrix=sparse.vstack([own, added], format="csr"),
            row_lower=np.concatenate([first.row_lower, [least for _, least in self.rows]]),
            row_upper=np.concatenate([first.row_upper, np.full(len(self.rows), np.inf)]),
            lower=np.concatenate([first.lower, np.zeros(more)]),
            upper=np.concatenate([first.upper, self.upper]),
            integer=np.concatenate([first.integer, np.zeros(more, dtype=bool)]),
        )


@dataclass(frozen=True)
class HostsProgram:
    """The integer program of the hosts of a plan whose jobs stay, money in units of `money_unit`.

    Parameters
    ----------
    data, first
        What it is made of: the problem and its first stage.
    model
        The program; of needs as many rows as pools with rented hosts have regimes, and one a
        quarter of each other pool.
    rented
        Columns of hosts rented in a regime, with the position of the rental option.
    on_spot
        Rentals on spot hosts, which are no choice.
    row_of
        Rows of needs, by pool and regime or quarter.
    lacking
        Columns of GPUs that pools require and cannot have.
    """

    data: SizingData
    first: FirstStage
    model: ArrayModel
    rented: tuple[tuple[int, int, Regime], ...]
    on_spot: tuple[Rental, ...]
    row_of: Mapping[tuple[Pool, Regime | int], int]
    lacking: tuple[int, ...]


def solved(model: ArrayModel, seconds: float) -> RawResult | None:
    """Return the cheapest hosts, or None where none are known to be near that.

    Of a thousand whole numbers in hundreds of pools nearly all are whole in the linear program too.
    With each within a host of the whole numbers next to that, HiGHS takes about a second where it
    finds no solution of the whole program in five; the linear program says how good it is.

    Parameters
    ----------
    model
        The program.
    seconds
        Wall time, more than 0.

    Raises
    ------
    KeyboardInterrupt
        If it comes meanwhile.
    """
    ends = time.monotonic() + seconds
    relaxed = _run(replace(model, integer=np.zeros_like(model.integer)), seconds)
    if relaxed.values is None:
        return None
    # Full sites have no room to round up, and what the model asks for none to round down: a host
    # more or less where there are some makes room.
    some = relaxed.values > _ROUND_OFF
    down = np.floor(relaxed.values + _ROUND_OFF) - some
    up = np.ceil(relaxed.values - _ROUND_OFF) + some
    next_to = replace(
        model,
        lower=np.where(model.integer, np.maximum(model.lower, down), model.lower),
        upper=np.where(model.integer, np.minimum(model.upper, up), model.upper),
    )
    found = _run(next_to, max(ends - time.monotonic(), _ROUND_OFF))
    if _gap(found, relaxed.bound) <= _NEAR:
        return found
    bound, left = relaxed.bound, ends - time.monotonic()
    if left > 0:
        whole = _run(model, left, found.values)
        bound = max(bound, whole.bound)
        found = whole if whole.values is not None else found
    return found if _gap(found, bound) <= _POOR else None


def _run(model: ArrayModel, seconds: float, start: Array | None = None) -> RawResult:
    raw = highs.solve(model, SolverOptions(seconds, gap=_GAP, start=start))
    if raw.limit == "interrupt":
        raise KeyboardInterrupt
    return raw


def _gap(raw: RawResult, bound: float) -> float:
    """Return how far a solution may be above a bound, over its cost; infinite without one."""
    if raw.values is None or raw.objective is None:
        return np.inf
    return (raw.objective - bound) / max(abs(raw.objective), _ROUND_OFF)
