"""Hosts over time: which are down at a moment of the simulation."""

from __future__ import annotations

import math

from alloc.problems.allocation.instance import Instance
from alloc.topology import Topology


class HostWatch:
    """Goes along with the clock, and says which hosts are down.

    Parameters
    ----------
    instance
        The truth, all outages to come included.
    """

    def __init__(self, instance: Instance) -> None:
        self._topology = instance.topology
        # Popped from the end: the next change is the last. A host that is back before it goes down
        # again at the same time is down.
        changes = [(outage.start_s, True, outage.host) for outage in instance.outages]
        changes += [(o.end_s, False, o.host) for o in instance.outages if o.end_s is not None]
        self._changes = sorted(changes, reverse=True)
        self._down: set[str] = set()

    @property
    def next_change_s(self) -> float:
        """When the next host goes down or comes back, seconds; infinite: never."""
        return self._changes[-1][0] if self._changes else math.inf

    @property
    def any_up(self) -> bool:
        """Whether any host is up."""
        return len(self._down) < self._topology.num_hosts

    @property
    def any_down(self) -> bool:
        """Whether any host is down."""
        return bool(self._down)

    def go_to(self, now_s: float) -> tuple[set[str], bool]:
        """Return which hosts went down up to a time, this included, and whether any came back."""
        fell: set[str] = set()
        came_back = False
        while self.next_change_s <= now_s:
            _, goes_down, host = self._changes.pop()
            if goes_down:
                self._down.add(host)
                fell.add(host)
            else:
                self._down.discard(host)
                came_back = True
        return fell, came_back

    def topology(self) -> Topology:
        """Return the cluster as it stands, some host up: without those that are down."""
        return self._topology.without_hosts(self._down) if self._down else self._topology
