"""Topograph's graph and its three generations of models, with NVLink domains as levels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies import read_topology, write_topology
from alloc.topology import HostType, Topology, dgx_h100, flat_cluster, nvl72_cluster

DATA = Path(__file__).parents[2] / "data" / "topologies"
HOST = HostType("tray", 4, "gb200-186gb")


def read(tmp_path: Path, text: str, name: str, **options) -> Topology:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    options.setdefault("host_type", HOST)
    return read_topology(path, **options)[0]


def parents(topology: Topology) -> dict[str, str | None]:
    return {d.id: d.parent for d in topology.domains} | {h.id: h.domain for h in topology.hosts}


def graph(*instances: dict) -> str:
    return json.dumps({"instances": list(instances)}, indent=1)


def instance(id: str, *layers: str, **labels: str) -> dict:
    return {"id": id, "network_layers": list(layers), "attributes": labels}


def test_a_graph_with_domains_of_several_leaves():
    """An NVLink domain lies between the spine that holds it and the leaves that it holds."""
    topology, report = read_topology(DATA / "topograph-graph.json", host_type=HOST)
    assert topology.levels == ("core", "spine", "nvlink-domain", "leaf", "nvlink-domain-part")
    assert parents(topology) == {
        **{"core": None, "spine-1": "core", "spine-2": "core"},
        **{"nvl-1": "spine-1", "nvl-2": "spine-2"},
        **{"leaf-a": "nvl-1", "leaf-b": "nvl-1", "leaf-c": "nvl-2"},
        **{"nvl-1.r1": "leaf-a", "nvl-1.r2": "leaf-b"},
        **{"i-01": "nvl-1.r1", "i-02": "nvl-1.r1", "i-03": "nvl-1.r2"},
        **{"i-04": "leaf-c", "i-05": "leaf-c"},
    }
    assert report.rows_read == 5
    assert [str(t) for t in report.altered] == ["1 x label is not read (example.com/gpu-product)"]


def test_domains_that_the_leaves_are_already_add_no_level(tmp_path):
    """A rack of NVL72 is often leaf and NVLink domain under one name."""
    text = graph(
        instance("a", "r1", "s", nvlink="r1"),
        instance("b", "r1", "s", nvlink="r1"),
        instance("c", "r2", "s", nvlink="r2"),
    )
    assert read(tmp_path, text, "graph.json").levels == ("spine", "leaf")


def test_parts_that_are_the_leaves_add_no_level_and_domains_lie_under_their_spine(tmp_path):
    """As in models of release 1.1: the domain has the hosts of a spine, its parts are the racks."""
    blocks = "".join(
        f"- switch: r{k}\n  nodes: [n{k}]\n  annotations:\n"
        f"    accelerator.topology.test/domain: d{k // 2}\n"
        f"    accelerator.topology.test/sub-domain: r{k}\n"
        for k in range(4)
    )
    text = "switches:\n  s0: {switches: [r0, r1]}\n  s1: {switches: [r2, r3]}\n  top: " + (
        f"{{switches: [s0, s1]}}\nblocks:\n{blocks}"
    )
    topology = read(tmp_path, text, "model.yaml")
    assert topology.levels == ("core", "spine", "nvlink-domain", "leaf")
    assert parents(topology) == {
        **{"top": None, "s0": "top", "s1": "top", "d0": "s0", "d1": "s1"},
        **{"r0": "d0", "r1": "d0", "r2": "d1", "r3": "d1"},
        **{f"n{k}": f"r{k}" for k in range(4)},
    }


def test_a_domain_with_the_name_of_a_switch_gets_another(tmp_path):
    text = graph(instance("a", "r1", nvlink="r1"), instance("b", "r1"))
    topology = read(tmp_path, text, "graph.json")
    assert parents(topology) == {
        **{"r1": None, "nvlink-domain:r1": "r1", "a": "nvlink-domain:r1", "b": "r1"}
    }


def test_domains_without_switches(tmp_path):
    text = graph(instance("a", nvlink="x"), instance("b", nvlink="x"), instance("c", nvlink="y"))
    topology = read(tmp_path, text, "graph.json")
    assert topology.levels == ("nvlink-domain",)
    assert parents(topology) == {"x": None, "y": None, "a": "x", "b": "x", "c": "y"}


def test_a_label_of_ones_own_and_none_at_all(tmp_path):
    text = graph({**instance("a", "r1"), "labels": {"my/nvl": "n1", "nvlink": "other"}})
    own = read(tmp_path, text, "graph.json", accelerator_label="my/nvl")
    assert parents(own)["a"] == "n1"
    ignored, report = read_topology(
        DATA / "topograph-graph.json", host_type=HOST, accelerators="ignore"
    )
    assert ignored.levels == ("core", "spine", "leaf")
    assert [str(t) for t in report.dropped] == ["2 x accelerator domain (nvl-1, nvl-2)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            graph(instance("a", "r1", "s1"), instance("b", "r1", "s2")),
            r'line 15: switch "r1" lies in "s2" and also in "s1" \(line 7\); a switch has one par',
        ),
        (
            graph(instance("a", "r1"), instance("a", "r1")),
            r'instance "a" is listed twice in "r1", first on line 6; list it once',
        ),
        (
            graph(instance("a"), instance("a")),
            r'line 8: instance "a" is named twice, first on line 3',
        ),
        (
            graph(instance("a", "r1", "r2"), instance("b", "r2", "r1")),
            r"switch .* contains .*: a circle",
        ),
        (
            graph(instance("a", "r1", "s", nvlink="x"), instance("b", "r2", "s", nvlink="x"),
                  instance("c", "r2", "s")),
            r'line 10: "x" has 1 of the 2 hosts of leaf "r2" and others outside it, so the levels '
            "do not nest; leave it out with accelerators=ignore",
        ),
        (
            graph(instance("a", "r1", "s", nvlink="x"), instance("b", "r2", "s", nvlink="x"),
                  instance("c", "r3", "s", nvlink="y"), instance("d", "r3", "s")),
            r'nvlink-domain "y" is within leaf "r3", but "x" is around a whole leaf, so the levels',
        ),
        (
            graph(instance("a", "r1", nvlink="x", **{
                "network.topology.nvidia.com/accelerator": "y"})),
            r'host "a" is in accelerator domain "y" and also in "x" \(line 9\); name one',
        ),
        (
            graph(instance("a", nvlink="x\x1b")),
            r'accelerator domain "x.x1b" has a control character',
        ),
        (graph(), r"names no instances; a topology needs at least one instance"),
        (graph({"id": ""}), r'line 4: instances\[0\].id is empty; give a text'),
        (graph({"network_layers": []}), r'line 3: instances\[0\] has no "id"; add it'),
        (graph({"id": 7}), r"line 4: instances\[0\].id is 7; give a text"),
        (graph({"id": "a", "network_layers": "r1"}), r'network_layers is "r1"; give a list'),
        (
            graph(instance("a", "r1"), instance("b", "r2")),
            r'falls into 2 pieces with nothing above them: "r1" \(line 6\), "r2"',
        ),
        ('{"instances": [}', r"line 1: is not JSON \(Expecting value, column 16\); correct it"),
        ('{"instances": [], "instances": []}', r'line 1: names "instances" twice in one object'),
        ('{"instances": NaN}', r"holds a number that cannot be read \(NaN is not a number of J"),
        ('{"instances":' + "[" * 200_000, r"is nested too deep; this is not a topology"),
    ],
)  # fmt: skip
def test_a_wrong_graph_is_refused(tmp_path, text, message):
    with pytest.raises(InstanceError, match=message) as raised:
        read(tmp_path, text, "graph.json")
    assert str(raised.value).startswith(str(tmp_path / "graph.json"))


def test_a_model_of_release_1():
    """Blocks of nodes on leaves, labels or annotations, and a leaf that nobody defines."""
    topology, report = read_topology(DATA / "topograph-model.yaml", host_type=HOST)
    assert topology.levels == ("core", "spine", "leaf", "nvlink-domain")
    found = parents(topology)
    assert found["node04"] == "nvl-1"
    assert found["node05"] == "nvl-2"
    assert found["nvl-2"] == "leaf-1"
    assert found["node12"] == "leaf-2"
    assert found["leaf-4"] == "spine-2"
    assert [str(t) for t in report.altered] == [
        "1 x label of a switch is not read (topology.kubernetes.io/region)",
        "1 x label is not read (example.com/room)",
    ]


def test_models_of_the_generations_before():
    maps, _ = read_topology(DATA / "topograph-model-maps.yaml", host_type=HOST)
    assert parents(maps) == {
        **{"top": None, "left": "top", "right": "top", "nvl1": "left"},
        **{"n1": "nvl1", "n2": "nvl1", "n3": "right"},
    }
    lists, _ = read_topology(DATA / "topograph-model-lists.yaml", host_type=HOST)
    assert parents(lists) == {
        **{"top": None, "left": "top", "right": "top", "nvl1": "left", "nvl2": "right"},
        **{"n1-1": "nvl1", "n1-2": "nvl1", "n2-1": "nvl2"},
    }


def test_a_model_of_switches_alone(tmp_path):
    """Without any section of nodes, the nodes of the switches are the cluster."""
    text = "switches:\n  a: {switches: [b]}\n  b: {nodes: ['n[1-2]']}\n"
    assert parents(read(tmp_path, text, "model.yaml")) == {
        **{"a": None, "b": "a", "n1": "b", "n2": "b"}
    }


def test_blocks_without_a_switch(tmp_path):
    text = "blocks:\n- nodes: ['n[1-2]']\n  labels: {nvlink: x}\n"
    assert parents(read(tmp_path, text, "model.yaml")) == {"x": None, "n1": "x", "n2": "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "switches:\n  a: {switches: [b]}\n  c: {switches: [b]}\nblocks:\n",
            r'line 3: switch "b" lies in "c" and also in "a" \(line 2\)',
        ),
        (
            "switches:\n  a: {switches: [b]}\nblocks:\n- {switch: d, nodes: [n1]}\n",
            r'line 4: "n1" lies in switch "d", which is not defined',
        ),
        (
            "switches:\n  a: {}\nblocks:\n- {switch: a, nodes: [n1]}\n- {switch: a, nodes: [n1]}\n",
            r'line 5: node "n1" is listed twice in "a", first on line 4',
        ),
        ("switches:\n  a: {}\n  a: {}\n", r'line 3: "a" is named twice; name it once'),
        (
            "switches:\n- name: a\n  capacity_blocks: [x]\n- name: b\n  capacity_blocks: [x]\n",
            r'line 5: capacity block "x" hangs on switch "b" and also on "a" \(line 3\)',
        ),
        (
            "switches:\n- name: a\n  capacity_blocks: [x]\ncapacity_blocks: []\n",
            r'line 3: switch "a" has capacity block "x", which is not defined; add it under',
        ),
        (
            "switches:\n  a: {nodes: [n1]}\nnodes:\n  n1: {}\ncapacity_blocks:\n"
            "  x: {nodes: [n2]}\n",
            r'line 6: capacity block "x" holds node "n2", which is not under nodes',
        ),
        (
            "switches:\n  a: {nodes: [n1, n2]}\nnodes:\n  n1: {}\n",
            r'line 2: switch "a" contains "n2", which is not defined; define it, or',
        ),
        ("switches: 3\n", r'line 1: switches is "3"; give a mapping'),
        ("switches: {}\n---\nswitches: {}\n", r"holds 2 YAML documents; a model of Topograph is"),
        ("switches:\n- [x]\n", r"line 2: switches\[0\] is a list; give a mapping"),
    ],
)
def test_a_wrong_model_is_refused(tmp_path, text, message):
    with pytest.raises(InstanceError, match=message):
        read(tmp_path, text, "model.yaml")


def test_what_is_written(tmp_path):
    """NVLink domains become labels, every other domain a switch."""
    fabric = nvl72_cluster(num_racks=2, name="lab")
    path = tmp_path / "graph.json"
    write_topology(fabric, path, "topograph-graph")
    written = json.loads(path.read_text())["instances"]
    assert len(written) == fabric.num_hosts == 36
    rack = fabric.hosts[0].domain
    assert written[0] == {
        "id": fabric.hosts[0].id,
        "network_layers": ["spine"],
        "labels": {"accelerator.topograph.run/domain": rack},
    }
    back, _ = read_topology(path, host_type="gb200-compute-tray", levels=["spine"])
    assert back.levels == fabric.levels
    assert parents(back) == parents(fabric)
    model = tmp_path / "model.yaml"
    write_topology(fabric, model, "topograph-model")
    assert parents(read_topology(model, host_type=HOST)[0]) == parents(fabric)


def test_writers_refuse_what_topograph_cannot_say(tmp_path):
    model, _ = read_topology(DATA / "topograph-model.yaml", host_type=HOST)
    with pytest.raises(InstanceError, match=r'domain "leaf-4" holds no hosts, and Topograph knows'):
        write_topology(model, tmp_path / "graph.json", "topograph-graph")
    empty = model.replace(hosts=tuple(h for h in model.hosts if h.domain != "nvl-3"))
    with pytest.raises(InstanceError, match=r'domain "nvl-3" holds no hosts, .*; leave it out\.$'):
        write_topology(empty, tmp_path / "model.yaml", "topograph-model")
    odd = flat_cluster("odd", dgx_h100(), 1)
    odd = odd.replace(hosts=(type(odd.hosts[0])("a,b", odd.hosts[0].type),))
    write_topology(odd, tmp_path / "graph.json", "topograph-graph")
    with pytest.raises(InstanceError, match=r'Topograph cannot say the name "a,b"; leave out bl'):
        write_topology(odd, tmp_path / "model.yaml", "topograph-model")
