"""Values of options: what needs no library is read without, everything else as Typer reads it."""

from pathlib import Path
from typing import Annotated

import pytest
import typer

from alloc.cli.values import read_lightly


@pytest.fixture
def command():
    """A command that returns what it gets."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def show(
        word: str,
        number: Annotated[float, typer.Option(min=0)] = 1.5,
        times: Annotated[int | None, typer.Option()] = None,
        where: Annotated[Path | None, typer.Option()] = None,
        names: Annotated[list[str] | None, typer.Option()] = None,
        upper: Annotated[str, typer.Option(parser=str.upper)] = "a",
        loud: bool = False,
    ) -> tuple:
        return word, number, times, where, names, upper, loud

    return typer.main.get_command(app)


def outcome(command, arguments):
    """Return what a command returns, with the types of it, or what it says is wrong."""
    try:
        found = command.main(arguments, standalone_mode=False)
    except Exception as error:
        return type(error), str(error)
    return found, [*map(type, found)]


ARGUMENTS: tuple[list[str], ...] = (
    ["x"],
    ["7", "--number", "2"],
    ["x", "--number", "-1"],
    ["x", "--number", "two"],
    ["x", "--times", "3", "--loud"],
    ["x", "--times", "3.5"],
    ["x", "--where", "a/b", "--names", "a", "--names", "b"],
    ["x", "--upper", "b"],
    [],
    ["x", "y"],
)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_values_are_those_that_typer_reads(command, arguments):
    usual = outcome(command, arguments)
    known = command.get_params
    command.get_params = lambda context: read_lightly(known(context))
    assert outcome(command, arguments) == usual


def test_what_is_read_lightly_is_so_once(command):
    """A second look at the options of a command changes nothing."""
    read_lightly(command.params)
    readers = [getattr(one, "get_runtime_param", None) for one in command.params]
    read_lightly(command.params)
    assert readers == [getattr(one, "get_runtime_param", None) for one in command.params]
