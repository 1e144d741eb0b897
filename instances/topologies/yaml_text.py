"""YAML with lines: event by event, with limits, scalars as the text that they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from alloc.errors import InstanceError
from alloc.instances.topologies.entries import Entry, Lines, OpenContainer, Path
from alloc.instances.topologies.place import Place, shown

MAX_VALUES = 4_000_000
"""Most values of a YAML file, with its aliases unfolded."""

_DEEPEST = 100
_NULLS = ("", "~", "null", "Null", "NULL")


def yaml_entries(file: str, text: str) -> tuple[Entry, ...]:
    """Return the documents of a YAML text.

    Raises
    ------
    InstanceError
        If it is not YAML, is nested too deep, uses tags, names a key twice or unfolds to too much.
    """
    lines = Lines(lambda: _YamlReader(file, text, record=True).lines)
    documents = _YamlReader(file, text).documents
    return tuple(Entry(value, (k,), file, lines, 1) for k, value in enumerate(documents))


@dataclass
class _YamlReader:
    """One reading of a YAML text, event by event, so that depth costs no stack of calls."""

    file: str
    text: str
    record: bool = False
    documents: list[Any] = field(default_factory=list)
    lines: dict[Path, int] = field(default_factory=dict)
    _stack: list[OpenContainer] = field(default_factory=list)
    _anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(self.text, Loader=loader):
                self._take(event)
        except yaml.reader.ReaderError as error:
            raise Place(self.file).error(
                f"holds a character that YAML does not allow ({error.reason}); remove it."
            ) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = None if mark is None else mark.line + 1
            problem = error.problem or error.context or "it cannot be parsed"
            raise Place(self.file, line).error(
                f"is not YAML ({problem}); correct the indentation or the quotes there."
            ) from None

    def _take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            self._anchors.clear()
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            done = self._stack.pop()
            self._put(done.container, done.size, done.path, None)
            if done.anchor:
                self._anchors[done.anchor] = (done.container, done.size)
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            self._open(event, [] if kind == "SequenceStartEvent" else {})
        elif kind == "ScalarEvent":
            self._scalar(event)
        elif kind == "AliasEvent":
            self._alias(event)

    def _open(self, event: Any, container: dict[str, Any] | list[Any]) -> None:
        self._require_no_tag(event)
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            raise self._error(event, "uses a list or mapping as a key; use a name.")
        if len(self._stack) >= _DEEPEST:
            raise self._error(event, f"is nested deeper than {_DEEPEST} levels; flatten it.")
        path = (len(self.documents),) if top is None else top.next_path()
        self._mark(path, event)
        self._stack.append(OpenContainer(path, container, anchor=event.anchor))

    def _scalar(self, event: Any) -> None:
        self._require_no_tag(event)
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            self._key(top, event)
            return
        plain = event.implicit[0]
        value = None if plain and event.value in _NULLS else event.value
        path = (len(self.documents),) if top is None else top.next_path()
        self._put(value, 1, path, event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)

    def _key(self, top: OpenContainer, event: Any) -> None:
        if event.value in top.container:
            raise self._error(event, f"{shown(event.value)} is named twice; name it once.")
        top.key = event.value
        self._mark(top.next_path(), event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._error(event, f"the alias *{event.anchor} has no anchor before it; add it.")
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            raise self._error(event, "uses an alias as a key; write the name.")
        value, size = self._anchors[event.anchor]
        path = (len(self.documents),) if top is None else top.next_path()
        self._put(value, size, path, event)

    def _put(self, value: Any, size: int, path: Path, event: Any) -> None:
        if event is not None:
            self._mark(path, event)
        if not self._stack:
            self.documents.append(value)
            return
        top = self._stack[-1]
        top.add(value)
        top.size += size
        if top.size > MAX_VALUES:
            raise Place(self.file).error(
                f"unfolds to more than {MAX_VALUES:,} values; write out its aliases, or split it."
            )

    def _mark(self, path: Path, event: Any) -> None:
        if self.record:
            self.lines.setdefault(path, event.start_mark.line + 1)

    def _require_no_tag(self, event: Any) -> None:
        if event.tag and not event.tag.startswith("tag:yaml.org,2002:"):
            raise self._error(event, f"uses the tag {shown(event.tag)}; leave tags out.")
        if event.tag and "python" in event.tag:
            raise self._error(event, f"uses the tag {shown(event.tag)}; leave tags out.")

    def _error(self, event: Any, sentence: str) -> InstanceError:
        return Place(self.file, event.start_mark.line + 1).error(sentence)
