"""YAML event by event: with limits, without tags, and with the lines on which values stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from alloc.errors import InstanceError

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_DEEPEST = 100
"""Of mappings and lists: files that people write have a few levels, and what walks them walks by
recursion."""
_NULLS = ("", "~", "null", "Null", "NULL")


@dataclass
class OpenContainer:
    """A mapping or list that is being read.

    Parameters
    ----------
    path
        What leads to it.
    container
        What was read of it so far.
    key
        The key whose value comes next; None in a list, and where a key comes next.
    size
        Values in it so far, and itself.
    anchor
        Its name for aliases.
    """

    path: Path
    container: dict[str, Any] | list[Any]
    key: str | None = None
    size: int = 1
    anchor: str | None = None

    def next_path(self) -> Path:
        """Return what leads to the next value."""
        if isinstance(self.container, list):
            return (*self.path, len(self.container))
        return (*self.path, self.key or "")

    def add(self, value: Any) -> None:
        """Add the next value."""
        if isinstance(self.container, list):
            self.container.append(value)
        else:
            self.container[self.key or ""] = value
            self.key = None


def text_of(text: str) -> str:
    """Return a plain scalar as the text that it is."""
    return text


@dataclass
class YamlReader:
    """One reading of a YAML text, event by event, so that depth costs no stack of calls.

    Parameters
    ----------
    text
        The text.
    error
        Makes the error that says a sentence about a line, or about the whole text where it is None.
    shown
        Returns a name as messages show it.
    max_values
        Most values, with aliases unfolded.
    scalar
        Returns the value of a scalar without quotes that is not null.
    record
        Whether to note the lines.
    """

    text: str
    error: Callable[[int | None, str], InstanceError]
    shown: Callable[[str], str]
    max_values: int
    scalar: Callable[[str], Any] = text_of
    record: bool = False
    documents: list[Any] = field(default_factory=list)
    """The documents of the text."""
    lines: dict[Path, int] = field(default_factory=dict)
    """Lines of values from 1, by the number of the document and the path in it."""
    _stack: list[OpenContainer] = field(default_factory=list)
    _anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            for event in yaml.parse(self.text, Loader=loader):
                self._take(event)
        except yaml.reader.ReaderError as error:
            raise self.error(
                None, f"holds a character that YAML does not allow ({error.reason}); remove it."
            ) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = None if mark is None else mark.line + 1
            problem = error.problem or error.context or "it cannot be parsed"
            raise self.error(
                line, f"is not YAML ({problem}); correct the indentation or the quotes there."
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
        value = event.value
        if event.implicit[0]:
            value = None if value in _NULLS else self.scalar(value)
        path = (len(self.documents),) if top is None else top.next_path()
        self._put(value, 1, path, event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)

    def _key(self, top: OpenContainer, event: Any) -> None:
        if event.value in top.container:
            raise self._error(event, f"{self.shown(event.value)} is named twice; name it once.")
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
        # Containers that are open, and other documents, hold values too.
        self._count += 1
        top = self._stack[-1] if self._stack else None
        if top is None:
            self.documents.append(value)
        else:
            top.add(value)
            top.size += size
        if self._count > self.max_values or (top is not None and top.size > self.max_values):
            raise self.error(
                None,
                f"unfolds to more than {self.max_values:,} values; write out its aliases, or "
                "split it.",
            )

    def _mark(self, path: Path, event: Any) -> None:
        if self.record:
            self.lines.setdefault(path, event.start_mark.line + 1)

    def _require_no_tag(self, event: Any) -> None:
        if event.tag and not event.tag.startswith("tag:yaml.org,2002:"):
            raise self._error(event, f"uses the tag {self.shown(event.tag)}; leave tags out.")
        if event.tag and "python" in event.tag:
            raise self._error(event, f"uses the tag {self.shown(event.tag)}; leave tags out.")

    def _error(self, event: Any, sentence: str) -> InstanceError:
        return self.error(event.start_mark.line + 1, sentence)
