"""From a training to a policy file with its model card."""

from __future__ import annotations

from os import PathLike

from alloc.learning.dl2.publishing import WINDOW_LIMITS, data_of, information_of, window_spec
from alloc.learning.dl2.trainer import JCT
from alloc.learning.imitation.training import VALUE, SetPolicyTraining
from alloc.learning.imitation.windowed import WindowTraining
from alloc.learning.publishing import Account, publish_network
from alloc.schedulers.learned.job_set import JobSetDecider, JobSetKind
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.policy_file import PolicyFile

_LIMITS = (
    "Decides in slots only; in continuous time it is refused.",
    "Trained on malleable jobs of workers and PSs on equal hosts, with free restarts and unit "
    "weights; on anything else it works, and nobody has measured how well.",
    "Looks at prices of GPUs, CPUs and memory of the whole cluster, not of one GPU type or tenant.",
)
_DAGGER = "Ross, Gordon, Bagnell, AISTATS 2011 (DAgger)"


def publish(
    training: SetPolicyTraining,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write the best policy of a training, see `alloc.learning.publishing.publish_network`."""
    plan, settings = training.plan, training.settings
    account = Account(
        title="Learned from the optimum: attention over the set of jobs, all decided at once",
        information=JobSetDecider.information,
        data=(
            f"Instances of the learning worlds {', '.join(settings['worlds'])} "
            "(alloc.instances.learning_worlds, TRAINING_SEEDS), speeds from this project's fits. "
            f"{plan.rounds} iterations of DAgger on the exact optimum of the round, "
            f"{plan.horizons} on the linear optimum over all rounds to come, "
            f"{plan.rewards} updates of evolution strategies on the mean JCT; the best of all "
            f"validations on {settings['validation']} instances of each world "
            "(VALIDATION_SEEDS) was kept."
        ),
        limits=_LIMITS,
        references=(
            _DAGGER,
            "Lee et al., Set Transformer, ICML 2019",
            "Salimans et al., Evolution Strategies, 2017",
        ),
        measure=VALUE,
        curve_step="step",
        curve_value="mean JCT over mean least JCT",
    )
    spec = feature_spec(JobSetKind.name)
    return publish_network(
        training, training.best(), spec, account, path, name=name, command=command, hours=hours
    )


def publish_window(
    training: WindowTraining,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write the best network of a window training, see `publish`."""
    plan = training.plan
    account = Account(
        title="DL2's network, learned from the optimum instead of by reward",
        information=information_of(plan.dl2),
        data=(
            f"{data_of(plan.dl2)} {plan.iterations} iterations of DAgger on the decisions of "
            f"{plan.teacher}; the network with the lowest mean JCT on "
            f"{plan.dl2.validation_traces} validation traces was kept."
        ),
        limits=WINDOW_LIMITS,
        references=(_DAGGER, "Peng et al., DL2, IEEE TPDS 2021"),
        measure=JCT,
        curve_step="iteration",
        curve_value="mean JCT, slots",
    )
    spec = window_spec(plan.dl2)
    return publish_network(
        training, training.best(), spec, account, path, name=name, command=command, hours=hours
    )
