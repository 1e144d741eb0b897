"""The command line `alloc`: it parses, calls and prints, and computes nothing itself.

Results go to standard output, everything else (progress, remarks, errors) to standard error.
``alloc.cli.exit_code`` lists what the program says with its exit code.
"""

import gc
import os
import signal
import sys

_NEW_OBJECTS = 200_000
"""Objects made, less those gone, from one look of the garbage collector to the next.

They are some 20 MB. At its usual 700 it looks again and again at what loading makes, all of which
stays: that is 50,000 to 100,000 objects, and one look at them takes as long as a small solve. A
server runs too long for that: its rare looks would leave it with what is gone.
"""


def main() -> None:
    """Run the program ``alloc``."""
    # Half-loaded libraries are no place to raise an interrupt in, and nothing is begun yet. One
    # that is ignored, as behind `nohup`, stays ignored.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGTERM, _leave)
    if heard:
        signal.signal(signal.SIGINT, _leave)
    if _may_crash(sys.argv[1:]):
        from alloc.cli.supervising import run_supervised

        run_supervised()

    if not _serves(sys.argv[1:]):
        gc.set_threshold(_NEW_OBJECTS)

    from typer.main import get_command

    from alloc.cli.application import app

    command = get_command(app)
    # Batch systems end jobs with SIGTERM; an incumbent is worth as much then as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _leave(*_: object) -> None:
    """End the process at once, as an interrupt later does."""
    os.write(2, b"error: interrupted.\n")
    os._exit(130)


def _may_crash(arguments: list[str]) -> bool:
    """Return whether to run the command in a process of its own, in case that a solver crashes."""
    if not hasattr(os, "fork") or "_ALLOC_COMPLETE" in os.environ:
        return False
    # The jobs of a server have processes of their own.
    return not _serves(arguments)


def _serves(arguments: list[str]) -> bool:
    """Return whether the command is `alloc serve`."""
    return "serve" in [word for word in arguments if not word.startswith("-")][:1]
