"""Pools of 8-GPU hosts with classes of a few kinds, and the problem that they belong to."""

from __future__ import annotations

from alloc.planning.pools import Operation, Pool, Regime, Stream
from alloc.planning.replay import ReplaySettings
from alloc.problems.right_sizing import (
    HostOffer,
    JobClass,
    JobOption,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Site,
    Tightening,
)
from alloc.topology import HostType

QUICK = ReplaySettings(jobs=100, replications=3)


def job_class(name: str, gpus: int, hours: float, goal: ServiceGoal | None = None) -> JobClass:
    return JobClass(name, (JobOption("a100", gpus, hours), JobOption("h100", gpus, hours)), goal)


SHORT = job_class("short", 1, 1.0, ServiceGoal("wait", 0.5, 0.9))
FILLER = job_class("filler", 8, 10.0)
GANG = job_class("gang", 16, 4.0, ServiceGoal("wait", 100.0, 0.9))


def pool(
    hosts: int, *loads: tuple[JobClass, float], gpu_type: str = "a100", quarter: int = 0
) -> Operation:
    """Return a pool of 8-GPU hosts and classes with their loads in GPUs."""
    streams = tuple(
        Stream(found, 0, found.options[0].hours, load / found.options[0].gpu_hours)
        for found, load in loads
    )
    regime = Regime("1", quarter, 0)
    return Operation(Pool(gpu_type, "hall", False), regime, {8: hosts}, streams)


def problem(*tightening: Tightening) -> PlanningProblem:
    return PlanningProblem(
        name="rooms",
        currency="EUR",
        num_quarters=1,
        offers=tuple(
            HostOffer(f"{gpu}-host", HostType(gpu, 8, gpu), "purchase", 1e5)
            for gpu in ("a100", "h100")
        ),
        sites=(Site("hall"),),
        classes=(SHORT, FILLER, GANG),
        scenarios=(Scenario("1", 1.0, {"short": (1.0,), "filler": (1.0,), "gang": (0.1,)}),),
        pool_gpus=1000.0,
        tightening=tightening,
    )
