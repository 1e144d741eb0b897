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

    def left_over(self, states: Sequence[State]) -> list[float]:
        """Return what is left of the free GPUs when as many tasks as fit have come, milli-GPU.

        Added up over the shapes of tasks with GPUs, each by itself and all alike, however many
        tasks have it.

        Parameters
        ----------
        states
            As for `of`.
        """
        rows = np.array(states, dtype=np.int64)[:, : 1 + len(RESOURCES)]
        left = np.zeros(len(rows), dtype=np.int64)
        for shape in self.mix:
            gpus = shape.num_gpus * shape.gpu_milli
            if gpus == 0:
                continue
            room = rows[:, 1] // gpus
            for r, amount in ((2, shape.cpu_milli), (3, shape.memory_mib)):
                if amount:
                    room = np.minimum(room, rows[:, r] // amount)
            if shape.gpu_type is not None:
                room = np.where(self._types[rows[:, 0]] == shape.gpu_type, room, 0)
            left += rows[:, 1] - room * gpus
        return [float(lost) for lost in left.tolist()]
