"""The workload: jobs and the configurations they can run in."""

from alloc.workload.configuration import Configuration as Configuration
from alloc.workload.configuration import TaskGroup as TaskGroup
from alloc.workload.configuration import rigid_gang as rigid_gang
from alloc.workload.interference import InterferenceTable as InterferenceTable
from alloc.workload.job import Elasticity as Elasticity
from alloc.workload.job import Job as Job
from alloc.workload.placement_rules import NO_RULES as NO_RULES
from alloc.workload.placement_rules import PlacementRules as PlacementRules
from alloc.workload.placement_rules import Slice as Slice
from alloc.workload.placement_rules import Spread as Spread
from alloc.workload.stages import Stage as Stage
