"""Packing: putting the tasks of configurations on hosts with free capacity.

`HostPool` is the ledger of free capacity that schedulers, the simulator and the engine share. Its
rules are greedy and fast; a failure to place says that the rule found no room, not that there is
none. For a single gang on the empty cluster `place_alone` and `stands_alone` are exact.
"""

from alloc.packing.alone import place_alone as place_alone
from alloc.packing.alone import stands_alone as stands_alone
from alloc.packing.joint import place_jointly as place_jointly
from alloc.packing.pool import HostPool as HostPool
from alloc.packing.pool import Rule as Rule
