"""Slurm's ``topology.conf``: a tree of switches, blocks, or rings.

References
----------
SchedMD. topology.conf(5); Slurm topology guide. https://slurm.schedmd.com/topology.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from alloc.errors import nearest
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.slurm import Switch, block_topology, ring_topology, tree_topology
from alloc.instances.topologies.slurm_nodes import KEYS, SlurmNodes
from alloc.instances.topologies.slurm_writers import write_slurm_block, write_slurm_tree
from alloc.instances.topologies.text import TopologyText
from alloc.topology import Topology

_NAMES = {"switchname": "slurm-tree", "blockname": "slurm-block", "ringname": "slurm-ring"}
_KEYS = {
    "slurm-tree": {"switchname", "nodes", "switches", "linkspeed"},
    "slurm-block": {"blockname", "nodes", "blocksizes"},
    "slurm-ring": {"ringname", "nodes"},
}
_SPELLED = {
    key.lower(): key
    for key in (
        *("SwitchName", "Switches", "Nodes", "LinkSpeed"),
        *("BlockName", "BlockSizes", "RingName"),
    )
}
# Blanks around the equals sign are allowed; a value in quotes may hold blanks.
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*=\s*(?:"([^"]*)"|([^\s"]+))(?=\s|$)')
_INCLUDE = re.compile(r"\s*include\s", re.IGNORECASE)


@dataclass(frozen=True)
class _Line:
    """A line, with its continuations: values by key in small letters."""

    where: Place
    values: dict[str, str]

    @property
    def kind(self) -> str | None:
        """The format it belongs to."""
        if "blocksizes" in self.values:
            return "slurm-block"
        return next((kind for key, kind in _NAMES.items() if key in self.values), None)


def read_slurm_conf(text: TopologyText, request: Request, kind: str) -> tuple[Topology, ReadReport]:
    """Read the lines of one kind of a ``topology.conf``.

    Parameters
    ----------
    text
        The file. Lines of other kinds are left out and accounted for: some sites keep a tree and
        blocks in one file. Lines of ``slurm.conf`` beside them say what the nodes offer
        (``NodeName=``) and which licences the cluster has (``Licenses=``).
    request
        What the user wants.
    kind
        ``"slurm-tree"``, ``"slurm-block"`` or ``"slurm-ring"``.

    Raises
    ------
    InstanceError
        If a line cannot be read or the lines contradict each other.
    """
    log = ReportLog()
    log.files.append(text.file)
    lines: list[_Line] = []
    nodes = SlurmNodes(log)
    for line in _lines(text):
        if any(key in line.values for key in KEYS):
            nodes.read(line.values, line.where)
            log.rows_read += 1
            continue
        if line.kind == kind:
            lines.append(line)
        elif line.kind is not None:
            log.drop(f"line of {line.kind}", f"line {line.where.line}")
        log.rows_read += 1
        _require_known(line, kind if line.kind is None else line.kind)
    switches = [_switch(line, kind) for line in lines if _name_key(kind) in line.values]
    for line in lines:
        if "linkspeed" in line.values:
            log.alter("LinkSpeed is not read (Slurm gives it no unit)", f"line {line.where.line}")
    if nodes.host_types:
        told = request.host_types.beside(nodes.host_types)
        request = replace(request, host_types=told)
    if kind == "slurm-tree":
        topology = tree_topology(switches, text.file, request)
    elif kind == "slurm-ring":
        topology = ring_topology(switches, text.file, request)
    else:
        topology = block_topology(switches, _block_sizes(lines), text.file, request, log)
    if nodes.licences:
        topology = topology.replace(resources=nodes.licences)
    return topology, log.report()


def _lines(text: TopologyText) -> Iterator[_Line]:
    """Yield the lines that say something, continued ones joined as Slurm joins them.

    A line that ends in a backslash goes on with the next one, at its first character: a value may
    be broken anywhere, and blanks count only where they are written.
    """
    parts: list[str] = []
    for number, raw in enumerate([*text.text.split("\n"), ""], start=1):
        line = raw.partition("#")[0].rstrip()
        parts.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        whole = "".join(parts)
        if whole.strip():
            yield _line(whole, text.place(number - len(parts) + 1))
        parts = []


def _line(line: str, where: Place) -> _Line:
    if _INCLUDE.match(line):
        raise where.error("includes another file, which is not followed; paste that file here.")
    values: dict[str, str] = {}
    line = line.rstrip()
    position = 0
    while position < len(line):
        pair = _PAIR.match(line, position)
        if pair is None:
            raise where.error(
                f"cannot read {shown(line[position:].strip())}; a line is made of key=value pairs, "
                "for example SwitchName=s0 Nodes=n[1-4]."
            )
        key = pair[1].lower()
        if key in values:
            raise where.error(f"names {_SPELLED.get(key, pair[1])} twice; name it once a line.")
        values[key] = pair[2] if pair[2] is not None else pair[3]
        position = pair.end()
    return _Line(where, values)


def _require_known(line: _Line, kind: str) -> None:
    for key in line.values:
        if key not in _KEYS[kind]:
            known = [_SPELLED[k] for k in _SPELLED if k in _KEYS[kind]]
            raise line.where.error(
                f"{shown(_SPELLED.get(key, key))} does not belong in this line of {kind}"
                f"{nearest(key, known) or '.'} Its keys are {', '.join(known)}."
            )
    if line.kind is None:
        raise line.where.error(
            "names no switch, block or ring; begin it with SwitchName=, BlockName= or RingName=."
        )


def _name_key(kind: str) -> str:
    return next(key for key, of in _NAMES.items() if of == kind)


def _switch(line: _Line, kind: str) -> Switch:
    def expression(key: str) -> tuple[str, Place] | None:
        value = line.values.get(key)
        return None if value is None else (value, line.where)

    return Switch(
        line.values[_name_key(kind)], line.where, expression("nodes"), expression("switches")
    )


def _block_sizes(lines: Sequence[_Line]) -> list[tuple[int, Place]]:
    said = [line for line in lines if "blocksizes" in line.values]
    if len(said) > 1:
        raise said[1].where.error(
            f"BlockSizes is said again, first on line {said[0].where.line}; say it once."
        )
    sizes = []
    for line in said:
        for part in line.values["blocksizes"].split(","):
            number = part.strip()
            if not re.fullmatch(r"[0-9]{1,9}", number) or not int(number):
                raise line.where.error(
                    f"BlockSizes holds {shown(number)}; give whole numbers of 1 or more with "
                    "commas between them, for example 30,120."
                )
            sizes.append((int(number), line.where))
    return sizes


def _says(key: str) -> Callable[[TopologyText], bool]:
    pattern = re.compile(rf"^[ \t]*{key}[ \t]*=", re.IGNORECASE | re.MULTILINE)
    return lambda text: pattern.search(text.head) is not None


FORMATS = (
    TopologyFormat(
        "slurm-tree",
        "Slurm topology.conf, a tree of switches: SwitchName= Nodes= or Switches=.",
        _says("SwitchName"),
        partial(read_slurm_conf, kind="slurm-tree"),
        write_slurm_tree,
        ("topology.conf",),
    ),
    TopologyFormat(
        "slurm-block",
        "Slurm topology.conf, blocks: BlockName= Nodes=, and BlockSizes=.",
        _says("BlockName"),
        partial(read_slurm_conf, kind="slurm-block"),
        write_slurm_block,
        ("topology.conf",),
        write_options=(
            Option("level", str, "The level whose domains are blocks; by default the innermost."),
        ),
    ),
    TopologyFormat(
        "slurm-ring",
        "Slurm topology.conf, rings: RingName= Nodes=, in the order of the ring.",
        _says("RingName"),
        partial(read_slurm_conf, kind="slurm-ring"),
        None,
        ("topology.conf",),
    ),
)
"""The formats of ``topology.conf``."""
