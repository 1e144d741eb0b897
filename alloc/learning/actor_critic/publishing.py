"""From a training to a policy file with its model card."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike

import torch

from alloc.errors import InstanceError
from alloc.learning.actor_critic.trainer import VALUE, ActorCriticTraining
from alloc.learning.export import export_policy
from alloc.schedulers.learned.model_card import CurvePoint, ModelCard
from alloc.schedulers.learned.policy_file import PolicyFile


def publish(
    training: ActorCriticTraining,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write the best policy of a training, and hold the file to PyTorch's output.

    Raises
    ------
    InstanceError
        If nothing has been trained, or the name is none for a policy.
    """
    if not training.curve.points:
        raise InstanceError("nothing has been trained yet, so there is no policy to write.")
    task, plan = training.task, training.plan
    steps, values = training.curve.series(VALUE)
    card = ModelCard(
        name=name,
        title=task.title,
        information=task.information,
        data=f"{task.data} {plan.updates} updates of {plan.episodes} episodes each.",
        seeds=(training.seed,),
        command=command,
        training_hours=round(hours, 4),
        curve=tuple(
            CurvePoint(step=step, value=value) for step, value in zip(steps, values, strict=True)
        ),
        curve_step="update",
        curve_value=f"mean JCT over that of {task.reference}",
        licence="MIT",
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": f"{platform.system()} {platform.machine()}",
        },
        date=datetime.now(UTC).date(),
        alloc_version=version("alloc"),
        limits=task.limits,
        references=task.references,
    )
    return export_policy(training.best(), task.spec, card, path)
