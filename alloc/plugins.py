"""Plug-ins: what other packages announce by entry points.

The groups are ``alloc.families``, ``alloc.objectives``, ``alloc.backends``, ``alloc.readers``,
``alloc.schedulers`` and ``alloc.policy_kinds``; each registry looks up its own. What alloc itself
calls by a name keeps it. A registry loads what is announced while it is itself loaded: the module
of an entry point imports what it is made of, `alloc.families` or `alloc.objectives`, and no more.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_GROUP = b"[alloc."
"""With what a group of alloc's begins in the file that says what a package announces."""


@cache
def _every() -> Any:
    """Return what all packages announce: to find that takes as long for one group as for all.

    What holds it is called `SelectableGroups` in Python 3.11 and `EntryPoints` from 3.12 on.
    """
    from importlib.metadata import entry_points

    return entry_points()


@cache
def _may_be_any() -> bool:
    """Return whether a package may announce something to alloc.

    To load `importlib.metadata` and let it find everything takes three times as long as to read
    the files in which packages of folders announce things, and nearly always there is nothing.
    """
    if any(
        hasattr(finder, "find_distributions") and finder is not PathFinder
        for finder in sys.meta_path
    ):
        return True  # somebody finds packages in another way
    return any(_announces(folder) for folder in dict.fromkeys(sys.path))


def _announces(folder: object) -> bool:
    """Return whether a package in a folder of `sys.path` may announce something to alloc."""
    if not isinstance(folder, str) or folder.lower().endswith(".egg"):
        return True  # no folder of packages, or none of the usual kind
    try:
        entries = [*Path(folder).iterdir()]
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    for entry in entries:
        if entry.suffix.lower() not in (".dist-info", ".egg-info"):
            continue
        try:
            if _GROUP in (entry / "entry_points.txt").read_bytes():
                return True
        except OSError:  # it announces nothing
            continue
    return False


@cache
def _points(group: str) -> tuple[EntryPoint, ...]:
    if not _may_be_any():
        return ()
    return tuple(sorted(_every().select(group=group), key=lambda point: point.name))


def announced(group: str, own: Container[str] = ()) -> dict[str, str]:
    """Return what is announced in a group, name to ``module:attribute``; nothing is loaded.

    Parameters
    ----------
    group
        Name of the entry-point group.
    own
        Names that are taken by alloc itself; they are left out.
    """
    return {point.name: point.value for point in _points(group) if point.name not in own}


def loaded(group: str, wanted: type, own: Container[str] = ()) -> dict[str, Any]:
    """Return the objects that are announced in a group, by name.

    One that cannot be loaded, or is something else than it should be, or has another name, is left
    out with a warning: a package that is broken is no reason for alloc to be.

    Parameters
    ----------
    group
        Name of the entry-point group.
    wanted
        What each object must be.
    own
        Names that are taken by alloc itself; they are left out.
    """
    found = {}
    for point in _points(group):
        if point.name in own:
            continue
        try:
            value = point.load()
        except Exception as error:  # whatever a stranger's module raises
            why = f"cannot be loaded ({type(error).__name__}: {error})"
        else:
            name = getattr(value, "name", point.name)
            if isinstance(value, wanted) and name == point.name:
                found[point.name] = value
                continue
            why = f"is {type(value).__name__}; announce {wanted.__name__}"
            if isinstance(value, wanted):
                why = f'is called "{name}"; announce it by that name'
        warnings.warn(f'{group}: "{point.name}", {point.value}, {why}.', stacklevel=2)
    return found
