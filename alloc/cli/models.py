"""``alloc models``: the formulations and their pages of mathematics."""

from typing import Annotated

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, print_text, show

app = typer.Typer(help="The formulations and their mathematics.", no_args_is_help=True)


@app.command("list")
def list_models(json: options.JsonOption = False) -> None:
    """List the formulations."""
    from alloc.families import FAMILIES

    if json:
        print_json([_describe(name) for name in FAMILIES])
        return
    from alloc.cli.tables import table

    rows = [
        (f.name, f.code, f.title, ", ".join(f.objectives), ", ".join(f.models))
        for f in FAMILIES.values()
    ]
    show(table(("name", "family", "question", "objectives", "models"), rows))


@app.command("show")
def show_model(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of a formulation.",
            autocompletion=completion.complete_problem_family,
            show_default=False,
        ),
    ],
    json: options.JsonOption = False,
) -> None:
    """Print a formulation's page of mathematics: sets, variables, objective, constraints."""
    from alloc.families import require_family

    chosen = require_family(name)
    if json:
        print_json({**_describe(name), "page": chosen.page_text})
    else:
        print_text(f"{chosen.name} ({chosen.code})\n\n{chosen.page_text.strip()}")


def _describe(name: str) -> dict[str, object]:
    from alloc.families import FAMILIES

    chosen = FAMILIES[name]
    return {
        "name": chosen.name,
        "family": chosen.code,
        "title": chosen.title,
        "objective": chosen.objective,
        "objectives": list(chosen.objectives),
        "models": list(chosen.models),
    }
