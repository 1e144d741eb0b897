"""Writers of Topograph's graph and model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from alloc.errors import InstanceError
from alloc.instances.topologies.accelerators import PART_LEVEL
from alloc.instances.topologies.hostlist import compress_hostlist
from alloc.instances.topologies.node_labels import NVLINK_LEVEL
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.writing import inside, remark, require_names
from alloc.topology import Domain, Topology

_LABELS = {
    NVLINK_LEVEL: "accelerator.topograph.run/domain",
    PART_LEVEL: "accelerator.topograph.run/sub-domain",
}
# What the providers that simulate a model look at.
_ANNOTATIONS = {
    NVLINK_LEVEL: "accelerator.topology.test/domain",
    PART_LEVEL: "accelerator.topology.test/sub-domain",
}
_ANY_NAME = re.compile(r".+", re.DOTALL)
_IN_A_LIST = re.compile(r"[^\s,\[\]]+")


def write_topograph_graph(topology: Topology) -> str:
    """Return Topograph's graph: domains are switches, NVLink domains are labels.

    Raises
    ------
    InstanceError
        If a name cannot be said, or a domain holds no hosts.
    """
    _require(topology, _ANY_NAME, "leave out control characters")
    _require_hosts(topology, topology.domains, "topograph-model")
    by_id = {domain.id: domain for domain in topology.domains}
    instances = []
    for host in topology.hosts:
        switches, labels = _split(_above(by_id, host.domain))
        instance: dict[str, object] = {"id": host.id, "network_layers": switches}
        if labels:
            instance["labels"] = {_LABELS[level]: name for level, name in labels.items()}
        instances.append(instance)
    return json.dumps({"instances": instances}, indent=1, ensure_ascii=False) + "\n"


def write_topograph_model(topology: Topology) -> str:
    """Return Topograph's model, as of release 1: domains are switches, NVLink domains annotations.

    Raises
    ------
    InstanceError
        If a name cannot be said, or an NVLink domain holds no hosts.
    """
    _require(topology, _IN_A_LIST, "leave out blanks, commas, brackets and control characters")
    _require_hosts(topology, [d for d in topology.domains if d.level in _LABELS], None)
    return "\n".join([*remark(topology), *_switches(topology), *_blocks(topology), ""])


def _switches(topology: Topology) -> Iterator[str]:
    by_id = {domain.id: domain for domain in topology.domains}
    children: dict[str, list[str]] = {}
    switches = [d for d in inside(topology).from_the_top() if d.level not in _LABELS]
    for switch in switches:
        children.setdefault(switch.id, [])
        above, _ = _split(_above(by_id, switch.parent))
        if above:
            children[above[0]].append(switch.id)
    if not switches:
        return
    yield "switches:"
    for switch in switches:
        below = children[switch.id]
        yield f"  {_quoted(switch.id)}:" + ("" if below else " {}")
        if below:
            yield f"    switches: [{', '.join(map(_quoted, below))}]"


def _blocks(topology: Topology) -> Iterator[str]:
    by_id = {domain.id: domain for domain in topology.domains}
    blocks: dict[str | None, list[str]] = {}
    for host in topology.hosts:
        blocks.setdefault(host.domain, []).append(host.id)
    yield "blocks:"
    for stands, hosts in blocks.items():
        switches, labels = _split(_above(by_id, stands))
        start = "- "
        if switches:
            yield f"{start}switch: {_quoted(switches[0])}"
            start = "  "
        yield f"{start}nodes: [{_quoted(compress_hostlist(hosts))}]"
        if labels:
            yield "  annotations:"
            yield from (f"    {_ANNOTATIONS[k]}: {_quoted(value)}" for k, value in labels.items())


def _above(by_id: dict[str, Domain], stands: str | None) -> Iterator[Domain]:
    """Yield the domains above, from the inside out."""
    while stands is not None:
        yield by_id[stands]
        stands = by_id[stands].parent


def _split(domains: Iterable[Domain]) -> tuple[list[str], dict[str, str]]:
    """Return the switches among domains, and by level the others, which become labels."""
    switches, labels = [], {}
    for domain in domains:
        if domain.level in _LABELS:
            labels[domain.level] = domain.id
        else:
            switches.append(domain.id)
    return switches, labels


def _require_hosts(topology: Topology, domains: Iterable[Domain], other: str | None) -> None:
    by_id = {domain.id: domain for domain in topology.domains}
    said = {domain.id for host in topology.hosts for domain in _above(by_id, host.domain)}
    for domain in domains:
        if domain.id not in said:
            instead = f", or write {other}" if other else ""
            raise InstanceError(
                f"topology {shown(topology.name)}: domain {shown(domain.id)} holds no hosts, and "
                f"Topograph knows it by them; leave it out{instead}."
            )


def _require(topology: Topology, allowed: re.Pattern[str], rule: str) -> None:
    names = [d.id for d in topology.domains] + [h.id for h in topology.hosts]
    require_names(topology, names, allowed, "Topograph", rule)


def _quoted(name: str) -> str:
    # A text in quotes of JSON is one of YAML.
    return json.dumps(name, ensure_ascii=False)
