"""Starts that are reserved for the jobs that wait: what a blocked gang can count on."""

from __future__ import annotations

from alloc.problems.allocation.instance import Instance
from alloc.schedulers.backfilling import Reservation
from alloc.schedulers.honouring import require_honoured
from alloc.schedulers.reserving import ConservativeBackfill, reserved_in_order
from alloc.simulation.simulator import Simulation


def reserved_starts(instance: Instance) -> dict[str, Reservation]:
    """Return the starts that `conservative-backfill` reserves at its first decision, by job.

    Without an entry are jobs that come later, that only their quota holds back, and for whose hosts
    nobody knows when they will be free.

    Parameters
    ----------
    instance
        The cluster, what runs and what waits.

    Raises
    ------
    UnsupportedFeatureError
        If the instance has rules that this scheduler does not look at.
    """
    require_honoured(ConservativeBackfill(), instance)
    state = Simulation(instance, stalls=False).next_decision()
    return {} if state is None else reserved_in_order(state)[1]
