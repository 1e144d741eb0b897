"""``alloc demo``."""

from pathlib import Path
from typing import Annotated

import typer

from alloc.cli import options
from alloc.cli.comparing import (
    code_of_comparison,
    describe,
    print_tables,
    say_report,
)
from alloc.cli.console import make_folder, print_text, progress
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode
from alloc.cli.sources import read_instance

DEMO_INSTANCE = "elastic-small/04"
"""Contended, with jobs that arrive one after the other; proved optimal in some seconds."""


def demo_command(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the report goes.")
    ] = Path("demo-output"),
    instance: options.InstanceArgument = DEMO_INSTANCE,
    time_limit: options.TimeLimitOption = 60.0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Prove the optimum of a small cluster, and show how far every scheduler is from it.

    Takes under two minutes and leaves an HTML report with plots.
    """
    make_folder(output)
    problem = read_instance(instance)
    from alloc.comparison import compare
    from alloc.schedulers import scheduler_names

    if not quiet:
        say(
            f"{problem.name}: {len(problem.jobs)} elastic training jobs on "
            f"{problem.topology.num_gpus} GPUs, solved to the optimum and run by "
            f"{len(scheduler_names())} schedulers."
        )
    with progress("demo", quiet) as line:
        comparison = compare(
            [problem],
            scheduler_names(),
            time_limit_s=time_limit,
            progress=lambda event: line(describe(event)),
        )
    if json:
        print_text(comparison.to_json())
    else:
        print_tables(comparison)
    say_report(comparison, output, context)
    return code_of_comparison(comparison)
