"""Files of documents: hostile text, damaged files, full disks. A sentence, and nothing lost."""

from __future__ import annotations

import difflib
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from work_counts import counted

from alloc.documents import files, format_of
from alloc.documents.parsing import parse_json
from alloc.documents.reading import load, save
from alloc.errors import AllocError, InstanceError
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.problems.colocation import Packing
from alloc.topology import HostType, flat_cluster
from alloc.workload import Job, rigid_gang

INSTANCE = Instance(
    "träning",
    flat_cluster("pair", HostType("box", 4, "v100"), 2),
    (Job("a", 0.0, 5.0, (rigid_gang(2),)),),
)
TEXT = save(INSTANCE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TEXT[:-3], r"ends too early, at line \d+, column .*; it was cut off"),
        (TEXT[:40], "ends too early, at line 3, column .*; it was cut off"),
        (TEXT[: TEXT.index("träning") + 3], "ends too early"),
        ("", "is empty; write a JSON object"),
        (" \n", "is empty"),
        (b"", "is empty"),
        ("hello", "is not valid JSON: expecting value at line 1, column 1; correct it there"),
        (TEXT.replace('"kind":', '"kind"'), "not valid JSON: expecting ':' delimiter at line 3"),
        ("[]", "the instance document is a list; a document is a JSON object, in braces"),
        ("3", "the instance document is 3; a document is a JSON object"),
        ("[" * 100_000, "nests brackets too deeply"),
        ('{"a":' * 100_000, "nests brackets too deeply"),
        (TEXT.replace("5,", "9" * 5000 + ","), "a whole number of thousands of digits"),
        (TEXT.replace('"work": 5', '"work": 1e400'), 'job "a": work is infinite or too large'),
        (TEXT.replace('"work": 5', '"work": NaN'), 'job "a": work is NaN; give a finite number'),
        (TEXT.replace('"work": 5', '"work": -Infinity'), 'job "a": work is infinite'),
        (
            TEXT.replace('"work": 5', '"work": 5, "work": 6'),
            'the field "work" of "a" appears twice; keep one',
        ),
        ('{"kind": 1, "kind": 1}', 'the field "kind" appears twice; keep one'),
        (TEXT.encode("latin-1"), r"is not UTF-8: byte 0xe4 at position \d+; save it as UTF-8"),
        (TEXT.encode("utf-16"), "is UTF-16; save it as UTF-8"),
        (TEXT.encode("utf-32"), "is UTF-32; save it as UTF-8"),
        (TEXT.replace("träning", "\\ud800"), "holds half a character .a lone .ud800 to .udfff"),
        (TEXT.replace("träning", "\ud800"), "holds half a character; save it as UTF-8"),
        (gzip.compress(TEXT.encode()), "is compressed; let its name end in .gz"),
        ('{"name": "x"}', 'has no "kind"; add "kind": "instance"'),
        ('{"kind": "instance"}', 'has no "schema_version"; add "schema_version": 1'),
        (TEXT.replace('"instance"', '"instanc"'), 'kind "instanc"; did you mean "instance"'),
        (TEXT.replace('"instance"', "[]"), 'has kind a list; an instance has "kind": "instance"'),
        (TEXT.replace("n: 1", "n: 2").replace('n": 1', 'n": 2'),
         "schema_version 2, and this alloc .* reads up to 1 .*since alloc 0.1.0.; upgrade alloc"),
        (TEXT.replace('n": 1', 'n": true', 1), "schema_version true; this alloc writes 1"),
        (TEXT.replace('n": 1', 'n": 0', 1), "schema_version 0; this alloc writes 1"),
    ],
)  # fmt: skip
def test_hostile_text(text: str | bytes, sentence: str) -> None:
    """None of these may end in a traceback, or without an end."""
    with pytest.raises(InstanceError, match=sentence) as caught:
        format_of("instance").parse(text)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_accepted() -> None:
    """Windows editors put one in front."""
    assert format_of("instance").parse(TEXT.encode("utf-8-sig")) == INSTANCE
    assert format_of("instance").parse("\ufeff" + TEXT) == INSTANCE


def test_whole_characters_may_be_escaped() -> None:
    """Pairs of halves are how JSON escapes an emoji."""
    escaped = TEXT.replace("träning", "\\ud83d\\ude80")
    assert format_of("instance").parse(escaped).name == "\N{ROCKET}"


def test_a_document_of_another_kind_is_named() -> None:
    """The commonest slip on the command line is the wrong file."""
    solution = save(Schedule(()))
    for parse, wanted in (
        (format_of("instance").parse, "an instance"),
        (format_of("result").parse, "a result"),
        (format_of("topology").parse, "a topology"),
    ):
        sentence = f"this is a solution, and {wanted} was expected; give {wanted}"
        with pytest.raises(InstanceError, match=sentence):
            parse(solution)
    with pytest.raises(InstanceError, match="this is an instance, and a solution was"):
        format_of("solution").parse(TEXT)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_files_are_read_back(tmp_path: Path, name: str) -> None:
    """Plain or compressed by the name."""
    path = tmp_path / name
    assert save(INSTANCE, path) == TEXT
    assert format_of("instance").load(path) == INSTANCE
    assert format_of("instance").load(str(path)) == INSTANCE
    assert path.read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    save(INSTANCE.topology, path)
    assert format_of("topology").load(path) == INSTANCE.topology
    save(Schedule(()), path)
    assert format_of("solution").load(path) == Schedule(())
    assert [p.name for p in tmp_path.iterdir()] == [name]  # no litter


def test_results_are_read_back(tmp_path: Path) -> None:
    """`Result.to_json` and the loader agree."""
    from alloc.certificate import Certificate
    from alloc.result import Result

    result = Result(
        None,
        Certificate("infeasible", None, 3.0, "min", "o", "f", "b", "1", 0, 1, 0.5, "00"),
        conflict="jobs a and b both need host-0",
    )
    assert result.to_json(tmp_path / "r.json") == save(result)
    assert format_of("result").load(tmp_path / "r.json") == result
    assert Result.from_json(result.to_json()) == result
    assert Instance.load(_written(tmp_path)) == Instance.from_json(INSTANCE.to_json()) == INSTANCE


def _written(tmp_path: Path) -> Path:
    path = tmp_path / "instance.json"
    INSTANCE.to_json(path)
    return path


def test_compressed_files_are_the_same_every_time(tmp_path: Path) -> None:
    """Checksums in a manifest must not change with the clock."""
    save(INSTANCE, tmp_path / "a.gz")
    first = (tmp_path / "a.gz").read_bytes()
    save(INSTANCE, tmp_path / "a.gz")
    assert (tmp_path / "a.gz").read_bytes() == first == gzip.compress(TEXT.encode(), mtime=0)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    """With twenty instances on the command line, the sentence must say which."""
    path = tmp_path / "bad.json"
    path.write_text(TEXT.replace('"work": 5', '"work": -5'))
    with pytest.raises(InstanceError, match=r'bad\.json: job "a": work is -5; it must be more'):
        format_of("instance").load(path)


def test_a_missing_file(tmp_path: Path) -> None:
    """A slip in the name gets the name that is there."""
    (tmp_path / "week-12.json").write_text(TEXT)
    with pytest.raises(InstanceError, match=r'there is no such file; did you mean "week-12.json"'):
        format_of("instance").load(tmp_path / "week12.json")
    with pytest.raises(InstanceError, match=r"there is no such file\.$"):
        format_of("instance").load(tmp_path / "nowhere" / "week-12.json")


def test_a_folder(tmp_path: Path) -> None:
    """Easily given for a file."""
    with pytest.raises(InstanceError, match=f"^{tmp_path}: is a folder; name a file in it"):
        format_of("instance").load(tmp_path)
    with pytest.raises(AllocError, match="cannot be written"):
        save(INSTANCE, tmp_path)


def test_names_that_no_file_can_have() -> None:
    """They reach us from scripts."""
    with pytest.raises(InstanceError, match="cannot be read"):
        format_of("instance").load("a\0b")
    with pytest.raises(AllocError, match="cannot be written"):
        save(INSTANCE, "a\0b")
    with pytest.raises(InstanceError, match=r"cannot be read .File name too long"):
        format_of("instance").load("x" * 5000)


def test_a_gigabyte_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size is looked at first: memory and minutes are saved."""
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(2**30)
    opened = counted(monkeypatch, Path, "open")
    with pytest.raises(
        InstanceError,
        match=r"has 1024 MiB or more, and documents are read up to "
        r"512 MiB; split the instance, or let jobs share",
    ):
        format_of("instance").load(path)  # fmt: skip
    assert opened == []


@pytest.mark.long
def test_the_limit_holds_for_texts_and_while_unpacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small compressed file can unpack to any size."""
    monkeypatch.setattr(files, "MAX_BYTES", 2**20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 2**27))
    assert path.stat().st_size < files.MAX_BYTES
    with pytest.raises(InstanceError, match=r"bomb\.json\.gz: has 2 MiB or more, and documents"):
        format_of("instance").load(path)
    with pytest.raises(InstanceError, match="the instance document: has 2 MiB or more"):
        format_of("instance").parse(b" " * 2**21)


def test_values_are_limited_like_bytes_and_while_unpacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list takes 3 bytes of text and 60 of memory."""
    monkeypatch.setattr(files, "MAX_VALUES", 1_000)
    read: list[int] = []
    monkeypatch.setattr(files, "count_values", lambda text: read.append(len(text)) or 600)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"[]," * 2**22 + b"[]]"))
    with pytest.raises(InstanceError, match=r"bomb\.json\.gz: has more than 1,000 values; split"):
        format_of("instance").load(path)
    # The second piece is one too many; the rest is not unpacked.
    assert read == [2**20, 2**20]
    monkeypatch.undo()
    monkeypatch.setattr(files, "MAX_VALUES", 1_000)
    with pytest.raises(InstanceError, match="the instance document: has more than 1,000 values"):
        format_of("instance").parse("[" + "[]," * 600 + "[]]")
    assert files.count_values(b'{"a":[1,2,{}]}') == 5


@pytest.mark.parametrize("empty", ["{}", "[]"])
def test_what_is_mostly_empty_is_refused_before_it_is_parsed(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of thousands of empty objects take as long to read as ones that say something."""
    parsed = counted(monkeypatch, json, "loads")
    jobs = ",".join([empty] * 100_000)
    with pytest.raises(InstanceError, match="the body: is mostly empty objects and lists, one aft"):
        parse_json(f'{{"jobs": [{jobs}]}}', "the body")
    assert not parsed
    # A few are wrong by what the models say, and empty fields are as good as any.
    assert parse_json(f'{{"jobs": [{empty},{empty}]}}', "the body") == {
        "jobs": [json.loads(empty)] * 2
    }
    named = ",".join(f'{{"id":"{k}","resources":{empty}}}' for k in range(10_000))
    assert len(parse_json(f'{{"jobs": [{named}]}}', "the body")["jobs"]) == 10_000


def test_idle_gpus_are_read_however_they_are_written() -> None:
    """Each of a packing is an empty list, and most of a compact text are such lists."""
    packing = Packing(tuple((j,) if j < 100 else () for j in range(20_000)), ())
    document = json.loads(save(packing))
    for separators in ((",", ":"), (", ", ": ")):
        assert load(json.dumps(document, separators=separators)) == packing


@pytest.mark.parametrize(
    "data",
    [TEXT.encode(), gzip.compress(TEXT.encode())[:-20], b"\x1f\x8b\x08\x00" + b"x" * 50, b""],
)
def test_a_damaged_compressed_file(tmp_path: Path, data: bytes) -> None:
    """Downloads stop half-way; plain files get the wrong name."""
    path = tmp_path / "a.json.gz"
    path.write_bytes(data)
    sentence = "is not a whole gzip file .*; copy it again" if data else "is empty"
    with pytest.raises(InstanceError, match=sentence):
        format_of("instance").load(path)


def test_a_new_file_has_ordinary_permissions_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    """A temporary file is for its owner only; a result is for colleagues."""
    path = tmp_path / "a.json"
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    save(INSTANCE, path)
    assert path.stat().st_mode == ordinary.stat().st_mode
    path.chmod(0o640)
    save(INSTANCE, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """`latest.json` may point to the run of the day."""
    (tmp_path / "real.json").touch()
    (tmp_path / "latest.json").symlink_to("real.json")
    save(INSTANCE, tmp_path / "latest.json")
    assert (tmp_path / "latest.json").is_symlink()
    assert format_of("instance").load(tmp_path / "real.json") == INSTANCE


@pytest.mark.long
def test_a_pipe_is_written_and_read() -> None:
    """`--output /dev/stdout | ...` and `... | alloc solve /dev/stdin` are ordinary use."""
    program = (
        "import sys; from alloc.documents.reading import load, save;"
        "save(load('/dev/stdin'), '/dev/stdout')"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], input=TEXT.encode(), capture_output=True, check=True
    )
    assert process.stdout.decode() == TEXT


def test_a_full_device(tmp_path: Path) -> None:
    """The error of a full disk, from the system itself where it has a device for that."""
    device, reason = Path("/dev/full"), "No space left on device"
    if not device.exists():
        device, reason = tmp_path / "nowhere" / "a.json", "No such file or directory"
    with pytest.raises(AllocError, match=f"{device}: cannot be written .{reason}.; nothing was"):
        save(INSTANCE, device)


@pytest.mark.long
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """The old file stays whole, no litter stays, and the program goes on."""
    path = tmp_path / "result.json"
    save(INSTANCE, path)
    # The system's own limit on the size of files stands in for the end of the disk.
    program = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from alloc.documents.reading import load, save
from alloc.errors import AllocError
instance = load({str(path)!r})
try:
    save(instance.replace(name="new"), {str(path)!r})
except AllocError as error:
    raise SystemExit(str(error))
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 1, process.stderr
    assert "result.json: cannot be written (File too large); nothing was changed" in process.stderr
    assert format_of("instance").load(path) == INSTANCE
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_an_interrupt_while_writing_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at the worst moment: after the data, before the name."""
    path = tmp_path / "result.json"
    save(INSTANCE, path)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(INSTANCE.replace(name="new"), path)
    assert format_of("instance").load(path) == INSTANCE
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_unknown_names_are_not_compared_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing two names of a megabyte takes hours; nobody mistypes one."""
    looked = counted(monkeypatch, difflib, "get_close_matches")
    text = TEXT.replace('"type": "box"', f'"type": "{"x" * 2**20}"')
    with pytest.raises(InstanceError, match="which is not defined; define it in host_types"):
        format_of("instance").parse(text.replace('"name": "box"', f'"name": "{"xy" * 2**19}"'))
    for name, known in looked:
        assert max(map(len, (name, *known))) <= 100
