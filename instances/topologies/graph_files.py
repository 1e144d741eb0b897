"""Graph files: GraphML and networkx' node-link JSON, with the attributes of `Topology.graph`.

The graph is the one that `alloc.topology.from_graph` reads: nodes with ``level`` and ``type``,
edges with ``kind`` and ``bandwidth_gb_per_s``. GraphML knows no lists, so there the levels are one
text, ``"pod,leaf"``.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import networkx as nx

from alloc.errors import InstanceError
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.place import Place, shown
from alloc.instances.topologies.text import TopologyText
from alloc.instances.topologies.xml_tree import parse_xml
from alloc.topology import HostType, Topology, from_graph
from alloc.topology.topology import GPU, HOST

_TEXTS = ("level", "type")
_COUNTS = ("cpu_milli", "memory_mib")
_NUMBERS = ("bandwidth_gb_per_s",)


def is_graphml(text: TopologyText) -> bool:
    """Return whether a text looks like GraphML."""
    return re.search(r"<graphml[\s>]", text.head) is not None


def is_node_link(text: TopologyText) -> bool:
    """Return whether a text looks like node-link JSON, which says first what graph it is."""
    head = text.head
    return head.lstrip().startswith("{") and all(
        re.search(rf'"{key}"\s*:', head) for key in ("directed", "multigraph", "nodes")
    )


def read_graphml(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read GraphML.

    Parameters
    ----------
    text
        The file.
    request
        What the user wants of the reading.

    Raises
    ------
    InstanceError
        If it is not GraphML, or the graph is not a topology.
    """
    # networkx reads XML with whatever bombs are in it; this refuses them, and gives lines.
    parse_xml(text.text.encode(), text.file)
    graph = _library(lambda: nx.parse_graphml(text.text), text, "GraphML")
    return _topology(graph, text, request)


def read_node_link(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read node-link JSON, its edges under ``edges`` or, as older versions of networkx, ``links``.

    Parameters
    ----------
    text
        The file.
    request
        What the user wants of the reading.

    Raises
    ------
    InstanceError
        If it is not JSON, or the graph is not a topology.
    """
    document = text.json
    for key in ("nodes", "edges" if document.get("edges") is not None else "links"):
        for element in document.need(key).elements():
            list(element.items())
    graph = _library(lambda: _node_link_graph(dict(document.value)), text, "node-link JSON")
    return _topology(graph, text, request)


def write_graphml(topology: Topology) -> str:
    """Return a topology as GraphML."""
    graph = _plain_graph(topology)
    graph.graph["levels"] = ",".join(_levels_of(topology))
    return "\n".join(nx.generate_graphml(graph)) + "\n"


def write_node_link(topology: Topology) -> str:
    """Return a topology as node-link JSON, its edges under ``edges``."""
    data = _with_key(nx.node_link_data, _plain_graph(topology))
    if "links" in data:
        data["edges"] = data.pop("links")
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _plain_graph(topology: Topology) -> nx.Graph:
    """Return the graph of a topology with attributes that every file can hold."""
    graph = nx.Graph(name=topology.name, levels=_levels_of(topology))
    for node, data in topology.graph.nodes(data=True):
        graph.add_node(node, **{key: value for key, value in data.items() if value is not None})
    for a, b, data in topology.graph.edges(data=True):
        # Containment has no bandwidth; JSON has no infinity.
        graph.add_edge(
            a,
            b,
            **{k: v for k, v in data.items() if not (isinstance(v, float) and math.isinf(v))},
        )
    return graph


def _levels_of(topology: Topology) -> list[str]:
    bad = next((level for level in topology.levels if "," in level), None)
    if bad is not None:
        raise InstanceError(
            f'topology "{topology.name}": level {shown(bad)} has a comma, which separates levels '
            "in the file; rename it."
        )
    return list(topology.levels)


def _node_link_graph(data: dict[str, Any]) -> nx.Graph:
    """Return the graph, whatever this version of networkx calls the edges."""
    if "links" in data and "edges" not in data:
        data["edges"] = data.pop("links")
    if "edges" not in inspect.signature(nx.node_link_graph).parameters:
        data["links"] = data.pop("edges")
    return _with_key(nx.node_link_graph, data)


def _with_key(function: Callable[..., Any], argument: object) -> Any:
    """Call a function of networkx that wants to be told the key of the edges."""
    if "edges" in inspect.signature(function).parameters:
        return function(argument, edges="edges")
    return function(argument, link="links")


def _library(read: Callable[[], nx.Graph], text: TopologyText, kind: str) -> nx.Graph:
    """Return what networkx reads; whatever it stumbles over is the file's fault."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return read()
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise text.place().error(
            f"cannot be read as {kind} ({reason}); write it again with networkx."
        ) from None


def _topology(graph: nx.Graph, text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    log = ReportLog()
    log.files.append(text.file)
    log.rows_read = graph.number_of_nodes() + graph.number_of_edges()
    where = text.place()
    _check(graph, where)
    levels = request.levels if request.levels is not None else _levels(graph, where)
    chosen = _choose_types(graph, request)
    name = graph.graph.get("name")
    # A name of the user's own goes first; the file's stem is what he gets without.
    own = name if isinstance(name, str) and name and request.name == text.stem else request.name
    try:
        topology = from_graph(graph, levels=levels, name=own)
    except InstanceError as error:
        raise where.error(str(error)) from None
    kinds = tuple(chosen.get(kind.name, kind) for kind in topology.host_types)
    return topology.replace(host_types=kinds), log.report()


def _check(graph: nx.Graph, where: Place) -> None:
    """Refuse attributes of the wrong type; make whole numbers of those that are."""
    for node, data in graph.nodes(data=True):
        what = f"node {shown(str(node))}"
        _check_values(data, _TEXTS, str, what, "a text", where)
        _check_values(data, _COUNTS, int, what, "a whole number", where)
    for a, b, data in graph.edges(data=True):
        what = f"edge {shown(str(a))} - {shown(str(b))}"
        _check_values(data, ("kind",), str, what, "a text", where)
        _check_values(data, _NUMBERS, float, what, "a number", where)


def _check_values(
    data: dict[str, Any],
    keys: Iterable[str],
    kind: type[str] | type[int] | type[float],
    what: str,
    expected: str,
    where: Place,
) -> None:
    for key in keys:
        if key not in data:
            continue
        value = data[key]
        if kind is int and isinstance(value, float) and value.is_integer():
            data[key] = value = int(value)
        allowed = (int, float) if kind is float else (kind,)
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise where.error(f"{what}: {key} is {shown(str(value))}; give {expected}.")


def _levels(graph: nx.Graph, where: Place) -> tuple[str, ...] | None:
    """Return the levels that the graph names, as a list or a text with commas."""
    levels = graph.graph.get("levels")
    if isinstance(levels, str):
        levels = [level.strip() for level in levels.split(",") if level.strip()]
    if levels is None:
        return None
    if not isinstance(levels, list | tuple) or not all(isinstance(x, str) for x in levels):
        raise where.error(
            f"its levels are {shown(str(levels))}; give a list of names, outermost first."
        )
    return tuple(level for level in levels if level not in (HOST, GPU))


def _choose_types(graph: nx.Graph, request: Request) -> dict[str, HostType]:
    """Give hosts that the graph says nothing of the types that the user chose, by name."""
    chosen: dict[str, HostType] = {}
    for node, data in graph.nodes(data=True):
        bare = data.get("level") == HOST and not data.keys() & {"type", *_COUNTS}
        if bare and not any(graph.nodes[n].get("level") == GPU for n in graph[node]):
            kind = request.host_types.find(str(node))
            if kind is not None:
                data["type"] = kind.name
                chosen[kind.name] = kind
    return chosen


FORMATS = (
    TopologyFormat(
        "graphml",
        "GraphML with the attributes of alloc's graphs, as networkx writes it.",
        is_graphml,
        read_graphml,
        write_graphml,
        file_names=("*.graphml",),
        tells_hosts=True,
    ),
    TopologyFormat(
        "node-link",
        "Node-link JSON of networkx with the attributes of alloc's graphs.",
        is_node_link,
        read_node_link,
        write_node_link,
        tells_hosts=True,
    ),
)
"""Graph files of networkx."""
