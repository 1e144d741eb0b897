"""What people and programs write as a change means what it says, or is refused with an example."""

from __future__ import annotations

import pytest

from alloc.errors import InstanceError
from alloc.planning.change_text import GRAMMAR, parse_change, read_change
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
)
from alloc.problems.right_sizing import JobClass, JobOption, ServiceGoal


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("demand=+20%", Demand(1.2)),
        ("demand=x1.2", Demand(1.2)),
        ("demand:large batch=-10%", Demand(0.9, "large batch")),
        ("demand:x=x0.5", Demand(0.5, "x")),
        ("hosts:dgx@north=-2", Hosts("dgx", "north", -2)),
        ("hosts:dgx@a100@north=+3", Hosts("dgx@a100", "north", 3)),
        ("rack:dgx@north", LostRack("dgx", "north")),
        ("close:north", ClosedSite("north")),
        ("without:dgx", NoMore("dgx")),
        ("price:dgx=-10%", Price("dgx", 0.9)),
        ("energy-price=+30%", EnergyPrice(1.3)),
        ("energy-price:north=x2", EnergyPrice(2.0, "north")),
        ("budget=2e6", Budget(2e6)),
        ("budget=none", Budget(None)),
        ("goal:x=wait 2h 95%", Goal("x", ServiceGoal("wait", 2.0, 0.95))),
        ("goal:x=jct 8 h mean", Goal("x", ServiceGoal("jct", 8.0, None))),
        ("goal:x=none", Goal("x", None)),
    ],
)
def test_text_means_its_change(text: str, change: Change) -> None:
    assert parse_change(text) == change
    assert read_change(text) == change


def test_every_example_of_the_grammar_is_understood() -> None:
    for examples, meaning in GRAMMAR:
        assert meaning
        for example in examples.split(", "):
            assert parse_change(example).sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hosts:dgx@north=1e999", "hosts come whole"),
        ("hosts:dgx@north=nan", "hosts come whole"),
        ("demnd=+20%", 'unknown kind "demnd"; did you mean "demand"'),
        ("", "for example demand"),
        ("team:x", 'unknown kind "team"'),
        ("hosts:dgx=-2", "name an offer at a site"),
        ("hosts:dgx@north=1.5", "hosts come whole"),
        ("hosts:dgx@north=0", "count"),
        ("rack:dgx@north=3", "takes no value"),
        ("goal:x=2h", "is not a goal"),
        ("goal:x=wiat 2h 95%", 'did you mean "wait"'),
        ("price=3", "names nothing"),
        ("demand", "no value does not say in relation to what; write demand=\\+20%"),
        ("demand=-120%", "multiplies by -0.2; write more than -100%"),
        ("demand=lots%", "does not say in relation to what"),
        ("demand=+lots%", '"\\+lots" is not a number'),
        ("demand=xx", '"x" is not a number'),
        ("budget=lots", '"lots" is not a number'),
    ],
)
def test_text_without_meaning_is_refused_with_an_example(text: str, sentence: str) -> None:
    with pytest.raises(InstanceError, match=sentence):
        parse_change(text)


def test_documents_name_the_fields_of_a_change() -> None:
    assert read_change({"change": "demand", "factor": 1.2}) == Demand(1.2)
    goal = {"measure": "wait", "hours": 1, "fraction": None}
    assert read_change({"change": "goal", "job_class": "x", "goal": goal}) == Goal(
        "x", ServiceGoal("wait", 1.0, None)
    )
    team = {
        "change": "team",
        "classes": [{"name": "new", "options": [{"gpu_type": "a100", "gpus": 1, "hours": 2}]}],
        "jobs_per_hour": {"new": [1, 2]},
    }
    assert read_change(team) == NewTeam(
        (JobClass("new", (JobOption("a100", 1, 2.0),)),), {"new": (1.0, 2.0)}
    )


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (3, "a change is a text such as"),
        ({"factor": 1.2}, "a change is a text such as"),
        ({"change": "demnd"}, 'did you mean "demand"'),
        ({"change": "demand", "factr": 1.2}, 'unknown field "factr"; did you mean "factor"'),
        ({"change": "demand"}, 'change "demand": field "factor" is missing; add it'),
        ({"change": "demand", "factor": "much"}, 'factor is "much"; give a number without quotes'),
        ({"change": "demand", "factor": "1.2"}, 'factor is "1.2"; give a number without quotes'),
        (
            {
                "change": "team",
                "classes": [{"name": "x", "options": [], "colour": 1}],
                "jobs_per_hour": {"x": [1]},
            },
            'change "team": .*"x": unknown field "colour"',
        ),
        (
            {"change": "goal", "job_class": "x", "goal": {"measure": "wait", "hours": -1}},
            "hours is -1",
        ),
    ],
)
def test_documents_without_meaning_are_refused(document: object, sentence: str) -> None:
    with pytest.raises(InstanceError, match=sentence):
        read_change(document)


@pytest.mark.parametrize("kind", ["demand", "demand:a", "price:a", "energy-price"])
@pytest.mark.parametrize("value", ["20", "+20", "-20", "20%", "1.2", "0", "120%"])
def test_a_number_that_could_mean_many_things_names_them_all(kind: str, value: str):
    """``20`` is a fifth more to one and twenty times as much to another; so it is asked."""
    number = value.strip("+-%") if value != "0" else "20"
    with pytest.raises(InstanceError) as refused:
        parse_change(f"{kind}={value}")
    for spelling in (f"{kind}=+{number}%", f"{kind}=-{number}%", f"{kind}=x{number}"):
        assert spelling in str(refused.value)
        if number != "120" or "-" not in spelling:
            parse_change(spelling)


@pytest.mark.parametrize("value", ["-100%", "-150%", "x0", "x-1", "xnan", "xinf", "+infinity%"])
def test_a_factor_that_leaves_nothing_is_refused_with_the_cure(value: str):
    with pytest.raises(InstanceError, match="write more than -100%, or x and a number"):
        parse_change(f"demand={value}")
