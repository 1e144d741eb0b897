"""GraphML, node-link JSON, alloc's own documents, openb's list and tables of hosts."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from needs import need_data

from alloc.errors import InstanceError
from alloc.instances.topologies import read_topology, topology_text, write_topology
from alloc.problems.allocation.instance import Instance
from alloc.topology import (
    HostType,
    dgx_h100,
    flat_cluster,
    gb200_nvl72,
    leaf_spine,
    pcie_server,
    rail_optimised,
)
from alloc.workload import Configuration, Job, TaskGroup

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
GRAPHML = DATA / "topologies" / "made-by-hand.graphml"
NODE_LINK = DATA / "topologies" / "made-by-hand.json"
RACKS = DATA / "topologies" / "racks.csv"
CLUSTERS = [
    leaf_spine(dgx_h100(), 2, 2, 2),
    rail_optimised(dgx_h100(), 2, 2),
    gb200_nvl72(),
    flat_cluster("flat", pcie_server(4, "t4"), 3),
    flat_cluster("no GPU", HostType("cpu", cpu_milli=8000, memory_mib=1024), 2),
]


def edited(tmp_path: Path, source: Path, *changes: tuple[str, str]) -> Path:
    text = source.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / source.name
    path.write_text(text)
    return path


@pytest.mark.parametrize("topology", CLUSTERS, ids=lambda topology: topology.name)
@pytest.mark.parametrize("format", ["graphml", "node-link", "alloc"])
def test_what_is_written_is_read_back(tmp_path, topology, format):
    """Through networkx a topology keeps all that its graph says; as a document, all of it."""
    path = tmp_path / "cluster.txt"
    write_topology(topology, path, format)
    back, report = read_topology(path)
    assert nx.utils.graphs_equal(back.graph, topology.graph)
    assert (back.name, back.levels, back.hosts) == (topology.name, topology.levels, topology.hosts)
    assert report.rows_skipped == report.num_dropped == 0
    if format == "alloc":
        assert back == topology


def test_graphml_made_by_hand_is_read():
    """Levels are a text with commas, since GraphML has no lists."""
    topology, report = read_topology(GRAPHML)
    assert topology.levels == ("pod", "leaf")
    assert topology.hosts[0].domain == "leaf-0"
    assert topology.host_types[0] == HostType("box", 1, "t4", 4000)
    assert [(x.a, x.b, x.bandwidth_gb_per_s) for x in topology.links] == [("leaf-0", "h0", 25.0)]
    assert (topology.name, report.rows_read) == ("made-by-hand", 7)


def test_hosts_that_a_graph_says_nothing_of_are_what_the_user_says():
    """A graph of switches and hosts is what most people have; edges may be called links."""
    topology, _ = read_topology(NODE_LINK, host_type={"a": "dgx-h100", "b": "4x-t4"})
    assert (topology.name, topology.num_gpus) == ("mine", 12)
    assert topology.host_type(topology.hosts[0]) == dgx_h100()
    assert read_topology(NODE_LINK, host_type="dgx-h100", name="other")[0].name == "other"
    with pytest.raises(InstanceError, match='host "a" has no type; give it the node attribute'):
        read_topology(NODE_LINK)


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        (GRAPHML, [("<data key=\"d4\">25.0</data>", "")], "has no bandwidth_gb_per_s; give it in"),
        (GRAPHML, [("25.0", "fast")], r"cannot be read as GraphML \(could not convert string"),
        (GRAPHML, [("</graphml>", "")], "line 2[0-9]: is not a whole XML document"),
        (GRAPHML, [('key="d2">box', 'key="d9">box')], "cannot be read as GraphML .*Bad GraphML"),
        (GRAPHML, [("undirected", "directed")], "is directed or has parallel edges; give a plain"),
        (GRAPHML, [('d1">leaf<', 'd1">leave<')], 'on level "leave", which is not in levels; did y'),
        (GRAPHML, [('"cpu_milli" attr.type="int"', '"cpu_milli" attr.type="string"')],
         'node "h0": cpu_milli is "4000"; give a whole number'),
        (NODE_LINK, [('"a", "level": "host"', '"a", "level": "host", "type": 7')],
         'node "a": type is "7"; give a text'),
        (NODE_LINK, [('": 50}', '": "50"}')], 'edge "r0" - "a": bandwidth_gb_per_s is "50"; give'),
        (NODE_LINK, [('": 50}', '": true}')], 'bandwidth_gb_per_s is "True"; give a number'),
        (NODE_LINK, [('": 50}', '": -50}')], "bandwidth_gb_per_s is -50; it must be more than 0"),
        (NODE_LINK, [('"id": "a"', '"name": "a"')], "node 1 is not named by a string; relabel it"),
        (NODE_LINK, [('"id": "a"', '"id": {}')], "cannot be read as node-link JSON"),
        (NODE_LINK, [('"id": "a"', '"id": 4')], "has no type|is not named by a string"),
        (NODE_LINK, [('["rack"]', "[4]")], "its levels are .*; give a list of names, outermost"),
        (NODE_LINK, [(', "levels": ["rack"]', "")], "says no levels; pass levels="),
        (NODE_LINK, [('"links"', '"edgse"')], 'has no "links"'),
        (NODE_LINK, [('"nodes": [', '"nodes": [3,')], r"line 5: nodes\[0\] is 3; give a mapping"),
        (NODE_LINK, [("]\n}", "]\n")], "line 1[0-9]: is not JSON"),
    ],
)  # fmt: skip
def test_a_graph_that_is_no_topology_is_refused_in_one_sentence(tmp_path, source, changes, message):
    path = edited(tmp_path, source, *changes)
    kind = "graphml" if source == GRAPHML else "node-link"
    with pytest.raises(InstanceError, match=message) as caught:
        read_topology(path, kind, host_type="4x-t4" if '"type": 7' not in str(changes) else None)
    assert str(caught.value).startswith(str(path))


def test_entities_in_graphml_are_refused(tmp_path):
    """networkx itself would unfold them."""
    bomb = '<!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>\n<graphml'
    path = edited(tmp_path, GRAPHML, ("<graphml ", f"{bomb} "), ("pod, leaf", "&b;"))
    with pytest.raises(InstanceError, match="line 2: defines entities"):
        read_topology(path, "graphml")


def test_a_level_with_a_comma_is_not_written():
    topology = leaf_spine(pcie_server(2, "t4"), 1, 1, 1)
    odd = topology.replace(
        levels=("a,b", "leaf"),
        domains=(
            topology.domains[0].__class__("spine", "a,b"),
            *topology.domains[1:],
        ),
    )
    with pytest.raises(InstanceError, match='level "a,b" has a comma, which separates levels'):
        topology_text(odd, "graphml")


def test_an_instance_is_its_topology(tmp_path):
    """Somebody who has an instance need not take its cluster out by hand."""
    cluster = leaf_spine(pcie_server(2, "t4"), 2, 2, 1)
    jobs = (Job("j", 0.0, 1.0, (Configuration((TaskGroup("w", 1, 1000),), 1.0),)),)
    Instance("i", cluster, jobs, slot_s=1.0).to_json(tmp_path / "i.json.gz")
    assert read_topology(tmp_path / "i.json.gz")[0] == cluster
    assert read_topology(tmp_path / "i.json.gz", name="n")[0].name == "n"


def test_documents_and_lists_say_themselves_what_they_are(tmp_path):
    path = tmp_path / "t.json"
    write_topology(CLUSTERS[0], path, "alloc")
    with pytest.raises(InstanceError, match="tells itself what its hosts are; leave host_type out"):
        read_topology(path, host_type="dgx-h100")
    with pytest.raises(InstanceError, match="has its own levels, or none; leave levels out"):
        read_topology(path, levels=["a"])
    path.write_text(path.read_text().replace('"hosts"', '"hots"', 1))
    with pytest.raises(InstanceError, match=r't\.json: .*"hots"'):
        read_topology(path)
    for option, given in (("host_type", "dgx-h100"), ("levels", ["rack"])):
        for name in ("hwloc2-a100.xml", "nvidia-smi-hgx-h100.txt"):
            with pytest.raises(InstanceError, match=r"tells itself what its host is|has no levels"):
                read_topology(DATA / "topologies" / name, **{option: given})  # type: ignore[arg-type]


def test_several_servers_like_one_are_a_flat_cluster():
    topology, _ = read_topology(DATA / "topologies" / "hwloc2-a100.xml", num_hosts="3")
    assert (topology.num_hosts, topology.num_gpus, topology.levels) == (3, 12, ())
    with pytest.raises(InstanceError, match="num_hosts is 0; it must be 1 or more"):
        read_topology(DATA / "topologies" / "hwloc2-a100.xml", num_hosts=0)


def test_the_node_list_of_openb_has_its_door_here():
    topology, report = read_topology(DATA / "traces" / "openb-nodes.csv")
    assert (topology.name, topology.num_gpus, report.rows_skipped) == ("openb-nodes", 18, 4)


def test_a_table_with_a_row_a_host():
    """Racks are numbered in each hall anew; a host may stand in none."""
    topology, report = read_topology(RACKS, host_type="4x-t4")
    assert topology.levels == ("cluster", "hall", "rack")
    stands = {host.id: host.domain for host in topology.hosts}
    assert stands == {
        "a1": "A/1", "a2": "A/1", "a3": "A/2", "b1": "B/1", "b,2": "B/1", "c1": "cluster",
    }  # fmt: skip
    assert report.altered[0].examples == ("c1",)


def test_columns_of_a_table_may_be_chosen():
    topology, _ = read_topology(RACKS, host_type="4x-t4", levels=["hall"], host_column="host")
    assert topology.levels == ("cluster", "hall")


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ([], {"levels": ["hal"]}, 'line 1: there is no column "hal"; did you mean "hall"'),
        ([], {"host_column": "node"}, 'no column "node"; the columns are host, hall, rack'),
        ([("a2,A,1", "a2,A")], {}, "line 3: has 2 cells for 3 columns; a cell with a comma in it"),
        ([("a2,A,1", "a1,A,1")], {}, 'line 3: host "a1" is named twice, first on line 2'),
        ([("a2,A,1", ",A,1")], {}, "line 3: a host has an empty name"),
        ([("hall,rack", "hall,hall")], {}, 'line 1: column 3 is called "hall"; give every'),
        ([('"b,2"', '"b,2"x')], {}, "line 6: is not a row of a table"),
        ([], {"levels": ["rack", "hall"]}, None),
        ([], {"host_type": None}, "does not say what its hosts are"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_is_refused(tmp_path, changes, options, message):
    path = edited(tmp_path, RACKS, *changes)
    options = {"host_type": "4x-t4", **options}
    if message is None:
        # Rack 1 lies in both halls and a hall has several racks: any order is a tree.
        assert read_topology(path, **options)[0].num_hosts == 6
        return
    with pytest.raises(InstanceError, match=message):
        read_topology(path, **options)


def test_levels_in_the_wrong_order_are_told(tmp_path):
    """Every hall lies in one region, and a region has several halls: given the other way round."""
    path = tmp_path / "halls.csv"
    path.write_text("host,hall,region\na,A,x\nb,B,x\nc,C,y\n")
    with pytest.raises(InstanceError, match=r"line 3: region .* do not nest; give region before"):
        read_topology(path, host_type="4x-t4")
    assert read_topology(path, host_type="4x-t4", levels=["region", "hall"])[0].num_hosts == 3


def test_a_table_of_one_column_is_no_topology(tmp_path):
    path = tmp_path / "hosts.csv"
    path.write_text("host\na\n")
    with pytest.raises(InstanceError, match="its first line names 1 columns"):
        read_topology(path, "table", host_type="4x-t4")


def test_the_hosts_of_lingjun_are_read():
    """The one public trace with network tiers: 847 hosts in 119 racks below three pods."""
    path = need_data("traces", "alibaba-lingjun-2023", "topo.csv.gz")
    topology, report = read_topology(path, host_type="8x-a100-sxm-80gb")
    counts = [sum(d.level == level for d in topology.domains) for level in topology.levels]
    assert (topology.levels, counts) == (("DSW", "PSW", "ASW"), [1, 3, 119])
    assert (topology.num_hosts, report.rows_read) == (847, 847)


def test_versions_of_networkx_name_the_edges_differently(monkeypatch, tmp_path):
    """Up to version 3.3 the parameter was called link, and what it names links."""
    read, write = nx.node_link_graph, nx.node_link_data
    seen = []

    def old_read(data, *, link="links"):
        seen.append((link, link in data))
        return read(data, edges=link)

    def old_write(graph, *, link="links"):
        seen.append(link)
        return write(graph, edges=link)

    topology = CLUSTERS[0]
    text = topology_text(topology, "node-link")
    monkeypatch.setattr(nx, "node_link_graph", old_read)
    monkeypatch.setattr(nx, "node_link_data", old_write)
    assert topology_text(topology, "node-link") == text
    (tmp_path / "new.json").write_text(text)
    for path in (tmp_path / "new.json", NODE_LINK):
        read_topology(path, "node-link", host_type="4x-t4")
    assert seen == ["links", ("links", True), ("links", True)]
