"""What writers share: names that a format can say, and who lies in whom."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.instances.topologies.place import shown
from alloc.topology import Domain, Topology


@dataclass(frozen=True)
class Inside:
    """What lies in each domain, in the order of the topology.

    Parameters
    ----------
    hosts, domains
        Ids of the hosts and domains that lie directly in each domain, by its id; under None those
        that lie in none.
    """

    hosts: dict[str | None, list[str]]
    domains: dict[str | None, list[Domain]]

    def from_the_top(self) -> list[Domain]:
        """Return all domains, each before those in it, siblings in the order of the topology."""
        ordered: list[Domain] = []
        stack = self.domains[None][::-1]
        while stack:
            domain = stack.pop()
            ordered.append(domain)
            stack += self.domains[domain.id][::-1]
        return ordered


def inside(topology: Topology) -> Inside:
    """Return what lies in each domain of a topology."""
    keys: list[str | None] = [None, *(domain.id for domain in topology.domains)]
    found = Inside({key: [] for key in keys}, {key: [] for key in keys})
    for host in topology.hosts:
        found.hosts[host.domain].append(host.id)
    for domain in topology.domains:
        found.domains[domain.parent].append(domain)
    return found


def require_names(
    topology: Topology, names: Iterable[str], allowed: re.Pattern[str], format: str, rule: str
) -> None:
    """Refuse names that a format cannot say.

    Parameters
    ----------
    topology
        The topology, for the message.
    names
        Names of hosts or domains.
    allowed
        What a name may be as a whole.
    format
        Name of the format, for the message.
    rule
        What a name may be, in words, for the message.

    Raises
    ------
    InstanceError
        If a name does not match as a whole.
    """
    for name in names:
        if not allowed.fullmatch(name) or not name.isprintable():
            raise InstanceError(
                f"topology {shown(topology.name)}: {format} cannot say the name {shown(name)}; "
                f"{rule}."
            )


def remark(topology: Topology, sign: str = "#") -> list[str]:
    """Return the comment at the head of a written file: what it is, and what it does not say.

    Parameters
    ----------
    topology
        What is written.
    sign
        What begins a comment in the format.
    """
    kinds = ", ".join(shown(kind.name) for kind in topology.host_types)
    return [
        f"{sign} Topology {shown(topology.name)}, written by alloc.",
        f"{sign} This format says nothing of the kinds of hosts ({kinds}) or the rates of links.",
    ]
