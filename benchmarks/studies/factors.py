"""The factors of the generalisation study: each level changes one thing of one starting world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from alloc.comparison import Settings
from alloc.instances.learning_worlds import (
    AUDIT,
    BASE,
    FAMILIES,
    HELD_OUT_SEEDS,
    TINY,
    World,
)
from alloc.problems.allocation.instance import Instance

START = replace(BASE, name="start", num_jobs=24, num_hosts=6)
"""The world that every level but the certified ones changes: `BASE` with 24 jobs on 6 hosts.

Smaller than what policies were trained on, so that ten seeds of everything fit into minutes; the
load and the types are those of training.
"""
BOUND_S = 8.0
"""Wall time for the certified bound of one instance, seconds."""


@dataclass(frozen=True)
class Level:
    """One point of a factor.

    Parameters
    ----------
    factor, label
        Names for people: of the factor, and of this point on it.
    world
        Makes the instances.
    speed_error
        Largest relative error of the speeds that schedulers are told, 0 or more.
    certified
        Whether the certified bound is cheap enough to be proved here.
    """

    factor: str
    label: str
    world: World
    speed_error: float = 0.0
    certified: bool = False

    @property
    def key(self) -> str:
        """Name in files: factor and label."""
        return f"{self.factor}: {self.label}"

    @property
    def settings(self) -> Settings:
        """The terms of every comparison at this level."""
        inexact = self.speed_error > 0 or self.world.work_error > 0
        return Settings(
            knowledge="estimate" if inexact else "exact",
            work_error=self.world.work_error,
            speed_error=self.speed_error,
            time_limit_s=BOUND_S,
        )

    def make(self, seed: int) -> Instance:
        """Return the instance of a seed of the study: 0, 1, ...; none was seen in training."""
        return self.world.make(HELD_OUT_SEEDS[seed])


def _start(**changes: object) -> World:
    return replace(START, **changes)  # type: ignore[arg-type]


def _like(family: str) -> World:
    """Return a family of the held-out worlds at the size of this study."""
    return replace(FAMILIES[family], num_jobs=START.num_jobs, num_hosts=START.num_hosts)


LEVELS: tuple[Level, ...] = (
    Level("load", "0.35", _start(name="load 0.35", load=0.35)),
    Level("load", "0.6", START),
    Level("load", "0.9", _start(name="load 0.9", load=0.9)),
    Level("load", "1.5", _start(name="load 1.5", load=1.5)),
    Level("cluster size", "3 hosts, 12 jobs", START.times(0.5)),
    Level("cluster size", "6 hosts, 24 jobs", START),
    Level("cluster size", "12 hosts, 48 jobs", START.times(2)),
    Level("cluster size", "24 hosts, 96 jobs", START.times(4)),
    Level("jobs x4, same hosts", "24 jobs, load 0.6", START),
    Level("jobs x4, same hosts", "96 jobs, load 1.2", _start(name="crowd", num_jobs=96, load=1.2)),
    Level("job mix", "even", START),
    Level("job mix", "70 % without GPU", _like("cpu-jobs")),
    Level("job mix", "70 % lack PSs", _like("ps-hungry")),
    Level("estimation error", "0 %", START),
    *(
        Level(
            "estimation error",
            f"{percent} %",
            _start(name=f"error-{percent}", work_error=percent / 100),
        )
        for percent in (10, 20, 30, 40)
    ),
    Level("estimation error", "20 %, speeds too", _like("error-20"), speed_error=0.2),
    Level("job types", "trained models", START),
    Level("job types", "heavier types", _like("heavier-types")),
    Level("job types", "unseen models", _like("unseen-types")),
    Level("arrivals", "Poisson", START),
    Level("arrivals", "uniform", _like("uniform")),
    Level("arrivals", "bursty", _like("bursty")),
    Level("arrivals", "diurnal", _like("diurnal")),
    Level("certified", "8 jobs, 3 hosts", replace(TINY, name="certified tiny"), certified=True),
    Level(
        "certified",
        "6 jobs, 2 hosts, load 1.2",
        replace(AUDIT, name="certified crowd"),
        certified=True,
    ),
)
"""Every level, by factor. The starting world stands in each factor, and is run once."""

QUICK_LEVELS: tuple[Level, ...] = (
    Level("load", "0.6", replace(TINY, name="quick 0.6")),
    Level("load", "1.2", replace(TINY, name="quick 1.2", load=1.2)),
    Level("estimation error", "0 %", replace(TINY, name="quick 0.6")),
    Level("estimation error", "40 %", replace(TINY, name="quick error", work_error=0.4)),
    Level("certified", "6 jobs, 2 hosts, load 1.2", AUDIT, certified=True),
)
"""The levels of a smoke test."""


def by_factor(levels: tuple[Level, ...]) -> Mapping[str, tuple[Level, ...]]:
    """Return the levels of each factor, in order."""
    found: dict[str, tuple[Level, ...]] = {}
    for level in levels:
        found[level.factor] = (*found.get(level.factor, ()), level)
    return found
