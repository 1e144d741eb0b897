"""The command line `alloc`: it parses, calls and prints, and computes nothing itself.

Results go to standard output, everything else (progress, remarks, errors) to standard error.
``alloc.cli.exit_code`` lists what the program says with its exit code.
"""


def main() -> None:
    """Run the program ``alloc``."""
    import signal

    from alloc.cli.application import app

    # Batch systems end jobs with SIGTERM; an incumbent is worth as much then as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
