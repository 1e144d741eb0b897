"""Topology files: what is written reads back, and no text makes a reader do anything but refuse."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import topologies
from topology_strategies import BOX, forests, host_names, trees

from alloc.errors import InstanceError
from alloc.instances.topologies import TOPOLOGY_FORMATS, read_topology
from alloc.instances.topologies.formats import Request
from alloc.instances.topologies.host_types import HostTypeChoice
from alloc.instances.topologies.hostlist import compress_hostlist, expand_hostlist
from alloc.instances.topologies.name_pattern import NamePattern, PatternError
from alloc.instances.topologies.place import Place
from alloc.instances.topologies.text import TopologyText
from alloc.topology import Topology

DATA = Path(__file__).parents[1] / "data" / "topologies"
NODES = DATA / "kubernetes-nodes.json"
thorough = settings(max_examples=60, deadline=None, database=None)


def again(topology: Topology, kind: str, text: str | None = None) -> Topology:
    """What a format makes of its own text of a topology."""
    known = TOPOLOGY_FORMATS[kind]
    assert known.write is not None
    assert known.read is not None
    written = known.write(topology) if text is None else text
    request = Request(HostTypeChoice(BOX, "f"), None, topology.name, allow_pieces=True)
    return known.read(TopologyText("f", written), request)[0]


def parents(topology: Topology) -> dict[str, str | None]:
    return {d.id: d.parent for d in topology.domains} | {h.id: h.domain for h in topology.hosts}


def contents(topology: Topology) -> dict[str, set[str]]:
    """The hosts in every domain."""
    found = {d.id: set[str]() for d in topology.domains}
    for level in topology.levels:
        found |= at(topology, level)
    return found


def at(topology: Topology, level: str) -> dict[str, set[str]]:
    """The hosts in each domain of a level."""
    found: dict[str, set[str]] = {}
    for host, k in zip(topology.hosts, topology.domain_of_host[level], strict=True):
        if k >= 0:
            found.setdefault(topology.domains[int(k)].id, set()).add(host.id)
    return found


@thorough
@given(trees())
def test_a_tree_survives_slurm_and_topograph(topology: Topology) -> None:
    """Domains, their parents and, since levels count from the leaves, the number of levels."""
    for kind in ("slurm-tree", "topograph-model", "topograph-graph"):
        back = again(topology, kind)
        assert parents(back) == parents(topology), kind
        tiers = {level: tier for tier, level in enumerate(topology.levels)}
        read = {level: tier for tier, level in enumerate(back.levels)}
        assert {d.id: tiers[d.level] for d in topology.domains} == {
            d.id: read[d.level] for d in back.domains
        }
    # The graph lists instances as they come.
    assert [h.id for h in back.hosts] == [h.id for h in topology.hosts]


@thorough
@given(trees())
def test_blocks_survive_slurm(topology: Topology) -> None:
    """Blocks keep their hosts; a level above that is written comes back with the same domains."""
    known = TOPOLOGY_FORMATS["slurm-block"]
    assert known.write is not None
    text = known.write(topology)
    back = again(topology, "slurm-block", text)
    assert at(back, "block") == at(topology, topology.levels[-1])
    made = [set(map(frozenset, at(back, level).values())) for level in back.levels[:-1]]
    left_out = {line.split('"')[1] for line in text.splitlines() if "# Its level" in line}
    for level in topology.levels[:-1]:
        if level not in left_out:
            assert set(map(frozenset, at(topology, level).values())) in made


@thorough
@given(st.one_of(forests(), topologies(), topologies(wild=True)))
def test_any_topology_is_written_faithfully_or_refused(topology: Topology) -> None:
    """Writers say what a topology says or that they cannot; nothing is dropped in silence."""
    for kind in ("slurm-tree", "topograph-model", "topograph-graph", "slurm-block"):
        try:
            back = again(topology, kind)
        except InstanceError:
            continue
        if kind == "slurm-block":
            assert at(back, "block") == at(topology, topology.levels[-1])
        elif "nvlink-domain" not in topology.levels:
            assert parents(back) == parents(topology), kind
        else:
            # Of two domains of the same hosts, a label cannot say which lies in the other.
            assert contents(back) == contents(topology), kind


@thorough
@given(st.data())
def test_hostlists_keep_names_and_order(data: st.DataObject) -> None:
    names = data.draw(host_names(data.draw(st.integers(0, 40))))
    mixed = data.draw(st.permutations(names))
    for listed in (names, mixed):
        assert list(expand_hostlist(compress_hostlist(listed), Place("f"))) == list(listed)


@thorough
@given(st.text("ab01-[]{}()|.*+?^$\\d,:", max_size=24), st.text("ab01-", max_size=12))
def test_a_pattern_answers_or_is_refused(pattern: str, name: str) -> None:
    try:
        compiled = NamePattern(pattern)
    except PatternError:
        return
    assert compiled.matches(name) in (True, False)


# What damages such files in practice, and what their parsers could stumble over.
TOKENS = (
    *(
        "",
        "0",
        "-1",
        "1e400",
        "9" * 400,
        "[",
        "]",
        "{",
        "}",
        "[0-99999999]",
        "[9-1]",
        ",",
        ":",
        "#",
    ),
    *('"', "'", "\\", "\n", "\r\n", "\t", "\x00", "\u2028", "\ufeff", "\ud800", "&a ", "*a", "!!"),
    *("- ", "---\n", "? ", "<<: ", "null", "true", "Nodes=", "switches: ", "n1", "core", "(a+)+$"),
)

SOURCES: dict[str, dict[str, Any]] = {
    "tree.topology.conf": {},
    "block.topology.conf": {},
    "ring.topology.conf": {},
    "slurm.topology.yaml": {},
    "topograph-graph.json": {},
    "topograph-model.yaml": {},
    "topograph-model-maps.yaml": {},
    "topograph-model-lists.yaml": {},
    "hypernodes.yaml": {},
    "hypernodes-selected.yaml": {"nodes": NODES},
    "kueue.yaml": {"nodes": NODES},
}


@st.composite
def damaged(draw: st.DrawFn, content: str) -> bytes:
    """The content with a few pieces replaced, lines swapped or repeated, or cut short."""
    text = content
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            start, length = draw(st.integers(0, len(text))), draw(st.integers(0, 8))
            token = draw(st.one_of(st.sampled_from(TOKENS), st.text(max_size=4)))
            text = text[:start] + token + text[start + length :]
        else:
            lines = text.split("\n")
            a, b = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            lines[a] = lines[b]
            text = "\n".join(lines)
    data = text.encode("utf-8", errors="surrogatepass")
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 9)) == 0 else data


@pytest.mark.parametrize("source", SOURCES)
def test_readers_answer_or_refuse(source: str) -> None:
    """No text makes a reader crash, and what it answers holds together."""
    content = (DATA / source).read_text()
    kind = detected(source)
    outcomes: set[str] = set()

    @settings(max_examples=60, deadline=None, database=None)
    @given(damaged(content), st.booleans())
    # One that is whole and one that is empty, so that both outcomes are met whatever is drawn.
    @example(content.encode(), False)
    @example(b"", True)
    def fuzz(data: bytes, told: bool) -> None:
        path.write_bytes(data)
        try:
            topology, report = read_topology(
                path, None if told else kind, host_type=BOX, **SOURCES[source] if not told else {}
            )
        except InstanceError as refused:
            outcomes.add("refused" if "\n" not in str(refused) else "refused in lines")
        else:
            assert topology.num_hosts == len(topology.graph.nodes(data="level")) - sum(
                level != "host" for _, level in topology.graph.nodes(data="level")
            )
            assert str(report)
            outcomes.add("answered")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        fuzz()
    # A fuzz that only ever sees one of the two has not come near the border.
    assert outcomes == {"answered", "refused"}


def detected(source: str) -> str:
    text = TopologyText(source, (DATA / source).read_text())
    (kind,) = [k for k, known in TOPOLOGY_FORMATS.items() if known.matches(text)]
    return kind
