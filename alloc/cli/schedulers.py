"""``alloc schedulers``: the policies there are."""

import inspect

import typer

from alloc.cli import options
from alloc.cli.console import print_json, show

app = typer.Typer(help="The scheduling policies.", no_args_is_help=True)


@app.command("list")
def list_schedulers(json: options.JsonOption = False) -> None:
    """List the scheduling policies, and what each needs to know."""
    from alloc.schedulers import make_scheduler, scheduler_names

    made = [(name, make_scheduler(name)) for name in scheduler_names()]
    if json:
        print_json(
            [
                {
                    "name": name,
                    "title": _title(scheduler),
                    "needs": scheduler.needs,
                    "information": scheduler.information,
                }
                for name, scheduler in made
            ]
        )
        return
    from alloc.cli.tables import table

    rows = [(name, _title(s), s.needs, s.information) for name, s in made]
    show(table(("name", "policy", "needs", "information"), rows))


def _title(scheduler: object) -> str:
    """Return the first line of the class's docstring."""
    return (inspect.getdoc(type(scheduler)) or "").partition("\n")[0]
