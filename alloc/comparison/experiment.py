"""Running a comparison: every cell once, in parallel, stored as soon as it is done."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from os import PathLike, cpu_count
from typing import Any, Literal

from alloc.certificate import beats
from alloc.comparison.bounds import (
    BOUND_TOLERANCE,
    Bound,
    bound_key,
    pack_bound,
    solve_bound,
    stronger,
    unpack_bound,
)
from alloc.comparison.cells import Cell, Outcome, run_cell
from alloc.comparison.comparison import Comparison
from alloc.comparison.records import (
    Experiment,
    pack_experiment,
    pack_instance,
    pack_outcome,
    unpack_outcome,
)
from alloc.comparison.rows import best_outcomes, check_bound
from alloc.comparison.schedules import unpack_schedule
from alloc.comparison.settings import OPTIMUM, Entry, Settings, key_of
from alloc.comparison.store import Item, Store
from alloc.errors import InstanceError, worker_deaths
from alloc.parallel import Workers, workers
from alloc.problems.allocation.instance import Instance
from alloc.release import alloc_version
from alloc.schedulers.state import Knowledge, Scheduler
from alloc.simulation.information import require_knowledge


@dataclass(frozen=True)
class CellEvent:
    """What the progress callback is told, each time a piece of work is done.

    Parameters
    ----------
    kind
        ``bound`` or ``cell``.
    label
        What was done, for people.
    done, total
        Pieces done so far, this one included, and pieces in all.
    stored
        Whether it came from the store.
    error
        Why it failed, or None.
    """

    kind: Literal["bound", "cell"]
    label: str
    done: int
    total: int
    stored: bool
    error: str | None


Progress = Callable[[CellEvent], None]


def compare(
    instances: Iterable[Instance],
    schedulers: Iterable[str | Entry | Scheduler | Callable[..., Any]],
    *,
    seeds: Iterable[int] = (0,),
    knowledge: Knowledge = "exact",
    work_error: float = 0.0,
    speed_error: float = 0.0,
    objective: str = "weighted_jct",
    formulation: str = "malleable",
    backend: str = "auto",
    time_limit_s: float = 60.0,
    store: str | PathLike[str] | Store | None = None,
    jobs: int | None = None,
    parallel: str | None = None,
    progress: Progress | None = None,
    resume: bool = True,
) -> Comparison:
    """Run every scheduler on every instance with every seed, against the certified bound.

    Parameters
    ----------
    instances
        At least one, with different fingerprints.
    schedulers
        At least one: registered names, places such as ``./rule.py:MyRule``, entries with options,
        schedulers, classes of them made with their defaults, or plain functions of the state
        (`alloc.schedulers.functions.RuleScheduler`).
    seeds
        At least one. A seed decides the estimation errors and the draws of policies.
    knowledge, work_error, speed_error
        What every scheduler is told, see `Settings`.
    objective
        What the gap is about: the name of a cost of schedules, a weighted sum of some, such as
        ``weighted_jct + 10 makespan``, or ``value``, where jobs may be refused.
    formulation, backend, time_limit_s
        The solve for the bound of each instance, its time in seconds. It begins from the best
        schedule that was simulated, and improves it until the gap is closed or the time is over.
    store
        Where finished work is kept: path of an SQLite file, database URL, or an open store. In
        memory by default: then an interrupt loses it.
    jobs
        Processes at work, 1 or more; -1 for one on each core. By default 1, and of Dask and Ray
        all that there are. Only the decision times and solves that meet their time limit depend on
        it.
    parallel
        Where they are: ``loky`` (this machine), ``threading``, ``dask``, ``ray`` or another backend
        of joblib's; see `alloc.parallel.workers`. By default the one chosen with
        ``joblib.parallel_config``, else loky.
    progress
        Called after each piece of work.
    resume
        Whether to take finished work from the store; otherwise it is done again and replaced.

    Returns
    -------
    Comparison
        All rows, failures included.

    Raises
    ------
    InstanceError
        If something is missing, doubled, unknown or contradicts something else.
    UnsupportedFeatureError
        If a scheduler needs to know more of the jobs' work than the terms tell it.
    BackendUnavailableError
        If Dask or Ray is asked for and not installed.
    CertificateError
        If a simulated schedule is better than the proved bound: then the bound is false.
    StoreError
        If the store fails. What was stored before is kept.
    KeyboardInterrupt
        On Ctrl-C. What was stored before is kept, and the next run goes on from there.
    """
    settings = Settings(
        knowledge,
        work_error,
        speed_error,
        objective,
        formulation,
        backend,
        time_limit_s,
    )
    chosen = _distinct_instances(instances)
    entries = distinct_entries(schedulers)
    numbers = _distinct_seeds(seeds)
    # Refused here, and not row by row after all else has run.
    for entry in entries:
        require_knowledge(entry.build(), settings.knowledge)
    cells = [
        Cell(instance, entry, seed, settings)
        for instance in chosen
        for entry in entries
        for seed in numbers
    ]
    opened = nullcontext(store) if isinstance(store, Store) else closing(Store(store))
    with opened as kept:
        if resume and _is_done(kept, chosen, cells, settings):
            parallel, jobs = None, 1  # no cluster starts for nothing
        with workers(parallel, jobs, chosen) as crew, worker_deaths("compare"):
            experiment = _register(kept, chosen, entries, cells, settings)
            run = _Run(kept, crew, progress, resume, len(chosen) + len(cells))
            # The solves come last: each begins from the best schedule of its instance.
            outcomes = run.cells(cells)
            bounds = run.bounds(chosen, settings, cells, outcomes)
            return Comparison(experiment, {i.fingerprint: i for i in chosen}, bounds, outcomes)


def _is_done(
    store: Store, instances: Sequence[Instance], cells: Sequence[Cell], settings: Settings
) -> bool:
    """Return whether the store has every cell and every bound of an experiment."""
    keys = {*(cell.key for cell in cells), *(bound_key(i, settings) for i in instances)}
    stored = store.get(list(keys))
    return all(key in stored and stored[key].ok for key in keys)


class _Run:
    """One run of an experiment: what is in the store is taken, the rest is done and stored."""

    def __init__(
        self,
        store: Store,
        crew: Workers,
        progress: Progress | None,
        resume: bool,
        total: int,
    ) -> None:
        self._store = store
        self._crew = crew
        self._progress = progress
        self._resume = resume
        self._total = total
        self._done = 0

    def bounds(
        self,
        instances: Sequence[Instance],
        settings: Settings,
        cells: Sequence[Cell],
        outcomes: Mapping[str, Outcome],
    ) -> dict[str, Bound]:
        """Return the bound of each instance, by fingerprint, and the best schedule with it."""
        keys = {bound_key(instance, settings): instance for instance in instances}
        rows = [(c.key, c.instance.fingerprint, c.entry.label, c.seed) for c in cells]
        best = best_outcomes(rows, outcomes, settings.sense)
        found: dict[str, Bound] = {}
        stored: dict[str, Bound] = {}
        for key, item in self._stored(keys):
            bound = stored[key] = unpack_bound(item)
            start = best.get(bound.fingerprint)
            if start is not None and _begins_better(start[2], bound):
                continue
            found[bound.fingerprint] = bound
            self._report("bound", f"bound of {bound.instance}", bound.error, stored=True)
        todo = []
        for key, instance in keys.items():
            if instance.fingerprint not in found:
                start = best.get(instance.fingerprint)
                todo.append((key, instance, settings, None if start is None else start[2].schedule))
        with closing(self._crew.run(_solve, todo)) as solves:
            for key, solved in solves:
                bound = stronger(solved, stored.get(key))
                self._store.put(pack_bound(key, bound))
                # The solver turns Ctrl-C into a result; to the user it still means: stop all.
                if bound.interrupted:
                    raise KeyboardInterrupt
                found[bound.fingerprint] = bound
                self._report("bound", f"bound of {bound.instance}", bound.error)
        for cell in cells:
            if cell.key in outcomes:
                check_bound(found[cell.instance.fingerprint], cell.label, outcomes[cell.key])
        return found

    def cells(self, cells: Sequence[Cell]) -> dict[str, Outcome]:
        """Return the outcome of each cell, by key."""
        by_key = {cell.key: cell for cell in cells}
        found: dict[str, Outcome] = {}
        for key, item in self._stored(by_key):
            found[key] = unpack_outcome(item)
            self._report("cell", by_key[key].label, None, stored=True)
        todo = [
            # The instance by itself: it is sent once, and not with every cell.
            (cell.instance, cell.entry, cell.seed, cell.settings)
            for key, cell in by_key.items()
            if key not in found
        ]
        with closing(self._crew.run(_simulate, todo)) as done:
            for outcome in done:
                cell = by_key[outcome.cell_key]
                self._store.put(pack_outcome(cell, outcome))
                found[cell.key] = outcome
                self._report("cell", cell.label, outcome.error)
        return found

    def _stored(self, keys: Iterable[str]) -> list[tuple[str, Item]]:
        """Return what the store has of the given work, in the given order; failures not."""
        if not self._resume:
            return []
        wanted = list(keys)
        items = self._store.get(wanted, blobs=True)
        return [(key, items[key]) for key in wanted if key in items and items[key].ok]

    def _report(
        self, kind: Literal["bound", "cell"], label: str, error: str | None, stored: bool = False
    ) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(CellEvent(kind, label, self._done, self._total, stored, error))


def _begins_better(outcome: Outcome, bound: Bound) -> bool:
    """Return whether a simulated schedule gives a stored solve something new to begin from."""
    certificate = bound.certificate
    if certificate is None or certificate.status in ("optimal", "infeasible"):
        return False
    known = certificate.objective
    # Above rounding: what is simulated again is the same to the last digit, the solve is not.
    return known is None or beats(
        outcome.objective, known, certificate.sense, tolerance=BOUND_TOLERANCE
    )


def _simulate(instance: Instance, entry: Entry, seed: int, settings: Settings) -> Outcome:
    return run_cell(Cell(instance, entry, seed, settings))


def _solve(
    key: str, instance: Instance, settings: Settings, start: bytes | None
) -> tuple[str, Bound]:
    schedule = None if start is None else unpack_schedule(start)
    return key, solve_bound(instance, settings, schedule)


def _distinct_instances(instances: Iterable[Instance]) -> list[Instance]:
    chosen: dict[str, Instance] = {}
    for instance in instances:
        if instance.fingerprint in chosen:
            raise InstanceError(
                f'comparison: instance "{instance.name}" is given twice; give each one once.'
            )
        if instance.name in (other.name for other in chosen.values()):
            raise InstanceError(
                f'comparison: two instances are called "{instance.name}"; tables and files go by '
                "the name, so rename one."
            )
        chosen[instance.fingerprint] = instance
    if not chosen:
        raise InstanceError("comparison: no instances; give at least one.")
    return list(chosen.values())


def distinct_entries(
    schedulers: Iterable[str | Entry | Scheduler | Callable[..., Any]],
) -> list[Entry]:
    """Return schedulers as entries of a comparison, each of a name of its own.

    Parameters
    ----------
    schedulers
        Names, entries, schedulers, or functions.

    Raises
    ------
    InstanceError
        If there is none, one is unknown or given twice, or its name is taken.
    """
    entries: dict[str, Entry] = {}
    for value in schedulers:
        entry = Entry.of(value)
        if entry.name == OPTIMUM:
            raise InstanceError(
                f'comparison: no scheduler may be called "{OPTIMUM}", which is the row of the '
                "solved schedule; rename it."
            )
        if entry.label in entries:
            raise InstanceError(
                f'comparison: scheduler "{entry.label}" is given twice; give each one once, or '
                "two names to two policies."
            )
        # A misspelled name is found here and not after an hour of solving.
        entry.build()
        entries[entry.label] = entry
    if not entries:
        raise InstanceError("comparison: no schedulers; give at least one.")
    return list(entries.values())


def _distinct_seeds(seeds: Iterable[int]) -> list[int]:
    chosen = list(dict.fromkeys(seeds))
    if not chosen:
        raise InstanceError("comparison: no seeds; give at least one, for example 0.")
    if min(chosen) < 0:
        raise InstanceError(f"comparison: seed {min(chosen)} is negative; give 0 or more.")
    return chosen


def _register(
    store: Store,
    instances: Sequence[Instance],
    entries: Sequence[Entry],
    cells: Sequence[Cell],
    settings: Settings,
) -> Experiment:
    """Store what is to be done, so that even an unfinished comparison can be read back."""
    bound_keys = {i.fingerprint: bound_key(i, settings) for i in instances}
    cell_keys = [
        (cell.key, cell.instance.fingerprint, cell.entry.label, cell.seed) for cell in cells
    ]
    experiment = Experiment(
        key_of(kind="experiment", cells=[key for key, *_ in cell_keys], bounds=bound_keys),
        settings,
        tuple(bound_keys),
        tuple(entry.label for entry in entries),
        tuple(dict.fromkeys(cell.seed for cell in cells)),
        bound_keys,
        tuple(cell_keys),
        environment(),
    )
    for instance in instances:
        store.put(pack_instance(instance))
    store.put(pack_experiment(experiment))
    return experiment


def environment() -> dict[str, str]:
    """Return what the numbers depend on besides the input: versions and hardware."""
    found = {
        "alloc": alloc_version(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(cpu_count()),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    for package in ("numpy", "scipy", "networkx", "highspy", "ortools", "pyomo"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
