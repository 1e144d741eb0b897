"""What workers need, loaded once in the process that they are forked from.

Loading takes about a second, forking a few milliseconds; and what is loaded before the fork is in
memory once for all of them.
"""

import contextlib
import gc

import alloc.backends.cpsat
import alloc.backends.highs
import alloc.comparison
import alloc.instances
import alloc.instances.topologies
import alloc.server.bodies
import alloc.server.runs
import alloc.server.runs_files
import alloc.server.runs_planning
import alloc.server.runs_sizing
import alloc.server.worker
import alloc.solving.malleable.column_generation
import alloc.solving.placing.explain
import alloc.solving.placing.place  # noqa: F401
from alloc.families import FAMILIES, load

for _family in FAMILIES.values():
    for _method in _family.methods.values():
        # What a package announces may be broken: the job that needs it says so.
        with contextlib.suppress(Exception):
            load(_method)

# Nothing loaded here ever goes; counting it as garbage to look at would only copy its pages.
gc.collect()
gc.freeze()
