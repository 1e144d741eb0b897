"""``alloc forecast``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.cli import options
from alloc.cli.console import Report, print_text, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.planning import ProblemArgument
from alloc.cli.sources import read_instance, read_planning_problem
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.capacity.demand import JobClass, Scenario
    from alloc.capacity.problem import PlanningProblem
    from alloc.planning.history import History

RateOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS=JOBS",
        help="Jobs per hour of a class of the problem in the first quarter; one for every class.",
        show_default=False,
    ),
]
SpeedOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=SPEED",
        help="With --history: speed of a GPU type in relation to those of the history.",
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
    growth: Annotated[float, typer.Option(help="Growth per quarter, a fraction.")] = 0.0,
    variation: Annotated[
        float, typer.Option(help="With --rate: coefficient of variation of a rate.", min=0.0)
    ] = 0.0,
    scenarios: Annotated[int, typer.Option(help="Scenarios to draw.", min=1)] = 50,
    keep: Annotated[
        int | None,
        typer.Option(help="Keep so many that stand for the others.", min=1, show_default=False),
    ] = None,
    block_weeks: Annotated[
        int, typer.Option(help="With --history: weeks in a row drawn together.", min=1)
    ] = 1,
    hold_out: Annotated[
        int,
        typer.Option(
            help="With --history: leave the last weeks out, for --held-out.", min=0, metavar="WEEKS"
        ),
    ] = 0,
    held_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the problem with scenarios of the weeks left out, for `alloc plan "
            "--held-out`.",
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
    require_writable(held_out)
    if (hold_out > 0) != (held_out is not None) or (hold_out and history is None):
        raise typer.BadParameter("--hold-out, --held-out and --history go together")
    if (history is None) == (not rate):
        raise typer.BadParameter("give --history or --rate, one of the two")
    asked = read_planning_problem(problem)
    later = None
    with progress(f"forecasting {asked.name}", quiet) as report:
        if history is not None:
            report(f"reading {history}")
            seen = _history(history, speed or [])
            for why, count in seen.left_out.items():
                say(f"left out: {count} {why}")

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

            if held_out is not None:
                seen, unseen = seen.split(hold_out)
                # Few weeks are left out; a block is then all of them.
                later = _with(asked, seen.classes, draw(unseen, min(block_weeks, hold_out)))
            drawn = draw(seen, block_weeks)
            asked = _with(asked, seen.classes, _kept(drawn, keep, report))
        else:
            from alloc.planning.forecasts import scenarios_from_rates

            drawn = scenarios_from_rates(
                asked.classes,
                _numbers(rate or [], "--rate"),
                asked.num_quarters,
                num_scenarios=scenarios,
                growth=growth,
                variation=variation,
                seed=seed,
            )
            asked = asked.replace(scenarios=_kept(drawn, keep, report))
    if later is not None and held_out is not None:
        save(later.to_json, held_out)
    if output is not None:
        save(asked.to_json, output)
    if json or output is None:
        print_text(asked.to_json())
    else:
        _show(asked)


def _with(
    problem: "PlanningProblem", classes: "tuple[JobClass, ...]", scenarios: "tuple[Scenario, ...]"
) -> "PlanningProblem":
    """Return the problem with other classes, of which no replay has said anything yet."""
    return problem.replace(classes=classes, scenarios=scenarios, tightening=())


def _history(reference: str, speeds: list[str]) -> "History":
    from alloc.planning.history import history_of_instance

    if not speeds:
        raise typer.BadParameter("--history needs --speed for each GPU type that the plan may use")
    return history_of_instance(read_instance(reference), speeds=_numbers(speeds, "--speed"))


def _kept(
    drawn: "tuple[Scenario, ...]", keep: int | None, report: Report
) -> "tuple[Scenario, ...]":
    if keep is None or keep >= len(drawn):
        return drawn
    report(f"keeping {keep} scenarios that stand for {len(drawn)}")
    from alloc.planning.reduction import reduce_scenarios

    return reduce_scenarios(drawn, keep)


def _numbers(pairs: list[str], option: str) -> dict[str, float]:
    found = {}
    for pair in pairs:
        name, equals, text = pair.rpartition("=")
        if not equals or not name:
            raise InstanceError(f'{option} is "{pair}"; write NAME=NUMBER.')
        try:
            found[name] = float(text)
        except ValueError:
            raise InstanceError(f'{option} {name}: "{text}" is no number.') from None
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
            )
        )
    title = f"{len(problem.scenarios)} scenarios over {problem.num_quarters} quarters"
    columns = ("class", "GPUs", "hours, fastest", "jobs/h, first quarter", "jobs/h, last quarter")
    show(table(columns, rows, title))
