"""A command runs in a process of its own: a solver that crashes is one sentence to the user.

The process that the user started forks before it has loaded anything, and waits. Its child is the
command: in the same group of processes, with the same terminal, streams and signals.
"""

import contextlib
import math
import os
import select
import signal
import time

from alloc.processes import death, end_with_parent

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAME_S = 0.05
"""Time within which a signal to the child and one to its parent are one request, seconds.

A terminal sends a signal to both within microseconds, a job system that goes through a list of
processes within milliseconds; nobody presses Ctrl-C twice in a twentieth of a second.
"""
_ON_PURPOSE = (*_SIGNALS, signal.SIGQUIT, signal.SIGPIPE)
"""Signals that somebody sent: the process ends by the same one, without a word."""
_MAX_BYTES = 2**16
"""What a pipe holds, on Linux."""

_words: int | None = None


def run_supervised() -> None:
    """Fork, and return in the child, where the command runs.

    The parent never returns: it ends as the child does, and says so if that was killed or crashed.
    Where no process can be forked, the command runs in this one.
    """
    global _words
    lifeline, holding = os.pipe()
    heard, hearing = os.pipe()
    words, telling = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        child = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    if child:
        for end in (lifeline, hearing, telling):
            os.close(end)
        _end(_wait(child, heard, before), words)
    for end in (holding, heard, words):
        os.close(end)
    _words = telling
    # Each signal that Python hears of is a byte for the parent, at once, whatever is running.
    os.set_blocking(hearing, False)
    signal.set_wakeup_fd(hearing, warn_on_full_buffer=False)
    end_with_parent(lifeline)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_words(text: str) -> None:
    """Say what the user is to hear should this process die; the last words count."""
    if _words is not None:
        with contextlib.suppress(OSError):
            os.write(_words, f"{text}\n".encode())


def _wait(child: int, heard: int, mask: set[int]) -> int:
    """Wait for the child and return its exit code; pass on what it did not hear itself."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _do_nothing)
    for ours in _SIGNALS:
        if signal.getsignal(ours) is not signal.SIG_IGN:
            signal.signal(ours, _do_nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    ends = [woken, heard]
    heard_at: dict[int, float] = {}
    due: dict[int, float] = {}
    passed_on: set[int] = set()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        wait = max(min(due.values()) - time.monotonic(), 0.0) if due else None
        ready, _, _ = select.select(ends, [], [], wait)
        now = time.monotonic()
        if heard in ready:
            numbers = os.read(heard, _MAX_BYTES)
            if not numbers:
                ends.remove(heard)
            for number in numbers:
                if number in passed_on:
                    passed_on.remove(number)
                else:
                    heard_at[number] = now
                    due.pop(number, None)
        if woken in ready:
            for number in os.read(woken, _MAX_BYTES):
                if number != signal.SIGCHLD and now - heard_at.get(number, -math.inf) > _SAME_S:
                    due.setdefault(number, now + _SAME_S)
        for number in [number for number, moment in due.items() if moment <= now]:
            del due[number]
            passed_on.add(number)
            os.kill(child, number)


def _do_nothing(*_: object) -> None:
    """Let a signal be a byte of the pipe that is waited for."""


def _end(code: int, words: int) -> None:
    """End this process as the child ended; a crash is a sentence and exit code 1."""
    if -code in _ON_PURPOSE:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    if code < 0:
        os.set_blocking(words, False)
        last = ""
        with contextlib.suppress(BlockingIOError):
            last = b" ".join(os.read(words, _MAX_BYTES).splitlines()[-1:]).decode()
        cursor = "\x1b[?25h\n" if os.isatty(2) else ""  # a live line hides it
        with contextlib.suppress(OSError):
            os.write(
                2, f"{cursor}error: the command {death(code)}. {last}".rstrip().encode() + b"\n"
            )
    os._exit(code if code >= 0 else 1)
