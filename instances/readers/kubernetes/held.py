"""Held: what pods hold of their nodes, and which GPU those stand on that share one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from alloc.instances.readers.kubernetes.gangs import Part
from alloc.instances.readers.kubernetes.pods import PodRequest
from alloc.problems.allocation.solution import TaskPlacement
from alloc.units import MILLI


class Held:
    """What some pods hold of each node.

    Attributes
    ----------
    on
        GPUs (``gpu``), milli-cores (``cpu``), MiB (``memory``) and other resources by node.
    """

    def __init__(self) -> None:
        self.on: dict[str, Counter[str]] = defaultdict(Counter)
        # The milli-GPU held of each GPU of a node that is shared, and the GPU of each group.
        self._shared: dict[str, list[int]] = defaultdict(list)
        self._group_at: dict[str, dict[str, int]] = defaultdict(dict)

    def take(
        self, node: str, request: PodRequest, group: str | None = None, milli: int | None = None
    ) -> int | None:
        """Count what a pod holds, and return the GPU that it shares, or None if it shares none.

        Parameters
        ----------
        node, request
            Where it stands and what it asks for.
        group
            Name that all pods on one shared GPU have, where the scheduler says it.
        milli
            Share of a GPU, milli-GPU, where the pod asks for GPU memory; None: what it asks for,
            or a whole GPU where it says none.
        """
        held = {"cpu": request.cpu_milli, "memory": request.memory_mib, **dict(request.named)}
        self.on[node] += Counter(held)
        if not request.shares:
            self.on[node] += Counter(gpu=request.gpu_milli // MILLI)
            return None
        return self._position(node, group, milli or request.gpu_milli or MILLI)

    def stand(self, part: Part, milli: int) -> Iterator[TaskPlacement]:
        """Count what the pods of a part hold, and yield where they stand.

        Parameters
        ----------
        part
            The pods.
        milli
            GPU of each, milli-GPU.
        """
        positions: dict[str, list[int]] = defaultdict(list)
        for node, group in part.places:
            at = self.take(node, part.request, group, milli)
            if at is not None and milli < MILLI:
                positions[node].append(at)
        for node, count in Counter(node for node, _ in part.places).items():
            yield TaskPlacement(node, part.role, count, tuple(positions[node]))

    def _position(self, node: str, group: str | None, milli: int) -> int:
        """Return the GPU of a node that a share is on: that of its group, or the first with room.

        Whole GPUs have no position, so those that are shared are the first. A GPU that is new is
        counted.
        """
        held, groups = self._shared[node], self._group_at[node]
        at = groups.get(group) if group is not None else None
        if at is not None:
            # The scheduler put them there together, whatever their shares add up to.
            held[at] = min(held[at] + milli, MILLI)
            return at
        at = len(held)
        if group is None:
            room = (k for k, used in enumerate(held) if used + milli <= MILLI)
            at = next((k for k in room if k not in groups.values()), at)
        if at == len(held):
            held.append(0)
            self.on[node]["gpu"] += 1
        if group is not None:
            groups[group] = at
        held[at] += milli
        return at
