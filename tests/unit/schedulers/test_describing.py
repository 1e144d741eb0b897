"""Every scheduler says what its options are."""

import inspect

import pytest

from alloc.comparison.settings import Entry
from alloc.schedulers import make_scheduler
from alloc.schedulers.describing import describe_scheduler
from alloc.schedulers.registry import SCHEDULERS, scheduler_factory


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_option_is_explained(name: str) -> None:
    """Name, default, values and meaning of each, and nothing that cannot be given."""
    found = describe_scheduler(name)
    assert found.title
    assert "\n" not in found.title
    assert found.information == make_scheduler(name).information
    taken = inspect.signature(scheduler_factory(name)).parameters
    assert [option.name for option in found.options] == list(taken)
    for option in found.options:
        assert option.meaning, option.name
        assert option.values, option.name
        assert not option.name.startswith("_")


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_default_given_explicitly_changes_nothing(name: str) -> None:
    """What is printed as the default is the default, and can be given as it is printed."""
    from alloc.cli.settings import parse_settings

    found = describe_scheduler(name)
    pairs = [f"{option.name}={option.default}" for option in found.options]
    assert make_scheduler(name, **parse_settings(pairs, "--option")).name == found.name
    taken = inspect.signature(scheduler_factory(name)).parameters
    for option in found.options:
        assert parse_settings([f"x={option.default}"], "-O")["x"] == taken[option.name].default


def test_titles_tell_schedulers_apart() -> None:
    """Three exact rounds once had one and the same line."""
    titles = [describe_scheduler(name).title for name in SCHEDULERS]
    assert len(set(titles)) == len(titles)


def test_choices_are_listed() -> None:
    """Words to choose from are named, and sources and text are kept apart from the options."""
    found = describe_scheduler("srtf")
    options = {option.name: option for option in found.options}
    assert options["by"].values == "time or fraction"
    assert options["skip"].values == "true or false"
    assert options["skip"].default == "true"
    assert "Schrage" in found.sources
    assert "Parameters" not in found.text


def test_a_label_can_be_typed_again() -> None:
    """The name in a table is what the command line takes."""
    from alloc.cli.comparing import scheduler_list

    label = Entry("srtf", {"by": "time", "skip": False}).label
    assert label == "srtf(by=time, skip=false)"
    (again,) = scheduler_list(label)
    assert isinstance(again, Entry)
    assert again.options == {"by": "time", "skip": False}
