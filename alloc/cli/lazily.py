"""Commands that are loaded when they are asked for: the help of all of them loads none."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand

from alloc.cli.door import ErrorHandlingGroup, tidy
from alloc.cli.values import read_lightly


@dataclass(frozen=True)
class Entry:
    """A command, or a group of them, before it is loaded.

    Parameters
    ----------
    where
        Module in `alloc.cli` and name there: of a function, or of an application of Typer.
    help
        The first paragraph of its help.
    panel
        Heading under which the help of the program lists it.
    cls
        Module and name of the class of the command, or None for the usual one.
    """

    where: str
    help: str
    panel: str
    cls: str | None = None

    def load(self, name: str) -> Any:
        """Return the command."""
        found = _named(self.where)
        outer = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        outer.callback()(lambda: None)
        if isinstance(found, typer.Typer):
            outer.add_typer(found, name=name, rich_help_panel=self.panel)
        else:
            cls = _named(self.cls) if self.cls else None
            outer.command(name, rich_help_panel=self.panel, cls=cls)(found)
        group: Any = typer.main.get_command(outer)
        command = group.commands[name]
        tidy(command)
        _lighten(command)
        return command


def _lighten(command: Any) -> None:
    """Let a command and those below it load no library for values that need none."""
    usual = command.get_params  # with the option --help, which is made late
    command.get_params = lambda ctx: read_lightly(usual(ctx))
    for child in getattr(command, "commands", {}).values():
        _lighten(child)


def _named(where: str) -> Any:
    """Return what a module in `alloc.cli` has by a name."""
    module, _, name = where.partition(":")
    return getattr(import_module(f"alloc.cli.{module}"), name)


class LazyCommands(dict[str, Any]):
    """Commands by name; each is loaded when it is first looked at."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        super().__init__(dict.fromkeys(entries))
        self._entries = entries

    def __getitem__(self, name: str) -> Any:
        """Return a command."""
        command = super().__getitem__(name)
        if command is None:
            command = self[name] = self._entries[name].load(name)
        return command

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command, or the default if there is none of that name.

        Parameters
        ----------
        name
            Name of a command.
        default
            What to return if there is none.
        """
        if name not in self:
            return default
        return self[name]

    def items(self) -> Any:
        """Return all names and commands."""
        return {name: self[name] for name in self}.items()

    def values(self) -> Any:
        """Return all commands."""
        return {name: self[name] for name in self}.values()


class LazyGroup(ErrorHandlingGroup):
    """The program; a subclass says in `entries` which commands there are."""

    entries: ClassVar[dict[str, Entry]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LazyCommands(self.entries)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the help."""
        return list(self.entries)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, with what the entries say of the commands.

        Parameters
        ----------
        ctx, formatter
            As in click.
        """
        known = self.commands
        self.commands = {
            name: TyperCommand(name, help=entry.help, rich_help_panel=entry.panel)
            for name, entry in self.entries.items()
        }
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = known
