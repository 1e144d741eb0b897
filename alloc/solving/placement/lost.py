"""Free GPUs that a task of the mix could not use, worked out once for hosts in the same state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alloc.objectives.fragmentation import fragments, mix_of
from alloc.problems.allocation.instance import Instance
from alloc.solving.placement.seen_hosts import State
from alloc.solving.placement.terms import Counts
from alloc.units import MILLI, RESOURCES


class Lost:
    """GPUs that are free on hosts and of no use to the expected task, by what is free there.

    Parameters
    ----------
    instance
        The problem, whose jobs are the mix.
    """

    def __init__(self, instance: Instance) -> None:
        self.mix = mix_of(instance)
        self.types = np.array([str(t) for t in instance.topology.gpu_types])
        self._types, type_of = np.unique(self.types, return_inverse=True)
        self.type_of: Counts = type_of.reshape(-1)
        self._known: dict[State, float] = {}

    def of(self, states: Sequence[State]) -> list[float]:
        """Return them for hosts in some states, milli-GPU.

        Parameters
        ----------
        states
            GPU type of a host, as in `type_of`, and what is free there of each resource, 0 or more.
        """
        keys = [state[: 1 + len(RESOURCES)] for state in states]
        new = list({key: None for key in keys if key not in self._known})
        if new:
            rows = np.array(new)
            gpus = rows[:, 1] // MILLI
            whole = MILLI * (np.arange(max(int(gpus.max()), 1)) < gpus[:, None])
            lost = fragments(self.mix, self._types[rows[:, 0]], rows[:, 2:], whole)
            self._known.update(zip(new, lost.tolist(), strict=True))
        return [self._known[key] for key in keys]
