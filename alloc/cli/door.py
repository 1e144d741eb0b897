"""The door: where whatever goes wrong behind it becomes one line and an exit code."""

import contextlib
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup

from alloc.cli.exit_code import ExitCode, code_of_error
from alloc.cli.renamed import RENAMED
from alloc.cli.values import read_lightly
from alloc.errors import AllocError

# Typer's base class of wrong usage; older versions leave it in the click they build on.
_UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


def say(message: str) -> None:
    """Write a line for people to standard error."""
    # A message that nobody can read must not hide the exit code.
    with contextlib.suppress(OSError):
        print(message, file=sys.stderr, flush=True)


COMMAND_LINE = "alloc.command_line"
"""Where commands find, in their context's meta, what the user typed."""


class ErrorHandlingGroup(TyperGroup):
    """The root command: errors end in one line on standard error and their exit code.

    Commands return an `ExitCode`, or None for 0.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        tidy(self)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Parse and run; wrong usage is one line like every other error.

        Parameters
        ----------
        args, prog_name, complete_var, standalone_mode, windows_expand_args
            As in click.
        """
        try:
            returned = super().main(
                args, prog_name, complete_var, False, windows_expand_args, **extra
            )
            code = int(returned) if isinstance(returned, int) else ExitCode.SOLVED
        except _UsageError as error:
            code = _wrong_usage(error)
        except typer.Abort:
            code = ExitCode.INTERRUPTED
        if standalone_mode:
            sys.exit(int(code))
        return code

    def get_params(self, ctx: Any) -> Any:
        """Return the options, which load no library for values that need none."""
        return read_lightly(super().get_params(ctx))

    def make_context(
        self, info_name: str | None, args: list[str], *arguments: Any, **extra: Any
    ) -> Any:
        """Remember the command line: parsing takes it apart.

        Parameters
        ----------
        info_name, args
            As in click.
        """
        line = shlex.join(["alloc", *args])
        try:
            context = super().make_context(info_name, args, *arguments, **extra)
        except KeyboardInterrupt as error:
            raise typer.Exit(_code_of(error)) from None
        context.meta[COMMAND_LINE] = line
        return context

    def invoke(self, ctx: Any) -> Any:
        """Run a command; see the class."""
        try:
            returned = super().invoke(ctx)
            # While it can still be reported: at the end of the process it is too late.
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, _UsageError):
            raise
        except BaseException as error:
            if ctx.params.get("debug") and not isinstance(error, BrokenPipeError | SystemExit):
                traceback.print_exc()
            return _code_of(error)
        return returned


def tidy(command: Any) -> None:
    """Let the help show no type behind a flag, which takes no value."""
    for parameter in command.params:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    for child in getattr(command, "commands", {}).values():
        tidy(child)


def _code_of(error: BaseException) -> ExitCode:
    """Say what went wrong and return the exit code."""
    # Extension modules turn an interrupt while they load into an error of their own.
    if isinstance(error, ImportError) and isinstance(error.__cause__, KeyboardInterrupt):
        error = error.__cause__
    match error:
        case SystemExit():
            raise error
        case KeyboardInterrupt():
            say("error: interrupted.")
            return ExitCode.INTERRUPTED
        case BrokenPipeError():
            _abandon_stdout()
            return ExitCode.BROKEN_PIPE
        case AllocError():
            say(f"error: {_one_line(error)}")
            return code_of_error(error)
        case MemoryError():
            say("error: out of memory; choose a smaller instance or --time-limit.")
        case OSError():
            _abandon_stdout()
            where = error.filename or "standard output"
            say(f"error: {where}: {error.strerror or error}; make room or choose another place.")
        case _:
            say(
                f"error: unexpected {type(error).__name__}: {_one_line(error)} "
                "(a bug in alloc: `alloc --debug ...` shows the traceback, `alloc versions` what "
                "else a report needs)"
            )
    return ExitCode.UNEXPECTED


def _wrong_usage(error: Any) -> ExitCode:
    """Report wrong usage with the way to the right one."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "alloc"
    message = _in_plain_words(_one_line(error.format_message()))
    old = getattr(error, "option_name", None)
    # The program itself may be of several words: python -m alloc.
    command = "" if context is None else path.removeprefix(context.find_root().command_path)
    if (new := RENAMED.get((command.strip(), old or ""))) is not None:
        message = f"{old} is {new} now"
    if not message:  # no command was given; the help has been printed
        return ExitCode.BAD_INPUT
    ending = "" if message.endswith((".", "?", ")")) else "."
    say(f"error: {message}{ending} See `{path} --help`.")
    return ExitCode.BAD_INPUT


def _in_plain_words(message: str) -> str:
    """Return what the parser says of a value without the parser's own words."""
    return re.sub(
        r"Invalid value for '([^' ]+)(?: [^']*)?': (?:Input should be a valid (number|integer), .*?"
        # An older one quotes the value.
        r"parse string as an? \w+|'.*' is not a valid (float|integer)(?: range)?)",
        lambda found: (
            f"{found[1]} needs a {'whole ' if 'integer' in found.groups() else ''}number alone, "
            "without a unit or %"
        ),
        message,
    )


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _abandon_stdout() -> None:
    """Let what is still buffered go nowhere: Python would fail on it again at the end."""
    with contextlib.suppress(OSError, ValueError):  # in tests it is not a real file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
