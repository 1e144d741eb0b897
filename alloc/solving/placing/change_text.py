"""Changes to a cluster as text: how a command line says what to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from alloc.errors import InstanceError, nearest
from alloc.solving.placing.changes import AddHosts, Change, Cordon, Drain, End, Lose, Quota, Submit
from alloc.units import MILLI

GRAMMAR = (
    (
        "submit:JOB=4x8, submit:JOB=4x8,level=rack,tenant=TEAM,gpu-type=TYPE,cpu=32,memory=200",
        "a job that is not submitted yet: tasks x GPUs each; CPU in cores and memory in GiB a task",
    ),
    ("submit:JOB=like:OTHER, submit:JOB=4x8,like:OTHER", "a job like another, of the same size "
     "or of another"),
    ("end:JOB", "a job ends, or is withdrawn"),
    ("cordon:PLACE", "a host or domain takes nothing new"),
    ("drain:PLACE", "a host or domain is emptied by moves, and goes"),
    ("lose:PLACE", "a host or domain fails; what ran there waits"),
    ("hosts:TYPE@DOMAIN=+2, hosts:TYPE=+2", "more hosts of a type, in a domain or a flat cluster"),
    ("quota:TENANT=64, quota:TENANT=+8", "the GPUs of a quota, or by how many it changes"),
)  # fmt: skip
"""What a change can look like as text, with what it means."""

_TEXT = re.compile(r"(?P<kind>[a-z-]+)(?::(?P<name>[^=]*))?(?:=(?P<value>.*))?", re.DOTALL)
_SIZE = re.compile(r"(\d{1,9})\s*x\s*(\d{1,9})")
_MIB_IN_GIB = 1024
"""Memory is written in GiB and counted in MiB: 1 GiB = 1024 MiB."""
_LARGEST = 10**9
"""Larger than any amount of anything that a task could ask for, and exact in every number."""


def parse_placing_change(text: str) -> Change:
    """Return the change that a text like ``cordon:rack-1`` means; see `GRAMMAR`.

    Raises
    ------
    InstanceError
        If it means none; the message gives an example.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None or match["kind"] not in _READERS:
        word = text.strip() if match is None else match["kind"]
        raise InstanceError(
            f'change "{text}": unknown kind "{word}"{nearest(word, _READERS) or ";"} known: '
            f"{', '.join(_READERS)}, for example cordon:rack-1."
        )
    if not match["name"]:
        raise InstanceError(f'change "{text}": names nothing; write {_example(text)}.')
    return _READERS[match["kind"]](text, match["name"].strip(), match["value"])


def _place(make: Callable[[str], Change]) -> Callable[[str, str, str | None], Change]:
    """Return the reader of a change that a name says in full."""

    def read(text: str, name: str, value: str | None) -> Change:
        if value is not None:
            raise InstanceError(f'change "{text}": takes no value; write {_example(text)}.')
        return make(name)

    return read


def _submit(text: str, name: str, value: str | None) -> Change:
    said: dict[str, str] = {}
    size: tuple[int, int] | None = None
    for k, part in enumerate((value or "").split(",")):
        part = part.strip()
        if k == 0 and (match := _SIZE.fullmatch(part)) is not None:
            size = int(match[1]), int(match[2])
            continue
        key, found, word = part.partition(":" if part.startswith("like") else "=")
        if not found or key not in _PARTS or not word:
            raise InstanceError(
                f'change "{text}": "{part}" is no part of a job'
                f"{nearest(key, _PARTS) or ';'} write {_example(text)}."
            )
        if key in said:
            raise InstanceError(f'change "{text}": says {key} twice; say it once.')
        said[key] = word
    if size is None and "like" not in said:
        raise InstanceError(f'change "{text}": says no size; write {_example(text)}.')
    if size is not None and (size[0] < 1 or (size[1] < 1 and "cpu" not in said)):
        raise InstanceError(
            f'change "{text}": asks for nothing; give 1 task or more, with a GPU or cpu=CORES.'
        )
    cpu, memory = said.get("cpu"), said.get("memory")
    cpu_milli = None if cpu is None else round(_number(text, cpu) * MILLI)
    if size is not None and not size[1] and not cpu_milli:
        raise InstanceError(f'change "{text}": asks for nothing; give cpu=CORES above 0.')
    return Submit(
        name,
        None if size is None else size[0],
        0 if size is None else size[1],
        cpu_milli,
        None if memory is None else round(_number(text, memory) * _MIB_IN_GIB),
        said.get("gpu-type"),
        said.get("level"),
        said.get("tenant"),
        said.get("like"),
    )


_PARTS = ("like", "level", "tenant", "gpu-type", "cpu", "memory")


def _hosts(text: str, name: str, value: str | None) -> Change:
    kind, at, domain = name.rpartition("@")
    number = re.fullmatch(r"\+(\d{1,5})", (value or "").strip())
    if number is None or not int(number[1]):
        raise InstanceError(
            f'change "{text}": "{value or ""}" says not how many hosts come; write '
            f"{_example(text)}; lose:PLACE takes hosts away."
        )
    return AddHosts(kind if at else name, int(number[1]), domain if at else None)


def _quota(text: str, name: str, value: str | None) -> Change:
    given = (value or "").strip()
    relative = given.startswith(("+", "-"))
    return Quota(name, _number(text, given.lstrip("+"), least=-_LARGEST), relative)


def _number(text: str, value: str, *, least: float = 0.0) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number <= _LARGEST:
        raise InstanceError(
            f'change "{text}": "{value}" is not a number from {max(least, 0):g}; write '
            f"{_example(text)}."
        )
    return number


def _example(text: str) -> str:
    kind = re.match(r"[a-z-]+", text.strip())
    for example, _ in GRAMMAR:
        if kind and example.startswith(f"{kind[0]}:"):
            return example.partition(", ")[0]
    return GRAMMAR[0][0]


_READERS: Mapping[str, Callable[[str, str, str | None], Change]] = {
    "submit": _submit,
    "end": _place(End),
    "cordon": _place(Cordon),
    "drain": _place(Drain),
    "lose": _place(Lose),
    "hosts": _hosts,
    "quota": _quota,
}
"""Kinds of changes by the name they have in text, with what reads name and value."""
KINDS = tuple(_READERS)
"""Kinds of changes by the name they have in text."""
