"""Volcano's HyperNodes and the Topologies of Kueue and KAI, with the nodes that they select."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies import read_topology
from alloc.instances.topologies.name_pattern import NamePattern, PatternError
from alloc.topology import HostType, Topology

DATA = Path(__file__).parents[2] / "data" / "topologies"
NODES = DATA / "kubernetes-nodes.json"
HOST = HostType("box", 8, "h100")


def read(tmp_path: Path, text: str, **options) -> Topology:
    path = tmp_path / "file.yaml"
    path.write_text(text, encoding="utf-8")
    return read_topology(path, **options)[0]


def parents(topology: Topology) -> dict[str, str | None]:
    return {d.id: d.parent for d in topology.domains} | {h.id: h.domain for h in topology.hosts}


def hypernode(name: str, tier: object, *members: str, more: str = "") -> str:
    lines = "".join(f"  - {member}\n" for member in members)
    return (
        f"kind: HyperNode\nmetadata: {{name: {name}}}\nspec:\n  tier: {tier}\n{more}"
        f"  members:\n{lines}---\n"
    )


def node(name: str) -> str:
    return f"{{type: Node, selector: {{exactMatch: {{name: {name}}}}}}}"


def inner(name: str) -> str:
    return f"{{type: HyperNode, selector: {{exactMatch: {{name: {name}}}}}}}"


def test_tiers_are_levels_the_highest_outermost():
    topology, report = read_topology(DATA / "hypernodes.yaml", host_type=HOST)
    assert topology.levels == ("tier-2", "leaf")
    assert parents(topology) == {
        **{"s0": "s2", "s1": "s2", "s2": None},
        **{"gpu-0": "s0", "gpu-1": "s0", "gpu-2": "s1"},
    }
    assert report.rows_read == 3
    named, _ = read_topology(DATA / "hypernodes.yaml", host_type=HOST, levels=["row", "rack"])
    assert named.levels == ("row", "rack")


def test_with_the_nodes_hosts_have_their_own_types():
    """The list says what the hosts are, and which are there beside those in HyperNodes."""
    topology, report = read_topology(DATA / "hypernodes.yaml", nodes=NODES)
    assert parents(topology)["gpu-3"] is None
    assert topology.host_type(topology.hosts[0]).gpu_type == "h100-sxm-80gb"
    assert [str(t) for t in report.altered] == [
        "3 x node in no HyperNode: stands outside all (gpu-3, gpu-6, cpu-0)"
    ]
    assert report.also[0].num_dropped == 3


def test_nodes_are_selected_by_pattern_and_label():
    topology, _ = read_topology(DATA / "hypernodes-selected.yaml", nodes=NODES)
    found = parents(topology)
    assert {h for h, d in found.items() if d == "by-pattern"} == {"gpu-0", "gpu-1"}
    assert {h for h, d in found.items() if d == "by-label"} == {"gpu-2", "gpu-3"}


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("{key: kubernetes.io/hostname, operator: In, values: [gpu-0, gpu-6]}", {"gpu-0", "gpu-6"}),
        ("{key: nvidia.com/gpu.product, operator: DoesNotExist}", {"cpu-0"}),
        (
            "{key: nvidia.com/gpu.product, operator: Exists}",
            {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-6"},
        ),
    ],
)
def test_label_expressions_mean_what_kubernetes_means(tmp_path, expression, chosen):
    member = f"{{type: Node, selector: {{labelMatch: {{matchExpressions: [{expression}]}}}}}}"
    topology = read(tmp_path, hypernode("s", 1, member), nodes=NODES)
    assert {h.id for h in topology.hosts if h.domain == "s"} == chosen


def test_a_node_that_takes_no_pods_is_left_out_and_counted(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(hypernode("s", 1, node("gpu-0"), node("gpu-4")))
    topology, report = read_topology(path, nodes=NODES)
    assert "gpu-4" not in topology.host_index
    assert [str(t) for t in report.dropped] == [
        "1 x node of a HyperNode that takes no pods (gpu-4)"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (hypernode("a", 1, inner("a")), r"names no nodes"),
        (
            hypernode("a", 2, inner("b"), node("n1")) + hypernode("b", 2, inner("a")),
            r'HyperNode "\w" contains "\w" contains "\w": a circle; take one out of the other',
        ),
        (
            hypernode("a", 1, inner("b")) + hypernode("b", 1, node("n1")),
            r'line 6: HyperNode "b" of level tier-1 lies in "a" of level tier-1, so the levels do '
            r"not nest; put it in a HyperNode of a level outside tier-1",
        ),
        (
            hypernode("a", 1, node("n1")) + hypernode("b", 2, inner("a")) + hypernode(
                "c", 2, inner("a")),
            r'HyperNode "a" lies in "c" and also in "b" \(line 13\); a HyperNode has one parent',
        ),
        (
            hypernode("a", 1, node("n1")) + hypernode("b", 1, node("n1")),
            r'line 13: node "n1" lies in "b" and also in "a" \(line 6\); a host stands in one leaf',
        ),
        (
            hypernode("a", 1, node("n1")) + hypernode("b", 2, inner("c")),
            r'line 13: HyperNode "b" contains "c", which is not defined',
        ),
        (
            hypernode("a", 1, node("n1")) * 2,
            r'line 9: HyperNode "a" is named twice, first on line 2',
        ),
        (hypernode("a", -1, node("n1")), r"line 4: spec.tier is -1; it must be 0 or more"),
        (hypernode("a", "one", node("n1")), r'line 4: spec.tier is "one"; give a whole number'),
        (
            hypernode("a", 1, node("n1"), more="  tierName: x\n")
            + hypernode("b", 1, node("n2"), more="  tierName: y\n"),
            r'line 13: tier 1 is called "y" and elsewhere "x"; give a tier one name',
        ),
        (
            hypernode("a", 1, node("n1"), more="  tierName: x\n")
            + hypernode("b", 2, inner("a"), more="  tierName: x\n"),
            r'calls two levels "x"; give each a name of its own',
        ),
        (
            hypernode("a", 1, "{type: Nod, selector: {}}"),
            r'line 6: spec.members\[0\].type is "Nod"; did you mean "Node"\? Give Node',
        ),
        (hypernode("a", 1, "{type: Node, selector: {}}"), r"selector says nothing; give one of"),
        (
            hypernode("a", 1, "{type: Node, selector: {exactMatch: {a: x}, regexMatch: {a: b}}}"),
            r"selector says exactMatch and regexMatch; give one of",
        ),
        (
            hypernode("a", 1, "{type: HyperNode, selector: {regexMatch: {pattern: x}}}"),
            r"selects HyperNodes, which Volcano finds by exactMatch only; name each of them",
        ),
        (
            hypernode("a", 1, "{type: Node, selector: {regexMatch: {pattern: x}}}"),
            r"selector.regexMatch needs the list of nodes; pass the option nodes",
        ),
        ("kind: HyperNodeList\nitems: []\n", r"holds no HyperNode; one has kind: HyperNode"),
        (hypernode("host", 1, node("n1"), more="  tierName: host\n"), r'calls a level "host"'),
    ],
)  # fmt: skip
def test_wrong_hypernodes_are_refused(tmp_path, text, message):
    with pytest.raises(InstanceError, match=message):
        read(tmp_path, text, host_type=HOST)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            node("gpu-9"),
            r'line 6: HyperNode "a" contains node "gpu-9", which is not in the list of nodes; did',
        ),
        (
            "{type: Node, selector: {regexMatch: {pattern: '('}}}",
            r'line 6: the pattern "\(" cannot be read: a \( is not closed',
        ),
        (
            "{type: Node, selector: {labelMatch: {}}}",
            r"labelMatch is empty; give matchLabels or matchExpressions, since no label at all",
        ),
        (
            "{type: Node, selector: {labelMatch: {matchExpressions: [{key: a, operator: Has}]}}}",
            r'operator is "Has"\. Give one of In, NotIn, Exists, DoesNotExist',
        ),
    ],
)
def test_wrong_selections_are_refused(tmp_path, member, message):
    with pytest.raises(InstanceError, match=message):
        read(tmp_path, hypernode("a", 1, member), nodes=NODES)


def test_names_of_tiers_must_fit():
    with pytest.raises(InstanceError, match=r"there are 2 tiers \(2, 1\), and 1 names were given"):
        read_topology(DATA / "hypernodes.yaml", host_type=HOST, levels=["rack"])


def test_a_selection_of_nothing_is_reported(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(hypernode("a", 1, "{type: Node, selector: {regexMatch: {pattern: zzz}}}"))
    _, report = read_topology(path, nodes=NODES)
    assert report.altered[0].reason == "member selects no node that takes pods"


@pytest.mark.parametrize("pattern", ["(", ")", "[a", "a**", "*", "a{2", "a{3,2}", "a{999}", "\\",
    "(?i)a", "\\pL", "[[:alpha:]]", "z-[b-a]", "(" * 60 + ")" * 60, "((a{99}){99}){99}",
    "(((){99}){99}){99}", "a{1,x}"])  # fmt: skip
def test_patterns_that_are_not_understood_are_refused(pattern):
    with pytest.raises(PatternError):
        NamePattern(pattern)


@pytest.mark.parametrize("pattern", ["", "^gpu-[0-9]+$", "a|b", "^(a|ab)(c|bcd)$", "x?y*z+", "^$",
    "[^a-c]", "a{2}", "^a{1,3}$", "(?:ab)+c", "a.c", "\\d\\.\\w", "[a\\-z]", "[]a]", "$^", "(a*)*b",
    "\\D\\S\\W", "[-a]$", "a+?b", "a{2,}"])  # fmt: skip
def test_patterns_find_what_the_library_finds(pattern):
    """The same answers as Python's own on names that are made of what the patterns are made of."""
    names = ["", "a", "b", "ab", "abc", "abcd", "gpu-12", "gpu-", "xgpu-1x", "aa", "aaa", "aaaa",
             "xyz", "yyz", "zz", "a-c", "1.x", "a.c", "]", "-", "ababc", "a b", "b-"]  # fmt: skip
    compiled = NamePattern(pattern)
    for name in names:
        assert compiled.matches(name) == bool(re.search(pattern, name)), name


def test_a_pattern_cannot_take_for_ever():
    """On this one the library's own would try more ways than there are atoms."""
    assert not NamePattern("^(a+)+$").matches("a" * 250 + "b")


def test_kueue_names_the_labels_that_are_levels(tmp_path):
    topology, report = read_topology(DATA / "kueue.yaml", nodes=NODES)
    assert topology.levels == ("cluster", "tier-1", "tier-0")
    assert parents(topology)["gpu-0"] == "leaf-0"
    assert parents(topology)["leaf-0"] == "spine-0"
    assert report.also[0].rows_read == 9
    one = read_topology(DATA / "kueue.yaml", nodes=NODES, levels=["fabric.topograph.run/tier-0"])
    assert one[0].levels == ("cluster", "tier-0")


KUEUE = (DATA / "kueue.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (KUEUE, {"nodes": None}, r'"kueue" needs the option nodes: List of nodes'),
        (KUEUE + "---\n" + KUEUE.replace("default", "b"), {}, r"holds 2 Topologies; choose one"),
        (KUEUE, {"topology": "defualt"}, r'no Topology "defualt"; did you mean "default"\?'),
        (KUEUE.replace("tier-0", "tier-1"), {}, r'line 8: the label ".*tier-1" is named twice'),
        (
            KUEUE + "  - nodeLabel: x\n",
            {},
            r'line 10: the label "x" comes after kubernetes.io/hostname, so the levels do not nest',
        ),
        (KUEUE.split("  - ")[0], {}, r"line 6: spec.levels is empty; fill it in"),
        (KUEUE.split("\n  -")[0] + " []\n", {}, r"spec.levels is empty; name at least one label"),
        (KUEUE, {"levels": ["rack"]}, r'levels names "rack", which is none of the Topology.s la'),
        (KUEUE.replace("kind: Topology", "kind: Topologie"), {}, r"holds no Topology; one has"),
        (KUEUE.replace("tier-0", "tier-7"), {}, r'no node has the label ".*tier-7"; did you mean'),
        (KUEUE, {"nodes": "missing.json"}, r"missing.json: there is no such file"),
    ],
)
def test_wrong_topologies_of_kueue_are_refused(tmp_path, text, options, message):
    with pytest.raises(InstanceError, match=message):
        read(tmp_path, text, format="kueue", **{"nodes": NODES, **options})


def test_one_of_several_topologies_of_kueue(tmp_path):
    path = tmp_path / "file.yaml"
    path.write_text(KUEUE + "---\n" + KUEUE.replace("default", "b") + "---\n\n")
    _, report = read_topology(path, nodes=NODES, topology="b")
    assert [str(t) for t in report.dropped] == ["1 x Topology that was not asked for (default)"]
