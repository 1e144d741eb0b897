"""F4 as sparse arrays (matrix form): one column for every row of tasks and host."""

from __future__ import annotations

import numpy as np

from alloc.formulation import Array, ArrayModel, BuiltModel
from alloc.model_builder import Index
from alloc.models.placement.facts import Facts
from alloc.models.placement.measures import Measures
from alloc.models.placement.program import Program
from alloc.objectives import Held, WeightedSum, parse_level
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Solution


def build_arrays(instance: Instance, objective: str, held: tuple[Held, ...] = ()) -> BuiltModel:
    """Build a placement as arrays.

    Parameters
    ----------
    instance
        The problem.
    objective
        A level of a goal.
    held
        Earlier levels and the values that they must keep.
    """
    level = parse_level(objective)
    program, model = build(instance, level, held)
    return BuiltModel(model, Reader(program), Starter(program))


def build(
    instance: Instance, level: WeightedSum, held: tuple[Held, ...] = ()
) -> tuple[Program, ArrayModel]:
    """Return the program of a level and its arrays.

    Parameters
    ----------
    instance
        The problem.
    level
        The level of the goal to optimise.
    held
        Earlier levels, with the values that they must keep.
    """
    facts = Facts(instance, (level, *(each.level for each in held)))
    program = Program(facts)
    measures = Measures(program)
    goal = measures.of(level)
    for each in held:
        kept = measures.of(each.level)
        limit = each.limit - kept.constant
        terms = [(kept.column, kept.value)]
        if each.level.sense == "max":
            program.builder.row("held", terms, lower=limit)
        else:
            program.builder.row("held", terms, upper=limit)
    cost = np.zeros(program.builder.num_columns)
    np.add.at(cost, goal.column, goal.value)
    return program, program.builder.model(level.sense, goal.constant, cost=cost)


class Reader:
    """Turns values of a program's columns into an allocation."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __call__(self, values: Array) -> Allocation:
        """Return the allocation of rounded values."""
        program = self.program
        y: Index = np.zeros(program.at.shape, dtype=np.int64)
        y[program.y_row, program.y_host] = np.rint(values[program.y]).astype(np.int64)
        return program.facts.allocation(np.rint(values[program.x]), y)


class Starter:
    """Turns an allocation into values of a program's columns, as far as it says them."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __call__(self, solution: Solution) -> Array | None:
        """Return values, NaN for the columns of rules and objectives."""
        if not isinstance(solution, Allocation):
            return None
        return self.program.values(*self.program.facts.gathered(solution))
