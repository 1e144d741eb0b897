"""``alloc schedulers``: the policies there are."""

import inspect

import typer

from alloc.cli import options
from alloc.cli.console import print_json, show
from alloc.cli.door import say
from alloc.errors import AllocError

app = typer.Typer(help="The scheduling policies.", no_args_is_help=True)


@app.command("list")
def list_schedulers(json: options.JsonOption = False) -> None:
    """List the scheduling policies, and what each needs to know."""
    from alloc.schedulers import make_scheduler, scheduler_names

    made = []
    for name in scheduler_names():
        try:
            made.append((name, make_scheduler(name)))
        except AllocError as error:  # somebody's package or policy file does not hide the others
            say(f"left out {name}: {error}")
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
    """Return what a policy calls itself, or the first line of its class's docstring."""
    title = getattr(scheduler, "title", None)
    return (
        title
        if isinstance(title, str)
        else (inspect.getdoc(type(scheduler)) or "").partition("\n")[0]
    )
