"""``alloc operate``, ``alloc size-inference`` and ``alloc plan-quotas``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import options
from alloc.cli.completion import complete_operation_policy
from alloc.cli.console import print_text, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_certificate
from alloc.cli.planning import say_stopped
from alloc.cli.sources import read_as
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from alloc.problems.inference_sizing.report import InferenceReport
    from alloc.problems.quota_planning.problem import DemandScenario, QuotaProblem
    from alloc.problems.quota_planning.report import QuotaReport
    from alloc.result import Result

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="The problem, a JSON document; - for standard input.",
        show_default=False,
    ),
]
WhatIfOption = Annotated[
    bool,
    typer.Option("--what-if/--no-what-if", help="Also solve with a little more of everything."),
]


def operate_command(
    problem: FileArgument,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="exact, or a policy: edf, greedy, andreas, path-relinking ...",
            autocompletion=complete_operation_policy,
        ),
    ] = "exact",
    time_limit: options.TimeLimitOption = 10.0,
    seed: options.SeedOption = 0,
    workers: options.WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Decide which nodes are on and what runs on them until the next event.

    Costs are energy or rent until then, and tardiness; the exact decision comes with a proof.
    """
    require_writable(output)
    from alloc.cli.sizing_tables import operation_tables
    from alloc.planning.operation import operate
    from alloc.problems.operation.problem import OperationProblem
    from alloc.result import Limits

    asked = read_as(problem, OperationProblem)
    with progress(f"operating {asked.name}", quiet) as report:
        found = operate(
            asked,
            policy,
            limits=Limits(time_limit, seed=seed, workers=workers),
            progress=report,
        )
    _deliver(found, lambda: operation_tables(found, asked.currency), output, json)
    return _outcome(found.result)


def size_inference_command(
    problem: FileArgument,
    requests: Annotated[
        int,
        typer.Option(
            metavar="N", help="Requests to simulate for each group of replicas; 0: none.", min=0
        ),
    ] = 10_000,
    iterations: options.IterationsOption = 5,
    what_if: WhatIfOption = True,
    time_limit: options.TotalTimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    workers: options.WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Find the cheapest replicas that serve every request within its latency goals, with a proof.

    Every group of replicas is simulated too. Exit code 3 if no replicas serve the requests, with
    what would be enough; 5 if the plan misses a goal in the simulation.
    """
    require_writable(output)
    from alloc.cli.sizing_tables import inference_tables
    from alloc.planning.inference import size_inference
    from alloc.problems.inference_sizing.problem import InferenceProblem
    from alloc.result import Limits

    asked = read_as(problem, InferenceProblem)
    with progress(f"sizing {asked.name}", quiet) as report:
        found = size_inference(
            asked,
            Limits(time_limit, seed=seed, workers=workers),
            replayed_requests=requests,
            max_iterations=iterations,
            what_if=what_if,
            progress=report,
        )
    _deliver(found, lambda: inference_tables(found, asked.currency), output, json)
    return _outcome(found.result, _missed_goals(found))


def plan_quotas_command(
    problem: FileArgument,
    held_out: options.HeldOutOption = None,
    iterations: options.IterationsOption = 5,
    what_if: WhatIfOption = True,
    time_limit: options.TotalTimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    workers: options.WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Find tenants' quotas under uncertain demand, with a proof of how good they are.

    Exit code 3 if no quotas keep the promises, with what would be enough. With --held-out and the
    goal least_quota: 5 if a promise does not hold in the scenarios held out.
    """
    require_writable(output)
    from alloc.cli.sizing_tables import quota_tables
    from alloc.planning.quotas import plan_quotas
    from alloc.problems.quota_planning.problem import QuotaProblem
    from alloc.result import Limits

    asked = read_as(problem, QuotaProblem)
    unseen: tuple[DemandScenario, ...] = ()
    if held_out is not None:
        other = read_as(str(held_out), QuotaProblem)
        unseen = _scenarios_for(asked, other, held_out)
    with progress(f"quotas of {asked.name}", quiet) as report:
        found = plan_quotas(
            asked,
            Limits(time_limit, seed=seed, workers=workers),
            held_out=unseen,
            max_iterations=iterations,
            what_if=what_if,
            progress=report,
        )
    _deliver(found, lambda: quota_tables(found), output, json)
    return _outcome(found.result, _missed_promises(found, asked))


def _scenarios_for(
    problem: "QuotaProblem", other: "QuotaProblem", path: Path
) -> "tuple[DemandScenario, ...]":
    """Return the scenarios of another problem, if they are about the same tenants and periods."""
    if other.period_hours != problem.period_hours:
        raise InstanceError(
            f"{path}: its scenarios have periods of {_hours(other)} hours, and those of "
            f'"{problem.name}" {_hours(problem)}; hold out scenarios of the same periods.'
        )
    try:
        return problem.replace(scenarios=other.scenarios).scenarios
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None


def _hours(problem: "QuotaProblem") -> str:
    return ", ".join(f"{hours:g}" for hours in problem.period_hours)


def _deliver(
    report: object,
    tables: "Callable[[], Sequence[RenderableType]]",
    output: Path | None,
    json: bool,
) -> None:
    """Write an answer to a file, and print it as a document or as tables."""
    from alloc.documents.reading import save as save_document

    if output is not None:
        save(lambda path: save_document(report, path), output)
    if json:
        print_text(save_document(report))
    else:
        show(*tables())


def _missed_goals(found: "InferenceReport") -> str | None:
    """Return which goals the simulation misses, in a sentence; None if it misses none."""
    from alloc.cli.tables import percent

    missed = [check for check in found.checks if not check.holds]
    if not missed:
        return None
    worst = max(missed, key=lambda check: check.simulated - check.allowed)
    return (
        f"{len(missed)} of {len(found.checks)} goals in the simulation, most of all model "
        f'"{worst.model}" in period "{worst.period}": {percent(worst.simulated)} of class '
        f'"{worst.request_class}" wait longer than {worst.goal_s:g} s for {worst.measure}, and '
        f"{percent(worst.allowed)} may; give more --iterations or --time-limit."
    )


def _missed_promises(found: "QuotaReport", problem: "QuotaProblem") -> str | None:
    """Return whose promise fails out of sample, in a sentence; None if none was made or fails."""
    from alloc.cli.tables import percent
    from alloc.planning.quotas import missed_promises

    if problem.goal != "least_quota" or found.converged:
        return None
    promised = {tenant.name: tenant.exceeding for tenant in problem.tenants}
    short = [
        f'tenant "{name}" is short for {percent(share)} of the time and was promised '
        f"{percent(promised[name])}"
        for name, share in missed_promises(found.outlooks, promised).items()
    ]
    if not short:
        return None
    return (
        f"out of sample {', '.join(short)}; give more --iterations, or more scenarios to plan for."
    )


def _outcome(result: "Result[Any]", missed: str | None = None) -> ExitCode:
    """Say what went wrong and how it could be cured; return the exit code."""
    if result.conflict is not None:
        say(f"infeasible: {result.conflict}")
    for option in result.repair_options:
        say(f"repair: {option}")
    if missed is not None:
        say(f"missed: {missed}")
    say_stopped(result.certificate)
    code = code_of_certificate(result.certificate)
    return ExitCode.MISSED if code is ExitCode.SOLVED and missed is not None else code
