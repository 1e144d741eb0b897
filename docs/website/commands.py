"""The reference of the command line, made from the commands themselves: it never falls behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

from typer.main import get_command

from alloc.cli.application import app


def command_pages() -> dict[str, str]:
    """Return the pages of the command line by their place: one for each group of `alloc --help`."""
    program: Any = get_command(app)
    groups: dict[str, dict[str, Any]] = {}
    for name, command in program.commands.items():
        groups.setdefault(command.rich_help_panel, {})[name] = command
    pages = {}
    places = {}
    for heading, commands in groups.items():
        places[heading] = re.sub(r"\W+", "-", heading.lower())
        sections = "\n".join(
            section
            for name, command in commands.items()
            for section in _sections(("alloc", name), command, depth=2)
        )
        pages[f"cli/{places[heading]}.md"] = f"# {heading}\n\n{sections}"
    links = "\n".join(
        f"- [{heading}]({places[heading]}.md): {', '.join(f'`{name}`' for name in commands)}"
        for heading, commands in groups.items()
    )
    tree = "\n".join(places.values())
    pages["cli/index.md"] = (
        f"# Command line\n\n{_prose(program.help)}\n\n"
        f"{_parameters(('alloc',), program)}\n## Commands\n\n{links}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )
    return pages


def _sections(path: tuple[str, ...], command: Any, depth: int) -> Iterator[str]:
    """Yield the section of a command, and of each command below it."""
    context = command.make_context(path[-1], [], resilient_parsing=True)
    words = " ".join(path)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    yield (
        f"{'#' * depth} {words}\n\n{_prose(command.help)}\n\n"
        f"```text\n{usage}\n```\n\n{_parameters(path, command)}"
    )
    for name, inner in getattr(command, "commands", {}).items():
        yield from _sections((*path, name), inner, min(depth + 1, 4))


def _parameters(path: tuple[str, ...], command: Any) -> str:
    """Return a list of the arguments and options of a command, as its help has them."""
    context = command.make_context(path[-1], [], resilient_parsing=True)
    records = [p.get_help_record(context) for p in command.get_params(context) if not _hidden(p)]
    return "".join(f"- `{first}`: {_prose(text)}\n" for first, text in filter(None, records))


def _hidden(parameter: Any) -> bool:
    # What every command has, and the two that only install completion.
    return bool(getattr(parameter, "hidden", False)) or parameter.name in (
        "help",
        "install_completion",
        "show_completion",
    )


def _prose(text: str | None) -> str:
    """Return help as Markdown: its own marks, but no HTML and no bold by chance."""
    whole = cleandoc(text or "")
    parts = re.split(r"(`[^`]*`)", whole)
    return "".join(p if p.startswith("`") else re.sub(r"([<*])", r"\\\1", p) for p in parts)
