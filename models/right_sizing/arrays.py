"""The extensive form as sparse arrays: first stage, and a block for each scenario and quarter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from alloc.formulation import ArrayModel, BuiltModel
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.data import Array, Ints, SizingData
from alloc.models.right_sizing.first_stage import FirstStage, first_stage
from alloc.models.right_sizing.reading import read_plan
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem

Entries = tuple[Ints, Ints, Array]
"""Rows, columns and values of entries of a matrix."""


@dataclass(frozen=True, eq=False)
class Extensive:
    """The extensive form and how to read it.

    Parameters
    ----------
    model
        The mixed-integer linear program.
    first, blocks
        What it is made of: the first stage's columns come first, then the blocks', scenario by
        scenario and quarter by quarter.
    shape
        Scenarios, quarters, columns of a block.
    """

    model: ArrayModel
    first: FirstStage
    blocks: Blocks
    shape: tuple[int, int, int]

    def split(self, values: Array) -> tuple[Array, Array]:
        """Return the values of the first stage, and of the blocks in the shape `shape`."""
        begin = len(self.first.cost)
        return values[:begin], values[begin:].reshape(self.shape)


def extensive(
    data: SizingData,
    first: FirstStage | None = None,
    blocks: Blocks | None = None,
    unit: float = 1.0,
) -> Extensive:
    """Return the extensive form of a problem, with money in units of `unit`.

    Parameters
    ----------
    data
        The numbered problem.
    first
        The first stage; None to build it.
    blocks
        The blocks of the second stage; None to build them.
    unit
        Money in a unit of the objective, above 0, in the currency of the problem.
    """
    first = first_stage(data) if first is None else first
    blocks = Blocks(data) if blocks is None else blocks
    scenarios, quarters = data.demand.shape[:2]
    count, begin = scenarios * quarters, len(first.row_lower)
    limits, counted = _budgets(data)
    upper, varying, differing = blocks.uppers()
    uppers = np.tile(upper, (scenarios, quarters, 1))
    uppers[:, :, varying] = differing
    rows = {**first.rows}
    rows["blocks"] = slice(begin, begin + count * blocks.num_rows)
    rows["C16"] = slice(rows["blocks"].stop, rows["blocks"].stop + len(limits))
    weight = data.probability[:, None] * data.discount[None, :]
    cost = np.concatenate([first.cost, (weight[:, :, None] * blocks.cost).ravel()])
    parts = [_first_rows(first), *_block_rows(first, blocks, begin)]
    if len(limits):
        parts += _budget_rows(data, first, blocks, counted / unit, rows["C16"].start)
    row, column, value = (np.concatenate(each) for each in zip(*parts, strict=True))
    model = ArrayModel(
        sense="min",
        cost=cost / unit,
        matrix=sparse.coo_array((value, (row, column)), (rows["C16"].stop, len(cost))).tocsr(),
        row_lower=np.concatenate(
            [first.row_lower, blocks.right_hand_sides().ravel(), np.full(len(limits), -np.inf)]
        ),
        row_upper=np.concatenate(
            [first.row_upper, np.full(count * blocks.num_rows, np.inf), limits / unit]
        ),
        lower=np.concatenate([first.lower, np.zeros(count * blocks.num_columns)]),
        upper=np.concatenate([first.upper, uppers.ravel()]),
        integer=np.concatenate([first.integer, np.zeros(count * blocks.num_columns, dtype=bool)]),
        rows=rows,
    )
    return Extensive(model, first, blocks, (scenarios, quarters, blocks.num_columns))


# Entries are laid out at once: a sparse matrix for each block takes longer than solving them all.


def _entries(row: Ints, column: Ints, value: Array) -> Entries:
    """Return rows, columns and values of entries, broadcast against each other, without zeros."""
    row, column, value = np.broadcast_arrays(row, column, value)
    kept = value != 0
    return row[kept], column[kept], value[kept]


def _first_rows(first: FirstStage) -> Entries:
    own = first.matrix.tocoo()
    return _entries(own.row, own.col, own.data)


def _block_rows(first: FirstStage, blocks: Blocks, begin: int) -> Iterator[Entries]:
    """Yield the entries of the blocks: of their own, of the first stage, of what is waived."""
    scenarios, quarters = blocks.data.demand.shape[:2]
    number = np.arange(scenarios * quarters)[:, None]
    row, column = begin + number * blocks.num_rows, len(first.cost) + number * blocks.num_columns
    own, link = blocks.matrix.tocoo(), blocks.first_stage.tocoo()
    yield _entries(row + own.row, column + own.col, own.data)
    linked = np.array([first.linked(t) for t in range(quarters)])
    yield _entries(row + link.row, np.tile(linked[:, link.col], (scenarios, 1)), link.data)
    if len(first.waive):
        row = row.reshape(scenarios, quarters, 1) + np.arange(blocks.num_rows)
        yield _entries(row, first.waive[:, None, None], blocks.waived())


def _budgets(data: SizingData) -> tuple[Array, Array]:
    """(C16) Return the budgets, money, and which quarters each counts, (budgets, quarters)."""
    limits = list(data.problem.quarter_budgets)
    counted = np.eye(data.num_quarters)[: len(limits)]
    if data.problem.budget is not None:
        limits.append(data.problem.budget)
        counted = np.vstack([counted, np.ones((1, data.num_quarters))])
    return np.array(limits), counted


def _budget_rows(
    data: SizingData, first: FirstStage, blocks: Blocks, counted: Array, begin: int
) -> Iterator[Entries]:
    """Yield the entries of the budgets' rows: orders and upkeep, running costs as expected."""
    row, spent = begin + np.arange(len(counted)), first.spent.tocoo()
    yield _entries(row[:, None], spent.col, counted[:, spent.row] * spent.data)
    quarter = np.tile(np.arange(data.num_quarters), len(data.probability))
    each = np.repeat(data.probability, data.num_quarters)[:, None] * blocks.cost
    columns = len(first.cost) + np.arange(each.size).reshape(each.shape)
    budget, block = np.nonzero(counted[:, quarter])
    share = counted[budget, quarter[block]]
    yield _entries(row[budget, None], columns[block], share[:, None] * each[block])


def build_arrays(problem: PlanningProblem, objective: str = "cost") -> BuiltModel:
    """Return the extensive form as sparse arrays, with the way back to a plan.

    Parameters
    ----------
    problem
        Its goal says what is optimised.
    objective
        `cost`, the only one of the family.
    """
    data = SizingData(problem)
    form = extensive(data)

    def plan(values: Array) -> Plan:
        first, running = form.split(values)
        return read_plan(data, form.first, form.blocks, first, running)

    return BuiltModel(form.model, plan)
