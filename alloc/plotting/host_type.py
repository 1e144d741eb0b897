"""The inside of a server: its devices and the links between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from alloc.errors import InstanceError
from alloc.plotting.axes import axes_to_draw_on, set_title
from alloc.plotting.palette import INK, MUTED, OKABE_ITO
from alloc.topology import HostType
from alloc.topology.outlines import inner_links

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Links that make the tree under the processors; every other kind joins devices across it.
_TREE = ("pcie", "c2c")
_KINDS = {
    "nvlink": OKABE_ITO["green"],
    "nvswitch": OKABE_ITO["green"],
    "pcie": MUTED,
    "c2c": OKABE_ITO["sky blue"],
    "upi": OKABE_ITO["orange"],
}
_OTHER = OKABE_ITO["purple"]
_FILLS = {"gpu": "blue", "nic": "sky blue", "nvswitch": "green", "numa": "orange"}
_ROW = 1.0
"""Height of a row of devices, in the unit of the axes: columns are 1 wide."""
# Of links between processors that are not side by side; a bend is a share of the length.
_ROOT_BEND = 0.12


def plot_host_type(kind: HostType, *, title: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the devices of a server and the links between them.

    GPUs and NICs stand in a row above the PCIe switches, host bridges and NUMA nodes that they hang
    under, NVSwitches above them. The wider a line, the more bandwidth.

    Parameters
    ----------
    kind
        The kind of server.
    title
        Title, or None.
    ax
        Axes to draw on; fresh ones by default.

    Returns
    -------
    Axes
        The axes, with a text for each device.

    Raises
    ------
    InstanceError
        If the kind of server names no links.
    """
    if not kind.links:
        raise InstanceError(
            f'host type "{kind.name}" names no links, so there is nothing to draw; read it from '
            "nvidia-smi or hwloc, or draw the cluster."
        )
    from matplotlib.lines import Line2D

    ax = axes_to_draw_on(ax, 8.0, 4.5)
    places = _places(kind)
    widest = max(link.bandwidth_gb_per_s for link in kind.links)
    for link in kind.links:
        _draw_link(ax, places, link.a, link.b, link.kind, link.bandwidth_gb_per_s / widest)
    for device, (x, y) in places.items():
        _draw_device(ax, device, x, y)
    xs, ys = zip(*places.values(), strict=True)
    # Arcs between GPUs rise above them, by a share of their length.
    across = (x for x in kind.links if x.kind != "upi" and places[x.a][1] == places[x.b][1])
    arcs = [abs(places[x.a][0] - places[x.b][0]) for x in across]
    islands = sum(map(_is_root, places))
    ax.set_xlim(min(xs) - 0.7, max(xs) + 0.7)
    ax.set_ylim(
        min(ys) - (0.5 if islands < 3 else 1.2), max(ys) + 0.5 + 0.15 * max(arcs, default=0)
    )
    ax.axis("off")
    set_title(ax, title)
    handles = [
        Line2D([], [], color=_KINDS.get(name, _OTHER), linewidth=2.0, label=_text(name, widths))
        for name, widths in inner_links(kind).items()
    ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(handles),
        frameon=False,
        labelcolor=INK,
        fontsize="small",
    )
    return ax


def _text(name: str, widths: Sequence[float]) -> str:
    return f"{name}: {', '.join(f'{width:g}' for width in widths[:4])} GB/s"


def _places(kind: HostType) -> dict[str, tuple[float, float]]:
    """Return where each device stands: leaves in a row in the order of their tree."""
    near: dict[str, list[str]] = defaultdict(list)
    devices = dict.fromkeys(f"gpu{g}" for g in range(kind.num_gpus))
    for link in kind.links:
        devices |= dict.fromkeys((link.a, link.b))
        if link.kind in _TREE or _is_root(link.a) != _is_root(link.b):
            near[link.a].append(link.b)
            near[link.b].append(link.a)
    below, roots = _tree(list(devices), near)
    columns: dict[str, float] = {}
    heights: dict[str, int] = {}
    count = 0
    for device in _upwards(roots, below):
        children = below.get(device, [])
        heights[device] = 1 + max((heights[child] for child in children), default=-1)
        if children:
            columns[device] = sum(columns[child] for child in children) / len(children)
        else:
            columns[device] = float(count)
            count += 1
    top = max(heights.values(), default=0)
    places = {}
    for device in columns:
        # The roots stand in one row, however deep their trees are.
        depth = top if device in roots and below.get(device) else heights[device]
        places[device] = (columns[device], -_ROW * depth)
    switches = [d for d in devices if d.startswith("nvswitch")]
    for k, switch in enumerate(switches):
        ends = [link.b if link.a == switch else link.a for link in kind.links
                if switch in (link.a, link.b)]  # fmt: skip
        at = [columns[end] for end in ends if end in columns]
        places[switch] = (sum(at) / len(at) if at else float(k), 1.2 * _ROW)
    return places


def _tree(
    devices: Sequence[str], near: Mapping[str, Sequence[str]]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return what hangs under each device, and the roots: processors first, then what is left."""
    below: dict[str, list[str]] = {}
    roots: list[str] = []
    seen: set[str] = set()
    starts = [d for d in devices if _is_root(d)]
    others = [d for d in devices if d not in starts and not d.startswith("nvswitch")]
    for start in sorted(starts) + others:
        if start in seen:
            continue
        roots.append(start)
        seen.add(start)
        queue = [start]
        for device in queue:
            found = [d for d in dict.fromkeys(near.get(device, ())) if d not in seen]
            # Another processor is a root of its own.
            below[device] = [d for d in found if d not in starts]
            seen.update(below[device])
            queue += below[device]
    return below, roots


def _is_root(device: str) -> bool:
    """Return whether a device is a processor, its memory, or the machine as a whole."""
    return device.startswith(("numa", "cpu", "machine"))


def _upwards(roots: Sequence[str], below: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the devices so that every one comes after what hangs under it."""
    order: list[str] = []
    stack = list(roots)
    while stack:
        device = stack.pop()
        order.append(device)
        stack.extend(below.get(device, ()))
    return order[::-1]


def _draw_device(ax: Axes, device: str, x: float, y: float) -> None:
    stem = device.rstrip("0123456789")
    colour = OKABE_ITO.get(_FILLS.get(stem, ""), MUTED)
    ax.text(
        x,
        y,
        device,
        fontsize="small",
        color=INK,
        horizontalalignment="center",
        verticalalignment="center",
        parse_math=False,
        zorder=3,
        bbox={"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour, "lw": 1.6},
    )


def _draw_link(
    ax: Axes, places: Mapping[str, tuple[float, float]], a: str, b: str, kind: str, share: float
) -> None:
    from matplotlib.patches import FancyArrowPatch

    (x, y), (u, v) = places[a], places[b]
    # Side by side: around the devices between them, the further the wider.
    bend = 0.0
    if y == v:
        bend = _ROOT_BEND if kind == "upi" else -0.35
        between = any(y == q and min(x, u) < p < max(x, u) for p, q in places.values())
        bend = bend if between or kind != "upi" else 0.0
    if x > u:
        bend = -bend
    ax.add_patch(
        FancyArrowPatch(
            (x, y),
            (u, v),
            arrowstyle="-",
            connectionstyle=f"arc3,rad={bend}",
            color=_KINDS.get(kind, _OTHER),
            linewidth=0.8 + 3.0 * share,
            linestyle="--" if kind == "upi" else "-",
            zorder=2,
        )
    )
