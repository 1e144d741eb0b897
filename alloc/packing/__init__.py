"""Packing: putting the tasks of configurations on hosts with free capacity.

`HostPool` is the ledger of free capacity that schedulers, the simulator and the engine share. Its
rules are greedy and fast; a failure to place says that the rule found no room, not that there is
none. On the empty cluster `place_alone` is exact for a single gang, and `place_together` for many;
`stands_alone` is, but for the rare gang that it leaves undecided (`surely_stands_alone`).
"""

from alloc.packing.alone import Steps as Steps
from alloc.packing.alone import Undecided as Undecided
from alloc.packing.alone import is_known_to_stand as is_known_to_stand
from alloc.packing.alone import on_one_axis as on_one_axis
from alloc.packing.alone import place_alone as place_alone
from alloc.packing.alone import stands_alone as stands_alone
from alloc.packing.alone import surely_stands_alone as surely_stands_alone
from alloc.packing.alone import which_stand_alone as which_stand_alone
from alloc.packing.joint import place_jointly as place_jointly
from alloc.packing.pool import HostPool as HostPool
from alloc.packing.pool import Rule as Rule
from alloc.packing.together import MAX_STEPS as MAX_STEPS
from alloc.packing.together import place_together as place_together
from alloc.packing.together import shape_of_task as shape_of_task
