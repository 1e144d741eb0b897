"""`alloc.model`: Pyomo models that users read, extend and hand to any solver."""

from __future__ import annotations

import shutil

import pyomo.environ as pyo
import pytest

import alloc
from alloc.errors import BackendUnavailableError, InstanceError, SolverError
from alloc.families import FAMILIES, verify
from alloc.instances import load
from alloc.topology import flat_cluster
from benchmarks.tiny.assignment import ASSIGNMENT
from benchmarks.tiny.families import FAMILIES as TINY

INSTANCE = load("elastic-tiny/01")
CBC = pytest.param(
    "cbc",
    marks=pytest.mark.skipif(shutil.which("cbc") is None, reason="CBC is not here"),
)


def problems():
    """Return a small problem of each family that is one of its own."""
    yield "right_sizing", TINY["sizing"].problem(3)
    yield "operation", TINY["operation"].problem(3)[0]
    yield "inference_sizing", TINY["inference"].problem(1)
    yield "quadratic_assignment", ASSIGNMENT.problem(3)
    yield "checkpointing", TINY["checkpointing"].problem(3)
    yield "pipeline", TINY["pipeline"].problem(3)
    yield "project", TINY["project"].problem(3)[0]


OF_INSTANCES = ("round", "malleable", "moldable", "admission", "placement", "sharing")


@pytest.mark.parametrize("solver", ["appsi_highs", CBC])
@pytest.mark.parametrize("name", OF_INSTANCES)
def test_any_solver_gives_a_checked_answer_to_an_instance(name, solver):
    built = alloc.model(INSTANCE, name)
    result = built.solve(solver)
    backend = "highs" if "arrays" in FAMILIES[name].models else "auto"
    own = alloc.solve(INSTANCE, name, backend, objective=built.objective)
    assert result.status == "optimal"
    assert result.objective == pytest.approx(own.objective)
    assert result.certificate.verified
    assert result.certificate.bound_proof == "claimed"
    assert built.extract() == result.solution


@pytest.mark.parametrize("solver", ["appsi_highs", CBC])
@pytest.mark.parametrize(("name", "problem"), list(problems()))
def test_any_solver_gives_a_checked_answer_to_every_family(name, problem, solver):
    result = alloc.model(problem).solve(solver)
    own = alloc.solve(problem)
    assert result.certificate.formulation == name
    assert result.objective == pytest.approx(own.objective, rel=1e-4)
    assert verify(problem, result.solution) == []


def test_a_side_constraint_takes_two_lines_and_the_certificate_says_so():
    built = alloc.model(INSTANCE, "round", "goodput")
    free = built.solve()
    assert free.objective > 0
    assert free.certificate.formulation == "round"
    assert free.certificate.fingerprint == INSTANCE.fingerprint
    assert free.assumptions == ()
    built.pyomo.at_most_none = pyo.Constraint(expr=sum(built.pyomo.x.values()) <= 0)
    bound = built.solve()
    assert bound.objective == 0
    assert bound.certificate.formulation == "round with own constraints"
    assert bound.certificate.fingerprint != INSTANCE.fingerprint
    assert "what its user added" in bound.assumptions[0]


@pytest.mark.parametrize("solver", ["appsi_highs", CBC])
@pytest.mark.parametrize("name", ["round", "malleable"])
def test_a_constraint_that_nothing_keeps_is_infeasible(name, solver):
    """The last solve's values are still in the variables: they are no answer to this one."""
    built = alloc.model(INSTANCE, name)
    assert built.solve(solver).status == "optimal"
    built.pyomo.never = pyo.Constraint(expr=sum(built.pyomo.x.values()) >= 10**6)
    result = built.solve(solver)
    assert result.status == "infeasible"
    assert result.solution is None
    assert "with what was added to it" in result.conflict


@pytest.mark.parametrize("name", ["round", "placement", "sharing"])
def test_what_a_constraint_names_is_what_the_answer_holds(name):
    """Each job in turn is kept out by its id; no other job has to be."""
    free = alloc.model(INSTANCE, name).solve().require_solution()
    for job in {a.job for a in free.assignments}:
        built = alloc.model(INSTANCE, name)
        own = [x for (owner, *_), x in built.pyomo.run.items() if owner == job]
        assert own
        built.pyomo.kept_out = pyo.Constraint(expr=pyo.quicksum(own) == 0)
        ids = {a.job for a in built.solve().require_solution().assignments}
        assert job not in ids


def test_a_job_is_kept_out_of_the_slots_that_a_constraint_names():
    built = alloc.model(INSTANCE, "malleable")
    job = INSTANCE.jobs[0].id
    early = [x for (owner, slot, _), x in built.pyomo.run.items() if owner == job and slot < 2]
    assert early
    built.pyomo.later = pyo.Constraint(expr=pyo.quicksum(early) == 0)
    runs = built.solve().require_solution().runs_of[job]
    assert min(run.start_s for run in runs) >= 2 * INSTANCE.slot_s


@pytest.mark.parametrize("name", ["round", "malleable"])
def test_a_constraint_may_forbid_what_dominates_another(name):
    """A configuration that no optimum needs is needed where a constraint takes the better one."""
    ways = tuple(
        alloc.Configuration((alloc.TaskGroup("worker", 2, 1000),), rate) for rate in (1.5, 1.7)
    )
    ways = (alloc.Configuration((alloc.TaskGroup("worker", 1, 1000),), 1.0), *ways)
    cluster = flat_cluster("one", alloc.HostType("k", 4, "a100"), 1)

    def problem(configurations):
        job = alloc.Job("a", 0.0, 90.0, configurations)
        return alloc.Instance("one", cluster, (job,), slot_s=10.0)

    built = alloc.model(problem(ways), name)
    fast = [x for key, x in built.pyomo.run.items() if key[-1] == "2 worker #2"]
    assert fast
    built.pyomo.slower = pyo.Constraint(expr=pyo.quicksum(fast) == 0)
    without = alloc.solve(problem(ways[:2]), name)
    assert built.solve().objective == pytest.approx(without.objective)


def test_limits_that_no_solver_of_pyomo_hears_are_refused():
    with pytest.raises(InstanceError, match="options of the solver"):
        alloc.model(INSTANCE, "round").solve(limits=alloc.Limits(seed=7))


def test_another_objective_is_refused():
    built = alloc.model(INSTANCE, "round")
    built.pyomo.utility.deactivate()
    built.pyomo.other = pyo.Objective(expr=sum(built.pyomo.x.values()), sense=pyo.maximize)
    with pytest.raises(InstanceError, match="the objective was changed"):
        built.solve()


@pytest.mark.parametrize("solver", ["appsi_highs", CBC])
@pytest.mark.parametrize("unit", [1e-9, 1e-7, 1e6])
def test_a_small_objective_is_handed_over_in_its_own_unit(unit, solver):
    """Solvers have absolute tolerances: with weights of 1e-9 everything was optimal."""
    for seed in range(8):
        tiny = TINY["colocation"].problem(seed)
        problem = tiny.replace(weights=[w * unit for w in tiny.weights])
        own, other = alloc.solve(problem), alloc.model(problem).solve(solver)
        assert other.objective == pytest.approx(own.objective, rel=2e-6), seed


def test_models_are_written_for_other_programs(tmp_path):
    built = alloc.model(INSTANCE, "round")
    built.write(tmp_path / "round.lp")
    assert "C2_capacity" in (tmp_path / "round.lp").read_text()
    built.write(tmp_path / "round.mps")
    assert "ENDATA" in (tmp_path / "round.mps").read_text()
    with pytest.raises(InstanceError, match=r"end the name in \.mps"):
        built.write(tmp_path / "round.foo")


def test_what_is_missing_is_said_in_a_sentence():
    built = alloc.model(INSTANCE, "round")
    with pytest.raises(SolverError, match="solve it first"):
        built.extract()
    with pytest.raises(BackendUnavailableError, match='"nonesuch" is not here'):
        built.solve("nonesuch")


def test_every_family_with_a_pyomo_model_is_among_them():
    tried = {*OF_INSTANCES, *(name for name, _ in problems())}
    written = {f.name for f in FAMILIES.values() if "pyomo" in f.models}
    # Held to enumeration elsewhere.
    assert written - tried <= {"colocation", "quota_planning", "saturn-spase"}
