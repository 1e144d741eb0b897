"""The registry of topology formats: what `alloc topology` reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike

from alloc.documents.files import write_text
from alloc.errors import InstanceError, nearest
from alloc.instances.readers.report import ReadReport
from alloc.instances.topologies import (
    graph_files,
    hypernodes,
    kubernetes_nodes,
    kueue,
    lists,
    one_host,
    slurm_conf,
    slurm_yaml,
    topograph,
    topograph_model,
)
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.host_types import HostTypeChoice, HostTypes
from alloc.instances.topologies.text import TopologyText, read_text
from alloc.topology import Topology

# Every module of formats has such a tuple; add its line here.
_ALL: tuple[TopologyFormat, ...] = (
    *slurm_conf.FORMATS,
    *slurm_yaml.FORMATS,
    *topograph.FORMATS,
    *topograph_model.FORMATS,
    *hypernodes.FORMATS,
    *kueue.FORMATS,
    *one_host.FORMATS,
    *kubernetes_nodes.FORMATS,
    *graph_files.FORMATS,
    *lists.FORMATS,
)

TOPOLOGY_FORMATS: Mapping[str, TopologyFormat] = {known.kind: known for known in _ALL}
"""Formats by kind."""


def read_topology(
    path: str | PathLike[str],
    format: str | None = None,
    *,
    host_type: HostTypes | None = None,
    levels: Iterable[str] | None = None,
    name: str | None = None,
    allow_pieces: bool = False,
    **options: object,
) -> tuple[Topology, ReadReport]:
    """Read a topology file.

    Parameters
    ----------
    path
        The file, plain or compressed with a name in ``.gz``.
    format
        Its kind in `TOPOLOGY_FORMATS`; None tells it from content and name.
    host_type
        What the hosts are, where the file does not say: a `HostType` or the name of a machine
        (``"dgx-h100"``, ``"4x-t4"``) for all, or a mapping from host ids, or patterns with ``*``
        and ``?``, to them. Nothing is made up: without it such a file is refused.
    levels
        Names of the levels, outermost first; None takes the format's own. For formats of node
        labels these are the labels.
    name
        Name of the topology; None takes the file's name.
    allow_pieces
        Whether a tree of switches may fall into pieces with nothing above them.
    options
        The format's own options, as values or as text; None counts as not given.

    Returns
    -------
    Topology, ReadReport
        The topology, and an account of everything in the file that is not in it.

    Raises
    ------
    InstanceError
        If the file cannot be read or its format not be told, an option is unknown, or the file
        contradicts itself: a cycle, pieces, a host in two leaves, levels that do not nest ... The
        message names file and line.
    """
    text = read_text(path)
    known = topology_format(format) if format is not None else detect_format(text)
    if known.read is None:
        raise InstanceError(
            f'{path}: topology format "{known.kind}" is only written, not read; '
            f"formats that are read are {', '.join(_readable())}."
        )
    given = known.given(options)
    for option in known.options:
        if option.required and option.name not in given:
            raise InstanceError(
                f'{path}: topology format "{known.kind}" needs the option {option.name}: '
                f"{option.help}"
            )
    request = Request(
        HostTypeChoice(host_type, str(path)),
        None if levels is None else _levels(levels),
        name or text.stem,
        allow_pieces,
        given,
    )
    return known.read(text, request)


def write_topology(
    topology: Topology, path: str | PathLike[str], format: str, **options: object
) -> None:
    """Write a topology to a file.

    Parameters
    ----------
    topology
        The topology.
    path
        The file; compressed when its name ends in ``.gz``.
    format
        A kind in `TOPOLOGY_FORMATS` that is written.
    options
        The format's own options of writing, as values or as text; None counts as not given.

    Raises
    ------
    InstanceError
        If the format is unknown or only read, or cannot say what the topology says.
    AllocError
        If the file cannot be written.
    """
    write_text(path, topology_text(topology, format, **options))


def topology_text(topology: Topology, format: str, **options: object) -> str:
    """Return the text of a topology in a format; see `write_topology`.

    Parameters
    ----------
    topology
        The topology.
    format
        Name of a format that is written.
    options
        Options of the format.
    """
    known = topology_format(format)
    if known.write is None:
        written = [kind for kind, other in TOPOLOGY_FORMATS.items() if other.write is not None]
        raise InstanceError(
            f'topology format "{format}" is only read; formats that are written are '
            f"{', '.join(written)}."
        )
    return known.write(topology, **known.given(options, writing=True))


def topology_format(kind: str) -> TopologyFormat:
    """Return the format of a kind.

    Raises
    ------
    InstanceError
        If there is none.
    """
    if kind not in TOPOLOGY_FORMATS:
        raise InstanceError(
            f'unknown topology format "{kind}"{nearest(kind, TOPOLOGY_FORMATS) or "."} '
            f"Known: {', '.join(TOPOLOGY_FORMATS)}."
        )
    return TOPOLOGY_FORMATS[kind]


def detect_format(text: TopologyText) -> TopologyFormat:
    """Return the format of a text, told by its content and, between several, by its name.

    Raises
    ------
    InstanceError
        If it looks like none, or like several.
    """
    found = [known for kind in _readable() if (known := TOPOLOGY_FORMATS[kind]).matches(text)]
    if len(found) > 1:
        found = [known for known in found if known.is_named(text.file)] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise InstanceError(
            f"{text.file}: could be {' or '.join(known.kind for known in found)}; say which with "
            "format."
        )
    if not text.text.strip():
        raise InstanceError(f"{text.file}: is empty; give a topology file.")
    if text.text.lstrip().startswith(("{", "[")):
        # JSON that is none is of no format, and says where it ends or is wrong.
        _ = text.json
    raise InstanceError(
        f"{text.file}: its topology format is not recognised; name it, one of "
        f"{', '.join(_readable())}."
    )


def _readable() -> list[str]:
    return [kind for kind, known in TOPOLOGY_FORMATS.items() if known.read is not None]


def _levels(levels: Iterable[str]) -> tuple[str, ...]:
    if isinstance(levels, str):
        raise InstanceError(
            f'levels is the text "{levels}"; give a list of names, outermost first, for example '
            '["spine", "leaf"].'
        )
    return tuple(levels)
