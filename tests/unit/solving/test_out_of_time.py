"""A limit within a step: what was found and proved until then is kept, and nothing else claimed."""

import math

import highspy
import numpy as np
import pytest
from operation_patterns import solve_by_patterns
from planning_worlds import world
from scipy import sparse

from alloc.backends import linear_program
from alloc.backends.linear_program import LinearProgram
from alloc.errors import OutOfTime, SolverError
from alloc.formulation import ArrayModel
from alloc.instances.operation import generate_operation
from alloc.models.placement.data import PlacementData
from alloc.objectives import parse_level
from alloc.problems.allocation.instance import Instance
from alloc.problems.colocation import ColocationProblem
from alloc.problems.operation.problem import OperationProblem
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.placement.admission import solve_admission
from alloc.solving.right_sizing.method import right_size
from alloc.topology import HostType, flat_cluster
from alloc.verification.operation import operation_costs, verify_operation
from alloc.verification.right_sizing import verify_plan
from alloc.workload import Configuration, Job, TaskGroup
from alloc.workload.interference import InterferenceTable

ONE = ArrayModel(
    "min",
    np.ones(1),
    sparse.csr_array(np.ones((1, 1))),
    np.ones(1),
    np.full(1, np.inf),
    np.zeros(1),
    np.full(1, 9.0),
    np.zeros(1, dtype=bool),
)


@pytest.mark.parametrize("word", ["Unknown", "Not Set"])
def test_whatever_word_a_limit_ends_with_is_a_limit(monkeypatch, word):
    """HiGHS' interior point method ends with "Unknown" there: that was an error."""
    status = {
        "Unknown": highspy.HighsModelStatus.kUnknown,
        "Not Set": highspy.HighsModelStatus.kNotset,
    }[word]
    monkeypatch.setattr(linear_program, "run_warm", lambda solver, seconds: None)
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda self: status)
    with pytest.raises(OutOfTime):
        LinearProgram(ONE).optimum("it", 0.0)
    with pytest.raises(SolverError, match=f'HiGHS ended it with "{word}", not with an optimum'):
        LinearProgram(ONE).optimum("it")


@pytest.fixture(params=[0, 1, 3])
def short(request, monkeypatch):
    """Let time be up within every linear program after so many of them."""
    honest, left = LinearProgram.solve, [request.param]

    def solve(self, seconds=math.inf, **options):
        self._stopped = left[0] <= 0
        left[0] -= 1
        return None if self._stopped else honest(self, seconds, **options)

    monkeypatch.setattr(LinearProgram, "solve", solve)
    monkeypatch.setattr(LinearProgram, "is_stopped", property(lambda self: self._stopped))
    monkeypatch.setattr(LinearProgram, "is_infeasible", property(lambda self: False))
    return monkeypatch


def an_operation() -> OperationProblem:
    return generate_operation(num_nodes=6, num_jobs=5, seed=2)


def test_patterns_of_nodes(short):
    found = solve_by_patterns(an_operation())
    short.undo()
    assert verify_operation(an_operation(), found.plan) == []
    best = solve(an_operation()).objective
    assert found.bound <= best * (1 + 1e-6)
    assert operation_costs(an_operation(), found.plan).total >= best * (1 - 1e-6)


def test_admission(short):
    way = (Configuration((TaskGroup("w", 2, 1000),), 1.0),)
    jobs = tuple(Job(f"j{k}", 0.0, 1.0, way, weight=1.0 + k) for k in range(5))
    instance = Instance("i", flat_cluster("c", HostType("h", 3, "a", 0, 0), 2), jobs)
    data, level = PlacementData.of(instance), parse_level("weight_placed")
    found = solve_admission(data, level, 20.0, lambda line: None)
    assert found.bound >= 12.0 - 1e-9
    assert found.value <= found.bound


def test_packing_of_gpus(short):
    table = InterferenceTable("gpu", ("a", "b"), np.ones(2), np.array([[0.7, 0.6], [0.9, 0.8]]))
    problem = ColocationProblem(["a", "b", "a", "b"], table, 2)
    packing = solve(problem)
    short.undo()
    best = solve(problem)
    assert packing.bound >= best.objective - 1e-9
    assert packing.objective <= best.objective + 1e-9


def test_right_sizing(short):
    """Without any linear program there is no plan; else what was found is kept, and is true."""
    result = right_size(world(), method="decomposition", limits=Limits(seconds=20, gap=1e-4))
    short.undo()
    best = right_size(world(), method="extensive", limits=Limits(gap=1e-6)).certificate.objective
    assert result.certificate.status in ("no_solution", "feasible", "optimal")
    assert result.certificate.bound <= best * (1 + 1e-6)
    if result.solution is not None:
        assert verify_plan(world(), result.solution) == []
        assert result.certificate.objective >= best * (1 - 1e-6)
