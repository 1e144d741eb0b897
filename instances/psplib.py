"""PSPLIB's files (``.sm``, ``.mm``), MMLIB's dialect of them, and Patterson's (``.rcp``).

A file is a project: activities with modes, successors and capacities. The first and the last
activity mark begin and end; they take no time and are left out. Files that end in ``.gz`` are
unpacked.

References
----------
R. Kolisch, A. Sprecher, "PSPLIB - a project scheduling problem library", EJOR 96(1), 1996.
doi:10.1016/S0377-2217(96)00170-1. V. Van Peteghem, M. Vanhoucke, "An experimental investigation of
metaheuristics for the multi-mode resource-constrained project scheduling problem on new dataset
instances", EJOR 235(1), 2014, doi:10.1016/j.ejor.2013.10.012 (MMLIB). J. H. Patterson, "A
comparison of exact approaches for solving the multiple constrained resource project scheduling
problem", Management Science 30(7), 1984.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from alloc.errors import InstanceError
from alloc.problems.project import Activity, Mode, ProjectProblem, Resource

_COUNT = re.compile(r"^\s*-?\s*(renewable|nonrenewable|doubly constrained)\s*:\s*(\d+)", re.I)
_JOBS = re.compile(r"^\s*jobs\s*\(incl[^:]*:\s*(\d+)", re.I)
_SECTIONS = {
    "precedence": "PRECEDENCE RELATIONS",
    "requests": "REQUESTS/DURATIONS",
    "capacities": "RESOURCE AVAILABILITIES",
}
_Rows = list[tuple[int, tuple[int, ...]]]
"""Duration and uses of each mode."""


def read_psplib(path: str | PathLike[str]) -> ProjectProblem:
    """Read a project; it is named after the file. Times are in the file's periods, as seconds.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InstanceError
        If the file is not there, cut short or in another format; the message says where.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")
    except (OSError, EOFError) as error:
        raise InstanceError(f"{path}: cannot be read ({error}); give a file of PSPLIB.") from None
    return parse_psplib(text, path.name.removesuffix(".gz").rpartition(".")[0] or path.name)


def parse_psplib(text: str, name: str = "project") -> ProjectProblem:
    """Read a project from the text of a file, of whichever of the dialects it is.

    Parameters
    ----------
    text
        The text.
    name
        Name of the problem, for messages too.

    Examples
    --------
    >>> text = "4 1  2  0 0 2 2 3  3 2 1 4  4 1 1 4  0 0 0"
    >>> [activity.id for activity in parse_psplib(text).activities]
    ['2', '3']

    Raises
    ------
    InstanceError
        If it is cut short or in another format; the message says where.
    """
    if _at(text.upper().splitlines(), _SECTIONS["precedence"]) is not None:
        return _psplib(text, name)
    if re.fullmatch(r"[\d\s]+", text):
        return _patterson(text, name)
    raise InstanceError(
        f"{name}: is neither a file of PSPLIB or MMLIB, with PRECEDENCE RELATIONS, nor one of "
        "Patterson's, of numbers alone; convert it to one of them."
    )


class _Numbers:
    """The numbers of a section, one after the other."""

    def __init__(self, words: Sequence[str], where: str) -> None:
        self.where, self._words, self._next = where, words, 0

    def take(self, count: int, what: str) -> list[int]:
        """Return the next numbers.

        Raises
        ------
        InstanceError
            If there are fewer, or one is none.
        """
        words = self._words[self._next : self._next + count]
        self._next += count
        if len(words) < count:
            raise InstanceError(f"{self.where}: ends before {what}; the file is cut short.")
        for word in words:
            if not word.isdecimal():
                raise InstanceError(f'{self.where}: "{word}" stands where {what} should.')
        return [int(word) for word in words]


def _at(lines: Sequence[str], heading: str) -> int | None:
    """Return the line that a heading is on, blanks apart."""
    wanted = heading.replace(" ", "")
    return next((k for k, line in enumerate(lines) if wanted in line.replace(" ", "")), None)


def _section(lines: Sequence[str], key: str, name: str) -> _Numbers:
    """Return the numbers of a section: lines that begin with one, up to the next row of stars."""
    begin = _at([line.upper() for line in lines], _SECTIONS[key])
    if begin is None:
        raise InstanceError(
            f"{name}: has no section {_SECTIONS[key]}; the file is cut short or of another dialect."
        )
    words: list[str] = []
    for line in lines[begin + 1 :]:
        if line.lstrip().startswith("*"):
            break
        if line.strip()[:1].isdecimal():
            words += line.split()
    return _Numbers(words, f"{name}: {_SECTIONS[key]}")


def _psplib(text: str, name: str) -> ProjectProblem:
    lines = text.splitlines()
    found = [match for match in map(_COUNT.match, lines) if match]
    counts = {match[1].lower(): int(match[2]) for match in found}
    jobs = next((int(match[1]) for match in map(_JOBS.match, lines) if match), None)
    if jobs is None or "renewable" not in counts:
        raise InstanceError(
            f'{name}: does not say how many jobs and renewable resources it has ("jobs (incl. '
            'supersource/sink )", "- renewable"); it is cut short or of another dialect.'
        )
    if counts.get("doubly constrained"):
        raise InstanceError(
            f"{name}: has doubly constrained resources; write each as a renewable and a "
            "nonrenewable one."
        )
    renewable, used_up = counts["renewable"], counts.get("nonrenewable", 0)
    numbers = _section(lines, "precedence", name)
    num_modes, successors = [], []
    for number in range(1, jobs + 1):
        job, modes, count = numbers.take(3, f"job {number}")
        if job != number:
            raise InstanceError(f"{numbers.where}: job {job} stands where {number} should.")
        num_modes.append(modes)
        successors.append(numbers.take(count, f"the successors of job {number}"))
    numbers = _section(lines, "requests", name)
    modes_of: list[_Rows] = []
    for number, count in enumerate(num_modes, 1):
        numbers.take(1, f"job {number}")
        modes_of.append([])
        for mode in range(1, count + 1):
            what = f"mode {mode} of job {number}"
            _, duration, *uses = numbers.take(2 + renewable + used_up, what)
            modes_of[-1].append((duration, tuple(uses)))
    capacity = _section(lines, "capacities", name).take(renewable + used_up, "the capacities")
    names = [f"R{k + 1}" for k in range(renewable)] + [f"N{k + 1}" for k in range(used_up)]
    resources = tuple(
        Resource(n, c, n.startswith("R")) for n, c in zip(names, capacity, strict=True)
    )
    return _project(name, modes_of, successors, resources)


def _patterson(text: str, name: str) -> ProjectProblem:
    numbers = _Numbers(text.split(), name)
    jobs, count = numbers.take(2, "the numbers of jobs and resources")
    capacity = numbers.take(count, "the capacities")
    modes_of: list[_Rows] = []
    successors = []
    for number in range(1, jobs + 1):
        duration, *uses, followers = numbers.take(count + 2, f"job {number}")
        modes_of.append([(duration, tuple(uses))])
        successors.append(numbers.take(followers, f"the successors of job {number}"))
    resources = tuple(Resource(f"R{k + 1}", c) for k, c in enumerate(capacity))
    return _project(name, modes_of, successors, resources)


def _project(
    name: str,
    modes_of: Sequence[_Rows],
    successors: Sequence[Sequence[int]],
    resources: tuple[Resource, ...],
) -> ProjectProblem:
    """Return the project without the activities that only mark a moment."""
    jobs = len(modes_of)
    before: list[list[int]] = [[] for _ in range(jobs)]
    for number, followers in enumerate(successors, 1):
        for follower in followers:
            if not 1 <= follower <= jobs:
                raise InstanceError(
                    f"{name}: job {number} has the successor {follower}, and there are {jobs} jobs."
                )
            before[follower - 1].append(number - 1)
    marks = {k for k, rows in enumerate(modes_of) if all(d == 0 and not any(u) for d, u in rows)}

    def real(k: int, seen: frozenset[int] = frozenset()) -> list[int]:
        """Return the predecessors of a job, those of marks in their place."""
        found = []
        for p in before[k]:
            if p in seen:
                raise InstanceError(f"{name}: job {p + 1} comes before itself; take a pair out.")
            found += real(p, seen | {p}) if p in marks else [p]
        return list(dict.fromkeys(found))

    activities = tuple(
        Activity(
            str(k + 1),
            tuple(
                Mode(float(d), {r.name: u for r, u in zip(resources, uses, strict=True) if u})
                for d, uses in rows
            ),
            tuple(str(p + 1) for p in real(k)),
        )
        for k, rows in enumerate(modes_of)
        if k not in marks
    )
    return ProjectProblem(name, activities, resources)
