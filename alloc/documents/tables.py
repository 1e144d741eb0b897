"""Tables: the configurations of a job, read column by column.

A document may hold hundreds of thousands of configurations, nearly all of which say their tasks and
a rate, and few tasks differ. One model and one dataclass at a time for each takes many times as
long as to parse the text. Here the types of a whole table are looked at together, and tasks that
are written alike are checked once. What is out of the ordinary, and so whatever is wrong, is left
to the models of `alloc.documents.records`, which know where it is and what to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from types import NoneType
from typing import Any

from alloc.workload.configuration import Configuration, TaskGroup, table_of

Handler = Callable[[Any], list[Any]]

_FEW = 8
"""Configurations up to which one at a time is as quick."""
_FIELDS = frozenset({"tasks", "rate", "gpu_type", "within", "technique"})
"""Fields of a configuration that are read here: if it gets another, its tables are read as ever."""
_NUMBERS, _TEXTS = {int, float}, {str, NoneType}
_PLAIN = {str, int, NoneType}
"""Types of what a task group says; values of these are equal only where they are the same, as 1 and
true are not. A mapping of named resources is none of them."""
_LONG = 100
"""Names and numbers of a way to write tasks, and letters of each, up to which it is remembered."""
_MAX_KNOWN = 10_000
"""Ways to write tasks that are remembered, a kilobyte each; past that, all are forgotten."""


class Way:
    """A way to write the tasks of a configuration.

    Parameters
    ----------
    model
        The model of a configuration with these tasks, until they are made.

    Attributes
    ----------
    tasks
        The tasks, once they are made and checked.
    """

    __slots__ = ("model", "tasks")

    def __init__(self, model: Any) -> None:
        self.model = model
        self.tasks: tuple[TaskGroup, ...] | None = None


_KNOWN: dict[Hashable, Way] = {}
"""Ways that documents write tasks, by what they write."""


class Table(list[Any]):
    """A checked table, before its configurations are made; a list of their models once filled.

    Parameters
    ----------
    raw
        Plain JSON values.
    check
        Makes their models.
    ways
        How the tasks of each configuration are written.
    rates
        The rate of each.
    """

    def __init__(
        self,
        raw: list[dict[str, Any]],
        check: Handler,
        ways: Sequence[Way],
        rates: Sequence[float],
    ) -> None:
        super().__init__()
        self._raw, self._check, self._ways, self._rates = raw, check, ways, rates

    def made(self, convert: Callable[[Any], Configuration]) -> tuple[Configuration, ...] | None:
        """Return the configurations; None if something is wrong, and then fill the list.

        Parameters
        ----------
        convert
            Makes a configuration of its model, or raises what is wrong with it.
        """
        raw, tasks = self._raw, []
        try:
            for way in self._ways:
                if way.tasks is None:
                    way.tasks = convert(way.model).tasks
                    way.model = None
                tasks.append(way.tasks)
            return table_of(
                tasks,
                self._rates,
                *([one.get(name) for one in raw] for name in ("gpu_type", "within", "technique")),
            )
        except Exception:  # whatever it is, it is said again where it belongs
            self[:] = self._check(raw)
            return None


def table_or_models(raw: Any, check: Handler) -> Any:
    """Return a list of configurations as a table, or as their models where one is not plain.

    Parameters
    ----------
    raw
        Plain JSON values of any kind.
    check
        Makes the models, or raises what is wrong.
    """
    if type(raw) is not list or len(raw) <= _FEW or {*map(type, raw)} != {dict}:
        return check(raw)
    if not set().union(*raw) <= _FIELDS:
        return check(raw)
    try:
        tasks = [one["tasks"] for one in raw]
        numbers = [one["rate"] for one in raw]
    except KeyError:
        return check(raw)
    texts = {type(one.get(name)) for name in ("gpu_type", "within", "technique") for one in raw}
    if (
        not {*map(type, numbers)} <= _NUMBERS
        or not texts <= _TEXTS
        or {*map(type, tasks)} != {list}
    ):
        return check(raw)
    try:
        rates = [*map(float, numbers)]
    except OverflowError:
        return check(raw)
    if not all(map(math.isfinite, rates)):
        return check(raw)
    groups = [*chain.from_iterable(tasks)]
    if {*map(type, groups)} != {dict}:
        return check(raw)
    if not {*map(type, chain.from_iterable(map(dict.values, groups)))} <= _PLAIN:
        return check(raw)
    keys = [_key(one) for one in tasks]
    new = {key: one for key, one in zip(keys, raw, strict=True) if key not in _KNOWN}
    if new:
        if any(map(_is_long, new)):  # too long to be remembered
            return check(raw)
        if len(_KNOWN) + len(new) > _MAX_KNOWN:
            _KNOWN.clear()
        try:
            models = check([*new.values()])
        except ValueError:  # of pydantic; the place is that in the whole table
            return check(raw)
        _KNOWN.update(zip(new, map(Way, models), strict=True))
    try:
        return Table(raw, check, [_KNOWN[key] for key in keys], rates)
    except KeyError:  # another thread has forgotten them, or this one
        return check(raw)


def _is_long(key: tuple[Any, ...]) -> bool:
    return len(key) > _LONG or any(type(part) is str and len(part) > _LONG for part in key)


def _key(tasks: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Return how tasks are written: the size, the names and the values of each group."""
    return tuple(chain.from_iterable((len(group), *group, *group.values()) for group in tasks))
