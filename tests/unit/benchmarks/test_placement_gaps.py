"""The study of placement rules counts what it says, and leaves out nobody in silence."""

import pytest

from alloc.instances import load
from alloc.instances.recipes.placement import busy_cluster
from alloc.problems.allocation.solution import Allocation
from benchmarks import placement_gaps
from benchmarks.placement_gaps import (
    RULES,
    Cell,
    comparison,
    gpus_of,
    losses_of,
    main,
    table,
    text_of,
)


def test_losses_are_shares_of_what_can_be_placed():
    """By hand: what runs counts for nobody, and no rule beats the proved optimum."""
    problem = load("placement-tiny/03")
    stands = gpus_of(problem, Allocation(problem.running))
    assert stands == sum(
        problem.job(a.job).configurations[0].demand[0] / 1000 for a in problem.running
    )
    found = losses_of(problem, 10.0)
    assert set(found) == set(RULES)
    assert all(0 <= loss <= 1 for loss in found.values())


def test_a_broken_placement_stops_the_study():
    problem = load("placement-tiny/03")
    with pytest.raises(RuntimeError, match="placement-tiny/03"):
        gpus_of(problem, Allocation(()))


def test_the_table_has_a_line_for_each_fabric_and_load():
    cells = [Cell("small", load, rule, (0.1, 0.3)) for load in (0.3, 0.5) for rule in RULES]
    lines = table(cells).splitlines()
    assert len(lines) == 2 + 2 + 1
    assert lines[2].startswith("| small | 30% | 20.0 ± ")
    assert text_of(Cell("small", 0.3, "kai", (0.1,))) == "-"


def test_rules_are_compared_cluster_by_cluster():
    """By hand: kai loses a tenth more than best-fit on one of two clusters."""
    lost = {"kai": (0.0, 0.6), "first-fit": (0.0, 0.7)}
    cells = [Cell("small", 0.3, rule, lost.get(rule, (0.0, 0.5))) for rule in RULES]
    lines = dict(line.split(": ", 1) for line in comparison(cells).splitlines())
    assert lines["kai"].startswith("reaches the optimum on 1 of 2, leaves out 60% at worst, 5.0 ±")
    assert "0.0 ± 0.0 points more than best-fit" in lines["best-fit"]


def test_what_is_not_proved_is_said_to_be_left_out(monkeypatch, capsys):
    monkeypatch.setattr(placement_gaps, "FABRICS", {"two": ("leaf-spine", (2, 2), "h100")})
    monkeypatch.setattr(placement_gaps, "LOADS", (0.3,))
    monkeypatch.setattr(
        placement_gaps,
        "busy_cluster",
        lambda name, **given: busy_cluster(name, **{**given, "load": 1.0}),
    )
    assert main(["--seeds", "1"]) == 0
    printed = capsys.readouterr().out
    assert "left out: two, load 0.3, seed 1000" in printed
    assert "0 of 1 seeds" in printed
