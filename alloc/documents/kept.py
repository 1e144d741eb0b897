"""Kept records: equal ones of which a document, or one after the other, has many are one object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

REPEATED: WeakValueDictionary[Any, Any] = WeakValueDictionary()
"""Records in use of which documents have many, by class and fields."""

_KEPT: dict[Any, _Kept] = {}
"""By class, the last records of it that were built, where somebody asked for that."""


@dataclass(frozen=True)
class _Kept:
    most: int
    is_worth_it: Callable[[Any], bool]
    unseen: Callable[[Any], Hashable]
    records: OrderedDict[Any, Any] = field(default_factory=OrderedDict)

    def known(self, record: Any) -> Any:
        """Return an equal record of before, or this one, which is kept from now on."""
        key = record, self.unseen(record)
        found = self.records.pop(key, record)
        if self.is_worth_it(found):
            self.records[key] = found
            if len(self.records) > self.most:
                self.records.popitem(last=False)
        return found


def keep_last(
    record_class: Any,
    most: int,
    is_worth_it: Callable[[Any], bool],
    unseen: Callable[[Any], Hashable] = lambda record: None,
) -> None:
    """Let equal records of a class be one object from now on, as long as they are among the last.

    What was worked out of one, its cached properties, is then there for the next document that
    holds it. It is for a process that reads one document after the other and changes none.

    Parameters
    ----------
    record_class
        The class, whose records are frozen and can be hashed.
    most
        Records to keep, 1 or more.
    is_worth_it
        Whether a record, with what was worked out of it, is small enough to be kept.
    unseen
        What records that count as equal may differ in all the same.
    """
    _KEPT[record_class] = _Kept(most, is_worth_it, unseen)


def kept(record: Any) -> Any:
    """Return an equal record of before, if those of its class are kept, or this one."""
    known = _KEPT.get(type(record))
    return record if known is None else known.known(record)
