"""``alloc models``: the formulations and their pages of mathematics."""

from typing import Annotated

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, print_text, show

app = typer.Typer(help="The formulations and their mathematics.", no_args_is_help=True)


@app.command("list")
def list_models(json: options.JsonOption = False) -> None:
    """List the formulations."""
    from alloc.formulation import FORMULATIONS

    if json:
        print_json([_describe(name) for name in FORMULATIONS])
        return
    from alloc.cli.tables import table

    rows = [
        (f.name, f.family, f.title, ", ".join(f.objectives), ", ".join(f.drawings))
        for f in FORMULATIONS.values()
    ]
    show(table(("name", "family", "question", "objectives", "drawings"), rows))


@app.command("show")
def show_model(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of a formulation.",
            autocompletion=completion.complete_formulation,
            show_default=False,
        ),
    ],
    json: options.JsonOption = False,
) -> None:
    """Print a formulation's page of mathematics: sets, variables, objective, constraints."""
    from alloc.formulation import require_formulation

    chosen = require_formulation(name)
    if json:
        print_json({**_describe(name), "page": chosen.page})
    else:
        print_text(f"{chosen.name} ({chosen.family})\n\n{chosen.page.strip()}")


def _describe(name: str) -> dict[str, object]:
    from alloc.formulation import FORMULATIONS

    chosen = FORMULATIONS[name]
    return {
        "name": chosen.name,
        "family": chosen.family,
        "title": chosen.title,
        "objective": chosen.objective,
        "objectives": list(chosen.objectives),
        "drawings": list(chosen.drawings),
    }
