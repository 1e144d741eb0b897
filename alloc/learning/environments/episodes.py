"""Episodes: where the instances of an environment come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from alloc.errors import InstanceError
from alloc.instances import generate_elastic
from alloc.instances.arrivals import DAY_S
from alloc.instances.dl2 import JOB_TYPES
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, Topology
from alloc.topology.fabrics import leaf_spine
from alloc.units import require_count, require_positive
from alloc.workload import Job, rigid_gang

EpisodeSource = Instance | Sequence[Instance] | Callable[[np.random.Generator], Instance]
"""One instance, several that are taken in turn, or a function that draws one."""


@dataclass(frozen=True)
class ElasticEpisodes:
    """Draws instances of DL2's world: the same cluster, other jobs each time.

    The fields are as in `alloc.instances.generate_elastic`; `run_slots` is shorter by default, for
    short episodes.
    """

    num_jobs: int = 40
    num_hosts: int = 48
    arrivals: str = "poisson"
    arrivals_per_slot: float = 3.0
    max_workers: int = 16
    max_ps: int = 16
    run_slots: tuple[float, float] = (1.0, 10.0)
    table: str = "fit"
    models: tuple[str, ...] = tuple(JOB_TYPES)

    def __call__(self, rng: np.random.Generator) -> Instance:
        """Return the instance of an episode."""
        seed = int(rng.integers(2**31))
        return generate_elastic(
            f"elastic episode {seed}",
            num_jobs=self.num_jobs,
            num_hosts=self.num_hosts,
            arrivals=self.arrivals,
            arrivals_per_slot=self.arrivals_per_slot,
            max_workers=self.max_workers,
            max_ps=self.max_ps,
            run_slots=self.run_slots,
            table=self.table,
            models=self.models,
            seed=seed,
        )


@dataclass(frozen=True)
class GangEpisodes:
    """Draws streams of rigid gangs on leaves of hosts: the same cluster, other gangs each time.

    Arrivals are Poisson; sizes are powers of two, small ones more common; durations are log-normal,
    cut off at a day.

    Parameters
    ----------
    num_jobs, max_gpus
        Gangs of an episode, and GPUs of the largest, a power of two.
    leaves, hosts_per_leaf, gpus_per_host
        The cluster.
    median_s, sigma
        Median of the durations, seconds, and standard deviation of their logarithm.
    load
        GPU time asked for per GPU time there is, more than 0.
    slot_s
        Length of a slot, seconds, or None for continuous time.
    """

    num_jobs: int = 60
    leaves: int = 8
    hosts_per_leaf: int = 2
    gpus_per_host: int = 8
    max_gpus: int = 16
    median_s: float = 1800.0
    sigma: float = 1.2
    load: float = 0.95
    slot_s: float | None = None

    def __post_init__(self) -> None:
        require_count(self.num_jobs, "gang episodes", "num_jobs", least=1)
        require_positive(self.load, "gang episodes", "load")
        if self.max_gpus < 1 or self.max_gpus & (self.max_gpus - 1):
            raise InstanceError(
                f"gang episodes: max_gpus is {self.max_gpus}; sizes are powers of two, so give "
                "one, such as 16."
            )

    def __call__(self, rng: np.random.Generator) -> Instance:
        """Return the instance of an episode."""
        sizes = 2 ** np.arange(self.max_gpus.bit_length())
        chances = 1.0 / np.sqrt(sizes)
        gpus = rng.choice(sizes, size=self.num_jobs, p=chances / chances.sum())
        lengths_s = rng.lognormal(np.log(self.median_s), self.sigma, self.num_jobs).clip(
            60.0, DAY_S
        )
        topology = _leaves(self.leaves, self.hosts_per_leaf, self.gpus_per_host)
        span_s = float(gpus @ lengths_s) / (self.load * topology.num_gpus)
        arrivals_s = np.sort(rng.uniform(0.0, span_s, self.num_jobs))
        gangs = {int(size): (rigid_gang(int(size), cpu_milli_per_gpu=4000),) for size in sizes}
        jobs = tuple(
            Job(f"gang-{j}", float(a), float(s), gangs[int(g)], elasticity="rigid")
            for j, (a, s, g) in enumerate(zip(arrivals_s, lengths_s, gpus, strict=True))
        )
        return Instance("gang episode", topology, jobs, slot_s=self.slot_s)


@cache
def _leaves(leaves: int, hosts_per_leaf: int, gpus_per_host: int) -> Topology:
    """Return a cluster of leaves below one spine; the same object each time."""
    host = HostType(f"{gpus_per_host}-gpu", gpus_per_host, "generic", 8000 * gpus_per_host)
    return leaf_spine(host, leaves, hosts_per_leaf, 1, port_gb_per_s=50.0)


class Episodes:
    """Hands out the instances of a source one by one.

    Several are taken in turn: `first` is the first to hand out and `stride` the way to the next, so
    that environments side by side share a list.
    """

    def __init__(self, source: EpisodeSource, first: int = 0, stride: int = 1) -> None:
        if isinstance(source, Instance):
            source = (source,)
        self._draw: Callable[[np.random.Generator], Instance] | None = None
        self._given: tuple[Instance, ...] = ()
        if callable(source):
            self._draw = source
        else:
            self._given = tuple(source)
            wrong = next((item for item in self._given if not isinstance(item, Instance)), None)
            if not self._given or wrong is not None:
                found = "nothing" if wrong is None else type(wrong).__name__
                raise InstanceError(
                    f"episodes: the source holds {found}; give an Instance, a sequence of at least "
                    "one, or a function of a random generator that returns one."
                )
        self._first, self._stride = first, stride
        self._next = first

    def restart(self) -> None:
        """Begin with the first again."""
        self._next = self._first

    def next(self, rng: np.random.Generator) -> Instance:
        """Return the instance of the next episode."""
        if self._draw is None:
            instance = self._given[self._next % len(self._given)]
            self._next += self._stride
            return instance
        drawn: Any = self._draw(rng)
        if not isinstance(drawn, Instance):
            raise InstanceError(
                f"episodes: the source drew {type(drawn).__name__}; let it return an Instance."
            )
        return drawn
