"""From a training of DL2 to its results on held-out traces, and to a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from alloc.learning.dl2.networks import DenseForward, DenseNetwork
from alloc.learning.dl2.rollout import Player
from alloc.learning.dl2.settings import DL2Settings
from alloc.learning.dl2.trainer import JCT, REINFORCEMENT, SUPERVISED, DL2Trainer
from alloc.learning.publishing import Account, publish_network
from alloc.learning.pytorch import torch
from alloc.learning.training import Curve, step_rng
from alloc.schedulers.learned.dl2_window import Dl2WindowKind
from alloc.schedulers.learned.feature_spec import FeatureSpec
from alloc.schedulers.learned.kinds import feature_spec
from alloc.schedulers.learned.policy_file import PolicyFile

DRAWS = 5
"""Times that each held-out trace is played with drawn actions."""
_HELD_OUT = 6
"""What sets these draws apart from those of the training."""

WINDOW_LIMITS = (
    "Decides in slots only, and only for malleable jobs of workers and PSs on equal hosts.",
    "Sees the first jobs of its window in order of arrival; the others keep their first pair.",
    "Knows DL2's eight models by number; of others it sees no type.",
    "Trained for one size of cluster and one arrival pattern; elsewhere nobody has measured it.",
)
"""Known limits of every policy that is trained in DL2's world."""

_MAY_IDLE = "Gives no job a first pair: in states it was not trained for it may start nothing."


@dataclass(frozen=True)
class DL2Outcome:
    """What came of a training, mean JCT in slots.

    Parameters
    ----------
    seed, fingerprint
        What was trained, see `DL2Settings.fingerprint`.
    cpu_hours
        CPU time of the training, validation included.
    best_step
        Update whose weights were chosen, on the validation traces.
    validation_best, validation_last
        Validation at that update, and at the last. The best is what DL2's own evaluation reports:
        the minimum over all checkpoints on the traces that chose it, so it flatters.
    drawn, likeliest
        The chosen weights on each held-out trace, with drawn actions (mean of several plays), as in
        DL2's own evaluation, and with the likeliest action.
    last_drawn
        The last weights on each held-out trace, with drawn actions.
    """

    seed: int
    fingerprint: str
    cpu_hours: float
    best_step: int
    validation_best: float
    validation_last: float
    drawn: tuple[float, ...]
    likeliest: tuple[float, ...]
    last_drawn: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> DL2Outcome:
        """Return the outcome of `to_dict`."""
        lists = ("drawn", "likeliest", "last_drawn")
        values: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in data.items()}
        return DL2Outcome(**values)


def outcome_of(trainer: DL2Trainer, hours: float) -> DL2Outcome:
    """Judge a training that is over on the held-out traces; the checker checks every schedule.

    Parameters
    ----------
    trainer
        The training.
    hours
        CPU time it took, hours.
    """
    settings = trainer.dl2
    traces = settings.world.held_out(settings.held_out_traces)
    player = Player(settings.features, len(traces), check=True)

    def drawn(network: DenseNetwork, part: int) -> tuple[float, ...]:
        forward = DenseForward(network)
        plays = [
            player.play(forward, traces, step_rng(trainer.seed, _HELD_OUT, part, k))
            for k in range(DRAWS)
        ]
        return tuple(float(x) for x in np.mean(plays, axis=0))

    best = best_network(trainer)
    return DL2Outcome(
        seed=trainer.seed,
        fingerprint=settings.fingerprint,
        cpu_hours=hours,
        best_step=trainer.best_step,
        validation_best=trainer.best_jct_slots,
        validation_last=trainer.curve.points[-1].values[JCT],
        drawn=drawn(best, 0),
        likeliest=tuple(player.play(DenseForward(best), traces, None)),
        last_drawn=drawn(trainer.learner.policy, 1),
    )


def curve_csv(curve: Curve) -> str:
    """Return a training curve as CSV: a line for each point, an empty field for what it lacks."""
    names = list(dict.fromkeys(name for point in curve.points for name in point.values))
    lines = [",".join(["step", "stage", *names])]
    for point in curve.points:
        values = (repr(point.values[n]) if n in point.values else "" for n in names)
        lines.append(",".join([str(point.step), point.stage, *values]))
    return "\n".join(lines) + "\n"


def best_network(trainer: DL2Trainer) -> DenseNetwork:
    """Return the policy with the best weights of a training."""
    settings = trainer.dl2
    network = DenseNetwork(
        settings.features.shape,
        settings.hidden,
        settings.features.num_actions,
        scale_shift=settings.scale_shift,
        generator=torch.Generator(),
    )
    network.load_state_dict(trainer.best)
    return network


def window_spec(settings: DL2Settings) -> FeatureSpec:
    """Return the spec of the policies of a training."""
    features = settings.features
    return feature_spec(
        Dl2WindowKind.name,
        window=features.window,
        max_tasks=features.max_tasks,
        encoding=features.encoding,
        models=list(features.models),
        initial_bundle=features.initial_bundle,
    )


def publish(
    trainer: DL2Trainer,
    path: str | PathLike[str],
    *,
    name: str,
    command: str,
    hours: float,
    outcome: DL2Outcome | None = None,
) -> PolicyFile:
    """Write the best policy of a training, see `alloc.learning.publishing.publish_network`.

    `outcome` is how it did on held-out traces, for the card, or None.
    """
    settings = trainer.dl2
    account = Account(
        title=_title(settings),
        information=information_of(settings),
        data=(
            f"{data_of(settings)} {_phases(settings)}; the weights with the lowest mean JCT on "
            f"{settings.validation_traces} validation traces (update {trainer.best_step}) were "
            "kept."
        ),
        limits=_limits(settings, outcome),
        references=(
            "Peng et al., DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters, IEEE "
            "TPDS 32(8), 2021",
        ),
        measure=JCT,
        curve_step="update",
        curve_value="mean JCT, slots",
        stage=REINFORCEMENT if settings.updates else SUPERVISED,
    )
    network, spec = best_network(trainer), window_spec(settings)
    return publish_network(
        trainer, network, spec, account, path, name=name, command=command, hours=hours
    )


def information_of(settings: DL2Settings) -> str:
    """Return what a policy that sees DL2's window uses, for its card."""
    return (
        "type, slots since arrival, remaining share of the work and tasks given, of the first "
        f"{settings.window} jobs"
    )


def data_of(settings: DL2Settings) -> str:
    """Return where the traces of a training come from, for its card."""
    world = settings.world
    return (
        f"Traces of {world.num_jobs} jobs of DL2's eight models on {world.num_hosts} of its "
        f"servers, {world.arrivals} arrivals of {world.arrivals_per_slot:g} a slot, speeds "
        "from this project's fits to DL2's measurements (alloc.learning.dl2.world)."
    )


def _title(settings: DL2Settings) -> str:
    without = ""
    if not settings.supervised_updates:
        without = " without its supervised phase"
    elif not settings.updates:
        without = " without reinforcement"
    return f"DL2 rebuilt{without}: a window of jobs, one worker, PS or bundle at a time"


def _phases(settings: DL2Settings) -> str:
    phases = []
    if settings.supervised_updates:
        phases.append(
            f"{settings.supervised_updates} supervised updates on decisions of {settings.teacher}"
        )
    if settings.updates:
        phases.append(f"{settings.updates} updates of actor and critic")
    return ", ".join(phases)


def _limits(settings: DL2Settings, outcome: DL2Outcome | None) -> tuple[str, ...]:
    limits = list(WINDOW_LIMITS)
    if not settings.initial_bundle:
        limits.append(_MAY_IDLE)
    if outcome is not None:
        limits.append(
            f"On {len(outcome.drawn)} held-out traces its mean JCT is {np.mean(outcome.drawn):.2f} "
            f"slots with drawn actions (option sample), as DL2 is judged, and "
            f"{np.mean(outcome.likeliest):.2f} with the likeliest ones, which it takes by default."
        )
    return tuple(limits)
