"""Outages: when hosts are down, and what the jobs on them lose."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from alloc.errors import InstanceError
from alloc.problems.allocation.solution import TaskPlacement
from alloc.units import require_time


@dataclass(frozen=True)
class Outage:
    """A stretch of time in which a host is down, and runs nothing.

    Parameters
    ----------
    host
        Host id.
    start_s
        When it goes down, seconds since the start of the instance, 0 or more. What runs on it
        fails then.
    end_s
        When it is back, seconds, after `start_s`; ``None``: never.
    """

    host: str
    start_s: float
    end_s: float | None = None

    def __post_init__(self) -> None:
        where = f'outage of host "{self.host}"'
        require_time(self.start_s, where, "start_s")
        if self.end_s is not None:
            require_time(self.end_s, where, "end_s")
            if not self.end_s > self.start_s:
                raise InstanceError(
                    f"{where}: is over at {self.end_s:g} s, not after it begins at "
                    f"{self.start_s:g} s; give end_s after start_s, or none if it does not end."
                )

    def meets(self, start_s: float, end_s: float) -> bool:
        """Return whether the host is down at any time of a stretch.

        Parameters
        ----------
        start_s, end_s
            The stretch, its end excluded, seconds.
        """
        return self.start_s < end_s and (self.end_s is None or self.end_s > start_s)


class Downtime:
    """The outages of an instance, looked up by host.

    Parameters
    ----------
    outages
        In any order.

    Raises
    ------
    InstanceError
        If a host goes down while it is down.
    """

    def __init__(self, outages: Iterable[Outage]) -> None:
        self._of_host: dict[str, list[Outage]] = {}
        for outage in sorted(outages, key=lambda o: o.start_s):
            earlier = self._of_host.setdefault(outage.host, [])
            if earlier and earlier[-1].meets(outage.start_s, float("inf")):
                raise InstanceError(
                    f'host "{outage.host}": goes down at {outage.start_s:g} s, but is down since '
                    f"{earlier[-1].start_s:g} s; make one outage of the two."
                )
            earlier.append(outage)
        self._starts = {host: [o.start_s for o in its] for host, its in self._of_host.items()}

    def first(self, host: str, start_s: float, end_s: float) -> Outage | None:
        """Return the first outage of a host in a stretch, its end excluded, or None.

        Parameters
        ----------
        host
            Host id.
        start_s, end_s
            The stretch, seconds.
        """
        its = self._of_host.get(host, ())
        # The one that began last before the stretch may last into it.
        for outage in its[max(bisect_right(self._starts.get(host, ()), start_s) - 1, 0) :]:
            if outage.meets(start_s, end_s):
                return outage
            if outage.start_s >= end_s:
                return None
        return None

    def next_failure_s(self, tasks: Iterable[TaskPlacement], after_s: float) -> float:
        """Return when the first host of some tasks goes down after a time; infinite: never.

        Parameters
        ----------
        tasks
            Tasks of one gang.
        after_s
            Time, seconds; an outage that begins just then is not meant.
        """
        found = float("inf")
        for task in tasks if self._starts else ():
            starts = self._starts.get(task.host, ())
            if (k := bisect_right(starts, after_s)) < len(starts):
                found = min(found, starts[k])
        return found

    def fails(self, tasks: Iterable[TaskPlacement], at_s: float) -> bool:
        """Return whether a host of some tasks goes down at that very time.

        A run that ends then has failed: a gang stops as a whole with the first of its hosts.

        Parameters
        ----------
        tasks
            Tasks of one gang.
        at_s
            Time, seconds, compared exactly.
        """
        for task in tasks if self._starts else ():
            starts = self._starts.get(task.host, ())
            if (k := bisect_left(starts, at_s)) < len(starts) and starts[k] == at_s:
                return True
        return False


def saved_s(worked_s: float, checkpoint_s: float | None) -> float:
    """Return how much of a stretch of work is saved when it fails, seconds.

    Parameters
    ----------
    worked_s
        Length of the stretch since the state was saved, without the time of a restart, seconds.
    checkpoint_s
        `Job.checkpoint_s`.
    """
    if checkpoint_s is None:
        return 0.0
    if checkpoint_s == 0.0:
        return worked_s
    return min(worked_s // checkpoint_s * checkpoint_s, worked_s)
