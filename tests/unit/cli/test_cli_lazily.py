"""The help of the program says of each command what the command says of itself."""

from typing import Any

from typer.main import get_command

from alloc.cli.application import app


def test_the_help_says_of_a_command_what_it_says_itself() -> None:
    program: Any = get_command(app)
    assert len(program.entries) > 20
    for name, entry in program.entries.items():
        command = program.commands[name]
        text = command.short_help or command.help
        assert " ".join(text.split("\n\n")[0].split()) == entry.help
        assert command.name == name
        assert command.rich_help_panel == entry.panel
    assert program.commands.get("no-such-command") is None
