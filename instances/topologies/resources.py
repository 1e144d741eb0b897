"""Resources of Kubernetes: what a list, or a file of several documents, holds of one kind."""

from __future__ import annotations

from collections.abc import Iterator

from alloc.instances.readers.report import ReportLog
from alloc.instances.topologies.markup import Entry
from alloc.instances.topologies.text import TopologyText


def resources(text: TopologyText, kind: str, log: ReportLog) -> Iterator[Entry]:
    """Yield the resources of a kind, in JSON or YAML; count what else is there.

    Parameters
    ----------
    text
        The file.
    kind
        Value of their field ``kind``, for example ``"HyperNode"``.
    log
        Takes the account.
    """
    documents = (text.json,) if text.text.lstrip().startswith("{") else text.yaml
    for document in documents:
        if document.value is None:
            continue
        items = document.get("items")
        for entry in (document,) if items is None else items.elements():
            log.rows_read += 1
            found = entry.get("kind")
            if found is not None and found.value == kind:
                yield entry
            else:
                log.drop(f"no {kind}", "without kind" if found is None else found.text())
