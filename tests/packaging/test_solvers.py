"""The solver pins: why they stand, run against what is installed."""

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize("order", [("highspy", "ortools"), ("ortools", "highspy")])
def test_highs_and_ortools_share_a_process(order):
    """highspy 1.15 and ortools carry two libhighs.so.1: the second to load fails."""
    load = {
        "highspy": "import highspy; highspy.Highs().setOptionValue('output_flag', False)",
        "ortools": (
            "from ortools.sat.python import cp_model;"
            "cp_model.CpSolver().solve(cp_model.CpModel());"
            "from ortools.linear_solver import pywraplp"
        ),
    }
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(load[name] for name in order)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "refused"), [("highspy", ["1.14.0", "1.15.0", "1.15.1"]), ("ortools", ["9.16.0"])]
)
def test_the_pin_refuses_what_was_seen_to_fail(name, refused):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    assert version(name) in pins[name]
    assert not any(release in pins[name] for release in refused)


# min 2x + y subject to 2x + y >= 10, x binary, y >= 9. By hand: x = 0 gives y = 10 and 10, x = 1
# gives y = 9 and 11. highspy 1.14.0 says 11 and calls it optimal.


def test_highspy_solves_the_false_optimum():
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    x, y = highs.addBinary(), highs.addVariable(lb=9)
    highs.addConstr(2 * x + y >= 10)
    highs.minimize(2 * x + y)
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    assert highs.getInfo().objective_function_value == pytest.approx(10)
    assert highs.getInfo().mip_dual_bound == pytest.approx(10)


def test_pyomo_with_highs_solves_the_false_optimum():
    import pyomo.environ as pyo
    from pyomo.contrib.appsi.solvers import Highs

    model = pyo.ConcreteModel()
    model.x = pyo.Var(domain=pyo.Binary)
    model.y = pyo.Var(bounds=(9, None))
    model.cover = pyo.Constraint(expr=2 * model.x + model.y >= 10)
    model.total = pyo.Objective(expr=2 * model.x + model.y)
    assert Highs().solve(model).best_feasible_objective == pytest.approx(10)


def test_scipy_solves_the_false_optimum():
    # scipy carries a HiGHS of its own.
    from scipy.optimize import Bounds, LinearConstraint, milp

    answer = milp(
        c=np.array([2, 1]),
        integrality=np.array([1, 0]),
        bounds=Bounds([0, 9], [1, np.inf]),
        constraints=LinearConstraint(np.array([[2, 1]]), lb=10),
    )
    assert answer.fun == pytest.approx(10)


def test_cp_sat_solves_the_false_optimum():
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    x, y = model.new_bool_var("x"), model.new_int_var(9, 100, "y")
    model.add(2 * x + y >= 10)
    model.minimize(2 * x + y)
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    assert solver.objective_value == 10
