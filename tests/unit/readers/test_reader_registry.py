"""The registry: everything the command line needs to know, and the same errors as the API."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import (
    READERS,
    itp_instance,
    openb_instance,
    philly_instance,
    read_instance,
)

DATA = Path(__file__).parents[2] / "data" / "traces"


@pytest.mark.parametrize(
    ("kind", "function", "positional"),
    [
        ("itp", itp_instance, {"path"}),
        ("philly", philly_instance, {"path"}),
        ("openb", openb_instance, {"pods"}),
    ],
)
def test_options_are_the_parameters_of_the_builders(
    kind: str, function: object, positional: set[str]
) -> None:
    """An option that the builder lacks, a forgotten one or another default would mislead."""
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    options = {option.name: option for option in READERS[kind].options}
    assert set(options) == set(parameters) - positional
    for name, option in options.items():
        default = parameters[name].default
        assert option.default == (None if default is inspect.Parameter.empty else default), name
        assert option.required == (default is inspect.Parameter.empty), name
        assert option.help.endswith(".")


def test_text_from_the_command_line_becomes_values() -> None:
    """Text and values give the same instance."""
    text, _ = read_instance(
        "itp", DATA / "itp.csv", num_hosts="2", slot_s="600", preemptible="no", start_s=None
    )
    values, _ = itp_instance(DATA / "itp.csv", num_hosts=2, slot_s=600.0, preemptible=False)
    assert text == values
    same, _ = read_instance("itp", DATA / "itp.csv", num_hosts=2, slot_s=600.0, preemptible=False)
    assert same == values
    assert not text.jobs[0].preemptible


def test_every_kind_makes_an_instance() -> None:
    """One call for each line of the registry, so that no line is dead."""
    paths = {
        "itp": (DATA / "itp-elastic.csv", {"scaling": str(DATA / "elasticflow")}),
        "philly": (DATA / "philly.csv", {"vc": "aaa111", "vcs": str(DATA / "philly-vcs.csv")}),
        "openb": (DATA / "openb-pods.csv", {"nodes": str(DATA / "openb-nodes.csv")}),
    }
    assert set(paths) == set(READERS)
    for kind, (path, options) in paths.items():
        instance, report = read_instance(kind, path, **options)
        assert report.rows_read == len(instance.jobs) + report.num_dropped


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("ipt", {}, 'unknown kind of trace "ipt"; did you mean "itp"'),
        ("itp", {"slots": "3"}, 'has no option "slots"; did you mean "slot_s"'),
        ("itp", {"num_hosts": "2.5"}, 'num_hosts is "2.5"; give a whole number'),
        ("itp", {"slot_s": "ten"}, 'slot_s is "ten"; give a number'),
        ("itp", {"preemptible": "maybe"}, 'preemptible is "maybe"; give true or false'),
        ("itp", {"deadlines": "sofft"}, 'deadlines is "sofft"; did you mean "soft"'),
        ("openb", {}, 'reader "openb" needs the option nodes: The node list'),
    ],
)
def test_mistakes_are_named(kind: str, options: dict[str, str], message: str) -> None:
    """What the command line prints is this sentence."""
    with pytest.raises(InstanceError, match=message):
        read_instance(kind, DATA / "itp.csv", **options)
