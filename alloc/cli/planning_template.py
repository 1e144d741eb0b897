"""``alloc plan init``: from a history and a price sheet to a planning problem to edit."""

import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from alloc.cli import completion, options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import progress, require_writable, save
from alloc.cli.door import say
from alloc.cli.forecasting import GOAL, SPEED, parse_goals, parse_numbers
from alloc.cli.settings import split_settings
from alloc.cli.sources import on_cluster, read_instance
from alloc.cli.topology import HostTypeOption, TopologyOption
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.problems.allocation.instance import Instance

_DOCUMENTS = (".json", ".yaml", ".yml")
_LOGS = (".swf", ".swf.gz")


def plan_init_command(
    history: Annotated[
        str,
        typer.Argument(
            metavar="HISTORY",
            help="Jobs that have run: a table (CSV, TSV, Parquet, what sacct or a trace prints), "
            "or an instance.",
            show_default=False,
        ),
    ],
    prices: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Price sheet, CSV: a row for each kind of host, with GPUs, GPU type, and prices "
            "to buy, reserve or rent.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The planning problem to write, YAML with comments; never over a file that is "
            "there.",
            show_default=False,
        ),
    ],
    reader: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="How to read the history; `alloc instances readers` lists the kinds and their "
            "options. By default by its name: an instance, swf, or table.",
            autocompletion=completion.complete_reader,
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-O",
            metavar="KEY=VALUE",
            help="An option of what is read or made; may be repeated.",
            show_default=False,
        ),
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=COLUMN,...",
            help="Which column of a job table is what, for example id=JobID,arrival=Submit.",
            show_default=False,
        ),
    ] = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    price_map: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=COLUMN,...",
            help="Which column of the price sheet is what, for example host=SKU,purchase=List.",
            show_default=False,
        ),
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Currency of the prices, where the sheet does not say it.",
            show_default=False,
        ),
    ] = None,
    speed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=SPEED",
            help=SPEED,
            show_default=False,
        ),
    ] = None,
    goal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=GOAL",
            help=f"{GOAL} Without one, 95 % of its jobs wait no longer than its mean run time.",
            show_default=False,
        ),
    ] = None,
    quarters: Annotated[int, typer.Option(metavar="N", help="Quarters to plan.", min=1)] = 4,
    growth: Annotated[float, typer.Option(metavar="FRACTION", help="Growth per quarter.")] = 0.0,
    classes: Annotated[
        int, typer.Option(metavar="N", help="Classes of jobs, at most.", min=1)
    ] = 12,
    by_tenant: Annotated[
        bool, typer.Option("--by-tenant", help="Give large tenants classes of their own.")
    ] = False,
    keep: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Reduce the scenarios drawn to N representative ones.",
            min=1,
            max=50,  # as many are drawn
        ),
    ] = 5,
    hold_out: Annotated[
        int,
        typer.Option(
            metavar="WEEKS", help="Leave the last weeks out, for --held-out-output.", min=0
        ),
    ] = 0,
    held_out_output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the weeks left out, for `alloc plan --held-out`.",
            show_default=False,
        ),
    ] = None,
    seed: options.SeedOption = 0,
    quiet: options.QuietOption = False,
) -> None:
    """Write a planning problem to edit, from a history of jobs and a price sheet.

    What was measured stands in it with how often it was seen; what you must decide (goals, owned
    hosts, budget, limits) is marked DECIDE. Then `alloc plan FILE --replay`.
    """
    from alloc.documents.parsing import YAML_ENDINGS

    _require_new(output, YAML_ENDINGS)
    _require_new(held_out_output, (".json",))
    if (hold_out > 0) != (held_out_output is not None):
        raise typer.BadParameter("--hold-out and --held-out-output go together")
    from alloc.planning.price_columns import parse_columns
    from alloc.planning.prices import read_price_sheet

    wanted = parse_goals(goal or [])
    speeds = parse_numbers(speed or [], "--speed")
    for name, number in speeds.items():
        if not 0 < number < math.inf:
            raise InstanceError(f"--speed {name}: is {number:g}; it must be more than 0.")
    sheet = read_price_sheet(prices, columns=parse_columns(price_map or []), currency=currency)
    for note in sheet.notes:
        say(note)
    with progress(f"reading {history}", quiet) as report:
        pairs = [*(option or []), *([f"map={','.join(map)}"] if map else [])]
        jobs = _jobs(history, reader, pairs, topology, host_type)
        from alloc.planning.template import make_template, template_text

        report("measuring")
        made = make_template(
            output.name.partition(".")[0],
            jobs,
            sheet,
            speeds=speeds,
            goals=wanted,
            num_quarters=quarters,
            growth=growth,
            num_scenarios=keep,
            max_classes=classes,
            by_tenant=by_tenant,
            hold_out=hold_out,
            seed=seed,
        )
    for note in made.notes:
        say(note)
    for why, count in made.history.left_out.items():
        say(f"left out: {count} {why}")
    if made.later is not None and held_out_output is not None:
        save(made.later.to_json, held_out_output)
    from alloc.documents.files import write_text

    text = template_text(made)
    save(lambda path: write_text(path, text), output)
    classes_found = len(made.problem.classes)
    say(
        f"{output}: {classes_found} class{'' if classes_found == 1 else 'es'} of "
        f"{made.history.num_weeks} weeks, {len(sheet.offers)} offers in {sheet.currency}. Look for "
        f"DECIDE in it, then run `alloc plan {output} --replay`."
    )


def _require_new(path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse to write over what somebody may have edited, or by a name that is read otherwise."""
    require_writable(path)
    if path is None:
        return
    if not path.name.lower().removesuffix(".gz").endswith(endings):
        raise InstanceError(f"{path}: is to be named as what it holds; let it end in {endings[0]}.")
    if path.exists():
        raise InstanceError(
            f"{path}: is there already, and may hold decisions; name another file, or move it away."
        )


def _jobs(
    reference: str,
    reader: str | None,
    pairs: list[str],
    topology: str | None,
    host_type: list[str] | None,
) -> "Instance":
    """Return the jobs of a history, whatever file it is."""
    cluster = read_cluster(topology, host_type)
    name = reference.lower()
    if reader is None and name.removesuffix(".gz").endswith(_DOCUMENTS):
        if pairs:
            raise InstanceError(
                f"{reference}: is read as an instance, which needs no map and no options; leave "
                "them out, or say with --reader how to read it."
            )
        return read_instance(reference, cluster)
    from alloc.instances.readers import read_instance as read_trace

    given: dict[str, Any] = split_settings(pairs, "--option")
    if cluster is not None:
        given["topology"] = cluster.topology
    kind = reader or ("swf" if name.endswith(_LOGS) else "table")
    made, account = read_trace(kind, reference, **given)
    say(str(account))
    return on_cluster(made, cluster)


class PlanCommand(TyperCommand):
    """``alloc plan PROBLEM``, and the commands whose word stands in the place of a problem."""

    @cached_property
    def commands(self) -> dict[str, TyperCommand]:
        """The commands below it, by their word."""
        inner = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        inner.command("init")(plan_init_command)
        found: Any = typer.main.get_command(inner)
        found.name = "init"
        return {"init": found}

    def make_context(
        self, info_name: str | None, args: list[str], *arguments: Any, **extra: Any
    ) -> Any:
        """Parse a command line, that of a command below if its word comes first.

        Parameters
        ----------
        info_name, args
            As in click.
        """
        inner = self.commands.get(args[0]) if args else None
        if inner is None:
            return super().make_context(info_name, args, *arguments, **extra)
        return inner.make_context(f"{info_name} {args[0]}", args[1:], *arguments, **extra)
