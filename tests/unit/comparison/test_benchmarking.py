"""Runs over the library: what is stored, what is better than the table, what is a regression."""

import dataclasses
import datetime
import math

import pytest

import alloc
from alloc.certificate import Certificate
from alloc.comparison import benchmarking
from alloc.comparison.benchmarking import (
    Contender,
    Outcome,
    Run,
    answer,
    bench,
    chosen_entries,
    learned,
)
from alloc.errors import InstanceError
from alloc.instances import entry, load, manifest
from alloc.instances.catalogue import Bound
from alloc.result import Limits
from alloc.schedulers import make_scheduler
from alloc.schedulers.placement.policy import PlacementPolicy
from alloc.schedulers.placement.queue import place_queue

AUTO = Contender("auto")
TEN_S = Limits(seconds=10.0)
TODAY = datetime.date(2026, 3, 1)
RULES = ("first-fit", "best-fit", "fgd", "hived", "kai", "kueue-best-fit", "kueue-balanced")


def bound(value, **changes):
    made = Bound(
        value=value,
        formulation="malleable",
        backend="highs",
        backend_version="1",
        seed=0,
        workers=1,
        seconds=1.0,
        date=TODAY,
        proof="recomputed",
    )
    return made.model_copy(update=changes)


def known(lower, upper, **changes):
    """What the table says of an instance, two bounds in seconds."""
    shipped = entry("elastic-tiny/01")
    update = {"lower": bound(lower, **changes), "upper": bound(upper, **changes)}
    return shipped.model_copy(update={**update, "proved": lower == upper})


def outcome(about, value, proved, *, backend="highs", seconds=10.0, gap=0.0):
    certificate = Certificate(
        status="feasible",
        objective=value,
        bound=proved,
        sense=about.sense,
        objective_name=about.objective,
        formulation="malleable",
        backend=backend,
        backend_version="1",
        seed=0,
        workers=1,
        seconds=5.0,
        fingerprint=about.fingerprint,
        verified=True,
        bound_proof="recomputed",
    )
    return Outcome(Run(about, AUTO, Limits(seconds=seconds, gap=gap)), certificate)


def test_names_stand_for_instances_families_and_kinds():
    entries = manifest(None)
    ids = [e.id for e in chosen_entries(["quotas-tiny/02", "checkpointing"], entries)]
    assert ids[0] == "quotas-tiny/02"
    assert [i for i in ids if i.startswith("checkpointing-")] == ids[1:]
    assert chosen_entries(["all", "quotas-tiny"], entries) == entries
    with pytest.raises(InstanceError, match='no "placement-rail"; did you mean "placement-rails"'):
        chosen_entries(["placement-rail"], entries)


def test_contenders_answer_what_they_can():
    """Schedulers schedule, rules place; a solver has a model, or the family has the method."""
    names = ("auto", "columns", "highs")
    contenders = [*map(Contender, names), Contender("fifo", True), Contender("kai", True)]
    takes = {known.formulation: [c.takes(known) for c in contenders] for known in manifest(None)}
    assert takes["placement"] == [True, False, True, False, True]
    assert takes["malleable"][-2:] == [True, True]
    assert takes["inference_sizing"] == [True, True, True, False, False]
    assert takes["rank_mapping"] == [True, False, False, False, False]


@pytest.mark.parametrize("kind", sorted({e.formulation for e in manifest(None)}))
def test_every_kind_is_answered_and_agrees_with_the_table(kind):
    """The smallest instance of each kind: a false bound in the table would show here."""
    about = next(e for e in manifest(None) if e.formulation == kind)
    found = answer(Run(about, AUTO, TEN_S))
    assert found.error is None
    assert found.solved
    assert found.behind == pytest.approx(0.0, abs=1e-6)
    assert found.note == ""
    assert about.proved


def test_a_stored_run_is_not_done_again(tmp_path, monkeypatch):
    """Hours of solving survive an interrupt; another limit is another run."""
    entries = chosen_entries(["quotas-tiny/01", "elastic-tiny/01"], manifest(None))
    contenders = [AUTO, Contender("fifo", is_scheduler=True)]
    store = tmp_path / "runs.sqlite"
    told = []
    first = bench(
        entries,
        contenders,
        limits=TEN_S,
        seeds=(0, 1),
        store=store,
        progress=lambda done, total, outcome: told.append((done, total)),
    )
    assert told == [(k, 6) for k in range(1, 7)]
    monkeypatch.setattr(benchmarking, "answer", lambda run: pytest.fail(run.label))
    assert bench(entries, contenders, limits=TEN_S, seeds=(0, 1), store=store) == first
    monkeypatch.setattr(benchmarking, "answer", lambda run: Outcome(run, error="asked"))
    again = bench(entries, contenders, limits=Limits(seconds=5.0), store=store)
    # Schedulers have no limit.
    assert [o.run.contender.name for o in again if o.error] == ["auto", "auto"]


def test_a_changed_rule_is_run_again(tmp_path):
    """The file of a rule of one's own is part of the key: no new rule is taken for the old one."""
    file = tmp_path / "rule.py"
    entries = chosen_entries(["elastic-tiny/05"], manifest(None))
    keys = []
    for order in ("arrival_s", "id"):
        file.write_text(f"def rule(state):\n    return sorted(state, key=lambda j: j.{order})\n")
        keys.append(Run(entries[0], Contender(f"{file}:rule", is_scheduler=True), TEN_S).key)
    assert keys[0] != keys[1]


def test_an_interrupted_solve_stops_the_bench_and_is_not_kept(tmp_path, monkeypatch):
    """The solver makes an answer of Ctrl-C; stored, it would stand in for the whole solve."""
    entries = chosen_entries(["quotas-tiny/01", "quotas-tiny/02"], manifest(None))
    store = tmp_path / "runs.sqlite"
    asked = []

    def cut_short(run):
        asked.append(run.entry.id)
        made = outcome(run.entry, 1e9, 0.0).certificate
        return Outcome(run, made.replace(limit="interrupt"))

    with monkeypatch.context() as broken:
        broken.setattr(benchmarking, "answer", cut_short)
        with pytest.raises(KeyboardInterrupt):
            bench(entries, [AUTO], limits=TEN_S, store=store)
    assert asked == ["quotas-tiny/01"]
    assert all(o.solved for o in bench(entries, [AUTO], limits=TEN_S, store=store))


def test_a_failed_run_is_told_and_tried_again(tmp_path, monkeypatch):
    entries = chosen_entries(["quotas-tiny/01"], manifest(None))
    store = tmp_path / "runs.sqlite"
    with monkeypatch.context() as broken:
        broken.setattr(benchmarking, "answer", lambda run: Outcome(run, error="out of order"))
        (failed,) = bench(entries, [AUTO], limits=TEN_S, store=store)
    assert (failed.error, failed.value, failed.note, failed.solved) == (
        "out of order",
        None,
        "",
        False,
    )
    (done,) = bench(entries, [AUTO], limits=TEN_S, store=store)
    assert done.error is None


@pytest.mark.long
def test_other_processes_find_the_same():
    entries = chosen_entries(["quotas-tiny"], manifest(None))
    here = bench(entries, [AUTO], limits=TEN_S)
    there = bench(entries, [AUTO], limits=TEN_S, jobs=2)
    assert [o.value for o in there] == [o.value for o in here]


def test_nobody_who_can_answer_is_refused():
    with pytest.raises(InstanceError, match="none of cpsat answers problems of quota_planning"):
        bench(chosen_entries(["quotas-tiny"], manifest(None)), [Contender("cpsat")], limits=TEN_S)


@pytest.mark.parametrize(
    ("value", "proved", "note"),
    [
        (110.0, 90.0, ""),
        (105.0, 90.0, "better value"),
        (110.0, 95.0, "better bound"),
        (105.0, 95.0, "better value and bound"),
        (120.0, 80.0, "regression"),
        (None, 80.0, "regression"),
    ],
)
def test_the_note_compares_with_the_table(value, proved, note):
    assert outcome(known(90.0, 110.0), value, proved).note == note


def test_a_worse_answer_is_a_regression_only_on_equal_terms():
    """Another solver, or less time than the table's solve took: then it says nothing."""
    about = known(90.0, 110.0, seconds=8.0)
    assert outcome(about, 120.0, 80.0, seconds=10.0).note == ""
    assert outcome(about, 120.0, 80.0, seconds=16.0).note == "regression"
    assert outcome(about, 120.0, 80.0, seconds=16.0, backend="cpsat").note == ""
    assert outcome(about, 110.5, 80.0, seconds=16.0, gap=0.01).note == ""


def test_the_time_that_others_say_they_took_is_no_yardstick():
    about = known(90.0, 110.0, who="somebody")
    assert outcome(about, 120.0, 80.0).note == ""


def test_who_never_had_the_other_half_of_a_proof_has_not_lost_it():
    """HiGHS showed the bound and CP-SAT the value: HiGHS with the same bound does as it did."""
    about = known(100.0, 100.0)
    about = about.model_copy(update={"upper": bound(100.0, backend="cpsat")})
    assert outcome(about, 110.0, 100.0).note == ""
    assert outcome(about, 110.0, 90.0).note == "regression"


def test_a_better_proof_is_no_better_bound():
    about = known(90.0, 110.0, proof="claimed")
    assert outcome(about, 110.0, 90.0).note == "better proof"
    assert outcome(about, 105.0, 90.0).note == "better value"


def test_a_lost_proof_is_a_regression():
    about = known(100.0, 100.0)
    assert outcome(about, 100.0, 100.0).note == ""
    assert outcome(about, 100.0, 90.0).note == "regression"


def test_a_contradiction_is_told_and_nothing_of_its_instance_is_learned():
    """A value better than a proved bound, of the table or of another run: one of them is false."""
    about = known(90.0, 110.0)
    assert outcome(about, 80.0, 70.0).note == "contradiction"
    none = outcome(about, None, math.inf)
    none = dataclasses.replace(none, certificate=none.certificate.replace(status="infeasible"))
    assert none.note == "contradiction"
    other = entry("elastic-tiny/02").model_copy(update={"lower": None, "upper": None})
    fine = outcome(other, 10.0, 5.0)
    for false in (
        [outcome(about, 80.0, 70.0)],
        [none],
        [outcome(about, 100.0, 90.0), outcome(about, 110.0, 105.0)],
    ):
        better, wrong = learned([*false, fine], TODAY)
        assert set(wrong) == {about.id}
        assert set(better) == {other.id}


def test_what_several_runs_show_together_is_learned():
    about = known(90.0, 110.0)
    better, wrong = learned([outcome(about, 105.0, 80.0), outcome(about, 120.0, 95.0)], TODAY)
    assert wrong == {}
    assert (better[about.id].lower.value, better[about.id].upper.value) == (95.0, 105.0)
    assert learned([outcome(about, 120.0, 80.0)], TODAY) == ({}, {})


def test_behind_is_relative_and_signed():
    assert outcome(known(90.0, 100.0), 110.0, 80.0).behind == pytest.approx(0.1)
    assert outcome(known(90.0, 100.0), 95.0, 80.0).behind == pytest.approx(-0.05)
    assert outcome(known(0.0, 0.0), 1.0, 0.0).behind == math.inf
    about = entry("placement-tiny/01")
    worse = dataclasses.replace(outcome(about, 10.0, 80.0).certificate, sense="max")
    assert Outcome(Run(about, AUTO, TEN_S), worse).behind > 0


@pytest.mark.parametrize("rule", RULES)
def test_placement_rules_keep_all_rules_and_never_beat_the_bound(rule):
    """Their values are checked; what runs stays, and the optimum is above."""
    for number in (1, 3, 6):
        about = entry(f"placement-tiny/{number:02d}")
        found = answer(Run(about, Contender(rule, is_scheduler=True), TEN_S))
        assert found.error is None
        assert found.behind >= -1e-9
        assert found.certificate.bound == math.inf
        assert not found.solved
        problem = load(about.id)
        policy = make_scheduler(rule)
        assert isinstance(policy, PlacementPolicy)
        placed = place_queue(problem, policy)
        assert alloc.verify(problem, placed) == []
        assert set(problem.running) <= set(placed.assignments)


def test_a_scheduler_that_places_nothing_is_refused_on_placements():
    about = entry("placement-tiny/01")
    found = answer(Run(about, Contender("fifo", is_scheduler=True), TEN_S))
    assert "no placement rule" in found.error


def test_a_rule_that_fails_does_not_take_the_others_down(monkeypatch):
    """It may be anybody's code."""

    def broken(*_):
        raise KeyError("hosts")

    monkeypatch.setattr(benchmarking, "place_queue", broken)
    found = answer(Run(entry("placement-tiny/01"), Contender("kai", is_scheduler=True), TEN_S))
    assert "KeyError: 'hosts' (in broken, line" in found.error


def test_a_schedule_is_simulated():
    """FIFO on a tiny instance: a value no better than the proved optimum."""
    about = entry("elastic-tiny/05")
    found = answer(Run(about, Contender("fifo", is_scheduler=True), TEN_S))
    assert found.value >= about.lower.value * (1 - 1e-9)
    assert found.certificate.backend == "scheduler fifo"
