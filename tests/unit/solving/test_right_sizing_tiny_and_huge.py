"""Right-sizing of a billionth of a GPU, and of a trillion of them."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from planning_strategies import with_demand
from planning_worlds import METHODS

from alloc.errors import InstanceError
from alloc.instances.planning import generate_planning
from alloc.models.right_sizing import SizingData
from alloc.models.right_sizing.blocks import Blocks
from alloc.models.right_sizing.reading import read_plan
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Owned,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Site,
)
from alloc.problems.right_sizing.accounting import usable_gpus
from alloc.result import Limits
from alloc.solving.outcome import Settings
from alloc.solving.right_sizing.method import Method, right_size
from alloc.solving.right_sizing.relaxation import Relaxation
from alloc.topology import HostType
from alloc.verification.right_sizing import verify_plan

TIGHT = Limits(seconds=20, gap=1e-6)


def rented_or_bought(jobs: float, money: float, most_hosts: int | None = 4) -> PlanningProblem:
    """Return a plan in which a few hosts may be rented, spot ones too, and larger ones bought."""
    one, four = HostType("one", 1, "a"), HostType("four", 4, "a")
    work = JobClass(
        "work", (JobOption("a", 1, 1.0),), interruptible=True, spot_overhead=0.2, deferrable=True
    )
    return PlanningProblem(
        "little",
        "EUR",
        1,
        (
            HostOffer("spot", four, "spot", 0.256 * money, (), most_hosts),
            HostOffer("buy", four, "purchase", 104.0 * money, service_quarters=1),
            HostOffer("rent", one, "on_demand", 0.3 * money, (), most_hosts),
        ),
        (Site("cloud"),),
        (work,),
        (Scenario("only", 1.0, {"work": (jobs,)}, (0.5,)),),
        quarter_hours=168.0,
    )


@pytest.mark.parametrize("money", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("jobs", [1e-9, 1e-6, 1e-3])
def test_a_limit_far_above_all_demand_leaves_the_bound_as_it_is(jobs: float, money: float) -> None:
    """Slack then costs no more than renting; it was 1e14 times as much, and the bound 0."""
    limited, free = (
        right_size(rented_or_bought(jobs, money, most), limits=TIGHT, method="decomposition")
        for most in (4, None)
    )
    assert limited.certificate.status == "optimal"
    cost = free.certificate.objective
    assert limited.certificate.objective == pytest.approx(cost, rel=1e-5, abs=0.0)
    assert limited.certificate.bound == pytest.approx(cost, rel=1e-5, abs=0.0)


def test_slack_costs_more_than_hosts_where_too_few_can_be_rented() -> None:
    """Of forty busy GPUs, twelve can be rented; seven hosts of four are bought for the rest."""
    result = right_size(rented_or_bought(40.0, 1.0), limits=TIGHT, method="decomposition")
    assert result.certificate.status == "optimal"
    assert verify_plan(rented_or_bought(40.0, 1.0), result.solution) == []
    assert sum(order.count for order in result.solution.orders) >= 7


def after_a_dear_quarter(budget: float, jobs: float = 0.25) -> PlanningProblem:
    """Return a plan of 500,000 GPUs in the first quarter, and next to none in the second."""
    rent = HostOffer("rent", HostType("one", 1, "a"), "on_demand", 0.25)
    return PlanningProblem(
        "two budgets",
        "EUR",
        2,
        (rent,),
        (Site("cloud"),),
        (JobClass("work", (JobOption("a", 1, 1.0),)),),
        (Scenario("only", 1.0, {"work": (5e5, jobs)}),),
        quarter_hours=1000.0,
        quarter_budgets=(2e8, budget),
    )


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
def test_a_budget_of_less_than_a_millionth_of_all_spending_is_kept(method) -> None:
    """The second quarter costs 66, the first 132 million: a millionth of it is twice as much."""
    kept = right_size(after_a_dear_quarter(66.0), limits=TIGHT, method=method)
    assert kept.certificate.status == "optimal"
    assert verify_plan(after_a_dear_quarter(66.0), kept.solution) == []
    tight = after_a_dear_quarter(60.0)
    broken = verify_plan(tight, kept.solution)
    assert [violation.code for violation in broken] == ["budget"]
    refused = right_size(tight, limits=TIGHT, method=method)
    assert refused.certificate.status == "infeasible"


def huge() -> PlanningProblem:
    """Return a plan of two trillion GPUs, all of which are best reserved at one site."""
    twice = (1.0,) * 12 + (3.0,) * 12
    both = (JobOption("a", 2, 1.0), JobOption("b", 4, 0.5))
    one = (JobOption("a", 2, 1.0), JobOption("b", 1, 0.5))
    jobs = {"late": (5e11,), "now": (5e11,)}
    reserve = HostOffer("reserve", HostType("b", 1, "b"), "reserved", 5.5, ("east",))
    return PlanningProblem(
        "huge",
        "EUR",
        1,
        (reserve, HostOffer("rent", HostType("a", 1, "a"), "on_demand", 0.3)),
        (Site("east"), Site("cloud")),
        (
            JobClass("late", both, ServiceGoal("wait", 1.0, 0.95), deferrable=True),
            JobClass("now", one, ServiceGoal("wait", 0.5, None), hourly_profile=twice),
        ),
        (Scenario("only", 1.0, jobs),),
        quarter_hours=168.0,
        failures=1,
    )


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
def test_a_plan_of_a_trillion_gpus_is_found_and_kept(method) -> None:
    result = right_size(huge(), limits=TIGHT, method=method)
    assert result.certificate.status == "optimal"
    assert verify_plan(huge(), result.solution) == []


def test_a_few_of_a_trillion_gpus_are_read_as_none() -> None:
    """A solver leaves them anywhere, in a pool without a host too."""
    problem = huge()
    data = SizingData(problem)
    first, blocks = Relaxation(data, Settings(10.0), 1e-6).first, Blocks(data)
    running = np.zeros((1, 1, blocks.num_columns))
    in_use: dict[int, int] = {}
    for k, mode in enumerate(data.modes):
        if mode.spot:
            continue
        site = problem.sites[data.pools[mode.pool].site].name
        is_main = (data.pools[mode.pool].gpu_type, site) == ("b", "east")
        most = data.demand[0, 0, mode.job_class] * mode.gpus_per_unit
        running[0, 0, blocks.columns.mode[k]] = (2.0 if is_main else 5e-10) * most
        in_use[mode.job_class] = in_use.get(mode.job_class, 0) + 1
    assert all(count > 1 for count in in_use.values())
    running /= blocks.scale
    plan = read_plan(data, first, blocks, np.zeros(len(first.cost)), running)
    assert plan.shares
    assert {(share.site, share.option) for share in plan.shares} == {("east", 1)}


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("night", [1e-8, 1e-10, 1e-12])
@pytest.mark.parametrize("jobs", [1e-9, 1.0, 1e6, 1e8, 1e12])
def test_the_little_that_comes_at_night_is_served(jobs, night, deferrable, method) -> None:
    """Next to nothing of the day's, and all that there is then."""
    work = JobClass(
        "work",
        (JobOption("a", 1, 1.0),),
        deferrable=deferrable,
        hourly_profile=(1.0,) * 12 + (night,) * 12,
    )
    problem = PlanningProblem(
        "nights",
        "EUR",
        1,
        (HostOffer("rent", HostType("one", 1, "a"), "on_demand", 0.25),),
        (Site("cloud"),),
        (work,),
        (Scenario("only", 1.0, {"work": (jobs,)}),),
        quarter_hours=168.0,
    )
    result = right_size(problem, limits=TIGHT, method=method)
    assert result.certificate.status == "optimal"
    assert verify_plan(problem, result.solution) == []


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
@pytest.mark.parametrize("part", [0.5, 0.99, 1.01])
@pytest.mark.parametrize("jobs", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_a_budget_within_a_solvers_tolerance_is_no_error(jobs, part, method) -> None:
    """Of a billionth of all spending a solver tells no more; a plan or none, but an answer."""
    limited = after_a_dear_quarter(part * jobs * 250.0 / 0.95).replace(
        scenarios=(Scenario("only", 1.0, {"work": (5e5, jobs)}),)
    )
    free = right_size(limited.replace(quarter_budgets=()), limits=TIGHT, method=method)
    result = right_size(limited, limits=TIGHT, method=method)
    if result.solution is not None:
        assert verify_plan(limited, result.solution) == []
        cost = free.certificate.objective
        assert result.certificate.objective == pytest.approx(cost, rel=1e-6)
    if part > 1:
        assert result.certificate.status == "optimal"


@pytest.mark.parametrize("demand", [1e-9, 1e-6])
@pytest.mark.parametrize("seed", [728219, 786280])
def test_owned_hosts_far_dearer_than_the_work_decide_nothing(seed: int, demand: float) -> None:
    """Work cost a millionth of them, and one program called a plan optimal that wasted some."""
    problem = generate_planning("owned", num_host_types=6, num_sites=2, num_quarters=3,
                                num_classes=8, num_scenarios=2, gpus=10, spread=0.6, failures=2,
                                own=0.8, power_share=0.2, seed=seed)  # fmt: skip
    little = with_demand(problem, demand)
    one, many = (
        right_size(little, limits=TIGHT, method=method).certificate
        for method in ("extensive", "decomposition")
    )
    assert one.objective == pytest.approx(many.objective, rel=1e-7)
    assert one.bound <= many.objective * (1 + 1e-7)


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("load", [1e-9, 1e-3, 1.2, 3.0])
def test_hosts_of_two_sizes_count_as_the_checker_counts_them(
    load: float, failures: int, method: Method
) -> None:
    """Whatever owned hosts cannot be counted on is rented, and no more."""
    four, one = HostType("four", 4, "a"), HostType("one", 1, "a")
    owned_kinds = (
        HostOffer("large", four, "reserved", 0.0, service_quarters=1),
        HostOffer("small", one, "reserved", 0.0, service_quarters=1),
    )
    rent = HostOffer("rent", one, "on_demand", 1.0)
    for large in range(3):
        for small in range(5):
            counts = {"large": large, "small": small}
            problem = PlanningProblem(
                "two sizes",
                "EUR",
                1,
                (*(dataclasses.replace(kind, most_hosts=0) for kind in owned_kinds), rent),
                (Site("here"),),
                (JobClass("work", (JobOption("a", 1, 1.0),)),),
                (Scenario("only", 1.0, {"work": (load,)}),),
                tuple(Owned(name, "here", count, 1) for name, count in counts.items() if count),
                quarter_hours=1.0,
                failures=failures,
                utilisation=1.0,
            )
            owned = {(name, "here"): np.array([float(n)]) for name, n in counts.items()}
            usable = float(usable_gpus(problem, owned)["a", "here"][0])
            result = right_size(problem, method=method, limits=TIGHT)
            assert verify_plan(problem, result.solution) == []
            assert result.certificate.objective == pytest.approx(
                max(load - usable, 0.0), rel=1e-6, abs=1e-9 * load
            )


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
@pytest.mark.parametrize("part", [0.99, 1.0001])
@pytest.mark.parametrize("jobs", [0.25, 0.0025, 0.0005, 0.00005])
def test_a_budget_of_next_to_nothing_of_all_spending_decides(
    jobs: float, part: float, method: Method
) -> None:
    """The second quarter costs down to a ten-billionth of the first, and its budget is missed."""
    cost = 1000.0 * 0.25 * jobs / 0.95
    problem = after_a_dear_quarter(part * cost, jobs)
    result = right_size(problem, limits=TIGHT, method=method)
    assert result.certificate.status == ("infeasible" if part < 1 else "optimal")


@pytest.mark.parametrize("method", ["extensive", "decomposition"])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_pools_of_a_few_million_hosts_are_filled_beside_a_trillion(
    failures: int, method: Method
) -> None:
    """What a solver leaves of its tolerance in them is nothing of the demand."""
    one, two = HostType("one", 1, "a"), HostType("two", 2, "b")
    prices = (0.1,) * 12 + (0.4,) * 12
    offers = (
        HostOffer(
            "firm", one, "purchase", 24.0, (), None, 0, 2, residual_fraction=0.5,
            idle_kw=0.2, busy_kw=0.5,
        ),
        HostOffer("other", two, "purchase", 1412.0, ("east",), service_quarters=1, busy_kw=0.5),
        HostOffer("rent", one, "on_demand", 7.18),
    )  # fmt: skip
    problem = PlanningProblem(
        "full pools",
        "EUR",
        2,
        offers,
        (Site("east", ports=5e12, pue=1.5, energy_price_per_kwh=prices), Site("cloud")),
        (JobClass("work", (JobOption("a", 1, 3.0), JobOption("a", 4, 0.5)), critical=True),),
        (
            Scenario("much", 0.5, {"work": (3e12, 1e12)}),
            Scenario("late", 0.5, {"work": (0.0, 1e12)}),
        ),
        (Owned("firm", "east", 10**6, 2), Owned("other", "east", 10**6, 1)),
        quarter_hours=168.0,
        failures=failures,
        bands=2,
        discount_rate=0.1,
        pool_gpus=8e12,
    )
    result = right_size(problem, limits=TIGHT, method=method)
    assert result.certificate.status == "optimal"
    assert verify_plan(problem, result.solution) == []


@pytest.mark.parametrize("method", METHODS)
def test_owned_hosts_that_cost_more_than_the_budget_are_refused_beside_next_to_no_demand(method):
    """The search of HiGHS fails on it without presolve, which its faint entries ask for."""
    host, larger = HostType("host-a", 1, "a"), HostType("host-a", 2, "a")
    day, night = [1e11] * 12, [4e11] * 12
    shared: dict[str, Any] = {
        "goal": ServiceGoal("wait", 1.0),
        "interruptible": True,
        "spot_overhead": 0.2,
        "deferrable": True,
        "hourly_profile": (1.0,) * 12 + (3.0,) * 12,
        "loss_per_job": 5e11,
    }
    problem = PlanningProblem(
        "dear",
        "EUR",
        3,
        (
            HostOffer("spot", larger, "spot", 1.28e11, ("east",), 5),
            HostOffer("reserved", host, "reserved", 9.5e12, ("east",), 2, service_quarters=2,
                      idle_kw=0.2, busy_kw=0.5),
            HostOffer("rented", host, "on_demand", 5e10),
            HostOffer("rent", host, "on_demand", 3e11),
        ),
        (Site("east", power_kw=4.0, pue=1.5, energy_price_per_kwh=(*day, *night)), Site("cloud")),
        (
            JobClass("one", (JobOption("a", 1, 1.0),), sites=("east", "cloud"), **shared),
            JobClass("two", (JobOption("a", 2, 1.0),), sites=("east",), **shared),
        ),
        (
            Scenario("low", 0.5, {"one": (5e-10, 0.0, 1e-9), "two": (1e-9,) * 3}),
            Scenario("high", 0.5, {"one": (1e-9, 5e-10, 5e-10), "two": (1e-9,) * 3}, (0.5,) * 3),
        ),
        (Owned("reserved", "east", 2, 1),),
        quarter_hours=168.0,
        budget=3.3e11,
        failures=2,
    )  # fmt: skip
    assert right_size(problem, method=method).certificate.status == "infeasible"


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_that_is_rounding_beside_a_host_is_refused_with_the_cure(method: Method) -> None:
    """A plan for a budget of 6e-9 spent ten times as much: one host costs a million."""
    problem = rented_or_bought(1e-9, 1.0)
    spot, dear, rent = problem.offers
    dear = dataclasses.replace(dear, price=2e6)
    world = problem.replace(offers=(spot, dear, rent), budget=1e-9)
    with pytest.raises(InstanceError, match='offer "buy": a host costs 2e') as refused:
        right_size(world, method=method, limits=TIGHT)
    assert "leave the offer out" in str(refused.value)
    cured = right_size(world.replace(offers=(spot, rent)), method=method, limits=TIGHT)
    assert cured.certificate.status in ("optimal", "infeasible")
