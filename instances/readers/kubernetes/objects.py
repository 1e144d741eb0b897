"""Objects: the resources of a dump, by kind, each of them once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from os import PathLike
from typing import Any, NoReturn

from alloc.documents.files import MAX_VALUES, count_values, read_bytes, too_many_values
from alloc.errors import InstanceError
from alloc.instances.readers.report import ReportLog
from alloc.instances.readers.table import UnreadableRowError

KINDS = (
    "Node",
    "Pod",
    "Workload",
    "ClusterQueue",
    "LocalQueue",
    "Cohort",
    "ResourceFlavor",
    "Topology",
    "PodGroup",
    "Queue",
    "Job",
)
"""Kinds that are read: of Kubernetes, Kueue, Volcano, KAI and the coscheduling plugin."""

_COMMAND = (
    "kubectl get nodes,pods,workloads,clusterqueues,localqueues,resourceflavors -A -o json > "
    "dump.json"
)


@dataclass
class Dump:
    """The resources of one or several files.

    Parameters
    ----------
    log
        Counts what is not read.

    Attributes
    ----------
    by_kind
        The resources of each kind in `KINDS`, in the order of the files.
    unread_on
        Nodes with a pod that cannot be read: what is free there is not known.
    """

    log: ReportLog
    by_kind: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )
    unread_on: set[str] = field(default_factory=set)
    _seen: set[tuple[str, str, str | None, str]] = field(default_factory=set)

    def read(self, path: str | PathLike[str]) -> None:
        """Read a file: a list, a list of a kind, or a single resource.

        Parameters
        ----------
        path
            What ``kubectl get ... -o json`` printed, plain or gzip.

        Raises
        ------
        InstanceError
            If it is not JSON, cut short, or no resource of Kubernetes.
        """
        document = _parsed(path)
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            raise InstanceError(
                f"{path}: is no list of Kubernetes: it has no kind; take it with {_COMMAND}"
            )
        self.log.files.append(str(path))
        kind = document["kind"]
        if not kind.endswith("List") or ("metadata" not in document and "items" not in document):
            self._add(document, kind)
            return
        items = document.get("items")
        if not isinstance(items, list):
            raise InstanceError(
                f'{path}: is a {kind} without "items"; take it again with {_COMMAND}'
            )
        for item in items:
            # Lists of a kind, as the interface itself returns them, do not repeat it.
            self._add(item, kind.removesuffix("List"))

    def _add(self, item: Any, kind: str) -> None:
        self.log.rows_read += 1
        if not isinstance(item, dict):
            self.log.drop("is no resource", str(item))
            return
        found = item.get("kind", kind)
        if found not in KINDS:
            self.log.drop(f"{found or 'no kind'} is not read", label_of(item))
            return
        try:
            group = str(item.get("apiVersion") or "").partition("/")[0]
            key = (found, group, text(item, "metadata", "namespace"), name_of(item))
            list(owners(item))
        except UnreadableRowError as reason:
            self.log.drop(f"{found}: {reason}", label_of(item))
            if found == "Pod":
                self.unread_on |= node_of(item)
            return
        if key in self._seen:
            self.log.drop(f"{found} appears before", label_of(item))
            return
        self._seen.add(key)
        self.by_kind[found].append(item)


def _parsed(path: str | PathLike[str]) -> Any:
    data = read_bytes(path)
    if count_values(data) > MAX_VALUES:
        raise too_many_values(str(path))
    try:
        # Not as documents of alloc are read: their check for doubled keys takes five times as long,
        # and the server, which wrote this, has none.
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InstanceError(f"{path}: is not text in UTF-8; take it with {_COMMAND}") from None
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :].strip()
        if data.lstrip()[:1] == b"{" and (not rest or error.msg.startswith("Unterminated")):
            _refuse(path, f"ends on line {error.lineno}, in the middle: it was cut short")
        _refuse(path, f"is not JSON (line {error.lineno}: {error.msg})")
    except RecursionError:
        _refuse(path, "is nested too deep for a list of Kubernetes")
    except ValueError as error:
        _refuse(path, f"holds a number that cannot be read ({error})")


def _refuse(path: str | PathLike[str], what: str) -> NoReturn:
    raise InstanceError(f"{path}: {what}; take it again with {_COMMAND}") from None


def value(item: Any, *keys: str) -> Any:
    """Return what stands under some keys, one inside the other, or None."""
    for key in keys:
        if not isinstance(item, dict):
            raise UnreadableRowError(f"{key} stands in no object")
        item = item.get(key)
        if item is None:
            return None
    return item


def mapping(item: Any, *keys: str) -> dict[str, Any]:
    """Return the object under some keys, empty where there is none.

    Raises
    ------
    UnreadableRowError
        If it is something else.
    """
    found = value(item, *keys)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UnreadableRowError(f"{'.'.join(keys)} is no object")
    return found


def elements(item: Any, *keys: str) -> list[Any]:
    """Return the list under some keys, empty where there is none.

    Raises
    ------
    UnreadableRowError
        If it is something else.
    """
    found = value(item, *keys)
    if found is None:
        return []
    if not isinstance(found, list):
        raise UnreadableRowError(f"{'.'.join(keys)} is no list")
    return found


def text(item: Any, *keys: str) -> str | None:
    """Return the text under some keys, or None where there is none or it is empty.

    Raises
    ------
    UnreadableRowError
        If it is something else.
    """
    found = value(item, *keys)
    if found is None or found == "":
        return None
    if not isinstance(found, str):
        raise UnreadableRowError(f"{'.'.join(keys)} is no text")
    return found


def whole(item: Any, *keys: str) -> int | None:
    """Return the whole number under some keys, or None where there is none.

    Raises
    ------
    UnreadableRowError
        If it is something else, or beyond the 32 bits that Kubernetes has for it.
    """
    found = value(item, *keys)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) >= 2**31:
        raise UnreadableRowError(f"{'.'.join(keys)} is no whole number of 32 bits")
    return found


def name_of(item: Any) -> str:
    """Return the name of a resource.

    Raises
    ------
    UnreadableRowError
        If it has none.
    """
    found = text(item, "metadata", "name")
    if found is None:
        raise UnreadableRowError("has no metadata.name")
    return found


def id_of(item: Any) -> str:
    """Return namespace and name of a resource, ``team-a/train``; the namespace by default too."""
    return f"{text(item, 'metadata', 'namespace') or 'default'}/{name_of(item)}"


def label_of(item: Any) -> str:
    """Return what a resource is called in the account, whatever it is."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(metadata, dict):
        return "without metadata"
    parts = (metadata.get("namespace"), metadata.get("name") or "without name")
    return "/".join(str(part) for part in parts if part)


def node_of(pod: Any) -> set[str]:
    """Return the node that a pod stands on, whatever else of it can be read."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return {node} if isinstance(node, str) and node else set()


def time_of(item: Any, *keys: str) -> float | None:
    """Return the time under some keys, Unix seconds, or None where none can be read."""
    found = value(item, *keys)
    if not isinstance(found, str):
        return None
    try:
        return datetime.fromisoformat(found).timestamp()
    except (ValueError, OverflowError):
        return None


def owners(item: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield kind and name of the owners of a resource, and whether one is its controller."""
    for owner in elements(item, "metadata", "ownerReferences"):
        name = text(owner, "name")
        if name is not None:
            yield text(owner, "kind") or "", name, value(owner, "controller") is True


def is_true(item: Any, condition: str) -> bool:
    """Return whether a resource has a condition, and it is true.

    Parameters
    ----------
    item
        A resource as Kubernetes writes it.
    condition
        Type of the condition, such as ``Ready``.
    """
    return any(
        value(one, "type") == condition and value(one, "status") == "True"
        for one in elements(item, "status", "conditions")
    )


def first_text(item: dict[str, Any], keys: Sequence[str]) -> str | None:
    """Return the first text that stands under one of some keys, or None.

    Parameters
    ----------
    item
        A mapping.
    keys
        The keys, in the order in which they are looked up.
    """
    return next((found for key in keys if (found := text(item, key)) is not None), None)
