"""Rules of outages: nothing runs on a host that is down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Run
from alloc.verification.violation import Violation


def check_outages(instance: Instance, runs: Sequence[Run]) -> Iterator[Violation]:
    """Yield the runs on hosts that are down, each host of a run with its first outage.

    Parameters
    ----------
    instance
        The problem.
    runs
        Runs of its jobs; start included, end excluded.
    """
    for run in runs if instance.outages else ():
        for host in dict.fromkeys(task.host for task in run.tasks):
            outage = instance.downtime.first(host, run.start_s, run.end_s)
            if outage is not None:
                until_s = run.end_s if outage.end_s is None else min(run.end_s, outage.end_s)
                back = "for good" if outage.end_s is None else f"until {outage.end_s:g} s"
                yield Violation(
                    "host_down",
                    (run.job, host),
                    until_s - max(run.start_s, outage.start_s),
                    "s",
                    f'job "{run.job}" runs on host "{host}", which is down from '
                    f"{outage.start_s:g} s {back}.",
                )
