"""``alloc schedulers``: the policies there are."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, show
from alloc.cli.door import say
from alloc.errors import AllocError

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(help="The scheduling policies.", no_args_is_help=True)


@app.command("list")
def list_schedulers(json: options.JsonOption = False) -> None:
    """List the scheduling policies, their options, and what each needs to know."""
    from alloc.schedulers import scheduler_names
    from alloc.schedulers.describing import describe_scheduler

    found = []
    for name in scheduler_names():
        try:
            found.append(describe_scheduler(name))
        except AllocError as error:  # somebody's package or policy file does not hide the others
            say(f"left out {name}: {error}")
    if json:
        print_json(
            [
                {
                    "name": each.name,
                    "title": each.title,
                    "options": [option.name for option in each.options],
                    "needs": each.needs,
                    "information": each.information,
                }
                for each in found
            ]
        )
        return
    from alloc.cli.tables import table

    rows = [
        (
            each.name,
            each.title,
            ", ".join(option.name for option in each.options),
            each.needs,
            each.information,
        )
        for each in found
    ]
    show(table(("name", "policy", "options", "needs", "information"), rows))
    say("`alloc schedulers show NAME` explains a policy and its options.")


@app.command("show")
def show_scheduler(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PLACE",
            help="A policy by name, one in a file (.onnx, .pt, .zip), or a class or function of "
            "your own (./rule.py:MyRule or package.module:MyRule).",
            autocompletion=completion.complete_scheduler,
            show_default=False,
        ),
    ],
    json: options.JsonOption = False,
) -> None:
    """Explain a scheduling policy: what it does, its options, what it may know, its sources."""
    from alloc.schedulers.describing import describe_scheduler

    found = describe_scheduler(name)
    if json:
        print_json(dataclasses.asdict(found))
        return
    from rich.text import Text

    from alloc.cli.tables import facts, table

    needed = {
        "none": "nothing of the work of jobs",
        "estimate": "an estimate of the work of jobs, or the exact work",
        "exact": "the exact work of jobs",
    }[found.needs]
    parts: list[RenderableType] = [Text(f"{found.name}: {found.title}")]
    if found.text:
        parts.append(Text(f"\n{found.text}"))
    parts.append(
        facts(
            (
                ("needs", needed),
                ("uses", found.information),
                ("honours", ", ".join(found.features) or "no rules of placement"),
            ),
            title="\nWhat it may know",
        )
    )
    if found.options:
        rows = [(o.name, o.default, o.values, o.meaning) for o in found.options]
        parts.append(table(("option", "default", "values", "meaning"), rows, "\nOptions"))
        first = found.options[0]
        parts.append(Text(f'In a list: --schedulers "{found.name}({first.name}={first.default})".'))
    if found.sources:
        parts.append(Text(f"\nSources\n{found.sources}"))
    show(*parts)
