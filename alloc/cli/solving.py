"""``alloc solve``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from alloc.cli import options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import (
    log_to,
    print_text,
    progress,
    require_writable,
    save,
    show,
)
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_result
from alloc.cli.sources import read_answer, read_problem, solution_of
from alloc.cli.topology import HostTypeOption, TopologyOption
from alloc.result import Limits, Result


def solve_command(
    problem: options.ProblemArgument,
    formulation: options.FormulationOption = None,
    objective: options.ObjectiveOption = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    backend: options.BackendOption = "auto",
    time_limit: options.TimeLimitOption = Limits.seconds,
    gap: options.GapOption = Limits.gap,
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

    Ctrl-C ends the search and keeps the best answer found. Exit code: 0 with an answer, 3 if there
    is proved to be none, 4 if a limit came first.
    """
    require_writable(output)
    asked = read_problem(problem, read_cluster(topology, host_type))
    start = None
    if warm_start is not None:
        start = read_answer(warm_start)
        solution_of(start, warm_start)  # refused here, where the file has a name
    from alloc.families import family_of
    from alloc.solving import solve

    chosen = family_of(asked, formulation)
    with log_to(log_file), progress(f"solving {asked.name}", quiet) as report:
        result = solve(
            asked,
            chosen.name,
            backend,
            objective=objective,
            limits=Limits(time_limit, gap, seed, workers, memory_limit),
            warm_start=start,
            progress=report,
        ).complete()
    if output is not None:
        save(result.to_json, output)
    if json:
        print_text(result.to_json())
    else:
        from alloc.cli.tables import result_tables

        show(*result_tables(chosen, asked, result))
    _explain(result, output)
    return code_of_result(result)


def _explain(result: Result[Any], output: Path | None) -> None:
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
