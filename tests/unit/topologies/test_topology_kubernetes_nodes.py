"""Kubernetes nodes: what they offer, who is left out, and where their labels say they stand."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies import read_topology
from alloc.instances.topologies.node_labels import LABEL_SETS, choose_labels
from alloc.instances.topologies.place import Place
from alloc.instances.topologies.quantities import quantity
from alloc.instances.topologies.text import TopologyText

DATA = Path(__file__).parents[2] / "data" / "topologies"
NODES = DATA / "kubernetes-nodes.json"
GB200 = DATA / "kubernetes-nodes-gb200.yaml"
TIER = "fabric.topograph.run/tier-"


def node(name: str, labels: dict[str, str] | None = None, **offers: str) -> dict[str, Any]:
    """A node as kubectl prints it, in brief; by default with two T4."""
    offered = {"cpu": "64", "memory": "256Gi", "nvidia_com_gpu": "2", **offers}
    given = {"nvidia.com/gpu.product": "Tesla-T4", **(labels or {})}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {k: v for k, v in given.items() if v is not None}},
        "status": {
            "allocatable": {
                key.replace("_com_", ".com/"): value
                for key, value in offered.items()
                if value is not None
            }
        },
    }


def written(tmp_path: Path, *nodes: dict[str, Any]) -> Path:
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"kind": "List", "items": nodes}, indent=1))
    return path


def parents(topology) -> dict[str, str | None]:
    """What everything lies in."""
    above = {domain.id: domain.parent for domain in topology.domains}
    return above | {host.id: host.domain for host in topology.hosts}


def test_nodes_with_labels_of_topograph():
    """Tier 0 is the leaf; two spines with nothing above them meet in the cluster."""
    topology, report = read_topology(NODES)
    assert topology.levels == ("cluster", "spine", "leaf")
    assert parents(topology) == {
        "cluster": None,
        "spine-0": "cluster",
        "spine-1": "cluster",
        "leaf-0": "spine-0",
        "leaf-1": "spine-0",
        "leaf-2": "spine-1",
        "gpu-0": "leaf-0",
        "gpu-1": "leaf-0",
        "gpu-2": "leaf-1",
        "gpu-3": "leaf-1",
        "gpu-6": "leaf-2",
        "cpu-0": "leaf-2",
    }
    # Memory differs by some KiB from node to node; rounded down to a GiB the nodes are alike.
    kinds = {kind.name: kind for kind in topology.host_types}
    assert list(kinds) == [
        "8xh100-sxm-80gb-191450m-1031168mib",
        "4xt4-63000m-263168mib",
        "cpu-32000m-131072mib",
    ]
    assert topology.num_gpus == 36
    assert report.rows_read == 9
    assert {tally.reason: tally.examples for tally in report.dropped} == {
        "cordoned (spec.unschedulable)": ("gpu-4",),
        "not ready": ("gpu-5",),
        "tainted node-role.kubernetes.io/control-plane:NoSchedule": ("master-0",),
    }


def test_all_nodes_may_be_kept():
    """To plan for the day when the cordoned ones are back."""
    topology, report = read_topology(NODES, all_nodes="true")
    assert topology.num_hosts == 9
    assert report.num_dropped == 0
    assert report.altered[0].reason == "has no label of level spine, leaf"
    assert parents(topology)["master-0"] == "cluster"


def test_a_taint_may_be_tolerated():
    topology, _ = read_topology(
        NODES, tolerate="nvidia.com/gpu, node-role.kubernetes.io/control-plane"
    )
    assert "master-0" in topology.host_index
    # Without the plugin's own taint on the list there is hardly a GPU left.
    assert read_topology(NODES, tolerate="x")[0].num_gpus == 4


def test_nvlink_domains_of_racks_are_a_level():
    """GPUs of several hosts with the same clique are joined by NVLink; kubectl writes YAML, too."""
    topology, _ = read_topology(GB200, labels="gcp")
    assert topology.levels == ("block", "subblock", "nvlink-domain")
    cliques = {host.id: host.domain for host in topology.hosts}
    assert cliques["tray-2"] == cliques["tray-3"] == "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"
    assert parents(topology)[cliques["tray-2"]] == "s0"
    assert topology.host_types[0].gpu_type == "gb200-186gb"
    assert read_topology(GB200, nvlink="no")[0].levels == ("block", "subblock")
    # Region and zone are on every cloud, so they do not make the choice ambiguous.
    assert read_topology(GB200)[0].levels == topology.levels
    assert read_topology(GB200, labels="zones", nvlink=False)[0].levels == ("region", "zone")


def test_labels_may_be_given_as_for_kueue():
    """Levels are named by the ends of the labels; the host name is the host itself."""
    labels = ["cloud.google.com/gce-topology-block", "nvidia.com/gpu.clique",
              "kubernetes.io/hostname"]  # fmt: skip
    topology, _ = read_topology(GB200, levels=labels)
    assert topology.levels == ("gce-topology-block", "gpu.clique")
    assert len(topology.domains) == 4


def test_a_flat_cluster_may_be_wanted():
    topology, _ = read_topology(NODES, labels="none")
    assert topology.levels == ()
    assert {host.domain for host in topology.hosts} == {None}


def test_names_below_two_domains_are_two_domains_with_labels_of_ones_own(tmp_path):
    """As Kueue reads them: rack r1 of hall a is not rack r1 of hall b."""
    nodes = [node(f"n{h}{r}", {"hall": h, "rack": f"r{r}"}) for h in "ab" for r in (1, 1, 2)]
    for k, each in enumerate(nodes):
        each["metadata"]["name"] += f"-{k}"
    topology, _ = read_topology(written(tmp_path, *nodes), levels=["hall", "rack"])
    assert topology.levels == ("cluster", "hall", "rack")
    assert [d.id for d in topology.domains if d.level == "rack"] == ["a/r1", "a/r2", "b/r1", "b/r2"]


def test_numbers_as_names_are_told_apart(tmp_path):
    """CoreWeave numbers superpods and leaf groups: superpod 1 is not leaf group 1."""
    nodes = [
        node(f"n{k}", {
            "backend.coreweave.cloud/fabric": "f",
            "backend.coreweave.cloud/superpod": str(k // 2),
            "backend.coreweave.cloud/leafgroup": str(k % 2),
        })
        for k in range(4)
    ]  # fmt: skip
    topology, _ = read_topology(written(tmp_path, *nodes))
    assert topology.levels == ("fabric", "superpod", "leafgroup")
    assert {d.id for d in topology.domains} == {"f", "0", "1", "0/0", "0/1", "1/0", "1/1"}


def test_a_domain_may_have_the_name_of_a_host(tmp_path):
    topology, _ = read_topology(written(tmp_path, node("a", {"rack": "a"})), levels=["rack"])
    assert (topology.hosts[0].id, topology.hosts[0].domain) == ("a", "a-2")


def test_nvlink_domains_lie_where_they_nest(tmp_path):
    """A rack of NVLink across two leaf switches lies around them, not in one."""

    def at(k: int) -> dict[str, Any]:
        labels = {
            f"{TIER}0": f"leaf-{k}",
            f"{TIER}1": "spine",
            "nvidia.com/gpu.clique": f"u.{k // 2}",
        }
        return node(f"n{k}", labels)

    topology, _ = read_topology(written(tmp_path, *map(at, range(4))))
    assert topology.levels == ("spine", "nvlink-domain", "leaf")
    assert parents(topology)["leaf-3"] == "u.1"


def test_a_leaf_that_lies_in_an_nvlink_domain_in_part_is_refused(tmp_path):
    """A node without its clique in a leaf of a domain of two leaves: a label is wrong or lost."""
    nodes = [
        node(f"n{k}", {f"{TIER}0": f"leaf-{k // 2}", "nvidia.com/gpu.clique": "u.0"})
        for k in range(4)
    ]
    del nodes[3]["metadata"]["labels"]["nvidia.com/gpu.clique"]
    message = (
        r'line \d+: leaf "leaf-1" has hosts of nvlink-domain "u.0" .host n2. and of none .host n3.,'
        " and neither lies in the other, so the levels do not nest; correct the labels, or leave"
    )
    with pytest.raises(InstanceError, match=message):
        read_topology(written(tmp_path, *nodes))
    assert read_topology(written(tmp_path, *nodes), nvlink=False)[0].levels == ("cluster", "leaf")


def test_a_node_whose_leaf_others_know_stands_with_them(tmp_path):
    """It lost the label of its spine; its leaf is where the other nodes of the leaf say."""
    nodes = [node(f"n{k}", {f"{TIER}0": "leaf", f"{TIER}1": "spine"}) for k in range(2)]
    del nodes[1]["metadata"]["labels"][f"{TIER}1"]
    topology, report = read_topology(written(tmp_path, *nodes))
    assert parents(topology) == {"spine": None, "leaf": "spine", "n0": "leaf", "n1": "leaf"}
    assert report.altered[0].examples == ("n1",)


def test_a_rack_number_without_its_hall_means_nothing(tmp_path):
    """With names that are local the node stands in no rack, rather than in one of its own."""
    nodes = [node("a", {"hall": "h", "rack": "1"}), node("b", {"rack": "1"})]
    topology, _ = read_topology(written(tmp_path, *nodes), levels=["hall", "rack"])
    assert parents(topology)["b"] == "cluster"
    assert [d.id for d in topology.domains if d.level == "rack"] == ["1"]


def test_parts_of_nvlink_domains_are_a_level_too(tmp_path):
    labels = {f"{TIER}0": "leaf", "accelerator.topograph.run/domain": "d"}
    nodes = [node(f"n{k}", {**labels, "accelerator.topograph.run/sub-domain": f"s{k}"})
             for k in (0, 1)]  # fmt: skip
    topology, _ = read_topology(written(tmp_path, *nodes))
    assert topology.levels == ("leaf", "nvlink-domain", "nvlink-domain-part")


def test_a_machine_lends_its_wiring_to_nodes_with_as_many_gpus():
    """Labels do not say how GPUs are joined inside a node."""
    topology, report = read_topology(NODES, host_type={"gpu-*": "dgx-h100"})
    wired = {kind.name: len(kind.links) for kind in topology.host_types}
    assert wired["8xh100-sxm-80gb-191450m-1031168mib"] > 0
    assert wired["4xt4-63000m-263168mib"] == 0
    assert report.altered[0].reason == "has not the 8 GPUs of dgx-h100: without its wiring"
    assert report.altered[0].examples == ("gpu-6 has 4",)


@pytest.mark.parametrize(
    ("labels", "offers", "gpus", "note"),
    [
        ({}, {"nvidia_com_gpu": "2"}, (2, "t4"), None),
        ({}, {"nvidia_com_gpu": "0"}, (0, None), None),
        ({"nvidia.com/gpu.product": None}, {"nvidia_com_gpu": None}, (0, None), None),
        # GPUs of AMD, and a label of Google in place of NVIDIA's.
        ({"nvidia.com/gpu.product": None, "amd.com/gpu.product-name": "AMD_Instinct_MI300X"},
         {"nvidia_com_gpu": None, "amd_com_gpu": "8"}, (8, "instinct-mi300x"), None),
        ({"nvidia.com/gpu.product": None, "cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
         {"nvidia_com_gpu": "8"}, (8, "h100-sxm-80gb"), None),
        # Memory tells versions apart that share a product name.
        ({"nvidia.com/gpu.product": "Tesla-V100-SXM2", "nvidia.com/gpu.memory": "32510"}, {},
         (2, "v100-sxm-32gb"), None),
        # One GPU for ten pods is still one GPU.
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "10",
          "nvidia.com/gpu.count": "1"}, {"nvidia_com_gpu": "10"}, (1, "t4"), "shares its GPUs"),
        # All GPUs in slices of one size, offered as GPUs: a type of their own, and it is said.
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.count": "7",
          "nvidia.com/gpu.memory": "4864"}, {"nvidia_com_gpu": "7"},
         (7, "a100-sxm-40gb-mig-1g.5gb"), "offers slices of MIG as GPUs"),
        # Slices of several sizes: only whole GPUs are read.
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "8"},
         {"nvidia_com_gpu": "6", "nvidia_com_mig-3g.20gb": "4"}, (6, "a100-sxm-40gb"), "offers"),
        ({"nvidia.com/gpu.count": "4"}, {"nvidia_com_gpu": None}, (4, "t4"), "offers no nv"),
    ],
)  # fmt: skip
def test_gpus_are_counted_and_told(tmp_path, labels, offers, gpus, note):
    path = written(tmp_path, node("n", labels, **offers))
    topology, report = read_topology(path, labels="none")
    (kind,) = topology.host_types
    assert (kind.num_gpus, kind.gpu_type) == gpus
    assert [t.reason[: len(note)] for t in report.altered] == ([note] if note else [])


def test_what_labels_do_not_say_the_user_may(tmp_path):
    bare: dict[str, Any] = {"nvidia.com/gpu.product": None}
    path = written(tmp_path, node("n", bare, nvidia_com_gpu="8"))
    for options in ({"gpu_type": "h100"}, {"host_type": "dgx-h100"}):
        (kind,) = read_topology(path, labels="none", **options)[0].host_types  # type: ignore[arg-type]
        assert kind.gpu_type == "h100-sxm-80gb"
    path = written(tmp_path, node("n", {}, nvidia_com_gpu=None))
    assert read_topology(path, labels="none", gpus_per_node="4")[0].num_gpus == 4


def test_one_node_and_several_documents_are_read(tmp_path):
    """`kubectl get node n -o yaml`, and several of them one after another."""
    text = (
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {}\n  labels: {{zone-label: z}}\n"
        'status:\n  allocatable: {{cpu: "8", memory: 16Gi}}\n'
    )
    path = tmp_path / "nodes.yaml"
    path.write_text("---\n".join(text.format(name) for name in ("a", "b")))
    assert [h.id for h in read_topology(path, labels="none")[0].hosts] == ["a", "b"]


def broken(change) -> list[dict[str, Any]]:
    """Four nodes of two leaves with something wrong."""
    nodes = [node(f"n{k}", {f"{TIER}0": f"leaf-{k // 2}", f"{TIER}1": "spine"}) for k in range(4)]
    change(nodes)
    return nodes


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda n: n[3]["metadata"]["labels"].update({f"{TIER}1": "other"}), {},
         'leaf "leaf-1" lies in spine "spine" .host n2. and in "other" .host n3., so the levels do '
         "not nest; correct the labels, or leave one of the levels out"),
        (lambda n: [x["metadata"]["labels"].pop(f"{TIER}{k}") for x in n for k in (0, 1)], {},
         "no node has a label of a set that alloc knows; name the labels with levels, or say"),
        (lambda n: n[0]["metadata"]["labels"].update(
            {"cloud.google.com/gce-topology-block": "b"}), {},
         "the nodes have labels of topograph and gcp; say which with labels, for example"),
        (lambda n: None, {"labels": "aws"},
         r"no node has a label of the set aws \(Amazon Elastic Kubernetes Service\)"),
        (lambda n: None, {"levels": [f"{TIER}O"]},
         'no node has the label "fabric.topograph.run/tier-O"; did you mean "fabric.topog'),
        (lambda n: None, {"levels": [f"{TIER}0", f"{TIER}1"]},
         r'tier-1 "spine" lies in tier-0 "leaf-0" \(host n0\) and in "leaf-1" \(host n2\), so the '
         "levels do not nest; give tier-1 before tier-0"),
        (lambda n: None, {"levels": [f"{TIER}1", f"{TIER}1"]}, "twice; name every label once"),
        (lambda n: None, {"levels": [f"{TIER}1"], "labels": "aws"},
         'labels is "aws" and levels are given; give one of them'),
        (lambda n: None, {"labels": "gpc"}, 'labels is "gpc"; did you mean "gcp"'),
        (lambda n: n[1]["metadata"].pop("name"), {}, r'line \d+: items\[1\].metadata has no "na'),
        (lambda n: n[1].pop("metadata"), {}, r'line \d+: items\[1\] has no "metadata"; add it'),
        (lambda n: n[1]["metadata"].update(name="n0"), {}, 'node "n0" is named twice, first on'),
        (lambda n: n[1].pop("status"), {}, 'node "n1" has no status.allocatable; take the list'),
        (lambda n: n[1]["status"]["allocatable"].update(cpu="many"), {},
         r'line \d+: items\[1\].status.allocatable.cpu is "many"; give a quantity of Kubernetes'),
        (lambda n: n[1]["status"]["allocatable"].update(cpu="-4"), {}, 'is "-4"; give a quantity'),
        (lambda n: n[1]["status"]["allocatable"].update(cpu="5m"), {},
         r'line \d+: node "n1": host type .* cpu_milli is 5, less than 1 % of a core'),
        (lambda n: n[1]["status"]["allocatable"].update({"nvidia.com/gpu": "5000"}), {},
         'node "n1" offers 5000 GPUs; a node has at most 1000'),
        (lambda n: n[1]["metadata"]["labels"].pop("nvidia.com/gpu.product"), {},
         'node "n1" offers GPUs, and no label such as nvidia.com/gpu.product says of which type'),
        (lambda n: n[1]["status"]["allocatable"].pop("nvidia.com/gpu"), {},
         'node "n1" has a GPU by its labels, but neither nvidia.com/gpu in status.allocatable nor '
         "the label nvidia.com/gpu.count says how many; start the device plugin there, or pass"),
        (lambda n: (n[1]["status"]["allocatable"].pop("nvidia.com/gpu"),
                    n[1]["metadata"]["labels"].update({"nvidia.com/gpu.count": "two"})), {},
         'label nvidia.com/gpu.count of node "n1" is "two"; give the number of its GPUs'),
        (lambda n: [x.update(spec={"unschedulable": True}) for x in n], {},
         r"of 4 nodes none takes pods \(4 x cordoned .*all_nodes=true"),
        (lambda n: n.clear(), {}, r"of 0 nodes none takes pods \(the list is empty\)"),
        (lambda n: n[1].update(spec={"taints": [{"key": "x"}]}), {},
         r'items\[1\].spec.taints\[0\] has no "effect"'),
        (lambda n: None, {"memory_step_mib": 0}, "memory_step_mib is 0; it must be 1 or more"),
    ],
)  # fmt: skip
def test_nodes_that_cannot_be_read_are_refused_in_one_sentence(tmp_path, change, options, message):
    with pytest.raises(InstanceError, match=message):
        read_topology(written(tmp_path, *broken(change)), "kubernetes-nodes", **options)


def test_a_truncated_list_is_refused_with_its_line(tmp_path):
    text = NODES.read_text()[:5000]
    path = tmp_path / "nodes.json"
    path.write_text(text)
    with pytest.raises(InstanceError, match=rf"line ({text.count(chr(10)) + 1}|\d+): is not JSON"):
        read_topology(path)


def test_a_list_of_other_things_is_refused(tmp_path):
    path = tmp_path / "pods.json"
    path.write_text('{"kind": "List", "items": [{"kind": "Pod"}]}')
    with pytest.raises(InstanceError, match="its topology format is not recognised"):
        read_topology(path)


@pytest.mark.parametrize("name", [n for n, known in LABEL_SETS.items() if known.labels])
def test_every_set_with_fixed_labels_is_found_by_them(tmp_path, name):
    """A node with all labels of a set stands in all its levels."""
    pairs = LABEL_SETS[name].labels
    nodes = [node("n", {label: f"{level}-x" for label, level in pairs})]
    topology, _ = read_topology(written(tmp_path, *nodes))
    assert topology.levels == tuple(level for _, level in pairs)
    assert topology.hosts[0].domain == f"{pairs[-1][1]}-x"


def test_labels_that_might_be_meant_are_named(tmp_path):
    """Somebody's own labels, of which the likely ones are shown to choose from."""
    own = {"example.com/rack": "r", "example.com/colour": "red", "hall-block": "b"}
    with pytest.raises(InstanceError, match=r"They have example.com/rack, hall-block\.$"):
        read_topology(written(tmp_path, node("n", own)))


def test_a_set_that_nobody_knows_is_refused():
    with pytest.raises(InstanceError, match='labels is "awss"; did you mean "aws"'):
        choose_labels("awss", [], Place("nodes.json"))


def test_layers_of_amazon_count_from_the_outside(tmp_path):
    labels = {f"topology.k8s.aws/network-node-layer-{k}": f"nn-{k}" for k in (1, 2, 3)}
    topology, _ = read_topology(written(tmp_path, node("n", labels)))
    assert topology.levels == ("core", "spine", "leaf")
    assert topology.hosts[0].domain == "nn-3"


def test_empty_labels_are_no_labels(tmp_path):
    """Some clouds set every label and leave it empty where it does not apply."""
    nodes = [node("a", {f"{TIER}0": "leaf"}), node("b", {f"{TIER}0": ""})]
    topology, report = read_topology(written(tmp_path, *nodes))
    assert [h.domain for h in topology.hosts] == ["leaf", "cluster"]
    assert report.altered[0].examples == ("b",)


@pytest.mark.parametrize(
    ("text", "value"),
    [("64", 64), ("127500m", 127.5), ("1.5", 1.5), ("1056Gi", 1056 * 2**30), ("2e3", 2000),
     ("1E", 10**18), ("12k", 12_000), ("5n", 5e-9), ("1e-3", 0.001), ("1Ki", 1024)],
)  # fmt: skip
def test_quantities(text, value):
    assert float(quantity(TopologyText("x", json.dumps(text)).json)) == value


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "1e999", "5Qi", "1 Gi", "٤", "9" * 40])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(InstanceError, match="give a quantity of Kubernetes"):
        quantity(TopologyText("x", json.dumps(text)).json)


def test_reading_does_not_depend_on_what_a_node_says_besides(tmp_path):
    """Conditions, addresses and images of a real list."""
    document = json.loads(NODES.read_text())
    plain = copy.deepcopy(document)
    for item in plain["items"]:
        del item["spec"]["providerID"], item["status"]["nodeInfo"], item["apiVersion"]
    path = tmp_path / "kubernetes-nodes.json"
    path.write_text(json.dumps(plain))
    assert read_topology(path)[0] == read_topology(NODES)[0]


def test_extended_resources_are_read_by_their_names(tmp_path):
    """MIG profiles and devices of other plugins; disks and huge pages on request, in MiB."""
    offers: dict[str, Any] = {
        "nvidia.com/mig-1g.10gb": "7",
        "example.com/licence": "3",
        "example.com/none": "0",
        "ephemeral-storage": "1789361264Ki",
        "pods": "110",
    }
    path = written(tmp_path, node("a", **offers), node("b"))
    topology, _ = read_topology(path, labels="none")
    named = {"nvidia.com/mig-1g.10gb": 7, "example.com/licence": 3}
    assert [topology.host_type(host).resources for host in topology.hosts] == [named, {}]
    chosen, _ = read_topology(path, labels="none", resources="ephemeral-storage,pods")
    assert chosen.host_type(chosen.hosts[0]).resources == {
        "ephemeral_storage_mib": 1789361264 // 1024 // 1024 * 1024,
        "pods": 110,
    }
    none, _ = read_topology(path, labels="none", resources="none")
    assert len(none.host_types) == 1
    with pytest.raises(InstanceError, match=r"resources names .example.com/license., .*licence"):
        read_topology(path, labels="none", resources="example.com/license")
