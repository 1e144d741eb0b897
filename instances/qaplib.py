"""QAPLIB's files: problems (``.dat``) and solutions (``.sln``) of quadratic assignment.

A problem is its size n and two n by n matrices; a solution is n, its value and a permutation from
1, all separated by blanks and line ends. Some problems hold a known value after the size. Solutions
are written by many hands: some give the inverse permutation, or one for the matrices the other way
round, so `read_qaplib_solution` tries both and says what the value is.

References
----------
Burkard, Karisch, Rendl. QAPLIB - a quadratic assignment problem library. Journal of Global
Optimization 10, 1997. doi:10.1023/A:1008293323270.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.quadratic_assignment import Permutation, QuadraticAssignment

MAX_FACILITIES = 1000
"""Largest size that is read: the largest of QAPLIB is 256."""


@dataclass(frozen=True)
class QaplibSolution:
    """A published solution.

    Parameters
    ----------
    value
        The value that the file states.
    permutation
        Location of every facility, from 0, shape (n,).
    """

    value: float
    permutation: Permutation


def read_qaplib(path: str | PathLike[str]) -> QuadraticAssignment:
    """Read a problem; it is named after the file.

    Raises
    ------
    InstanceError
        If the file is not there or malformed; the message names the line.
    """
    path = Path(path)
    return parse_qaplib(_text(path), path.stem)


def parse_qaplib(text: str, name: str = "qaplib") -> QuadraticAssignment:
    """Read a problem from the text of a file.

    Parameters
    ----------
    text
        The text: the size n, then two n x n matrices.
    name
        Name of the problem, for messages too.

    Examples
    --------
    >>> parse_qaplib("2  0 1 1 0  0 5 5 0", "pair").cost([0, 1])
    10.0

    Raises
    ------
    InstanceError
        If it is malformed; the message names the line.
    """
    words = _words(text, name)
    n = _size(words, name)
    numbers = _numbers(words[1:], name)
    need = 2 * n * n
    # esc8b and its like: the known value stands beside the size, on the first line.
    if len(numbers) == need + 1 and len(words) > 1 and words[1][1] == words[0][1]:
        numbers = numbers[1:]
    if len(numbers) != need:
        raise InstanceError(
            f"{name}: holds {len(numbers)} numbers after its size {n}; two {n} by {n} matrices "
            f"are {need}, so check the size and that the file is whole."
        )
    matrices = np.array(numbers).reshape(2, n, n)
    return QuadraticAssignment(name, matrices[0], matrices[1])


def read_qaplib_solution(path: str | PathLike[str], problem: QuadraticAssignment) -> QaplibSolution:
    """Read a solution of a problem.

    Parameters
    ----------
    path
        A ``.sln`` file.
    problem
        The problem that it solves.

    Raises
    ------
    InstanceError
        If the file is not there or malformed, or no reading of the permutation has the value
        that it states.
    """
    path = Path(path)
    return parse_qaplib_solution(_text(path), problem, path.name)


def parse_qaplib_solution(
    text: str, problem: QuadraticAssignment, name: str = "solution"
) -> QaplibSolution:
    """Read a solution of a problem from the text of a file.

    Parameters
    ----------
    text
        Content of a ``.sln`` file.
    problem
        The problem that it solves.
    name
        What to call the file in messages.

    Raises
    ------
    InstanceError
        If it is malformed, or no reading of the permutation has the value that it states.
    """
    # Some files separate the numbers of the permutation by commas.
    words = _words(text.replace(",", " "), name)
    n = _size(words, name)
    if n != problem.size:
        raise InstanceError(
            f'{name}: is for {n} facilities, but problem "{problem.name}" has {problem.size}; '
            "give the solution of the same problem."
        )
    numbers = _numbers(words[1:], name)
    if len(numbers) != n + 1:
        raise InstanceError(
            f"{name}: holds {len(numbers)} numbers after its size {n}; a value and a permutation "
            f"are {n + 1}."
        )
    value, order = numbers[0], np.array(numbers[1:])
    if not np.array_equal(np.sort(order), np.arange(1, n + 1)):
        raise InstanceError(
            f"{name}: lists no permutation of 1 to {n}; every location must appear once."
        )
    permutation = order.astype(np.int64) - 1
    costs = {}
    for reading in (permutation, np.argsort(permutation)):
        costs[problem.cost(reading)] = reading
        if problem.cost(reading) == value:
            return QaplibSolution(value, reading)
    found = " or ".join(f"{cost:.15g}" for cost in costs)
    raise InstanceError(
        f"{name}: states {value:.15g}, but its permutation costs {found} in problem "
        f'"{problem.name}"; the file belongs to another problem or is mistyped.'
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise InstanceError(f"{path}: cannot be read ({error.strerror}).") from None


def _words(text: str, name: str) -> list[tuple[str, int]]:
    """Return the words of a text and the line of each."""
    words = [
        (word, line) for line, row in enumerate(text.splitlines(), start=1) for word in row.split()
    ]
    if not words:
        raise InstanceError(f"{name}: is empty; the format starts with the size of the problem.")
    return words


def _size(words: list[tuple[str, int]], name: str) -> int:
    word, line = words[0]
    size = int(word) if word.isascii() and word.isdigit() and len(word) < 10 else 0
    if not 1 <= size <= MAX_FACILITIES:
        raise InstanceError(
            f'{name}, line {line}: starts with "{word[:40]}"; expected the size of the problem, a '
            f"whole number from 1 to {MAX_FACILITIES}."
        )
    return size


def _numbers(words: list[tuple[str, int]], name: str) -> list[float]:
    numbers = []
    for word, line in words:
        try:
            number = float(word)
        except ValueError:
            number = float("nan")
        if not np.isfinite(number):
            raise InstanceError(
                f'{name}, line {line}: "{word[:40]}" is not a number; the format holds finite '
                "numbers only."
            )
        numbers.append(number)
    return numbers
