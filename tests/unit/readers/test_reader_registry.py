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
    slurm_instance,
    swf_instance,
    table_instance,
)
from alloc.instances.readers.assembly import uniform_cluster
from alloc.instances.readers.kubernetes import kubernetes_instance
from alloc.instances.readers.own_jobs import Common

DATA = Path(__file__).parents[2] / "data" / "traces"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("kind", "function", "positional"),
    [
        ("itp", itp_instance, {"path"}),
        ("philly", philly_instance, {"path"}),
        ("openb", openb_instance, {"pods"}),
        ("table", table_instance, {"table"}),
        ("slurm", slurm_instance, {"path"}),
        ("kubernetes", kubernetes_instance, {"path"}),
        ("swf", swf_instance, {"path"}),
    ],
)
def test_options_are_the_parameters_of_the_builders(
    kind: str, function: object, positional: set[str]
) -> None:
    """An option that the builder lacks, a forgotten one or another default would mislead."""
    reader = READERS[kind]
    parameters = dict(inspect.signature(function).parameters)  # type: ignore[arg-type]
    shared = set(Common.__annotations__) if parameters.pop("common", None) else set()
    options = {option.name: option for option in reader.options}
    assert ("topology" in {*parameters, *shared}) == reader.takes_topology
    # What the files do not say is given as a topology, which is no text of an option.
    assert set(options) == ({*parameters, *shared} - positional) - {"topology"}
    for name, option in options.items():
        assert option.help.endswith(".")
        if name in shared:
            continue
        default = parameters[name].default
        assert option.default == (None if default is inspect.Parameter.empty else default), name
        assert option.required == (default is inspect.Parameter.empty), name


def test_options_that_readers_share_have_the_defaults_that_are_used(tmp_path: Path) -> None:
    """What the list of readers prints as default is what happens without the option."""
    path = tmp_path / "jobs.csv"
    path.write_text("id,submit,duration,gpus,deadline\na,0,9,1,99\n", encoding="utf-8")
    defaults = {
        o.name: o.default for o in READERS["table"].options if o.name in Common.__annotations__
    }
    given, _ = read_instance("table", path, **{k: v for k, v in defaults.items() if v is not None})
    plain, _ = read_instance("table", path)
    assert given.fingerprint == plain.fingerprint


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
        "table": (DATA / "itp-elastic.csv", {"map": "id=job_id"}),
        "slurm": (DATA / "sacct.txt", {"timezone": "Europe/Paris"}),
        "kubernetes": (EXAMPLES / "kubernetes.json", {"preemptible": "no"}),
        "swf": (DATA / "made.swf", {"tenant": "queue"}),
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


def test_a_topology_takes_the_place_of_the_readers_own_cluster() -> None:
    """And a reader whose cluster is in its files says so."""
    cluster = uniform_cluster(3, 4, "given", "a100")
    for kind, options in (("itp", {}), ("philly", {"vc": "aaa111"}), ("table", {})):
        path = DATA / ("philly.csv" if kind == "philly" else "itp.csv")
        instance, _ = read_instance(kind, path, topology=cluster, **options)
        assert instance.topology == cluster
        with pytest.raises(InstanceError, match="a topology is given, and"):
            read_instance(kind, path, topology=cluster, load=0.5, **options)
    with pytest.raises(InstanceError, match="reads its cluster from files of its own"):
        read_instance("openb", DATA / "openb-pods.csv", topology=cluster, nodes="nodes.csv")


def test_a_topology_is_no_path() -> None:
    with pytest.raises(InstanceError, match="topology is a str; give --topology FILE"):
        read_instance("table", "jobs.csv", topology="topology.conf")
