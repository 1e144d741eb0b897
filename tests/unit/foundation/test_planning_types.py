"""Planning types: what makes no sense is refused in one sentence that names place and cure."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

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
    Tightening,
    bands_of,
)
from alloc.problems.right_sizing.headroom import (
    headroom,
    max_utilisation,
    reference_gpus,
    tightening_factors,
)
from alloc.topology import HostType

A100 = HostType("a100x8", 8, "a100")
DAY = tuple(0.1 + 0.1 * (8 <= hour < 20) for hour in range(24))


def small(**changes) -> PlanningProblem:
    problem = PlanningProblem(
        "small",
        "EUR",
        2,
        offers=(
            HostOffer("buy", A100, "purchase", 150_000.0, ("north",), idle_kw=1.5, busy_kw=5.0),
            HostOffer("rent", A100, "on_demand", 24.0, ("cloud",)),
            HostOffer("spot", A100, "spot", 8.0, ("cloud",), 10),
        ),
        sites=(Site("north", 200.0, pue=1.3, energy_price_per_kwh=DAY), Site("cloud")),
        classes=(
            JobClass("train", (JobOption("a100", 8, 10.0),), ServiceGoal("wait", 4.0)),
            JobClass("batch", (JobOption("a100", 1, 2.0),), interruptible=True, deferrable=True),
        ),
        scenarios=(
            Scenario("low", 0.5, {"train": (1.0, 1.2), "batch": (5.0, 6.0)}),
            Scenario("high", 0.5, {"train": (1.5, 2.2), "batch": (7.0, 9.0)}, (0.5, 0.5)),
        ),
    )
    return replace(problem, **changes)


def test_a_sound_problem_is_taken():
    assert small().offer_index == {"buy": 0, "rent": 1, "spot": 2}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: HostOffer("o", A100, "lease", 1.0), r'terms is "lease"'),  # type: ignore[arg-type]
        (lambda: HostOffer("o", A100, "purchas", 1.0), r'did you mean "purchase"\?'),  # type: ignore[arg-type]
        (lambda: HostOffer("o", A100, "spot", -1.0), r'offer "o": price is -1; it must be 0 or'),
        (lambda: HostOffer("o", HostType("cpu"), "spot", 1.0), "its host has no GPU"),
        (lambda: HostOffer("o", A100, "purchase", 1.0, idle_kw=2.0), "below idle_kw 2"),
        (lambda: HostOffer("o", A100, "spot", 1.0, lead_time_quarters=1), "on the terms spot do"),
        (lambda: HostOffer("o", A100, "purchase", 1.0, residual_fraction=2.0), "at most 1"),
        (lambda: HostOffer("o", A100, "purchase", math.nan), "price is nan"),
        (lambda: HostOffer("", A100, "purchase", 1.0), "empty name"),
        (lambda: Site("s", pue=0.9), r'site "s": pue is 0.9'),
        (lambda: Site("s", pue=130.0), "pue is 130; it is a ratio.*divide a percentage by 100"),
        (lambda: Site("s", carbon_kg_per_kwh=(300.0,)), "is 300.*divide grams by 1,000"),
        (
            lambda: HostOffer("o", A100, "purchase", 1.0, busy_kw=6000.0),
            "busy_kw is 6,000, more than 100 kW for each GPU; the unit is kW, so divide watts",
        ),
        (lambda: Site("s", power_kw=-1.0), "power_kw is -1"),
        (lambda: Site(""), "empty name"),
        (lambda: Site("s", energy_price_per_kwh=(0.1,) * 23), "has 23 values; give 1 .*24"),
        (
            lambda: Site("s", energy_price_per_kwh=(0.1,) * 5 + (math.nan,) + (0.1,) * 18),
            "has a gap at hour 5",
        ),
        (lambda: Site("s", carbon_kg_per_kwh=(-0.1,)), "is -0.1 at hour 0; a mass is 0 or more"),
        (lambda: Site("s", carbon_kg_per_kwh=(math.inf,)), "is infinite at hour 0"),
        (lambda: ServiceGoal("jtc", 1.0), r'did you mean "jct"\?'),  # type: ignore[arg-type]
        (lambda: ServiceGoal("jct", 0.0), "must be more than 0"),
        (lambda: ServiceGoal("wait", 1.0, 1.0), "fraction is 1; give a number between 0 and 1"),
        (lambda: JobOption("a", 0, 1.0), "gpus is 0"),
        (lambda: JobClass("c", ()), "has no options"),
        (lambda: JobClass("", (JobOption("a", 1, 1.0),)), "empty name"),
        (
            lambda: JobClass("c", (JobOption("a", 1, 9.0),), ServiceGoal("jct", 5.0)),
            "its goal is a JCT of 5 h, and its fastest option runs 9 h",
        ),
        (
            lambda: JobClass("c", (JobOption("a", 1, 1.0),), hourly_profile=(0.0,) * 24),
            "is 0 at every hour",
        ),
        (lambda: Scenario("w", 0.0, {}), "probability is 0"),
        (lambda: Scenario("", 1.0, {}), "empty name"),
        (lambda: Tightening("c", "a", "s", 0.9), "it is 1 or more"),
        (lambda: Owned("o", "s", 0, 1), "count is 0"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(make, sentence):
    with pytest.raises(InstanceError, match=sentence):
        make()


def arrivals(train, batch=(5.0, 6.0)):
    return (Scenario("only", 1.0, {"train": train, "batch": batch}),)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"currency": ""}, "currency is empty"),
        ({"num_quarters": 0}, "num_quarters is 0"),
        ({"num_quarters": 81}, "plan at most 80"),
        ({"budget": -1.0}, "budget is -1"),
        ({"quarter_budgets": (1.0,)}, "quarter_budgets has 1 values, and the plan has 2 quarters"),
        ({"carbon_caps_kg": (1.0, math.nan)}, "carbon_caps_kg has a gap at quarter 1"),
        ({"discount_rate": 2.0}, "a fraction between 0 and 1"),
        ({"epsilon": 1.0}, "it is a probability"),
        ({"bands": 169}, "a week has 168 hours"),
        ({"utilisation": 1.2}, "at most 1"),
        ({"pool_gpus": 0.0}, "pool_gpus is 0"),
        ({"failures": -1}, "failures is -1"),
        ({"offers": ()}, "has no offer"),
        ({"sites": (Site("a"), Site("a"))}, r'2 parts are site "a"; names are unique'),
        ({"sites": (Site("nord"), Site("cloud"))}, r'unknown site "north"; did you mean "nord"'),
        (
            {"sites": (Site("north", currency="USD"), Site("cloud"))},
            r'site "north": its prices are in USD, and the plan is in EUR; convert them',
        ),
        ({"scenarios": arrivals((1.0,))}, r'arrivals of "train" has 1 values'),
        ({"scenarios": arrivals((1.0, 2.0, 3.0))}, "leave the later ones out"),
        ({"scenarios": arrivals((1.0, None))}, r'"train" has a gap at quarter 1'),
        ({"scenarios": arrivals((1.0, -2.0))}, "is -2 at quarter 1; a rate is 0 or more"),
        (
            {"scenarios": (Scenario("s", 0.9, {"train": (1.0, 1.0), "batch": (1.0, 1.0)}),)},
            "sum to 0.9; they must sum to 1",
        ),
        ({"scenarios": (Scenario("s", 1.0, {"train": (1.0, 1.0)}),)}, 'no arrivals of .*"batch"'),
        (
            {"scenarios": (Scenario("s", 1.0, {"train": (1.0, 1.0), "batsch": (1.0, 1.0)}),)},
            r'unknown job class "batsch"; did you mean "batch"',
        ),
        (
            {"scenarios": (replace(small().scenarios[1], probability=1.0,
                                   spot_availability=(1.5, 1.0)),)},
            "spot_availability is 1.5 at quarter 0",
        ),
        ({"owned": (Owned("bye", "north", 1, 1),)}, r'unknown offer "bye"'),
        ({"owned": (Owned("rent", "cloud", 1, 1),)}, "rented by the hour are not owned"),
        ({"tightening": (Tightening("tain", "a100", "north", 2.0),)}, 'did you mean "train"'),
        ({"tightening": (Tightening("train", "a10", "north", 2.0),)}, 'did you mean "a100"'),
        (
            {"classes": (JobClass("train", (JobOption("h100", 1, 1.0),)), small().classes[1])},
            r'job class "train": no offer has GPUs of its types \(h100\)',
        ),
        (
            {"classes": (replace(small().classes[0], sites=("cloud",)), small().classes[1]),
             "offers": small().offers[::2]},
            "only spot offers can serve it, and it is not interruptible",
        ),
    ],
)  # fmt: skip
def test_a_problem_that_contradicts_itself_is_refused(changes, sentence):
    with pytest.raises(InstanceError, match=sentence):
        small(**changes)


# Bands --------------------------------------------------------------------------------------------


def test_equal_hours_are_one_band():
    bands = bands_of(small())
    assert bands.hours.tolist() == [1095.0, 1095.0]
    assert bands.energy_price[0].tolist() == pytest.approx([0.1, 0.2])
    assert bands.peak == 1.0
    assert "the same" in bands.sentence()


def test_a_flat_world_has_one_band():
    problem = small(sites=(Site("north"), Site("cloud")))
    assert bands_of(problem).count == 1
    assert bands_of(problem).sentence() == "all hours of a week are alike"


def test_hours_put_together_are_not_called_alike():
    """With one band for two prices of energy the sentence said that all hours are alike."""
    sentence = bands_of(small(bands=1)).sentence()
    assert "all taken together, with their mean" in sentence


def test_bands_beyond_the_limit_are_merged_and_means_are_kept():
    """Merging moves no work and no money on average, and the sentence says by how much it errs."""
    profile = tuple(1.0 + hour for hour in range(24))
    job_class = replace(small().classes[0], hourly_profile=profile)
    problem = small(classes=(job_class, small().classes[1]), bands=3)
    bands = bands_of(problem)
    assert bands.count == 3
    assert (bands.hours * bands.arrivals[0]).sum() == pytest.approx(problem.quarter_hours)
    price = (bands.hours * bands.energy_price[0]).sum() / bands.hours.sum()
    assert price == pytest.approx(np.mean(DAY))
    assert bands.peak > 1.05
    assert "times the arrivals" in bands.sentence()
    exact = bands_of(problem.replace(bands=24))
    assert exact.count == 24
    assert exact.peak == pytest.approx(1.0)


def test_the_order_of_parts_does_not_change_bands():
    profile = tuple(1.0 + hour % 7 for hour in range(168))
    first = replace(small().classes[0], hourly_profile=profile)
    one = bands_of(small(classes=(first, small().classes[1]), bands=3))
    two = bands_of(small(classes=(small().classes[1], first), bands=3))
    assert one.of_hour.tolist() == two.of_hour.tolist()


# Headroom -----------------------------------------------------------------------------------------


def test_one_server_is_the_queue_of_the_textbook():
    """M/M/1 with mean wait rho/(1 - rho) service times: 1 of them at utilisation one half."""
    assert max_utilisation(1, 2.0, 2.0, None) == pytest.approx(0.5)
    # P(W > t) = rho exp(-(1 - rho) t/h): no wait for 95 % means busy 5 % of the time.
    assert max_utilisation(1, 2.0, 0.0, 0.95) == pytest.approx(0.05)


def test_larger_pools_can_be_fuller():
    goal = [max_utilisation(m, 1.0, 0.5, 0.95) for m in (1, 2, 4, 16, 64)]
    assert goal == sorted(goal)
    assert goal[-1] > 0.9


def test_headroom_follows_the_goal():
    problem = small(pool_gpus=64.0)
    train, batch = problem.classes
    assert headroom(problem, batch, 0, 64.0) == pytest.approx(1 / 0.95)
    strict = replace(train, goal=ServiceGoal("wait", 0.5))
    assert headroom(problem, strict, 0, 64.0) > headroom(problem, train, 0, 64.0) > 1.0
    assert headroom(problem, train, 0, 640.0) < headroom(problem, train, 0, 64.0)
    slow = replace(train, options=(JobOption("a100", 8, 1.0), JobOption("a100", 4, 10.0)),
                   goal=ServiceGoal("jct", 5.0))  # fmt: skip
    assert headroom(problem, slow, 1, 64.0) is None
    assert reference_gpus(problem) == 64.0
    assert reference_gpus(small()) == pytest.approx((1.475 * 80 + 6.75 * 2) / 2)


def test_tightenings_of_one_pool_multiply():
    two = (Tightening("train", "a100", "north", 1.5), Tightening("train", "a100", "north", 2.0))
    assert tightening_factors(small(tightening=two)) == {("train", "a100", "north", False): 3.0}


def test_a_goal_is_said_in_words():
    assert ServiceGoal("wait", 4.0).sentence == "95 % of jobs start within 4 h"
    assert ServiceGoal("jct", 4.0, None).sentence == "jobs complete within 4 h on average"


def test_bands_are_worked_out_once_and_nobody_can_change_them():
    """The model and the checker read the same."""
    problem = small()
    bands = bands_of(problem)
    assert bands_of(problem) is bands
    assert bands_of(problem.replace(bands=1)) is not bands
    assert pickle.loads(pickle.dumps(problem)) == problem
    for part in (bands.of_hour, bands.hours, bands.arrivals, bands.energy_price, bands.carbon):
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0
