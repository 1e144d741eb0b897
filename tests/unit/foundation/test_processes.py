"""How a child process died, in words."""

import signal

import pytest

from alloc.processes import death


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGSEGV, "died (signal 11, SIGSEGV) by a crash of its solver; choose another"),
        (-signal.SIGKILL, "died (signal 9, SIGKILL), most likely ended by the system for its mem"),
        (-40, "died (signal 40) by a crash of its solver; choose another backend"),
        (3, "ended without an answer (exit code 3); choose another backend"),
        (None, "ended without an answer (exit code unknown); choose another backend"),
    ],
)
def test_each_way_to_die_has_a_name_and_a_cure(code, words):
    assert death(code).startswith(words)
    assert "\n" not in death(code)
