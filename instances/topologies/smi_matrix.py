"""The matrix of ``nvidia-smi topo -m`` as it stands in the file, checked cell by cell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations

from alloc.errors import nearest
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.wiring import require_symmetric

CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""The PCIe classes of two devices, nearest first."""

PHB, NODE, SYS = 2, 3, 4
"""Positions of classes: over a host bridge, between host bridges, between NUMA nodes."""

_CELLS = (*CLASSES, "SOC", "X", "NV1", "NV2", "NV4", "NV6", "NV12", "NV18")
# SOC is what old drivers call SYS.
_RANK = {name: rank for rank, name in enumerate(CLASSES)} | {"SOC": SYS}

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_GPU = re.compile(r"GPU\d{1,4}")
_COLUMN = re.compile(r"GPU\d+|NIC\d+|CPU|[a-z]\w*\d\w*")
_NVLINKS = re.compile(r"NV([1-9]\d{0,2})")
_NAMED_GPU = re.compile(r"GPU \d[\d, ]*: (?P<name>.+?)(?: \(UUID: .*\))?")
_NIC_NAME = re.compile(r"(NIC\d+): (\S+)")
_MAX_CPUS = 100_000
"""Numbers of cores, above those of any server: a range of them is written out."""
TAKE_AGAIN = "take it again with `nvidia-smi topo -m > host.txt`"
"""The cure for most of what can be wrong with a matrix."""


def is_nvidia_smi(text: TopologyText) -> bool:
    """Return whether a text has the head of such a matrix near its start."""
    return any(_is_header(_ESCAPE.sub("", line)) for line in text.head.splitlines()[:500])


def _is_header(line: str) -> bool:
    words = line.split()
    # A row begins with the name of a GPU as well, but goes on with cells.
    return len(words) > 1 and bool(_GPU.fullmatch(words[0]) and _COLUMN.fullmatch(words[1]))


@dataclass(frozen=True)
class _Row:
    """A row of the matrix: its line, its cells by column, and its NUMA node if it says one."""

    line: int
    cells: dict[str, str]
    numa: int | None


class Matrix:
    """The matrix as it stands in the file, checked.

    Attributes
    ----------
    devices
        The names that alloc gives to the GPUs and NICs, in the order of the columns.
    """

    def __init__(self, text: TopologyText) -> None:
        self.text = text
        lines = [_ESCAPE.sub("", line).rstrip() for line in text.text.splitlines()]
        start = next((k for k, line in enumerate(lines) if _is_header(line)), None)
        if start is None:
            raise text.place().error(
                "has no line that begins with GPU0 and names the columns, so it is not a matrix of "
                f"nvidia-smi; {TAKE_AGAIN}."
            )
        again = next((k for k, line in enumerate(lines) if k > start and _is_header(line)), None)
        if again is not None:
            raise text.place(again + 1).error(
                "a second matrix begins; a file describes one server, so give each its own."
            )
        self.tabs = "\t" in lines[start].strip()
        self.columns = self._header(lines[start], start + 1)
        self.device_of = self._device_names()
        self.devices = list(self.device_of.values())
        self.gpus = [d for d in self.devices if d.startswith("gpu")]
        self.nics = [d for d in self.devices if d.startswith("nic")]
        self.cpus: set[int] = set()
        self.rows = self._rows(lines, start + 1)
        self._check()
        self._named = lines[:start] + lines[start + 1 + len(self.columns) :]
        self.nic_names = {
            self.device_of[found[1]]: found[2]
            for line in lines
            if (found := _NIC_NAME.fullmatch(line.strip())) and found[1] in self.device_of
        }

    def where(self, line: int | None = None) -> Place:
        """Return a place in the file."""
        return self.text.place(line)

    def _header(self, text: str, line: int) -> list[str]:
        """Return the names of the devices in the head."""
        names = [name.strip() for name in text.strip().split("\t")] if self.tabs else text.split()
        cut = next((k for k, name in enumerate(names) if name.startswith("CPU")), len(names))
        devices = [name for name in names[:cut] if name]
        for k, name in enumerate(devices):
            if name in devices[:k]:
                raise self.where(line).error(f"column {name} appears twice; {TAKE_AGAIN}.")
        return devices

    def _device_names(self) -> dict[str, str]:
        """Return alloc's names, numbered in the order of the columns; old drivers name the NICs."""
        names, num_gpus, num_nics = {}, 0, 0
        for column in self.columns:
            if _GPU.fullmatch(column):
                names[column] = f"gpu{num_gpus}"
                num_gpus += 1
            else:
                names[column] = f"nic{num_nics}"
                num_nics += 1
        return names

    def _rows(self, lines: list[str], start: int) -> dict[str, _Row]:
        rows: dict[str, _Row] = {}
        for column, line in zip(self.columns, range(start, start + len(self.columns)), strict=True):
            text = lines[line] if line < len(lines) else ""
            if not text.strip():
                raise self.where(line + 1).error(
                    f"the row of {column} is missing, the matrix ends "
                    f"after {len(rows)} of {len(self.columns)} rows; {TAKE_AGAIN}."
                )
            rows[self.device_of[column]] = self._row(column, text, line + 1)
        return rows

    def _row(self, column: str, text: str, line: int) -> _Row:
        fields = [f.strip() for f in text.split("\t")] if self.tabs else text.split()
        if fields[0] != column:
            raise self.where(line).error(
                f"expected the row of {column}, got {shown(fields[0])}; rows stand "
                f"in the order of the columns, so {TAKE_AGAIN}."
            )
        cells = fields[1 : 1 + len(self.columns)]
        if len(cells) < len(self.columns) or "" in cells:
            raise self.where(line).error(
                f"the row of {column} has {len([c for c in cells if c])} "
                f"cells for {len(self.columns)} columns; {TAKE_AGAIN}, tabs and all."
            )
        for name, cell in zip(self.columns, cells, strict=True):
            self._check_cell(column, name, cell, line)
        rest = fields[1 + len(self.columns) :]
        if _GPU.fullmatch(column):
            self.cpus |= _numbers(rest[0]) if rest else set()
        numa = rest[1] if len(rest) > 1 else ""
        return _Row(
            line,
            dict(zip(self.devices, cells, strict=True)),
            int(numa) if re.fullmatch(r"\d{1,4}", numa) else None,
        )

    def _check_cell(self, row: str, column: str, cell: str, line: int) -> None:
        if cell not in _RANK and cell != "X" and not _NVLINKS.fullmatch(cell):
            raise self.where(line).error(
                f"cell {row}-{column} is {shown(cell)}{nearest(cell, _CELLS) or ';'}"
                " cells are X, NV with a number, PIX, PXB, PHB, NODE or SYS."
            )
        if (cell == "X") != (row == column):
            raise self.where(line).error(
                f"cell {row}-{column} is {cell}; a device is X to itself and "
                f"to no other, so {TAKE_AGAIN}."
            )
        if _NVLINKS.fullmatch(cell) and not (_GPU.fullmatch(row) and _GPU.fullmatch(column)):
            raise self.where(line).error(
                f"cell {row}-{column} is {cell}, but only GPUs are joined by NVLink; {TAKE_AGAIN}."
            )

    def _check(self) -> None:
        column_of = {device: column for column, device in self.device_of.items()}
        for a, b in combinations(self.devices, 2):
            require_symmetric(
                self.rows[a].cells[b],
                self.rows[b].cells[a],
                column_of[a],
                column_of[b],
                str(self.where(self.rows[b].line)),
                TAKE_AGAIN,
            )

    def product(self) -> str | None:
        """Return what lines of `nvidia-smi -L` beside the matrix call the GPUs."""
        named = (_NAMED_GPU.fullmatch(line.strip()) for line in self._named)
        found = {match["name"] for match in named if match}
        if len(found) > 1:
            raise self.where().error(
                f"has GPUs of types {', '.join(sorted(found))}; a host has GPUs of "
                "one type, so pass gpu_type= to treat them as one."
            )
        return found.pop() if found else None

    def rank(self, a: str, b: str) -> int | None:
        """Return the PCIe class between two devices, 0 for PIX, or None if NVLink hides it.

        Parameters
        ----------
        a, b
            Names of two devices.
        """
        return _RANK.get(self.rows[a].cells[b])

    def bonded(self, a: str, b: str) -> int:
        """Return the number of NVLinks between two GPUs.

        Parameters
        ----------
        a, b
            Names of two GPUs.
        """
        found = _NVLINKS.fullmatch(self.rows[a].cells[b])
        return int(found[1]) if found else 0


def _numbers(text: str) -> set[int]:
    """Return the numbers in a list like ``0-55,112-167``; none where it is no such list."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if not found:
            return set()
        first, last = int(found[1]), int(found[2] or found[1])
        if last >= _MAX_CPUS:
            return set()
        numbers.update(range(first, last + 1))
    return numbers
