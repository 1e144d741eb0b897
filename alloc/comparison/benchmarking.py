"""Runs over the library of instances: solvers and schedulers beside what is known of the optima."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, Literal

from alloc.certificate import OPTIMALITY_GAP, Certificate
from alloc.comparison.cells import Cell, run_cell
from alloc.comparison.settings import Entry as SchedulerEntry
from alloc.comparison.settings import Settings, key_of
from alloc.comparison.store import Item, Store
from alloc.errors import AllocError, CertificateError, InstanceError, nearest, worker_deaths
from alloc.families import FAMILIES
from alloc.instances.catalogue import ALLOC, Bound, Entry
from alloc.instances.stored import load_problem
from alloc.problems.allocation.instance import Instance
from alloc.release import alloc_version
from alloc.result import Limits
from alloc.schedulers.placement.policy import PlacementPolicy
from alloc.schedulers.placement.queue import place_queue

_MEANING = 1
"""Raised when what is stored of a run comes to mean something else."""
_SLOWER = 2.0
"""A limit of so many times what the table's solve took is time enough on another machine; with less
a worse answer is no regression."""
_WORSE = 1e-6
"""Relative difference from the best known value that counts, as for a proved optimum."""

Note = Literal[
    "",
    "better value",
    "better bound",
    "better value and bound",
    "better proof",
    "regression",
    "contradiction",
]


@dataclass(frozen=True)
class Contender:
    """What runs over the instances.

    Parameters
    ----------
    name
        Name of a method or backend of `alloc.solve`, or of a scheduler.
    is_scheduler
        Which of the two it is.
    """

    name: str
    is_scheduler: bool = False

    def takes(self, entry: Entry) -> bool:
        """Return whether it answers problems of that formulation.

        Parameters
        ----------
        entry
            The instance.
        """
        if self.is_scheduler and entry.formulation == "placement":
            return self._places
        if self.is_scheduler:
            return entry.formulation == "malleable"
        family = FAMILIES[entry.formulation]
        if self.name in family.methods:
            return True
        # The models of jobs over time are of slots.
        return not _is_continuous(entry) and self.name in _backends_of(family.models)

    @cached_property
    def _places(self) -> bool:
        from alloc.schedulers import make_scheduler

        return isinstance(make_scheduler(self.name), PlacementPolicy)

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """What a scheduler's decisions depend on beside its name, as the content of its file."""
        return SchedulerEntry.of(self.name).key_options if self.is_scheduler else {}


def _is_continuous(entry: Entry) -> bool:
    """Return whether an entry is of jobs over time without slots."""
    return entry.formulation == "malleable" and "slots" not in entry.size


def _asked(entry: Entry) -> str:
    return f"{entry.formulation}{' in continuous time' if _is_continuous(entry) else ''}"


def _backends_of(models: Sequence[str]) -> tuple[str, ...]:
    names = {"arrays": "highs", "pyomo": "pyomo", "cpsat": "cpsat"}
    return tuple(names[model] for model in models)


@dataclass(frozen=True)
class Run:
    """One contender on one instance with one seed.

    Parameters
    ----------
    entry
        The instance, and what is known of it.
    contender
        Who answers.
    limits
        Limits of a solve, its seed included; of a scheduler the seed alone.
    """

    entry: Entry
    contender: Contender
    limits: Limits

    @cached_property
    def key(self) -> str:
        """Key in a store: everything that the outcome depends on."""
        limits = {} if self.contender.is_scheduler else dataclasses.asdict(self.limits)
        return key_of(
            kind="bench",
            fingerprint=self.entry.fingerprint,
            formulation=self.entry.formulation,
            objective=self.entry.objective,
            contender=dataclasses.astuple(self.contender),
            options=self.contender.options,
            limits=limits,
            seed=self.limits.seed,
            version=alloc_version(),
            meaning=_MEANING,
        )

    @property
    def label(self) -> str:
        """Name for people."""
        return f"{self.contender.name} on {self.entry.id}, seed {self.limits.seed}"


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Parameters
    ----------
    run
        The run.
    certificate
        What is claimed about the answer, or None when it failed.
    error
        Why it failed, in one sentence, or None.
    """

    run: Run
    certificate: Certificate | None = None
    error: str | None = None

    @property
    def value(self) -> float | None:
        """Value of the answer, or None without one."""
        return None if self.certificate is None else self.certificate.objective

    @property
    def solved(self) -> bool:
        """Whether the answer is proved to be within the gap that was asked for."""
        found = None if self.certificate is None else self.certificate.gap
        return found is not None and found <= max(self.run.limits.gap, OPTIMALITY_GAP)

    @property
    def behind(self) -> float | None:
        """How much worse than the best known value the answer is, relative; less than 0: better."""
        best = self.run.entry.best
        if best is None or self.value is None:
            return None
        worse = (
            self.value - best.value if self.run.entry.sense == "min" else best.value - self.value
        )
        return 0.0 if worse == 0 else worse / abs(best.value) if best.value else math.inf * worse

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it; the solver makes an answer of that."""
        return self.certificate is not None and self.certificate.limit == "interrupt"

    @property
    def note(self) -> Note:
        """What is new: better than the table, or worse than what the same solver has shown."""
        if self.certificate is None:
            return ""
        entry = self.run.entry
        try:
            after = entry.improved(self.certificate, datetime.date.min)  # only told, not kept
        except CertificateError:
            return "contradiction"
        value, bound = _moved(entry.best, after.best), _moved(entry.bound, after.bound)
        if value and bound:
            return "better value and bound"
        if value or bound:
            return "better value" if value else "better bound"
        if self._is_worse_than_before():
            return "regression"
        return "better proof" if after != entry else ""

    def _is_worse_than_before(self) -> bool:
        """Return whether the same solver did better before in less time than it has had now.

        What others say of the time that they took is not held against anybody.
        """
        entry, made = self.run.entry, self.certificate
        if made is None or self.run.contender.is_scheduler:
            return False

        def fell_behind(known: Bound | None, now: float | None) -> bool:
            if known is None or (known.who, known.backend) != (ALLOC, made.backend):
                return False
            if known.seconds * _SLOWER > self.run.limits.seconds:
                return False
            return now is None or abs(now - known.value) > _allowed(self.run) * abs(known.value)

        # Neither is better than the table here, so what differs is worse.
        if fell_behind(entry.best, self.value):
            return True
        return entry.proved and not self.solved and fell_behind(entry.bound, made.bound)


def learned(
    outcomes: Iterable[Outcome], date: datetime.date
) -> tuple[dict[str, Entry], dict[str, str]]:
    """Return what is known better now, by id, and what cannot all be true.

    Of an instance whose answers contradict the table or each other nothing counts as better.

    Parameters
    ----------
    outcomes
        What came of the runs.
    date
        Day of the runs.
    """
    before: dict[str, Entry] = {}
    after: dict[str, Entry] = {}
    contradictions: dict[str, str] = {}
    for outcome in outcomes:
        entry = outcome.run.entry
        before[entry.id] = entry
        if outcome.certificate is None:
            continue
        try:
            after[entry.id] = after.get(entry.id, entry).improved(outcome.certificate, date)
        except CertificateError as error:
            contradictions[entry.id] = str(error)
    better = {
        i: known for i, known in after.items() if i not in contradictions and known != before[i]
    }
    return better, contradictions


def _moved(before: Bound | None, after: Bound | None) -> bool:
    """Return whether another value is known now, and not the same one better proved."""
    if before is None or after is None:
        return before is not after
    return abs(after.value - before.value) > 1e-9 * max(abs(before.value), abs(after.value))


def _allowed(run: Run) -> float:
    return max(_WORSE, run.limits.gap)


def chosen_entries(names: Iterable[str], entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the instances that names stand for, each once, in the order of the library.

    Parameters
    ----------
    names
        Ids, families, kinds of problems (names of `alloc.families.FAMILIES`), or ``all``.
    entries
        The library.

    Raises
    ------
    InstanceError
        If a name is none of them.
    """
    known: dict[str, set[str]] = {"all": {entry.id for entry in entries}}
    for entry in entries:
        for name in (entry.formulation, entry.family, entry.id):
            known.setdefault(name, set()).add(entry.id)
    wanted: set[str] = set()
    for name in names:
        if name not in known:
            families = ", ".join(dict.fromkeys(entry.family for entry in entries))
            raise InstanceError(
                f'the library has no "{name}"{nearest(name, known) or ";"} give all, a kind of '
                f"problem, a family or an id; families: {families}."
            )
        wanted |= known[name]
    return tuple(entry for entry in entries if entry.id in wanted)


def answer(run: Run) -> Outcome:
    """Let a contender answer. A failure is an outcome too: it must not take the others down.

    Parameters
    ----------
    run
        Who answers what.
    """
    try:
        problem = load_problem(run.entry.id)
        if not run.contender.is_scheduler:
            from alloc.solving import solve

            result = solve(
                problem,
                run.entry.formulation,
                run.contender.name,
                objective=run.entry.objective,
                limits=run.limits,
            )
            return Outcome(run, result.certificate)
        began = time.perf_counter()
        ruled = _placed if run.entry.formulation == "placement" else _simulated
        value = ruled(run, problem)
        return Outcome(run, _of_rule(run, value, time.perf_counter() - began))
    except AllocError as error:
        text = f"{type(error).__name__}: {error}"
    except Exception as error:
        # A rule may be anybody's code, and the other runs are worth having whatever it does.
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = (
            f"{type(error).__name__}: {error} (in {where.name}, line {where.lineno}); "
            f"{run.contender.name} failed unexpectedly."
        )
    return Outcome(run, error=text)


def _simulated(run: Run, problem: Instance) -> float | None:
    """Return the objective of the schedule that a scheduler makes, checked from end to end."""
    entry = SchedulerEntry.of(run.contender.name)
    settings = Settings(objective=run.entry.objective)
    outcome = run_cell(Cell(problem, entry, run.limits.seed, settings))
    if outcome.error is not None:
        raise AllocError(outcome.error)
    return outcome.objective if math.isfinite(outcome.objective) else None


def _placed(run: Run, problem: Instance) -> float:
    """Return the objective of where a placement rule puts the queue beside what runs, checked."""
    from alloc.schedulers import make_scheduler

    policy = make_scheduler(run.contender.name)
    if not isinstance(policy, PlacementPolicy):
        raise InstanceError(
            f'scheduler "{run.contender.name}" is no placement rule; name one such as best-fit.'
        )
    allocation = place_queue(problem, policy, run.limits.seed)
    family = FAMILIES["placement"]
    broken = family.check(problem, allocation)
    if broken:
        raise AllocError(f"its placement breaks a rule: {broken[0].sentence}")
    return float(family.measure_of(run.entry.objective).evaluate(problem, allocation))


def _of_rule(run: Run, value: float | None, seconds: float) -> Certificate:
    """Return what is known of the answer of a scheduler: its value, and no bound."""
    return Certificate(
        status="no_solution" if value is None else "feasible",
        objective=value,
        bound=-math.inf if run.entry.sense == "min" else math.inf,
        sense=run.entry.sense,
        objective_name=run.entry.objective,
        formulation=run.entry.formulation,
        backend=f"scheduler {run.contender.name}",
        backend_version=f"alloc {alloc_version()}",
        seed=run.limits.seed,
        workers=1,
        seconds=seconds,
        fingerprint=run.entry.fingerprint,
        verified=value is not None,
        bound_proof="none",
    )


def bench(
    entries: Sequence[Entry],
    contenders: Sequence[Contender],
    *,
    limits: Limits,
    seeds: Iterable[int] = (0,),
    store: str | PathLike[str] | None = None,
    jobs: int = 1,
    progress: Callable[[int, int, Outcome], None] | None = None,
) -> list[Outcome]:
    """Run contenders over instances of the library.

    Parameters
    ----------
    entries
        The instances; a contender answers those that it takes.
    contenders
        Who answers.
    limits
        Limits of a solve; its seed is added to each of `seeds`.
    seeds
        Seeds of solvers and of schedulers.
    store
        Where finished runs are kept, and taken from; None: in memory.
    jobs
        Processes at work; -1 for one on each core.
    progress
        Called after each run with how many are done, how many there are, and what came of it.

    Returns
    -------
    list of Outcome
        Those of the runs, in order; failures included.

    Raises
    ------
    InstanceError
        If no contender takes any of the instances.
    StoreError
        If the store fails.
    KeyboardInterrupt
        On Ctrl-C; an answer that it cut short is not kept.
    """
    runs = [
        Run(entry, contender, dataclasses.replace(limits, seed=limits.seed + seed))
        for entry in entries
        for contender in contenders
        if contender.takes(entry)
        for seed in seeds
    ]
    if not runs:
        names = ", ".join(contender.name for contender in contenders)
        kinds = ", ".join(dict.fromkeys(map(_asked, entries)))
        raise InstanceError(f"none of {names} answers problems of {kinds}; name others.")
    with Store(store) as kept:
        known = kept.get([run.key for run in runs])
        found: dict[str, Outcome] = {}
        for run in runs:
            item = known.get(run.key)
            if item is not None and item.ok:
                found[run.key] = Outcome(run, Certificate(**_finite(item.record)))
        left = [run for run in runs if run.key not in found]
        done = len(runs) - len(left)
        for outcome in _fan_out(left, jobs):
            if outcome.interrupted:
                raise KeyboardInterrupt
            kept.put(_item(outcome))
            found[outcome.run.key] = outcome
            done += 1
            if progress is not None:
                progress(done, len(runs), outcome)
    return [found[run.key] for run in runs]


def _fan_out(runs: Sequence[Run], jobs: int) -> Iterator[Outcome]:
    """Yield the outcomes of runs as they are done, in any order."""
    if jobs == 1 or len(runs) < 2:
        yield from map(answer, runs)
        return
    import joblib

    with worker_deaths("bench"):
        calls = [joblib.delayed(answer)(run) for run in runs]
        pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from pool(calls)


def _item(outcome: Outcome) -> Item:
    record: Mapping[str, Any] = {"error": outcome.error}
    if outcome.certificate is not None:
        record = dataclasses.asdict(outcome.certificate)
        if math.isinf(record["bound"]):  # no number of JSON
            record = {**record, "bound": None}
    return Item(outcome.run.key, "bench", outcome.error is None, record)


def _finite(record: Mapping[str, Any]) -> dict[str, Any]:
    if record["bound"] is not None:
        return dict(record)
    return {**record, "bound": -math.inf if record["sense"] == "min" else math.inf}
