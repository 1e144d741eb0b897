"""What an agent's reward is worth: its exact maximiser beside the optimum and the agent."""

from alloc.learning.reward_audit.audit import Audit as Audit
from alloc.learning.reward_audit.audit import AuditRow as AuditRow
from alloc.learning.reward_audit.audit import audit_reward as audit_reward
from alloc.learning.reward_audit.return_model import Maximiser as Maximiser
from alloc.learning.reward_audit.return_model import maximise_return as maximise_return
from alloc.learning.reward_audit.rewards import AUDITED as AUDITED
from alloc.learning.reward_audit.rewards import AuditedReward as AuditedReward
from alloc.learning.reward_audit.rewards import audited_reward as audited_reward
