"""Running a study: every cell once, the quick ones first, stored as soon as it is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import joblib

from alloc.comparison import Bound, Cell, Store
from alloc.comparison.bounds import bound_key, pack_bound, solve_bound, unpack_bound
from alloc.comparison.cells import Outcome, run_cell
from alloc.comparison.records import pack_outcome, unpack_outcome
from alloc.comparison.rows import check_bound
from alloc.problems.allocation.instance import Instance
from benchmarks.studies.contenders import Contender
from benchmarks.studies.factors import Level

Say = Callable[[str], None]


@dataclass(frozen=True)
class Score:
    """What a contender did on one instance.

    Parameters
    ----------
    jct_slots
        Mean completion time, slots; infinite when a job never completes.
    decision_ms
        Median wall time of a decision, milliseconds; NaN when it failed.
    error
        Why there is no number, in one sentence, or None.
    information
        What it says it uses.
    """

    jct_slots: float
    decision_ms: float
    error: str | None = None
    information: str = ""


@dataclass
class Results:
    """What is known, by world, contender and seed.

    Parameters
    ----------
    scores
        ``(world, contender, seed)`` to score. A world is one level, or several that share it.
    bounds
        ``(world, seed)`` to the proved mean completion time, slots, or None where nothing useful
        was proved; worlds without a bound are not there.
    """

    scores: dict[tuple[str, str, int], Score] = field(default_factory=dict)
    bounds: dict[tuple[str, int], float | None] = field(default_factory=dict)


def place_of(level: Level) -> str:
    """Return what a level's results go by: levels with the same world and terms share them."""
    return f"{level.world.name}, speeds within {level.speed_error:g}"


@dataclass(frozen=True)
class _Task:
    place: str
    seed: int
    contender: Contender
    cell: Cell


def run_study(
    levels: Sequence[Level],
    contenders: Sequence[Contender],
    seeds: int,
    store: Store,
    *,
    exact_seeds: int | None = None,
    jobs: int = 1,
    stored_only: bool = False,
    say: Say = print,
) -> Results:
    """Run what the store does not have yet, and return everything that is known.

    Parameters
    ----------
    levels, contenders, seeds
        What: every contender on every level with seeds 0 to ``seeds - 1``.
    store
        Where finished work is kept. An interrupted study goes on from there.
    exact_seeds
        Seeds of the exact rounds, which cost more than all others together; by default `seeds`.
    jobs
        Processes.
    stored_only
        Run nothing: return what the store has.
    say
        Told of progress.
    """
    places = list({place_of(level): level for level in levels}.items())
    instances = {
        (place, seed): level.make(seed) for place, level in places for seed in range(seeds)
    }
    results = Results()
    proved = _bounds(places, instances, seeds, store, stored_only, say)
    results.bounds = {
        key: None if bound.value is None else _slots(instances[key], bound.value)
        for key, bound in proved.items()
    }
    tasks = [
        _Task(place, seed, contender, Cell(instances[place, seed], contender.entry, 0, terms))
        # The costly ones last, and seed by seed: whenever it is cut, what is there is even.
        for exact in (False, True)
        for seed in range(seeds)
        for place, level in places
        for terms in (level.settings,)
        for contender in contenders
        if (contender.role == "exact") == exact
        and not (exact and exact_seeds is not None and seed >= exact_seeds)
    ]
    by_key = {task.cell.key: task for task in tasks}
    for key, outcome in _outcomes(by_key, store, jobs, stored_only, say):
        task = by_key[key]
        if (bound := proved.get((task.place, task.seed))) is not None:
            # A schedule below a proved bound would make every number here worthless.
            check_bound(bound, task.cell.label, outcome)
        results.scores[task.place, task.contender.label, task.seed] = Score(
            _slots(task.cell.instance, outcome.objective),
            1e3 * outcome.metrics.get("median_decision_s", math.nan),
            outcome.error,
            outcome.information,
        )
    return results


def _slots(instance: Instance, objective: float) -> float:
    """Return the mean completion time of a weighted sum of completion times, slots."""
    assert instance.slot_s is not None
    return objective / (sum(job.weight for job in instance.jobs) * instance.slot_s)


def _bounds(
    places: Sequence[tuple[str, Level]],
    instances: dict[tuple[str, int], Instance],
    seeds: int,
    store: Store,
    stored_only: bool,
    say: Say,
) -> dict[tuple[str, int], Bound]:
    found = {}
    for place, level in places:
        for seed in range(seeds if level.certified else 0):
            instance = instances[place, seed]
            key = bound_key(instance, level.settings)
            item = store.get([key], blobs=True).get(key)
            if item is not None and item.ok:
                found[place, seed] = unpack_bound(item)
            elif not stored_only:
                bound = solve_bound(instance, level.settings)
                store.put(pack_bound(key, bound))
                if bound.interrupted:
                    raise KeyboardInterrupt
                found[place, seed] = bound
                say(f"bound of {instance.name}: {bound.error or bound.value}")
    return found


def _outcomes(
    by_key: dict[str, _Task], store: Store, jobs: int, stored_only: bool, say: Say
) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of every cell, those in the store first."""
    items = store.get(by_key)
    known = {key: item for key, item in items.items() if item.ok}
    for key, item in known.items():
        yield key, unpack_outcome(item)
    todo = [] if stored_only else [key for key in by_key if key not in known]
    if stored_only:
        for key in items.keys() - known.keys():
            yield key, unpack_outcome(items[key])
    say(f"{len(known)} of {len(by_key)} simulations are stored, {len(todo)} to run")
    calls = (joblib.delayed(run_cell)(by_key[key].cell) for key in todo)
    running = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(calls)
    for done, outcome in enumerate(running, 1):
        store.put(pack_outcome(by_key[outcome.cell_key].cell, outcome))
        if outcome.error is not None:
            say(f"{by_key[outcome.cell_key].cell.label}: {outcome.error}")
        if done % 50 == 0 or done == len(todo):
            say(f"{done} of {len(todo)} simulations run")
        yield outcome.cell_key, outcome
