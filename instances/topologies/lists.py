"""Lists of hosts: alloc's own documents, openb's node list, any table with a row a host.

Parameters
----------
text
    The file.
request
    What the user wants of the reading.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from alloc.documents import format_of
from alloc.errors import InstanceError, nearest
from alloc.instances.readers.openb import read_openb_nodes
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.node_domains import Labelled, add_domains
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.tree import TreeBuilder
from alloc.topology import Topology

_OPENB = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_DOCUMENT = re.compile(r'"kind"\s*:\s*"(topology|instance)"')
_VERSION = re.compile(r'"schema_version"\s*:')
_MAX_COLUMNS = 32
"""Far above the levels of any cluster: a wider table is one of something else."""


def is_document(text: TopologyText) -> bool:
    """Return whether a text looks like a topology or instance of alloc."""
    start = text.head[:4000]
    return bool(_VERSION.search(start) and _DOCUMENT.search(start))


def is_openb(text: TopologyText) -> bool:
    """Return whether a text has the head of openb's node list."""
    return set(_OPENB) <= set(_header(text))


def is_table(text: TopologyText) -> bool:
    """Return whether a text looks like a table whose first column names hosts."""
    names = _header(text)
    first = names[0].lower() if names else ""
    return len(names) > 1 and first in ("host", "node", "hostname", "ip") and not is_openb(text)


def read_document(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read a topology document of alloc, or the topology of an instance.

    Raises
    ------
    InstanceError
        If it is no such document.
    """
    _require_bare(text, request)
    found = _DOCUMENT.search(text.head[:4000])
    try:
        if found is not None and found[1] == "instance":
            topology = format_of("instance").parse(text.text).topology
        else:
            topology = format_of("topology").parse(text.text)
    except InstanceError as error:
        raise text.place().error(str(error)) from None
    if request.name != text.stem:
        topology = topology.replace(name=request.name)
    log = ReportLog()
    log.files.append(text.file)
    log.rows_read = topology.num_hosts
    return topology, log.report()


def read_openb(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read the node list of openb as a flat cluster; see `alloc.instances.readers.openb`.

    Raises
    ------
    InstanceError
        If it is no such list.
    """
    _require_bare(text, request)
    topology, report = read_openb_nodes(text.file)
    return topology.replace(name=request.name), report


def read_table(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read a table with a row a host: a column of names, and a column a level.

    Without levels every other column is one, outermost first as they stand. The same value below
    two domains means two domains: racks are often numbered anew in every hall.

    Raises
    ------
    InstanceError
        If a column is unknown, a row has not as many cells as there are columns, a host is named
        twice, or levels do not nest.
    """
    log = ReportLog()
    log.files.append(text.file)
    names = _header(text)
    if not 2 <= len(names) <= _MAX_COLUMNS:
        raise text.place(1).error(
            f"its first line names {len(names)} columns; a table has a column of hosts and one for "
            f"each level, at most {_MAX_COLUMNS}, with commas between them."
        )
    for k, name in enumerate(names):
        if not name or name in names[:k]:
            raise text.place(1).error(
                f"column {k + 1} is called {shown(name)}; give every column a name of its own."
            )
    column = request.text_option("host_column") or names[0]
    levels = request.levels or tuple(name for name in names if name != column)
    for wanted in (column, *levels):
        if wanted not in names:
            raise text.place(1).error(
                f"there is no column {shown(wanted)}{nearest(wanted, names) or ';'} the columns "
                f"are {', '.join(names)}."
            )
    builder = TreeBuilder(text.file)
    hosts = []
    for line, row in _rows(text, names):
        log.rows_read += 1
        where = text.place(line)
        builder.host(row[column], where)
        values = tuple(row[level] for level in levels)
        if "" in values:
            log.alter("without a value of every level: stands outside it", row[column])
        hosts.append(Labelled(row[column], where, values))
    ordered = add_domains(builder, hosts, levels, local_names=True)
    topology = builder.build(
        request.name, host_types=request.host_types, levels=ordered, one_piece=False
    )
    return topology, log.report()


def _header(text: TopologyText) -> list[str]:
    line = text.head.partition("\n")[0].strip()
    return [name.strip().strip('"') for name in line.split(",")] if len(line) < 4000 else []


def _rows(text: TopologyText, names: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(text.text.splitlines(), strict=True)
    try:
        for cells in reader:
            if reader.line_num == 1 or not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(names):
                raise text.place(reader.line_num).error(
                    f"has {len(cells)} cells for {len(names)} columns; a cell with a comma in it "
                    "stands in quotes."
                )
            row = zip(names, (cell.strip() for cell in cells), strict=True)
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise text.place(reader.line_num).error(
            f"is not a row of a table ({error}); a quote in a cell is written twice."
        ) from None


def _require_bare(text: TopologyText, request: Request) -> None:
    """Refuse what would be left unused."""
    if request.host_types.given:
        raise text.place().error("tells itself what its hosts are; leave host_type out.")
    if request.levels is not None:
        raise text.place().error("has its own levels, or none; leave levels out.")


FORMATS = (
    TopologyFormat(
        "alloc",
        "A topology of alloc in JSON, or the topology of an instance.",
        is_document,
        read_document,
        format_of("topology").write,
        file_names=("*.json",),
        tells_hosts=True,
    ),
    TopologyFormat(
        "openb",
        "The node list of openb, Alibaba 2023: sn, cpu_milli, memory_mib, gpu, model.",
        is_openb,
        read_openb,
        tells_hosts=True,
    ),
    TopologyFormat(
        "table",
        "A table in CSV with a row a host: its name, and a column for each level.",
        is_table,
        read_table,
        file_names=("*.csv",),
        options=(Option("host_column", str, "The column of host names; by default the first."),),
    ),
)
"""Documents and tables."""
