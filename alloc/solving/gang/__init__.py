"""One gang on the cluster as it stands: the best hosts for it, or why there are none.

The tasks of a gang are alike, so a host is a number: how many of them it has room for. Domains
nest, so the room of a domain follows from its parts (`alloc.solving.gang.room`), rules included,
and both questions are answered exactly by sums over the tree, without a solver. Gangs of several
task groups that compete for the same hosts go through a small integer program
(`alloc.solving.gang.question`).
"""

from alloc.solving.gang.cures import Relaxation as Relaxation
from alloc.solving.gang.decision import Decider as Decider
from alloc.solving.gang.decision import GangDecision as GangDecision
from alloc.solving.gang.decision import Neighbours as Neighbours
from alloc.solving.gang.decision import decide as decide
from alloc.solving.gang.decision import decide_for as decide_for
from alloc.solving.gang.decision import domains_held as domains_held
from alloc.solving.gang.explanation import Explanation as Explanation
from alloc.solving.gang.explanation import explain_gang as explain_gang
from alloc.solving.gang.question import GangFeasibility as GangFeasibility
from alloc.solving.gang.room import Tree as Tree
from alloc.solving.gang.room import free_pool as free_pool
