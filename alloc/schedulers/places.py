"""Schedulers outside of the registry, named by their place: ``module:Name`` or ``./file.py:Name``.

Naming a place runs the code there, as ``python file.py`` does. So a place comes from a command line
or a program, never from a document or a request: the server holds names against the registry first.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from alloc.errors import InstanceError, nearest

_PYTHON = ".py"


def is_place(name: str) -> bool:
    """Return whether a scheduler's name says where it is."""
    return ":" in name or name.endswith(_PYTHON)


def absolute_place(place: str) -> str:
    """Return a place as other processes find it too: a file by its absolute path."""
    home, name = _parts(place)
    return f"{Path(home).absolute()}:{name}" if _is_file(home) else place


def object_at(place: str) -> Any:
    """Return the object at a place, whatever it is.

    Parameters
    ----------
    place
        ``module:Name`` or ``./file.py:Name``; a dotted name reaches into an object. Modules are
        looked for where Python does and in the working directory, what a file imports also beside
        it.

    Raises
    ------
    InstanceError
        If there is no such module, file or name, or its code fails when it is imported.
    """
    home, name = _parts(place)
    module = _file_module(Path(home)) if _is_file(home) else _module(home)
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = _names_in(module)
            listed = f"it has {_listed(names)}" if names else "it has no function and no class"
            raise InstanceError(
                f'{home}: has no "{name}"{nearest(name, names, ";")} {listed}.'
            ) from None
    return found


def content_at(place: str) -> str:
    """Return a hash of the file that a place names, with the name in it, for stored results."""
    home, name = _parts(place)
    if _is_file(home):
        return f"{hashlib.sha256(_source(Path(home))).hexdigest()} {name}"
    return f"{code_of(_module(home))} {name}"


def code_of(owner: Any) -> str:
    """Return a hash of the file that a module, class or function comes from, "" if from none.

    What that file imports is not looked at.
    """
    try:
        path = inspect.getsourcefile(owner)
        data = None if path is None else Path(path).read_bytes()
    except (TypeError, OSError):
        data = None
    if data is None:
        # Typed in: the lines themselves where Python keeps them.
        try:
            data = inspect.getsource(owner).encode()
        except (TypeError, OSError):
            return ""
    return hashlib.sha256(data).hexdigest()


def _parts(place: str) -> tuple[str, str]:
    home, _, name = place.rpartition(":")
    if place.endswith(_PYTHON):
        names = _names_by_sight(Path(place))
        listed = f"it has {_listed(names)}" if names else f"for example {place}:my_rule"
        raise InstanceError(
            f"{place}: a scheduler in a file is named {place}:NAME; say which one: {listed}."
        )
    words = name.split(".") if _is_file(home) else [*home.split("."), *name.split(".")]
    if not all(word.isidentifier() for word in words):
        raise InstanceError(
            f'"{place}" names no scheduler; write module:Name or ./file.py:Name, with the name of '
            "a function or class."
        )
    return home, name


def _is_file(home: str) -> bool:
    return home.endswith(_PYTHON) or "/" in home or os.sep in home


def _module(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        # At the end: nothing here may hide a module of Python's.
        sys.path.append(folder)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise InstanceError(
                f'"{name}": there is no module "{error.name}" here or among those installed; run '
                "from the folder that holds it, or name the file: ./file.py:Name."
            ) from None
        raise _failed(name, error) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a script may end itself
        raise _failed(name, error) from error


def _file_module(path: Path) -> ModuleType:
    """Return the module of a file; the same as long as the file does not change."""
    path = path.absolute()
    data = _source(path)
    digest = hashlib.sha256(str(path).encode() + b"\0" + data).hexdigest()[:16]
    name = f"{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InstanceError(f"{path}: is no Python file; its name must end in {_PYTHON}.")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module  # dataclasses and pickles look for it there
    try:
        # What was read, not what the loader may have kept of an older file.
        exec(compile(data, str(path), "exec"), vars(module))
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _failed(str(path), error) from error
    return module


def _source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        beside = [p.name for p in path.parent.glob(f"*{_PYTHON}")] if path.parent.is_dir() else []
        raise InstanceError(
            f"{path}: there is no such file{nearest(path.name, beside, ';')} "
            "name a Python file with a scheduler in it."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InstanceError(f"{path}: cannot be read ({reason}).") from None


def _failed(home: str, error: BaseException) -> InstanceError:
    return InstanceError(f"{home}: cannot be imported, {raised(error)}; mend it there.")


def raised(error: BaseException) -> str:
    """Return in words what somebody's code raised, and where: its own last line, not alloc's."""
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{type(error).__name__}: {error.msg} (line {error.lineno})"
    ours = f"{Path(__file__).parents[1]}{os.sep}"
    lines = [
        line
        for line in traceback.extract_tb(error.__traceback__)
        if not line.filename.startswith((ours, "<frozen")) and line.lineno is not None
    ]
    if not lines:
        return what
    own = [line for line in lines if "site-packages" not in line.filename]
    at = (own or lines)[-1]
    return f"{what} ({Path(at.filename).name}, line {at.lineno}, in {at.name})"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (" ..." if len(names) > 10 else "")


def _names_in(module: ModuleType) -> list[str]:
    """Return the functions and classes that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", None) == module.__name__
    ]


def _names_by_sight(path: Path) -> list[str]:
    """Return the functions and classes that a file defines, without running it."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    try:
        body: Iterable[ast.stmt] = ast.parse(_source(path)).body
    except (SyntaxError, ValueError):
        return []
    return [node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")]
