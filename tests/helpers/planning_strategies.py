"""Hypothesis strategies for planning problems: ``from planning_strategies import problems``.

Small and tame, but of every shape: pools with hosts of several sizes and powers, rented hosts
beside bought ones, owned hosts, lead times and short lives, deferrable, critical and interruptible
classes, limits of every kind, margins of pools, scenarios that may be waived.
"""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

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
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.headroom import KEPT_OUT
from alloc.topology import HostType

SITES = ("east", "cloud")
GPU_TYPES = ("a", "b")
PROFILES = ((1.0,), tuple([1.0] * 12 + [3.0] * 12))
PRICES = ((0.1,), tuple([0.1] * 12 + [0.4] * 12))


def some(*values):
    return st.sampled_from(values)


def with_money(problem: PlanningProblem, factor: float) -> PlanningProblem:
    """Return a problem with all money multiplied by a factor."""
    replace = dataclasses.replace
    offers = tuple(
        replace(
            o,
            price=o.price * factor,
            maintenance_per_quarter=o.maintenance_per_quarter * factor,
        )
        for o in problem.offers
    )
    sites = tuple(
        replace(s, energy_price_per_kwh=tuple(p * factor for p in s.energy_price_per_kwh))
        for s in problem.sites
    )
    return problem.replace(
        offers=offers,
        sites=sites,
        classes=tuple(replace(c, loss_per_job=c.loss_per_job * factor) for c in problem.classes),
        budget=None if problem.budget is None else problem.budget * factor,
        quarter_budgets=tuple(b * factor for b in problem.quarter_budgets),
        carbon_price_per_kg=problem.carbon_price_per_kg * factor,
    )


def with_demand(problem: PlanningProblem, factor: float, *, limits: bool = True) -> PlanningProblem:
    """Return a problem with all demand and margins multiplied by a factor.

    From 1 on, what limits a plan grows too, if `limits` says so; numbers of hosts to be had, that
    end at a million, are no limit beyond it.
    """
    replace = dataclasses.replace
    scaled = problem.replace(
        scenarios=tuple(
            replace(
                s,
                arrivals={c: tuple(factor * a for a in rates) for c, rates in s.arrivals.items()},
            )
            for s in problem.scenarios
        ),
        tightening=tuple(replace(t, margin=t.margin * factor) for t in problem.tightening),
    )
    if factor <= 1 or not limits:
        return scaled

    def times(limit: float | None) -> float | None:
        return None if limit is None else limit * factor

    def hosts_to_be_had(most: int | None) -> int | None:
        return None if most is None or most * factor > 1e6 else round(most * factor)

    return scaled.replace(
        offers=tuple(replace(o, most_hosts=hosts_to_be_had(o.most_hosts)) for o in problem.offers),
        sites=tuple(
            replace(
                s,
                rack_units=times(s.rack_units),
                ports=times(s.ports),
                power_kw=times(s.power_kw),
            )
            for s in problem.sites
        ),
        owned=tuple(replace(o, count=min(round(o.count * factor), 10**6)) for o in problem.owned),
        budget=times(problem.budget),
        quarter_budgets=tuple(b * factor for b in problem.quarter_budgets),
        carbon_caps_kg=tuple(b * factor for b in problem.carbon_caps_kg),
        pool_gpus=times(problem.pool_gpus),
    )


@st.composite
def hosts(draw, gpu_type: str | None = None) -> HostType:
    kind = draw(some(*GPU_TYPES)) if gpu_type is None else gpu_type
    return HostType(f"host-{kind}", draw(some(1, 2, 4)), kind)


@st.composite
def offers(draw, name: str) -> HostOffer:
    terms = draw(some("purchase", "purchase", "reserved", "on_demand", "spot"))
    host = draw(hosts())
    at = draw(some((), ("east",), ("cloud",)))
    price = draw(st.integers(1, 20)) * host.num_gpus
    most = draw(some(None, None, 2, 5))
    if terms in ("on_demand", "spot"):
        hourly = price / 100 * (1.0 if terms == "on_demand" else 0.4)
        return HostOffer(name, host, terms, hourly, at, most)
    idle = draw(some(0.0, 0.2))
    shared = {
        "sites": at,
        "most_hosts": most,
        "lead_time_quarters": draw(some(0, 0, 1)),
        "service_quarters": draw(some(1, 2, 8)),
        "idle_kw": idle,
        "busy_kw": idle + draw(some(0.0, 0.3, 0.5)),
        "rack_units": draw(some(0.0, 2.0)),
        "ports": draw(some(0.0, 1.0)),
    }
    if terms == "reserved":
        return HostOffer(name, host, "reserved", price / 2, **shared)
    worth = {
        "residual_fraction": draw(some(0.0, 0.5)),
        "maintenance_per_quarter": draw(some(0.0, 0.3)),
    }
    return HostOffer(name, host, "purchase", float(2 * price), **shared, **worth)


@st.composite
def job_classes(draw, name: str) -> JobClass:
    options = [JobOption("a", draw(some(1, 2)), draw(some(1.0, 3.0)))]
    if draw(st.booleans()):
        options.append(JobOption("b", draw(some(1, 4)), draw(some(0.5, 2.0))))
    if draw(st.integers(0, 3)) == 0:
        options.append(JobOption("a", 4, 0.5))
    goal = draw(
        some(None, None, ServiceGoal("wait", 1.0), ServiceGoal("jct", 8.0, 0.9),
             ServiceGoal("wait", 0.5, None))
    )  # fmt: skip
    interruptible = draw(st.booleans())
    return JobClass(
        name,
        tuple(options),
        goal,
        draw(some((), (), ("east",), ("east", "cloud"))),
        interruptible=interruptible,
        spot_overhead=0.2 if interruptible else 0.0,
        critical=draw(st.booleans()),
        deferrable=draw(st.booleans()),
        hourly_profile=draw(some(*PROFILES)),
        loss_per_job=draw(some(0.0, 0.5)),
    )


@st.composite
def problems(draw, max_quarters: int = 2, max_scenarios: int = 2) -> PlanningProblem:
    """Planning problems; nearly all of them have a plan, since there is usually a cloud."""
    quarters = draw(st.integers(1, max_quarters))
    number = draw(st.integers(1, max_scenarios))
    found = [draw(offers(f"offer-{i}")) for i in range(draw(st.integers(1, 3)))]
    rent = HostOffer("rent", HostType("host-a", 1, "a"), "on_demand", 0.3)
    # Without it there may be no plan: that is a case too.
    limited = draw(st.integers(0, 5)) == 0
    found.append(rent if not limited else HostOffer("rent", rent.host, "on_demand", 0.3, (), 4))
    classes = [draw(job_classes(f"class-{c}")) for c in range(draw(st.integers(1, 2)))]
    scenarios = tuple(
        Scenario(
            f"future-{w}",
            1 / number,
            {
                c.name: tuple(draw(some(0.0, 0.5, 1.0, 3.0)) for _ in range(quarters))
                for c in classes
            },
            draw(some((), tuple([0.5] * quarters))),
        )
        for w in range(number)
    )
    owned = [
        Owned(offer.name, "east", draw(st.integers(1, 2)), draw(st.integers(1, 2)))
        for offer in found
        if not offer.is_hourly and draw(st.integers(0, 3)) == 0
    ]
    east = Site(
        "east",
        rack_units=draw(some(None, 8.0)),
        ports=draw(some(None, 5.0)),
        power_kw=draw(some(None, 4.0)),
        pue=draw(some(1.0, 1.5)),
        energy_price_per_kwh=draw(some(*PRICES)),
        carbon_kg_per_kwh=(0.5,),
    )
    types = sorted({offer.gpu_type for offer in found})
    tightening = tuple(
        Tightening(
            draw(some(*(c.name for c in classes))),
            draw(some(*types)),
            draw(some(*SITES)),
            draw(some(1.0, 1.3, KEPT_OUT)),
            draw(some(0.0, 2.0, 5.0)),
            draw(some(False, False, True)),
        )
        for _ in range(draw(some(0, 0, 1, 3)))
    )
    if len(classes) > 1 and draw(st.booleans()):
        # Margins of pairs, that are kept only where both are sent.
        pair = draw(st.permutations([c.name for c in classes]))[:2]
        at = draw(some(*types)), draw(some(*SITES))
        margin = draw(some(2.0, 5.0))
        quarter = draw(some(None, None, 0))
        tightening += (Tightening(pair[0], *at, margin=margin, beside=pair[1], quarter=quarter),)
    if tightening and draw(st.booleans()):
        # Classes with the same margin share a binary.
        alike = (dataclasses.replace(tightening[0], job_class=c.name, beside=None) for c in classes)
        tightening += tuple(part for part in alike if part != tightening[0])
    problem = PlanningProblem(
        "drawn",
        "EUR",
        quarters,
        tuple(found),
        (east, Site("cloud")),
        tuple(classes),
        scenarios,
        tuple(owned),
        quarter_hours=168.0,
        budget=draw(some(None, None, 600.0)),
        quarter_budgets=draw(some((), (), tuple([400.0] * quarters))),
        discount_rate=draw(some(0.0, 0.1)),
        carbon_price_per_kg=draw(some(0.0, 0.1)),
        carbon_caps_kg=draw(some((), (), tuple([300.0] * quarters))),
        failures=draw(some(0, 0, 1, 2)),
        epsilon=draw(some(0.0, 0.0, 0.5)),
        bands=draw(some(1, 2, 4)),
        pool_gpus=draw(some(None, 8.0)),
        tightening=tightening,
    )
    if draw(st.booleans()):
        # Parts of margins by bands of hours.
        count = bands_of(problem).count
        whole = draw(st.integers(0, count - 1))
        parts = tuple(1.0 if b == whole else draw(some(0.0, 0.5, 1.0)) for b in range(count))
        tightening = tuple(
            dataclasses.replace(part, bands=parts if part.margin and part.factor == 1 else ())
            for part in tightening
        )
    return problem.replace(tightening=tightening)
