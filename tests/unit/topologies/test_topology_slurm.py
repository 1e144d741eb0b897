"""Slurm's topology files: what their keys mean, and one sentence for each way to get them wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies import read_topology, write_topology
from alloc.topology import HostType, Topology, dgx_h100, flat_cluster, leaf_spine

DATA = Path(__file__).parents[2] / "data" / "topologies"
HOST = HostType("box", 8, "h100")


def read(tmp_path: Path, text: str, name: str = "topology.conf", **options) -> Topology:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    options.setdefault("host_type", HOST)
    return read_topology(path, **options)[0]


def parents(topology: Topology) -> dict[str, str | None]:
    return {d.id: d.parent for d in topology.domains} | {h.id: h.domain for h in topology.hosts}


def test_a_tree_with_everything_the_manual_allows():
    """Keys in any case, comments, continued lines, blanks around =, quotes, ranges."""
    topology, report = read_topology(DATA / "tree.topology.conf", host_type="dgx-h100")
    assert topology.levels == ("core", "spine", "leaf")
    assert parents(topology) == {
        **{f"gpu{k:02d}": "leaf-1" for k in (1, 2, 3, 4)},
        **{f"gpu{k:02d}": "leaf-2" for k in (5, 6, 7, 12)},
        **{f"gpu{k:02d}": "leaf-3" for k in (8, 9, 10, 11)},
        **{"leaf-1": "spine-1", "leaf-2": "spine-1", "leaf-3": "spine-2"},
        **{"spine-1": "core", "spine-2": "core", "core": None},
    }
    assert topology.num_gpus == 96
    assert topology.name == "tree.topology"
    assert report.rows_read == 6
    assert [str(tally) for tally in report.altered] == [
        "1 x LinkSpeed is not read (Slurm gives it no unit) (line 2)"
    ]


def test_a_line_may_be_continued_within_a_value(tmp_path):
    """Slurm joins lines without a blank: a list of hosts, a range or a name goes on."""
    whole = "SwitchName=leaf Nodes=node[001-003,200],gpu7\n"
    for at in range(len("SwitchName="), len(whole) - 1):
        topology = read(tmp_path, f"{whole[:at]}\\\n{whole[at:]}")
        assert [host.id for host in topology.hosts] == [
            *("node001", "node002", "node003", "node200", "gpu7")
        ]
        assert [domain.id for domain in topology.domains] == ["leaf"]


def test_a_switch_beside_a_taller_one_keeps_its_level(tmp_path):
    """Levels count from the leaves, as Slurm's do: a leaf under the core is still a leaf."""
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=s Switches=a\n"
    topology = read(tmp_path, f"{text}SwitchName=core Switches=s,b\n")
    assert {d.id: d.level for d in topology.domains} == {
        **{"a": "leaf", "b": "leaf", "s": "spine", "core": "core"}
    }


def test_four_levels_and_names_of_ones_own(tmp_path):
    lines = ["SwitchName=s0 Nodes=n1"] + [f"SwitchName=s{k} Switches=s{k - 1}" for k in (1, 2, 3)]
    text = "\n".join(lines)
    assert read(tmp_path, text).levels == ("tier-3", "core", "spine", "leaf")
    named = read(tmp_path, text, levels=["hall", "row", "rack", "board"])
    assert named.levels == ("hall", "row", "rack", "board")


def test_blocks_are_paired_in_the_order_of_the_file():
    """Slurm joins blocks 1-2, 3-4 ...; a rest that a smaller size holds already makes no domain."""
    topology, report = read_topology(DATA / "block.topology.conf", host_type=HOST)
    assert topology.levels == ("block-32", "block-16", "block")
    found = {d.id: d.parent for d in topology.domains}
    assert found == {
        **{"rack1": "rack1..rack2", "rack2": "rack1..rack2"},
        **{"rack3": "rack3..rack4", "rack4": "rack3..rack4"},
        **{"rack5": "rack5..rack6", "rack6": "rack5..rack6"},
        # Alone in its pair, so there is no pair.
        "rack7": "rack5..rack7",
        **{"rack1..rack2": "rack1..rack4", "rack3..rack4": "rack1..rack4"},
        **{"rack5..rack6": "rack5..rack7", "rack1..rack4": None, "rack5..rack7": None},
    }
    assert [str(tally) for tally in report.altered] == [
        "1 x block has more nodes than the base block size (rack1)"
    ]


def test_sizes_beyond_the_cluster_make_no_level(tmp_path):
    """A size is a level until one block of blocks holds all; the next would repeat it."""
    path = tmp_path / "topology.conf"
    path.write_text("BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-4]\nBlockSizes=2,4,8\n")
    topology, report = read_topology(path, host_type=HOST)
    assert topology.levels == ("block-4", "block")
    assert [str(t) for t in report.dropped] == [
        "1 x block size beyond all blocks together (8 nodes)"
    ]


def test_blocks_without_sizes_are_one_level(tmp_path):
    topology = read(tmp_path, "BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n3\n")
    assert topology.levels == ("block",)
    assert [d.parent for d in topology.domains] == [None, None]


def test_a_ring_keeps_the_order_of_its_nodes():
    topology, _ = read_topology(DATA / "ring.topology.conf", host_type=HOST)
    assert topology.levels == ("ring",)
    assert [h.id for h in topology.hosts if h.domain == "ring-a"] == ["n1", "n2", "n3", "n8", "n5"]
    # Of several brackets the last turns fastest.
    assert [h.id for h in topology.hosts if h.domain == "ring-b"] == [
        *("m0x7", "m0x8", "m1x7", "m1x8")
    ]


def test_a_file_with_a_tree_and_blocks_is_read_as_either(tmp_path):
    """Some sites keep both in one file; which is meant cannot be told, so the user says it."""
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=s Nodes=n[1-2]\nBlockName=b Nodes=n[1-2]\nBlockSizes=2\n")
    with pytest.raises(InstanceError, match=r"could be slurm-tree or slurm-block; say which"):
        read_topology(path, host_type=HOST)
    tree, report = read_topology(path, "slurm-tree", host_type=HOST)
    assert tree.levels == ("leaf",)
    assert [str(t) for t in report.dropped] == ["2 x line of slurm-block (line 2, line 3)"]
    assert read_topology(path, "slurm-block", host_type=HOST)[0].levels == ("block",)


def test_pieces_are_allowed_on_demand(tmp_path):
    """Slurm itself allows fabrics side by side; a piece left over by a typing error is likelier."""
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n"
    topology = read(tmp_path, text, allow_pieces=True)
    assert [d.parent for d in topology.domains] == [None, None]


def test_windows_line_ends_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "topology.conf"
    path.write_bytes(b"\xef\xbb\xbfSwitchName=a \\\r\n  Nodes=n[1-2]\r\n")
    assert read_topology(path, host_type=HOST)[0].num_hosts == 2


TREE = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SwitchName=x Switches=y\nSwitchName=y Switches=x,z\nSwitchName=z Nodes=n1\n",
            r"line 2: switch \"y\" contains \"x\" contains \"y\": a circle; take one out",
        ),
        ("SwitchName=x Switches=x\n", r"names no nodes"),
        (
            TREE,
            r"line 2: the topology falls into 2 pieces with nothing above them: \"a\" \(line 1\), "
            r"\"b\" \(line 2\); put them in one switch, or allow pieces",
        ),
        (
            f"{TREE}SwitchName=c Nodes=n4\n",
            r"line 3: node \"n4\" lies in \"c\" and also in \"b\" \(line 2\); a host stands in one "
            "leaf, so take it out of the other",
        ),
        (
            f"{TREE}SwitchName=t Switches=a,b\nSwitchName=u Switches=b\n",
            r"line 4: switch \"b\" lies in \"u\" and also in \"t\" \(line 3\); a switch has one "
            "parent",
        ),
        (
            f"{TREE}SwitchName=t Switches=a,bb\n",
            r"line 3: switch \"t\" contains \"bb\", which is not defined",
        ),
        (
            "SwitchName=leaf1 Nodes=n1\nSwitchName=t Switches=leaf2\n",
            r"line 2: switch \"t\" contains \"leaf2\", which is not defined; did you mean "
            r"\"leaf1\"\?",
        ),
        (
            f"{TREE}SwitchName=a Nodes=n5\n",
            r"line 3: switch \"a\" is named twice, first on line 1; give every switch",
        ),
        (
            "SwitchName=a Nodes=n1,n1\n",
            r"line 1: node \"n1\" is listed twice in \"a\"; list it once",
        ),
        (
            "SwitchName=a Nodes=a\n",
            r"line 1: node \"a\" has the name of a switch \(line 1\); give every node a name of",
        ),
        ("SwitchName=a\n", r"line 1: switch \"a\" has neither nodes nor switches"),
        ("SwitchName=a Nodes=n1 Switches=b\n", r"line 1: switch \"a\" has nodes and switches"),
        ("SwitchName=a Nodes=\n", r"line 1: cannot read \"Nodes=\"; a line is made of key=value"),
        ("SwitchName=a Nodes=n1 oops\n", r"line 1: cannot read \"oops\""),
        ("SwitchName=a Nodes=n1 nodes=n2\n", r"line 1: names Nodes twice; name it once a line"),
        (
            "SwitchName=a Node=n1\n",
            r"line 1: \"node\" does not belong in this line of slurm-tree; did you mean \"Nodes\"",
        ),
        (f"{TREE}Nodes=n7\n", r"line 3: names no switch, block or ring"),
        ("SwitchName=a Nodes=n[1\n", r"line 1: \"n\[1\" is not a list of names: a bracket is not"),
        ("SwitchName=a Nodes=n[1-x]\n", r"line 1: \"1-x\" in \"n\[1-x\]\" is not a number or r"),
        ("SwitchName=a Nodes=n[4-1]\n", r"line 1: the range 4-1 in \"n\[4-1\]\" runs backwards"),
        ("SwitchName=a Nodes=n[-1]\n", r"line 1: \"-1\" in \"n\[-1\]\" is not a number or range"),
        (
            "SwitchName=a Nodes=n[0-999999999999]\n",
            r"line 1: .* stands for more than 1,000,000 names; check its ranges",
        ),
        (
            "SwitchName=a Nodes=n[0-9999][0-9999]\n",
            r"stands for more than 1,000,000 names",
        ),
        ("include other.conf\nSwitchName=a Nodes=n1\n", r"line 1: includes another file"),
        ("SwitchName=a Nodes=n\x07\n", r"line 1: node \"n.x07\" has a control character"),
        (
            "\n".join(
                ["SwitchName=s0 Nodes=n1"]
                + [f"SwitchName=s{k} Switches=s{k - 1}" for k in range(1, 40)]
            ),
            r"line 40: switch \"s39\" stands on 39 levels of others; at most 32 levels are read",
        ),
    ],
)
def test_a_wrong_tree_is_refused_with_line_and_cure(tmp_path, text, message):
    with pytest.raises(InstanceError, match=message) as raised:
        read(tmp_path, text, format="slurm-tree")
    assert str(raised.value).startswith(str(tmp_path / "topology.conf"))


def test_the_number_of_hosts_has_a_limit(tmp_path, monkeypatch):
    """Ranges under the limit of one list may together name more than memory holds."""
    monkeypatch.setattr("alloc.instances.topologies.tree.MAX_HOSTS", 5)
    with pytest.raises(InstanceError, match=r"line 2: here are more than 5 nodes; check the ran"):
        read(tmp_path, "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=m[1-2]\n")
    with pytest.raises(InstanceError, match=r"line 2: more than 10 names are listed in others"):
        read(tmp_path, "SwitchName=a Switches=s[1-6]\nSwitchName=b Switches=s[7-12]\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BlockName=a\nBlockSizes=2\n", r"line 1: block \"a\" has no nodes; name them"),
        (
            "BlockName=a Nodes=n[1-3]\nBlockSizes=4\n",
            r"line 1: block \"a\" has 3 nodes, fewer than the base block size 4",
        ),
        (
            "BlockName=a Nodes=n[1-3]\nBlockSizes=3,9\n",
            r"line 2: block size 9 is not 1, 2, 4, 8 ... times the base block size 3; write for "
            "example 3,6,12",
        ),
        ("BlockName=a Nodes=n1\nBlockSizes=0\n", r"line 2: BlockSizes holds \"0\"; give whole"),
        ("BlockName=a Nodes=n1\nBlockSizes=-4\n", r"line 2: BlockSizes holds \"-4\"; give whole"),
        (
            "BlockName=a Nodes=n1\nBlockSizes=1\nBlockSizes=1\n",
            r"line 3: BlockSizes is said again, first on line 2",
        ),
        ("RingName=a\n", r"line 1: ring \"a\" has no nodes; name them in order"),
        (
            "RingName=a Nodes=n[1-17]\n",
            r"line 1: ring \"a\" has 17 nodes; Slurm allows 16 in a ring, so split it",
        ),
        (
            "RingName=a Nodes=n[1-2]\nRingName=b Nodes=n[2-3]\n",
            r"line 2: node \"n2\" lies in \"b\" and also in \"a\" \(line 1\)",
        ),
    ],
)
def test_wrong_blocks_and_rings_are_refused(tmp_path, text, message):
    with pytest.raises(InstanceError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("fixture", "levels", "message"),
    [
        ("tree.topology.conf", ["a", "b"], r"has 3 levels of domains, and 2 names were given"),
        ("block.topology.conf", ["a"], r"has 3 levels of blocks, and 1 names were given"),
        ("ring.topology.conf", ["a", "b"], r"has one level, its rings, and 2 names were given"),
        ("ring.topology.conf", ["host"], r"calls a level \"host\", which every topology has"),
        ("tree.topology.conf", ["a", "b", "a"], r"calls two levels \"a\"; give each a name"),
        ("ring.topology.conf", [""], r"calls a level \"\"; give it a name to print"),
    ],
)
def test_names_of_levels_must_fit(fixture, levels, message):
    with pytest.raises(InstanceError, match=message):
        read_topology(DATA / fixture, host_type=HOST, levels=levels)


def test_yaml_holds_several_topologies_and_one_is_read():
    path = DATA / "slurm.topology.yaml"
    default, report = read_topology(path, host_type=HOST)
    assert default.levels == ("spine", "leaf")
    assert parents(default)["n05"] == "sw2"
    assert [str(t) for t in report.dropped] == [
        "3 x topology that was not asked for (racks, loops, none)"
    ]
    racks, _ = read_topology(path, host_type=HOST, topology="racks")
    assert racks.levels == ("block-4", "block")
    loops, _ = read_topology(path, host_type=HOST, topology="loops")
    assert loops.levels == ("ring",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- topology: a\n  tree: {switches: []}\n- topology: b\n  flat: true\n",
            r"holds 2 topologies and none says cluster_default: true; choose one with the option "
            r"topology: \"a\", \"b\"",
        ),
        ("- topology: a\n  flat: true\n", r"line 1: topology \"a\" is flat and names no nodes"),
        ("- topology: a\n  torus3d: {x: 1}\n", r"line 1: topology \"a\" is a torus"),
        ("- topology: a\n", r"line 1: topology \"a\" says no kind; give it exactly one of tree"),
        (
            "- topology: a\n  tree: {switches: []}\n  block: {blocks: []}\n",
            r"topology \"a\" says tree and block",
        ),
        (
            "- topology: a\n  flat: false\n- topology: a\n",
            r"line 3: topology \"a\" is named twice, first on line 1",
        ),
        ("- topology: a\n  tree: {switches: []}\n", r"names no nodes; a topology needs at least"),
        (
            "- topology: a\n  tree:\n    switchs: []\n",
            r"line 2: \[0\]\.tree has no \"switches\"; did you mean \"switchs\"\?",
        ),
        ("- topology: a\n  tree: [x]\n", r"line 2: \[0\].tree is a list; give a mapping"),
        (
            "- topology: a\n  tree:\n    switches:\n    - nodes: n1\n",
            r"line 4: \[0\].tree.switches\[0\] has no \"switch\"; add it",
        ),
        (
            "- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: [n1]}\n",
            r"line 4: .*nodes is a list; give a text",
        ),
        (
            "- topology: a\n  block:\n    block_sizes: [-2]\n    blocks:\n"
            "    - {block: b, nodes: n1}\n",
            r"line 3: \[0\]\.block\.block_sizes\[0\] is -2; it must be 1 or more",
        ),
        (
            "- topology: a\n  cluster_default: maybe\n",
            r"line 2: \[0\].cluster_default is \"maybe\"; give true or false",
        ),
        (
            "- topology: a\n  tree:\n    switches:\n    - {switch: s, nodes: 'n[1-2]'}\n"
            "    - {switch: t, nodes: n2}\n",
            r"line 5: node \"n2\" lies in \"t\" and also in \"s\" \(line 4\)",
        ),
    ],
)
def test_wrong_yaml_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(InstanceError, match=message):
        read(tmp_path, text, "topology.yaml")


def test_an_unknown_topology_is_refused_with_the_nearest():
    with pytest.raises(InstanceError, match=r"no topology \"rack\"; did you mean \"racks\"\? It h"):
        read_topology(DATA / "slurm.topology.yaml", host_type=HOST, topology="rack")


def test_names_that_look_like_numbers_stay_names(tmp_path):
    """YAML 1.1 would make 0012 a ten, 1e3 a thousand, no a false and 12:30 a 750."""
    text = "- topology: a\n  tree:\n    switches:\n    - {switch: no, nodes: '0012,1e3,12:30'}\n"
    topology = read(tmp_path, text, "topology.yaml")
    assert parents(topology) == {"no": None, "0012": "no", "1e3": "no", "12:30": "no"}


def test_what_a_tree_is_written_as(tmp_path):
    fabric = leaf_spine(dgx_h100(), num_leaves=2, hosts_per_leaf=3, num_spines=1, name="lab")
    path = tmp_path / "topology.conf"
    write_topology(fabric, path, "slurm-tree")
    assert [x for x in path.read_text().splitlines() if not x.startswith("#")] == [
        "SwitchName=leaf-1 Nodes=host-[3-5]",
        "SwitchName=leaf-0 Nodes=host-[0-2]",
        "SwitchName=spine Switches=leaf-[0-1]",
    ]


def test_what_blocks_are_written_as(tmp_path):
    """The level above becomes a size only where Slurm would pair the same blocks."""
    fabric = leaf_spine(dgx_h100(), num_leaves=4, hosts_per_leaf=3, num_spines=1)
    path = tmp_path / "topology.conf"
    write_topology(fabric, path, "slurm-block")
    assert path.read_text().splitlines()[-5:] == [
        *(f"BlockName=leaf-{k} Nodes=host-[{a}]" for k, a in enumerate(("00-02", "03-05"))),
        *(f"BlockName=leaf-{k} Nodes=host-[{a}]" for k, a in ((2, "06-08"), (3, "09-11"))),
        "BlockSizes=3,12",
    ]
    uneven, _ = read_topology(DATA / "tree.topology.conf", host_type=HOST)
    write_topology(uneven, path, "slurm-block")
    assert '# Its level "spine" is not in it' in path.read_text()
    assert path.read_text().splitlines()[-1] == "BlockSizes=4,16"
    write_topology(uneven, path, "slurm-block", level="spine")
    assert path.read_text().splitlines()[-1] == "BlockSizes=4,8"


def test_writers_refuse_what_slurm_cannot_say(tmp_path):
    path = tmp_path / "topology.conf"
    flat = flat_cluster("flat", HOST, 2)
    for kind, message in (
        ("slurm-tree", r'host "host-0" stands in no domain; every node of a Slurm tree'),
        ("slurm-block", r"has no levels of domains, so nothing can be a block"),
        ("slurm-yaml", r'"slurm-yaml" is only read; formats that are written are slurm-tree'),
    ):
        with pytest.raises(InstanceError, match=message):
            write_topology(flat, path, kind)
    tree, _ = read_topology(DATA / "tree.topology.conf", host_type=HOST)
    lonely = tree.replace(
        hosts=tuple(h for h in tree.hosts if h.domain != "leaf-3"),
    )
    for kind, message in (
        ("slurm-tree", r'domain "leaf-3" holds nothing; a switch of Slurm .* leave it out'),
        ("slurm-block", r'domain "leaf-3" holds no hosts; a block of Slurm needs nodes'),
    ):
        with pytest.raises(InstanceError, match=message):
            write_topology(lonely, path, kind)
    moved = tree.replace(hosts=(dataclasses.replace(tree.hosts[0], domain="core"), *tree.hosts[1:]))
    for kind, message in (
        ("slurm-tree", r'domain "core" holds both hosts and domains; .* put those hosts in a'),
        ("slurm-block", r'host "gpu01" stands in no domain of level "leaf"'),
    ):
        with pytest.raises(InstanceError, match=message):
            write_topology(moved, path, kind)
    odd = tree.replace(hosts=(dataclasses.replace(tree.hosts[0], id="a b"), *tree.hosts[1:]))
    with pytest.raises(InstanceError, match=r'Slurm cannot say the name "a b"; leave out blanks'):
        write_topology(odd, path, "slurm-tree")
    with pytest.raises(InstanceError, match=r'has no level "leave"'):
        write_topology(tree, path, "slurm-block", level="leave")
    assert not path.exists()


def test_a_long_name_of_a_switch_is_refused(tmp_path):
    """Slurm refuses it too, but only when the daemons restart."""
    tree = read(tmp_path, f"SwitchName={'s' * 65} Nodes=n1\n")
    with pytest.raises(InstanceError, match=r"has a name of 65 characters; Slurm takes up to 64"):
        write_topology(tree, tmp_path / "out.conf", "slurm-tree")


def test_yaml_blocks_without_sizes_are_one_level(tmp_path):
    text = "- topology: a\n  block:\n    blocks:\n    - {block: b, nodes: 'n[1-2]'}\n"
    assert read(tmp_path, text, "topology.yaml").levels == ("block",)


def test_blocks_under_nothing_keep_other_levels_out(tmp_path):
    """One rack in a pod and one in none: no size of Slurm's says that."""
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=p Switches=b\n"
    tree = read(tmp_path, text, allow_pieces=True)
    write_topology(tree, tmp_path / "out.conf", "slurm-block")
    assert (tmp_path / "out.conf").read_text().splitlines()[-4:] == [
        '# Its level "spine" is not in it: Slurm pairs blocks in runs of 2, 4, 8 ...',
        *("BlockName=a Nodes=n1", "BlockName=b Nodes=n2", "BlockSizes=1"),
    ]
