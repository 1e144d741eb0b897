"""The shared strategies: what they draw is valid and covers the features that they promise."""

from __future__ import annotations

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from strategies import allocations, instances

from alloc.problems.allocation.instance import Instance
from alloc.verification import verify


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_drawn_allocations_fit_the_cluster(data: st.DataObject) -> None:
    """Other tests lean on `allocations` for feasible answers; quotas are left to chance."""
    instance = data.draw(instances())
    found = verify(instance, data.draw(allocations(instance)))
    assert [violation for violation in found if violation.code != "quota"] == []


def _has_dip(instance: Instance) -> bool:
    rates = [c.rate for c in max((j.configurations for j in instance.jobs), key=len)]
    return any(a > b < c for a, b, c in zip(rates, rates[1:], rates[2:], strict=False))


@pytest.mark.long
def test_every_feature_can_be_drawn() -> None:
    """A feature that the strategy never draws is a feature that no property test covers."""
    features = {
        "zero rate": lambda i: any(c.rate == 0 for j in i.jobs for c in j.configurations),
        "dip in the rates": _has_dip,
        "deadline": lambda i: any(j.deadline_s is not None for j in i.jobs),
        "restart cost": lambda i: any(j.restart_cost_s > 0 for j in i.jobs),
        "no pauses": lambda i: any(not j.preemptible for j in i.jobs),
        "quota": lambda i: any(j.tenant is not None for j in i.jobs),
        "running": lambda i: bool(i.running),
        "shared GPU": lambda i: any(
            g.shares_gpu for j in i.jobs for c in j.configurations for g in c.tasks
        ),
        "level": lambda i: any(c.within == "leaf" for j in i.jobs for c in j.configurations),
        "rigid": lambda i: any(j.elasticity == "rigid" for j in i.jobs),
        "moldable": lambda i: any(j.elasticity == "moldable" for j in i.jobs),
        "shared set": lambda i: (
            len(i.jobs) > 1 and i.jobs[0].configurations is i.jobs[1].configurations
        ),
    }
    quick = settings(max_examples=3000, phases=[Phase.generate], derandomize=True, database=None)
    for name, has_it in features.items():
        # Raises NoSuchExample, which names the predicate, if nothing is found.
        assert find(instances(), has_it, settings=quick), name
