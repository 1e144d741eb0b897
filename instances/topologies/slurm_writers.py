"""Writers of Slurm's ``topology.conf``."""

from __future__ import annotations

import re

from alloc.errors import InstanceError
from alloc.instances.topologies.hostlist import compress_hostlist
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.writing import Inside, inside, remark, require_names
from alloc.topology import Domain, Topology, domains_at

# What neither a line nor a hostlist takes for something else.
_NAME = re.compile(r'[^\s,\[\]=#"\\]+')
_RULE = "leave out blanks, commas, brackets, quotes, and the signs = # \\"
# Slurm's limit on the names of switches.
_LONGEST = 64


def write_slurm_tree(topology: Topology) -> str:
    """Return the ``topology.conf`` of a tree of switches, one for each domain.

    Raises
    ------
    InstanceError
        If a host stands in no domain, a domain holds nothing or both hosts and domains, or a name
        cannot be said.
    """
    parts = inside(topology)
    ids = [domain.id for domain in topology.domains]
    _require_sayable(topology, ids)
    for name in ids:
        if len(name) > _LONGEST:
            raise InstanceError(
                f"topology {shown(topology.name)}: domain {shown(name)} has a name of {len(name)} "
                f"characters; Slurm takes up to {_LONGEST} for a switch, so shorten it."
            )
    if parts.hosts[None]:
        raise InstanceError(
            f"topology {shown(topology.name)}: host {shown(parts.hosts[None][0])} stands in no "
            "domain; every node of a Slurm tree hangs on a switch, so put it in one."
        )
    # Leaves first, as such files have it.
    return "\n".join(
        [
            *remark(topology),
            *(_switch_line(topology, domain, parts) for domain in parts.from_the_top()[::-1]),
            "",
        ]
    )


def _switch_line(topology: Topology, domain: Domain, parts: Inside) -> str:
    hosts, domains = parts.hosts[domain.id], parts.domains[domain.id]
    if bool(hosts) == bool(domains):
        holds = "both hosts and domains" if hosts else "nothing"
        raise InstanceError(
            f"topology {shown(topology.name)}: domain {shown(domain.id)} holds {holds}; a switch "
            "of Slurm holds either nodes or switches, so "
            + ("put those hosts in a domain of their own." if hosts else "leave it out.")
        )
    if hosts:
        return f"SwitchName={domain.id} Nodes={compress_hostlist(hosts)}"
    return f"SwitchName={domain.id} Switches={compress_hostlist(d.id for d in domains)}"


def write_slurm_block(topology: Topology, *, level: str | None = None) -> str:
    """Return the ``topology.conf`` of blocks.

    Outer levels become block sizes where their domains are runs of 2, 4, 8 ... blocks, as Slurm
    makes them itself; a comment names the levels that are not.

    Parameters
    ----------
    topology
        The topology.
    level
        The level whose domains are the blocks; None takes the innermost.

    Raises
    ------
    InstanceError
        If there is no such level, a host stands in no domain of it, a block is empty, or a name
        cannot be said.
    """
    if level is None:
        if not topology.levels:
            raise InstanceError(
                f"topology {shown(topology.name)}: has no levels of domains, so nothing can be a "
                "block; put its hosts in domains."
            )
        level = topology.levels[-1]
    domains_at(topology, level)  # refuses an unknown level
    blocks = [domain for domain in topology.domains if domain.level == level]
    hosts = _hosts_of(topology, level)
    _require_sayable(topology, [block.id for block in blocks])
    for block in blocks:
        if not hosts[block.id]:
            raise InstanceError(
                f"topology {shown(topology.name)}: domain {shown(block.id)} holds no hosts; a "
                "block of Slurm needs nodes, so leave it out."
            )
    # Which blocks Slurm pairs depends on their order.
    along = [domain for domain in inside(topology).from_the_top() if domain.level == level]
    orders = [
        (blocks, _outer_multiples(topology, blocks)),
        (along, _outer_multiples(topology, along)),
    ]
    blocks, outer = max(orders, key=lambda order: len(order[1]))
    base = min(len(hosts[block.id]) for block in blocks)
    sizes = [base, *(base * multiple for multiple in outer.values())]
    return "\n".join(
        [
            *remark(topology),
            *(
                f"# Its level {shown(name)} is not in it: Slurm pairs blocks in runs of 2, 4, 8 ..."
                for name in topology.levels[: topology.levels.index(level)]
                if name not in outer
            ),
            *(f"BlockName={b.id} Nodes={compress_hostlist(hosts[b.id])}" for b in blocks),
            f"BlockSizes={','.join(map(str, sizes))}",
            "",
        ]
    )


def _outer_multiples(topology: Topology, blocks: list[Domain]) -> dict[str, int]:
    """Return how many blocks the domains of outer levels take, from the inside out."""
    by_id = {domain.id: domain for domain in topology.domains}
    found: dict[str, int] = {}
    for level in reversed(topology.levels[: topology.levels.index(blocks[0].level)]):
        above = [_ancestor(by_id, block, level) for block in blocks]
        multiple = _multiple(above, max(found.values(), default=1))
        if multiple is not None:
            found[level] = multiple
    return found


def _hosts_of(topology: Topology, level: str) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = {d.id: [] for d in topology.domains if d.level == level}
    for host, k in zip(topology.hosts, topology.domain_of_host[level], strict=True):
        if k < 0:
            raise InstanceError(
                f"topology {shown(topology.name)}: host {shown(host.id)} stands in no domain of "
                f"level {shown(level)}; every node of a Slurm block topology is in a block, so put "
                "it in one, or choose another level."
            )
        hosts[topology.domains[int(k)].id].append(host.id)
    return hosts


def _multiple(above: list[str | None], inner: int) -> int | None:
    """Return how many blocks the domains of a level take, if Slurm would make the same domains.

    That is: runs of a power of two of blocks, more than `inner`, the last of them perhaps shorter
    but longer than `inner`, or left out.

    Parameters
    ----------
    above
        The domain of that level that holds each block, or None.
    inner
        How many blocks the next inner level takes.
    """
    run = 1
    while run < len(above) and above[run] == above[0]:
        run += 1
    multiple = 1 << (run - 1).bit_length()
    if multiple <= inner:
        return None
    expected: list[str | None] = []
    for first in range(0, len(above), multiple):
        length = min(multiple, len(above) - first)
        expected += [above[first] if length > inner else None] * length
    heads = [above[first] for first in range(0, len(above), multiple) if above[first] is not None]
    return multiple if expected == above and len(set(heads)) == len(heads) else None


def _ancestor(by_id: dict[str, Domain], domain: Domain, level: str) -> str | None:
    while domain.parent is not None:
        domain = by_id[domain.parent]
        if domain.level == level:
            return domain.id
    return None


def _require_sayable(topology: Topology, domains: list[str]) -> None:
    names = [*domains, *(host.id for host in topology.hosts)]
    require_names(topology, names, _NAME, "Slurm", _RULE)
