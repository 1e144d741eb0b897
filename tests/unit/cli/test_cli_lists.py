"""`alloc models` and `alloc schedulers`."""

import json

import pytest

from alloc.families import FAMILIES
from alloc.schedulers import scheduler_names


def test_every_formulation_is_listed(run):
    listed = json.loads(run("models", "list", "--json").stdout)
    assert [model["name"] for model in listed] == list(FAMILIES)
    shown = run("models", "list").stdout
    for name in FAMILIES:
        assert name in shown


@pytest.mark.parametrize("name", FAMILIES)
def test_the_page_of_mathematics_is_shown(run, name):
    done = run("models", "show", name)
    assert done.exit_code == 0
    for heading in ["Sets", "Variables", "Objective", "Constraints", "(C1)"]:
        assert heading in done.stdout
    assert json.loads(run("models", "show", name, "--json").stdout)["page"].strip() in done.stdout


def test_every_scheduler_is_listed_with_what_it_needs(run):
    listed = json.loads(run("schedulers", "list", "--json").stdout)
    assert [scheduler["name"] for scheduler in listed] == list(scheduler_names())
    assert all(s["needs"] in ("none", "estimate", "exact") for s in listed)
    assert all(s["information"] and s["title"] for s in listed)
    shown = run("schedulers", "list").stdout
    for name in scheduler_names():
        assert name in shown
