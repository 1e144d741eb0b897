"""`alloc topology`: show, convert, formats."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from alloc.cli import completion
from alloc.instances.topologies import TOPOLOGY_FORMATS, read_topology, write_topology
from alloc.topology import (
    Domain,
    Host,
    HostType,
    Topology,
)

DATA = Path(__file__).parents[2] / "data" / "topologies"
NODES = DATA / "kubernetes-nodes.json"


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_a_cluster_is_shown_as_numbers_and_tree(run):
    done = run("topology", "show", NODES)
    assert done.exit_code == 0
    shown = squeezed(done.stdout)
    for part in (
        "hosts 6",
        "GPUs 36 (32 h100-sxm-80gb, 4 t4)",
        "levels cluster > spine > leaf > host",
        "spine 2 2 to 4",
        "4xt4-63000m-263168mib 1 4 x t4 63 257",
        "leaf-0, leaf-1: 2 x leaf, 2 hosts, 16 GPUs each",
        "gpu-6: 4xt4-63000m-263168mib, 4 GPUs",
    ):
        assert part in shown, part
    assert "1 x cordoned (spec.unschedulable) (gpu-4)" in done.stderr


def test_ten_thousand_hosts_are_shown_on_one_screen(run, tmp_path):
    path = tmp_path / "large.csv"
    rows = [f"host-{h:05d},spine,leaf-{h // 32:03d}" for h in range(313 * 32)]
    path.write_text("\n".join(["host,spine,leaf", *rows]))
    done = run("topology", "show", path, "--host-type", "dgx-h100")
    assert len(done.stdout.splitlines()) < 40
    assert "leaf-000 ... leaf-312: 313 x leaf, 32 hosts, 256 GPUs each" in done.stdout


def test_unfolded_every_host_has_its_line(run):
    shown = run("topology", "show", NODES, "--unfold").stdout
    for host in ("gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-6", "cpu-0"):
        assert f"{host}: " in shown
    assert "2 x leaf" not in shown


def uneven(num_racks: int) -> Topology:
    """Racks of one, two, three ... hosts: no two alike."""
    racks = [f"r{k:02d}" for k in range(num_racks)]
    hosts = tuple(
        Host(f"a-host-with-a-name-that-goes-on-and-on-and-on-{rack}-{h}", "box", rack)
        for k, rack in enumerate(racks)
        for h in range(k + 1)
    )
    domains = (Domain("hall", "hall"), *(Domain(rack, "rack", "hall") for rack in racks))
    return Topology("uneven", (HostType("box", 2, "t4"),), hosts, ("hall", "rack"), domains)


def test_more_kinds_than_a_person_reads_are_counted(run, tmp_path):
    path = tmp_path / "uneven.json"
    write_topology(uneven(30), path, "alloc")
    shown = run("topology", "show", path).stdout
    assert "and 6 more kinds with 165 hosts; --unfold shows them all" in shown
    assert "a-host-with-..and-on-r01-0, a-host-with-..and-on-r01-1: 2 x box, 2 GPUs each" in shown
    assert "more kinds" not in run("topology", "show", path, "--unfold").stdout


def test_what_hosts_are_may_be_a_machine_a_file_or_both(run):
    """Slurm's files know nothing of GPUs; what nvidia-smi printed on a node does."""
    tree = DATA / "tree.topology.conf"
    hgx = DATA / "nvidia-smi-hgx-h100.txt"
    done = run("topology", "show", tree, "--host-type", hgx, "--levels", "top,row,rack")
    assert "8x-h100-sxm-80gb" in done.stdout
    assert "top > row > rack > host" in done.stdout
    assert "16 rows read" in done.stderr
    done = run("topology", "show", tree, "--host-type", "4x-t4", "--host-type", f"gpu0*={hgx}")
    assert {"4x-t4", "8x-h100-sxm-80gb"} <= set(done.stdout.split())
    for wrong, message in (
        (("--host-type", "dgx-h10"), 'no machine "dgx-h10"; did you mean "dgx-h100"'),
        (("--host-type", "a="), "names no machine; write MACHINE or HOSTS=MACHINE"),
        (("--host-type", "4x-t4", "--host-type", "4x-a10"), 'says twice what "*" is'),
        ((), "does not say what its hosts are"),
    ):
        done = run("topology", "show", tree, *wrong)
        assert done.exit_code == 2
        assert message in done.stderr


def test_options_of_the_format_are_passed_on(run):
    path = DATA / "nvidia-smi-pcie.txt"
    done = run("topology", "show", path, "-O", "gpu-type=l40s", "-O", "num_hosts=5", "--name", "n")
    assert squeezed("n └── host-0 ... host-4: 5 x 4x-l40s, 4 GPUs each") in squeezed(done.stdout)
    done = run("topology", "show", path, "-O", "gpu_typ=l40s")
    assert done.exit_code == 2
    assert 'has no option "gpu_typ"; did you mean "gpu_type"' in done.stderr


def test_json_is_one_document_with_the_account(run):
    document = json.loads(run("topology", "show", NODES, "--json").stdout)
    assert (document["hosts"], document["gpus"]) == (6, 36)
    assert document["gpus_by_type"] == {"h100-sxm-80gb": 32, "t4": 4}
    assert [level["domains"] for level in document["levels"]] == [1, 2, 3]
    assert document["report"]["num_dropped"] == 3
    assert document["host_types"][0]["num_gpus"] == 8


def test_pictures_are_drawn(run, tmp_path):
    svg, png = tmp_path / "cluster.svg", tmp_path / "cluster.png"
    done = run("topology", "show", NODES, "--svg", svg, "--png", png)
    assert done.exit_code == 0
    assert "leaf-2" in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "cluster.svg: drawn." in done.stderr
    for name, message in (
        ("cluster.pdf", "let the name of the file end in .svg"),
        ("no/such/cluster.svg", "there is no folder"),
    ):
        done = run("topology", "show", NODES, "--svg", tmp_path / name)
        assert done.exit_code == 2
        assert message in done.stderr


@pytest.mark.parametrize(
    ("name", "to", "kind"),
    [
        ("c.json", None, "alloc"),
        ("c.json.gz", None, "alloc"),
        ("c.graphml", None, "graphml"),
        ("c.txt", "node-link", "node-link"),
        ("c.conf", "slurm-tree", "slurm-tree"),
    ],
)
def test_a_file_is_converted(run, tmp_path, name, to, kind):
    """The name says the format where it can."""
    out = tmp_path / name
    done = run("topology", "convert", NODES, out, *(("--to", to) if to else ()))
    assert done.exit_code == 0, done.stderr
    assert f"{out}: 6 hosts, 36 GPUs as {kind}." in done.stderr
    back, _ = read_topology(out, kind, host_type="4x-t4" if kind == "slurm-tree" else None)
    assert set(back.host_index) == set(read_topology(NODES)[0].host_index)


def test_a_file_is_converted_to_standard_output(run):
    done = run("topology", "convert", NODES, "-", "--to", "alloc")
    assert json.loads(done.stdout)["kind"] == "topology"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("out.xyz",), "its name does not say the format; give --to, one of"),
        (("out.json", "--to", "graphm"), 'format "graphm"; did you mean "graphml"'),
        (("out.txt", "--to", "hwloc"), 'topology format "hwloc" is only read'),
        (("out.json", "-W", "level=rack"), 'topology format "alloc" has no option "level"'),
        (("no/such/out.json",), "there is no folder"),
    ],
)  # fmt: skip
def test_a_conversion_that_cannot_be_is_refused(run, tmp_path, arguments, message):
    name, *others = arguments
    done = run("topology", "convert", NODES, tmp_path / name, *others)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.long
def test_a_list_may_come_from_a_pipe():
    """`kubectl get nodes -o json | alloc topology show -`."""
    command = [sys.executable, "-m", "alloc", "topology", "show", "-", "--json", "--name", "piped"]
    done = subprocess.run(command, input=NODES.read_bytes(), capture_output=True, check=True)
    assert json.loads(done.stdout)["name"] == "piped"


def test_every_format_is_listed(run):
    listed = {
        entry["kind"]: entry for entry in json.loads(run("topology", "formats", "--json").stdout)
    }
    assert list(listed) == list(TOPOLOGY_FORMATS)
    assert listed["hwloc"]["read"]
    assert not listed["hwloc"]["written"]
    shown = run("topology", "formats").stdout
    assert all(kind in shown for kind in TOPOLOGY_FORMATS)


@pytest.mark.parametrize("kind", TOPOLOGY_FORMATS)
def test_the_options_of_a_format_are_listed(run, kind):
    known = TOPOLOGY_FORMATS[kind]
    done = run("topology", "formats", kind)
    assert done.exit_code == 0
    for option in (*known.options, *known.write_options):
        assert option.name in done.stdout
    if not known.options and not known.write_options:
        assert "No options." in done.stdout


@pytest.mark.parametrize(
    ("complete", "begun", "offered"),
    [
        (completion.complete_topology_format, "hw", "hwloc"),
        (completion.complete_written_topology_format, "graph", "graphml"),
        (completion.complete_any_topology_format, "kube", "kubernetes-nodes"),
        (completion.complete_machine, "dgx", "dgx-h100"),
    ],
)
def test_names_are_completed(complete, begun, offered):
    assert offered in complete(begun)
    assert "hwloc" not in completion.complete_written_topology_format("hw")
