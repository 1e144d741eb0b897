"""From a training to a policy file: what the model cards of all trainings have in common."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike
from typing import TYPE_CHECKING

from alloc.errors import InstanceError
from alloc.learning.export import export_policy
from alloc.learning.pytorch import torch
from alloc.schedulers.learned.model_card import CurvePoint, ModelCard

if TYPE_CHECKING:
    from alloc.learning.training import Trainer
    from alloc.schedulers.learned.feature_spec import FeatureSpec
    from alloc.schedulers.learned.policy_file import PolicyFile


@dataclass(frozen=True)
class Account:
    """What the model card of one training says that those of others do not.

    Parameters
    ----------
    title, information, data, limits, references
        As in `ModelCard`.
    measure
        The validation's measure, a name in the training curve.
    curve_step, curve_value
        What the steps of the curve and that measure are, with unit.
    stage
        The only stage of the training whose validations are shown, or None for all.
    """

    title: str
    information: str
    data: str
    limits: tuple[str, ...]
    references: tuple[str, ...]
    measure: str
    curve_step: str
    curve_value: str
    stage: str | None = None


def publish_network(
    trainer: Trainer,
    network: torch.nn.Module,
    spec: FeatureSpec,
    account: Account,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write a network of a training as a policy file, and hold the file to PyTorch's output.

    Parameters
    ----------
    trainer
        The training, at least one point of its curve.
    network
        The network.
    spec
        What it is shown and answers.
    account
        What the card says of it.
    path
        Where to; ends in ``.onnx``.
    name
        Name of the policy.
    command
        Command that trains it again.
    hours
        CPU hours it took.

    Raises
    ------
    InstanceError
        If nothing has been trained, or the name is none for a policy.
    """
    if not trainer.curve.points:
        raise InstanceError("nothing has been trained yet, so there is no policy to write.")
    points = [
        CurvePoint(step=point.step, value=point.values[account.measure])
        for point in trainer.curve.points
        if account.measure in point.values and account.stage in (None, point.stage)
    ]
    card = ModelCard(
        name=name,
        title=account.title,
        information=account.information,
        data=account.data,
        seeds=(int(trainer.settings["seed"]),),
        command=command,
        training_hours=round(hours, 4),
        curve=tuple(points),
        curve_step=account.curve_step,
        curve_value=account.curve_value,
        licence="MIT",
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "machine": f"{platform.system()} {platform.machine()}",
        },
        date=datetime.now(UTC).date(),
        alloc_version=version("alloc"),
        limits=account.limits,
        references=account.references,
    )
    return export_policy(network, spec, card, path)
