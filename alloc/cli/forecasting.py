"""``alloc forecast``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.cli import options
from alloc.cli.console import Report, print_text, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.planning import ProblemArgument
from alloc.cli.sources import is_sample, read_instance, read_planning_problem
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alloc.planning.history import History
    from alloc.planning.promises import Wanted
    from alloc.problems.right_sizing.demand import JobClass, Scenario
    from alloc.problems.right_sizing.problem import PlanningProblem

RateOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=JOBS",
        help="Jobs per hour of a class of the problem in the first quarter; one for every class.",
        show_default=False,
    ),
]
SPEED = "Speed of a GPU type in relation to those of the history."
GOAL = (
    "Goal of a class or a pattern of classes, for example '8-gpu*=wait 2h 95%', '*=jct 24h mean' "
    "or '*=none'."
)
SpeedOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=SPEED",
        help=f"{SPEED} With --history.",
        show_default=False,
    ),
]

GoalOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=GOAL",
        help=f"{GOAL} With --history; without one a class keeps the goal that the problem has for "
        "it, else 95 % of its jobs wait no longer than its mean run time.",
        show_default=False,
    ),
]


def forecast_command(
    problem: ProblemArgument,
    history: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANCE",
            help="Draw weeks from this instance, for example a trace read with `alloc instances "
            "import`; its jobs become the classes.",
            show_default=False,
        ),
    ] = None,
    rate: RateOption = None,
    speed: SpeedOption = None,
    goal: GoalOption = None,
    interruptible: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            help="With --history: a class, or pattern of classes, that may run on spot hosts.",
            show_default=False,
        ),
    ] = None,
    deferrable: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            help="With --history: a class, or pattern of classes, that may run at other hours.",
            show_default=False,
        ),
    ] = None,
    growth: Annotated[float, typer.Option(metavar="FRACTION", help="Growth per quarter.")] = 0.0,
    variation: Annotated[
        float,
        typer.Option(
            metavar="FRACTION", help="With --rate: coefficient of variation of a rate.", min=0.0
        ),
    ] = 0.0,
    scenarios: Annotated[int, typer.Option(metavar="N", help="Scenarios to draw.", min=1)] = 50,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Reduce the scenarios drawn to N representative ones.",
            min=1,
            show_default=False,
        ),
    ] = None,
    block_weeks: Annotated[
        int,
        typer.Option(metavar="WEEKS", help="With --history: weeks in a row drawn together.", min=1),
    ] = 1,
    hold_out: Annotated[
        int,
        typer.Option(
            help="Leave the last weeks out, for --held-out-output. With --history.",
            min=0,
            metavar="WEEKS",
        ),
    ] = 0,
    held_out_output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the weeks left out, for `alloc plan --held-out`. As scenarios of the "
            "problem.",
            show_default=False,
        ),
    ] = None,
    seed: options.SeedOption = 0,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Put a forecast into a planning problem: from a history of weeks, or from rates.

    The answer is the problem with new scenarios, ready for `alloc plan`.
    """
    require_writable(output)
    require_writable(held_out_output)
    if (hold_out > 0) != (held_out_output is not None) or (hold_out and history is None):
        raise typer.BadParameter("--hold-out, --held-out-output and --history go together")
    if (history is None) == (not rate):
        raise typer.BadParameter("give --history or --rate, one of the two")
    if history is None and (goal or interruptible or deferrable):
        raise typer.BadParameter("--goal, --interruptible and --deferrable go with --history")
    asked = _base(problem, history is not None)
    wanted = parse_goals(goal or [])
    later = None
    with progress(f"forecasting {asked.name}", quiet) as report:
        if history is not None:
            report(f"reading {history}")
            seen = _history(history, speed or [])
            for why, count in seen.left_out.items():
                say(f"left out: {count} {why}")

            classes = _promised(asked, seen.classes, wanted, interruptible, deferrable)

            def draw(weeks: "History", block: int) -> "tuple[Scenario, ...]":
                from alloc.planning.forecasts import bootstrap_weeks

                report(f"drawing {scenarios} scenarios from {weeks.num_weeks} weeks")
                return bootstrap_weeks(
                    weeks,
                    asked.num_quarters,
                    num_scenarios=scenarios,
                    growth=growth,
                    block_weeks=block,
                    seed=seed,
                )

            if held_out_output is not None:
                seen, unseen = seen.split(hold_out)
                # Few weeks are left out; a block is then all of them.
                later = _with(asked, classes, draw(unseen, min(block_weeks, hold_out)))
            drawn = draw(seen, block_weeks)
            asked = _with(asked, classes, _kept(drawn, keep, report))
        else:
            from alloc.planning.forecasts import scenarios_from_rates

            drawn = scenarios_from_rates(
                asked.classes,
                parse_numbers(rate or [], "--rate"),
                asked.num_quarters,
                num_scenarios=scenarios,
                growth=growth,
                variation=variation,
                seed=seed,
            )
            asked = asked.replace(scenarios=_kept(drawn, keep, report))
    if is_sample(problem):
        say(f"note: {_made_up(problem, asked)}.")
    if later is not None and held_out_output is not None:
        save(later.to_json, held_out_output)
    if output is not None:
        save(asked.to_json, output)
    if json or output is None:
        print_text(asked.to_json())
    else:
        _show(asked)


def _base(reference: str, is_measured: bool) -> "PlanningProblem":
    """Return the problem to forecast for; of a sample nothing may pass for the user's own."""
    asked = read_planning_problem(reference)
    if is_measured and is_sample(reference):
        raise InstanceError(
            f"forecast: {_made_up(reference, asked)}. Write it to a file with `alloc plan "
            f"{reference} --template mine.json`, put in your offers, prices and sites, and "
            "forecast for mine.json."
        )
    return asked


def _made_up(reference: str, problem: "PlanningProblem") -> str:
    hosts = sum(hosts.count for hosts in problem.owned)
    owned = f", and so are the {hosts} hosts that it owns" if hosts else ""
    return f'"{reference}" is a sample: its offers, prices and sites are made up{owned}'


def parse_goals(pairs: list[str]) -> "list[Wanted]":
    """Return the classes and goals that CLASS=GOAL pairs name."""
    from alloc.planning.change_text import parse_goal

    found: list[Wanted] = []
    for pair in pairs:
        name, equals, text = pair.rpartition("=")
        if not equals or not name:
            raise InstanceError(
                f'--goal is "{pair}"; write CLASS=GOAL, for example "8-gpu*=wait 2h 95%".'
            )
        found.append((name, parse_goal(f"--goal {pair}", text)))
    return found


def _promised(
    problem: "PlanningProblem",
    counted: "Sequence[JobClass]",
    wanted: "list[Wanted]",
    interruptible: list[str] | None,
    deferrable: list[str] | None,
) -> "tuple[JobClass, ...]":
    """Return the classes of a history with what they are promised, and say what is assumed."""
    from dataclasses import replace
    from fnmatch import fnmatchcase

    from alloc.planning.promises import kept_promises, require_match, with_goals

    classes, defaults = with_goals(kept_promises(counted, problem.classes), wanted)
    for pattern in interruptible or []:
        require_match(pattern, classes, "--interruptible")
        classes = tuple(
            replace(c, interruptible=True) if fnmatchcase(c.name, pattern) else c for c in classes
        )
    for pattern in deferrable or []:
        require_match(pattern, classes, "--deferrable")
        classes = tuple(
            replace(c, deferrable=True) if fnmatchcase(c.name, pattern) else c for c in classes
        )
    if defaults:
        say(
            f"note: {len(defaults)} of {len(classes)} classes had no goal; of each of them 95 % of "
            "the jobs are promised to wait no longer than its mean run time in the history. Set "
            "other goals with --goal."
        )
    gone = sorted({c.name for c in problem.classes} - {c.name for c in classes})
    if gone:
        say(
            f"note: {len(gone)} classes of the problem are not in the history and are left out, "
            f"with their goals: {', '.join(gone[:8])}{' ...' if len(gone) > 8 else ''}."
        )
    return classes


def _with(
    problem: "PlanningProblem", classes: "tuple[JobClass, ...]", scenarios: "tuple[Scenario, ...]"
) -> "PlanningProblem":
    """Return the problem with other classes, of which no replay has said anything yet."""
    return problem.replace(classes=classes, scenarios=scenarios, tightening=())


def _history(reference: str, speeds: list[str]) -> "History":
    from alloc.planning.history import history_of_instance

    if not speeds:
        raise typer.BadParameter("--history needs --speed for each GPU type that the plan may use")
    return history_of_instance(read_instance(reference), speeds=parse_numbers(speeds, "--speed"))


def _kept(
    drawn: "tuple[Scenario, ...]", keep: int | None, report: Report
) -> "tuple[Scenario, ...]":
    if keep is None or keep >= len(drawn):
        return drawn
    report(f"keeping {keep} scenarios that stand for {len(drawn)}")
    from alloc.planning.reduction import reduce_scenarios

    return reduce_scenarios(drawn, keep)


def parse_numbers(pairs: list[str], option: str) -> dict[str, float]:
    """Return the numbers of NAME=NUMBER pairs by name.

    Parameters
    ----------
    pairs
        What the user wrote, each NAME=NUMBER.
    option
        Name of the option, for messages.
    """
    found = {}
    for pair in pairs:
        name, equals, text = pair.rpartition("=")
        if not equals or not name:
            raise InstanceError(f'{option} is "{pair}"; write NAME=NUMBER.')
        try:
            found[name] = float(text)
        except ValueError:
            raise InstanceError(
                f'{option} {name}: "{text}" is not a number; write {option} {name}=2.'
            ) from None
    return found


def _show(problem: "PlanningProblem") -> None:
    from alloc.cli.tables import table

    rows = []
    for job_class in problem.classes:
        first = [scenario.arrivals[job_class.name][0] for scenario in problem.scenarios]
        last = [scenario.arrivals[job_class.name][-1] for scenario in problem.scenarios]
        rows.append(
            (
                job_class.name,
                min(option.gpus for option in job_class.options),
                f"{min(option.hours for option in job_class.options):.3g}",
                f"{min(first):.3g} to {max(first):.3g}",
                f"{min(last):.3g} to {max(last):.3g}",
                "none" if job_class.goal is None else job_class.goal.sentence,
            )
        )
    title = f"{len(problem.scenarios)} scenarios over {problem.num_quarters} quarters"
    columns = (
        *("class", "GPUs", "hours, fastest"),
        *("jobs/h, first quarter", "jobs/h, last quarter", "goal"),
    )
    show(table(columns, rows, title))
