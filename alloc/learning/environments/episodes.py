"""Episodes: where the instances of an environment come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alloc.errors import InstanceError
from alloc.instance import Instance
from alloc.instances import generate_elastic
from alloc.instances.dl2 import JOB_TYPES

EpisodeSource = Instance | Sequence[Instance] | Callable[[np.random.Generator], Instance]
"""One instance, several that are taken in turn, or a function that draws one."""


@dataclass(frozen=True)
class ElasticEpisodes:
    """Draws instances of DL2's world: the same cluster, other jobs each time.

    Parameters
    ----------
    num_jobs, num_hosts, arrivals, arrivals_per_slot, max_workers, max_ps, table, models
        As in `alloc.instances.generate_elastic`.
    run_slots
        As there; shorter by default, for short episodes.
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


class Episodes:
    """Hands out the instances of a source one by one.

    Parameters
    ----------
    source
        One instance, several, or a function. Several are taken in turn.
    first, stride
        Of several, the first to hand out and the way to the next: so that environments side by side
        share a list.
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
