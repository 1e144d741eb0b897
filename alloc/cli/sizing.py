"""``alloc operate``, ``alloc size-inference`` and ``alloc plan-quotas``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.certificate import Certificate
from alloc.cli import options
from alloc.cli.completion import complete_operation_policy
from alloc.cli.console import print_text, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode
from alloc.cli.planning import WorkersOption, say_stopped
from alloc.cli.sources import read_document

if TYPE_CHECKING:
    from rich.console import RenderableType

    from alloc.capacity.inference_result import InferenceResult, Resolve
    from alloc.capacity.operation_result import OperationResult
    from alloc.capacity.quota_result import QuotaResult

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="The problem, a JSON document; - for standard input.",
        show_default=False,
    ),
]
WhatIfOption = Annotated[
    bool,
    typer.Option("--what-if/--no-what-if", help="Also solve with a little more of everything."),
]
TimeLimitOption = Annotated[
    float, typer.Option(help="Wall time of all solves together.", metavar="SECONDS", min=0.001)
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
    workers: WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Decide which nodes are on and what runs on them until the next event.

    Costs are energy or rent until then, and tardiness; the exact decision comes with a proof.
    """
    require_writable(output)
    from alloc.planning.operation import (
        load_operation,
        operate,
        parse_operation,
        write_operation_result,
    )

    asked = read_document(problem, parse_operation, load_operation)
    with progress(f"operating {asked.name}", quiet) as report:
        found = operate(
            asked, policy, time_limit_s=time_limit, seed=seed, workers=workers, report=report
        )
    _deliver(
        lambda path: write_operation_result(found, path),
        lambda: _operation_tables(found, asked.currency),
        output,
        json,
    )
    return _outcome(found.certificate)


def size_inference_command(
    problem: FileArgument,
    requests: Annotated[
        int, typer.Option(help="Requests to simulate for each group of replicas; 0: none.", min=0)
    ] = 10_000,
    rounds: Annotated[int, typer.Option(help="Most rounds of solving and simulating.", min=1)] = 5,
    what_if: WhatIfOption = True,
    time_limit: TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    workers: WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Find the cheapest replicas that serve every request within its latency goals."""
    require_writable(output)
    from alloc.planning.inference import (
        load_inference_problem,
        read_inference_problem,
        size_inference,
        write_inference_result,
    )
    from alloc.solving.outcome import Settings

    asked = read_document(problem, read_inference_problem, load_inference_problem)
    with progress(f"sizing {asked.name}", quiet) as report:
        found = size_inference(
            asked,
            Settings(time_limit, seed, workers),
            replayed_requests=requests,
            most_rounds=rounds,
            what_if=what_if,
            progress=report,
        )
    _deliver(
        lambda path: write_inference_result(found, path),
        lambda: _inference_tables(found, asked.currency),
        output,
        json,
    )
    return _outcome(found.certificate, found.conflict, [r.sentence for r in found.relaxations])


def plan_quotas_command(
    problem: FileArgument,
    rounds: Annotated[int, typer.Option(help="Most rounds of solving and checking.", min=1)] = 5,
    what_if: WhatIfOption = True,
    time_limit: TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    workers: WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Find tenants' quotas under uncertain demand."""
    require_writable(output)
    from alloc.planning.quotas import (
        load_quota_problem,
        plan_quotas,
        read_quota_problem,
        write_quota_result,
    )
    from alloc.solving.outcome import Settings

    asked = read_document(problem, read_quota_problem, load_quota_problem)
    with progress(f"quotas of {asked.name}", quiet) as report:
        found = plan_quotas(
            asked,
            Settings(time_limit, seed, workers),
            most_rounds=rounds,
            what_if=what_if,
            progress=report,
        )
    _deliver(
        lambda path: write_quota_result(found, path), lambda: _quota_tables(found), output, json
    )
    return _outcome(found.certificate, found.conflict, [r.sentence for r in found.relaxations])


def _deliver(
    write: Callable[[Path | None], str],
    tables: "Callable[[], Sequence[RenderableType]]",
    output: Path | None,
    json: bool,
) -> None:
    """Write an answer to a file, and print it as a document or as tables."""
    if output is not None:
        save(write, output)
    if json:
        print_text(write(None))
    else:
        show(*tables())


def _operation_tables(found: "OperationResult", currency: str) -> "list[RenderableType]":
    from alloc.cli.tables import certificate_table, table

    rows = [
        (node.node, node.type, ", ".join(f"{job} ({gpus})" for job, gpus in node.jobs))
        for node in found.plan.nodes
    ]
    costs = found.costs
    money = [
        ("nodes", costs.operating),
        ("tardiness", costs.tardiness),
        ("feared of jobs that wait", costs.postponement),
    ]
    shown: list[RenderableType] = [
        certificate_table(found.certificate, currency),
        table(("part", "money"), money, f"Cost, {currency}"),
        table(("node", "type", "jobs (GPUs)"), rows, "Nodes that are on"),
    ]
    if found.plan.postponed:
        shown.append(f"Postponed: {', '.join(found.plan.postponed)}")
    return shown


def _inference_tables(found: "InferenceResult", currency: str) -> "list[RenderableType]":
    from alloc.cli.tables import certificate_table, percent, table

    shown: list[RenderableType] = [certificate_table(found.certificate, currency)]
    if found.plan is not None:
        rows = [
            (
                group.period,
                group.model,
                f"{group.gpu_type} x {group.tensor_parallel} x {group.pipeline_parallel}",
                group.replicas,
                group.batch_cap,
                f"{group.rate_per_s:.4g}",
            )
            for group in found.plan.groups
        ]
        columns = ("period", "model", "GPUs x TP x PP", "replicas", "batch", "requests/s")
        shown.append(table(columns, rows, "Replicas"))
    if found.checks:
        goals = [
            (
                check.period,
                check.model,
                check.option,
                check.request_class,
                f"{check.measure} {check.goal_s:g} s",
                percent(check.allowed),
                percent(check.predicted),
                percent(check.simulated) if check.requests else None,
            )
            for check in found.checks
        ]
        headings = (
            "period",
            "model",
            "on",
            "requests",
            "goal",
            "late, at most",
            "formula",
            "simulated",
        )
        shown.append(table(headings, goals, f"Goals, round {found.rounds}"))
    shown += _resolved(found.resolves, f"cost, {currency}")
    return shown + _assumed(found.assumptions)


def _quota_tables(found: "QuotaResult") -> "list[RenderableType]":
    from alloc.cli.tables import certificate_table, percent, table

    goal = found.certificate.objective_name.replace("_", " ")
    unit = "GPU h" if found.certificate.objective_name == "expected_shortfall" else ""
    shown: list[RenderableType] = [certificate_table(found.certificate, unit)]
    if found.plan is not None:
        rows = [(q.tenant, q.gpu_type, q.gpu_milli / 1000) for q in found.plan.quotas]
        shown.append(table(("tenant", "GPU type", "GPUs"), rows, "Quotas"))
        outlooks = [
            (o.tenant, o.sample, percent(o.service), percent(o.coverage), o.shortfall_gpu_h)
            for o in found.outlooks
        ]
        columns = ("tenant", "sample", "served", "fully served", "short, GPU h")
        shown.append(table(columns, outlooks, "What tenants get"))
    shown += _resolved(found.resolves, goal)
    return shown + _assumed(found.assumptions)


def _resolved(resolves: "Sequence[Resolve]", what: str) -> "list[RenderableType]":
    """Return what a little more of each thing would change, by solving again."""
    from alloc.cli.tables import number, table

    if not resolves:
        return []
    one = {"host": "one more host", "gpu": "one more GPU"}
    rows = [
        (
            one.get(change.kind, f"{change.amount:g} {change.unit}"),
            change.name,
            "no plan" if change.cost_change is None else number(change.cost_change),
            change.exact,
        )
        for change in resolves
    ]
    columns = ("what if", "which", f"adds to the {what}", "proved")
    return [table(columns, rows, "A little more, solved again")]


def _assumed(assumptions: Sequence[str]) -> "list[RenderableType]":
    return ["Assumptions:", *(f"  - {sentence}" for sentence in assumptions)]


def _outcome(
    certificate: Certificate, conflict: str | None = None, cures: Sequence[str] = ()
) -> ExitCode:
    if conflict is not None:
        say(f"infeasible: {conflict}")
    for cure in cures:
        say(f"relief: {cure}")
    say_stopped(certificate)
    if certificate.limit == "interrupt":
        return ExitCode.INTERRUPTED
    if certificate.status == "infeasible":
        return ExitCode.INFEASIBLE
    return ExitCode.NO_SOLUTION if certificate.objective is None else ExitCode.SOLVED
