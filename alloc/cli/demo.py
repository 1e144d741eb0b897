"""``alloc demo``."""

from pathlib import Path

import typer

from alloc.cli import options
from alloc.cli.comparing import (
    code_of_comparison,
    describe,
    print_tables,
    require_page,
    say_report,
)
from alloc.cli.console import print_text, progress
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode
from alloc.cli.sources import read_instance

DEMO_INSTANCE = "elastic-small/04"
"""Contended, with jobs that arrive one after the other; proved optimal in some seconds."""
DEMO_SCHEDULERS = ("fifo", "srtf", "drf", "optimus", "first-fit", "best-fit", "set-rule", "rollout")
"""What clusters run, what papers compare with, and the best rules here. First fit and best fit
differ in hosts only and tie: hosts make no difference to such jobs."""


def demo_command(
    context: typer.Context,
    instance: options.InstanceArgument = DEMO_INSTANCE,
    report: options.ReportOption = Path("demo-output/report.html"),
    time_limit: options.TimeLimitOption = 60.0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Prove the optimum of a small cluster, and show how far eight schedulers are from it.

    Takes half a minute and leaves an HTML report with plots.
    """
    if report is not None:
        require_page(report)
    problem = read_instance(instance)
    from alloc.comparison import compare

    if not quiet:
        say(
            f"{problem.name}: {len(problem.jobs)} elastic training jobs on "
            f"{problem.topology.num_gpus} GPUs, solved to the optimum and run by "
            f"{len(DEMO_SCHEDULERS)} schedulers."
        )
    with progress("demo", quiet) as line:
        comparison = compare(
            [problem],
            DEMO_SCHEDULERS,
            time_limit_s=time_limit,
            progress=lambda event: line(describe(event)),
        )
    if json:
        print_text(comparison.to_json())
    else:
        print_tables(comparison)
    if report is not None:
        say_report(comparison, report, context)
    return code_of_comparison(comparison)
