"""What a report says about one instance: words, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alloc.comparison import Comparison, Summary
from alloc.comparison.settings import OPTIMUM
from alloc.comparison.tables import (
    USES,
    Table,
    certificate_sentence,
    gap_table,
    objective_words,
    show_amount,
    show_gap,
    show_number,
    show_percent,
)
from alloc.errors import InstanceError
from alloc.objectives import objective
from alloc.plotting import (
    new_figure,
    plot_convergence,
    plot_gantt_pair,
    plot_gaps,
    plot_jct_distribution,
    plot_utilisation,
)
from alloc.plotting.axes import time_unit
from alloc.plotting.palette import BEST_FOUND
from alloc.plotting.trace import trace_of
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.report.verdict import mean_gaps, ties, verdict
from alloc.units import MILLI, RESOURCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_LINES = 8
"""Lines of a plot that the eye still tells apart."""


@dataclass(frozen=True)
class Drawing:
    """A figure of a report.

    Parameters
    ----------
    name
        Name of its file, unique in the report.
    caption
        What it shows, one sentence.
    alternative
        What a reader would learn from it, for those who cannot see it.
    figure
        The figure.
    is_explored
        Whether the interactive charts show the same, so that it is for paper and for browsers
        without scripts only.
    """

    name: str
    caption: str
    alternative: str
    figure: Figure
    is_explored: bool = False


@dataclass(frozen=True)
class Section:
    """What a report says about one instance.

    Parameters
    ----------
    title
        Name of the instance.
    anchor
        Id on the page.
    facts
        What the instance is: pairs of word and value.
    verdict
        Who is how far from what is possible, one sentence; None where nobody has a gap.
    ties
        Why schedulers with equal rows are equal, a sentence for each group.
    certificate
        What is proved, in plain words.
    claims
        The certificate's figures: pairs of word and value.
    table
        Schedulers against the bound.
    drawings
        The figures.
    """

    title: str
    anchor: str
    facts: tuple[tuple[str, str], ...]
    verdict: str | None
    ties: tuple[str, ...]
    certificate: str
    claims: tuple[tuple[str, str], ...]
    table: Table
    drawings: tuple[Drawing, ...]


def build_section(comparison: Comparison, fingerprint: str, beside: str, anchor: str) -> Section:
    """Return the section of an instance.

    Parameters
    ----------
    comparison
        The comparison.
    fingerprint
        Fingerprint of the instance.
    beside
        Label of the scheduler whose schedule is drawn against the optimum.
    anchor
        Id on the page, unique.
    """
    instance = comparison.instance(fingerprint)
    summaries = [s for s in comparison.per_instance() if s.group == instance.name]
    builders: Sequence[Callable[[], Drawing | None]] = (
        lambda: _gaps(comparison, instance, summaries, anchor),
        lambda: _gantt(comparison, instance, beside, anchor),
        lambda: _utilisation(comparison, instance, beside, anchor),
        lambda: _jcts(comparison, instance, beside, anchor),
        lambda: _convergence(comparison, instance, anchor),
    )
    drawings = tuple(drawing for build in builders if (drawing := build()) is not None)
    return Section(
        instance.name,
        anchor,
        instance_facts(instance),
        verdict(comparison, fingerprint),
        tuple(ties(comparison, fingerprint)),
        certificate_sentence(comparison.bound(fingerprint)),
        _claims(comparison, fingerprint),
        # What each scheduler uses has a table of its own; this one is wide enough.
        gap_table(comparison, instance.name).without(USES),
        drawings,
    )


def instance_facts(instance: Instance) -> tuple[tuple[str, str], ...]:
    """Return what an instance is, as pairs of word and value."""
    gpus, cpu, memory = instance.topology.totals[: len(RESOURCES)]
    arrivals = [job.arrival_s for job in instance.jobs]
    counts: dict[str, int] = {}
    for job in instance.jobs:
        counts[job.elasticity] = counts.get(job.elasticity, 0) + 1
    facts = [
        ("Jobs", f"{len(instance.jobs)} ({', '.join(f'{n} {k}' for k, n in counts.items())})"),
        ("Arrivals", f"{show_time(min(arrivals))} to {show_time(max(arrivals))}"),
        ("Cluster", instance.topology.name),
        ("Hosts", f"{instance.topology.num_hosts:,}"),
        *(
            (word, f"{amount:,.0f}")
            for word, amount in (
                ("GPUs", gpus / MILLI),
                ("CPU cores", cpu / MILLI),
                ("Host memory, GiB", memory / 1024),
            )
            if amount
        ),
        (
            "Time",
            "continuous" if instance.slot_s is None else f"slots of {show_time(instance.slot_s)}",
        ),
    ]
    if instance.horizon_s is not None:
        facts.append(("Horizon", show_time(instance.horizon_s)))
    facts += [(key.capitalize(), text) for key, text in instance.description.items()]
    facts.append(("Fingerprint", instance.fingerprint))
    return tuple(facts)


def show_time(seconds: float) -> str:
    """Return a time with the unit that suits it."""
    unit = time_unit(seconds)
    return f"{show_number(seconds / unit.seconds)} {unit.name}"


def _claims(comparison: Comparison, fingerprint: str) -> tuple[tuple[str, str], ...]:
    certificate = comparison.bounds[fingerprint].certificate
    if certificate is None:
        return ()
    words = {
        "recomputed": "proved again here by weak duality, without the solver",
        "confirmed": "proved by two runs: of two solvers, or of one with and without its presolve",
        "claimed": "the solver's claim",
        "none": "none",
    }
    mean = comparison.mean_jct_bound(fingerprint)
    gap = certificate.gap
    return tuple(
        (word, value)
        for word, value in (
            ("Status", certificate.status.replace("_", " ")),
            ("Objective", objective(certificate.objective_name).meaning),
            ("Best schedule", _amount(certificate.objective, certificate.objective_name)),
            ("Proved bound", _amount(certificate.bound, certificate.objective_name)),
            ("Gap between them", None if gap is None or math.isinf(gap) else show_percent(gap)),
            ("Bound on the mean JCT", _amount(mean, "mean_jct")),
            ("Bound", words[certificate.bound_proof]),
            (
                "Schedule",
                "checked independently of the solver" if certificate.verified else "not checked",
            ),
            ("Formulation", certificate.formulation),
            ("Solver", f"{certificate.backend} ({certificate.backend_version})"),
            ("Seed, threads", f"{certificate.seed}, {certificate.workers}"),
            ("Time of the solve", f"{certificate.seconds:.1f} s"),
            ("Stopped early by", certificate.limit),
        )
        if value is not None
    )


def _amount(value: float | None, name: str) -> str | None:
    return None if value is None or math.isinf(value) else show_amount(value, name)


def _gaps(
    comparison: Comparison, instance: Instance, summaries: Sequence[Summary], anchor: str
) -> Drawing | None:
    best = best_word(comparison, instance)
    gaps = {best if s.scheduler == OPTIMUM else s.scheduler: s.gap for s in summaries}
    if not any(gap.count for gap in gaps.values()):
        return None
    figure = new_figure(8.5, 1.1 + 0.33 * len(gaps))
    is_cost = comparison.settings.sense == "min"
    label = f"{'above' if is_cost else 'below'} the certified bound (%)"
    plot_gaps(gaps, label=label, ax=figure.add_subplot())
    listed = ", ".join(f"{name} {show_gap(g)} %" for name, g in gaps.items() if g.count)
    ranged = any(gap.low is not None and gap.low != gap.high for gap in gaps.values())
    return Drawing(
        f"{anchor}-gaps",
        "How far each schedule is from the certified bound"
        + ("; bars of error are 95 % confidence intervals over seeds." if ranged else "."),
        f"Bars of the gap to the certified bound on {instance.name}: {listed}.",
        figure,
    )


def _schedules(
    comparison: Comparison, instance: Instance, names: Sequence[str]
) -> dict[str, Schedule]:
    """Return the schedules that exist, by scheduler."""
    found = {}
    for name in names:
        try:
            found[name] = comparison.schedule(instance.fingerprint, name)
        except InstanceError:
            continue  # It failed; the table says why.
    return found


def _gantt(comparison: Comparison, instance: Instance, beside: str, anchor: str) -> Drawing | None:
    found = _schedules(comparison, instance, (OPTIMUM, beside))
    if len(found) < 2:
        return None
    figure = new_figure(8.5, min(2.4 + 0.34 * len(instance.jobs), 10.5))
    above = figure.add_subplot(2, 1, 1)
    axes = (above, figure.add_subplot(2, 1, 2, sharex=above, sharey=above))
    best = best_word(comparison, instance)
    plot_gantt_pair(instance, (found[OPTIMUM], found[beside]), (best, beside), axes=axes)
    return Drawing(
        f"{anchor}-gantt",
        f"Schedules of the {best} (above) and of {beside} (below): a row for each job in order of "
        "arrival, a bar for each run, coloured by what it holds.",
        f"Gantt charts of {instance.name}. With the {best} the last job completes at "
        f"{_makespan(comparison, instance, OPTIMUM)}, with {beside} at "
        f"{_makespan(comparison, instance, beside)}.",
        figure,
        is_explored=True,
    )


def best_word(comparison: Comparison, instance: Instance) -> str:
    """Return how the best schedule found is called: ``optimum`` only when that is proved.

    Parameters
    ----------
    comparison
        The comparison.
    instance
        The instance.
    """
    certificate = comparison.bound(instance.fingerprint).certificate
    proved = certificate is not None and certificate.status == "optimal"
    return OPTIMUM if proved else BEST_FOUND


def _makespan(comparison: Comparison, instance: Instance, name: str) -> str:
    jcts = comparison.jcts(instance.fingerprint, name)
    last = max(job.arrival_s + jct for job, jct in zip(instance.jobs, jcts, strict=True))
    return show_time(last) if math.isfinite(last) else "no time: some jobs never complete"


def _utilisation(
    comparison: Comparison, instance: Instance, beside: str, anchor: str
) -> Drawing | None:
    best = best_word(comparison, instance)
    schedules = _schedules(comparison, instance, (OPTIMUM, beside))
    found = {best if name == OPTIMUM else name: one for name, one in schedules.items()}
    if not found:
        return None
    gpus = bool(instance.topology.capacity[:, 0].sum())
    figure = new_figure(8.5, 2.8)
    plot_utilisation(
        instance,
        found,
        resource="gpu_milli" if gpus else "cpu_milli",
        names=found,
        ax=figure.add_subplot(),
    )
    held = "GPUs" if gpus else "CPU cores"
    return Drawing(
        f"{anchor}-utilisation",
        f"Share of the cluster's {held} held over time.",
        f"Lines of the share of {held} held over time on {instance.name}, for "
        f"{' and '.join(found)}.",
        figure,
        is_explored=True,
    )


def _jcts(comparison: Comparison, instance: Instance, beside: str, anchor: str) -> Drawing | None:
    names = list(_schedules(comparison, instance, comparison.schedulers))
    if not names:
        return None
    jcts = {name: comparison.jcts(instance.fingerprint, name) for name in names}
    groups = told_apart(jcts, mean_gaps(comparison, instance.fingerprint), beside)
    best = best_word(comparison, instance)
    labels = {name: best if name == OPTIMUM else name for name in names}
    figure = new_figure(8.5, 3.4)
    # The legend has room for two names; which others are equal, the table's remarks say.
    plot_jct_distribution(
        {
            " = ".join(labels[name] for name in alike[:2])
            + (f" = {len(alike) - 2} more" if alike[2:] else ""): jcts[alike[0]]
            for alike in groups
        },
        ax=figure.add_subplot(),
    )
    medians = ", ".join(
        f"{labels[n]} {show_time(sorted(v)[(len(v) - 1) // 2])}" for n, v in jcts.items()
    )
    drawn = sum(map(len, groups))
    left_out = f" {drawn} of {len(jcts)} are drawn, from the best to the worst."
    return Drawing(
        f"{anchor}-jct",
        "Share of jobs that complete within a time, for each scheduler (first seed)."
        + (left_out if drawn < len(jcts) else ""),
        f"Distributions of job completion times on {instance.name}. Medians: {medians}.",
        figure,
        is_explored=True,
    )


def told_apart(
    jcts: Mapping[str, Sequence[float]], gaps: Mapping[str, float], beside: str
) -> list[list[str]]:
    """Return the names of at most `MAX_LINES` curves: equal ones together, of many a spread.

    Parameters
    ----------
    jcts
        Completion times by scheduler, the optimum among them.
    gaps
        Gaps by scheduler, the smallest first.
    beside
        The scheduler that the other figures show; it is kept, as the optimum is.
    """
    rank = {name: k for k, name in enumerate((OPTIMUM, *gaps))}
    alike: dict[tuple[float, ...], list[str]] = {}
    for name in sorted(jcts, key=lambda name: rank.get(name, len(rank))):
        alike.setdefault(tuple(jcts[name]), []).append(name)
    groups = list(alike.values())
    kept = [names for names in groups if OPTIMUM in names or beside in names]
    others = [names for names in groups if names not in kept]
    room = MAX_LINES - len(kept)
    if len(others) > room:
        others = [others[round(i * (len(others) - 1) / (room - 1))] for i in range(room)]
    return [names for names in groups if names in kept or names in others]


def _convergence(comparison: Comparison, instance: Instance, anchor: str) -> Drawing | None:
    result = comparison.bound(instance.fingerprint).result
    trace = [] if result is None else trace_of(result, instance.slot_s)
    if len(trace) < 2:
        return None
    figure = new_figure(8.5, 2.8)
    plot_convergence(
        trace, name=objective_words(comparison.settings.objective), ax=figure.add_subplot()
    )
    last = trace[-1]
    return Drawing(
        f"{anchor}-convergence",
        "How the best schedule and the proved bound closed in during the solve.",
        f"Lines of best value and bound over {last.seconds:.1f} s of solving {instance.name}.",
        figure,
    )
