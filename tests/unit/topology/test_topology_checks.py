"""What a topology and its parts refuse, each in one sentence."""

import pytest

from alloc.errors import InstanceError
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology

BOX = HostType("box", num_gpus=1, gpu_type="generic", cpu_milli=1000)
H = Host("h", "box")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Topology("t", (BOX,), ()), 'topology "t": has no hosts; a cluster needs'),
        (lambda: Topology("t", (BOX, BOX), (H,)), 'host type "box" appears twice'),
        (lambda: Topology("t", (BOX,), (H, H)), 'host or domain "h" appears twice'),
        (
            lambda: Topology("t", (BOX,), (H,), ("pod",), (Domain("h", "pod"),)),
            'host or domain "h" appears twice; ids must be unique',
        ),
        (lambda: Topology("t", (BOX,), (H,), ("host",)), 'level "host" is implied; leave it out'),
        (lambda: Topology("t", (BOX,), (H,), ("pod", "pod")), 'level "pod" appears twice'),
        (
            lambda: Topology("t", (BOX,), (Host("h", "bax"),)),
            'host "h" is of type "bax", which is not defined; did you mean "box"',
        ),
        (
            lambda: Topology(
                "t", (BOX,), (Host("h", "box", "pod-1"),), ("pod",), (Domain("pod-0", "pod"),)
            ),
            'host "h" stands in domain "pod-1", which is not defined; did you mean "pod-0"',
        ),
        (
            lambda: Topology("t", (BOX,), (H,), ("leaf",), (Domain("d", "leav"),)),
            'domain "d" is on level "leav", which is not in levels; did you mean "leaf"',
        ),
        (
            lambda: Topology("t", (BOX,), (H,), ("leaf",), (Domain("d", "leaf", "e"),)),
            'domain "d" has parent "e", which is not defined',
        ),
        (
            lambda: Topology(
                "t", (BOX,), (H,), ("pod", "leaf"), (Domain("p", "pod", "l"), Domain("l", "leaf"))
            ),
            r'domain "p" \(pod\) lies in "l" \(leaf\), which is not an outer level',
        ),
        (lambda: HostType("", 0), "empty name; name it"),
        (lambda: HostType("x", -1), 'host type "x": num_gpus is -1; it must be 0 or more'),
        (lambda: HostType("x", 2), "has 2 GPUs of no type; set gpu_type"),
        (lambda: HostType("x", cpu_milli=8), r"cpu_milli is 8, less than 1 % of a core"),
        (lambda: GpuLink("gpu0", "gpu0", "nvlink", 1), '"gpu0" is linked to itself'),
        (lambda: GpuLink("gpu0", "gpu1", "nvlink", 0), "bandwidth_gb_per_s is 0"),
        (lambda: NetworkLink("a", "a", 1), '"a" is linked to itself; name two nodes'),
        (lambda: NetworkLink("a", "b", float("inf")), "link a-b: bandwidth_gb_per_s is inf"),
    ],
)  # fmt: skip
def test_a_malformed_topology_is_refused(build, message):
    """A slip caught here costs a sentence, in a solver's answer it costs a day."""
    with pytest.raises(InstanceError, match=message):
        build()
