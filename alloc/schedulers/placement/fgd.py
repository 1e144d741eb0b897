"""FGD: fragmentation gradient descent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from alloc.errors import InstanceError
from alloc.schedulers.placement.fragmentation import Fragmentation, Shape, popular, shapes_of
from alloc.schedulers.placement.free_hosts import Counts, FreeHosts
from alloc.schedulers.placement.tasks import TaskRule
from alloc.units import MILLI
from alloc.workload import Configuration, TaskGroup

_RELEARN = 1.25
"""The mix is worked out again when so many times the tasks have been seen: few, early, and fewer
and fewer times later on."""


class Fgd(TaskRule):
    """Put each task where it adds the least to the expected GPU that is free but cannot be used.

    With F the fragmentation of a host (`alloc.schedulers.placement.fragmentation`), a host that
    goes from F to F' gets floor(100 / (1 + exp((F' - F) / 1000))) points (F in milli-GPU); a share
    is tried on every GPU. The first host with the most points wins, and on it the first such GPU;
    whole GPUs are the first free ones. Rounding down to whole points is part of the published
    rule, and matters: differences of a few hundredths of a GPU do not spread tasks over hosts.

    Parameters
    ----------
    skip
        Go on to the next job when one does not fit.
    mix
        Shapes and how often each occurs, or None: learn the mix from the jobs that have arrived.
    popularity
        The most frequent shapes that cover this part of all tasks form the mix.
    points
        Number of points; None: exact differences decide.
    ties
        ``first``: the first host with the most points, as published; ``random``: one of them drawn
        evenly.

    References
    ----------
    Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
    Gradient Descent", USENIX ATC 2023, section 4, and the authors' simulator (points, popularity
    of 0.95, ties to the first host). Departure: without a given mix it is learned on the way; in
    the paper it is that of the whole trace.
    """

    name = "fgd"
    information = "free capacity, the mix of task shapes"

    def __init__(
        self,
        *,
        skip: bool = False,
        mix: Mapping[Shape, float] | None = None,
        popularity: float = 0.95,
        points: int | None = 100,
        ties: Literal["first", "random"] = "first",
    ) -> None:
        super().__init__(skip=skip)
        if not 0 < popularity <= 1:
            raise InstanceError(
                f"popularity is {popularity:g}; it is a part of all tasks, above 0 up to 1."
            )
        if mix is not None and not any(count > 0 for count in mix.values()):
            raise InstanceError("mix counts no task; give shapes that occur, or None to learn it.")
        if ties not in ("first", "random"):
            raise InstanceError(f'ties is "{ties}"; it is "first" or "random".')
        self._given = mix is not None
        self._random_ties = self.draws = ties == "random"
        self._popularity = popularity
        self._points = points
        self._seen: Counter[Shape] = Counter()
        self._mix = dict(mix or {})
        self._learned = 0
        self._measure: Fragmentation | None = None
        self._types: tuple[str | None, ...] = ()

    def reset(self) -> None:
        """Forget everything; called before each simulation."""
        super().reset()
        self._seen.clear()
        self._learned = 0
        self._measure = None
        if not self._given:
            self._mix = {}

    def observe(self, configurations: Iterable[Configuration]) -> None:
        """Count the shapes of a job that has arrived."""
        if not self._given:
            self._seen.update(shapes_of(configurations))

    def pick(
        self, free: FreeHosts, group: TaskGroup, hosts: Counts, rng: np.random.Generator
    ) -> tuple[int, int | None]:
        """Return the host, and for a share the GPU, with the most points."""
        if not self._given and not self._seen:
            # Asked for a single placement, without a queue: this task is all that is known.
            self._seen.update(shapes_of((Configuration((group,), 1.0),)))
        measure = self._fragmentation(free)
        cpu, gpus = free.cpu[hosts], free.gpus[hosts]
        before = measure.of(hosts, cpu, gpus)
        if group.shares_gpu:
            after = measure.after_share(hosts, cpu - group.cpu_milli, gpus, group.gpu_milli)
            after[~free.holds(hosts, group)] = np.inf
            points = self._score(after - before[:, None])
            k = self._best(points.max(axis=1), rng)
            return int(hosts[k]), int(points[k].argmax())
        if group.gpu_milli:
            whole = gpus == MILLI
            gpus = np.where(whole & (whole.cumsum(axis=1) <= group.gpu_milli // MILLI), 0, gpus)
        after = measure.of(hosts, cpu - group.cpu_milli, gpus)
        return int(hosts[self._best(self._score(after - before), rng)]), None

    def _best(self, points: np.ndarray, rng: np.random.Generator) -> int:
        if not self._random_ties:
            return int(points.argmax())
        return int(rng.choice(np.flatnonzero(points == points.max())))

    def _score(self, growth: np.ndarray) -> np.ndarray:
        # Sums in different orders differ in the last digits, which must not break ties.
        growth = np.round(growth, 6)
        if self._points is None:
            return -growth
        scored: np.ndarray = np.floor(self._points / (1.0 + np.exp(growth / MILLI)))
        scored[np.isinf(growth)] = -1.0
        return scored

    def _fragmentation(self, free: FreeHosts) -> Fragmentation:
        """Return the measure for the mix known by now."""
        if not self._given and self._seen.total() >= _RELEARN * self._learned:
            self._learned = self._seen.total()
            self._mix = dict(self._seen)
            self._measure = None
        types = free.topology.gpu_types
        if self._measure is None or self._types != types:
            self._types = types
            self._measure = Fragmentation(types, popular(self._mix, self._popularity))
        return self._measure
