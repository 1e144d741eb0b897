"""What a scheduler is, in words: its description, its options and its sources.

The words are those of the docstring of what makes the scheduler, so that they are written once.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from alloc.schedulers.registry import is_learned, make_scheduler, scheduler_factory
from alloc.schedulers.state import Knowledge, Scheduler


@dataclass(frozen=True)
class SchedulerOption:
    """An option of a scheduler.

    Parameters
    ----------
    name
        Name, as in ``srtf(by=time)``.
    default
        Default value as it is written on the command line.
    values
        What it takes: ``true or false``, ``number``, or the words to choose from.
    meaning
        What it does, with its range.
    """

    name: str
    default: str
    values: str
    meaning: str


@dataclass(frozen=True)
class SchedulerDescription:
    """A scheduler in words.

    Parameters
    ----------
    name
        Name in the registry.
    title
        What it does, in one line.
    text
        How it does it.
    needs
        The least that it must be told of the work of jobs.
    information
        What it uses.
    features
        The rules of instances that it honours.
    options
        Its options.
    sources
        Where it is from, and where it departs from there; empty without a source.
    """

    name: str
    title: str
    text: str
    needs: Knowledge
    information: str
    features: tuple[str, ...]
    options: tuple[SchedulerOption, ...]
    sources: str


def describe_scheduler(name: str) -> SchedulerDescription:
    """Return a scheduler in words.

    Parameters
    ----------
    name
        A name of `scheduler_names`, the path of a policy file, or a place such as
        ``./rule.py:MyRule``.

    Raises
    ------
    InstanceError
        If there is no such scheduler.
    """
    factory, made = scheduler_factory(name), make_scheduler(name)
    documented = _documented(factory)
    sections = _sections(documented)
    meanings = dict[str, str]()
    for each in inspect.getmro(documented) if inspect.isclass(documented) else (documented,):
        for option, meaning in _parameters(_sections(each).get("Parameters", "")).items():
            meanings.setdefault(option, meaning)
    own_title = getattr(made, "title", None)
    title, _, text = sections.get("", "").partition("\n")
    if isinstance(own_title, str) and is_learned(name):
        # A learned policy speaks for itself; the docstring is that of its loader.
        title, text = own_title, f"The model card has the rest: `alloc policies show {name}`."
    return SchedulerDescription(
        name,
        title or _first_line(factory, made) or "without a docstring",
        text.strip(),
        made.needs,
        made.information,
        tuple(getattr(made, "features", ())),
        _options(factory, meanings),
        sections.get("References", ""),
    )


def _first_line(factory: Callable[..., Scheduler], made: Scheduler) -> str:
    if hasattr(factory, "documented"):  # that of a plain function, and not of what runs it
        return ""
    return (inspect.getdoc(type(made)) or "").partition("\n")[0]


def _documented(factory: Callable[..., Scheduler]) -> Callable[..., Any]:
    """Return the class or function whose docstring explains a scheduler."""
    inner = getattr(factory, "documented", factory)
    if inspect.isclass(inner) or inspect.isroutine(inner):
        return cast(Callable[..., Any], inner)
    return type(inner).__call__


def _sections(documented: Callable[..., Any]) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by heading, the text before them under ""."""
    text = inspect.cleandoc(documented.__doc__ or "").replace("``", "`")
    lines = text.split("\n")
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for k, line in enumerate(lines):
        if k + 1 < len(lines) and line and set(lines[k + 1]) == {"-"}:
            heading = line
            found[heading] = []
        elif not (line and set(line) == {"-"}):
            found[heading].append(line)
    return {name: "\n".join(body).strip() for name, body in found.items()}


def _parameters(section: str) -> dict[str, str]:
    """Return the meaning of each parameter of a section of numpydoc."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if line and not line[0].isspace():
            names = [name.strip() for name in line.split(",")]
        else:
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found


def _options(
    factory: Callable[..., Scheduler], meanings: Mapping[str, str]
) -> tuple[SchedulerOption, ...]:
    return tuple(
        SchedulerOption(
            name,
            "required" if taken.default is taken.empty else _written(taken.default),
            _values(_hint(factory, taken)),
            meanings.get(name, ""),
        )
        for name, taken in inspect.signature(factory).parameters.items()
        if taken.kind not in (taken.VAR_POSITIONAL, taken.VAR_KEYWORD)
    )


def _hint(factory: Callable[..., Scheduler], taken: inspect.Parameter) -> Any:
    """Return the type of one parameter; the others may be known to type checkers only."""
    if taken.annotation is taken.empty:
        return None if taken.default is taken.empty else type(taken.default)
    alone: Any = types.SimpleNamespace(__annotations__={taken.name: taken.annotation})
    try:
        known = vars(sys.modules[_documented(factory).__module__])
        return get_type_hints(alone, known)[taken.name]
    except Exception:  # names for type checkers only, and whatever else stands in others' code
        return None


def _values(hint: Any) -> str:
    """Return in words what values a type has."""
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(filter(None, map(_values, get_args(hint))))
    names = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return names.get(hint, "null" if hint is type(None) else "Python object")


def _written(value: object) -> str:
    """Return a default as the command line takes it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
