"""Inference sizing: trying everything, Pyomo, columns and mixes find the same cost."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from inference_problems import a_problem, an_option, cheapest
from inference_strategies import problems

from alloc.models.inference_sizing import frontier, sizing_data
from alloc.problems.inference_sizing.problem import GpuPool
from alloc.solving.solver import solve
from alloc.verification.inference_sizing import verify_inference

QUIET = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@pytest.mark.long
@QUIET
@given(problems())
def test_every_models_finds_the_cost_of_trying_everything(problem):
    """The columns, the dynamic program of the mixes and the patterns each have room for error."""
    best = cheapest(problem)
    for method in ("auto", "columns", "pyomo"):
        outcome = solve(problem, backend=method)
        if best is None:
            assert outcome.certificate.status == "infeasible", method
            continue
        assert outcome.certificate.status == "optimal", method
        assert outcome.certificate.objective == pytest.approx(best), method
        assert outcome.certificate.bound <= best + 1e-6
        assert verify_inference(problem, outcome.solution) == []


def test_mixes_are_drawn_only_where_gpus_alone_decide():
    """Replicas of three GPUs leave one of four idle: no sum of GPUs sees that."""
    pool = GpuPool("own", "h100", 4, 2, 2.0, 80_000)
    nests = a_problem(1.0, options=(an_option(tensor=1), an_option(tensor=2)), pools=(pool,))
    not_nested = a_problem(1.0, options=(an_option(tensor=1), an_option(tensor=3)), pools=(pool,))
    two_rooms = a_problem(1.0, pools=(pool, dataclasses.replace(pool, name="b", gpus_per_host=8)))
    assert frontier(sizing_data(nests)) is not None
    assert frontier(sizing_data(not_nested)) is None
    assert frontier(sizing_data(two_rooms)) is None


def test_a_replica_does_not_straddle_hosts():
    """Two hosts of four GPUs hold two replicas of three, though eight GPUs would hold two more."""
    option = an_option(tensor=3)
    one = solve(a_problem(0.5, options=(option,)))
    contents = [c.replica_gpus for c in one.solution.contents]
    assert all(c == (3,) for c in contents)
    rate = 2.5
    two = solve(a_problem(rate, options=(option,)))
    three = solve(
        a_problem(rate, options=(option,), pools=(GpuPool("own", "h100", 3, 3, 2.0, 80_000),))
    )
    assert sum(g.replicas for g in three.solution.groups) == 3
    assert two.certificate.status == "infeasible"


def test_pooling_serves_more_than_its_share():
    """Why counts are columns: two replicas sustain more than twice what one does."""
    data = sizing_data(a_problem(5.0, pools=(GpuPool("own", "h100", 8, 4, 2.0, 80_000),)))
    columns = data.choices[0].columns
    best = {
        c.replicas: max(d.rates[0] for d in columns if d.replicas == c.replicas) for c in columns
    }
    assert best[2] > 2.05 * best[1]
    shares = [best[n] / n for n in sorted(best)][:-1]  # the last is cut at the demand
    assert shares == sorted(shares)


def test_held_hosts_are_paid_in_quiet_periods_too():
    """The busy hour decides how many hosts are held; the quiet one rents nothing more."""
    held = GpuPool("own", "h100", 4, 4, 1.0, 80_000, billing="held")
    outcome = solve(a_problem(3.0, 0.3, pools=(held,)))
    [(_, hosts)] = outcome.solution.held
    assert outcome.certificate.objective == pytest.approx(hosts * 4 * 1.0 * (1.0 + 2.0))
    dear = GpuPool("rented", "h100", 4, 4, 1.2, 80_000)
    both = solve(a_problem(3.0, 0.3, pools=(held, dear)))
    assert both.certificate.objective < outcome.certificate.objective
    assert both.certificate.status == "optimal"


def test_no_more_hosts_are_held_than_there_are_in_every_period():
    """Two hosts in one period and one in the other: both say that one can be held."""
    pool = GpuPool("own", "h100", 4, (2, 1), 1.0, 80_000, billing="held")
    free = dataclasses.replace(pool, hosts=2)
    busy = solve(a_problem(9.0, 0.3, pools=(free,)))
    [(_, hosts)] = busy.solution.held
    assert hosts == 2
    assert solve(a_problem(9.0, 0.3, pools=(pool,))).certificate.status == "infeasible"
    found = verify_inference(a_problem(9.0, 0.3, pools=(pool,)), busy.solution)
    assert [violation.code for violation in found] == ["held"]


def test_a_spare_replica_is_kept_for_a_failure():
    alone = solve(a_problem(1.5))
    spare = solve(a_problem(1.5, failures=1))
    replicas = [sum(g.replicas for g in o.solution.groups) for o in (alone, spare)]
    assert replicas[1] == replicas[0] + 1
    lost = dataclasses.replace(
        spare.solution,
        groups=tuple(
            dataclasses.replace(g, replicas=g.replicas - 1) for g in spare.solution.groups
        ),
    )
    found = {violation.code for violation in verify_inference(a_problem(1.5, failures=1), lost)}
    assert {"availability", "replicas_stand"} <= found
