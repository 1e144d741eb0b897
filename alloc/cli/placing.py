"""``alloc place``, ``alloc defrag`` and ``alloc explain``."""

import json as json_library
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from alloc.cli import options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import print_text, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_result
from alloc.cli.sources import read_instance
from alloc.cli.topology import HostTypeOption, TopologyOption

if TYPE_CHECKING:
    from alloc.certificate import Certificate
    from alloc.problems.allocation.instance import Instance
    from alloc.problems.allocation.solution import Allocation
    from alloc.schedulers.backfilling import Reservation

_RESERVING_S = 1.0
"""Seconds for the reserved starts at least, when explaining took all the time: a queue of hundreds
takes less."""

GoalOption = Annotated[
    str,
    typer.Option(
        "--objective",
        metavar="OBJECTIVE",
        help=f"{options.OBJECTIVE} For example `gpus_placed then moves` or `balance + 0.05 moves`.",
    ),
]


def place_command(
    instance: options.InstanceArgument,
    objective: GoalOption = "gpus_placed then moves",
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    backend: options.BackendOption = "auto",
    move_budget: options.MoveBudgetOption = None,
    evict: options.EvictOption = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Also fix violations already present."),
    ] = False,
    time_limit: options.TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Place a queue on a cluster as it stands, with a proof of how good the placement is.

    Jobs that find no hosts are listed with the reason. Running jobs stay where they are unless the
    instance, --move-budget or --evict says that they may move.
    """
    require_writable(output)
    problem = read_instance(instance, read_cluster(topology, host_type))
    problem = problem.with_moves(move_budget, evict)
    from alloc.result import Limits
    from alloc.solving.placing.place import place

    with progress(f"placing {problem.name}", quiet) as report:
        placement = place(
            problem,
            objective,
            backend=backend,
            repair=repair,
            limits=Limits(seconds=time_limit, seed=seed),
            progress=report,
        )
    result = placement.result
    for violation in placement.broken:
        say(f"{'repaired' if placement.repaired else 'left as it is'}: {violation}")
    if output is not None:
        save(result.to_json, output)
    if json:
        print_text(result.to_json())
    else:
        from alloc.cli.tables import certificate_table, drawn
        from alloc.report.answers import tables_of

        if result.solution is not None:
            show(_headline(problem, cast("Allocation", result.solution)))
        show(certificate_table(result.certificate, _unit(result.certificate)))
        _show_stages(result.stages)
        if result.solution is not None:
            show(*map(drawn, tables_of(result.solution, problem)))
            _show_reasons(result.solution.unplaced)
    if result.conflict is not None:
        say(f"infeasible: {result.conflict}")
    return code_of_result(result)


def defrag_command(
    instance: options.InstanceArgument,
    job: Annotated[
        str | None,
        typer.Option("--for", metavar="JOB", help="Let this waiting job in.", show_default=False),
    ] = None,
    empty: Annotated[
        list[str] | None,
        typer.Option(metavar="PLACE", help="Empty this host or domain; may be repeated."),
    ] = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    move_cost: Annotated[
        float,
        typer.Option(
            metavar="HOSTS",
            help="Cost of moving one task, in hosts, without --for or --empty.",
            min=0.0,
        ),
    ] = 0.05,
    backend: options.BackendOption = "auto",
    move_budget: options.MoveBudgetOption = None,
    time_limit: options.TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Re-place running jobs: let a gang in, empty hosts, or use fewer of them.

    Prints the moves in an order that can be carried out: in every step hosts hold what stands on
    them and what arrives. Exit code 3 if there is no way, 4 if none was found in time.
    """
    require_writable(output)
    problem = read_instance(instance, read_cluster(topology, host_type))
    if job is not None and empty:
        raise typer.BadParameter("give --for or --empty, not both")
    from alloc.result import Limits
    from alloc.solving.placing.defragmentation import consolidate, drain, make_room

    with progress(f"re-placing {problem.name}", quiet) as report:
        shared: dict[str, Any] = {
            "move_budget": move_budget,
            "backend": backend,
            "limits": Limits(time_limit, seed=seed),
            "progress": report,
        }
        if job is not None:
            found = make_room(problem, job, **shared)
        elif empty:
            found = drain(problem, empty, **shared)
        else:
            found = consolidate(problem, move_cost=move_cost, **shared)
    if output is not None:
        save(found.result.to_json, output)
    steps = () if found.migration is None else found.migration.steps
    if json:
        document = {
            "result": json_library.loads(found.result.to_json()),
            "steps": [[asdict(move) for move in step] for step in steps],
            "emptied": list(found.emptied),
            "blocked": found.blocked,
        }
        print_text(json_library.dumps(document, indent=2))
    else:
        from alloc.cli.tables import certificate_table, table

        show(certificate_table(found.result.certificate, _unit(found.result.certificate)))
        _show_stages(found.result.stages)
        rows = [(k, str(move)) for k, step in enumerate(steps, start=1) for move in step]
        if rows:
            plural = "" if found.num_moved == 1 else "s"
            show(table(("step", "move"), rows, f"{found.num_moved} move{plural}"))
        if found.emptied:
            print_text(f"emptied: {', '.join(found.emptied)}")
    if found.blocked is not None:
        say(f"no steps: {found.blocked}")
        optimal = found.result.certificate.status in ("optimal", "infeasible")
        return ExitCode.INFEASIBLE if optimal else ExitCode.NO_SOLUTION
    return code_of_result(found.result)


def explain_command(
    instance: options.InstanceArgument,
    job: Annotated[
        str | None,
        typer.Argument(metavar="JOB", help="A waiting job; by default all.", show_default=False),
    ] = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    moves: Annotated[
        bool,
        typer.Option(
            "--moves/--no-moves", help="Also look for running jobs that have to move or to end."
        ),
    ] = True,
    time_limit: options.TotalTimeLimitOption = 10.0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Say why a job cannot start now, and what would let it.

    The reason is a smallest set of requirements that conflict. Each cure was tried and would do on
    its own; the cheapest comes first.
    """
    problem = read_instance(instance, read_cluster(topology, host_type))
    running = {a.job for a in problem.running}
    asked = [job] if job is not None else [j.id for j in problem.jobs if j.id not in running]
    from alloc.result import Limits
    from alloc.solving.gang.cures import amount
    from alloc.solving.placing.explain import explain

    answers, reserved = {}, {}
    ends = time.perf_counter() + time_limit
    with progress(f"explaining {problem.name}", quiet) as report:
        for k, name in enumerate(asked):
            report(f"job {name}")
            share = max(ends - time.perf_counter(), 0.0) / (len(asked) - k)
            answers[name] = explain(
                problem, name, moves=moves and share > 0, limits=Limits(seconds=share or 1.0)
            )
        if any(answers.values()):
            report("reserved starts")
            reserved = _reserved(problem, max(ends - time.perf_counter(), _RESERVING_S))
    if json:
        print_text(
            json_library.dumps(
                {
                    name: {
                        "starts": e is None,
                        **({} if e is None else asdict(e)),
                        **({"reserved": reserved[name].sentence} if e and name in reserved else {}),
                    }
                    for name, e in answers.items()
                },
                indent=2,
            )
        )
        return ExitCode.SOLVED
    for name, explanation in answers.items():
        if explanation is None:
            print_text(f'job "{name}" can start now, if it alone is started.')
            continue
        print_text(explanation.sentence)
        for cure in explanation.relaxations:
            # A share of a gang concerns whole GPUs or tasks all the same.
            concerned = amount(math.ceil(round(cure.cost, 6)), cure.unit.removesuffix("s"))
            print_text(f"  - {cure.sentence} ({concerned} concerned)")
        if name in reserved:
            print_text(f"  {reserved[name].sentence}")
    return ExitCode.SOLVED


def _reserved(problem: "Instance", seconds: float) -> "dict[str, Reservation]":
    """Return the starts reserved for jobs that wait; none where rules or time leave none."""
    from alloc.clock import time_limit
    from alloc.errors import OutOfTime, UnsupportedFeatureError
    from alloc.simulation.reserved import reserved_starts

    try:
        with time_limit(seconds):
            return reserved_starts(problem)
    except (OutOfTime, UnsupportedFeatureError):
        return {}


def _headline(problem: "Instance", placed: "Allocation") -> str:
    """Return what a placement comes to, in GPUs and jobs."""
    from alloc.units import MILLI

    held = sum(
        problem.job(a.job).configurations[a.configuration].demand[0] for a in placed.assignments
    )
    gpus = f"{held / MILLI:,.10g} of {problem.topology.num_gpus:,} GPUs"
    running = {assignment.job for assignment in problem.running}
    started = sum(a.job not in running for a in placed.assignments)
    waiting = sum(job.id not in running for job in problem.jobs)
    queue = f"{started} of {waiting} waiting jobs start" if waiting else "no job waits"
    return f"{gpus} in use; {queue}."


def _show_stages(stages: "Sequence[Certificate]") -> None:
    """Show what each stage of an objective reached, where there are several."""
    if len(stages) < 2:
        return
    from alloc.cli.tables import number, table

    rows = [
        (
            *(k, c.objective_name.replace("_", " "), number(c.objective or 0.0)),
            *(number(c.bound), _unit(c), c.status),
        )
        for k, c in enumerate(stages, start=1)
    ]
    show(table(("stage", "objective", "value", "bound", "unit", "status"), rows))


def _show_reasons(unplaced: Any) -> None:
    from alloc.cli.tables import MAX_ROWS

    for k, reason in enumerate(unplaced.values()):
        if k == MAX_ROWS:
            print_text(f"... and {len(unplaced) - MAX_ROWS} more jobs wait (--json lists them).")
            return
        print_text(reason)


def _unit(certificate: "Certificate") -> str:
    """Return the unit of what a placement is about."""
    from alloc.objectives import objective

    return objective(certificate.objective_name).unit
