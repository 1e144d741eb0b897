"""What all topology formats share: the door, host types, YAML and JSON with lines, hostlists."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies import (
    MACHINES,
    TOPOLOGY_FORMATS,
    detect_format,
    machine,
    read_topology,
    topology_format,
    write_topology,
)
from alloc.instances.topologies.host_types import HostTypeChoice
from alloc.instances.topologies.hostlist import compress_hostlist, expand_hostlist
from alloc.instances.topologies.markup import json_entry, yaml_entries
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.text import TopologyText, read_text
from alloc.instances.topologies.tree import TreeBuilder
from alloc.topology import HostType, NetworkLink, dgx_h100, flat_cluster

DATA = Path(__file__).parents[2] / "data" / "topologies"
BOX = HostType("box", 8, "h100")
HERE = Place("file", 7)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("tree.topology.conf", "slurm-tree"),
        ("block.topology.conf", "slurm-block"),
        ("ring.topology.conf", "slurm-ring"),
        ("slurm.topology.yaml", "slurm-yaml"),
        ("topograph-graph.json", "topograph-graph"),
        ("topograph-model.yaml", "topograph-model"),
        ("topograph-model-maps.yaml", "topograph-model"),
        ("topograph-model-lists.yaml", "topograph-model"),
        ("hypernodes.yaml", "hypernodes"),
        ("hypernodes-selected.yaml", "hypernodes"),
        ("kueue.yaml", "kueue"),
        ("kubernetes-nodes.json", "kubernetes-nodes"),
        ("hwloc2-a100.xml", "hwloc"),
        ("nvidia-smi-hgx-h100.txt", "nvidia-smi"),
    ],
)
def test_every_format_is_told_by_its_content(file, kind):
    """A user should not have to know what his file is called here."""
    assert detect_format(read_text(DATA / file)).kind == kind


def test_a_name_decides_between_contents_that_look_alike(tmp_path, monkeypatch):
    path = tmp_path / "rails.net"
    path.write_text("SwitchName=a Nodes=n1\n")
    twin = dataclasses.replace(TOPOLOGY_FORMATS["slurm-tree"], kind="twin", file_names=("*.net",))
    monkeypatch.setattr(
        "alloc.instances.topologies.registry.TOPOLOGY_FORMATS", {**TOPOLOGY_FORMATS, "twin": twin}
    )
    assert detect_format(read_text(path)).kind == "twin"


def test_what_looks_like_nothing_is_refused_with_all_formats(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("rack 1: a, b\n")
    message = r"notes.txt: its topology format is not recognised; name it, one "
    with pytest.raises(InstanceError, match=message) as raised:
        read_topology(path)
    assert all(kind in str(raised.value) for kind, f in TOPOLOGY_FORMATS.items() if f.read)


def test_a_misspelled_format_or_option_is_refused_with_the_nearest(tmp_path):
    path = DATA / "slurm.topology.yaml"
    with pytest.raises(
        InstanceError, match=r'unknown topology format "slurm-tee"; did you mean "s'
    ):
        topology_format("slurm-tee")
    with pytest.raises(InstanceError, match=r'"slurm-yaml" has no option "topolgy"; did you mean '):
        read_topology(path, topolgy="racks", host_type=BOX)
    with pytest.raises(InstanceError, match=r'"slurm-tree" has no option "x"\. It has none'):
        read_topology(DATA / "tree.topology.conf", x=1)
    with pytest.raises(InstanceError, match=r'"slurm-block" has no option "levle"; did you mean'):
        write_topology(flat_cluster("f", BOX, 1), tmp_path / "x", "slurm-block", levle="leaf")
    with pytest.raises(InstanceError, match=r'levels is the text "leaf"; give a list of names'):
        read_topology(DATA / "tree.topology.conf", levels="leaf")


def test_a_compressed_file_is_read_and_named_by_its_stem(tmp_path):
    path = tmp_path / "lab.conf.gz"
    path.write_bytes(gzip.compress(b"SwitchName=a Nodes=n1\n"))
    assert read_topology(path, host_type=BOX)[0].name == "lab"
    assert read_topology(path, host_type=BOX, name="mine")[0].name == "mine"
    plain = tmp_path / "lab.conf"
    plain.write_bytes(path.read_bytes())
    with pytest.raises(InstanceError, match=r"is compressed; let its name end in .gz"):
        read_topology(plain)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"SwitchName=a\n# caf\xe9\n", r"line 2: is not text in UTF-8; save the file as UTF-8"),
        ("SwitchName=a Nodes=n1".encode("utf-16"), r"line 1: is not text in UTF-8"),
    ],
)
def test_other_encodings_are_refused(tmp_path, content, message):
    path = tmp_path / "topology.conf"
    path.write_bytes(content)
    with pytest.raises(InstanceError, match=message):
        read_topology(path)


def test_a_file_that_says_nothing_of_gpus_needs_a_host_type():
    """Eight GPUs are likely, and made up."""
    with pytest.raises(
        InstanceError,
        match=r"does not say what its hosts are .*; pass host_type, .* such as \"dgx-h100\"",
    ):
        read_topology(DATA / "tree.topology.conf")


def test_types_by_host_and_pattern():
    given: dict[str, Any] = {"gpu0*": "dgx-h100", "gpu12": BOX, "*": "4x-t4"}
    topology, _ = read_topology(DATA / "tree.topology.conf", host_type=given)
    types = {host.id: host.type for host in topology.hosts}
    # An exact id before any pattern, then the first pattern that fits.
    assert (types["gpu01"], types["gpu12"], types["gpu10"]) == ("dgx-h100", "box", "4x-t4")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("dgx-h10", r'no machine "dgx-h10"; did you mean "dgx-h100"\? Known are dgx-a100, '),
        ("8x-h10", r'no machine "8x-h10"'),
        (8, r"host_type is a int; give a HostType, the name of a machine, or a mapping"),
        (
            {"gpu1": BOX},
            r'host_type says nothing about host "gpu01"; did you mean "gpu1"\? Name every host',
        ),
        (
            {"gpu0*": BOX, "*": HostType("box", 4, "h100")},
            r'two different host types have the name "box"; name one of them anew',
        ),
    ],
)
def test_a_host_type_that_does_not_fit_is_refused(given, message):
    with pytest.raises(InstanceError, match=message):
        read_topology(DATA / "tree.topology.conf", host_type=given)


def test_every_machine_can_be_named():
    assert [machine(name).name for name in ("dgx-h100", "2x-t4")] == ["dgx-h100", "2x-t4"]
    assert all(machine(name).num_gpus for name in MACHINES)
    # One GPU has one NUMA island.
    assert machine("1x-t4").num_gpus == 1


def test_brackets_in_a_pattern_are_no_class():
    """A host id may hold brackets; only * and ? are signs."""
    choice = HostTypeChoice({"a[1]*": BOX}, "file")
    assert choice.find("a[1]-x") is BOX
    assert choice.find("a1-x") is None


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", ()),
        (" a , b ", ("a", "b")),
        ("a,,b", ("a", "b")),
        ("n[1,3-4]x", ("n1x", "n3x", "n4x")),
        ("n[08-10]", ("n08", "n09", "n10")),
        ("n[8-10]", ("n8", "n9", "n10")),
        ("n[098-101]", ("n098", "n099", "n100", "n101")),
        ("[1-2]", ("1", "2")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
    ],
)
def test_hostlists(expression, names):
    assert expand_hostlist(expression, HERE) == names


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        ([], ""),
        (["a"], "a"),
        (["n1", "n2", "n3", "n5"], "n[1-3,5]"),
        (["n09", "n10", "n11"], "n[09-11]"),
        (["n9", "n10"], "n[9-10]"),
        (["n1", "n01"], "n[1,01]"),
        (["n3", "n1"], "n[3,1]"),
        (["a1b", "a2b", "a3c"], "a[1-2]b,a3c"),
        (["n1", "x", "n2"], "n1,x,n2"),
        (["n" + "9" * 18, "n1" + "0" * 18], "n" + "9" * 18 + ",n1" + "0" * 18),
    ],
)
def test_hostlists_are_compressed_in_order(names, expression):
    assert compress_hostlist(names) == expression
    assert expand_hostlist(expression, HERE) == tuple(names)


@pytest.mark.long
def test_a_hostlist_of_many_brackets_is_refused_at_once():
    """The number that it stands for has more digits than the file."""
    with pytest.raises(InstanceError, match=r"stands for more than 1,000,000 names"):
        expand_hostlist("n" + "[0-9]" * 20_000, HERE)


def test_yaml_values_know_their_lines():
    first, second = yaml_entries("f", "a: &x\n- 1\n- {b: ~}\n---\n\nq: *y\n".replace("*y", "y"))
    assert [entry.where.line for entry in first.need("a").elements()] == [2, 3]
    assert second.need("q").where.line == 6
    assert str(second.need("q").where) == "f, line 6"
    assert first.need("a").label == "a"


def test_json_values_know_their_lines():
    entry = json_entry("f", '{"a": [1,\n {"b":\n "c, ]}\\""}],\n"d": [[], {}, -1.5e3, true]}')
    pair = list(entry.need("a").elements())
    assert (pair[0].where.line, pair[1].where.line, pair[1].need("b").where.line) == (1, 2, 2)
    assert [e.where.line for e in entry.need("d").elements()] == [4, 4, 4, 4]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [{','.join([f'*{chr(97 + k)}'] * 9)}]\n" for k in range(9)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"unfolds to more than 4,000,000 values; write out its aliases, or split it"),
        ("a: &a [*a]\n", r"line 1: the alias \*a has no anchor before it; add it"),
        ("[" * 100_000, r"line 1: is nested deeper than 100 levels; flatten it"),
        ("a: 1\nb: !!python/object/apply:os.system [x]\n", r'line 2: uses the tag "tag:yaml.*"; l'),
        ("a: !mine x\n", r'line 1: uses the tag "!mine"; leave tags out'),
        ("? [a]\n: b\n", r"line 1: uses a list or mapping as a key; use a name"),
        ("x: &x a\n? *x\n: b\n", r"line 2: uses an alias as a key; write the name"),
        ("a: 1\na: 2\n", r'line 2: "a" is named twice; name it once'),
        ("a: [1\n", r"line 2: is not YAML \(.*\); correct the indentation or the quotes there"),
        ("a: b: c\n", r"line 1: is not YAML"),
        ("a: \x01\n", r"holds a character that YAML does not allow"),
    ],
)
def test_hostile_and_broken_yaml_is_refused(text, message):
    with pytest.raises(InstanceError, match=message):
        yaml_entries("f", text)


def test_aliases_within_reason_are_followed():
    (entry,) = yaml_entries("f", "a: &x {b: c}\nd: *x\n")
    assert entry.need("d").need("b").text() == "c"
    assert entry.need("d").need("b").where.line == 2


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        ("a: ''", lambda e: e.need("a").text(), r"a is empty; give a text"),
        ("a: [1]", lambda e: e.need("a").text(), r"a is a list; give a text"),
        ("a: x", lambda e: e.need("a").count(), r'a is "x"; give a whole number'),
        ("a: 1.5", lambda e: e.need("a").count(), r'a is "1.5"; give a whole number'),
        ("a: 99999999999", lambda e: e.need("a").count(), r"it must be at most 1000000000"),
        ("a: " + "9" * 5000, lambda e: e.need("a").count(), r"give a whole number"),
        ("a: x", lambda e: list(e.need("a").elements()), r'a is "x"; give a list'),
        ("a: x", lambda e: list(e.need("a").items()), r'a is "x"; give a mapping'),
        ("a:", lambda e: e.need("a"), r"a is empty; fill it in"),
        ("", lambda e: e.need("a"), r"the document is empty; give a mapping"),
        ("b: 1", lambda e: e.need("a"), r'the document has no "a"; add it'),
    ],
)
def test_values_of_another_kind_are_refused(text, ask, message):
    (entry,) = yaml_entries("f", text) or yaml_entries("f", "--- ~")
    with pytest.raises(InstanceError, match=message):
        ask(entry)


def test_a_json_flag_or_number_is_no_text():
    entry = json_entry("f", '{"a": true, "b": 3}')
    assert entry.need("a").flag() is True
    assert entry.need("b").count() == 3
    with pytest.raises(InstanceError, match=r"a is true; give a whole number"):
        entry.need("a").count()


def test_names_are_shown_short_and_without_control_characters():
    assert shown("a\x1b[31m") == r'"a\x1b[31m"'
    assert len(shown("n" * 1000)) < 100


def test_the_builder_keeps_links_and_says_who_is_in_whom():
    tree = TreeBuilder("file", domain_word="rack")
    tree.domain("r", HERE, level="rack")
    tree.host("h", HERE)
    assert tree.hosts == ("h",)
    assert tree.unplaced_hosts == ("h",)
    tree.put("h", "r", HERE)
    tree.put("h", "r", HERE, again=True)
    tree.link(NetworkLink("h", "r", 50.0))
    topology = tree.build("t", host_types=HostTypeChoice(dgx_h100(), "file"), levels=["rack"])
    assert topology.links == (NetworkLink("h", "r", 50.0),)
    assert tree.unplaced_hosts == ()  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda t: t.host("", HERE), r"file, line 7: a host has an empty name; name it"),
        (lambda t: t.put("h", "q", HERE), r'line 7: "h" lies in rack "q", which is not defined'),
        (lambda t: t.put("r", "h", HERE), r'line 7: "r" lies in "h", which is a host; name a rack'),
        (
            lambda t: t.domain("x", HERE, level="rak"),
            r'rack "x" is on level "rak", which is not one of the levels row, rack; did you mean',
        ),
    ],
)
def test_the_builder_refuses(fill, message):
    tree = TreeBuilder("file", domain_word="rack")
    tree.domain("r", HERE, level="rack")
    tree.host("h", HERE)

    def build() -> None:
        fill(tree)
        types = HostTypeChoice(BOX, "file")
        tree.build("t", host_types=types, levels=["row", "rack"], one_piece=False)

    with pytest.raises(InstanceError, match=message):
        build()


def test_the_builder_tells_its_user_when_levels_are_half_given():
    """A mistake in a reader, not in a file."""
    tree = TreeBuilder("file")
    tree.domain("r", HERE, level="rack")
    tree.domain("q", HERE)
    tree.host("h", HERE)
    with pytest.raises(ValueError, match="need the list of levels"):
        tree.build("t", host_types=HostTypeChoice(BOX, "file"), levels=["rack"], one_piece=False)


def test_the_name_of_a_topology_from_an_odd_path():
    assert TopologyText("", "").stem == "topology"
    assert TopologyText("a/b.tar.gz", "").stem == "b"


def test_keys_of_a_stranger_cannot_write_to_the_terminal():
    entry = json_entry("f", '{"a\\u001b[2J": 3}')
    with pytest.raises(InstanceError, match=r"f, line 1: a.x1b\[2J is 3; give a list"):
        list(dict(entry.items())["a\x1b[2J"].elements())
