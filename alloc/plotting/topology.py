"""Pictures of clusters: hosts in nested domains.

A cluster is drawn as boxes in boxes, since who stands in which domain is what placement is about;
every host is a cell in the colour of its GPUs, with the GPUs in it where there is room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alloc.plotting.axes import axes_to_draw_on, set_title, size_in
from alloc.plotting.figures import new_figure
from alloc.plotting.host_type import plot_host_type
from alloc.plotting.palette import INK, MUTED, OKABE_ITO
from alloc.topology import HostType, Topology
from alloc.topology.outlines import Branch, branches, outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# In units of a host's cell.
_GAP = 0.12
_PADDING = 0.25
_HEAD, _HEAD_SHARE, _HOST_HEAD = 0.55, 0.03, 0.3
# Width over height that boxes are packed to: that of a page across.
_ASPECT = 1.5
# Inches: limits of a whole figure.
_WIDTH, _LEAST_HEIGHT, _MAX_HEIGHT = 10.0, 2.2, 14.0
# Inches: from the first on GPUs in a cell can be told apart; above the second a few hosts are huge.
_ROOMY_CELL = 0.3
_WIDEST_CELL = 0.9
# Above so many hosts, hosts of one type in one domain are drawn as one block.
_MAX_CELLS = 20_000
_POINTS = 72.0
# Width of a letter over its height, on average.
_LETTER = 0.6
_SMALLEST_TEXT, _LARGEST_TEXT = 4.5, 10.0


@dataclass
class _Box:
    """A domain or host on the page: its place in the box around it, and its size, in cells."""

    part: Branch
    width: float = 1.0
    height: float = 1.0
    x: float = 0.0
    y: float = 0.0
    inside: tuple[_Box, ...] = ()
    head: float = _HOST_HEAD


def draw_topology(topology: Topology) -> Figure:
    """Return a picture of a cluster or, where it is one server with links, of what is in it."""
    kind = topology.host_type(topology.hosts[0])
    if topology.num_hosts == 1 and not topology.domains and kind.links:
        figure = new_figure(*_size_of_host(kind))
        plot_host_type(kind, title=_title(topology), ax=figure.subplots())
        return figure
    boxes, width, height = _pack([_box(part) for part in _parts(topology)])
    del boxes
    wide = min(_WIDTH, max(4.0, _WIDEST_CELL * width))
    high = min(max(wide * height / width + 0.9, _LEAST_HEIGHT), _MAX_HEIGHT)
    figure = new_figure(wide, high)
    plot_topology(topology, title=_title(topology), ax=figure.subplots())
    return figure


def plot_topology(topology: Topology, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the hosts of a cluster in their domains, by the type of their GPUs.

    Parameters
    ----------
    topology
        The cluster.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes; boxes of domains have the gid ``domains``, cells of hosts ``hosts`` and, where
        there is room for them, GPUs ``gpus``.
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    boxes, width, height = _pack([_box(part) for part in _parts(topology)])
    ax = axes_to_draw_on(ax, _WIDTH, 6.0)
    colours = _colours(topology)
    cell = _cell_inches(ax, width, height)
    domains, hosts, gpus = [], [], []
    shades, fills, gpu_fills = [], [], []
    depth = len(topology.levels) + 1
    rank = {level: k for k, level in enumerate(topology.levels)}
    for box, x, y in _placed(boxes, 0.0, 0.0):
        if box.part.host_type is None:
            domains.append(Rectangle((x, y), box.width, box.height))
            shades.append(0.06 + 0.16 * (rank[box.part.level] + 1) / depth)
            _label(ax, box, x, y, cell)
            continue
        colour = colours[box.part.host_type.gpu_type]
        block = box.part.count > 1
        roomy = cell >= _ROOMY_CELL and not block
        hosts.append(Rectangle((x, y), box.width, box.height))
        # Light under GPUs and names, else strong: small cells have nothing but their colour.
        fills.append((colour, 0.5 if block else 0.3 if roomy and box.part.gpus else 0.9))
        if roomy:
            squares = list(_gpu_squares(box.part.gpus, x, y))
            gpus += [Rectangle(corner, side, side) for corner, side in squares]
            gpu_fills += [colour] * len(squares)
        if roomy or block:
            _label(ax, box, x, y, cell)
    from matplotlib.colors import to_rgba

    for gid, patches, faces, edge in (
        ("domains", domains, [to_rgba(MUTED, shade) for shade in shades], MUTED),
        ("hosts", hosts, [to_rgba(colour, alpha) for colour, alpha in fills], "none"),
        ("gpus", gpus, [to_rgba(colour) for colour in gpu_fills], "none"),
    ):
        if patches:
            collection = PatchCollection(patches, facecolors=faces, edgecolors=edge, linewidths=0.6)
            collection.set_gid(gid)
            ax.add_collection(collection)
    ax.set_xlim(-_GAP, width + _GAP)
    ax.set_ylim(height + _GAP, -_GAP)
    ax.set_aspect("equal")
    ax.axis("off")
    set_title(ax, title)
    ax.legend(
        handles=[Patch(color=colours[kind], label=text) for kind, text in _legend(topology)],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=3,
        frameon=False,
        labelcolor=INK,
        fontsize="small",
    )
    return ax


def _parts(topology: Topology) -> tuple[Branch, ...]:
    """Return the branches to draw: every host by itself, unless there are too many."""
    parts = branches(topology, fold=False)
    if topology.num_hosts <= _MAX_CELLS:
        return parts
    return tuple(_blocks(parts))


def _blocks(parts: Sequence[Branch]) -> Iterator[Branch]:
    """Yield the branches with the hosts of a type in a domain put together."""
    hosts: dict[str, list[Branch]] = {}
    for part in parts:
        if part.host_type is not None:
            hosts.setdefault(part.host_type.name, []).append(part)
            continue
        below = tuple(_blocks(part.below))
        yield Branch(part.level, part.ids, None, part.hosts, part.gpus, below)
    for alike in hosts.values():
        first = alike[0]
        ids = tuple(part.ids[0] for part in alike)
        yield Branch(first.level, ids, first.host_type, 1, first.gpus)


def _box(part: Branch) -> _Box:
    if part.host_type is not None:
        side = math.sqrt(part.count)
        return _Box(part, side, side, head=_HOST_HEAD * side)
    inside, width, height = _pack([_box(below) for below in part.below])
    # A large box has room for a name that can be read though its cells are small.
    head = max(_HEAD, _HEAD_SHARE * width)
    for box in inside:
        box.x += _PADDING
        box.y += head
    # A domain without hosts still has a box.
    size = max(width, 1.0) + 2 * _PADDING, height + head + _PADDING
    return _Box(part, *size, inside=tuple(inside), head=head)


def _pack(boxes: Sequence[_Box]) -> tuple[list[_Box], float, float]:
    """Put boxes in rows, in their order, and return them with width and height of the whole."""
    if not boxes:
        return [], 1.0, 0.0
    area = sum((box.width + _GAP) * (box.height + _GAP) for box in boxes)
    widest = max(box.width for box in boxes)
    # A little more or less width can save a row that is nearly empty.
    tries = {max(widest, math.sqrt(area * _ASPECT) * (0.7 + 0.05 * k)) for k in range(15)}
    room = min(sorted(tries), key=lambda room: _waste(_rows(boxes, room), area))
    x = y = right = 0.0
    for row in _rows(boxes, room):
        x = 0.0
        for box in row:
            box.x, box.y = x, y
            x += box.width + _GAP
        right = max(right, x - _GAP)
        y += max(box.height for box in row) + _GAP
    return list(boxes), right, y - _GAP


def _rows(boxes: Sequence[_Box], room: float) -> list[list[_Box]]:
    rows: list[list[_Box]] = [[]]
    x = 0.0
    for box in boxes:
        if rows[-1] and x + box.width > room + 1e-9:
            rows.append([])
            x = 0.0
        rows[-1].append(box)
        x += box.width + _GAP
    return rows


def _waste(rows: Sequence[Sequence[_Box]], area: float) -> float:
    """Return how much larger than the boxes their rows are, and how far from the right shape."""
    width = max(sum(box.width + _GAP for box in row) for row in rows)
    height = sum(max(box.height for box in row) + _GAP for row in rows)
    return width * height / area + 0.3 * abs(math.log(width / height / _ASPECT))


def _placed(boxes: Sequence[_Box], x: float, y: float) -> Iterator[tuple[_Box, float, float]]:
    """Yield every box with its place on the page, outer boxes before inner ones."""
    for box in boxes:
        yield box, x + box.x, y + box.y
        yield from _placed(box.inside, x + box.x, y + box.y)


def _cell_inches(ax: Axes, width: float, height: float) -> float:
    """Return the side of a host's cell on paper, inches."""
    wide, high = size_in(ax)
    return min(wide / (width + 2 * _GAP), high / (height + 2 * _GAP))


def _gpu_squares(count: int, x: float, y: float) -> Iterator[tuple[tuple[float, float], float]]:
    """Yield corner and side of the GPUs in a host's cell, under the line for its name."""
    if not count:
        return
    pitch, columns = max(
        (min(0.86 / columns, 0.6 / math.ceil(count / columns)), columns)
        for columns in range(1, count + 1)
    )
    rows = math.ceil(count / columns)
    left = x + (1 - pitch * columns) / 2
    top = y + 0.32 + (0.6 - pitch * rows) / 2
    for k in range(count):
        corner = (left + pitch * (k % columns + 0.1), top + pitch * (k // columns + 0.1))
        yield corner, 0.8 * pitch


def _label(ax: Axes, box: _Box, x: float, y: float, cell: float) -> None:
    """Write the name of a box into its head where it can be read."""
    name = box.part.ids[0]
    if box.part.count > 1:
        name = f"{box.part.count} hosts"
    is_host = box.part.host_type is not None
    room = (box.width - (0.08 if is_host else 2 * _PADDING)) * cell * _POINTS
    size = min(0.85 * box.head * cell * _POINTS, _LARGEST_TEXT)
    # Rather a smaller name than none, but none that nobody can read.
    size = min(size, room / (_LETTER * max(len(name), 1)))
    if size < _SMALLEST_TEXT:
        return
    ax.text(
        x + (0.5 * box.width if is_host else _PADDING),
        y + 0.5 * (box.height if box.part.count > 1 else box.head),
        name,
        fontsize=size,
        color=INK,
        horizontalalignment="center" if is_host else "left",
        verticalalignment="center",
        parse_math=False,
    )


def _colours(topology: Topology) -> dict[str | None, str]:
    """Return a colour for each GPU type, by how many there are; hosts without GPUs are grey."""
    from matplotlib.colors import to_hex, to_rgb

    plain = list(OKABE_ITO.values())
    # Another round in lighter tints: a cluster has seven types now and then.
    light = [
        to_hex((0.45 * r + 0.55, 0.45 * g + 0.55, 0.45 * b + 0.55))
        for r, g, b in map(to_rgb, plain)
    ]
    palette = [*plain, *light]
    kinds = outline(topology).gpus_by_type
    return {kind: palette[k % len(palette)] for k, kind in enumerate(kinds)} | {None: MUTED}


def _legend(topology: Topology) -> Iterator[tuple[str | None, str]]:
    for kind, count in outline(topology).gpus_by_type.items():
        yield kind, f"{kind}: {count:,} GPUs"
    bare = sum(not topology.host_type(host).num_gpus for host in topology.hosts)
    if bare:
        yield None, f"no GPU: {_count(bare, 'host')}"


def _title(topology: Topology) -> str:
    levels = f" ({' > '.join((*topology.levels, 'host'))})" if topology.levels else ""
    hosts, gpus = _count(topology.num_hosts, "host"), _count(topology.num_gpus, "GPU")
    return f"{topology.name}: {hosts}, {gpus}{levels}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _size_of_host(kind: HostType) -> tuple[float, float]:
    ends = {end for link in kind.links for end in (link.a, link.b)}
    leaves = sum(end.startswith(("gpu", "nic")) for end in ends)
    return min(max(5.0, 0.62 * leaves + 1.0), 24.0), 4.6
