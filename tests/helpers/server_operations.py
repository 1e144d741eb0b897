"""Operations for tests of the server: they take as long, and break, as the request says."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pydantic import Field

from alloc.errors import CertificateError, InstanceError
from alloc.server.operations import Operation
from alloc.server.requests import Request


class ActRequest(Request):
    """Do something."""

    act: str = Field("echo", description="echo, hold, start, hog, crash, fail, refuse or doubt.")
    until: str = Field(
        "", description="hold, start: the file whose coming ends it; without one, never."
    )
    asked_s: float | None = None
    text: str = Field("", description="What is echoed; start: the file for the id of a process.")


def run_act(request, tell, limits):
    """Do what the request says, and return its text."""
    tell(f"starting: {request.text}")
    if request.act == "start":
        process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        Path(request.text).write_text(f"{process.pid}\n")
    if request.act in ("hold", "start"):
        until = request.until or os.environ.get("ALLOC_TEST_GO")
        steps = itertools.count(1)
        while not (until and Path(until).exists()):
            tell(f"step {next(steps)}")
            time.sleep(0.02)  # only not to burn a core
    if request.act == "hog":
        kept = []
        while True:
            kept.append(bytearray(b"x" * 2**24))
    if request.act == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if request.act == "fail":
        raise RuntimeError(f"what nobody outside may read: {request.text}")
    if request.act == "refuse":
        raise InstanceError("the instance is no good; send another.")
    if request.act == "doubt":
        raise CertificateError("a bound was false; report it.")
    return {"schema_version": 1, "kind": "echo", "text": request.text, "process": os.getpid()}


OPERATIONS = (
    Operation(
        "act",
        "Do what a test wants.",
        ActRequest,
        "server_operations:run_act",
        "An echo.",
        lambda request: request.asked_s,
    ),
)
