"""What the commands that train an agent share."""

from __future__ import annotations

from alloc.learning.actor_critic.task import Task
from alloc.learning.actor_critic.trainer import Plan


def plan_of_minutes(task: Task, minutes: float) -> Plan:
    """Return a plan that takes about so many CPU minutes: the clock itself decides nothing."""
    updates = max(1, round(60 * minutes / task.step_s))
    return Plan(updates=updates, every=max(1, min(20, updates // 4)))
