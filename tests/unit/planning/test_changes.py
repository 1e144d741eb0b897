"""What-ifs change what they say, nothing else, and refuse what is not there."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.planning.changes import (
    Budget,
    Change,
    ClosedSite,
    Demand,
    EnergyPrice,
    Goal,
    Hosts,
    LostRack,
    NewTeam,
    NoMore,
    Price,
    apply_all,
)
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
from alloc.problems.right_sizing.headroom import margin_parts
from alloc.topology import HostType

EIGHT = HostType("eight", 8, "a100")
BASE = PlanningProblem(
    name="base",
    currency="EUR",
    num_quarters=2,
    offers=(
        HostOffer("buy", EIGHT, "purchase", 1e5, rack_units=6.0),
        HostOffer("hire", EIGHT, "on_demand", 10.0, sites=("north",)),
        HostOffer("spot", EIGHT, "spot", 5.0, sites=("north", "south")),
    ),
    sites=(
        Site("north", rack_units=100.0, energy_price_per_kwh=(0.1,)),
        Site("south", energy_price_per_kwh=(0.2,)),
    ),
    classes=(
        JobClass("small", (JobOption("a100", 1, 2.0),)),
        JobClass("large", (JobOption("a100", 8, 5.0),), sites=("north", "south")),
    ),
    scenarios=(Scenario("1", 1.0, {"small": (4.0, 5.0), "large": (0.1, 0.2)}),),
    owned=(Owned("buy", "south", 4, 1), Owned("buy", "south", 5, 8), Owned("buy", "north", 1, 2)),
    tightening=(Tightening("small", "a100", "south", 1.5),),
)


def changed(*changes: Change) -> dict[str, Any]:
    """Return the fields that changes changed."""
    after = apply_all(BASE, changes)
    return {
        field.name: getattr(after, field.name)
        for field in dataclasses.fields(BASE)
        if getattr(after, field.name) != getattr(BASE, field.name)
    }


def test_more_demand_of_one_class_leaves_the_others() -> None:
    (scenario,) = changed(Demand(1.5, "large"))["scenarios"]
    assert scenario.arrivals == {"small": (4.0, 5.0), "large": pytest.approx((0.15, 0.3))}
    assert list(changed(Demand(2.0))) == ["scenarios"]
    assert Demand(1.2).sentence == "+20 % all jobs"
    assert Demand(1e9).sentence == "+99,999,999,900 % all jobs"
    assert Demand(0.5, "large").sentence == '-50 % jobs of class "large"'


def test_lost_hosts_are_those_that_stay_longest() -> None:
    """A host that retires soon is a smaller loss: the what-if takes the worse case."""
    assert changed(Hosts("buy", "south", -6)) == {
        "owned": (Owned("buy", "south", 3, 1), Owned("buy", "north", 1, 2))
    }
    more = changed(Hosts("buy", "south", 2))["owned"]
    assert more == (*BASE.owned, Owned("buy", "south", 2, 16))


def test_a_lost_rack_takes_its_hosts_and_its_space() -> None:
    after = apply_all(BASE, [LostRack("buy", "south"), LostRack("buy", "north")])
    assert after.owned == (Owned("buy", "south", 2, 1),)
    assert [site.rack_units for site in after.sites] == [58.0, None]


def test_a_lost_rack_leaves_the_space_of_other_sites() -> None:
    after = apply_all(BASE, [LostRack("buy", "south")])
    assert [site.rack_units for site in after.sites] == [100.0, None]
    larger = apply_all(BASE, [LostRack("buy", "north", rack_units=500.0)])
    assert [site.rack_units for site in larger.sites] == [0.0, None]


def test_a_closed_site_is_nowhere_left() -> None:
    after = apply_all(BASE, [ClosedSite("south")])
    assert [site.name for site in after.sites] == ["north"]
    assert after.offers[2].sites == ("north",)
    assert after.classes[1].sites == ("north",)
    assert after.owned == (Owned("buy", "north", 1, 2),)
    assert after.tightening == ()


def test_an_offer_no_longer_sold_keeps_its_hosts() -> None:
    after = apply_all(BASE, [NoMore("buy")])
    assert after.offers[0].most_hosts == 0
    assert after.owned == BASE.owned


def test_prices_goals_and_budgets() -> None:
    assert apply_all(BASE, [Price("hire", 0.9)]).offers[1].price == pytest.approx(9)
    assert apply_all(BASE, [EnergyPrice(2.0, "south")]).sites[1].energy_price_per_kwh == (0.4,)
    assert list(changed(EnergyPrice(2.0))) == ["sites"]
    assert changed(Budget(5.0)) == {"budget": 5.0}
    goal = ServiceGoal("wait", 1.0)
    assert apply_all(BASE, [Goal("small", goal)]).classes[0].goal == goal
    team = NewTeam((JobClass("new", (JobOption("a100", 2, 1.0),)),), {"new": (1.0, 1.0)})
    joined = apply_all(BASE, [team])
    assert joined.scenarios[0].arrivals["new"] == (1.0, 1.0)
    for change in (Budget(5.0), Budget(None), Goal("small", goal), Goal("small", None), team):
        assert change.sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (Demand(1.2, "smal"), 'unknown job class "smal"; did you mean "small"'),
        (Hosts("bye", "south", 1), 'unknown offer "bye"; did you mean "buy"'),
        (Hosts("buy", "west", 1), 'unknown site "west"'),
        (Hosts("buy", "south", -10), "there are 9; lose at most so many"),
        (LostRack("hire", "north"), "takes no rack units"),
        (ClosedSite("north"), 'offer "hire" has no site but "north"'),
        (NewTeam((JobClass("new", (JobOption("a100", 2, 1.0),)),), {}), 'job class "new"'),
        (Goal("small", ServiceGoal("jct", 1.0)), "fastest option"),
    ],
)
def test_changes_of_what_is_not_there_are_refused(change: Change, sentence: str) -> None:
    with pytest.raises(InstanceError, match=sentence):
        apply_all(BASE, [change])


def test_a_new_team_leaves_the_arrivals_of_others_alone() -> None:
    """A rate of a class that is there already would change it behind the name of a new team."""
    joining = JobClass("new", (JobOption("a100", 2, 1.0),))
    with pytest.raises(InstanceError, match=r'"small", which is none of its classes; give'):
        NewTeam((joining,), {"new": (1.0, 1.0), "small": (0.0, 0.0)})


def test_a_site_named_twice_is_still_the_only_one() -> None:
    """With both names gone the list would be empty, which means everywhere."""
    twice = dataclasses.replace(BASE.classes[1], sites=("south", "south"))
    problem = BASE.replace(classes=(BASE.classes[0], twice))
    with pytest.raises(InstanceError, match="has no site but"):
        apply_all(problem, [ClosedSite("south")])


def test_a_rack_of_nothing_cannot_be_lost_nor_the_only_site_closed() -> None:
    without = BASE.replace(owned=())
    with pytest.raises(InstanceError, match=r"no host of .buy. is owned"):
        apply_all(without, [LostRack("buy", "south")])
    alone = BASE.replace(
        sites=BASE.sites[:1],
        offers=BASE.offers[:1],
        classes=BASE.classes[:1],
        scenarios=(Scenario("1", 1.0, {"small": (4.0, 5.0)}),),
        owned=(),
        tightening=(),
    )
    with pytest.raises(InstanceError, match="the only site"):
        apply_all(alone, [ClosedSite("north")])


@pytest.mark.parametrize(
    "make", [lambda: Demand(-1.0), lambda: Price("buy", -0.1), lambda: Budget(-1)]
)
def test_negative_amounts_are_refused(make: object) -> None:
    with pytest.raises(InstanceError, match="0 or more"):
        make()  # type: ignore[operator]


def _parts_by_hour(problem: PlanningProblem) -> list[float]:
    """Return which part of its margin the pool in the north keeps in each hour of the week."""
    bands = bands_of(problem)
    parts = margin_parts(problem, bands.count)["a100", "north", False]
    return [parts[band] for band in bands.of_hour]


def test_a_margin_is_kept_in_the_hours_that_it_was_kept_in() -> None:
    """Another site, price or team may put the hours into other bands, of another number."""
    night, day = (0.1,) * 8, (0.3,) * 16
    dear = Site("south", energy_price_per_kwh=night + day)
    kept = Tightening("small", "a100", "north", margin=8.0, bands=(0.25, 1.0))
    base = BASE.replace(sites=(BASE.sites[0], dear), tightening=(kept,))
    assert _parts_by_hour(base) == ([0.25] * 8 + [1.0] * 16) * 7
    team = NewTeam(
        (JobClass("early", (JobOption("a100", 1, 1.0),), hourly_profile=(5.0,) * 4 + (1.0,) * 20),),
        {"early": (1.0, 1.0)},
    )
    joined = apply_all(base, [team])
    assert bands_of(joined).count == 3
    assert _parts_by_hour(joined) == _parts_by_hour(base)
    # Hours that are alike now keep the largest part of any of them.
    closed = apply_all(base, [ClosedSite("south")])
    assert bands_of(closed).count == 1
    assert _parts_by_hour(closed) == [1.0] * 168
    # Whose jobs weigh most says which hours stand together where there are few bands.
    few = joined.replace(bands=2, tightening=(dataclasses.replace(kept, bands=(1.0, 0.25)),))
    more = apply_all(few, [Demand(100.0, "early")])
    assert bands_of(more).of_hour.tolist() != bands_of(few).of_hour.tolist()
    assert all(
        now >= then for now, then in zip(_parts_by_hour(more), _parts_by_hour(few), strict=True)
    )
    with pytest.raises(InstanceError, match="bands has 2 values"):
        apply_all(BASE.replace(tightening=(kept,)), [Demand(2.0)])
