"""``alloc solve``."""

from collections.abc import Sequence
from json import loads as parse
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import (
    log_to,
    print_json,
    print_text,
    progress,
    require_writable,
    save,
    show,
)
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_result, worst_code
from alloc.cli.sources import expanded, read_answer, read_problem, solution_of
from alloc.cli.topology import HostTypeOption, TopologyOption
from alloc.errors import AllocError, InstanceError

if TYPE_CHECKING:
    from alloc.families import Family
    from alloc.result import Result


def solve_command(
    problem: options.ProblemArgument,
    formulation: options.FormulationOption = None,
    objective: options.ObjectiveOption = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    backend: options.BackendOption = "auto",
    time_limit: options.TimeLimitOption = options.SECONDS,
    gap: options.GapOption = options.GAP,
    seed: options.SeedOption = 0,
    workers: options.WorkersOption = 1,
    memory_limit: Annotated[
        int | None,
        typer.Option(
            help=f"{options.MEMORY} Near it the best answer so far is kept.",
            metavar="MIB",
            min=1,
            show_default=False,
        ),
    ] = None,
    warm_start: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Start from this result or solution of the same problem.",
            show_default=False,
        ),
    ] = None,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    log_file: options.LogFileOption = None,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Solve a problem of any family, with a proof of how good the answer is.

    The name of a family of stored instances, such as elastic-tiny, solves each of them.
    Ctrl-C ends the search and keeps the best answer found. Exit code: 0 with an answer, 3 if there
    is proved to be none, 4 if a limit came first.
    """
    require_writable(output)
    references = expanded([problem])
    if len(references) > 1 and (output is not None or warm_start is not None):
        raise InstanceError(
            f'"{problem}" is a family of {len(references)} instances, and --output and '
            f'--warm-start are of one answer; give one instance, such as "{references[0]}".'
        )
    cluster = read_cluster(topology, host_type)
    problems = [read_problem(reference, cluster) for reference in references]
    start = None
    if warm_start is not None:
        start = read_answer(warm_start)
        solution_of(start, warm_start)  # refused here, where the file has a name
    from alloc.families import family_of
    from alloc.result import Limits
    from alloc.solving import solve

    chosen = family_of(problems[0], formulation)
    results: list[Result[Any]] = []
    stopped: AllocError | KeyboardInterrupt | None = None
    with log_to(log_file):
        try:
            for asked in problems:
                with progress(f"solving {asked.name}", quiet) as report:
                    result = solve(
                        asked,
                        chosen.name,
                        backend,
                        objective=objective,
                        limits=Limits(time_limit, gap, seed, workers, memory_limit),
                        warm_start=start,
                        progress=report,
                    ).complete()
                results.append(result)
                if result.certificate.limit == "interrupt":
                    break
        except (AllocError, KeyboardInterrupt) as error:
            if not results:
                raise
            stopped = error  # What was solved before it is shown first.
    if len(problems) > 1:
        code = _show_family(chosen, problems, results, json)
        if stopped is not None:
            raise stopped
        return code
    (asked,) = problems
    if output is not None:
        save(result.to_json, output)
    if json:
        print_text(result.to_json())
    else:
        from alloc.cli.tables import result_tables

        show(*result_tables(chosen, asked, result))
    _explain(result, output)
    return code_of_result(result)


def _show_family(
    family: "Family", problems: Sequence[Any], results: "Sequence[Result[Any]]", json: bool
) -> ExitCode:
    """Print what came of each instance of a family, and return the worst exit code."""
    if json:
        print_json([parse(result.to_json()) for result in results])
    else:
        from alloc.cli.tables import percent, table

        first = results[0].certificate
        unit = family.unit(problems[0], first.objective_name)
        what = f"{first.objective_name.replace('_', ' ')}, {unit}".rstrip(", ")
        rows = [
            (
                *(asked.name, r.certificate.status.replace("_", " "), r.certificate.objective),
                *(r.certificate.bound, percent(r.certificate.gap)),
                round(r.certificate.seconds, 2),
            )
            for asked, r in zip(problems, results, strict=False)
        ]
        show(table(("instance", "status", what, "bound", "gap", "time, s"), rows))
    if len(results) < len(problems):
        say(f"not solved: {len(problems) - len(results)} of {len(problems)} instances.")
    return worst_code(code_of_result(result) for result in results)


def _explain(result: "Result[Any]", output: Path | None) -> None:
    """Say on standard error what an exit code other than 0 means."""
    certificate = result.certificate
    if certificate.status == "infeasible":
        say(f"infeasible: {result.conflict or 'there is proved to be no solution.'}")
        for option in result.repair_options:
            say(f"repair: {option}")
    elif certificate.limit == "interrupt":
        kept = "no answer had been found"
        if result.solution is not None:
            kept = f"the best answer so far is {'shown' if output is None else f'in {output}'}"
        say(f"interrupted: {kept}.")
    elif result.solution is None:
        more = "--memory-limit" if certificate.limit == "memory" else "--time-limit"
        say(
            f"no solution: the {certificate.limit or 'search'} limit was reached before any was "
            f"found; give more {more}, or a --warm-start."
        )
