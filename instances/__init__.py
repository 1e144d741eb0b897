"""Stored instances, generators, readers of job tables, traces and topologies."""

if __name__ != "alloc.instances":
    raise ImportError(f"{__name__!r} is alloc.instances: import alloc.instances, not {__name__}")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alloc.instances.catalogue import Bound as Bound
    from alloc.instances.catalogue import Entry as Entry
    from alloc.instances.catalogue import Manifest as Manifest
    from alloc.instances.catalogue import read_manifest as read_manifest
    from alloc.instances.catalogue import write_manifest as write_manifest
    from alloc.instances.generators import generate_elastic as generate_elastic
    from alloc.instances.generators import generate_gangs as generate_gangs
    from alloc.instances.stored import entry as entry
    from alloc.instances.stored import families as families
    from alloc.instances.stored import load as load
    from alloc.instances.stored import load_problem as load_problem
    from alloc.instances.stored import manifest as manifest
    from alloc.instances.stored import regenerate as regenerate

_HOMES = {
    "Bound": "catalogue",
    "Entry": "catalogue",
    "Manifest": "catalogue",
    "read_manifest": "catalogue",
    "write_manifest": "catalogue",
    "generate_elastic": "generators",
    "generate_gangs": "generators",
    "entry": "stored",
    "families": "stored",
    "load": "stored",
    "load_problem": "stored",
    "manifest": "stored",
    "regenerate": "stored",
}
"""Modules of the names: a list of the library needs no generator."""
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
