"""A small planning problem that tests change: a machine room and a cloud."""

from dataclasses import replace

from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    Owned,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Site,
    Tightening,
)
from alloc.topology import HostType

METHODS = ("extensive", "decomposition")
A100 = HostType("a100x8", 8, "a100")


def world(**changes) -> PlanningProblem:
    """A machine room and a cloud, two quarters, two futures."""
    problem = PlanningProblem(
        "world",
        "EUR",
        2,
        offers=(
            HostOffer("buy", A100, "purchase", 150_000.0, ("north",), idle_kw=1.5, busy_kw=5.0,
                      rack_units=6.0, residual_fraction=0.9),
            HostOffer("rent", A100, "on_demand", 24.0, ("cloud",)),
        ),
        sites=(Site("north", 60.0, power_kw=300.0, pue=1.3, energy_price_per_kwh=(0.2,),
                    carbon_kg_per_kwh=(0.3,)), Site("cloud")),
        classes=(
            JobClass("train", (JobOption("a100", 8, 10.0),), ServiceGoal("wait", 4.0)),
            JobClass("batch", (JobOption("a100", 1, 2.0),)),
        ),
        scenarios=(
            Scenario("low", 0.5, {"train": (1.0, 1.2), "batch": (5.0, 6.0)}),
            Scenario("high", 0.5, {"train": (1.5, 2.2), "batch": (7.0, 9.0)}),
        ),
    )  # fmt: skip
    return replace(problem, **changes)


def without_cloud(**changes) -> PlanningProblem:
    return world(offers=world().offers[:1], **changes)


def margins(**gpus: float) -> tuple[Tightening, ...]:
    """Margins of classes, wherever they run."""
    sites = ("north", "cloud")
    return tuple(Tightening(c, "a100", site, margin=m) for c, m in gpus.items() for site in sites)


def small_pools(**changes: object) -> PlanningProblem:
    """Two GPU types, one faster and dearer; a goal that small pools miss in the replay."""
    a100, h100 = HostType("a", 8, "a100"), HostType("h", 8, "h100")
    base = PlanningProblem(
        name="small",
        currency="EUR",
        num_quarters=2,
        offers=(
            HostOffer("a100-host", a100, "reserved", 1e4, service_quarters=1, idle_kw=1, busy_kw=4),
            HostOffer(
                "h100-host", h100, "reserved", 2.4e4, service_quarters=1, idle_kw=0.5, busy_kw=3
            ),
        ),
        sites=(Site("hall", energy_price_per_kwh=(0.1,), carbon_kg_per_kwh=(0.3,)),),
        classes=(
            JobClass(
                "train",
                (JobOption("a100", 8, 4.0), JobOption("h100", 8, 2.0)),
                goal=ServiceGoal("wait", 0.1, 0.95),
            ),
            JobClass("tune", (JobOption("a100", 1, 2.0), JobOption("h100", 1, 1.0))),
        ),
        scenarios=(
            Scenario("low", 0.5, {"train": (0.5, 0.5), "tune": (4.0, 4.0)}),
            Scenario("high", 0.5, {"train": (0.8, 0.9), "tune": (5.0, 8.0)}),
        ),
        owned=(Owned("a100-host", "hall", 1, 2),),
        # A pool far larger than it will be: the formula then promises too much.
        pool_gpus=4000.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]
