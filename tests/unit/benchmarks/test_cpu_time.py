"""Whose CPU time is counted: a process apart from what it started, and nobody else's."""

import os
import subprocess
import sys

import pytest

from benchmarks.cpu_time import cpu_s

_BUSY = "import time\nwhile time.process_time() < 0.6: pass\nprint(flush=True)\ninput()"
_PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {_BUSY!r}], stdin=subprocess.PIPE)
input()
child.communicate(b"\\n")
"""


@pytest.mark.long
def test_what_a_child_uses_is_counted_apart():
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        parent.stdout.readline()  # the child has done its work, and waits
        own, children = cpu_s(parent.pid)
        above, below = cpu_s(os.getpid())
        parent.communicate(b"\n")
    assert children >= 0.5  # of 0.6, counted in ticks
    assert 0 < own < children
    assert above > 0
    assert below >= children
