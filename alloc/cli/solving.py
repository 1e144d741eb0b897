"""``alloc solve``."""

from pathlib import Path
from typing import Annotated

import typer

from alloc.cli import options
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
from alloc.cli.sources import read_answer, read_instance, solution_of
from alloc.problems.allocation.solution import Solution
from alloc.result import Limits, Result


def solve_command(
    instance: options.InstanceArgument,
    formulation: options.FormulationOption = "malleable",
    objective: options.ObjectiveOption = None,
    backend: options.BackendOption = "auto",
    time_limit: options.TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    workers: Annotated[int, typer.Option(help="Threads of the solver.", min=1)] = 1,
    warm_start: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Start from this result or solution of the same instance.",
            show_default=False,
        ),
    ] = None,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    log_file: options.LogFileOption = None,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Solve an instance, with a proof of how good the answer is.

    Ctrl-C ends the search and keeps the best answer found. Exit code: 0 with an answer, 3 if there
    is proved to be none, 4 if a limit came first.
    """
    require_writable(output)
    problem = read_instance(instance)
    start = None
    if warm_start is not None:
        start = read_answer(warm_start)
        solution_of(start, warm_start)  # refused here, where the file has a name
    from alloc.solving import solve

    with log_to(log_file), progress(f"solving {problem.name}", quiet) as report:
        result = solve(
            problem,
            formulation,
            backend,
            objective=objective,
            limits=Limits(seconds=time_limit, seed=seed, workers=workers),
            warm_start=start,
            progress=report,
        )
    if output is not None:
        save(result.to_json, output)
    if json:
        print_text(result.to_json())
    else:
        from alloc.cli.tables import certificate_table, solution_table

        show(certificate_table(result.certificate))
        if result.solution is not None:
            show(solution_table(problem, result.solution))
    _explain(result, output)
    return code_of_result(result)


def _explain(result: Result[Solution], output: Path | None) -> None:
    """Say on standard error what an exit code other than 0 means."""
    certificate = result.certificate
    if certificate.status == "infeasible":
        say(f"infeasible: {result.conflict or 'there is proved to be no solution.'}")
    elif certificate.limit == "interrupt":
        kept = "no answer had been found"
        if result.solution is not None:
            kept = f"the best answer so far is {'shown' if output is None else f'in {output}'}"
        say(f"interrupted: {kept}.")
    elif result.solution is None:
        say(
            f"no solution: the {certificate.limit or 'search'} limit was reached before any was "
            "found; give more --time-limit, or a --warm-start."
        )
