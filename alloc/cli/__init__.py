"""The command line `alloc`: it parses, calls and prints, and computes nothing itself.

Results go to standard output, everything else (progress, remarks, errors) to standard error.
``alloc.cli.exit_code`` lists what the program says with its exit code.
"""

import os
import signal


def main() -> None:
    """Run the program ``alloc``."""
    # Half-loaded libraries are no place to raise an interrupt in, and nothing is begun yet. One
    # that is ignored, as behind `nohup`, stays ignored.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGTERM, _leave)
    if heard:
        signal.signal(signal.SIGINT, _leave)

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
