"""``alloc policies``: learned policies, their model cards, and the user's policy directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, print_text, require_writable, show
from alloc.cli.door import say
from alloc.errors import AllocError, InstanceError

if TYPE_CHECKING:
    from alloc.schedulers.learned.policy_file import PolicyFile

app = typer.Typer(help="Learned policies: ONNX files with a model card.", no_args_is_help=True)

PolicyArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE",
        help="A policy by name, or the path of a policy file (.onnx).",
        autocompletion=completion.complete_policy,
        show_default=False,
    ),
]


PlotOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Draw the validation curve (.svg or .png).", show_default=False
    ),
]


@app.command("list")
def list_policies(json: options.JsonOption = False) -> None:
    """List the policies that alloc ships and those that were added."""
    from alloc.schedulers.shelf import shelf, user_folder

    found = [_outline(name, path, origin) for name, path, origin in shelf()]
    if json:
        print_json(found)
        return
    from alloc.cli.tables import table

    columns = ("name", "policy", "kind", "needs", "from", "kB", "hours")
    rows = [
        (
            entry["name"],
            entry["title"] or f"cannot be used: {entry['error']}",
            entry["kind"],
            entry["needs"],
            entry["origin"],
            None if entry["bytes"] is None else round(entry["bytes"] / 1000, 1),
            entry["training_hours"],
        )
        for entry in found
    ]
    show(table(columns, rows))
    say(f"`alloc policies add FILE` adds your own; they are kept in {user_folder()}.")


def _outline(name: str, path: Path, origin: str) -> dict[str, Any]:
    """Return what a list says of a policy; one that cannot be read does not hide the others."""
    from alloc.schedulers.learned.kinds import policy_kind
    from alloc.schedulers.shelf import ShelvedPolicy

    entry: dict[str, Any] = {"name": name, "origin": origin, "path": str(path), "error": None}
    keys = ("title", "information", "kind", "needs", "bytes", "training_hours", "licence")
    try:
        policy = ShelvedPolicy(path, name)().policy
    except AllocError as error:
        return {**entry, **dict.fromkeys(keys), "error": str(error)}
    card = policy.card
    return {
        **entry,
        "title": card.title,
        "information": card.information,
        "kind": policy.spec.kind,
        "needs": policy_kind(policy.spec.kind).needs,
        "bytes": len(policy.model),
        "training_hours": card.training_hours,
        "licence": card.licence,
    }


@app.command("kinds")
def list_kinds(json: options.JsonOption = False) -> None:
    """List the kinds of policies: what a network is shown, and what it answers."""
    from alloc.schedulers.learned import kind_names, policy_kind

    kinds = [policy_kind(name) for name in kind_names()]
    if json:
        print_json(
            [
                {
                    "name": kind.name,
                    "title": kind.title,
                    "needs": kind.needs,
                    "can_sample": kind.can_sample,
                    "parameters": kind.parameters.model_json_schema(),
                }
                for kind in kinds
            ]
        )
        return
    from alloc.cli.tables import table

    rows = [
        (kind.name, kind.title, kind.needs, ", ".join(kind.parameters.model_fields) or "none")
        for kind in kinds
    ]
    show(table(("name", "the network", "needs", "parameters"), rows))


@app.command("show")
def show_policy(
    policy: PolicyArgument,
    markdown: options.MarkdownOption = False,
    json: options.JsonOption = False,
    plot: PlotOption = None,
) -> None:
    """Print the model card of a policy: what it is, where it comes from, where it fails."""
    if json and markdown:
        raise InstanceError("--json and --markdown exclude each other; choose one.")
    require_picture(plot)
    from alloc.schedulers.learned.card_text import card_facts, card_markdown

    chosen = _read(policy)
    if plot is not None:
        draw(chosen, plot)
    if json:
        document = chosen.document.model_dump(mode="json")
        print_json({"path": str(chosen.path), "sha256": chosen.sha256, **document})
    elif markdown:
        print_text(card_markdown(chosen))
    else:
        from alloc.cli.tables import facts

        show(facts(card_facts(chosen), chosen.name))


def _read(name: str) -> "PolicyFile":
    from alloc.schedulers.learned import read_policy
    from alloc.schedulers.shelf import policy_path

    return read_policy(policy_path(name))


def require_picture(plot: Path | None) -> None:
    """Refuse a file for a curve that could not be drawn or written."""
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise InstanceError(f"--plot {plot}: let the name of the file end in .svg or .png.")
    require_writable(plot)


def draw(policy: "PolicyFile", path: Path) -> None:
    """Draw the validation curve of a policy.

    Parameters
    ----------
    policy
        The policy, whose card has the curve.
    path
        The picture; its ending says the format.
    """
    from alloc.plotting import new_figure, plot_validation_curve, save_figure

    card = policy.card
    figure = new_figure(6.0, 3.2)
    plot_validation_curve(
        card.curve,
        step=card.curve_step,
        value=card.curve_value,
        title=card.name,
        ax=figure.add_subplot(),
    )
    save_figure(figure, path.with_suffix(""), (path.suffix[1:],))
    say(f"{path}: drawn.")


@app.command("export")
def export_policy(
    policy: PolicyArgument,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where to.", show_default=False),
    ],
) -> None:
    """Copy a policy to an ONNX file, which any tool for ONNX can open."""
    from alloc.documents.files import write_bytes
    from alloc.schedulers.naming import SUFFIX

    require_writable(output)
    if output.suffix != SUFFIX:
        raise InstanceError(f"--output {output}: let the name of the file end in {SUFFIX}.")
    chosen = _read(policy)
    write_bytes(output, chosen.model)
    say(f"{output}: policy {chosen.name}, {len(chosen.model) / 1000:,.1f} kB.")


@app.command("add")
def add(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A policy file (.onnx).", show_default=False)
    ],
) -> None:
    """Add a policy file to your policy directory, so that it can be named like any scheduler."""
    from alloc.schedulers import scheduler_names
    from alloc.schedulers.shelf import add_policy

    added = add_policy(file, scheduler_names())
    say(f"added {added.name}; `alloc compare --schedulers {added.name},...` takes it.")


@app.command("remove")
def remove(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A policy that was added.",
            autocompletion=completion.complete_added_policy,
            show_default=False,
        ),
    ],
) -> None:
    """Remove a policy that was added."""
    from alloc.schedulers.shelf import remove_policy

    say(f"{remove_policy(name)}: removed.")
