"""The extensive form as sparse arrays: first stage, and a block for each scenario and quarter."""

from __future__ import annotations

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
    """Return the extensive form of a problem, with money in units of `unit`."""
    first = first_stage(data) if first is None else first
    blocks = Blocks(data) if blocks is None else blocks
    scenarios, quarters = data.demand.shape[:2]
    n, count = len(first.cost), scenarios * quarters
    links, lower = [], []
    right, waived, uppers = blocks.right_hand_sides(), blocks.waived(), blocks.uppers()
    for w in range(scenarios):
        for t in range(quarters):
            place = _spread(blocks.first_stage, first.linked(t), n)
            if len(first.waive):
                lift = np.flatnonzero(waived[w, t])
                at = (lift, np.full(len(lift), first.waive[w]))
                place = place + sparse.coo_array((waived[w, t, lift], at), shape=place.shape)
            links.append(place)
            lower.append(right[w, t])
    weight = data.probability[:, None] * data.discount[None, :]
    block_cost = (weight[:, :, None] * blocks.cost).ravel()
    body = [
        [first.matrix, None],
        [
            sparse.vstack(links, format="csr"),
            sparse.block_diag([blocks.matrix] * count, format="csr"),
        ],
    ]
    budget, limits = _budget(data, first, blocks, unit)
    if len(limits):
        body.append(budget)
    matrix = sparse.block_array(body, format="csr")
    rows = {**first.rows}
    begin = len(first.row_lower)
    rows["blocks"] = slice(begin, begin + count * blocks.num_rows)
    rows["C16"] = slice(rows["blocks"].stop, rows["blocks"].stop + len(limits))
    model = ArrayModel(
        sense="min",
        cost=np.concatenate([first.cost, block_cost]) / unit,
        matrix=matrix,
        row_lower=np.concatenate([first.row_lower, *lower, np.full(len(limits), -np.inf)]),
        row_upper=np.concatenate(
            [first.row_upper, np.full(count * blocks.num_rows, np.inf), limits]
        ),
        lower=np.concatenate([first.lower, np.zeros(count * blocks.num_columns)]),
        upper=np.concatenate([first.upper, uppers.ravel()]),
        integer=np.concatenate([first.integer, np.zeros(count * blocks.num_columns, dtype=bool)]),
        rows=rows,
    )
    return Extensive(model, first, blocks, (scenarios, quarters, blocks.num_columns))


def _spread(matrix: sparse.csr_array, columns: Ints, width: int) -> sparse.csr_array:
    found = matrix.tocoo()
    at = (found.row, columns[found.col])
    return sparse.coo_array((found.data, at), shape=(matrix.shape[0], width)).tocsr()


def _budget(
    data: SizingData, first: FirstStage, blocks: Blocks, unit: float
) -> tuple[list[sparse.csr_array], Array]:
    """(C16) Budgets of each quarter and of the whole plan, running costs as expected."""
    quarters = data.num_quarters
    limits = list(data.problem.quarter_budgets)
    chosen = np.eye(quarters) if limits else np.zeros((0, quarters))
    if data.problem.budget is not None:
        limits.append(data.problem.budget)
        chosen = np.vstack([chosen, np.ones((1, quarters))])
    choose = sparse.csr_array(chosen / unit)
    running = sparse.hstack(
        [
            sparse.kron(
                sparse.csr_array(np.eye(quarters)[:, [t]]), probability * blocks.cost[None, :]
            )
            for probability in data.probability
            for t in range(quarters)
        ],
        format="csr",
    )
    return [(choose @ first.spent).tocsr(), (choose @ running).tocsr()], np.array(limits) / unit


def build_arrays(problem: PlanningProblem, objective: str = "cost") -> BuiltModel:
    """Return the extensive form as sparse arrays, with the way back to a plan."""
    data = SizingData(problem)
    form = extensive(data)

    def plan(values: Array) -> Plan:
        first, running = form.split(values)
        return read_plan(data, form.first, form.blocks, first, running)

    return BuiltModel(form.model, plan)
