"""The text of a topology file: read once, looked at by every format that may know it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from alloc.documents.files import read_bytes, require_plain
from alloc.errors import InstanceError
from alloc.instances.topologies.markup import Entry, json_entry, yaml_entries
from alloc.instances.topologies.place import Place

# A format is told by its first part; comments before it are rarely longer.
_HEAD = 256 * 1024


@dataclass(frozen=True)
class TopologyText:
    """The text of a file.

    Parameters
    ----------
    file
        The file, as the user named it: the start of every message about it.
    text
        Its content.
    """

    file: str
    text: str

    @property
    def head(self) -> str:
        """The first part of the text, by which formats are told."""
        return self.text[:_HEAD]

    @property
    def stem(self) -> str:
        """The file's name without its endings, for the name of the topology."""
        name = Path(self.file).name.removesuffix(".gz")
        return Path(name).stem or "topology"

    def place(self, line: int | None = None) -> Place:
        """Return a place in the file."""
        return Place(self.file, line)

    @cached_property
    def yaml(self) -> tuple[Entry, ...]:
        """The documents of a YAML file; all scalars are text.

        Raises
        ------
        InstanceError
            If it is not YAML, or made to fill the memory.
        """
        return yaml_entries(self.file, self.text)

    @cached_property
    def json(self) -> Entry:
        """The value of a JSON file.

        Raises
        ------
        InstanceError
            If it is not JSON.
        """
        return json_entry(self.file, self.text)


def read_text(path: str | PathLike[str]) -> TopologyText:
    """Read a text file in UTF-8, decompressed when its name ends in ``.gz``.

    Raises
    ------
    InstanceError
        If it cannot be read, is too large, or is not UTF-8.
    """
    data = read_bytes(path)
    require_plain(data, str(path))
    try:
        return TopologyText(str(path), data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InstanceError(
            f"{path}, line {line}: is not text in UTF-8; save the file as UTF-8."
        ) from None
