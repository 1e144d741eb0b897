"""What the commands of ``alloc train`` share: a training from options to a policy file."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import options
from alloc.cli.console import print_json, progress, show
from alloc.cli.door import say
from alloc.cli.policies import draw, require_picture
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.learning.training import Trainer
    from alloc.schedulers.learned.policy_file import PolicyFile

MinutesOption = Annotated[
    float,
    typer.Option(
        metavar="MINUTES",
        help="About how long on one core; the steps follow from it, not from the clock.",
        min=0.01,
    ),
]
FolderOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Folder for checkpoint, curve and policy; a run that was interrupted goes on there.",
        show_default=False,
    ),
]
OWN = "my-"
"""Before the default name of a policy: without it, it would be that of a policy of alloc, beside
which nobody could run it."""
NameOption = Annotated[str, typer.Option(metavar="NAME", help=f"{options.NAME} Of the policy.")]


def _no_more() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Begun:
    """A training at its beginning.

    Parameters
    ----------
    trainer
        What is trained.
    more
        Asked once the policy is written: what else is to be said, name to value.
    publish
        Writes its best policy in place of `alloc.learning.publishing.publish`, called as that is.
    """

    trainer: "Trainer"
    more: Callable[[], Mapping[str, Any]] = _no_more
    publish: Callable[..., "PolicyFile"] | None = None


@dataclass(frozen=True)
class Wanted:
    """What every command is told.

    Parameters
    ----------
    output
        Folder of the training.
    seed
        Seed of everything random.
    name
        Name of the policy.
    plot
        File for the validation curve, or None.
    json, quiet
        How to answer.
    workers, parallel
        Processes that play rollouts, as of `alloc.learning.training.train`.
    """

    output: Path
    seed: int
    name: str
    plot: Path | None
    json: bool
    quiet: bool
    workers: int | None = None
    parallel: str | None = None


def train_policy(wanted: Wanted, given: Sequence[str], begin: Callable[[], Begun]) -> None:
    """Train a policy to its end, write it and say how good it is.

    Parameters
    ----------
    wanted
        What every command is told.
    given
        The command and the options of its own, words of a shell, for the model card.
    begin
        Begins the training; called when the rest is known to be sound.
    """
    require_picture(wanted.plot)
    _check_name(wanted.name)
    from alloc.learning.training import require_torch

    require_torch()
    from alloc.learning.publishing import publish

    begun = begin()
    hours = _run(begun.trainer, wanted)
    shared = ["--seed", str(wanted.seed), "--name", wanted.name]
    words = ["alloc", "train", *given, *shared, "--output", wanted.output.name or "DIR"]
    policy = (begun.publish or publish)(
        begun.trainer,
        wanted.output / f"{wanted.name}.onnx",
        name=wanted.name,
        command=shlex.join(words),
        hours=hours,
    )
    _finish(policy, begun, wanted)


def _check_name(name: str) -> None:
    """Refuse a name that no policy can have, before hours of training."""
    from alloc.schedulers.learned.model_card import policy_name

    try:
        policy_name(name)
    except ValueError as error:
        raise InstanceError(f'--name "{name}": {error}.') from None


def _run(trainer: "Trainer", wanted: Wanted) -> float:
    """Train to the end with live progress; return the CPU hours.

    What was done is kept when the user interrupts it, and said so.
    """
    from alloc.learning.training import train

    with progress(f"training {wanted.name}", wanted.quiet) as line:

        def report(done: int, total: int, said: str) -> None:
            line(f"{done}/{total}  {said}")

        try:
            return train(
                trainer,
                wanted.output,
                report=report,
                jobs=wanted.workers,
                parallel=wanted.parallel,
            )
        except KeyboardInterrupt:
            say(
                f"{wanted.output}: {trainer.step} of {trainer.steps} steps are kept; repeat the "
                "command."
            )
            raise


def _finish(policy: "PolicyFile", begun: Begun, wanted: Wanted) -> None:
    """Say what was trained, and what else is known of it; draw its curve."""
    card, trainer = policy.card, begun.trainer
    if wanted.plot is not None:
        draw(policy, wanted.plot)
    told: dict[str, Any] = {
        "policy": card.name,
        "file": str(policy.path),
        "bytes": len(policy.model),
        "steps": trainer.steps,
        "cpu_hours": card.training_hours,
        f"best validation ({card.curve_value})": min(
            (point.value for point in card.curve), default=None
        ),
        **begun.more(),
    }
    if wanted.json:
        print_json({**told, "curve": trainer.curve.to_list()})
        return
    from alloc.cli.tables import facts

    show(facts(told.items()))
    say(f"`alloc policies add {policy.path}` puts it beside the other schedulers.")
