"""What a hostile document costs: no more than its text and its values."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from week_document import INSTANCE

HOSTILE = """
import json, os, re, sys
from pathlib import Path
from alloc.documents import format_of
from alloc.errors import InstanceError
from alloc.documents.formats import record_of
from alloc.problems.quota_planning.problem import QuotaProblem
from alloc.server.bodies import read_request
from alloc.server.problems import ProblemError
from alloc.server.requests import SolveRequest

def kib(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def mib_of(read, text):
    # In a child of its own: what others have freed would serve this one too.
    reading, writing = os.pipe()
    if os.fork() == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins afresh
        before = kib("VmRSS")
        try:
            read(text)
            said = "taken"
        except (InstanceError, ProblemError) as error:
            said = "long" if len(str(error)) > 2_000 else ""
        os.write(writing, f"{(kib('VmHWM') - before) / 1024} {said}".encode())
        os._exit(0)
    os.wait()
    mib, said = os.read(reading, 100).decode().split(" ")
    assert not said, said
    return float(mib)

instance, size = json.loads(sys.argv[1]), 2**20
def many(item):
    return "[" + ",".join([item] * (size // (len(item) + 1))) + "]"
def wide(value):
    number = size // (8 + len(value))
    return "{" + ",".join(f'"{name:x}":{value}' for name in range(number)) + "}"
shapes = (
    {"jobs": many("{}")}, {"jobs": many("[]")}, {"jobs": many("0")}, {"jobs": many('{"id":0}')},
    {"tenants": many("{}")}, {"topology": '{"hosts":' + many("{}") + "}"}, {"a": many("[]")},
    {"configuration_sets": wide("0")}, {"configuration_sets": wide("[{}]")},
    {"configuration_sets": '{"a":' + many("{}") + "}"}, {"description": wide("0")},
    {"running": many("{}")}, {"a": wide("0")},
)
record = lambda text: record_of(json.loads(text), QuotaProblem, "x")
request = lambda text: read_request(text.encode(), SolveRequest)
for read, kind in (
    (format_of("instance").parse, "instance"), (format_of("planning").parse, "planning"),
    (record, "instance"), (request, "instance"),
):
    try:
        read("{}")  # what is loaded once is no cost of a document
    except (InstanceError, ProblemError):
        pass
    own = {name: json.dumps(value) for name, value in {**instance, "kind": kind}.items()}
    texts = [{**own, **shape} for shape in shapes]
    texts = ["{" + ",".join(f'"{n}":{value}' for n, value in t.items()) + "}" for t in texts]
    texts.append(wide("0"))
    if read is request:
        texts = [wide("0"), *('{"instance":' + text + "}" for text in texts)]
    for text in texts:
        print(mib_of(read, text), read.__name__, text[-40:])
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is Linux's")
def test_a_hostile_document_of_1_mib_costs_no_memory() -> None:
    """Whatever its shape: of a list, a mapping or an object only the first bad items are errors."""
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE, json.dumps(INSTANCE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    costs = [(float(line.split()[0]), line) for line in run.stdout.splitlines()]
    assert len(costs) > 50
    # It was gigabytes; what is left is the text and its values.
    assert max(costs)[0] < 50, max(costs)
