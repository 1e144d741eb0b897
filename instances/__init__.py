"""Stored instances, generators, readers of job tables, traces and topologies."""

if __name__ != "alloc.instances":
    raise ImportError(f"{__name__!r} is alloc.instances: import alloc.instances, not {__name__}")

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
