"""The outcome of a comparison: rows, summaries, schedules, and its way to and from a store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from typing import Any, get_args

from alloc.certificate import BoundProof, Certificate
from alloc.comparison.bounds import Bound, is_better, unpack_bound, with_schedule
from alloc.comparison.cells import Outcome
from alloc.comparison.intervals import Interval, Method
from alloc.comparison.records import (
    Experiment,
    family_of,
    instance_key,
    unpack_experiment,
    unpack_instance,
    unpack_outcome,
)
from alloc.comparison.rows import (
    Row,
    best_outcomes,
    check_bound,
    gap_to,
    plain,
    promised_late,
)
from alloc.comparison.schedules import unpack_schedule
from alloc.comparison.settings import OPTIMUM, Settings
from alloc.comparison.store import Store, StoreError
from alloc.comparison.summaries import Summary, summarise_families, summarise_instances
from alloc.errors import InstanceError, nearest
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.progress import completions
from alloc.tabular import Tabular

SCHEMA_VERSION = 1
"""Version of the JSON document of a comparison."""
_CLAIRVOYANT = "full knowledge: all jobs and their work, from the start"


@dataclass(frozen=True)
class Comparison(Tabular):
    """Schedulers against the certified bound.

    Parameters
    ----------
    experiment
        What was to be done.
    instances
        The instances by fingerprint.
    bounds
        What is proved about each instance, by fingerprint.
    outcomes
        What came of each cell, by key. An unfinished comparison lacks some.

    The best schedule found of an instance is the best of all: the solved one and every simulated
    one that keeps every rule. So no row of a table is better than it.
    """

    experiment: Experiment
    instances: Mapping[str, Instance]
    bounds: Mapping[str, Bound]
    outcomes: Mapping[str, Outcome]

    def __post_init__(self) -> None:
        sense = self.settings.sense
        best = best_outcomes(self.experiment.cells, self.outcomes, sense)
        bounds = dict(self.bounds)
        for fingerprint, (label, seed, outcome) in best.items():
            bound = bounds.get(fingerprint)
            if bound is None or outcome.schedule is None:
                continue
            certificate = bound.certificate
            if certificate is None or certificate.status == "infeasible":
                continue
            known = certificate.objective
            # A schedule beyond the bound is left for `rows` to refuse.
            rounding = self._rounding(fingerprint)
            gap = gap_to(bound.value, outcome.objective, rounding=rounding, sense=sense)
            better = known is None or is_better(outcome.objective, known, sense)
            if better and (gap is None or gap >= 0):
                bounds[fingerprint] = with_schedule(
                    bound,
                    self.instances[fingerprint],
                    unpack_schedule(outcome.schedule),
                    f"{label}, seed {seed}",
                )
        object.__setattr__(self, "bounds", bounds)

    @property
    def settings(self) -> Settings:
        """The terms of the experiment."""
        return self.experiment.settings

    @property
    def missing(self) -> int:
        """Number of cells that are not done yet."""
        return len(self.experiment.cells) - len(self.outcomes)

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Names of the instances of which nothing was tried to be proved yet."""
        return tuple(i.name for f, i in self.instances.items() if f not in self.bounds)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The optimum of each instance and then its cells, by scheduler and seed.

        Raises
        ------
        CertificateError
            If a schedule is better than the proved bound.
        """
        cells: dict[str, list[tuple[str, str, int]]] = {}
        for key, fingerprint, label, seed in self.experiment.cells:
            cells.setdefault(fingerprint, []).append((key, label, seed))
        rows: list[Row] = []
        for fingerprint in self.experiment.fingerprints:
            if fingerprint in self.bounds:
                rows.append(self._optimum_row(self.bounds[fingerprint]))
            rows += (
                self._row(fingerprint, label, seed, self.outcomes[key])
                for key, label, seed in cells.get(fingerprint, ())
                if key in self.outcomes
            )
        return tuple(rows)

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that failed, with the reason in their `error`."""
        return tuple(row for row in self.rows if row.error is not None)

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The optimum and the schedulers, in order."""
        return (OPTIMUM, *self.experiment.schedulers)

    def per_instance(self, method: Method = "t") -> tuple[Summary, ...]:
        """Return a summary for each instance and scheduler, with intervals over seeds."""
        return summarise_instances(self.rows, method)

    def per_family(self, method: Method = "t") -> tuple[Summary, ...]:
        """Return a summary for each family and scheduler, with intervals over instances."""
        return summarise_families(self.rows, method)

    def instance(self, name: str) -> Instance:
        """Return the instance of that name or fingerprint.

        Raises
        ------
        InstanceError
            If there is none.
        """
        for fingerprint, instance in self.instances.items():
            if name in (instance.name, fingerprint):
                return instance
        known = [instance.name for instance in self.instances.values()]
        raise InstanceError(
            f'the comparison has no instance "{name}"{nearest(name, known, ".")} '
            f"It has {', '.join(known)}."
        )

    def bound(self, name: str) -> Bound:
        """Return what is proved about the instance of that name or fingerprint.

        Raises
        ------
        InstanceError
            If nothing was solved for it.
        """
        instance = self.instance(name)
        if instance.fingerprint not in self.bounds:
            raise InstanceError(
                f'the comparison is unfinished: instance "{instance.name}" is not solved yet; '
                "run it again to go on."
            )
        return self.bounds[instance.fingerprint]

    def bound_proofs(self, names: Iterable[str] | None = None) -> dict[BoundProof, int]:
        """Return how often each kind of proof of a bound was had, the strongest first.

        Parameters
        ----------
        names
            Names or fingerprints of the instances to count; by default all that were solved.
        """
        asked = self.bounds if names is None else [self.instance(n).fingerprint for n in names]
        proofs = [
            "none" if found.certificate is None else found.certificate.bound_proof
            for fingerprint in asked
            if (found := self.bounds.get(fingerprint)) is not None
        ]
        return {kind: proofs.count(kind) for kind in get_args(BoundProof)}

    def mean_jct_bound(self, name: str) -> float | None:
        """Return the proved bound on the mean job completion time, seconds, if there is one.

        Weighted completion times bound their mean only when all jobs weigh the same. The mean of a
        policy leaves out the jobs that it refuses, so none is bounded where it may.
        """
        instance = self.instance(name)
        found = self.bounds.get(instance.fingerprint)
        weights = {job.weight for job in instance.jobs}
        if found is None or found.value is None or len(weights) > 1:
            return None
        if any(job.refusable for job in instance.jobs):
            return None
        if self.settings.objective == "mean_jct":
            return found.value
        if self.settings.objective != "weighted_jct":
            return None
        return found.value / (len(instance.jobs) * weights.pop())

    def schedule(self, name: str, scheduler: str, seed: int | None = None) -> Schedule:
        """Return what a scheduler did on an instance.

        Parameters
        ----------
        name
            Name or fingerprint of the instance.
        scheduler
            Label of the scheduler, or ``optimum``.
        seed
            Seed of the simulation; by default the first.

        Raises
        ------
        InstanceError
            If there is no such schedule; the message says why.
        """
        instance = self.instance(name)
        if scheduler == OPTIMUM:
            found = self.bound(name).schedule
            if found is None:
                raise InstanceError(
                    f'instance "{instance.name}" has no solved schedule: '
                    f"{self.bound(name).error or 'none was found in the time'}."
                )
            return found
        if scheduler not in self.experiment.schedulers:
            raise InstanceError(
                f'the comparison has no scheduler "{scheduler}"'
                f"{nearest(scheduler, self.schedulers, '.')} It has {', '.join(self.schedulers)}."
            )
        for key, fingerprint, label, number in self.experiment.cells:
            if (fingerprint, label) != (instance.fingerprint, scheduler):
                continue
            if seed not in (None, number):
                continue
            outcome = self.outcomes.get(key)
            if outcome is not None and outcome.schedule is not None:
                return unpack_schedule(outcome.schedule)
        raise InstanceError(
            f'scheduler "{scheduler}" left no schedule on instance "{instance.name}" '
            f"{'with any seed' if seed is None else f'with seed {seed}'}: it failed or has not run."
        )

    def jcts(self, name: str, scheduler: str, seed: int | None = None) -> list[float]:
        """Return the job completion times, seconds, in the order of the jobs.

        Infinite for jobs that never complete. Parameters and errors as for `schedule`.

        Parameters
        ----------
        name, scheduler, seed
            As of `schedule`.
        """
        instance = self.instance(name)
        ends = completions(instance, self.schedule(name, scheduler, seed))
        return [
            float("inf") if (end := ends[job.id]) is None else end - job.arrival_s
            for job in instance.jobs
        ]

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return the comparison as a JSON document, and write it if a path is given.

        It has all numbers and certificates but no schedules: those are in the store. What is not
        finite is null.
        """
        document = {
            "schema_version": SCHEMA_VERSION,
            "kind": "comparison",
            "settings": self.settings.to_dict(),
            "environment": dict(self.experiment.environment),
            "missing": self.missing,
            "bound_proofs": self.bound_proofs(),
            "bounds": [self._bound_document(bound) for bound in self.bounds.values()],
            "rows": [row.to_dict() for row in self.rows],
            "per_instance": [_summary_document(s) for s in self.per_instance()],
            "per_family": [_summary_document(s) for s in self.per_family()],
        }
        text = json.dumps(document, indent=1, allow_nan=False) + "\n"
        if path is not None:
            from alloc.documents.files import write_text

            write_text(path, text)
        return text

    @staticmethod
    def from_store(
        location: str | PathLike[str] | Store, experiment: str | None = None
    ) -> Comparison:
        """Read a comparison back, finished or not.

        Parameters
        ----------
        location
            Path, URL or open store.
        experiment
            Key of the experiment or its beginning; by default the one that ran last.

        Raises
        ------
        StoreError
            If the store cannot be read or has no such experiment.
        """
        opened = nullcontext(location) if isinstance(location, Store) else closing(Store(location))
        with opened as store:
            known = [unpack_experiment(item) for item in store.all_of("experiment")]
            fitting = [e for e in known if e.key.startswith(experiment or "")]
            if not fitting:
                wanted = f'experiment "{experiment}"' if experiment else "experiment"
                keys = ", ".join(e.key[:12] for e in known) or "none"
                raise StoreError(f"{store.name} has no {wanted}; it has {keys}.")
            found = fitting[0]
            instances = store.get(map(instance_key, found.fingerprints), blobs=True)
            bounds = store.get(found.bound_keys.values(), blobs=True)
            outcomes = store.get((key for key, *_ in found.cells), blobs=True)
        unpacked = [unpack_bound(item) for item in bounds.values()]
        comparison = Comparison(
            found,
            {i.fingerprint: i for i in map(unpack_instance, instances.values())},
            {bound.fingerprint: bound for bound in unpacked},
            {key: unpack_outcome(item) for key, item in outcomes.items()},
        )
        lost = set(found.fingerprints) - set(comparison.instances)
        if lost:
            raise StoreError(
                f"the store is damaged: {len(lost)} instances of the experiment are not in it; "
                "restore a copy, or run the comparison again."
            )
        return comparison

    def _row(self, fingerprint: str, label: str, seed: int, outcome: Outcome) -> Row:
        instance = self.instances[fingerprint]
        found = self.bounds.get(fingerprint)
        value = gap = None
        if found is not None and outcome.error is None:
            rounding = self._rounding(fingerprint)
            check_bound(found, f"{label} on {instance.name}, seed {seed}", outcome, rounding)
            late = promised_late(outcome)
            gap = gap_to(found.value, outcome.objective, late, rounding, self.settings.sense)
        if found is not None:
            value = found.value
        return Row(
            instance.name,
            fingerprint,
            family_of(instance),
            label,
            seed,
            self.settings.knowledge,
            outcome.information,
            outcome.objective,
            value,
            gap,
            outcome.metrics,
            outcome.notes,
            outcome.seconds,
            outcome.error,
        )

    def _rounding(self, fingerprint: str) -> float:
        """Return by how much rounding may move the objective of an instance."""
        measure = objective(self.settings.objective)
        return measure.rounding(self.instances[fingerprint], Schedule(()))

    def _optimum_row(self, bound: Bound) -> Row:
        certificate = bound.certificate
        value = None if certificate is None else certificate.objective
        error = bound.error
        rounding, sense = self._rounding(bound.fingerprint), self.settings.sense
        if error is None and value is None:
            error = f"no schedule found: {_why_none(certificate)}"
        return Row(
            bound.instance,
            bound.fingerprint,
            family_of(self.instances[bound.fingerprint]),
            OPTIMUM,
            None,
            "clairvoyant",
            _CLAIRVOYANT,
            float("inf") if value is None else value,
            bound.value,
            None if value is None else gap_to(bound.value, value, rounding=rounding, sense=sense),
            bound.metrics,
            {},
            0.0 if certificate is None else certificate.seconds,
            error,
        )

    def _bound_document(self, bound: Bound) -> dict[str, Any]:
        certificate = bound.certificate
        claims = {} if certificate is None else asdict(certificate)
        return {
            "instance": bound.instance,
            "fingerprint": bound.fingerprint,
            "mean_jct_bound_s": plain(self.mean_jct_bound(bound.fingerprint)),
            "certificate": {name: plain(value) for name, value in claims.items()},
            "error": bound.error,
        }


def _why_none(certificate: Certificate | None) -> str:
    if certificate is None or certificate.limit is None:
        return "the solve ended without one"
    return f"the {certificate.limit} limit was reached"


def _summary_document(summary: Summary) -> dict[str, Any]:
    document = vars(summary) | {
        "gap": _interval_document(summary.gap),
        "objective": _interval_document(summary.objective),
        "metrics": {name: _interval_document(i) for name, i in summary.metrics.items()},
    }
    return dict(document)


def _interval_document(interval: Interval) -> dict[str, Any]:
    return {name: plain(value) for name, value in vars(interval).items()}
