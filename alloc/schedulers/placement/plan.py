"""Following a plan: the exact policy of arrival sequences."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import TaskPlacement
from alloc.schedulers.placement.free_hosts import FreeHosts
from alloc.schedulers.placement.policy import PlacementPolicy, Request
from alloc.schedulers.placement.tasks import merge
from alloc.units import MILLI
from alloc.workload import Configuration, Job, TaskGroup

Kind = tuple[tuple[int, ...], str | None]
"""What a job asks for: demand of its task and GPU type."""


@dataclass(frozen=True, eq=False)
class Slot:
    """The place that a planned job has: a host and the positions of its GPUs there."""

    host: int
    kind: Kind
    group: TaskGroup
    gpus: tuple[int, ...]


class ExactPlan(PlacementPolicy):
    """Pack the jobs that are expected once, close to optimally, and keep their places for them.

    Before the first arrival, the expected jobs are packed on the empty cluster by column generation
    (`alloc.solving.sharing.offline_packing`). Every planned job is a slot. An arriving job takes a
    slot of its kind if one is open. Otherwise it goes where no slot is in the way, to the host that
    is left with the least free GPU, then CPU. Failing that, the least valuable set of at most two
    open slots of one host is given up whose room it fits in, if together they are worth no more GPU
    than the job: found exactly, by trying all. Else it is turned away.

    It knows the jobs to expect (kinds and numbers), as FGD knows the mix, but not the order, nor
    which of them will come. Jobs are single tasks; nobody leaves.

    Parameters
    ----------
    expected
        The jobs to expect.
    plan_s
        Most time for the plan, seconds; it stops when it is within 0.001 % of its bound.
    seed
        Seed of the plan's solver.
    """

    name = "exact-plan"
    information = "free capacity, kinds and numbers of the jobs to expect"
    features = ()

    def __init__(self, expected: Sequence[Job], *, plan_s: float = 60.0, seed: int = 0) -> None:
        super().__init__()
        self._expected = tuple(expected)
        self._plan_s = plan_s
        self._seed = seed
        self._spare: FreeHosts | None = None
        self._slots: dict[Kind, deque[Slot]] = {}
        self._open: dict[int, list[Slot]] = {}

    def reset(self) -> None:
        """Forget what became of the slots, and the plan."""
        super().reset()
        self._spare = None

    def prepare(self, free: FreeHosts) -> None:
        """Make the plan for an empty cluster."""
        from alloc.solving.sharing.offline_packing import pack_offline

        instance = Instance("expected", free.topology, self._expected)
        result = pack_offline(instance, time_limit_s=self._plan_s, seed=self._seed)
        self._spare = FreeHosts(free.topology)
        self._slots = {}
        self._open = {}
        planned = []
        for a in getattr(result.require_solution(), "assignments", ()):
            configuration = instance.job(a.job).configurations[a.configuration]
            h = free.topology.host_index[a.tasks[0].host]
            planned.append((h, configuration, a.tasks[0].gpus))
        # Shares first: they say which GPUs they are on, whole GPUs take what is left.
        for h, configuration, gpus in sorted(planned, key=lambda item: not item[2]):
            group = configuration.tasks[0]
            held = self._spare.take(h, group, gpus or None)
            slot = Slot(h, _kind(configuration), group, held)
            self._slots.setdefault(slot.kind, deque()).append(slot)
            self._open.setdefault(h, []).append(slot)

    def place(
        self, free: FreeHosts, request: Request, rng: np.random.Generator
    ) -> tuple[TaskPlacement, ...] | None:
        """Place a job and take its capacity, or do nothing; see `PlacementPolicy.place`."""
        configuration = request.configuration
        group = configuration.tasks[0]
        if len(configuration.tasks) > 1 or group.count > 1 or request.rules.levels:
            raise UnsupportedFeatureError(
                f"exact-plan takes jobs of one task without rules of placement, not "
                f"{configuration.label}; use another placement rule."
            )
        if self._spare is None or self._spare.topology is not free.topology:
            self.prepare(free)
        found = self._own_slot(_kind(configuration)) or self._elsewhere(configuration)
        if found is None:
            return None
        h, gpus = found
        free.take(h, group, gpus)
        return merge(free, [(h, group, gpus)])

    def _own_slot(self, kind: Kind) -> tuple[int, tuple[int, ...]] | None:
        slots = self._slots.get(kind)
        while slots:
            slot = slots.popleft()
            if slot in self._open[slot.host]:  # not given up meanwhile
                self._open[slot.host].remove(slot)
                return slot.host, slot.gpus
        return None

    def _elsewhere(self, configuration: Configuration) -> tuple[int, tuple[int, ...]] | None:
        """Return a place beside the slots, or in place of slots that are worth less."""
        assert self._spare is not None
        spare, group = self._spare, configuration.tasks[0]
        hosts = np.flatnonzero(spare.fits(group, configuration.gpu_type))
        if hosts.size:
            h = int(hosts[np.lexsort((spare.cpu[hosts], spare.left[hosts]))[0]])
            return h, spare.take(h, group)
        best: tuple[int, tuple[Slot, ...]] | None = None
        for h in np.flatnonzero(spare.of_type(configuration.gpu_type)).tolist():
            slots = self._open.get(h, ())
            for chosen in (*combinations(slots, 1), *combinations(slots, 2)):
                worth = sum(slot.group.gpu_milli for slot in chosen)
                if worth > group.gpu_milli or (best is not None and worth >= best[0]):
                    continue
                if self._fits_without(h, group, chosen):
                    best = (worth, chosen)
        if best is None:
            return None
        for slot in best[1]:
            spare.give(slot.host, slot.group, slot.gpus)
            self._open[slot.host].remove(slot)
        h = best[1][0].host
        return h, spare.take(h, group)

    def _fits_without(self, h: int, group: TaskGroup, chosen: Sequence[Slot]) -> bool:
        """Return whether a task fits on a host when some of its slots are given up."""
        assert self._spare is not None
        spare = self._spare
        for slot in chosen:
            spare.give(h, slot.group, slot.gpus)
        fits = spare.fits_besides_gpus(h, group)
        if group.shares_gpu:
            fits = fits and bool(spare.roomiest[h] >= group.gpu_milli)
        else:
            fits = fits and bool(spare.whole[h] >= group.gpu_milli // MILLI)
        for slot in chosen:
            spare.take(h, slot.group, slot.gpus)
        return fits


def _kind(configuration: Configuration) -> Kind:
    return configuration.tasks[0].demand, configuration.gpu_type
