"""``alloc train``: learned schedulers, trained on the package's own simulator."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import options
from alloc.cli.console import print_json, progress, require_writable, show
from alloc.cli.door import say
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.learning.training import Trainer
    from alloc.schedulers.learned.policy_file import PolicyFile

app = typer.Typer(
    help='Train learned schedulers; needs PyTorch, `pip install "alloc[learn]"`.',
    no_args_is_help=True,
)

MinutesOption = Annotated[
    float,
    typer.Option(
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
NameOption = Annotated[str, typer.Option(help="Name of the policy.")]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Draw the validation curve (.svg or .png).", show_default=False
    ),
]


@app.command("set-policy")
def set_policy(
    output: FolderOption,
    minutes: MinutesOption = 30.0,
    seed: options.SeedOption = 0,
    name: NameOption = "set-policy",
    plot: PlotOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train a policy over the set of all jobs, from the optimum and then by reward.

    Three stages: imitation of the exact optimum of each round, imitation of the optimum over all
    rounds to come, and evolution by the simulated mean JCT. The best policy in validation is
    written to DIR/NAME.onnx. Interrupted at any moment, the same command goes on and ends in the
    same policy.
    """
    check_plot(plot)
    from alloc.learning.training import require_torch

    require_torch()
    from alloc.learning.imitation.publishing import publish
    from alloc.learning.imitation.training import Plan, SetPolicyTraining

    training = SetPolicyTraining(output, Plan.of_minutes(minutes), seed=seed)
    hours = run(training, output, f"training {name}", quiet)
    command = f"alloc train set-policy --minutes {minutes:g} --seed {seed} --name {name}"
    policy = publish(
        training,
        output / f"{name}.onnx",
        name=name,
        command=f"{command} --output {output.name or 'DIR'}",
        hours=hours,
    )
    finish(policy, training, plot, json)


def check_plot(plot: Path | None) -> None:
    """Refuse a file for the curve that could not be drawn or written, before hours of training."""
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise InstanceError(f"--plot {plot}: let the name of the file end in .svg or .png.")
    require_writable(plot)


def run(trainer: "Trainer", folder: Path, title: str, quiet: bool) -> float:
    """Train to the end with live progress; return the CPU hours.

    What was done is kept when the user interrupts it, and said so.
    """
    from alloc.learning.training import train

    with progress(title, quiet) as line:

        def report(done: int, total: int, said: str) -> None:
            line(f"{done}/{total}  {said}")

        try:
            return train(trainer, folder, report=report)
        except KeyboardInterrupt:
            say(f"{folder}: {trainer.step} of {trainer.steps} steps are kept; repeat the command.")
            raise


def finish(policy: "PolicyFile", trainer: "Trainer", plot: Path | None, json: bool) -> None:
    """Say what was trained, and draw its curve."""
    card = policy.card
    if plot is not None:
        from alloc.cli.policies import draw

        draw(policy, plot)
    best = min((point.value for point in card.curve), default=None)
    facts_: dict[str, Any] = {
        "policy": card.name,
        "file": str(policy.path),
        "bytes": len(policy.model),
        "steps": trainer.steps,
        "cpu_hours": card.training_hours,
        f"best validation ({card.curve_value})": best,
    }
    if json:
        print_json({**facts_, "curve": trainer.curve.to_list()})
        return
    from alloc.cli.tables import facts

    show(facts(facts_.items()))
    say(f"`alloc policies add {policy.path}` puts it beside the other schedulers.")
