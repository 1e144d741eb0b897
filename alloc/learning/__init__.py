"""Training learned schedulers, on the package's own simulator."""

from alloc.learning.agent import AgentScheduler as AgentScheduler
from alloc.learning.agent import agent_scheduler as agent_scheduler
from alloc.learning.export import assert_parity as assert_parity
from alloc.learning.export import export_policy as export_policy
from alloc.learning.registration import register as _register

_register()
