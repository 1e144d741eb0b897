"""What a topology format is: its name, how it is told from others, its reader and its writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from alloc.errors import InstanceError, nearest
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport
from alloc.instances.topologies.host_types import HostTypeChoice
from alloc.instances.topologies.text import TopologyText
from alloc.topology import Topology


@dataclass(frozen=True)
class Request:
    """What the user wants of a reading, beside the file.

    Parameters
    ----------
    host_types
        The types of hosts that the file does not tell.
    levels
        Names of the levels, outermost first, or None for the format's own. For formats of node
        labels: the labels.
    name
        Name of the topology.
    allow_pieces
        Whether a tree may fall into pieces.
    options
        The format's own options, of the right types; an option that was not given is missing.
    """

    host_types: HostTypeChoice
    levels: tuple[str, ...] | None
    name: str
    allow_pieces: bool = False
    options: Mapping[str, object] = field(default_factory=dict)

    def text_option(self, name: str) -> str | None:
        """Return an option that is text or a path, or None where it was not given."""
        value = self.options.get(name)
        return str(value) if isinstance(value, str | PathLike) else None


@dataclass(frozen=True)
class TopologyFormat:
    """A format of topology files.

    Parameters
    ----------
    kind
        Unique name.
    summary
        One sentence for people.
    matches
        Whether a text is of this format, by a look at its start; a cheap test that never raises.
    read
        Makes the topology and the account of what was not read; None where the format is only
        written.
    write
        The text of a topology; None where the format is only read.
    file_names
        Patterns of customary file names: ``"topology.conf"``, ``"*.graphml"``. They decide
        between formats whose content looks alike.
    tells_hosts
        Whether the file tells the GPUs of its hosts, so that no host type need be given.
    options, write_options
        What can be set beside what every format has, in reading and in writing.
    """

    kind: str
    summary: str
    matches: Callable[[TopologyText], bool]
    read: Callable[[TopologyText, Request], tuple[Topology, ReadReport]] | None = None
    write: Callable[..., str] | None = None
    file_names: tuple[str, ...] = ()
    tells_hosts: bool = False
    options: tuple[Option, ...] = ()
    write_options: tuple[Option, ...] = ()

    def given(self, options: Mapping[str, object], *, writing: bool = False) -> dict[str, object]:
        """Return the options that are not None, converted to their types.

        Parameters
        ----------
        options
            Values by name; None leaves the default.
        writing
            Whether they are options of the writer, not of the reader.

        Raises
        ------
        InstanceError
            If an option or a value is unknown.
        """
        return {
            name: self.option(name, writing=writing).convert(value)
            for name, value in options.items()
            if value is not None
        }

    def option(self, name: str, *, writing: bool = False) -> Option:
        """Return the option of that name.

        Parameters
        ----------
        name
            Name of the option.
        writing
            Whether it is one of the writer, not of the reader.

        Raises
        ------
        InstanceError
            If there is none.
        """
        options = self.write_options if writing else self.options
        known = {option.name: option for option in options}
        if name not in known:
            its = f"Its options are {', '.join(known)}." if known else "It has none."
            raise InstanceError(
                f'topology format "{self.kind}" has no option "{name}"'
                f"{nearest(name, known) or '.'} {its}"
            )
        return known[name]

    def is_named(self, file: str) -> bool:
        """Return whether a file has a name that is customary for this format."""
        name = Path(file).name.lower().removesuffix(".gz")
        return any(Path(name).match(pattern) for pattern in self.file_names)
