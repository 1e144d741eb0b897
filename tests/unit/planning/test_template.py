"""Templates and headlines: what is written can be read, and what is said is what is planned."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import numpy as np
import pytest

from alloc.certificate import Certificate
from alloc.documents.formats import format_of
from alloc.documents.parsing import parse_yaml
from alloc.errors import InstanceError
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.headline import headline, proof
from alloc.planning.later_weeks import replay_later_weeks, require_classes
from alloc.planning.prices import PriceSheet
from alloc.planning.replay import ReplaySettings
from alloc.planning.report import plan
from alloc.planning.template import MEASURE_FROM, UNFORESEEN, make_template, template_text
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing import HostOffer, Site
from alloc.problems.right_sizing.bands import bands_of
from alloc.problems.right_sizing.plan import Rental
from alloc.topology import HostType
from alloc.topology.topology import flat_cluster
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

HOUR_S, WEEK_S = 3600.0, 7 * 86400.0
BOX = HostType("box", 8, "a100")
FAST = HostType("fast box", 8, "h100")


def sheet(*offers: HostOffer) -> PriceSheet:
    return PriceSheet(offers, (Site("room"),), "EUR", {}, ())


BUY = sheet(HostOffer("buy box", BOX, "purchase", 50_000.0))
BOTH = sheet(
    HostOffer("buy box", BOX, "purchase", 50_000.0),
    HostOffer("buy fast", FAST, "purchase", 90_000.0),
)


@cache
def trace(weeks: int = 6, *, name: str = "trace", tenants: bool = False) -> Instance:
    draw = np.random.default_rng(0)
    jobs = []
    for k in range(weeks * 84 + 1):
        gpus = (1, 4, 8)[k % 3]
        jobs.append(
            Job(
                f"{k}",
                k * 2 * HOUR_S,
                float(draw.uniform(1.2, 6.0) * HOUR_S),
                (rigid_gang(gpus),),
                elasticity="rigid",
                preemptible=k % 2 == 0,
                tenant=f'team "{k % 3}": ü #' if tenants else None,
            )
        )
    return Instance(name, flat_cluster("old", HostType("old", 8, "a100"), 10), tuple(jobs))


@pytest.mark.parametrize("tenants", [False, True])
@pytest.mark.parametrize("offers", [BUY, BOTH], ids=["one", "two"])
def test_what_is_written_is_read_again(tenants, offers):
    made = make_template(
        "a # name: with signs",
        trace(tenants=tenants),
        offers,
        by_tenant=tenants,
        speeds={} if offers is BUY else {"h100": 2.0},
    )
    plain = parse_yaml(template_text(made), "it")
    assert format_of("planning").decode(plain) == made.problem
    assert len(made.problem.classes) <= 12


def test_gpus_of_the_history_need_no_speed_and_others_do():
    assert make_template("p", trace(), BUY).notes == ()
    with pytest.raises(InstanceError, match="how fast h100 is in relation to those of the history"):
        make_template("p", trace(), BOTH)
    made = make_template("p", trace(), BOTH, speeds={"h100": 2.0})
    for one in made.problem.classes:
        slow, fast = one.options
        assert fast.hours == pytest.approx(slow.hours / 2, rel=1e-4)


def test_what_may_be_interrupted_is_a_class_of_its_own_where_the_history_says_so():
    made = make_template("p", trace(), BUY)
    assert {one.interruptible for one in made.problem.classes} == {True, False}
    every = tuple(job.replace(preemptible=True) for job in trace().jobs)
    made = make_template("p", trace().replace(jobs=every), BUY)
    assert {one.interruptible for one in made.problem.classes} == {False}


@pytest.mark.parametrize("hold_out", [1, 3])
def test_no_week_is_planned_from_and_checked_on(hold_out):
    """Were the weeks held out to change, the problem would not."""
    first = make_template("p", trace(), BUY, hold_out=hold_out)
    cut_s = (6 - hold_out) * WEEK_S
    longer = tuple(
        job if job.arrival_s < cut_s else job.replace(work=3 * job.work) for job in trace().jobs
    )
    second = make_template("p", trace().replace(jobs=longer), BUY, hold_out=hold_out)
    assert first.problem == second.problem
    assert first.history.num_weeks == 6 - hold_out
    assert first.later is not None
    begin_s = cut_s - 2 * WEEK_S if hold_out < 5 else 0.0
    assert len(first.later.jobs) == sum(job.arrival_s >= begin_s for job in trace().jobs)


def test_later_weeks_on_more_hosts_keep_no_fewer_goals():
    made = make_template("p", trace(), BUY, hold_out=2, num_quarters=1, num_scenarios=2)
    settings = ReplaySettings(jobs=60)
    report = plan(made.problem)
    answer = report.result.require_solution()
    shares = []
    for count in (1, 2, 4, 40):
        orders = tuple(dataclasses.replace(order, count=count) for order in answer.orders[:1])
        found = replay_later_weeks(
            made.problem, dataclasses.replace(answer, orders=orders), made.later, settings
        )
        assert found.gpus == 8 * count
        assert sum(one.jobs for one in found.kept) == pytest.approx(2 * 84, abs=1)
        shares.append(sum(one.value * one.jobs for one in found.kept))
    assert shares == sorted(shares)
    assert shares[0] < shares[-1] == pytest.approx(2 * 84, abs=1)


def test_the_quick_queue_and_the_simulator_say_the_same_of_later_weeks():
    """With nothing to overtake, EASY backfilling is first come, first served."""
    every = tuple(job.replace(configurations=(rigid_gang(8),)) for job in trace().jobs)
    made = make_template(
        "p", trace().replace(jobs=every), BUY, hold_out=2, num_quarters=1, num_scenarios=2
    )
    answer = plan(made.problem).result.require_solution()
    quick, simulated = (
        replay_later_weeks(made.problem, answer, made.later, ReplaySettings(name, jobs=60))
        for name in ("fifo", "easy-backfill")
    )
    assert quick == simulated


def test_jobs_like_none_before_take_their_gpus_and_are_counted():
    cut_s = 4 * WEEK_S
    new = tuple(
        Job(f"n{k}", cut_s + k * HOUR_S, 60 * HOUR_S, (rigid_gang(8),), elasticity="rigid")
        for k in range(300)
    )
    jobs = tuple(sorted((*trace().jobs, *new), key=lambda job: job.arrival_s))
    made = make_template(
        "p", trace().replace(jobs=jobs), BUY, hold_out=2, num_quarters=1, num_scenarios=2
    )
    assert sum(job.model == UNFORESEEN for job in made.later.jobs) == 300
    answer = plan(made.problem).result.require_solution()
    found = replay_later_weeks(made.problem, answer, made.later, ReplaySettings(jobs=60))
    assert found.unforeseen == 300
    assert not found.holds
    assert found.came_gpus > 5 * found.planned_gpus


def no_hosts(answer):
    return dataclasses.replace(answer, orders=(), rentals=())


@pytest.mark.parametrize("scheduler", ["fifo", "easy-backfill"])
def test_on_no_hosts_no_goal_is_kept(scheduler):
    made = make_template("p", trace(), BUY, hold_out=2, num_quarters=1, num_scenarios=2)
    answer = plan(made.problem).result.require_solution()
    strange = made.later.jobs[-1].replace(model=UNFORESEEN)
    later = made.later.replace(jobs=(*made.later.jobs[:-1], strange))
    found = replay_later_weeks(
        made.problem, no_hosts(answer), later, ReplaySettings(scheduler, jobs=60)
    )
    assert (found.gpus, found.unforeseen) == (0, 1)
    assert [one.value for one in found.kept] == [0.0] * len(found.kept)
    assert not found.holds


def test_a_class_of_which_no_job_came_is_said():
    made = make_template("p", trace(), BUY, hold_out=2, num_quarters=1, num_scenarios=2)
    answer = plan(made.problem).result.require_solution()
    name = made.problem.classes[0].name
    rest = tuple(job for job in made.later.jobs if job.model != name)
    found = replay_later_weeks(
        made.problem, answer, made.later.replace(jobs=rest), ReplaySettings(jobs=60)
    )
    assert found.idle == (name,)
    assert "no job of 1 more came" in found.sentence


def test_what_may_be_interrupted_later_is_of_the_class_that_it_was_of_before():
    """Told apart only in the weeks held out, such jobs are no new class."""
    cut_s = 4 * WEEK_S
    jobs = tuple(
        job.replace(preemptible=job.arrival_s < cut_s or k % 2)
        for k, job in enumerate(trace().jobs)
    )
    made = make_template("p", trace().replace(jobs=jobs), BUY, hold_out=2)
    assert {one.interruptible for one in made.problem.classes} == {False}
    assert UNFORESEEN not in {job.model for job in made.later.jobs}


@pytest.mark.parametrize("text", ["soon", "nan", "-1", "1e30"])
def test_later_weeks_are_measured_from_a_second_before_their_end(text):
    made = make_template("p", trace(), BUY, hold_out=2)
    later = made.later.replace(description={MEASURE_FROM: text})
    with pytest.raises(InstanceError, match="no job is left to measure"):
        require_classes(made.problem, later)


def test_later_weeks_of_another_price_sheet_are_refused_before_the_plan():
    made = make_template("p", trace(), BUY, hold_out=2)
    other = make_template("p", trace(), BOTH, hold_out=2, speeds={"h100": 2.0})
    with pytest.raises(InstanceError, match='no configuration for GPUs of type "h100"'):
        require_classes(other.problem, made.later)


def test_the_load_that_was_planned_for_is_that_of_the_problem():
    made = make_template("p", trace(), BUY, hold_out=2, num_quarters=1, num_scenarios=2)
    answer = plan(made.problem).result.require_solution()
    found = replay_later_weeks(made.problem, answer, made.later, ReplaySettings(jobs=60))
    wanted = sum(
        scenario.probability * scenario.arrivals[one.name][0] * one.options[0].gpu_hours
        for scenario in made.problem.scenarios
        for one in made.problem.classes
    )
    assert found.planned_gpus == pytest.approx(wanted, rel=1e-3)


def test_names_of_any_signs_are_read_again_and_end_no_comment():
    name = "a\u2028b\x85c\x7fd\nowned: [1]\ufeff"
    offers = sheet(HostOffer("buy", HostType("box", 8, name), "purchase", 50_000.0))
    old = flat_cluster("old", HostType("old", 8, "generic"), 10)
    made = make_template(name, trace().replace(topology=old), offers)
    assert made.notes
    plain = parse_yaml(template_text(made), "it")
    assert format_of("planning").decode(plain) == made.problem


def test_weeks_held_out_in_which_no_job_ran_are_refused():
    cut_s = 5 * WEEK_S
    half = Configuration((TaskGroup("half", 1, 500),), 1.0)
    jobs = tuple(
        job if job.arrival_s < cut_s else job.replace(configurations=(half,))
        for job in trace().jobs
    )
    with pytest.raises(InstanceError, match="no job with whole GPUs"):
        make_template("p", trace().replace(jobs=jobs), BUY, hold_out=1)


def certificate(**changes) -> Certificate:
    """Return a certificate of a plan with an open gap."""
    return Certificate(
        *("feasible", 110.0, 99.9, "min", "cost", "right_sizing", "highs", "1.13", 0, 1, 2.0, "f")
    ).replace(**changes)


def test_a_headline_claims_no_more_than_is_proved():
    """A bound is rounded down, and what replays required is a condition of the proof."""
    assert proof(certificate(), "EUR", replayed=False) == "; no plan costs less than 99 EUR"
    assert "nothing is proved" in proof(certificate(bound=-math.inf), "EUR", replayed=True)
    best = certificate(status="optimal", bound=110.0)
    assert proof(best, "EUR", replayed=False) == ", proved to be the least to within a millionth"
    for one in (best, certificate()):
        assert "that keeps to what the replays required" in proof(one, "EUR", replayed=True)


@pytest.mark.parametrize("count", [3, 250])
def test_many_hosts_rented_are_a_number_that_people_read(count):
    """Means over two sites are of the same quarter."""
    report = plan(load_stored_planning("planning-tiny"))
    answer = report.result.require_solution()
    problem = report.certified_problem
    offer = next(one for one in problem.offers if one.is_hourly)
    bands = range(len(bands_of(problem).hours))
    rentals = tuple(
        Rental(scenario.name, quarter, band, offer.name, place, count)
        for scenario in problem.scenarios
        for quarter, place in enumerate((problem.sites[0].name, "elsewhere"))
        for band in bands
    )
    result = report.result.replace(solution=dataclasses.replace(answer, rentals=rentals))
    said = headline(dataclasses.replace(report, result=result))
    assert f'rent {count} hosts "{offer.name}" on average in the busiest quarter' in said


@pytest.mark.parametrize("name", ["planning-tiny", "planning-tiny/02"])
def test_a_headline_says_what_is_ordered_and_what_it_costs(name):
    report = plan(load_stored_planning(name))
    said = headline(report)
    ordered: dict[str, int] = {}
    for order in report.result.solution.orders:
        ordered[order.offer] = ordered.get(order.offer, 0) + order.count
    for offer, count in ordered.items():
        assert f'{count} host{"" if count == 1 else "s"} "{offer}"' in said
    assert f"{round(report.result.certificate.objective):,}" in said
    assert "was not replayed" in said


def test_there_is_no_headline_without_a_plan():
    assert headline(plan(load_stored_planning("planning-tiny").replace(budget=1.0))) is None
