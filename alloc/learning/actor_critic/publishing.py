"""From a training to a policy file with its model card."""

from __future__ import annotations

from os import PathLike

from alloc.learning.actor_critic.trainer import VALUE, ActorCriticTraining
from alloc.learning.publishing import Account, publish_network
from alloc.schedulers.learned.policy_file import PolicyFile


def publish(
    training: ActorCriticTraining,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write the best policy of a training, see `alloc.learning.publishing.publish_network`."""
    task, plan = training.task, training.plan
    account = Account(
        title=task.title,
        information=task.information,
        data=f"{task.data} {plan.updates} updates of {plan.episodes} episodes each.",
        limits=task.limits,
        references=task.references,
        measure=VALUE,
        curve_step="update",
        curve_value=f"mean JCT over that of {task.reference}",
    )
    return publish_network(
        training, training.best(), task.spec, account, path, name=name, command=command, hours=hours
    )
