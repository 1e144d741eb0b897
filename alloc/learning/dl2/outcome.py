"""From a training of DL2 to its results on held-out traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from alloc.learning.dl2.networks import DenseForward, DenseNetwork
from alloc.learning.dl2.rollout import Player
from alloc.learning.dl2.trainer import JCT, DL2Trainer
from alloc.learning.training import Curve, step_rng

DRAWS = 5
"""Times that each held-out trace is played with drawn actions."""
_HELD_OUT = 6
"""What sets these draws apart from those of the training."""


@dataclass(frozen=True)
class DL2Outcome:
    """What came of a training, mean JCT in slots.

    Parameters
    ----------
    seed, fingerprint, cpu_hours
        What was trained, see `DL2Settings.fingerprint`, and the CPU time, validation included.
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

    @property
    def limit(self) -> str:
        """How it did on held-out traces, for the limits on a model card."""
        return (
            f"On {len(self.drawn)} held-out traces its mean JCT is {np.mean(self.drawn):.2f} "
            f"slots with drawn actions (option sample), as DL2 is judged, and "
            f"{np.mean(self.likeliest):.2f} with the likeliest ones, which it takes by default."
        )

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
    """Judge a training that is over, and took so many CPU hours, on the held-out traces.

    The checker checks every schedule.

    Parameters
    ----------
    trainer
        The training, with the seed and the settings that name it.
    hours
        CPU hours, 0 or more.
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

    best = trainer.best()
    return DL2Outcome(
        seed=trainer.seed,
        fingerprint=settings.fingerprint,
        cpu_hours=hours,
        best_step=trainer.best_step,
        validation_best=trainer.best_value,
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
