"""hwloc XML: the PCIe tree, the matrix of NVLinks, and XML that is not what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from alloc.errors import InstanceError
from alloc.instances.topologies.one_host import read_host_type
from alloc.topology import bottleneck_bandwidth, flat_cluster

DATA = Path(__file__).parents[2] / "data" / "topologies"
A100 = DATA / "hwloc2-a100.xml"
P100 = DATA / "hwloc3-p100.xml"


def wires(kind) -> dict[frozenset[str], tuple[str, float]]:
    return {frozenset((x.a, x.b)): (x.kind, x.bandwidth_gb_per_s) for x in kind.links}


def between(kind, a: str, b: str) -> float:
    return bottleneck_bandwidth(flat_cluster("one", kind, 1), f"host-0/{a}", f"host-0/{b}")


def edited(tmp_path: Path, source: Path, *changes: tuple[str, str]) -> Path:
    """A copy of a file with some text replaced everywhere."""
    text = source.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "host.xml"
    path.write_text(text)
    return path


def test_a_machine_of_version_2():
    """Cores, memory, GPUs in NVML's order, chips of NVSwitch as one, what is no GPU left out.

    The console's VGA controller, a disk and an Ethernet port without RDMA are no part of it.
    """
    kind, report = read_host_type(A100)
    assert (kind.name, kind.num_gpus, kind.gpu_type) == ("4x-a100-sxm-40gb", 4, "a100-sxm-40gb")
    assert (kind.cpu_milli, kind.memory_mib) == (8000, 512 * 1024)
    assert report.rows_read == 71
    assert wires(kind) == {
        **{frozenset((f"gpu{g}", "nvswitch0")): ("nvswitch", 300.0) for g in range(4)},
        **{
            frozenset((f"gpu{g}", f"pcieswitch{g // 2}")): ("pcie", pytest.approx(31.5, rel=0.01))
            for g in range(4)
        },
        **{frozenset((f"nic{n}", f"pcieswitch{n}")): ("pcie", 12.5) for n in range(2)},
        **{
            frozenset((f"pcieswitch{n}", f"numa{n}")): ("pcie", pytest.approx(31.5, rel=0.01))
            for n in range(2)
        },
        frozenset(("numa0", "numa1")): ("upi", 20.8),
    }


def test_a_machine_of_version_3():
    """Kinds of devices are bits; NVLinks also lead to the processors; GPU memory is not host's."""
    kind, _ = read_host_type(P100)
    assert (kind.gpu_type, kind.cpu_milli) == ("p100-sxm-16gb", 6000)
    assert kind.memory_mib == 128 * 1024
    links = wires(kind)
    assert links[frozenset(("gpu0", "gpu1"))] == ("nvlink", 40.0)
    # Beside it the PCIe link of 7.9 GB/s; of links between the same two the widest counts.
    assert links[frozenset(("gpu2", "numa8"))] == ("nvlink", 40.0)
    assert links[frozenset(("nic0", "numa8"))] == ("pcie", 12.5)
    assert between(kind, "gpu0", "gpu2") == 20.8


def test_gpus_without_devices_of_the_system_are_found_by_their_class(tmp_path):
    """An hwloc without NVML and CUDA still sees the PCI devices; then nothing tells the model."""
    path = edited(
        tmp_path,
        A100,
        ('osdev_type="5"', 'osdev_type="0"'),
        ('osdev_type="1"', 'osdev_type="0"'),
        ("GPUModel", "Nothing"),
    )
    kind, _ = read_host_type(path)
    assert (kind.num_gpus, kind.gpu_type) == (4, "generic")


def test_a_server_without_gpus_is_said_to_be_one(tmp_path):
    """Also a file in which I/O was left out looks so, and threads may be all that it counts."""
    path = tmp_path / "host.xml"
    path.write_text(
        '<topology version="2.0"><object type="Machine"><object type="NUMANode" os_index="0" '
        'local_memory="1073741824"/><object type="PU"/><object type="PU"/></object></topology>'
    )
    kind, report = read_host_type(path)
    assert (kind.name, kind.num_gpus, kind.gpu_type) == ("cpu-host", 0, None)
    assert (kind.cpu_milli, kind.memory_mib, kind.links) == (2000, 1024, ())
    assert report.altered[0].reason.startswith("no GPU in the file")


def test_no_matrix_of_nvlinks_is_said(tmp_path):
    """A reading that silently lost 300 GB/s a GPU would be worse than none."""
    path = edited(tmp_path, A100, ('name="NVLinkBandwidth"', 'name="NUMALatency"'))
    kind, report = read_host_type(path)
    assert {x.kind for x in kind.links} == {"pcie", "upi"}
    assert report.altered[0].reason.startswith("no matrix of NVLinks (hwloc has it from its NVML")


def test_a_matrix_of_one_type_names_it_once(tmp_path):
    """GPUs linked to each other only: <distances2 type="OSDev" indexing="gp">."""
    text = P100.read_text()
    start = text.index("<distances2hetero")
    stop = text.index("</distances2hetero>") + len("</distances2hetero>")
    gpus = [
        line.split('gp_index="')[1].split('"')[0] for line in text.splitlines() if "nvml" in line
    ]
    values = "0 20000 0 0 20000 0 0 0 0 0 0 20000 0 0 20000 0 "
    matrix = (
        '<distances2 type="OSDev" nbobjs="4" kind="18" name="NVLinkBandwidth" indexing="gp">\n'
        f'<indexes length="9">{" ".join(gpus)} </indexes>\n'
        f'<u64values length="{len(values)}">{values}</u64values></distances2>'
    )
    path = tmp_path / "host.xml"
    path.write_text(text[:start] + matrix + text[stop:])
    links = wires(read_host_type(path)[0])
    assert links[frozenset(("gpu0", "gpu1"))] == ("nvlink", 20.0)
    assert links[frozenset(("gpu0", "numa0"))] == ("pcie", pytest.approx(7.88, rel=0.01))  # type: ignore[comparison-overlap]


def test_links_of_amd_are_read_as_theirs(tmp_path):
    """RSMI numbers the GPUs, and their links have a matrix of another name."""
    path = edited(
        tmp_path,
        P100,
        ("nvml", "rsmi"),
        ("NVLinkBandwidth", "XGMIBandwidth"),
        ("Tesla P100-SXM2-16GB", "AMD Instinct MI250X"),
    )
    kind, report = read_host_type(path)
    assert kind.gpu_type == "instinct-mi250x"
    assert wires(kind)[frozenset(("gpu0", "gpu1"))] == ("xgmi", 40.0)
    assert report.altered == ()


def test_a_device_of_no_interest_in_a_matrix_is_counted(tmp_path):
    """A bridge of a processor's NVLinks, say: its links are left out, and the report says so."""
    path = edited(tmp_path, A100, ('subtype="NVSwitch"', 'subtype="Other"'))
    kind, report = read_host_type(path)
    assert not [x for x in kind.links if x.kind == "nvswitch"]
    assert report.altered[0].reason.startswith("device in a matrix of links is no GPU or switch")
    assert report.altered[0].count == 2


def test_options_go_before_the_file():
    kind, _ = read_host_type(
        A100, gpu_type="a100-sxm-80gb", pcie_gb_per_s=16.0, nic_gb_per_s=25.0, upi_gb_per_s=96.0,
        nics="mlx5_1", cpu_cores=3, host_memory_gib=8, name="mine",
    )  # fmt: skip
    links = wires(kind)
    assert (kind.name, kind.gpu_type) == ("mine", "a100-sxm-80gb")
    assert (kind.cpu_milli, kind.memory_mib) == (3000, 8192)
    assert links[frozenset(("gpu0", "pcieswitch0"))] == ("pcie", 16.0)
    assert links[frozenset(("nic0", "pcieswitch1"))] == ("pcie", 16.0)
    assert links[frozenset(("numa0", "numa1"))] == ("upi", 96.0)
    assert not [x for x in read_host_type(A100, nics="none")[0].links if "nic0" in (x.a, x.b)]
    with pytest.raises(InstanceError, match=r'no NIC "mlx5_2"; did you mean "mlx5_\d"\? its NICs'):
        read_host_type(A100, nics="mlx5_2")


BOMB = """<?xml version="1.0"?>
<!DOCTYPE topology [
<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
]>
<topology version="2.0">&b;</topology>
"""
FILE = """<?xml version="1.0"?>
<!DOCTYPE topology [<!ENTITY a SYSTEM "secret.txt">]>
<topology version="2.0">&a;</topology>
"""


@pytest.mark.parametrize("text", [BOMB, FILE], ids=["bomb", "file"])
def test_entities_are_refused(tmp_path, text):
    """A few lines of them can mean gigabytes, or the content of another file."""
    path = tmp_path / "host.xml"
    path.write_text(text)
    with pytest.raises(
        InstanceError, match=r"line [23]: defines entities, .* remove the <!ENTITY>"
    ):
        read_host_type(path, format="hwloc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<topology>\n<object type='Machine'/></topology>", "version \"1\"; versions 2 and 3 are"),
        ('<topology version="9.0"></topology>', 'version "9.0"; versions 2 and 3 are read'),
        ('<topology version="2.0"></topology>', 'has no object of type "Machine"; export it again'),
        ('<topology version="2.0">\n<object type="Machine">', "line 2: is not a whole XML doc"),
        ("<graphml/>", "begins with <graphml>, and hwloc's XML with <topology>"),
        ("", "is not a whole XML document"),
        ("<topology>" * 300, "line 1: elements are nested more than 200 deep"),
        ('<?xml version="1.0" encoding="utf-7"?><topology/>', "is not a whole XML document|as XML"),
        ('<topology version="2.0"><object type="Machine"><object type="NUMANode" '
         'local_memory="x"/></object></topology>', 'local_memory is "x"; expected a number of 0'),
        ('<topology version="2.0"><object type="Machine"><object type="NUMANode" '
         'local_memory="-5"/></object></topology>', 'local_memory is "-5"; expected a number'),
    ],
)  # fmt: skip
def test_other_xml_is_refused_in_one_sentence(tmp_path, text, message):
    path = tmp_path / "host.xml"
    path.write_text(text)
    with pytest.raises(InstanceError, match=message):
        read_host_type(path, format="hwloc")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([(">0 0 0 0 150000 150000 0 0 0 0 <", ">0 0 0 0 150001 150000 0 0 0 0 <")],
         "line 1[0-9]{2}: from object 0 to object 4 the matrix says 150.001, from object 4 to "
         "object 0 it says 150.0; a link is the same in both directions, so export it again"),
        ([(">0 0 0 0 150000 150000 0 0 0 0 <", ">0 0 0 0 150000 150000 0 0 <")],
         'matrix "NVLinkBandwidth" has 34 values for 6 objects, and needs 36'),
        ([(">0 0 0 0 150000 150000 0 0 0 0 <", ">0 0 0 0 1.5e5 150000 0 0 0 0 <")],
         'matrix "NVLinkBandwidth" has the value "1.5e5"; bandwidths are whole MB/s'),
        ([("PCIDev:1 ", "PCIDev:999 ")],
         'matrix "NVLinkBandwidth" names "PCIDev:999", and there is no such object'),
    ],
)  # fmt: skip
def test_a_file_that_contradicts_itself_is_refused(tmp_path, changes, message):
    with pytest.raises(InstanceError, match=message):
        read_host_type(edited(tmp_path, A100, *changes))


def test_gpus_of_two_models_are_refused(tmp_path):
    """A host type has GPUs of one type; the user may say which."""
    head, model, tail = A100.read_text().partition("NVIDIA A100-SXM4-40GB")
    path = tmp_path / "host.xml"
    path.write_text(head + "Tesla T4" + tail)
    with pytest.raises(InstanceError, match=f"has GPUs of models {model}, Tesla T4; a host has"):
        read_host_type(path)
    assert read_host_type(path, gpu_type="a100-sxm-80gb")[0].num_gpus == 4


def test_a_truncated_file_is_refused_with_its_last_line(tmp_path):
    """A copy that broke off."""
    text = A100.read_text()
    path = tmp_path / "host.xml"
    path.write_text(text[: len(text) // 2])
    last = text[: len(text) // 2].count("\n") + 1
    with pytest.raises(InstanceError, match=f"line {last}: is not a whole XML document .* copy it"):
        read_host_type(path)


@pytest.mark.parametrize("option", ["pcie_gb_per_s", "nic_gb_per_s", "upi_gb_per_s"])
def test_bandwidths_are_more_than_nothing(option):
    with pytest.raises(InstanceError, match=f"{option} is 0; it must be more than 0"):
        read_host_type(A100, **{option: 0.0})  # type: ignore[arg-type]
