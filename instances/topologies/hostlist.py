"""Hostlist expressions, as Slurm writes lists of names: ``tux[0-3,12,18-20],login``.

A name may have several groups in brackets; the last turns fastest. A range has at least as many
digits as its first number: ``n[08-10]`` is n08, n09, n10, and ``n[8-10]`` is n8, n9, n10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.tree import MAX_HOSTS

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)", re.DOTALL)
# A comma within brackets does not end a name.
_NAME = re.compile(r"(?:[^,\[\]\s]|\[[^\[\]]*\])+")
_SEPARATOR = re.compile(r"[\s,]*")


def expand_hostlist(expression: str, where: Place) -> tuple[str, ...]:
    """Return the names that a hostlist expression stands for, in its order.

    Parameters
    ----------
    expression
        Names separated by commas; blanks around them are allowed.
    where
        Its place in the file, for messages.

    Raises
    ------
    InstanceError
        If brackets or ranges are malformed, or it stands for more than a million names.

    Examples
    --------
    >>> expand_hostlist("n[08-10],rack[1-2]n[1,3]", Place("example"))
    ('n08', 'n09', 'n10', 'rack1n1', 'rack1n3', 'rack2n1', 'rack2n3')
    """
    names: list[str] = []
    for part in _parts(expression, where):
        # Text and bracket groups take turns.
        choices = [
            _numbers(piece, part, where, MAX_HOSTS - len(names)) if k % 2 else [piece]
            for k, piece in enumerate(re.split(r"\[([^\[\]]*)\]", part))
        ]
        count = 1
        for choice in choices:
            count *= len(choice)
            if count > MAX_HOSTS - len(names):
                raise _too_many(part, where)
        names += map("".join, product(*choices))
    return tuple(names)


def compress_hostlist(names: Iterable[str]) -> str:
    """Return a short hostlist expression for names, in their order.

    Names that differ in their last number only, one after the other, share brackets; names may
    hold no comma, bracket or blank.

    Examples
    --------
    >>> compress_hostlist(["n08", "n09", "n10", "n12", "login"])
    'n[08-10,12],login'
    """
    return ",".join(
        f"{prefix}{_bracket(numbers)}{suffix}" for prefix, suffix, numbers in _grouped(names)
    )


def _parts(expression: str, where: Place) -> Iterator[str]:
    """Split at commas outside brackets."""
    position = _SEPARATOR.match(expression).end()  # type: ignore[union-attr]
    while position < len(expression):
        found = _NAME.match(expression, position)
        if found is None:
            raise where.error(
                f"{shown(expression)} is not a list of names: a bracket is not closed, or not "
                "opened; write it like n[1-4,7],login."
            )
        yield found[0]
        position = _SEPARATOR.match(expression, found.end()).end()  # type: ignore[union-attr]


def _numbers(group: str, part: str, where: Place, most: int) -> list[str]:
    """Return the numbers of a bracket group, as text."""
    numbers: list[str] = []
    for item in group.split(","):
        found = _RANGE.fullmatch(item.strip())
        if found is None:
            raise where.error(
                f"{shown(item)} in {shown(part)} is not a number or range; write it like [1-4,7]."
            )
        low, high = int(found[1]), int(found[2] or found[1])
        if high < low:
            raise where.error(
                f"the range {item.strip()} in {shown(part)} runs backwards; write the smaller "
                "number first."
            )
        if high - low >= most - len(numbers):
            raise _too_many(part, where)
        width = len(found[1])
        numbers += [f"{number:0{width}d}" for number in range(low, high + 1)]
    return numbers


def _too_many(part: str, where: Place) -> Exception:
    return where.error(f"{shown(part)} stands for more than {MAX_HOSTS:,} names; check its ranges.")


def _grouped(names: Iterable[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield runs of names with the same text around their last number: (before, after, numbers)."""
    before = after = ""
    numbers: list[str] = []
    for name in names:
        found = _LAST_NUMBER.fullmatch(name)
        if numbers and found and (found[1], found[3]) == (before, after):
            numbers.append(found[2])
            continue
        if numbers:
            yield before, after, numbers
        numbers = []
        if found:
            before, after, numbers = found[1], found[3], [found[2]]
        else:
            yield name, "", []
    if numbers:
        yield before, after, numbers


def _bracket(numbers: list[str]) -> str:
    """Return the bracket group of numbers; none for one number or no number."""
    if len(numbers) < 2:
        return "".join(numbers)
    runs: list[list[str]] = []
    for number in numbers:
        if runs and number == f"{int(runs[-1][-1]) + 1:0{len(runs[-1][0])}d}":
            runs[-1].append(number)
        else:
            runs.append([number])
    return "[" + ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) + "]"
