"""From a training to a policy file with its model card."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from os import PathLike

from alloc.errors import InstanceError
from alloc.learning.export import export_policy
from alloc.learning.pytorch import torch
from alloc.learning.training import Trainer
from alloc.release import alloc_version
from alloc.schedulers.learned.model_card import CurvePoint, ModelCard
from alloc.schedulers.learned.policy_file import PolicyFile


def publish(
    trainer: Trainer,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
    limits: tuple[str, ...] = (),
) -> PolicyFile:
    """Write the best network of a training as a policy file, held to PyTorch's output.

    Parameters
    ----------
    trainer
        The training, at least one point of its curve.
    path
        Where to; ends in ``.onnx``.
    name, command, hours
        Name of the policy, command that trains it again, and CPU hours it took.
    limits
        Known limits beside those of its account, one sentence each.

    Raises
    ------
    InstanceError
        If nothing has been trained, or the name is none for a policy.
    """
    if not trainer.curve.points:
        raise InstanceError("nothing has been trained yet, so there is no policy to write.")
    account = trainer.account()
    curve = tuple(
        CurvePoint(step=point.step, value=point.values[account.measure])
        for point in trainer.curve.points
        if account.measure in point.values and account.stage in (None, point.stage)
    )
    card = ModelCard(
        name=name,
        title=account.title,
        information=account.information,
        data=account.data,
        seeds=(trainer.seed,),
        command=command,
        training_hours=round(hours, 4),
        curve=curve,
        curve_step=account.curve_step,
        curve_value=account.curve_value,
        licence="MIT",
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": f"{platform.system()} {platform.machine()}",
        },
        date=datetime.now(UTC).date(),
        alloc_version=alloc_version(),
        limits=(*account.limits, *limits),
        references=account.references,
    )
    return export_policy(trainer.best(), trainer.spec, card, path)
