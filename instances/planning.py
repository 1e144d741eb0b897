"""Planning problems from a few parameters and a seed.

The world is ours: prices, power and speeds are round numbers of the size that list prices and
data sheets of 2024 show, not quotes. What matters for a planner is kept: newer GPUs are faster and
dearer but cheaper per unit of work for large jobs, bought hosts are cheap if they are busy for
years, rented ones if they are not, energy has a price by the hour, and nobody knows the growth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alloc.errors import InstanceError
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
from alloc.topology import HostType
from alloc.units import require_count, require_positive


@dataclass(frozen=True)
class GpuKind:
    """A GPU type of the generated world.

    Parameters
    ----------
    name
        Name.
    speed
        Speed on large jobs, relative to an A100.
    price
        Money for one GPU with its share of a host.
    kw
        Power under load with its share of the host, kW.
    """

    name: str
    speed: float
    price: float
    kw: float


GPU_KINDS = (
    GpuKind("a100", 1.0, 16_000, 0.75),
    GpuKind("h100", 2.2, 34_000, 1.25),
    GpuKind("l40s", 0.7, 10_000, 0.55),
    GpuKind("h200", 2.6, 40_000, 1.30),
    GpuKind("a30", 0.45, 6_500, 0.35),
    GpuKind("b200", 4.4, 62_000, 1.80),
    GpuKind("v100", 0.4, 5_500, 0.50),
    GpuKind("l4", 0.25, 3_600, 0.16),
    GpuKind("mi300x", 2.3, 31_000, 1.35),
    GpuKind("a10", 0.35, 4_800, 0.28),
)
"""GPU types in the order in which generated worlds take them."""

_HOURS_OF_LIFE = 4 * 8760.0
"""Four years of 8,760 hours: what owners of servers write them off in."""
_TENANTS = ("vision", "language", "speech", "science", "ads")


def generate_planning(
    name: str,
    *,
    num_host_types: int = 4,
    num_sites: int = 2,
    num_quarters: int = 4,
    num_classes: int = 5,
    num_scenarios: int = 3,
    gpus: float = 200.0,
    growth: float = 0.08,
    spread: float = 0.15,
    failures: int = 0,
    epsilon: float = 0.0,
    power_share: float = 0.5,
    budget_share: float | None = None,
    carbon_price_per_kg: float = 0.0,
    bands: int = 4,
    goals: bool = True,
    own: float = 0.3,
    seed: int = 0,
) -> PlanningProblem:
    """Return a planning problem.

    Parameters
    ----------
    name
        Name of the problem.
    num_host_types
        Kinds of hosts: half of them bought for machine rooms, half of them instances of a cloud,
        the same GPU types in both; 2 to 20.
    num_sites
        Machine rooms and, for each three sites begun, a cloud region; 2 or more.
    num_quarters, num_classes, num_scenarios
        Size.
    gpus
        Expected load of the first quarter, A100s.
    growth, spread
        Growth of the load in a quarter, and by how much it differs between scenarios.
    failures, epsilon, carbon_price_per_kg, bands
        As in `alloc.problems.right_sizing.PlanningProblem`.
    power_share
        Power of all machine rooms together as a share of what the last quarter's load would draw
        there; rack space likewise, a little more.
    budget_share
        Budget as a share of the price of renting the expected load on demand; None: no limit.
    goals
        Whether classes have goals.
    own
        Share of the first quarter's load for which hosts are owned already.
    seed
        Random seed.

    Raises
    ------
    InstanceError
        If a number makes no sense.
    """
    _require_sizes(num_host_types, num_sites, num_classes, num_scenarios)
    require_positive(gpus, name, "gpus")
    rng = np.random.default_rng(seed)
    kinds = GPU_KINDS[: num_host_types // 2]
    clouds = max(1, num_sites // 3)
    rooms = num_sites - clouds
    last = gpus * (1 + growth) ** (num_quarters - 1)
    sites = _sites(rng, rooms, clouds, power_share * last)
    offers = _offers(rng, kinds, sites, rooms)
    classes = _classes(rng, kinds, sites, num_classes, goals)
    scenarios = _scenarios(rng, kinds, classes, num_scenarios, num_quarters, gpus, growth, spread)
    hours = num_quarters * 2190.0
    rent = 16_000 / _HOURS_OF_LIFE * 3.2
    return PlanningProblem(
        name=name,
        currency="EUR",
        num_quarters=num_quarters,
        offers=offers,
        sites=sites,
        classes=classes,
        scenarios=scenarios,
        owned=_owned(rng, kinds, offers, sites[:rooms], own * gpus, num_quarters),
        budget=None if budget_share is None else _round(budget_share * rent * hours * last),
        discount_rate=0.02,
        carbon_price_per_kg=carbon_price_per_kg,
        failures=failures,
        epsilon=epsilon,
        bands=bands,
        description={"generator": "generate_planning", "seed": str(seed)},
    )


def _require_sizes(host_types: int, sites: int, classes: int, scenarios: int) -> None:
    require_count(host_types, "generate_planning", "num_host_types", least=2)
    if host_types > 2 * len(GPU_KINDS):
        raise InstanceError(
            f"generate_planning: num_host_types is {host_types}; the generator knows "
            f"{len(GPU_KINDS)} GPU types, so give at most {2 * len(GPU_KINDS)}."
        )
    require_count(sites, "generate_planning", "num_sites", least=2)
    require_count(classes, "generate_planning", "num_classes", least=1)
    require_count(scenarios, "generate_planning", "num_scenarios", least=1)


def _round(value: float) -> float:
    """Return six digits, so that a seed names the same problem on every platform."""
    return float(f"{value:.6g}")


def _uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(rng.random())


def _pick(rng: np.random.Generator, items: Sequence[int], count: int) -> list[int]:
    """Return some of the items, in their order."""
    keys = rng.random(len(items))
    chosen = np.argsort(keys, kind="stable")[:count]
    return [items[i] for i in sorted(chosen.tolist())]


def _sites(rng: np.random.Generator, rooms: int, clouds: int, load_a100: float) -> tuple[Site, ...]:
    found = []
    for i in range(rooms):
        share = load_a100 / rooms * _uniform(rng, 0.8, 1.2)
        level = _uniform(rng, 0.08, 0.22)
        price = tuple(
            _round(level * (1 + 0.35 * math.sin((hour - 9) / 24 * 2 * math.pi)))
            for hour in range(24)
        )
        carbon = _uniform(rng, 0.05, 0.4)
        found.append(
            Site(
                f"room-{i + 1}",
                rack_units=float(round(share / 8 * 10) + 40),
                ports=float(round(share / 8 * 12) + 40),
                power_kw=float(round(share * 0.75 * 1.4) + 30),
                pue=_round(_uniform(rng, 1.1, 1.5)),
                energy_price_per_kwh=price,
                carbon_kg_per_kwh=(_round(carbon),),
            )
        )
    return (*found, *(Site(f"cloud-{i + 1}") for i in range(clouds)))


def _offers(
    rng: np.random.Generator, kinds: Sequence[GpuKind], sites: Sequence[Site], rooms: int
) -> tuple[HostOffer, ...]:
    room_names = tuple(site.name for site in sites[:rooms])
    cloud_names = tuple(site.name for site in sites[rooms:])
    found: list[HostOffer] = []
    for i, kind in enumerate(kinds):
        own = HostType(f"{kind.name}-server", 8, kind.name)
        price = _round(8 * kind.price * _uniform(rng, 0.92, 1.08))
        found.append(
            HostOffer(
                f"buy {kind.name}",
                own,
                "purchase",
                price,
                room_names,
                lead_time_quarters=1 if i % 2 else 0,
                service_quarters=16,
                residual_fraction=0.8,
                maintenance_per_quarter=_round(0.012 * price),
                idle_kw=_round(0.25 * 8 * kind.kw),
                busy_kw=_round(8 * kind.kw),
                rack_units=8.0 if kind.kw > 0.6 else 4.0,
                ports=10.0 if kind.kw > 0.6 else 4.0,
            )
        )
        size = 8 if kind.price > 8000 else 4
        instance = HostType(f"{kind.name}-instance", size, kind.name)
        hour = size * kind.price / _HOURS_OF_LIFE * _uniform(rng, 3.0, 3.6)
        found.append(
            HostOffer(
                f"reserve {kind.name}",
                instance,
                "reserved",
                _round(0.55 * hour * 2190),
                cloud_names,
                service_quarters=4,
            )
        )
        found.append(
            HostOffer(f"rent {kind.name}", instance, "on_demand", _round(hour), cloud_names)
        )
        if i % 3 != 1:
            spot = _round(hour * _uniform(rng, 0.3, 0.45))
            found.append(
                HostOffer(f"spot {kind.name}", instance, "spot", spot, cloud_names, most_hosts=40)
            )
    return tuple(found)


def _classes(
    rng: np.random.Generator,
    kinds: Sequence[GpuKind],
    sites: Sequence[Site],
    count: int,
    goals: bool,
) -> tuple[JobClass, ...]:
    found = []
    for c in range(count):
        size = (1, 1, 2, 4, 8, 8, 16, 32)[int(rng.random() * 8)]
        hours = math.exp(_uniform(rng, math.log(0.5), math.log(40.0)))
        # Jobs that fit small GPUs gain less from large ones.
        gain = _uniform(rng, 0.6, 1.05)
        number = min(len(kinds), 3 + int(rng.random() * 4))
        able = sorted({0, *_pick(rng, range(len(kinds)), number)})
        options = tuple(
            JobOption(kinds[k].name, size, _round(hours / kinds[k].speed ** gain)) for k in able
        )
        patience = _uniform(rng, 0.25, 2.0)
        goal = None
        if goals and rng.random() < 0.7:
            slowest = max(option.hours for option in options)
            if rng.random() < 0.5:
                goal = ServiceGoal("wait", _round(0.5 + patience * hours), 0.95)
            else:
                goal = ServiceGoal("jct", _round(1.05 * slowest + patience * hours), 0.9)
        interruptible = bool(rng.random() < 0.3)
        deferrable = goal is None and bool(rng.random() < 0.7)
        phase = _uniform(rng, 11.0, 17.0)
        depth = _uniform(rng, 0.1, 0.6)
        profile = tuple(
            _round(1 + depth * math.cos((hour - phase) / 24 * 2 * math.pi)) for hour in range(24)
        )
        at_home = rng.random() < 0.25
        home = _pick(rng, range(len(sites)), max(2, len(sites) // 2)) if at_home else []
        # The last site is a cloud, where there is always something to rent.
        homes = tuple(sites[s].name for s in sorted({*home, len(sites) - 1})) if home else ()
        found.append(
            JobClass(
                f"{_TENANTS[c % len(_TENANTS)]}-{c + 1}",
                options,
                goal,
                homes,
                interruptible=interruptible,
                spot_overhead=0.15 if interruptible else 0.0,
                critical=bool(rng.random() < 0.2),
                deferrable=deferrable,
                hourly_profile=profile,
                loss_per_job=_round(2.0 * size * hours),
                tenant=_TENANTS[c % len(_TENANTS)],
            )
        )
    return tuple(found)


def _scenarios(
    rng: np.random.Generator,
    kinds: Sequence[GpuKind],
    classes: Sequence[JobClass],
    count: int,
    quarters: int,
    gpus: float,
    growth: float,
    spread: float,
) -> tuple[Scenario, ...]:
    weights = np.exp(2.0 * rng.random(len(classes)))
    shares = weights / weights.sum()
    first = [next(o for o in c.options if o.gpu_type == kinds[0].name).gpu_hours for c in classes]
    found = []
    left = 1.0
    for w in range(count):
        probability = round(1 / count, 6) if w + 1 < count else round(left, 6)
        left -= probability
        overall = 1 + spread * (2 * float(rng.random()) - 1)
        arrivals = {}
        for c, job_class in enumerate(classes):
            pace = growth + spread / 4 * (2 * float(rng.random()) - 1)
            level = gpus * float(shares[c]) / first[c] * overall
            arrivals[job_class.name] = tuple(
                _round(level * (1 + pace) ** t * (1 + spread / 2 * (2 * float(rng.random()) - 1)))
                for t in range(quarters)
            )
        spot = tuple(_round(_uniform(rng, 0.2, 1.0)) for _ in range(quarters))
        found.append(Scenario(f"future-{w + 1}", probability, arrivals, spot))
    return tuple(found)


def _owned(
    rng: np.random.Generator,
    kinds: Sequence[GpuKind],
    offers: Sequence[HostOffer],
    rooms: Sequence[Site],
    gpus: float,
    quarters: int,
) -> tuple[Owned, ...]:
    """Return old hosts of the first GPU type, spread over the rooms, as far as there is room."""
    offer = next(o for o in offers if o.gpu_type == kinds[0].name and o.terms == "purchase")
    found = []
    for site in rooms:
        count = int(gpus / len(rooms) / offer.gpus)
        assert site.rack_units is not None
        assert site.power_kw is not None
        assert site.ports is not None
        fits = min(
            site.rack_units / offer.rack_units,
            site.power_kw / (offer.busy_kw * site.pue),
            site.ports / offer.ports,
        )
        count = min(count, int(0.9 * fits))
        if count:
            left = 1 + int(rng.random() * (quarters + 3))
            found.append(Owned(offer.name, site.name, count, left))
    return tuple(found)
