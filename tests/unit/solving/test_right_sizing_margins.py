"""Right-sizing with margins: who shares them, who is kept out by them, and what starts know."""

from dataclasses import replace

import pytest
from planning_worlds import A100, METHODS, margins, without_cloud, world

from alloc.models.right_sizing import SizingData
from alloc.models.right_sizing.first_stage import first_stage
from alloc.problems.right_sizing import (
    HostOffer,
    Site,
    Tightening,
)
from alloc.result import Limits
from alloc.solving.right_sizing.check import check_out_of_sample
from alloc.solving.right_sizing.first_stage_completion import FirstStageCompletion
from alloc.solving.right_sizing.method import right_size


@pytest.mark.parametrize("method", METHODS)
def test_classes_that_meet_in_a_pool_share_its_margin(method):
    """One more class in the pool costs nothing if its margin is no larger: that is what it is for,
    as against a factor, which every class pays by itself."""

    def cost(**gpus: float) -> float:
        result = right_size(
            world(tightening=margins(**gpus)), limits=Limits(gap=1e-6), method=method
        )
        assert result.certificate.gap <= 2e-6
        return result.certificate.objective

    alone, none = cost(train=24.0), cost()
    assert alone > none
    # "batch" may stay out of the pool that keeps a margin only by keeping one in another.
    both = cost(train=24.0, batch=24.0)
    assert none < alone <= both + 1e-6 * both < none + 1.5 * (alone - none)
    assert cost(train=48.0) > alone


def test_a_margin_larger_than_spot_hosts_to_be_had_keeps_a_class_out():
    """Known from the data, without a search."""
    spot = HostOffer("spot", A100, "spot", 1.0, ("cloud",), most_hosts=4)
    classes = tuple(replace(c, interruptible=True) for c in world().classes)
    problem = world(offers=(*world().offers, spot), classes=classes)
    assert any(share.spot for share in right_size(problem, limits=Limits(gap=1e-4)).solution.shares)
    out = tuple(
        Tightening(c.name, "a100", "cloud", margin=33.0, spot=True) for c in problem.classes
    )
    first = first_stage(SizingData(problem.replace(tightening=out)))
    assert (first.upper[first.sent] == 0).all()
    plan = right_size(problem.replace(tightening=out), limits=Limits(gap=1e-4)).solution
    assert not any(share.spot for share in plan.shares)


@pytest.mark.parametrize("method", METHODS)
def test_a_plan_to_start_from_knows_where_jobs_were_sent(method):
    """Else a start that is optimal would be worth nothing where there are margins."""
    problem = world(tightening=margins(train=24.0, batch=8.0))
    done = right_size(problem, limits=Limits(gap=1e-6), method=method)
    again = right_size(problem, limits=Limits(gap=1e-3), method=method, start=done.solution)
    assert again.certificate.objective <= done.certificate.objective * (1 + 1e-3)
    completing = FirstStageCompletion(
        SizingData(problem), first := first_stage(SizingData(problem))
    )
    values = completing.complete(completing.from_plan(done.solution))
    assert values[first.sent].any()
    assert values[first.margin].max() in (8.0, 24.0)


def test_held_out_futures_have_the_margin_to_keep_too():
    """A plan that just serves its own future has nothing left for a margin twice as large."""
    problem = world(tightening=margins(train=24.0))
    plan = right_size(problem, limits=Limits(gap=1e-4)).solution
    same = check_out_of_sample(problem, plan, problem.scenarios)
    assert same.share == pytest.approx(1.0)
    closed = without_cloud(sites=(Site("north", rack_units=600.0), Site("cloud")))
    small = closed.replace(tightening=margins(train=8.0))
    fits = right_size(small, limits=Limits(gap=1e-6)).solution
    assert check_out_of_sample(small, fits, small.scenarios).share == pytest.approx(1.0)
    more = closed.replace(tightening=margins(train=80.0))
    assert check_out_of_sample(more, fits, more.scenarios).share < 1.0
