"""Fuzz: whatever the bytes, a reader answers or refuses with an `InstanceError`."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.errors import InstanceError
from alloc.instances import readers

DATA = Path(__file__).parents[1] / "data" / "traces"

# What damages tables in practice: numbers out of range, missing fields, quotes, other encodings.
TOKENS = (
    *(b"", b"0", b"-1", b"1e400", b"nan", b"9" * 5000, b"1e15", b"0.0000001", b"5", b"|", b" "),
    *(b'"', b",", b"\n", b"\r", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
    b"2017-10-09 01:00:00",
)

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "table": ("philly.csv", lambda p: readers.table_instance(p, timezone="Europe/Berlin")),
    "swf": ("made.swf", readers.swf_instance),
    "slurm": ("sacct.txt", readers.slurm_instance),
    "table-of-numbers": ("itp-elastic.csv", readers.table_instance),
    "itp": ("itp.csv", lambda p: readers.itp_instance(p, slot_s=600.0)),
    "elastic": (
        "itp-elastic.csv",
        lambda p: readers.itp_instance(p, num_hosts=4, scaling=DATA / "elasticflow"),
    ),
    "philly": ("philly.csv", lambda p: readers.philly_instance(p, length_s=86400.0)),
    "vcs": (
        "philly-vcs.csv",
        lambda p: readers.philly_instance(DATA / "philly.csv", vc="aaa111", vcs=p),
    ),
    "machines": (
        "machines.csv",
        lambda p: readers.philly_instance(DATA / "philly.csv", machines=p),
    ),
    "nodes": ("openb-nodes.csv", lambda p: readers.openb_instance(p, DATA / "openb-pods.csv")),
    "pods": ("openb-pods.csv", lambda p: readers.openb_instance(DATA / "openb-nodes.csv", p)),
    "snapshot": (
        "openb-pods.csv",
        lambda p: readers.openb_instance(DATA / "openb-nodes.csv", p, snapshot=True),
    ),
    "batch-table": (
        "elasticflow/alpha.csv",
        lambda p: readers.scaling_configurations(readers.read_elasticflow_table(p)[0], 64),
    ),
    "placements": (
        "pollux/gamma/placements.csv",
        lambda p: readers.scaling_configurations(readers.read_pollux_placements(p)[0], 32),
    ),
    "scalability": (
        "pollux/gamma/scalability.csv",
        lambda p: readers.scaling_configurations(readers.read_pollux_placements(p)[0], 96),
    ),
}


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with a few pieces replaced, or packed and then damaged."""
    packed = draw(st.integers(0, 9)) == 0
    data = gzip.compress(content, mtime=0) if packed else content
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 12))
        token = draw(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8)))
        data = data[:start] + token + data[start + length :]
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 9)) == 0 else data


@st.composite
def swapped(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with whole fields replaced, which keeps rows in shape."""
    lines = [line.split(b",") for line in content.splitlines()]
    for _ in range(draw(st.integers(1, 6))):
        line = lines[draw(st.integers(0, len(lines) - 1))]
        line[draw(st.integers(0, len(line) - 1))] = draw(st.sampled_from(TOKENS))
    return b"\n".join(b",".join(line) for line in lines)


@pytest.mark.parametrize("kind", READERS)
def test_readers_answer_or_refuse(kind: str) -> None:
    """No bytes make a reader crash: a crash would be a traceback on somebody's screen."""
    fixture, read = READERS[kind]
    content = (DATA / fixture).read_bytes()
    outcomes: set[str] = set()

    @settings(max_examples=150, deadline=None, database=None)
    @given(st.one_of(damaged(content), swapped(content)))
    def fuzz(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(path)
            outcomes.add("answered")
        except InstanceError:
            outcomes.add("refused")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        fuzz()
    # A fuzz that only ever sees one of the two has not come near the border.
    assert outcomes == {"answered", "refused"}
