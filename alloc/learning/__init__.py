"""Training learned schedulers, on the package's own simulator."""

from alloc.learning.export import assert_parity as assert_parity
from alloc.learning.export import export_policy as export_policy
from alloc.learning.registration import register as _register
from alloc.schedulers.learned.agent import AgentScheduler as AgentScheduler
from alloc.schedulers.learned.agent import agent_scheduler as agent_scheduler

_register()
