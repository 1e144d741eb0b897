"""YAML and JSON with lines: values that know where in the file they stand.

Hostile input is refused, not obeyed: no tags, no merge keys, a limit on depth and on the number of
values that aliases unfold to. YAML scalars stay text, so that a host named ``0012``, ``no`` or
``1e3`` keeps its name; who needs a number asks for one.
"""

from alloc.instances.topologies.entries import Entry as Entry
from alloc.instances.topologies.json_text import json_entry as json_entry
from alloc.instances.topologies.yaml_text import yaml_entries as yaml_entries
