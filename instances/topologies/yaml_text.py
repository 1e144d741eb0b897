"""YAML with lines: scalars as the text that they are."""

from __future__ import annotations

from functools import partial

from alloc.documents.yaml_events import YamlReader
from alloc.errors import InstanceError
from alloc.instances.topologies.entries import Entry, Lines
from alloc.instances.topologies.place import Place, shown

MAX_VALUES = 4_000_000
"""Most values of a YAML file, with its aliases unfolded."""


def yaml_entries(file: str, text: str) -> tuple[Entry, ...]:
    """Return the documents of a YAML text.

    Parameters
    ----------
    file
        Name of the file, for messages.
    text
        Its content.

    Raises
    ------
    InstanceError
        If it is not YAML, is nested too deep, uses tags, names a key twice or unfolds to too much.
    """

    def error(line: int | None, sentence: str) -> InstanceError:
        return Place(file, line).error(sentence)

    read = partial(YamlReader, text, error, shown, MAX_VALUES)
    lines = Lines(lambda: read(record=True).lines)
    return tuple(Entry(value, (k,), file, lines, 1) for k, value in enumerate(read().documents))
