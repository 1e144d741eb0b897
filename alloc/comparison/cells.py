"""A cell of a comparison: one scheduler on one instance with one seed."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from alloc.comparison.measures import measure
from alloc.comparison.schedules import pack_schedule
from alloc.comparison.settings import Entry, Settings, key_of
from alloc.errors import AllocError
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.release import alloc_version

_MEANING = 4
"""Raised when a scheduler's name or default comes to mean something else within a version, or what
is measured grows: work stored under the old meaning must not stand in for the new. 2: `srtf` goes
by time. 3: late jobs that may not be refused are counted by themselves. 4: jobs that may be refused
and do not complete have no completion time; `elasticflow` keeps its shares."""


@dataclass(frozen=True)
class Cell:
    """One simulation of a comparison.

    Parameters
    ----------
    instance, entry, seed
        What is simulated: the instance, the scheduler, the seed of all chance.
    settings
        The terms.
    """

    instance: Instance
    entry: Entry
    seed: int
    settings: Settings

    @cached_property
    def key(self) -> str:
        """Key in a store: everything that the outcome depends on."""
        return key_of(
            kind="cell",
            fingerprint=self.instance.fingerprint,
            scheduler=self.entry.name,
            options=self.entry.key_options,
            seed=self.seed,
            knowledge=self.settings.knowledge,
            work_error=self.settings.work_error,
            speed_error=self.settings.speed_error,
            objective=self.settings.objective,
            version=alloc_version(),
            meaning=_MEANING,
        )

    @property
    def label(self) -> str:
        """Name for people."""
        return f"{self.entry.label} on {self.instance.name}, seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What came of a cell.

    Parameters
    ----------
    cell_key
        Key of the cell.
    information
        What the scheduler uses, in its own words.
    objective
        Value of the objective, recomputed from the schedule; infinite when a job never completes.
    metrics
        Measures by name, see `measure`, and the decision times.
    notes
        Counters of the simulator and the scheduler, for example restarts or fallbacks.
    seconds
        Wall time of the simulation, seconds.
    error
        Why it failed, in one sentence, or None.
    schedule
        What was run, packed; None when it failed.
    """

    cell_key: str
    information: str = ""
    objective: float = math.inf
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None
    schedule: bytes | None = None


def generator_for(instance: Instance, seed: int) -> np.random.Generator:
    """Return the random generator of a seed on an instance.

    It is the same for every scheduler, so that all of them meet the same estimation errors, and
    another one for every instance.

    Parameters
    ----------
    instance
        The instance.
    seed
        Seed of the cell, 0 or more.
    """
    return np.random.default_rng([seed, int(instance.fingerprint[:16], 16)])


def run_cell(cell: Cell) -> Outcome:
    """Simulate a cell. A failure is an outcome too: it must not take the others down."""
    started = time.perf_counter()
    try:
        return _simulate(cell, started)
    except AllocError as error:
        text = f"{type(error).__name__}: {error}"
    except Exception as error:
        # A scheduler may be anybody's code, and the other cells are worth having whatever it does.
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = (
            f"{type(error).__name__}: {error} (in {where.name}, line {where.lineno}); "
            "the scheduler or the simulator failed unexpectedly."
        )
    return Outcome(cell.key, seconds=time.perf_counter() - started, error=text)


def _simulate(cell: Cell, started: float) -> Outcome:
    from alloc.simulation import simulate

    scheduler = cell.entry.build()
    # Checked from end to end: against a bound only a schedule counts that keeps every rule.
    found = simulate(
        cell.instance,
        scheduler,
        knowledge=cell.settings.knowledge,
        work_error=cell.settings.work_error,
        speed_error=cell.settings.speed_error,
        rng=generator_for(cell.instance, cell.seed),
    )
    return Outcome(
        cell.key,
        scheduler.information,
        objective(cell.settings.objective).evaluate(cell.instance, found.schedule),
        measure(found),
        dict(found.notes),
        time.perf_counter() - started,
        None,
        pack_schedule(found.schedule),
    )
