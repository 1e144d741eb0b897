"""Schedulers for jobs with deadlines: promises kept, and what an exact test lets in."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from deadline_jobs import HOUR, LINEAR, TABLE, instance, job

from alloc.errors import UnsupportedFeatureError
from alloc.schedulers import exact_admission, make_scheduler
from alloc.schedulers.joint_promises import columns_of
from alloc.simulation import simulate
from alloc.simulation.metrics import metrics_of
from alloc.solving import solve
from alloc.verification import verify
from alloc.workload import Configuration, Elasticity, TaskGroup

ADMITTING = ("elasticflow", "exact-admission", "primal-dual", "chronus")
"""Policies that keep what they admit where they know the work."""


@pytest.mark.long
@pytest.mark.parametrize("name", [*ADMITTING, "edf", "mlfs"])
def test_a_policy_never_begins_what_it_refuses(name: str) -> None:
    """And what ElasticFlow has admitted is in time: it knows the work. None beats the bound."""
    for seed in range(4):
        rng = Random(seed)
        made = []
        for k in range(12):
            begin = rng.randrange(6)
            made.append(
                job(
                    f"j{k}",
                    rng.randint(1, 9),
                    begin + rng.randint(1, 4),
                    arrival_s=begin * HOUR,
                    table=rng.choice((TABLE, LINEAR)),
                    weight=rng.randint(1, 4),
                )
            )
        asked = instance(*made)
        done = simulate(asked, name)
        refused = {k for k, why in done.schedule.unplaced.items() if why.startswith("refused by")}
        assert refused
        assert not refused & done.schedule.runs_of.keys()
        if name in ADMITTING:
            assert not done.late
            assert verify(asked, done.schedule) == []
        best = solve(asked, "admission").certificate.bound
        metrics = metrics_of(done)
        assert metrics.value <= best
        assert metrics.deadlines_met == (12 - len(done.unfinished) - len(done.late)) / 12


@pytest.mark.long
def test_the_exact_test_lets_in_at_least_what_shares_let_in() -> None:
    """Until the two part, they see the same; where they part first, it accepts as much or more."""
    more = 0
    for seed in range(12):
        rng = Random(seed)
        made = []
        for k in range(10):
            begin = rng.randrange(4)
            made.append(
                job(
                    f"j{k}",
                    rng.randint(2, 9),
                    begin + rng.randint(1, 4),
                    arrival_s=begin * HOUR,
                    table=TABLE,
                )
            )
        asked = instance(*made)
        shares, exact = (
            {k for k, why in simulate(asked, name).schedule.unplaced.items() if "refused by" in why}
            for name in ("elasticflow", "exact-admission")
        )
        if shares != exact:
            parted_s = min(j.arrival_s for j in made if (j.id in shares) != (j.id in exact))
            asking = {j.id for j in made if j.arrival_s == parted_s}
            assert len(asking & exact) <= len(asking & shares)
            more += len(asking & exact) < len(asking & shares)
    assert more


@pytest.mark.long
@pytest.mark.parametrize("elasticity", ["malleable", "moldable"])
def test_the_exact_test_accepts_the_best_of_all_that_ask_at_once(elasticity: Elasticity) -> None:
    """Nothing is hidden then, and no job takes a size that the bound does not know."""
    better = 0
    for seed in range(6):
        rng = Random(seed)
        asked = instance(
            *(
                job(
                    f"j{k}",
                    rng.randint(1, 9),
                    rng.randint(1, 4),
                    table=rng.choice((TABLE, LINEAR)),
                    weight=rng.randint(1, 4),
                    elasticity=elasticity,
                )
                for k in range(8)
            )
        )
        best = solve(asked, "admission").certificate
        assert best.status == "optimal"
        assert best.objective is not None
        done = simulate(asked, make_scheduler("exact-admission", limit_s=60.0))
        assert not done.late
        assert metrics_of(done).value == pytest.approx(best.objective)
        better += metrics_of(done).value > metrics_of(simulate(asked, "elasticflow")).value
    assert better


def test_what_a_program_leaves_out_within_its_gap_is_let_in_where_there_is_room() -> None:
    """The least job was refused beside five free GPUs: the gap of the rest is worth more."""
    rigid = (Configuration((TaskGroup("worker", 3, 1000),), 3.0),)
    asked = instance(
        job("hopeless", 6, 3, weight=1e9, table=TABLE[:1]),
        job("great", 3, 1, weight=1e9, table=rigid, elasticity="moldable"),
        job("least", 1.1, 1, weight=1e-9, table=TABLE),
        gpus=8,
    )
    done = simulate(asked, "exact-admission")
    assert set(done.schedule.unplaced) == {"hopeless"}
    assert not done.late


def test_a_program_that_would_not_keep_its_time_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two jobs of 4,000 slots and 8 sizes: HiGHS took 7.5 CPU seconds for a limit of 0.5."""
    begun: list[int] = []

    def program(promised: Any, asking: Any, *arguments: Any, **named: Any) -> None:
        begun.append(columns_of(asking))

    monkeypatch.setattr(exact_admission, "plan_together", program)
    table = tuple(Configuration((TaskGroup("worker", k, 1000),), float(k)) for k in range(1, 9))
    for hours in (4, 4000):
        made = [job(name, 10 * hours, hours, table=table) for name in "abcd"]
        policy = make_scheduler("exact-admission")
        done = simulate(instance(*made, gpus=8).replace(slot_s=HOUR), policy, max_time_s=HOUR)
        assert done.schedule.unplaced
    assert begun == [4 * 4 * 8]


@pytest.mark.parametrize("name", ["elasticflow", "exact-admission", "chronus"])
def test_a_promise_that_a_restart_breaks_is_counted(name: str) -> None:
    """Job a begins early, pauses for b, and then pays more than its slack."""
    one = TABLE[:1]
    done = simulate(
        instance(
            job("a", 2, 3, table=one, restart_cost_s=0.9 * HOUR),
            job("b", 1, 2, table=one, arrival_s=HOUR),
            gpus=1,
        ),
        name,
    )
    assert done.late == ("a",)
    assert done.notes == {"broken_promises": 1.0}


def test_edf_serves_what_is_in_time_but_for_rounding() -> None:
    asked = instance(job("a", 0.2 / HOUR, 0.3 / HOUR, arrival_s=0.1, table=TABLE[:1]))
    done = simulate(asked.replace(slot_s=0.1), "edf")
    assert not done.schedule.unplaced
    assert not done.late


def test_elasticflow_says_what_it_cannot_plan() -> None:
    with pytest.raises(UnsupportedFeatureError, match="plans in slots"):
        simulate(instance(job("a", 1, 1)).replace(slot_s=None), "elasticflow")
    with pytest.raises(UnsupportedFeatureError, match='job "a" is not preemptible'):
        simulate(instance(job("a", 1, 1, preemptible=False)), "elasticflow")


def test_elasticflow_keeps_promises_that_it_did_not_make() -> None:
    """A job that may not be refused waits for what is left, and may be late."""
    done = simulate(
        instance(
            job("a", 4, 1),
            job("b", 4, 1, refusable=False),
            job("c", 2, 9, deadline_s=None, refusable=False),
        ),
        "elasticflow",
    )
    assert done.completion_s["a"] == HOUR
    assert done.completion_s["b"] is not None
    assert done.late == ("b",)
