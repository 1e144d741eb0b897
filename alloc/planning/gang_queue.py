"""A queue of gangs, first come, first served: when each job starts, without a simulator.

Rigid gangs may spread over hosts, so only the number of free GPUs counts, and nobody overtakes.
Then the start of a job follows from those before it: the recursion of Kiefer and Wolfowitz [1]_ for
jobs that take several servers at once. `alloc.simulation` with the scheduler ``fifo`` says the
same, far more slowly: it keeps track of hosts, configurations and what a policy may know.

References
----------
.. [1] J. Kiefer, J. Wolfowitz, "On the theory of queues with many servers", Transactions of the
   American Mathematical Society 78(1), 1955.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush

from alloc.errors import InstanceError


def start_times(gpus: int, jobs: Iterable[tuple[float, float, int]]) -> list[float]:
    """Return when each job starts.

    Parameters
    ----------
    gpus
        GPUs there are.
    jobs
        Of each job when it arrives, how long it runs and how many GPUs it takes; in the order of
        arrival. Times are in any unit.

    Raises
    ------
    InstanceError
        If a job takes more GPUs than there are.
    """
    starts: list[float] = []
    running: list[tuple[float, int]] = []
    free, now = gpus, -math.inf
    for arrival, duration, gang in jobs:
        if gang > gpus:
            raise InstanceError(f"a job takes {gang} GPUs, and there are {gpus}; add GPUs.")
        if arrival > now:
            now = arrival
        while running and (free < gang or running[0][0] <= now):
            finish, left = heappop(running)
            free += left
            if finish > now:
                now = finish
        free -= gang
        heappush(running, (now + duration, gang))
        starts.append(now)
    return starts
