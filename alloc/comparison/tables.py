"""The tables of a comparison, for terminals and for Markdown.

Parameters
----------
comparison
    The comparison.
by
    ``instance``: intervals over seeds; ``family``: intervals over instances.
method
    How intervals are found, see `mean_interval`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from alloc.certificate import BoundProof, Certificate
from alloc.comparison.bounds import Bound
from alloc.comparison.comparison import Comparison
from alloc.comparison.intervals import Interval, Method
from alloc.comparison.measures import MEASURES, Measure
from alloc.comparison.rows import gap_to
from alloc.comparison.settings import OPTIMUM, Settings
from alloc.comparison.summaries import Summary
from alloc.objectives import objective
from alloc.problems.allocation.instance import Instance

if TYPE_CHECKING:
    from rich.table import Table as RichTable

By = Literal["instance", "family"]
NOTHING = "–"
"""What a table shows where there is no number."""
USES = "uses"
"""Header of the column that says what a scheduler looks at."""
_ROOM = (0, 120, 180, 220)
"""Width of the terminal, characters, from which columns of importance 0, 1, 2, 3 are shown."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    header
        Header with the unit.
    number
        Whether it holds numbers, to be set right.
    importance
        0: always shown; 1 to 3: left out when a terminal is narrow, 3 first.
    """

    header: str
    number: bool = True
    importance: int = 0


@dataclass(frozen=True)
class Table:
    """A table of text, to be rendered.

    Parameters
    ----------
    title
        What it shows.
    columns
        Its columns.
    rows
        Its cells, as many in each row as there are columns.
    remarks
        Sentences under it: terms, certificates, failures.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()

    def without(self, header: str) -> Table:
        """Return the table without the columns of that header."""
        kept = [k for k, column in enumerate(self.columns) if column.header != header]
        return Table(
            self.title,
            tuple(self.columns[k] for k in kept),
            tuple(tuple(row[k] for k in kept) for row in self.rows),
            self.remarks,
        )


def gap_tables(
    comparison: Comparison, by: By = "instance", method: Method = "t"
) -> tuple[Table, ...]:
    """Return a table for each instance or family: every scheduler against the certified bound."""
    groups = _groups(comparison, by, method)
    tables = [_gap_table(comparison, by, name, group) for name, group in groups.items()]
    if by == "instance" and len(comparison.bounds) > 1:
        counted = proof_sentence(comparison.bound_proofs())
        tables[-1] = replace(tables[-1], remarks=(*tables[-1].remarks, counted))
    return tuple(tables)


def gap_table(
    comparison: Comparison, name: str, by: By = "instance", method: Method = "t"
) -> Table:
    """Return the table of one instance or family, by its name; see `gap_tables`.

    Parameters
    ----------
    name
        Name of an instance, or of a family.
    """
    return _gap_table(comparison, by, name, _groups(comparison, by, method)[name])


def _groups(comparison: Comparison, by: By, method: Method) -> dict[str, list[Summary]]:
    summaries = (
        comparison.per_instance(method) if by == "instance" else comparison.per_family(method)
    )
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(summary.group, []).append(summary)
    return groups


def _gap_table(comparison: Comparison, by: By, name: str, group: Sequence[Summary]) -> Table:
    measures = [m for m in MEASURES.values() if _is_shown(m, group)]
    columns = (
        Column("scheduler", number=False),
        Column("gap to bound (%)"),
        *(Column(m.header, importance=m.importance) for m in measures),
        Column(USES, number=False, importance=3),
    )
    rows = tuple(
        (
            _row_name(comparison, by, summary),
            show_gap(summary.gap),
            *(show_measure(m, summary.metrics.get(m.name)) for m in measures),
            summary.information or NOTHING,
        )
        for summary in group
    )
    remarks = [terms(comparison.settings)]
    if by == "instance" and name in comparison.unbounded:
        remarks.append(f"Nothing was tried yet to prove how good a schedule of {name} can be.")
    elif by == "instance":
        remarks.append(certificate_sentence(comparison.bound(name)))
        remarks.append(_time_sentence(comparison.instance(name)))
        weights = {job.weight for job in comparison.instance(name).jobs}
        if comparison.settings.objective == "weighted_jct" and len(weights) > 1:
            remarks.append(
                "Jobs differ in weight: the schedule of least weighted JCT need not be that of "
                "least mean JCT."
            )
    else:
        members = _members(comparison, name)
        remarks.append(proof_sentence(comparison.bound_proofs(members)))
        open_ = sum(fingerprint not in comparison.bounds for fingerprint in members)
        if open_:
            remarks.append(
                f"Nothing was tried yet to prove how good a schedule can be of {open_} of the "
                f"{len(members)} instances: they are in no gap."
            )
    sampled = [s for s in group if s.gap.low is not None and s.scheduler != OPTIMUM]
    if any(s.gap.low != s.gap.high for s in sampled):
        over = sampled[0].over
        remarks.append(f"± is the half width of the 95 % confidence interval over {over}.")
    elif sampled:
        remarks.append(f"All {sampled[0].over} gave the same gap, so that no interval is shown.")
    broken = [s.metrics["num_promised_late"] for s in group if "num_promised_late" in s.metrics]
    if any(number.mean > 0 for number in broken):
        remarks.append(
            "No gap is shown where jobs miss a hard deadline: the bound is for schedules that "
            "keep them."
        )
    if comparison.settings.sense == "max":
        remarks.append(
            "The gap is the part of the proved value that is lost. A job that is refused or late "
            "is worth nothing."
        )
    names = [name] if by == "instance" else _members(comparison, name)
    if any(job.refusable for one in names for job in comparison.instance(one).jobs):
        remarks.append("Times and fairness are of the jobs that ran to their end or had to.")
    remarks += _fallbacks(comparison, by, name)
    remarks += _failures(comparison, by, name)
    if comparison.missing:
        remarks.append(f"Unfinished: {comparison.missing} cells are still to be run.")
    title = f"{name}, all instances" if by == "family" else name
    return Table(f"Schedulers against the certified bound: {title}", columns, rows, tuple(remarks))


def _is_shown(measure: Measure, group: Sequence[Summary]) -> bool:
    found = [s.metrics[measure.name].mean for s in group if measure.name in s.metrics]
    return any(found) if measure.only_if_any else bool(found)


def _row_name(comparison: Comparison, by: By, summary: Summary) -> str:
    """Return how a row is called: ``optimum`` only when that is proved."""
    if summary.scheduler != OPTIMUM:
        failed = f" ({summary.failures} of {summary.runs} failed)" if summary.failures else ""
        return summary.scheduler + failed
    names = [summary.group] if by == "instance" else _members(comparison, summary.group)
    bounds = [comparison.bounds.get(comparison.instance(name).fingerprint) for name in names]
    certificates = [None if bound is None else bound.certificate for bound in bounds]
    proved = sum(c is not None and c.status == "optimal" for c in certificates)
    if proved == len(names):
        return OPTIMUM
    if by == "family" and proved:
        return f"best found ({proved} of {len(names)} proved optimal)"
    return "best found"


def _members(comparison: Comparison, family: str) -> list[str]:
    return list(dict.fromkeys(r.fingerprint for r in comparison.rows if r.family == family))


def _information_used(table: Table) -> str:
    """Return what each scheduler looks at, those that look at the same together."""
    users: dict[str, list[str]] = {}
    for row in table.rows:
        users.setdefault(row[-1], []).append(row[0])
    listed = "; ".join(f"{', '.join(names)}: {uses}" for uses, names in users.items())
    return f"Information used: {listed}."


def _fallbacks(comparison: Comparison, by: By, name: str) -> list[str]:
    """Return a sentence for each scheduler that left decisions to another rule."""
    counts: dict[str, tuple[float, float]] = {}
    for row in comparison.rows:
        if name == (row.instance if by == "instance" else row.family) and "fallbacks" in row.notes:
            fallen, asked = counts.get(row.scheduler, (0.0, 0.0))
            asked += row.notes.get("solves", 0.0)
            counts[row.scheduler] = (fallen + row.notes["fallbacks"], asked)
    return [
        f"{scheduler} left {fallen:,.0f} of {asked:,.0f} decisions to its rule."
        for scheduler, (fallen, asked) in counts.items()
    ]


def _failures(comparison: Comparison, by: By, name: str) -> list[str]:
    """Return a sentence for each kind of failure, however many seeds met it."""
    counts: dict[tuple[str, str, str], int] = {}
    for row in comparison.failures:
        if name == (row.instance if by == "instance" else row.family):
            key = (row.scheduler, row.instance, row.error or "")
            counts[key] = counts.get(key, 0) + 1
    return [
        f"Failed: {scheduler} on {instance}"
        + (f" ({count} times)" if count > 1 else "")
        + f": {error}"
        for (scheduler, instance, error), count in counts.items()
    ]


def terms(settings: Settings) -> str:
    """Return what every scheduler was told, in one sentence."""
    told = {
        "exact": "the exact work of each job that has arrived",
        "estimate": f"an estimate of each job's work, up to {settings.work_error:.0%} off",
        "none": "nothing of the jobs' work",
    }[settings.knowledge]
    speed = "exact speeds"
    if settings.speed_error:
        speed = f"speeds up to {settings.speed_error:.0%} off"
    return (
        f"Every scheduler was told {told}, with {speed}, and nothing of the future; the bound "
        "holds even for schedules that know it all."
    )


def proof_sentence(proofs: Mapping[BoundProof, int]) -> str:
    """Return how often each kind of proof of a bound was had."""
    total = sum(proofs.values())
    words = {"none": "not proved"}
    counted = ", ".join(f"{n} {words.get(kind, kind)}" for kind, n in proofs.items() if n)
    return f"Of {total} {'bound' if total == 1 else 'bounds'}: {counted or 'none solved yet'}."


def certificate_sentence(bound: Bound) -> str:
    """Return in plain words what is proved about an instance, and on whose word."""
    certificate = bound.certificate
    if certificate is None:
        return f"Nothing is proved about {bound.instance}: {bound.error}"
    if certificate.status == "infeasible":
        return f"{solver_name(certificate)} proved that {bound.instance} has no feasible schedule."
    if bound.value is None:
        return f"No bound is proved for {bound.instance}: {_stopped(certificate)}"
    word = {
        "recomputed": "the bound was proved again here by weak duality, without the solver",
        "confirmed": "two runs, of two solvers or of one with and without its presolve, proved it",
        "claimed": f"the bound is reported by {solver_name(certificate)} and not re-verified",
        "none": "nothing is proved",
    }[certificate.bound_proof]
    words = objective_words(certificate.objective_name)
    is_cost = certificate.sense == "min"
    side, other = ("below", "above") if is_cost else ("above", "below")
    proof = (
        f"No schedule of {bound.instance} has a {words} {side} "
        f"{show_amount(bound.value, certificate.objective_name)}; {word}."
    )
    if certificate.objective is None:
        return f"{proof} No schedule was found: {_stopped(certificate)}"
    checked = "checked independently of the solver" if certificate.verified else "not checked"
    if certificate.status == "optimal":
        return f"{proof} The schedule found attains it ({checked})."
    whose = "" if bound.source is None else f"; it is that of {bound.source}"
    gap = gap_to(bound.value, certificate.objective, sense=certificate.sense)
    away = "" if gap is None else f", at most {show_percent(gap)} {other} the optimum"
    found = show_amount(certificate.objective, certificate.objective_name)
    return (
        f"{proof} The best schedule found has {found}{away} "
        f"({checked}{whose}; {_stopped(certificate)})."
    )


def _time_sentence(instance: Instance) -> str:
    """Return for which schedules the bound holds."""
    if instance.outages:
        return (
            "The bound is that of the cluster without its outages, where every job may pause: it "
            "holds, as nothing gets done sooner where hosts fail. "
        ) + _time_sentence(instance.replace(outages=()))
    if instance.slot_s is None:
        return "Time is continuous: the bound holds for schedules that change at any moment."
    return (
        f"Time is in slots of {instance.slot_s:g} s: the bound says nothing of schedules that "
        "change within a slot."
    )


def solver_name(certificate: Certificate) -> str:
    """Return the solver with its version."""
    return f"{certificate.backend} ({certificate.backend_version})"


def _stopped(certificate: Certificate) -> str:
    if certificate.limit is None:
        return f"the solve ended after {certificate.seconds:.1f} s, when its method was through"
    if certificate.limit == "interrupt":
        return f"the solve was interrupted after {certificate.seconds:.1f} s"
    return f"the solve met its {certificate.limit} limit after {certificate.seconds:.1f} s"


def show_gap(gap: Interval) -> str:
    """Return a gap in percent with the half width of its interval."""
    return show_interval(gap, 100.0)


def show_measure(measure: Measure, interval: Interval | None) -> str:
    """Return a measure in its unit of display.

    Parameters
    ----------
    measure
        Says what it is scaled by, and whether its interval is shown.
    interval
        Its mean with the interval; None where nothing was measured.
    """
    if interval is None:
        return NOTHING
    if not measure.show_interval:
        interval = Interval(interval.mean, None, None, interval.count)
    return show_interval(interval, measure.scale)


def show_interval(interval: Interval, scale: float = 1.0) -> str:
    """Return ``mean ± half width`` to a sensible number of digits.

    Parameters
    ----------
    interval
        The mean with its interval.
    scale
        What both are taken times.
    """
    if interval.count == 0 or math.isnan(interval.mean):
        return NOTHING
    if math.isinf(interval.mean):
        return "∞"
    mean = scale * interval.mean
    if interval.low is None or interval.high is None or interval.low == interval.high:
        return show_number(mean)
    # A bootstrap interval is not symmetric; the wider side is the honest one.
    half = scale * max(interval.high - interval.mean, interval.mean - interval.low)
    if show_number(half) == "0":
        return show_number(mean)
    # Two digits: the width of an interval is itself only an estimate.
    return (
        f"{show_number(mean)} ± {half:.2g}" if half < 100 else f"{show_number(mean)} ± {half:,.0f}"
    )


def show_amount(value: float, name: str) -> str:
    """Return a claimed value of an objective with its unit; weights are numbers without one.

    Parameters
    ----------
    value
        The value.
    name
        Name of the objective.
    """
    unit = objective(name).unit
    return show_exact(value) if unit == "weight" else f"{show_exact(value)} {unit}"


def show_exact(value: float) -> str:
    """Return a value that is claimed: six digits, or all before the point when they are more."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def show_percent(share: float) -> str:
    """Return a share in percent."""
    return f"{show_number(100.0 * share)} %"


def objective_words(name: str) -> str:
    """Return an objective's name for people, for example ``weighted JCT``."""
    return name.replace("_", " ").replace("jct", "JCT")


def show_number(value: float) -> str:
    """Return a number to three or more digits, without an exponent where one is not needed."""
    size = abs(value)
    # Rounding noise of a proof is zero to a reader, and minus zero a riddle.
    if size < 5e-7:
        return "0"
    if size >= 1e7 or size < 1e-3:
        return f"{value:.3g}"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.3g}" if size < 1 else f"{value:.2f}"


def to_markdown(table: Table) -> str:
    """Return a table as Markdown (GitHub's dialect)."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("---:" if column.number else ":---" for column in table.columns) + "|"
    lines = [f"**{table.title}**", "", line([c.header for c in table.columns]), rule]
    lines += [line(row) for row in table.rows]
    lines += [part for remark in table.remarks for part in ("", remark)]
    return "\n".join(lines) + "\n"


def to_rich(table: Table, width: int | None = None) -> RichTable:
    """Return a table for the terminal.

    Parameters
    ----------
    table
        The table.
    width
        Width of the terminal, characters; by default that of this one. Narrow ones get
        fewer columns.
    """
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    room = Console().width if width is None else width
    shown = [k for k, c in enumerate(table.columns) if room >= _ROOM[c.importance]]
    remarks = list(table.remarks)
    hidden = [c.header for k, c in enumerate(table.columns) if k not in shown]
    if USES in hidden:
        remarks.insert(1, _information_used(table))
        hidden.remove(USES)
    if hidden:
        remarks.append(
            f"Not shown at this width: {', '.join(hidden)}; a wider terminal or --json shows them."
        )
    drawn = RichTable(
        # Names are text, not markup, whatever brackets they hold.
        title=Text(table.title),
        caption=Text("\n".join(remarks)),
        title_justify="left",
        caption_justify="left",
    )
    for k in shown:
        column = table.columns[k]
        drawn.add_column(
            column.header,
            justify="right" if column.number else "left",
            # Not "ellipsis": a number that is cut off is another number.
            overflow="fold",
            # Half a name is nobody's name.
            no_wrap=k == 0,
        )
    for row in table.rows:
        drawn.add_row(*(Text(row[k]) for k in shown))
    return drawn
