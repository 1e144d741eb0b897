"""Volcano's HyperNodes: domains that select nodes by name, pattern or label.

References
----------
Volcano. Network topology aware scheduling; HyperNode API, topology.volcano.sh/v1alpha1.
https://volcano.sh
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from alloc.errors import nearest
from alloc.instances.readers.options import Option
from alloc.instances.readers.report import ReadReport, ReportLog
from alloc.instances.topologies import kubernetes_nodes
from alloc.instances.topologies.formats import Request, TopologyFormat
from alloc.instances.topologies.kubernetes_node import node_entries
from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.name_pattern import NamePattern, PatternError
from alloc.instances.topologies.node_labels import NO_LABELS
from alloc.instances.topologies.place import shown
from alloc.instances.topologies.resources import resources
from alloc.instances.topologies.text import TopologyText, read_text
from alloc.instances.topologies.tree import TreeBuilder
from alloc.topology import HostType, Topology

_KIND = re.compile(
    r"""["']?kind["']?\s*:\s*["']?HyperNode(List)?["']?\s*(,|\}|\#|$)""", re.MULTILINE
)
_SELECTORS = ("exactMatch", "regexMatch", "labelMatch")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True)
class _Nodes:
    """The nodes of the cluster, where a list of them was given.

    Parameters
    ----------
    labels
        Labels of every node in the list, also of those that take no pods.
    types
        Host type of each node that takes pods.
    report
        The account of the list.
    """

    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    types: dict[str, HostType] = field(default_factory=dict)
    report: ReadReport | None = None


def read_hypernodes(text: TopologyText, request: Request) -> tuple[Topology, ReadReport]:
    """Read HyperNodes as a topology; each tier is a level.

    Parameters
    ----------
    text
        One HyperNode, several documents, or the list that ``kubectl get hypernodes -o yaml`` (or
        ``-o json``) prints.
    request
        What the user wants. The option ``nodes`` is a list of nodes, from ``kubectl get nodes -o
        json``: it gives the hosts and their types, and patterns and labels need it. The other
        options are those of that list.

    Returns
    -------
    Topology, ReadReport
        Levels are named by ``tierName``, else ``tier-N``, the highest outermost.

    Raises
    ------
    InstanceError
        If a HyperNode is malformed, selects what is not there, or they make no tree.
    """
    log = ReportLog()
    log.files.append(text.file)
    nodes = _nodes(request)
    if nodes.report is not None:
        log.also.append(nodes.report)
    entries = list(resources(text, "HyperNode", log))
    if not entries:
        raise text.place().error("holds no HyperNode; one has kind: HyperNode.")
    tree = TreeBuilder(text.file, domain_word="HyperNode", host_word="node")
    levels = _levels(entries, request)
    for entry in entries:
        name = entry.need("metadata").need("name")
        level = levels[entry.need("spec").need("tier").count()]
        tree.domain(name.text(), name.where, level=level)
    for node, kind in nodes.types.items():
        tree.host(node, tree.file, host_type=kind)
    for entry in entries:
        _add_members(tree, entry, nodes, log)
    if nodes.report is not None:
        for node in tree.unplaced_hosts:
            log.alter("node in no HyperNode: stands outside all", node)
    topology = tree.build(
        request.name,
        host_types=request.host_types,
        levels=[levels[tier] for tier in sorted(levels, reverse=True)],
        one_piece=False,
    )
    return topology, log.report()


def _levels(entries: Sequence[Entry], request: Request) -> dict[int, str]:
    """Return the name of each tier."""
    names: dict[int, str] = {}
    for entry in entries:
        spec = entry.need("spec")
        tier, name = spec.need("tier").count(), spec.get("tierName")
        if name is not None and names.setdefault(tier, name.text()) != name.text():
            raise name.error(
                f"tier {tier} is called {shown(name.text())} and elsewhere {shown(names[tier])}; "
                "give a tier one name."
            )
    tiers = sorted({entry.need("spec").need("tier").count() for entry in entries}, reverse=True)
    if request.levels is None:
        return {tier: names.get(tier, f"tier-{tier}") for tier in tiers}
    if len(request.levels) != len(tiers):
        raise entries[0].error(
            f"there are {len(tiers)} tiers ({', '.join(map(str, tiers))}), and "
            f"{len(request.levels)} names were given for them ({', '.join(request.levels)}); name "
            "every tier, the highest first."
        )
    return dict(zip(tiers, request.levels, strict=True))


def _nodes(request: Request) -> _Nodes:
    path = request.text_option("nodes")
    if path is None:
        return _Nodes()
    text = read_text(path)
    options = {key: value for key, value in request.options.items() if key != "nodes"}
    wanted = replace(request, levels=None, options={**options, "labels": NO_LABELS})
    topology, report = kubernetes_nodes.read_kubernetes_nodes(text, wanted)
    labels = {}
    for entry in node_entries(text):
        metadata = entry.need("metadata")
        found = metadata.get("labels")
        labels[metadata.need("name").text()] = {
            key: str(value.value) for key, value in (found.items() if found is not None else ())
        }
    types = {host.id: topology.host_type(host) for host in topology.hosts}
    return _Nodes(labels, types, report)


def _add_members(tree: TreeBuilder, entry: Entry, nodes: _Nodes, log: ReportLog) -> None:
    name = entry.need("metadata").need("name").text()
    members = entry.need("spec").get("members")
    for member in members.elements() if members is not None else ():
        kind = member.need("type")
        if kind.text() not in ("Node", "HyperNode"):
            raise kind.error(
                f"{kind.label} is {shown(kind.text())}"
                f"{nearest(kind.text(), ('Node', 'HyperNode')) or '.'} Give Node or HyperNode."
            )
        selector = member.need("selector")
        said = [key for key in _SELECTORS if selector.get(key) is not None]
        if len(said) != 1:
            raise selector.error(
                f"{selector.label} says {' and '.join(said) or 'nothing'}; give one of "
                f"{', '.join(_SELECTORS)}."
            )
        match = selector.need(said[0])
        if kind.text() == "HyperNode":
            if said[0] != "exactMatch":
                raise match.error(
                    f"{match.label} selects HyperNodes, which Volcano finds by exactMatch only; "
                    "name each of them."
                )
            child = match.need("name")
            tree.put(child.text(), name, child.where)
            continue
        if said[0] == "exactMatch":
            _add_node(tree, match.need("name"), name, nodes, log)
            continue
        found = _selected(match, said[0], nodes)
        if not any(node in nodes.types for node in found):
            log.alter("member selects no node that takes pods", f"{name}: {said[0]}")
        for node in found:
            if node in nodes.types:
                # A node may be selected by name and by pattern.
                tree.put(node, name, match.where, again=True)


def _add_node(tree: TreeBuilder, node: Entry, domain: str, nodes: _Nodes, log: ReportLog) -> None:
    """Put a node that is named into its HyperNode."""
    if nodes.report is None:
        tree.put(node.text(), domain, node.where)
        tree.host(node.text(), node.where)
        return
    if node.text() not in nodes.labels:
        raise node.error(
            f"HyperNode {shown(domain)} contains node {shown(node.text())}, which is not in the "
            f"list of nodes{nearest(node.text(), nodes.labels) or '; take it out, or list it.'}"
        )
    if node.text() in nodes.types:
        tree.put(node.text(), domain, node.where, again=True)
    else:
        log.drop("node of a HyperNode that takes no pods", node.text())


def _selected(match: Entry, how: str, nodes: _Nodes) -> list[str]:
    """Return the nodes that a pattern or labels select."""
    if nodes.report is None:
        raise match.error(
            f"{match.label} needs the list of nodes; pass the option nodes, a file with the output "
            "of kubectl get nodes -o json."
        )
    if how == "regexMatch":
        pattern = match.need("pattern")
        try:
            compiled = NamePattern(pattern.text())
        except PatternError as error:
            raise pattern.error(
                f"the pattern {shown(pattern.text())} cannot be read: {error}."
            ) from None
        return [node for node in nodes.labels if compiled.matches(node)]
    requirements = list(_requirements(match))
    return [
        node
        for node, labels in nodes.labels.items()
        if all(_fits(labels, *requirement) for requirement in requirements)
    ]


def _requirements(match: Entry) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield key, operator and values of a label selector."""
    plain, expressions = match.get("matchLabels"), match.get("matchExpressions")
    if plain is None and expressions is None:
        raise match.error(
            f"{match.label} is empty; give matchLabels or matchExpressions, since no label at all "
            "would select every node."
        )
    for key, value in plain.items() if plain is not None else ():
        yield key, "In", ("" if value.value is None else str(value.value),)
    for expression in expressions.elements() if expressions is not None else ():
        operator = expression.need("operator")
        if operator.text() not in _OPERATORS:
            raise operator.error(
                f"{operator.label} is {shown(operator.text())}"
                f"{nearest(operator.text(), _OPERATORS) or '.'} Give one of "
                f"{', '.join(_OPERATORS)}."
            )
        values = expression.get("values")
        yield (
            expression.need("key").text(),
            operator.text(),
            tuple(str(v.value) for v in values.elements()) if values is not None else (),
        )


def _fits(labels: dict[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return (labels.get(key) in values) == (operator == "In")


NODE_OPTIONS = tuple(
    option
    for option in kubernetes_nodes.FORMATS[0].options
    if option.name not in ("labels", "nvlink")
)
"""Options of a list of nodes that another format reads beside its own file."""

FORMATS = (
    TopologyFormat(
        "hypernodes",
        "Volcano HyperNodes in YAML or JSON; with nodes=, also those by pattern and label.",
        lambda text: _KIND.search(text.head) is not None,
        read_hypernodes,
        options=(
            Option(
                "nodes",
                str,
                "List of nodes, from kubectl get nodes -o json; needed for patterns and labels.",
                is_path=True,
            ),
            *NODE_OPTIONS,
        ),
    ),
)
"""The format of Volcano's HyperNodes."""
