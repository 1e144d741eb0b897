"""The certified bound of an instance, and the schedule that comes with it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from alloc.certificate import OPTIMALITY_GAP, Certificate, beats
from alloc.comparison.measures import measure_schedule
from alloc.comparison.settings import Settings, key_of
from alloc.comparison.store import Item, StoreError
from alloc.errors import AllocError, CertificateError
from alloc.objectives import Sense, objective, without_late
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule, Solution
from alloc.release import alloc_version
from alloc.result import Limits, Result
from alloc.verification import verify
from alloc.verification.moldable import verify_moldable

BOUND_TOLERANCE = 1e-6
"""Relative amount by which rounding may put a schedule beyond a bound; more is a false bound."""


def is_better(value: float, than: float, sense: Sense) -> bool:
    """Return whether a value of the objective is better than another, to the last digit.

    Parameters
    ----------
    value
        A value of the objective.
    than
        The value that it is compared with.
    sense
        ``min`` or ``max``.
    """
    return value < than if sense == "min" else value > than


SIMULATED = "the best simulation"
"""Whose schedule it is where hosts fail: none is solved then."""


@dataclass(frozen=True)
class Bound:
    """What is proved about an instance, by a clairvoyant solve.

    Parameters
    ----------
    instance
        Name of the instance.
    fingerprint
        Fingerprint of the instance.
    result
        The solver's answer with its certificate, or None when the solve failed.
    metrics
        The measures of the solved schedule, as for every scheduler; empty without one.
    error
        Why there is no result, in one sentence, or None.
    source
        Who ran the schedule of the result, where it is a simulated one, or None.
    """

    instance: str
    fingerprint: str
    result: Result[Solution] | None
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    source: str | None = None

    @property
    def certificate(self) -> Certificate | None:
        """The certificate, or None when the solve failed."""
        return None if self.result is None else self.result.certificate

    @property
    def sense(self) -> Sense:
        """Whether less or more of the objective is better; less where nothing was solved."""
        return "min" if self.certificate is None else self.certificate.sense

    @property
    def value(self) -> float | None:
        """The proved bound, 0 or more, or None when nothing useful is proved."""
        if self.result is None:
            return None
        bound = self.result.certificate.bound
        return bound if math.isfinite(bound) and bound >= 0 else None

    @property
    def schedule(self) -> Schedule | None:
        """The best schedule found, or None."""
        found = None if self.result is None else self.result.solution
        return found if isinstance(found, Schedule) else None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the solve before its time."""
        certificate = self.certificate
        return certificate is not None and certificate.limit == "interrupt"


def bound_key(instance: Instance, settings: Settings) -> str:
    """Return the key of an instance's bound in a store.

    Parameters
    ----------
    instance
        The instance.
    settings
        How its bound is sought.
    """
    return key_of(
        kind="bound",
        fingerprint=instance.fingerprint,
        objective=settings.objective,
        formulation=settings.formulation,
        backend=settings.backend,
        time_limit_s=settings.time_limit_s,
        seed=settings.solver_seed,
        version=alloc_version(),
    )


def solve_bound(instance: Instance, settings: Settings, start: Schedule | None = None) -> Bound:
    """Solve an instance with full knowledge of the future.

    Parameters
    ----------
    instance
        The instance.
    settings
        The terms.
    start
        A schedule that keeps every rule, to start from.

    Returns
    -------
    Bound
        With the failure as a sentence in it when the method does not fit the instance.

    Raises
    ------
    CertificateError
        If the solver's claim contradicts the checker: then nothing else it says is of use.
    """
    from alloc.solving import solve

    if instance.outages:
        return _bound_despite_outages(instance, settings, start)
    if instance.interference:
        return _bound_of_shared_gpus(instance, settings, start)
    if start is not None:
        start = without_late(instance, start, _LATE)
    if settings.formulation == "moldable" and not runs_once(instance):
        return Bound(
            instance.name,
            instance.fingerprint,
            None,
            error='the bound of "moldable" is of schedules in which each job runs once, and some '
            "jobs may pause, change their configuration or move to another host; take formulation "
            '"malleable".',
        )
    try:
        result = solve(
            instance,
            _formulation(instance, settings, start),
            settings.backend,
            objective=settings.objective,
            limits=Limits(seconds=settings.time_limit_s, seed=settings.solver_seed),
            warm_start=start,
        )
    except CertificateError:
        raise
    except AllocError as error:
        return Bound(instance.name, instance.fingerprint, None, error=str(error))
    metrics: Mapping[str, float] = {}
    if isinstance(result.solution, Schedule):
        metrics = measure_schedule(instance, result.solution)
    error_line = None
    if result.certificate.status == "infeasible":
        error_line = f"no schedule is feasible: {result.conflict}"
    return Bound(instance.name, instance.fingerprint, result, metrics, error_line)


def without_outages(instance: Instance) -> Instance:
    """Return an instance whose bound holds for every schedule among outages of hosts.

    Take such a schedule. Let runs that fail in a slot last to its end, where nothing else could
    begin on their hosts, and end a job's runs when its work is done. Nothing is lost now, and no
    restart is new, so no job completes later; and all rules hold but one: what failed may pause,
    preemptible or not. So every job may, here.

    Parameters
    ----------
    instance
        The instance.
    """
    jobs = tuple(job.replace(preemptible=True) for job in instance.jobs)
    return instance.replace(jobs=jobs, outages=())


def _bound_despite_outages(instance: Instance, settings: Settings, start: Schedule | None) -> Bound:
    """Return the bound of the instance without its outages, and the schedule to start from.

    A solved schedule would use hosts that are down, and the simulated one keeps no rule of slots
    where a run failed: neither is of use to the other.
    """
    solved = solve_bound(without_outages(instance), settings)
    if solved.result is None:
        return replace(solved, fingerprint=instance.fingerprint)
    certificate = solved.result.certificate.replace(
        fingerprint=instance.fingerprint, objective=None, verified=False
    )
    if certificate.status != "infeasible":
        certificate = certificate.replace(status="no_solution")
    result: Result[Solution] = Result(None, certificate, solved.result.log)
    bound = Bound(instance.name, instance.fingerprint, result, {}, solved.error)
    return bound if start is None else with_schedule(bound, instance, start, SIMULATED)


def _bound_of_shared_gpus(instance: Instance, settings: Settings, start: Schedule | None) -> Bound:
    """Return the bound of jobs that slow each other down on one GPU, of which no family is."""
    from alloc.solving.colocation.makespan import makespan_bound

    nothing = Bound(instance.name, instance.fingerprint, None)
    if settings.objective != "makespan":
        sentence = "of jobs that slow each other down only the makespan has a bound; compare that."
        return replace(nothing, error=sentence)
    try:
        value = makespan_bound(instance)
    except AllocError as error:
        return replace(nothing, error=str(error))
    certificate = Certificate(
        status="no_solution",
        objective=None,
        bound=value,
        sense="min",
        objective_name="makespan",
        formulation="colocation",
        backend="alloc bundles",
        backend_version=alloc_version(),
        seed=settings.solver_seed,
        workers=1,
        seconds=0.0,
        fingerprint=instance.fingerprint,
        bound_proof="recomputed",
    )
    bound = replace(nothing, result=Result(None, certificate))
    return bound if start is None else with_schedule(bound, instance, start, SIMULATED)


def runs_once(instance: Instance) -> bool:
    """Return whether each job of every schedule runs once, as the bound of "moldable" takes it.

    The rules of schedules let a job that may not pause go on at once on another host. That can be
    better than to stay where the hosts have gaps, so of several hosts the answer is no.

    Parameters
    ----------
    instance
        The instance.
    """
    return (
        not instance.running
        and instance.topology.num_hosts == 1
        and all(
            not job.preemptible and (job.elasticity != "malleable" or len(job.configurations) == 1)
            for job in instance.jobs
        )
    )


def _formulation(instance: Instance, settings: Settings, start: Schedule | None) -> str:
    """Return what is solved: stages, and jobs that run once in continuous time, stand apart."""
    if "stages" in instance.features or instance.move_s:
        return "stages"
    if (
        settings.formulation != "malleable"
        or settings.backend != "auto"
        or instance.slot_s is not None
        or not runs_once(instance)
    ):
        return settings.formulation
    whole = not any(
        group.shares_gpu for job in instance.jobs for c in job.configurations for group in c.tasks
    )
    kept = start is None or not verify_moldable(instance, start)
    return "moldable" if whole and kept else settings.formulation


_LATE = "it would be complete after its deadline."
"""Why a job that may be refused is left out of a simulated schedule in which it is late."""


def with_schedule(bound: Bound, instance: Instance, schedule: Schedule, source: str) -> Bound:
    """Return a bound with a simulated schedule as its best one, where that is better.

    Parameters
    ----------
    bound
        What is proved, and the best schedule so far.
    instance
        The instance.
    schedule
        A schedule that keeps every rule, but for jobs that may be refused and are late.
    source
        Who ran it.
    """
    certificate = bound.certificate
    if bound.result is None or certificate is None:
        return bound
    sense, known = certificate.sense, certificate.objective
    value = objective(certificate.objective_name).evaluate(instance, schedule)
    if known is not None and not is_better(value, known, sense):
        return bound
    kept = without_late(instance, schedule, _LATE)
    if kept is not schedule and verify(instance, kept):
        return bound
    # Within rounding the schedule itself shows how far the bound can hold; see `check_bound`.
    closest = max(certificate.bound, value) if sense == "max" else min(certificate.bound, value)
    better = certificate.replace(objective=value, bound=closest, verified=True, status="feasible")
    if better.gap is not None and better.gap <= OPTIMALITY_GAP:
        better = better.replace(status="optimal")
    return replace(
        bound,
        result=Result(kept, better, bound.result.log),
        metrics=measure_schedule(instance, kept),
        error=None,
        source=source,
    )


def stronger(bound: Bound, stored: Bound | None) -> Bound:
    """Return a bound with the proof of an earlier solve of the same instance, where that is more.

    Parameters
    ----------
    bound
        What was solved last, from a schedule no worse than the earlier one.
    stored
        The earlier solve, or None.

    Raises
    ------
    CertificateError
        If the schedule found since is better than the earlier bound: then that bound is false.
    """
    if bound.result is None or stored is None or stored.certificate is None:
        return bound
    now, then = bound.result.certificate, stored.certificate
    if not is_better(now.bound, then.bound, now.sense) or now.objective is None:
        return bound
    if beats(now.objective, then.bound, now.sense, tolerance=BOUND_TOLERANCE):
        raise CertificateError(
            f"a schedule of {bound.instance} has {now.objective:g}, better than the bound of "
            f"{then.bound:g} that {then.backend} ({then.backend_version}) claimed in an earlier "
            "solve; the claim is false, so report it with the instance."
        )
    closest = max if now.sense == "max" else min
    proved = now.replace(bound=closest(then.bound, now.objective), bound_proof=then.bound_proof)
    if proved.gap is not None and proved.gap <= OPTIMALITY_GAP:
        proved = proved.replace(status="optimal")
    return replace(bound, result=replace(bound.result, certificate=proved))


def pack_bound(key: str, bound: Bound) -> Item:
    """Return a bound as an item for the store; an interrupted solve is to be tried again.

    Parameters
    ----------
    key
        Key of the bound in the store.
    bound
        The bound.
    """
    record = {
        "instance": bound.instance,
        "fingerprint": bound.fingerprint,
        "metrics": dict(bound.metrics),
        "error": bound.error,
        "source": bound.source,
    }
    blob = None if bound.result is None else zlib.compress(bound.result.to_json().encode(), 6)
    ok = bound.result is not None and not bound.interrupted
    return Item(key, "bound", ok, record, blob)


def unpack_bound(item: Item) -> Bound:
    """Return the bound of a stored item.

    Raises
    ------
    StoreError
        If the item is damaged.
    """
    record = item.record
    try:
        result = None
        if item.blob is not None:
            result = Result.from_json(zlib.decompress(item.blob))
        return Bound(
            record["instance"],
            record["fingerprint"],
            result,
            dict(record["metrics"]),
            record["error"],
            record.get("source"),  # stores of before have none
        )
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"the store is damaged: the bound {item.key[:12]} is not readable ({error}); restore "
            "a copy, or run the comparison again with resume off."
        ) from None
