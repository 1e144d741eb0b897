"""``alloc compare``."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from alloc.cli import completion, options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import Report, make_folder, print_text, progress, show, stdout_width
from alloc.cli.door import COMMAND_LINE, say
from alloc.cli.exit_code import ExitCode
from alloc.cli.failures import FailuresOption, with_failures_of
from alloc.cli.settings import parse_settings
from alloc.cli.sources import expanded, read_instance
from alloc.cli.supervising import leave_words
from alloc.cli.topology import HostTypeOption, TopologyOption
from alloc.errors import InstanceError, UnsupportedFeatureError

if TYPE_CHECKING:
    from alloc.comparison import CellEvent, Comparison, Entry
    from alloc.comparison.tables import By
    from alloc.schedulers.state import Knowledge, Scheduler

ALL = "all"


def compare_command(
    context: typer.Context,
    instances: Annotated[
        list[str],
        typer.Argument(
            metavar="INSTANCE...",
            help="JSON files, ids of stored instances, or names of stored families.",
            autocompletion=completion.complete_instance_or_family,
            show_default=False,
        ),
    ],
    schedulers: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME...",
            help=options.SCHEDULERS,
            autocompletion=completion.complete_scheduler_list,
        ),
    ] = ALL,
    seeds: options.SeedsOption = 1,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    knowledge: options.KnowledgeOption = "exact",
    work_error: options.WorkErrorOption = 0.0,
    speed_error: options.SpeedErrorOption = 0.0,
    failures: FailuresOption = None,
    objective: Annotated[
        str,
        typer.Option(
            metavar="OBJECTIVE",
            help=f"{options.OBJECTIVE} The gap is about it.",
            autocompletion=completion.complete_objective,
        ),
    ] = "weighted_jct",
    backend: options.BackendOption = "auto",
    time_limit: options.TimeLimitOption = 60.0,
    workers: options.ProcessesOption = None,
    parallel: options.ParallelOption = None,
    store: options.StoreOption = None,
    report: options.ReportOption = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="instance|family",
            help="One table for each instance, or for each family with intervals over instances.",
            autocompletion=lambda: ["instance", "family"],
        ),
    ] = "instance",
    json: options.JsonOption = False,
    markdown: options.MarkdownOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Run schedulers on instances, against the certified bound of each instance.

    Every instance is solved for a proved bound, every scheduler is simulated on it with every
    seed, and the table shows each one's gap to the bound. What was done before Ctrl-C is kept: the
    same command with --store goes on from there.
    """
    if json and markdown:
        raise InstanceError("--json and --markdown exclude each other; choose one.")
    if by not in ("instance", "family"):
        raise InstanceError(f'--by is "{by}"; choose instance or family.')
    if workers == 0:
        raise InstanceError("--workers is 0; give 1 or more, or -1 for all cores there are.")
    if report is not None:
        require_page(report)
    cluster = read_cluster(topology, host_type)
    problems = [
        with_failures_of(read_instance(reference, cluster), failures)
        for reference in expanded(instances)
    ]
    from alloc.comparison import compare
    from alloc.comparison.experiment import distinct_entries

    names = scheduler_list(schedulers)
    require_errors_seen(knowledge, work_error, speed_error)
    if schedulers == ALL:
        names = _told_enough(names, knowledge)
    else:
        # A misspelled name is refused before anything is said.
        made = [entry.build() for entry in distinct_entries(names)]
        if seeds > 1 and not (work_error or speed_error):
            _require_chance(made, seeds)
    if not quiet:
        say(
            f"{_count(len(names), 'scheduler')} on {_count(len(problems), 'instance')} with "
            f"{_count(seeds, 'seed')}; then each instance's bound, in up to {time_limit:g} s."
        )
    whoever = schedulers == ALL
    shown = partial(_show_unfinished, by=by, json=json, markdown=markdown, whoever=whoever)
    with progress("comparing", quiet) as line, _kept_store(store, line, shown) as (location, tell):
        comparison = compare(
            problems,
            names,
            seeds=range(seeds),
            knowledge=cast("Knowledge", knowledge),
            work_error=work_error,
            speed_error=speed_error,
            objective=objective,
            backend=backend,
            time_limit_s=time_limit,
            store=location,
            jobs=workers,
            parallel=parallel,
            progress=tell,
        )
        if json:
            print_text(comparison.to_json())
        else:
            print_tables(comparison, by, markdown=markdown)
        if report is not None:
            say_report(comparison, report, context)
    return code_of_comparison(comparison, whoever=whoever)


def require_errors_seen(knowledge: str, work_error: float, speed_error: float) -> None:
    """Refuse an error of estimates where nothing is estimated.

    Parameters
    ----------
    knowledge
        What schedulers are told: ``exact``, ``estimate`` or ``none``.
    work_error, speed_error
        Largest relative errors of work and speed, 0 or more.

    Raises
    ------
    InstanceError
        If there is an error of work but schedulers see no estimates, or one of speed but they see
        the exact rates.
    """
    for option, error, exact in (
        ("--work-error", work_error, knowledge != "estimate"),
        ("--speed-error", speed_error, knowledge == "exact"),
    ):
        if error > 0 and exact:
            raise InstanceError(
                f"{option} {error:g} needs estimates to be wrong, but schedulers are told "
                f'"{knowledge}"; add --knowledge estimate, or leave {option} out.'
            )


def _told_enough(names: "list[str | Entry]", knowledge: str) -> "list[str | Entry]":
    """Return the schedulers that can work with what they are told, and name the others."""
    from alloc.errors import AllocError
    from alloc.schedulers import make_scheduler
    from alloc.simulation.information import LEVELS, require_knowledge

    able: list[str | Entry] = []
    for name in names:
        try:
            if knowledge in LEVELS:
                require_knowledge(make_scheduler(str(name)), knowledge)
        except UnsupportedFeatureError as error:
            say(f"left out: {error}")
            continue
        except AllocError:
            pass  # a policy that cannot be made is a row that failed, with its reason
        able.append(name)
    return able


def _require_chance(made: "list[Scheduler]", seeds: int) -> None:
    """Refuse seeds that change nothing.

    Raises
    ------
    InstanceError
        If no scheduler draws and nothing is estimated.
    """
    if made and not any(getattr(scheduler, "draws", True) for scheduler in made):
        raise InstanceError(
            f"--seeds {seeds} changes nothing: none of these schedulers draws, and what they are "
            "told is exact; leave it out, or add --knowledge estimate --work-error 0.3 or "
            "--speed-error 0.1."
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _show_unfinished(place: str, *, by: str, json: bool, markdown: bool, whoever: bool) -> None:
    """Show the rows that were done before an interrupt, and say which of them failed."""
    from alloc.comparison import Comparison

    comparison = Comparison.from_store(place)
    if json:
        print_text(comparison.to_json())
    elif comparison.rows:
        print_tables(comparison, by, markdown=markdown)
    code_of_comparison(comparison, whoever)


def require_page(page: Path) -> None:
    """Refuse a report that is no HTML page before the work starts, and make the page's folder.

    Raises
    ------
    InstanceError
        If the name does not end in .html, or its folder cannot be made.
    """
    if page.suffix.lower() not in (".html", ".htm"):
        raise InstanceError(
            f"--report {page}: names an HTML page; write for example --report {page}/report.html."
        )
    make_folder(page.parent)


def say_report(comparison: "Comparison", page: Path, context: typer.Context) -> None:
    """Write the HTML report, its figures beside it, and say where they are.

    Parameters
    ----------
    comparison
        What the report is about.
    page
        The HTML file to write.
    context
        Knows the command line, which the report names.
    """
    from alloc.report import write_report

    figures = page.with_name(f"{page.stem}-figures")  # Another report may stand beside it.
    write_report(comparison, page, command=context.meta[COMMAND_LINE], figures=figures)
    say(f"report: {page}, its figures as PNG and SVG in {figures}")


def print_tables(comparison: "Comparison", by: str = "instance", *, markdown: bool = False) -> None:
    """Print the table of each instance or family.

    Parameters
    ----------
    comparison
        The comparison.
    by
        ``instance`` or ``family``.
    markdown
        Whether to print Markdown.
    """
    from alloc.comparison.tables import gap_tables, to_markdown, to_rich

    tables = gap_tables(comparison, cast("By", by))
    if markdown:
        print_text("\n".join(map(to_markdown, tables)))
    else:
        width = stdout_width()
        show(*(to_rich(table, width) for table in tables))
        from alloc.report.verdict import ties, verdict

        # A family's table is about all its instances, and these sentences are about one.
        solved = comparison.bounds if by == "instance" else ()
        for fingerprint in solved:
            where = f"{comparison.instance(fingerprint).name}: " if len(solved) > 1 else ""
            for sentence in ties(comparison, fingerprint):
                show(where + sentence)
        for fingerprint in solved:
            if (found := verdict(comparison, fingerprint)) is not None:
                show(found)


def code_of_comparison(comparison: "Comparison", whoever: bool = False) -> ExitCode:
    """Say which rows failed, and return the exit code: a row that failed is not a success.

    With `whoever`, nobody in particular was asked for; then a scheduler that is not made for the
    instance is left out.

    Parameters
    ----------
    comparison
        The comparison.
    whoever
        Whether nobody in particular was asked for.
    """
    failures = []
    for row in comparison.failures:
        unfit = whoever and str(row.error).startswith(UnsupportedFeatureError.__name__)
        say(f"{'left out' if unfit else 'failed'}: {row.scheduler} on {row.instance}: {row.error}")
        failures += [] if unfit else [row]
    return ExitCode.UNEXPECTED if failures else ExitCode.SOLVED


def scheduler_list(names: str) -> "list[str | Entry]":
    """Return the schedulers that a comma-separated list, or ``all``, stands for.

    Raises
    ------
    InstanceError
        If an option is not KEY=VALUE.
    """
    from alloc.comparison import Entry

    if names == ALL:
        from alloc.schedulers import scheduler_names

        return list(scheduler_names())
    found: list[str | Entry] = []
    for text in filter(None, map(str.strip, re.split(r",(?![^()]*\))", names))):
        name, options = name_and_options(text, "--schedulers")
        found.append(Entry(name, options) if options else name)
    return found


def name_and_options(text: str, option: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a scheduler, and its options where some stand in parentheses behind it.

    Parameters
    ----------
    text
        What the user wrote: ``NAME`` or ``NAME(KEY=VALUE, ...)``.
    option
        Name of the command's option, for messages.

    Raises
    ------
    InstanceError
        If an option is not KEY=VALUE.
    """
    # A name, which may be a path with parentheses, or a name with options.
    match = re.fullmatch(r"([^()]+)\(([^()]*)\)", text)
    if match is None:
        return text, {}
    pairs = [pair.strip() for pair in match[2].split(",") if pair.strip()]
    return match[1].strip(), parse_settings(pairs, option)


def describe(event: "CellEvent") -> str:
    """Return a line about a piece of work that is done."""
    how = "from the store" if event.stored else "done"
    return f"{event.done}/{event.total}  {event.label}: {event.error or how}"


@contextmanager
def _kept_store(
    location: str | None, line: Report, show_unfinished: Callable[[str], None]
) -> Iterator[tuple[str, Callable[["CellEvent"], None]]]:
    """Give finished work a place to stay if the comparison does not come to its end.

    Without a place chosen by the user it is a file that goes when all went well: work kept from one
    version of a scheduler to the next would be mistaken for the new one's. Yields the place, and
    what is to be told of every finished piece. After Ctrl-C what is done is shown.
    """
    folder = None if location is not None else Path(tempfile.mkdtemp(prefix="alloc-compare-"))
    place = str(location if folder is None else folder / "runs.sqlite")
    pieces = 0
    kept = f"finished work is in {place}; the same command with --store {place} goes on."

    def tell(event: "CellEvent") -> None:
        nonlocal pieces
        if not pieces:
            leave_words(kept)
        pieces = event.done
        line(describe(event))

    try:
        yield place, tell
    except BaseException as error:
        if pieces:
            try:
                if isinstance(error, KeyboardInterrupt):
                    show_unfinished(place)
            finally:  # also if it cannot be shown
                say(kept)
        else:
            if isinstance(error, KeyboardInterrupt):
                where = "FILE" if folder is not None else location
                say(
                    f"nothing was finished yet; the same command with --store {where} keeps each "
                    "row as it is done, and goes on from there."
                )
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        raise
    leave_words("")
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
