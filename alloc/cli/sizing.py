"""``alloc operate``, ``alloc size-inference`` and ``alloc plan-quotas``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.certificate import Certificate
from alloc.cli import options
from alloc.cli.completion import complete_operation_policy
from alloc.cli.console import print_text, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode
from alloc.cli.planning import WorkersOption

if TYPE_CHECKING:
    from alloc.capacity.inference_result import GoalCheck

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The problem, a JSON document.", show_default=False),
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
    workers: WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Decide which nodes are on and what runs on them until the next event.

    Costs are energy or rent until then, and tardiness; the exact decision comes with a proof.
    """
    require_writable(output)
    from alloc.planning.operation import load_operation, operate, write_operation_result

    asked = load_operation(problem)
    with progress(f"operating {problem.name}", quiet) as report:
        found = operate(
            asked, policy, time_limit_s=time_limit, seed=seed, workers=workers, report=report
        )
    if output is not None:
        save(lambda path: write_operation_result(found, path), output)
    if json:
        print_text(write_operation_result(found))
        return ExitCode.SOLVED
    from alloc.cli.tables import certificate_table, table

    show(certificate_table(found.certificate, "money"))
    rows = [
        (node.node, node.type, ", ".join(f"{job} ({gpus})" for job, gpus in node.jobs))
        for node in found.plan.nodes
    ]
    show(table(("node", "type", "jobs (GPUs)"), rows, "Nodes that are on"))
    if found.plan.postponed:
        show(f"Postponed: {', '.join(found.plan.postponed)}")
    return ExitCode.SOLVED


def size_inference_command(
    problem: FileArgument,
    requests: Annotated[
        int, typer.Option(help="Requests to simulate for each group of replicas; 0: none.", min=0)
    ] = 10_000,
    rounds: Annotated[int, typer.Option(help="Most rounds of solving and simulating.", min=1)] = 5,
    what_if: WhatIfOption = True,
    time_limit: options.TimeLimitOption = 60.0,
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
        size_inference,
        write_inference_result,
    )
    from alloc.solving.outcome import Settings

    asked = load_inference_problem(problem)
    with progress(f"sizing {problem.name}", quiet) as report:
        found = size_inference(
            asked,
            Settings(time_limit, seed, workers),
            replayed_requests=requests,
            most_rounds=rounds,
            what_if=what_if,
            progress=report,
        )
    if output is not None:
        save(lambda path: write_inference_result(found, path), output)
    if json:
        print_text(write_inference_result(found))
    else:
        from alloc.cli.tables import certificate_table, table

        show(certificate_table(found.certificate, "money"))
        if found.plan is not None:
            rows = [
                (
                    g.period,
                    g.model,
                    f"{g.gpu_type} x {g.tensor_parallel} x {g.pipeline_parallel}",
                    g.replicas,
                    g.batch_cap,
                    f"{g.rate_per_s:.4g}",
                )
                for g in found.plan.groups
            ]
            columns = ("period", "model", "GPUs x TP x PP", "replicas", "batch", "requests/s")
            show(table(columns, rows, "Replicas"))
        _show_goals(found.checks)
        show(*(f"  - {sentence}" for sentence in found.assumptions))
    return _outcome(found.certificate, found.conflict, [r.sentence for r in found.relaxations])


def plan_quotas_command(
    problem: FileArgument,
    rounds: Annotated[int, typer.Option(help="Most rounds of solving and checking.", min=1)] = 5,
    what_if: WhatIfOption = True,
    time_limit: options.TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    workers: WorkersOption = 1,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Find tenants' quotas under uncertain demand."""
    require_writable(output)
    from alloc.planning.quotas import load_quota_problem, plan_quotas, write_quota_result
    from alloc.solving.outcome import Settings

    asked = load_quota_problem(problem)
    with progress(f"quotas of {problem.name}", quiet) as report:
        found = plan_quotas(
            asked,
            Settings(time_limit, seed, workers),
            most_rounds=rounds,
            what_if=what_if,
            progress=report,
        )
    if output is not None:
        save(lambda path: write_quota_result(found, path), output)
    if json:
        print_text(write_quota_result(found))
    else:
        from alloc.cli.tables import certificate_table, percent, table

        show(certificate_table(found.certificate, ""))
        if found.plan is not None:
            rows = [(q.tenant, q.gpu_type, q.gpu_milli / 1000) for q in found.plan.quotas]
            show(table(("tenant", "GPU type", "GPUs"), rows, "Quotas"))
        outlooks = [
            (o.tenant, o.sample, percent(o.service), percent(o.coverage), o.shortfall_gpu_h)
            for o in found.outlooks
        ]
        columns = ("tenant", "sample", "served", "fully served", "short, GPU h")
        show(table(columns, outlooks, "What tenants get"))
        show(*(f"  - {sentence}" for sentence in found.assumptions))
    return _outcome(found.certificate, found.conflict, [r.sentence for r in found.relaxations])


def _show_goals(checks: "Sequence[GoalCheck]") -> None:
    from alloc.cli.tables import table

    rows = [
        (
            check.period,
            check.model,
            check.request_class,
            f"{check.measure} {check.goal_s:g} s",
            f"{check.allowed:.3g}",
            f"{check.predicted:.3g}",
            f"{check.simulated:.3g}" if check.requests else "",
        )
        for check in checks
    ]
    columns = ("period", "model", "requests", "goal", "late, allowed", "formula", "simulated")
    show(table(columns, rows, "Goals"))


def _outcome(certificate: Certificate, conflict: str | None, cures: list[str]) -> ExitCode:
    if conflict is not None:
        say(f"infeasible: {conflict}")
    for cure in cures:
        say(f"relief: {cure}")
    if certificate.limit == "interrupt":
        return ExitCode.INTERRUPTED
    if certificate.status == "infeasible":
        return ExitCode.INFEASIBLE
    return ExitCode.NO_SOLUTION if certificate.objective is None else ExitCode.SOLVED
