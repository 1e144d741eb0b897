"""From a training of placement to a policy file with its model card."""

from __future__ import annotations

from os import PathLike

from alloc.learning.actor_critic.placement_agent import VALUE, PlacementTraining
from alloc.learning.actor_critic.placement_reward import RewardModel
from alloc.learning.publishing import Account, publish_network
from alloc.schedulers.learned.policy_file import PolicyFile


def publish(
    training: PlacementTraining,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
) -> PolicyFile:
    """Write the best policy of a training, see `alloc.learning.publishing.publish_network`."""
    source, plan = training.plan.source, training.plan
    account = Account(
        title="Places jobs on hosts by the classes of the jobs beside them (Harmony)",
        information="classes of the jobs on every host and of those that wait",
        data=(
            f"{plan.updates * plan.streams} streams of {source.rounds} rounds with "
            f"{source.per_round:g} jobs each in the mean on {source.hosts} hosts; speeds from an "
            f"invented table of interference. Rewards: {_rewards(training)}"
        ),
        limits=(
            "The interference it learned is synthetic; train it again on measured tables.",
            "The simulator runs jobs at their stated rates, so its worth does not show there.",
            "A job goes on one host as a whole; jobs of other classes are shown without one.",
        ),
        references=(
            "Bao, Peng, Wu, Deep learning-based job placement in distributed machine learning "
            "clusters (Harmony), INFOCOM 2019",
        ),
        measure=VALUE,
        curve_step="update",
        curve_value="mean JCT over that of spreading",
    )
    network, spec = training.best(), training.spec
    return publish_network(
        training, network, spec, account, path, name=name, command=command, hours=hours
    )


def _rewards(training: PlacementTraining) -> str:
    """Say where the rewards came from, and how far the model is off."""
    model = training.reward
    if not isinstance(model, RewardModel):
        return "the true speeds."
    errors, measured = model.errors(), len(model.measured.speeds)
    text = f"{measured} measured mixes, and a network for the others"
    if not errors:
        return f"{text}, of which there are none."
    return (
        f"{text}; on the {len(model.measured.held_out)} that were not measured its mean absolute "
        f"error of a normalised speed is {errors['speed_error']:.4f}."
    )
