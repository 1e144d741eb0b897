"""Who is where, and who is alike."""

import pytest

from alloc.errors import InstanceError
from alloc.topology import (
    Domain,
    Host,
    HostType,
    Topology,
    domains_at,
    fat_tree,
    flat_cluster,
    hosts_in,
    meeting_level,
)

PLAIN = HostType("plain", num_gpus=2, gpu_type="generic", cpu_milli=8000)
BIG = HostType("big", num_gpus=8, gpu_type="generic", cpu_milli=64_000)
# Pod 0 holds leaves 0 and 1, pod 1 leaves 2 and 3; two hosts in each leaf.
TREE = fat_tree(PLAIN, 2, 2, 2, 1, 1)
# Two types in two racks, one host in none.
MIXED = Topology(
    "mixed",
    (PLAIN, BIG),
    (
        Host("a", "plain", "rack-0"),
        Host("b", "big", "rack-0"),
        Host("c", "plain", "rack-1"),
        Host("d", "plain", "rack-0"),
        Host("e", "plain"),
    ),
    ("rack",),
    (Domain("rack-0", "rack"), Domain("rack-1", "rack")),
)


def test_domains_of_a_level_come_in_order():
    assert [d.id for d in domains_at(TREE, "leaf")] == ["leaf-0", "leaf-1", "leaf-2", "leaf-3"]
    assert [d.id for d in domains_at(TREE, "pod")] == ["pod-0", "pod-1"]


def test_a_domain_holds_the_hosts_of_the_domains_inside_it():
    assert hosts_in(TREE, "leaf-1").tolist() == [2, 3]
    assert hosts_in(TREE, "pod-1").tolist() == [4, 5, 6, 7]
    assert hosts_in(TREE, "core").tolist() == list(range(8))


def test_two_hosts_meet_at_the_innermost_level_they_share():
    """What a placement costs depends on this level."""
    assert meeting_level(TREE, "host-0", "host-0") == "host"
    assert meeting_level(TREE, "host-0", "host-1") == "leaf"
    assert meeting_level(TREE, "host-0", "host-2") == "pod"
    assert meeting_level(TREE, "host-0", "host-4") == "core"


def test_hosts_outside_all_domains_meet_nowhere():
    """Two hosts without a rack are not together in a rack named -1."""
    assert meeting_level(flat_cluster("two", PLAIN, 2), "host-0", "host-1") is None
    assert meeting_level(MIXED, "a", "e") is None
    two_outside = MIXED.replace(hosts=(*MIXED.hosts, Host("f", "plain")))
    assert meeting_level(two_outside, "e", "f") is None
    assert meeting_level(MIXED, "e", "e") == "host"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: domains_at(TREE, "leave"), 'has no level "leave"; did you mean "leaf"'),
        (lambda: domains_at(TREE, "host"), 'has no level "host"'),
        (lambda: hosts_in(TREE, "leaf-9"), 'no domain "leaf-9"; did you mean "leaf-'),
        (
            lambda: meeting_level(TREE, "host-0", "hots-1"),
            'no host "hots-1"; did you mean "host-1"',
        ),
    ],
)
def test_unknown_names_get_a_suggestion(ask, message):
    with pytest.raises(InstanceError, match=message):
        ask()
