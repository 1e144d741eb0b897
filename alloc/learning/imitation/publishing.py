"""From a training to a policy file with its model card."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike

import torch

from alloc.errors import InstanceError
from alloc.learning.dl2.publishing import window_spec
from alloc.learning.dl2.trainer import JCT
from alloc.learning.export import export_policy
from alloc.learning.imitation.training import VALUE, SetPolicyTraining
from alloc.learning.imitation.windowed import WindowTraining
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.job_set import JobSetDecider, JobSetKind
from alloc.schedulers.learned.model_card import CurvePoint, ModelCard
from alloc.schedulers.learned.policy_file import PolicyFile

_LIMITS = (
    "Decides in slots only; in continuous time it is refused.",
    "Trained on malleable jobs of workers and PSs on equal hosts, with free restarts and unit "
    "weights; on anything else it works, and nobody has measured how well.",
    "Looks at prices of GPUs, CPUs and memory of the whole cluster, not of one GPU type or tenant.",
)


def publish(
    training: SetPolicyTraining,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write the best policy of a training as a policy file, and hold the file to PyTorch's output.

    Parameters
    ----------
    training
        The training, at least one step of it.
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
    if not training.curve.points:
        raise InstanceError("nothing has been trained yet, so there is no policy to write.")
    worlds = ", ".join(training.settings["worlds"])
    plan = training.plan
    steps, values = training.curve.series(VALUE)
    return export_policy(
        training.best(),
        FeatureSpec.of(JobSetKind.name),
        ModelCard(
            name=name,
            title="Learned from the optimum: attention over the set of jobs, all decided at once",
            information=JobSetDecider.information,
            data=(
                f"Instances of the learning worlds {worlds} (alloc.instances.learning_worlds, "
                "TRAINING_SEEDS), speeds from this project's fits. "
                f"{plan.rounds} iterations of DAgger on the exact optimum of the round, "
                f"{plan.horizons} on the linear optimum over all rounds to come, "
                f"{plan.rewards} updates of evolution strategies on the mean JCT; the best of all "
                f"validations on {training.settings['validation']} instances of each world "
                "(VALIDATION_SEEDS) was kept."
            ),
            seeds=(int(training.settings["seed"]),),
            command=command,
            training_hours=round(hours, 4),
            curve=tuple(
                CurvePoint(step=step, value=value)
                for step, value in zip(steps, values, strict=True)
            ),
            curve_step="step",
            curve_value="mean JCT over mean least JCT",
            licence="MIT",
            versions=_versions(),
            date=datetime.now(UTC).date(),
            alloc_version=version("alloc"),
            limits=_LIMITS,
            references=(
                "Ross, Gordon, Bagnell, AISTATS 2011 (DAgger)",
                "Lee et al., Set Transformer, ICML 2019",
                "Salimans et al., Evolution Strategies, 2017",
            ),
        ),
        path,
    )


def publish_window(
    training: WindowTraining,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write the best network of a window training as a policy file, see `publish`."""
    if not training.curve.points:
        raise InstanceError("nothing has been trained yet, so there is no policy to write.")
    plan = training.plan
    world = plan.dl2.world
    steps, values = training.curve.series(JCT)
    return export_policy(
        training.best(),
        window_spec(plan.dl2),
        ModelCard(
            name=name,
            title="DL2's network, learned from the optimum instead of by reward",
            information=(
                "type, slots since arrival, remaining share of the work and tasks given, of the "
                f"first {plan.dl2.window} jobs"
            ),
            data=(
                f"Traces of {world.num_jobs} jobs of DL2's eight models on {world.num_hosts} of "
                f"its servers (alloc.learning.dl2.world). {plan.iterations} iterations of DAgger "
                f"on the decisions of {plan.teacher}; the network with the lowest mean JCT on "
                f"{plan.dl2.validation_traces} validation traces was kept."
            ),
            seeds=(training.seed,),
            command=command,
            training_hours=round(hours, 4),
            curve=tuple(
                CurvePoint(step=step, value=value)
                for step, value in zip(steps, values, strict=True)
            ),
            curve_step="iteration",
            curve_value="mean JCT, slots",
            licence="MIT",
            versions=_versions(),
            date=datetime.now(UTC).date(),
            alloc_version=version("alloc"),
            limits=(
                "Decides in slots only, and only for malleable jobs of workers and PSs on equal "
                "hosts.",
                "Sees the first jobs of its window in order of arrival; the others keep their "
                "first pair.",
                "Knows DL2's eight models by number; of others it sees no type.",
            ),
            references=(
                "Ross, Gordon, Bagnell, AISTATS 2011 (DAgger)",
                "Peng et al., DL2, IEEE TPDS 2021",
            ),
        ),
        path,
    )


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }
