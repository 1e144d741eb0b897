"""Scheduling policies and the state they see."""

from alloc.schedulers.registry import SCHEDULERS as SCHEDULERS
from alloc.schedulers.registry import make_scheduler as make_scheduler
from alloc.schedulers.registry import scheduler_names as scheduler_names
from alloc.schedulers.registry import scheduler_of as scheduler_of
from alloc.schedulers.state import ClusterState as ClusterState
from alloc.schedulers.state import Decision as Decision
from alloc.schedulers.state import JobTable as JobTable
from alloc.schedulers.state import JobView as JobView
from alloc.schedulers.state import Knowledge as Knowledge
from alloc.schedulers.state import Scheduler as Scheduler
