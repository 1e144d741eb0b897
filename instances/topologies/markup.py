"""YAML and JSON with lines: values that know where in the file they stand.

Hostile input is refused, not obeyed: no tags, no merge keys, a limit on depth and on the number of
values that aliases unfold to. YAML scalars stay text, so that a host named ``0012``, ``no`` or
``1e3`` keeps its name; who needs a number asks for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn

from alloc.errors import InstanceError, nearest
from alloc.instances.topologies.place import Place, shown

MAX_VALUES = 4_000_000
"""Most values of a YAML file, with its aliases unfolded."""

_DEEPEST = 100
_MOST_COUNT = 10**9
_NULLS = ("", "~", "null", "Null", "NULL")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")

Path = tuple[str | int, ...]


class _Lines:
    """Finds the line of a value when a message needs it: good files never pay for it."""

    def __init__(self, find: Callable[[], dict[Path, int]]) -> None:
        self._find = find

    @cached_property
    def _found(self) -> dict[Path, int]:
        return self._find()

    def of(self, path: Path) -> int | None:
        # What an alias unfolds to stands where the alias stands.
        while path and path not in self._found:
            path = path[:-1]
        return self._found.get(path)


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a YAML or JSON file.

    Attributes
    ----------
    value
        The plain value: dict, list, str, int, float, bool or None.
    path
        The keys and positions that lead to it; in YAML the number of the document comes first.
    """

    value: Any
    path: Path
    _file: str
    _lines: _Lines
    _root: int = 0

    @property
    def where(self) -> Place:
        """Its place in the file."""
        return Place(self._file, lambda: self._lines.of(self.path))

    @property
    def label(self) -> str:
        """What it is called in messages: ``spec.levels[2].nodeLabel``."""
        parts = [f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path[self._root :]]
        label = "".join(parts).lstrip(".")
        return label if len(label) <= 80 else f"...{label[-77:]}"

    def error(self, sentence: str) -> InstanceError:
        """Return the error that says a sentence about this place."""
        return self.where.error(sentence)

    def get(self, key: str) -> Entry | None:
        """Return the value under a key, or None where there is none or it is null."""
        value = self._mapping().get(key)
        return None if value is None else self._child(key, value)

    def need(self, key: str) -> Entry:
        """Return the value under a key that must be there.

        Raises
        ------
        InstanceError
            If this is no mapping or has no such key.
        """
        found = self.get(key)
        if found is None:
            if key in self._mapping():
                child = self._child(key, None)
                raise child.error(f"{child.label} is empty; fill it in.")
            what = self.label or "the document"
            raise self.error(f'{what} has no "{key}"{nearest(key, self._mapping(), "; add it.")}')
        return found

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Yield the keys of a mapping with their values.

        Raises
        ------
        InstanceError
            If this is no mapping.
        """
        return ((key, self._child(key, value)) for key, value in self._mapping().items())

    def elements(self) -> Iterator[Entry]:
        """Yield the elements of a list.

        Raises
        ------
        InstanceError
            If this is no list.
        """
        if not isinstance(self.value, list):
            self._refuse("a list")
        return (self._child(k, value) for k, value in enumerate(self.value))

    def text(self) -> str:
        """Return a text that is not empty.

        Raises
        ------
        InstanceError
            If this is something else.
        """
        if not isinstance(self.value, str) or not self.value:
            self._refuse("a text")
        return self.value

    def count(self, least: int = 0) -> int:
        """Return a whole number of `least` or more.

        Raises
        ------
        InstanceError
            If this is something else.
        """
        value = self.value
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self._refuse("a whole number")
        if value < least:
            raise self.error(f"{self.label} is {value}; it must be {least} or more.")
        if value > _MOST_COUNT:
            raise self.error(f"{self.label} is {value}; it must be at most {_MOST_COUNT}.")
        return value

    def flag(self) -> bool:
        """Return true or false.

        Raises
        ------
        InstanceError
            If this is something else.
        """
        word = str(self.value).lower()
        if word not in _TRUE + _FALSE:
            self._refuse("true or false")
        return word in _TRUE

    def _mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            self._refuse("a mapping")
        return self.value

    def _child(self, key: str | int, value: Any) -> Entry:
        return Entry(value, (*self.path, key), self._file, self._lines, self._root)

    def _refuse(self, expected: str) -> NoReturn:
        value = self.value
        if isinstance(value, dict | list):
            came = "a list" if isinstance(value, list) else "a mapping"
        elif value is None or value == "":
            came = "empty"
        else:
            came = shown(value) if isinstance(value, str) else json.dumps(value)
        raise self.error(f"{self.label or 'the document'} is {came}; give {expected}.")


def yaml_entries(file: str, text: str) -> tuple[Entry, ...]:
    """Return the documents of a YAML text.

    Raises
    ------
    InstanceError
        If it is not YAML, is nested too deep, uses tags, names a key twice or unfolds to too much.
    """
    lines = _Lines(lambda: _YamlReader(file, text, record=True).lines)
    documents = _YamlReader(file, text).documents
    return tuple(Entry(value, (k,), file, lines, 1) for k, value in enumerate(documents))


def json_entry(file: str, text: str) -> Entry:
    """Return the value of a JSON text.

    Raises
    ------
    InstanceError
        If it is not JSON, is nested too deep or names a key twice.
    """
    place = Place(file)
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Place(file, error.lineno).error(
            f"is not JSON ({error.msg}, column {error.colno}); correct it there."
        ) from None
    except _DoubleKeyError as error:
        line = _line_of_double(text, error.key)
        raise Place(file, line).error(
            f"names {shown(error.key)} twice in one object; name every key once."
        ) from None
    except RecursionError:
        raise place.error("is nested too deep; this is no topology.") from None
    except ValueError as error:
        raise place.error(f"holds a number that cannot be read ({error}).") from None
    return Entry(value, (), file, _Lines(lambda: _json_lines(text)))


class _DoubleKeyError(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DoubleKeyError(key)
            seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


@dataclass
class _Open:
    """A mapping or list that is being read."""

    path: Path
    container: dict[str, Any] | list[Any]
    key: str | None = None
    size: int = 1
    anchor: str | None = None

    def next_path(self) -> Path:
        if isinstance(self.container, list):
            return (*self.path, len(self.container))
        return (*self.path, self.key or "")

    def add(self, value: Any) -> None:
        if isinstance(self.container, list):
            self.container.append(value)
        else:
            self.container[self.key or ""] = value
            self.key = None


def _json_lines(text: str) -> dict[Path, int]:
    """Return the line of every value of a JSON text that can be read."""
    lines: dict[Path, int] = {}
    stack: list[_Open] = []
    line, last = 1, 0
    for token in _JSON_TOKEN.finditer(text):
        line += text.count("\n", last, token.start())
        last = token.start()
        word = token[0]
        top = stack[-1] if stack else None
        if word in (",", ":"):
            continue
        if word in ("]", "}"):
            stack.pop()
            continue
        if top is not None and isinstance(top.container, dict) and top.key is None:
            top.key = json.loads(word)
            lines[top.next_path()] = line
            continue
        path = () if top is None else top.next_path()
        lines.setdefault(path, line)
        if top is not None:
            top.add(None)
        if word in ("[", "{"):
            stack.append(_Open(path, [] if word == "[" else {}))
    return lines


def _line_of_double(text: str, key: str) -> int | None:
    """Return the line where an object names a key for the second time."""
    keys: list[set[str] | None] = []
    tokens = list(_JSON_TOKEN.finditer(text))
    for token, after in pairwise(tokens):
        if token[0] in ("[", "{"):
            keys.append(set() if token[0] == "{" else None)
        elif token[0] in ("]", "}"):
            keys.pop()
        elif after[0] == ":" and token[0] not in (",", ":") and keys:
            seen, name = keys[-1], json.loads(token[0])
            if seen is not None and name == key and name in seen:
                return text.count("\n", 0, token.start()) + 1
            if seen is not None:
                seen.add(name)
    return None


@dataclass
class _YamlReader:
    """One reading of a YAML text, event by event, so that depth costs no stack of calls."""

    file: str
    text: str
    record: bool = False
    documents: list[Any] = field(default_factory=list)
    lines: dict[Path, int] = field(default_factory=dict)
    _stack: list[_Open] = field(default_factory=list)
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
        self._stack.append(_Open(path, container, anchor=event.anchor))

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

    def _key(self, top: _Open, event: Any) -> None:
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
