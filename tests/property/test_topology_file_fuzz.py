"""Topology files of hosts, nodes and graphs: whatever stands in them, an answer or one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import topologies

from alloc.errors import InstanceError
from alloc.instances.topologies import TOPOLOGY_FORMATS, machine, topology_text
from alloc.instances.topologies.formats import Request
from alloc.instances.topologies.host_types import HostTypeChoice
from alloc.instances.topologies.text import TopologyText
from alloc.topology import Topology, leaf_spine

DATA = Path(__file__).parents[1] / "data" / "topologies"
SOURCES = {
    "nvidia-smi": ("nvidia-smi-hgx-h100.txt", "nvidia-smi-pcie.txt", "nvidia-smi-ring-v100.txt"),
    "hwloc": ("hwloc2-a100.xml", "hwloc3-p100.xml"),
    "kubernetes-nodes": ("kubernetes-nodes.json", "kubernetes-nodes-gb200.yaml"),
    "graphml": ("made-by-hand.graphml",),
    "node-link": ("made-by-hand.json",),
    "table": ("racks.csv",),
    "alloc": (),
}
# What is likely to break a reader at the place where it lands.
SPLINTERS = (
    "", '"', "<", ">", "&amp;", "&x;", "\t", "\n", "\x00", "\ufeff", "\ud7ff", "0", "-1", "1e999",
    "9" * 400, "nan", "NV9", "NV0", "SYS", " X ", "GPU0", "null", "[]", "{}", "true", "{", "]", ",",
    "<object/>", "</object>", "OSDev:1", "<!DOCTYPE a [<!ENTITY x 'y'>]>", "- &a [*a]", "é", "٣",
)  # fmt: skip

VALUES = (
    '""', '"x"', '"0"', '"-1"', "0", "-1", "1e999", "null", "true", "[]", "{}", '"nan"', "x", "inf",
    '"1e30"', "3.5", '"NV18"', "X", "PHB", '"host"', '"gpu"', '"contains"', "9" * 30,
)  # fmt: skip
TOKEN = re.compile(r'"[^"\n]*"|[\w.+-]+')


def texts(kind: str) -> list[str]:
    """Good files of a format."""
    found = [(DATA / name).read_text() for name in SOURCES[kind]]
    if TOPOLOGY_FORMATS[kind].write is not None:
        found.append(topology_text(leaf_spine(machine("2x-t4"), 2, 2, 1), kind))
    return found


@st.composite
def mutations(draw: st.DrawFn, kind: str) -> str:
    """A good file with up to four cuts, each with something else in its place."""
    text = draw(st.sampled_from(texts(kind)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from((0, 1, 1, 2, 5, 20, 200, 10**6)))
        stop = min(len(text), start + length)
        splinter = draw(
            st.one_of(
                st.sampled_from(SPLINTERS), st.just(text[start:stop] * 2), st.text(max_size=3)
            )
        )
        text = text[:start] + splinter + text[stop:]
    return text


@st.composite
def swaps(draw: st.DrawFn, kind: str) -> str:
    """A good file with up to four words, texts or numbers replaced: its shape stays whole."""
    text = draw(st.sampled_from(texts(kind)))
    for _ in range(draw(st.integers(1, 4))):
        tokens = list(TOKEN.finditer(text))
        token = draw(st.sampled_from(tokens))
        other = draw(st.sampled_from(tokens))[0]
        text = text[: token.start()] + draw(st.sampled_from((*VALUES, other))) + text[token.end() :]
    return text


def read(kind: str, text: str) -> Topology | None:
    """Read a text; None where it is refused in one sentence."""
    known = TOPOLOGY_FORMATS[kind]
    choice = HostTypeChoice(None if known.tells_hosts else "4x-t4", "file")
    options = {"gpu_type": "v100"} if kind == "nvidia-smi" else {}
    assert known.read is not None
    try:
        topology, report = known.read(
            TopologyText("file", text), Request(choice, None, "fuzzed", options=options)
        )
    except InstanceError as error:
        message = str(error)
        assert message.startswith(("file", "GPU type", "host type", "link")) or '"' in message
        assert "\n" not in message.split("; ")[0]
        return None
    assert str(report)
    return topology


@pytest.mark.parametrize("kind", SOURCES)
def test_a_mutated_file_is_read_or_refused_in_one_sentence(kind):
    """No traceback, no endless reading, and what is read is a topology."""

    @settings(max_examples=60, deadline=None)
    @given(st.one_of(mutations(kind), swaps(kind)))
    def check(text: str) -> None:
        topology = read(kind, text)
        if topology is not None:
            assert topology.num_hosts > 0
            assert topology.graph.number_of_nodes() >= topology.num_hosts

    check()


@pytest.mark.parametrize("kind", SOURCES)
def test_any_text_is_refused_in_one_sentence(kind):
    @settings(max_examples=60, deadline=None)
    @given(st.one_of(st.text(max_size=60), st.sampled_from(SPLINTERS)))
    def check(text: str) -> None:
        topology = read(kind, text)
        assert topology is None or topology.num_hosts > 0

    check()


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SOURCES)).flatmap(mutations))
def test_telling_the_format_never_fails(text):
    """Every format looks at every file."""
    for known in TOPOLOGY_FORMATS.values():
        assert known.matches(TopologyText("file", text)) in (True, False)


@settings(max_examples=60, deadline=None)
@given(topologies(), st.sampled_from(("graphml", "node-link", "alloc")))
def test_what_is_written_is_read_back(topology, kind):
    """Mixed types, hosts beside leaves, links or none; in pieces only as a document."""
    pieces = bool(topology.domains or topology.links) and not nx.is_connected(topology.graph)
    back = read(kind, topology_text(topology, kind))
    if kind != "alloc" and pieces:
        assert back is None
        return
    assert back is not None
    assert nx.utils.graphs_equal(back.graph, topology.replace(name=back.name).graph)
    assert back.capacity.tolist() == topology.capacity.tolist()
