"""The instances of `benchmarks.online`: trace windows, elastic families, stored instances.

``tuned`` rows were looked at while the scheduler was made. ``held-out`` rows were run once it was
final; nothing was chosen by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from alloc.instances import generate_elastic, load, manifest
from alloc.instances.learning_worlds import FAMILIES, HELD_OUT_SEEDS, VALIDATION_SEEDS
from alloc.instances.readers.itp import itp_instance
from alloc.instances.readers.philly import philly_instance
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.state import Knowledge
from alloc.workload import Elasticity

WEEK_S = 604_800.0
SLOT_S = 1_200.0
"""Slot of DL2's simulations and of the weeks in docs/benchmarks.md, seconds."""
SHORT_JOBS = 250
"""Most jobs of a row in continuous time, and of a week of elastic jobs."""
SEEDS = 2
"""Instances of each elastic family in each set."""


@dataclass(frozen=True)
class Case:
    """A row of the table.

    Parameters
    ----------
    name
        Name of the row.
    group
        What it counts to.
    held_out
        Whether nothing was chosen by it.
    make
        Makes the instance from the folder of traces.
    knowledge, work_error
        What schedulers are told, as in `alloc.simulation.simulate`.
    seed
        Seed of the simulation.
    """

    name: str
    group: str
    held_out: bool
    make: Callable[[Path], Instance]
    knowledge: Knowledge = "exact"
    work_error: float = 0.0
    seed: int = 0


def cases(held_out: bool) -> list[Case]:
    """Return the rows of one set: those looked at while tuning, or those held out."""
    found = [case for case in (*_itp(), *_philly(), *_elastic_weeks()) if case.held_out == held_out]
    return [*found, *_families(held_out), *_stored(held_out), *_generated(held_out)]


def _itp() -> list[Case]:
    weeks = [
        # cluster, week, load, slots, held out; the first is in docs/benchmarks.md.
        ("cluster06", 3, None, SLOT_S, False),
        ("cluster03", 3, 0.85, SLOT_S, False),
        ("cluster02", 2, 1.1, SLOT_S, False),
        ("cluster06", 2, 0.85, None, False),
        ("cluster06", 5, 0.85, SLOT_S, True),
        ("cluster06", 6, 0.85, SLOT_S, True),
        ("cluster06", 7, 0.85, SLOT_S, True),
        ("cluster02", 0, 0.85, SLOT_S, True),
        ("cluster02", 6, 0.85, SLOT_S, True),
        ("cluster01", 4, 0.85, SLOT_S, True),
        ("cluster03", 4, 1.1, SLOT_S, True),
        ("cluster05", 0, 0.85, SLOT_S, True),
        ("cluster06", 4, 0.85, None, True),
        ("cluster06", 5, 0.85, None, True),
        ("cluster02", 8, 0.85, None, True),
    ]
    return [Case(_title(*week[:4]), "ITP", week[4], _Itp(*week[:4])) for week in weeks]


def _philly() -> list[Case]:
    weeks = [
        # virtual cluster, Monday, load, slot, held out; the first is in docs/benchmarks.md.
        ("6c71a0", "2017-10-09", None, SLOT_S, False),
        ("0e4a51", "2017-10-16", 0.85, SLOT_S, False),
        ("103959", "2017-11-06", 0.85, None, False),
        ("6c71a0", "2017-10-02", 0.85, SLOT_S, True),
        ("6c71a0", "2017-11-06", 0.85, SLOT_S, True),
        ("6c71a0", "2017-11-20", 1.1, SLOT_S, True),
        ("103959", "2017-10-30", 0.85, SLOT_S, True),
        ("103959", "2017-11-13", 0.85, SLOT_S, True),
        ("ee9e8c", "2017-10-23", 0.85, SLOT_S, True),
        ("0e4a51", "2017-11-06", 0.85, SLOT_S, True),
        ("7f04ca", "2017-10-23", 0.85, SLOT_S, True),
        ("ee9e8c", "2017-10-16", 0.85, None, True),
        ("6c71a0", "2017-11-27", 0.85, None, True),
    ]
    return [Case(_title(*week[:4]), "Philly", week[4], _Philly(*week[:4])) for week in weeks]


def _elastic_weeks() -> list[Case]:
    weeks: list[tuple[str, int, float, Elasticity, bool]] = [
        # cluster, week, load, elasticity, held out
        ("cluster06", 3, 0.85, "malleable", False),
        ("cluster06", 3, 0.85, "moldable", False),
        ("cluster06", 7, 0.85, "malleable", True),
        ("cluster06", 6, 1.1, "malleable", True),
        ("cluster02", 0, 0.85, "malleable", True),
        ("cluster06", 7, 0.85, "moldable", False),  # was held out until it was lost
    ]
    return [
        Case(
            f"{_title(*week[:3], SLOT_S)} {week[3]}",
            "ITP elastic",
            week[4],
            _ElasticWeek(*week[:4]),
        )
        for week in weeks
    ]


def _title(where: str, when: object, load_: float | None, slot_s: float | None) -> str:
    day = f"week {when}" if isinstance(when, int) else str(when)
    size = "" if load_ in (None, 0.85) else f" load {load_:g}"
    return f"{where} {day}{size}{'' if slot_s else ' continuous'}"


@dataclass(frozen=True)
class _Itp:
    cluster: str
    week: int
    load: float | None
    slot_s: float | None

    def __call__(self, traces: Path) -> Instance:
        path = traces / "microsoft-itp-2021" / "raw" / f"{self.cluster}.csv.gz"
        return itp_instance(
            path,
            cluster_gpus=112 if self.load is None else None,
            load=self.load,
            start_s=self.week * WEEK_S,
            length_s=WEEK_S,
            max_jobs=None if self.slot_s else SHORT_JOBS,
            slot_s=self.slot_s,
            name=f"{self.cluster}-{self.week}",
        )[0]


@dataclass(frozen=True)
class _ElasticWeek:
    """A week whose jobs have a model each, with ElasticFlow's tables of speeds."""

    cluster: str
    week: int
    load: float
    elasticity: Elasticity

    def __call__(self, traces: Path) -> Instance:
        return itp_instance(
            traces / "microsoft-itp-2021" / "elasticflow" / f"{self.cluster}.csv.gz",
            load=self.load,
            start_s=self.week * WEEK_S,
            length_s=WEEK_S,
            max_jobs=SHORT_JOBS,
            slot_s=SLOT_S,
            scaling=traces / "elasticflow" / "throughputs_A100",
            elasticity=self.elasticity,
            deadlines="none",
            name=f"{self.cluster}-{self.week}-{self.elasticity}",
        )[0]


@dataclass(frozen=True)
class _Philly:
    vc: str
    start: str
    load: float | None
    slot_s: float | None

    def __call__(self, traces: Path) -> Instance:
        path = traces / "microsoft-philly-2017" / "philly_jobs_pollux.csv.gz"
        return philly_instance(
            path,
            vc=self.vc,
            cluster_gpus=64 if self.load is None else None,
            load=self.load,
            start=self.start,
            length_s=WEEK_S,
            max_jobs=None if self.slot_s else SHORT_JOBS,
            slot_s=self.slot_s,
            name=f"{self.vc}-{self.start}",
        )[0]


def _families(held_out: bool) -> list[Case]:
    seeds = (HELD_OUT_SEEDS if held_out else VALIDATION_SEEDS)[:SEEDS]
    return [
        Case(
            f"{name} / {seed}",
            f"world {name}",
            held_out,
            _World(name, seed),
            "estimate" if family.work_error else "exact",
            family.work_error,
            seed,
        )
        for name, family in FAMILIES.items()
        for seed in seeds
    ]


@dataclass(frozen=True)
class _World:
    name: str
    seed: int

    def __call__(self, traces: Path) -> Instance:
        return FAMILIES[self.name].make(self.seed)


LOST = ("elastic-tiny/03", "elastic-small/08")
"""Stored instances that were held out until they were lost."""


def _stored(held_out: bool) -> list[Case]:
    return [
        Case(entry.id, f"stored {entry.family}", held_out, _Stored(entry.id))
        for entry in manifest()
        if entry.family.startswith("elastic-") and (entry.id not in LOST) == held_out
    ]


@dataclass(frozen=True)
class _Stored:
    name: str

    def __call__(self, traces: Path) -> Instance:
        return load(self.name)


VARIANTS: dict[str, dict[str, object]] = {
    "weights": {"weights": "classes"},
    "restarts": {"restart_cost_s": 300.0},
    "moldable": {"elasticity": "moldable"},
    "heavy-compute": {"compute_scale": 8.0, "arrivals": "bursty"},
}
"""Options of `generate_elastic` that no learning world has."""


def _generated(held_out: bool) -> list[Case]:
    first = 1_000 if held_out else 0
    return [
        Case(f"{name} / {seed}", f"generated {name}", held_out, _Generated(name, seed))
        for name in VARIANTS
        for seed in range(first, first + SEEDS)
    ]


@dataclass(frozen=True)
class _Generated:
    name: str
    seed: int

    def __call__(self, traces: Path) -> Instance:
        options: dict[str, object] = {
            "num_jobs": 60,
            "num_hosts": 12,
            "compute_scale": 4.0,
            "max_workers": 8,
            "max_ps": 8,
            **VARIANTS[self.name],
        }
        return generate_elastic(f"{self.name}-{self.seed}", seed=self.seed, **options)  # type: ignore[arg-type]
