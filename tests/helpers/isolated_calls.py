"""Calls for a process of their own: they die, fail or stay."""

import os
import signal
import time

from alloc.processes import limit_memory, memory_watch


def die(number, progress):
    """End this process as a crash of a solver does."""
    os.kill(os.getpid(), number)


class Stubborn(Exception):
    """An error that cannot be rebuilt from what it says."""

    def __init__(self, what, why):
        super().__init__(f"{what} {why}")


def fail(progress):
    """Raise an error that does not survive the way to another process."""
    raise Stubborn("it needs", "two arguments")


class Unreadable:
    """A value that can be sent and not received."""

    def __reduce__(self):
        return int, ("no number",)


def answer_unreadably(progress):
    """Return what nobody can read."""
    return Unreadable()


def stay(progress):
    """Say each interrupt, and go on."""
    signal.signal(signal.SIGINT, lambda *_: progress(str(os.getpid())))
    progress(str(os.getpid()))
    while True:
        # Not `signal.pause`: it sleeps through a signal that comes just before it.
        time.sleep(0.05)


def fill_until_interrupted(max_mib, progress):
    """Take ever more memory; return how much it was, MiB, and whether the watch was the reason."""
    taken = []
    with memory_watch(max_mib) as watch:
        try:
            while True:
                taken.append(b"x" * 2**20)
                time.sleep(0.001)
        except KeyboardInterrupt:
            return len(taken), watch.ran_short


def ask_at_once(max_mib, asked_mib, progress):
    """Ask for memory that nobody writes to, after a limit was set."""
    limit_memory(max_mib)
    return len(bytearray(asked_mib * 2**20))
