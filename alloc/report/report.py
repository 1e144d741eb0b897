"""Writing a report: one HTML page that needs nothing else, and its figures as files."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from alloc.comparison import Comparison
from alloc.comparison.records import family_of
from alloc.comparison.settings import OPTIMUM
from alloc.comparison.tables import (
    NOTHING,
    USES,
    Column,
    Table,
    gap_table,
    objective_words,
    show_number,
    terms,
)
from alloc.documents.files import write_text
from alloc.errors import InstanceError, nearest
from alloc.objectives import objective
from alloc.plotting import save_figure
from alloc.report.explorer import explorer_data, to_script
from alloc.report.pages import page, script
from alloc.report.sections import Section, best_word, build_section
from alloc.report.verdict import contrast

MAX_TABLE_ROWS = 1_000
"""Rows of the table of simulations: more are slow to sort in a browser, and to read in any."""


def write_report(
    comparison: Comparison,
    path: str | PathLike[str],
    *,
    title: str = "Schedulers against the certified optimum",
    scheduler: str | None = None,
    command: str | None = None,
    figures: str | PathLike[str] | None = None,
) -> tuple[Path, ...]:
    """Write a report of a comparison as one HTML file, with everything it shows inside it.

    Parameters
    ----------
    comparison
        What to report, finished or not.
    path
        The HTML file. It is replaced as a whole or not at all.
    title
        Title of the page.
    scheduler
        Label of the scheduler to draw against the optimum; by default FIFO, else the one with the
        largest gap: equal schedules would show nothing.
    command
        Command line that made the comparison, for the section on how to reproduce it; by default
        the call from Python.
    figures
        Folder for the figures as PNG and SVG, made when absent, or None for none.

    Returns
    -------
    tuple of Path
        The files written, the page first.

    Raises
    ------
    InstanceError
        If the scheduler is not in the comparison, or nothing is solved yet.
    AllocError
        If a file cannot be written.
    """
    beside = contrast(comparison) if scheduler is None else scheduler
    if beside not in comparison.experiment.schedulers:
        known = comparison.experiment.schedulers
        raise InstanceError(
            f'report: the comparison has no scheduler "{beside}"{nearest(beside, known, ".")} '
            f"It has {', '.join(known)}."
        )
    if not comparison.bounds:
        raise InstanceError(
            "report: nothing in the comparison is solved yet; run it again to go on."
        )
    sections = [
        build_section(comparison, fingerprint, beside, _slug(comparison, fingerprint))
        for fingerprint in _drawn(comparison)
    ]
    target = Path(path)
    write_text(target, _page(comparison, sections, beside, title, command))
    written = [target]
    if figures is not None:
        for drawing in (drawing for section in sections for drawing in section.drawings):
            written += save_figure(drawing.figure, Path(figures) / drawing.name)
    return tuple(written)


def _slug(comparison: Comparison, fingerprint: str) -> str:
    """Return a name of an instance for ids and files: plain letters, unique in the comparison."""
    name = comparison.instance(fingerprint).name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48]
    return f"{plain or 'instance'}-{fingerprint[:6]}"


def python_call(comparison: Comparison) -> str:
    """Return the call from Python that makes a comparison again."""
    settings = comparison.settings
    names = [instance.name for instance in comparison.instances.values()]
    lines = [
        "from alloc.comparison import compare",
        "",
        f"# instances: {', '.join(names)} (compare the fingerprints)",
        "comparison = compare(",
        "    instances,",
        f"    {list(comparison.experiment.schedulers)!r},",
        f"    seeds={list(comparison.experiment.seeds)!r},",
        f"    knowledge={settings.knowledge!r},",
        f"    work_error={settings.work_error!r},",
        f"    speed_error={settings.speed_error!r},",
        f"    objective={settings.objective!r},",
        f"    formulation={settings.formulation!r},",
        f"    backend={settings.backend!r},",
        f"    time_limit_s={settings.time_limit_s!r},",
        ")",
    ]
    return "\n".join(lines)


def show_size(num_bytes: int) -> str:
    """Return a size with the unit that suits it.

    Parameters
    ----------
    num_bytes
        The size, bytes, 0 or more.
    """
    kib = num_bytes / 1024
    return f"{kib:,.0f} KiB" if kib < 1024 else f"{kib / 1024:,.1f} MiB"


def _drawn(comparison: Comparison) -> list[str]:
    """Return the fingerprints of the instances that have a section, in order."""
    return [f for f in comparison.experiment.fingerprints if f in comparison.bounds]


def _row_table(comparison: Comparison) -> Table:
    """Return every simulation as a row, of very many the first."""
    unit = objective(comparison.settings.objective).unit
    columns = (
        Column("scheduler", False),
        Column("instance", False),
        Column("seed", True),
        Column(f"{objective_words(comparison.settings.objective)}{unit and f', {unit}'}", True),
        Column("gap, %", True),
        Column("mean JCT, s", True),
        Column("GPUs used, %", True),
    )
    found = comparison.rows
    rows = tuple(
        (
            best_word(comparison, comparison.instance(row.fingerprint))
            if row.scheduler == OPTIMUM
            else row.scheduler,
            row.instance,
            NOTHING if row.seed is None else str(row.seed),
            _number(row.objective),
            _number(row.gap, 100.0),
            _number(row.metrics.get("mean_jct_s")),
            _number(row.metrics.get("utilisation"), 100.0),
        )
        for row in found[:MAX_TABLE_ROWS]
    )
    more = len(found) - len(rows)
    remarks = (f"{more:,} more rows are in the data of the comparison.",) if more else ()
    return Table(f"All {len(found):,} simulations", columns, rows, remarks)


def _number(value: object, scale: float = 1.0) -> str:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    return show_number(scale * value)


def _page(
    comparison: Comparison,
    sections: Sequence[Section],
    beside: str,
    title: str,
    command: str | None,
) -> str:
    # A family of one instance has its table further down.
    counts = Counter(family_of(comparison.instances[f]) for f in comparison.bounds)
    families = [
        gap_table(comparison, family, "family").without(USES)
        for family, count in counts.items()
        if count > 1
    ]
    data = {
        section.anchor: to_script(
            explorer_data(comparison, comparison.instance(fingerprint), beside, len(sections))
        )
        for section, fingerprint in zip(sections, _drawn(comparison), strict=True)
    }
    code, policy = script()
    return page(
        "report.html.j2",
        data=data,
        data_size=show_size(sum(map(len, data.values()))),
        code=code,
        policy=policy,
        rows=_row_table(comparison),
        title=title,
        optimum=OPTIMUM,
        schedulers=comparison.schedulers,
        information={row.scheduler: row.information for row in comparison.rows if not row.error},
        failures=comparison.failures,
        missing=comparison.missing,
        terms=terms(comparison.settings),
        families=families,
        said={terms(comparison.settings), *(section.certificate for section in sections)},
        sections=sections,
        command=command,
        call=python_call(comparison),
        environment=comparison.experiment.environment,
    )
