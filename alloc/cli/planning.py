"""``alloc plan``, and what ``alloc what-if`` shares with it."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import options
from alloc.cli.completion import complete_planning_problem, complete_scheduler
from alloc.cli.console import print_json, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_certificate, worst_code
from alloc.cli.sources import is_sample, read_planning_problem
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from alloc.certificate import Certificate
    from alloc.planning.replay import ReplaySettings
    from alloc.planning.report import PlanReport
    from alloc.problems.allocation.instance import Instance
    from alloc.problems.right_sizing.plan import Plan
    from alloc.problems.right_sizing.problem import PlanningProblem
    from alloc.result import Limits, Result

ProblemArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="File of a planning problem, id of a stored one, or - for standard input.",
        autocompletion=complete_planning_problem,
        show_default=False,
    ),
]
ReplayOption = Annotated[
    bool,
    typer.Option(
        "--replay",
        help="Replay the plan in the simulator, and tighten the model until the goals hold there.",
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        help=f"{options.SCHEDULER} That of the replay.  [default: fifo]",
        metavar="NAME",
        autocompletion=complete_scheduler,
        show_default=False,
    ),
]
IterationsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help=f"{options.ITERATIONS} Of planning and replaying, with --replay.  [default: 5]",
        min=1,
        show_default=False,
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--replay-jobs",
        metavar="N",
        help="With --replay: jobs of each replication.  [default: 1000]",
        min=20,
        show_default=False,
    ),
]
ITERATIONS, _JOBS = 5, 1000
"""Iterations of planning and replaying, and jobs of a replication, unless asked otherwise."""


def plan_command(
    problem: ProblemArgument,
    replay: ReplayOption = False,
    scheduler: SchedulerOption = None,
    iterations: IterationsOption = None,
    replay_jobs: JobsOption = None,
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS",
            help="Instead of one plan, the front of cost against `goals`, `energy` or `carbon`.",
            show_default=False,
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(metavar="N", help="Points of a front of energy or carbon.", min=2)
    ] = 6,
    held_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Check the answer in the scenarios of this problem, which are not used for "
            "planning. With --replay also the jobs of later weeks, as they came "
            "(`alloc plan init --hold-out`).",
            show_default=False,
        ),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the problem, without owned hosts, budgets and caps, to a file to put your "
            "own offers, prices and sites into, and stop.",
            show_default=False,
        ),
    ] = None,
    time_limit: options.TimeLimitOption = 60.0,
    gap: options.GapOption = 0.01,
    seed: options.SeedOption = 0,
    workers: options.WorkersOption = 1,
    parallel: options.ParallelOption = None,
    output: options.OutputOption = None,
    report: options.ReportOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Find the cheapest hosts to buy or rent for a forecast, with a proof.

    `alloc plan init` writes a problem to edit, from a history of jobs and a price sheet.

    Exit code 3 if no plan can serve the forecast; the cheapest repair is printed. With --replay: 5
    if the goals did not hold in any iteration, or not in the later weeks.
    """
    require_replay(
        replay, {"--scheduler": scheduler, "--iterations": iterations, "--replay-jobs": replay_jobs}
    )
    require_writable(output)
    require_writable(report)
    asked = read_planning_problem(problem)
    if template is not None:
        return _write_template(asked, problem, template)
    unseen, weeks = _read_held_out(held_out, replay)
    if weeks is not None:
        from alloc.planning.later_weeks import require_classes

        require_classes(asked, weeks)
    limits = limits_of(time_limit, gap, seed, workers)
    if pareto is not None:
        if replay or report is not None or held_out is not None:
            raise typer.BadParameter(
                "--replay, --report and --held-out are of a plan, not of a front: leave out "
                "--pareto or them"
            )
        return _front(asked, pareto, points, limits, output, json, quiet)
    from alloc.planning.documents import encode_report
    from alloc.planning.report import plan

    replayed = replay_of(scheduler, replay_jobs, seed, workers) if replay else None
    with progress(f"planning {asked.name}", quiet) as watch, workers_of(parallel, workers):
        found = plan(
            asked,
            limits=limits,
            replay=replayed,
            max_iterations=iterations or ITERATIONS,
            held_out=() if unseen is None else unseen.scenarios,
            progress=watch,
        )
    document = encode_report(found)
    later = None
    if weeks is not None and replayed is not None and found.result.solution is not None:
        from alloc.planning.documents import encode_later_weeks
        from alloc.planning.later_weeks import replay_later_weeks

        later = replay_later_weeks(found.certified_problem, found.result.solution, weeks, replayed)
        document["later_weeks"] = encode_later_weeks(later)
    save_json(document, output)
    if report is not None:
        from alloc.report.planning import write_plan_report

        save(lambda path: write_plan_report(found, path), report)
    if json:
        print_json(document)
    else:
        from alloc.cli.planning_tables import plan_tables

        show(*plan_tables(found, document, later))
    say_outcome(found)
    code = code_of_report(found)
    if later is not None and not later.holds:
        say(f"later weeks: {later.sentence}")
        return ExitCode.MISSED if code is ExitCode.SOLVED else code
    return code


def _read_held_out(
    path: Path | None, replay: bool
) -> "tuple[PlanningProblem | None, Instance | None]":
    """Return what a plan is checked on: scenarios of a problem, or the jobs of later weeks."""
    if path is None:
        return None, None
    from alloc.cli.sources import read_any
    from alloc.problems.allocation.instance import Instance
    from alloc.problems.right_sizing.problem import PlanningProblem

    if is_sample(str(path)):
        return read_planning_problem(str(path)), None
    found = read_any(str(path))
    if isinstance(found, PlanningProblem):
        return found, None
    if not isinstance(found, Instance):
        raise InstanceError(
            f"{path}: is a {type(found).__name__}; --held-out takes a planning problem, or the "
            "jobs of later weeks that `alloc plan init --hold-out` writes."
        )
    if not replay:
        raise typer.BadParameter(
            f"--held-out {path} holds jobs, and they can only be simulated: add --replay"
        )
    return None, found


def _write_template(problem: "PlanningProblem", reference: str, path: Path) -> ExitCode:
    from alloc.problems.right_sizing.problem import PRICES

    require_writable(path)
    origin = f'made up, of the sample "{reference}"'
    if not is_sample(reference):
        origin = problem.description.get(PRICES, "")
    empty = problem.replace(
        name=path.stem.partition(".")[0],
        owned=(),
        budget=None,
        quarter_budgets=(),
        carbon_caps_kg=(),
        tightening=(),
        description={PRICES: origin} if origin else {},
    )
    save(empty.to_json, path)
    say(
        f"{path}: put in your offers, prices, sites and the hosts that you own"
        + (f', and take out "{PRICES}" of the description: plans repeat it.' if origin else ".")
    )
    return ExitCode.SOLVED


def _front(
    problem: Any,
    axis: str,
    points: int,
    limits: "Limits",
    output: Path | None,
    json: bool,
    quiet: bool,
) -> ExitCode:
    from alloc.planning.documents import encode_front
    from alloc.planning.fronts import pareto

    with progress(f"planning {problem.name}", quiet) as watch:
        front = pareto(problem, axis, points=points, limits=limits, progress=watch)  # type: ignore[arg-type]
    document = encode_front(front)
    save_json(document, output)
    if json:
        print_json(document)
    else:
        from alloc.cli.planning_tables import drawn
        from alloc.planning.tables import front_table

        show(drawn(front_table(front, problem.currency)))
    results = [point.result for point in front.points]
    if any(result.solution is not None for result in results):
        return ExitCode.SOLVED
    _say_conflict(results[-1])
    return worst_code(code_of_certificate(result.certificate) for result in results)


def workers_of(parallel: str | None, count: int) -> "AbstractContextManager[Any]":
    """Open the workers that a plan and its replays are to use.

    Parameters
    ----------
    parallel
        What starts the workers, such as ``loky`` or ``ray``; None for the usual ones.
    count
        Number of workers, 1 or more.

    Raises
    ------
    InstanceError
        If some are chosen and all is to be done in one process.
    """
    if parallel is None:
        return nullcontext()
    if count == 1:
        raise InstanceError(f"--parallel {parallel} needs workers: add --workers 2 or more.")
    from alloc.parallel import workers

    return workers(parallel, count)


def limits_of(time_limit: float, gap: float, seed: int, workers: int) -> "Limits":
    """Return the limits that options give.

    Parameters
    ----------
    time_limit
        Seconds, above 0.
    gap
        Relative gap, 0 or more.
    seed
        Random seed, 0 or more.
    workers
        Number of workers, 1 or more.
    """
    from alloc.result import Limits

    return Limits(time_limit, gap, seed, workers)


def replay_of(scheduler: str | None, jobs: int | None, seed: int, workers: int) -> "ReplaySettings":
    """Return what the options of a replay give.

    Parameters
    ----------
    scheduler
        Name of the scheduler; None for ``fifo``.
    jobs
        Jobs to simulate; None for the usual number.
    seed
        Random seed, 0 or more.
    workers
        Number of workers, 1 or more.
    """
    from alloc.planning.replay import ReplaySettings

    return ReplaySettings(scheduler or "fifo", jobs=jobs or _JOBS, seed=seed, workers=workers)


def require_replay(replay: bool, given: "dict[str, str | int | None]") -> None:
    """Refuse options of a replay where there is none: the plan would say nothing about them.

    Parameters
    ----------
    replay
        Whether there is a replay.
    given
        Value of each option of replays by its name; None where it was not given.
    """
    named = [option for option, value in given.items() if value is not None]
    if named and not replay:
        raise typer.BadParameter(
            f"{' and '.join(named)} {'need' if len(named) > 1 else 'needs'} --replay: without it "
            "nothing is simulated; add --replay"
        )


def save_json(document: Any, output: Path | None) -> None:
    """Write the JSON document of a command to a file, if one was named.

    Parameters
    ----------
    document
        Plain JSON values.
    output
        The file, or None.
    """
    if output is None:
        return
    import json

    from alloc.documents.files import write_text

    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    save(lambda path: write_text(path, text), output)


def say_outcome(found: "PlanReport") -> None:
    """Say what went wrong and how it could be cured."""
    _say_conflict(found.result)
    if found.replayed is not None and found.replayed.outcome not in ("holds", "no plan"):
        say(f"replay: {found.replayed.sentence}")


def say_stopped(certificate: "Certificate") -> None:
    """Say what it means that a search was stopped early, if it matters."""
    if certificate.limit == "interrupt":
        if certificate.objective is not None:
            kept = (
                "the plan is kept"
                if certificate.status == "optimal"
                else "the best plan so far is kept"
            )
        elif certificate.status == "infeasible":
            kept = "there is proved to be no plan, and what is missing was not found yet"
        else:
            kept = "no plan was found yet"
        say(f"interrupted: {kept}. To go on run it again; --time-limit ends it by itself.")
    elif certificate.status == "no_solution":
        say("no plan was found within the limits, and none is proved impossible; give more time.")


def _say_conflict(result: "Result[Plan]") -> None:
    if result.conflict is not None:
        say(f"infeasible: {result.conflict}")
    for way in result.repair_options:
        say(f"repair: {way}")
    say_stopped(result.certificate)


def code_of_report(found: "PlanReport") -> ExitCode:
    """Return the exit code of a plan, and of its replay."""
    if found.interrupted:
        return ExitCode.INTERRUPTED
    code = code_of_certificate(found.result.certificate)
    if code is not ExitCode.SOLVED or found.holds:
        return code
    return ExitCode.MISSED
