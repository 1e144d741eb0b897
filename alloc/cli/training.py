"""``alloc train``: learned schedulers, trained on the package's own simulator."""

import shlex
from collections.abc import Mapping
from json import dumps, loads
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, progress, require_writable, show
from alloc.cli.door import say
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.learning.actor_critic.task import Task
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
    check_name(name)
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


@app.command("window-policy")
def window_policy(
    output: FolderOption,
    teacher: Annotated[
        str,
        typer.Option(
            help="Scheduler that is imitated.", autocompletion=completion.complete_scheduler
        ),
    ] = "exact-progress",
    iterations: Annotated[int, typer.Option(help="Iterations of DAgger.", min=1)] = 12,
    encoding: Annotated[
        str,
        typer.Option(
            help="How jobs are shown: released, rescaled or paper.",
            autocompletion=lambda: ["released", "rescaled", "paper"],
        ),
    ] = "released",
    seed: options.SeedOption = 0,
    name: NameOption = "window-policy",
    plot: PlotOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train DL2's own network from the optimum: what its reward costs, and what its window.

    Every state that the network comes to is labelled with the next step towards what the teacher
    would give out. Interrupted at any moment, the same command goes on.
    """
    check_plot(plot)
    check_name(name)
    from alloc.learning.training import require_torch

    require_torch()
    from alloc.learning.dl2.settings import changed, preset
    from alloc.learning.imitation.publishing import publish_window
    from alloc.learning.imitation.windowed import WindowPlan, WindowTraining

    settings = changed(preset("released"), {"encoding": encoding})
    plan = WindowPlan(dl2=settings, teacher=teacher, iterations=iterations)
    training = WindowTraining(output, plan, seed=seed)
    hours = run(training, output, f"training {name}", quiet)
    policy = publish_window(
        training,
        output / f"{name}.onnx",
        name=name,
        command=f"alloc train window-policy --teacher {teacher} --iterations {iterations} "
        f"--encoding {encoding} --seed {seed} --name {name} --output {output.name or 'DIR'}",
        hours=hours,
    )
    finish(policy, training, plot, json)


@app.command("dl2")
def dl2(
    output: FolderOption,
    seed: options.SeedOption = 0,
    preset: Annotated[
        str,
        typer.Option(
            help="released, as DL2's code is; released-experiment, as the template of its "
            "experiments is; paper, as the paper says.",
            autocompletion=lambda: ["released", "released-experiment", "paper"],
        ),
    ] = "released",
    ablation: Annotated[
        list[str] | None,
        typer.Option(help="Leave something out, such as no-critic; may be repeated."),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Scheduler that the supervised phase imitates, by default DRF.",
            autocompletion=completion.complete_scheduler,
            show_default=False,
        ),
    ] = None,
    updates: Annotated[
        int | None,
        typer.Option(help="Updates of actor and critic, by default 6,000.", show_default=False),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Set any field of DL2Settings, such as discount=0.9 or world.num_hosts=100; may "
            "be repeated.",
        ),
    ] = None,
    name: NameOption = "dl2",
    plot: PlotOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train DL2 as published: imitation of a scheduler, then actor and critic.

    The policy that does best on validation traces is written to DIR/NAME.onnx and judged on traces
    held out (DIR/outcome.json); DIR/curve.csv and DIR/curve.json hold the training curve.
    Interrupted at any moment, the same command goes on and ends in the same policy.
    """
    check_plot(plot)
    check_name(name)
    from alloc.learning.training import require_torch

    require_torch()
    from alloc.documents.files import write_text
    from alloc.learning.dl2.publishing import curve_csv, outcome_of, publish
    from alloc.learning.dl2.settings import changed
    from alloc.learning.dl2.settings import preset as settings_of
    from alloc.learning.dl2.trainer import DL2Trainer

    changes = dict(_assignment(text) for text in change or ())
    if teacher is not None:
        changes["teacher"] = teacher
    if updates is not None:
        changes["updates"] = updates
    trainer = DL2Trainer(changed(settings_of(preset, *(ablation or ())), changes), seed)
    hours = run(trainer, output, f"training {name}", quiet)
    given = ["--preset", preset, *(word for a in ablation or () for word in ("--ablation", a))]
    for field, value in changes.items():
        given += ["--set", f"{field}={value if isinstance(value, str) else dumps(value)}"]
    words = ["alloc", "train", "dl2", "--seed", str(seed), *given, "--name", name]
    command = shlex.join([*words, "--output", output.name or "DIR"])
    outcome = outcome_of(trainer, hours)
    path = output / f"{name}.onnx"
    policy = publish(trainer, path, name=name, command=command, hours=hours, outcome=outcome)
    write_text(output / "curve.csv", curve_csv(trainer.curve))
    write_text(output / "outcome.json", dumps(outcome.to_dict(), indent=1) + "\n")
    finish(
        policy,
        trainer,
        plot,
        json,
        {
            "mean JCT on held-out traces, slots, drawn actions": mean(outcome.drawn),
            "the same, likeliest actions": mean(outcome.likeliest),
        },
    )


@app.command("selector")
def selector(
    output: FolderOption,
    minutes: MinutesOption = 5.0,
    seed: options.SeedOption = 0,
    name: NameOption = "selector",
    plot: PlotOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train a policy selector: which of several policies takes the next decision (MARS).

    Actor and critic, by minus the number of jobs in the system. The best in validation is written
    to DIR/NAME.onnx. Interrupted at any moment, the same command goes on and ends in the same
    policy.
    """
    check_plot(plot)
    from alloc.learning.training import require_torch

    require_torch()
    from alloc.learning.actor_critic.selector import selector_task

    _agent(selector_task(), output, minutes, seed, name, plot, json, quiet)


@app.command("two-level")
def two_level(
    output: FolderOption,
    minutes: MinutesOption = 5.0,
    seed: options.SeedOption = 0,
    name: NameOption = "two-level",
    plot: PlotOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train a scheduler of rigid jobs in two levels: pick or reserve, then backfill (DRAS).

    Actor and critic, by utilisation and waiting. The best in validation is written to
    DIR/NAME.onnx. Interrupted at any moment, the same command goes on and ends in the same policy.
    """
    check_plot(plot)
    from alloc.learning.training import require_torch

    require_torch()
    from alloc.learning.actor_critic.two_level import two_level_task

    _agent(two_level_task(), output, minutes, seed, name, plot, json, quiet)


@app.command("placement-agent")
def placement_agent(
    output: FolderOption,
    minutes: MinutesOption = 1.0,
    seed: options.SeedOption = 0,
    name: NameOption = "placement-agent",
    plot: PlotOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train an agent that places jobs on hosts where they slow each other least (Harmony).

    Actor and critic with replay, by a learned model of the speeds of co-located jobs. The best in
    validation is written to DIR/NAME.onnx. Interrupted at any moment, the same command goes on and
    ends in the same policy.
    """
    check_plot(plot)
    check_name(name)
    from alloc.learning.training import require_torch

    require_torch()
    from alloc.learning.actor_critic.placement_agent import PlacementPlan, PlacementTraining
    from alloc.learning.actor_critic.placement_publishing import publish
    from alloc.learning.actor_critic.placement_reward import RewardModel

    training = PlacementTraining(PlacementPlan.of_minutes(minutes), seed)
    hours = run(training, output, f"training {name}", quiet)
    command = f"alloc train placement-agent --minutes {minutes:g} --seed {seed} --name {name}"
    policy = publish(
        training,
        output / f"{name}.onnx",
        name=name,
        command=f"{command} --output {output.name or 'DIR'}",
        hours=hours,
    )
    model = training.reward
    more: dict[str, Any] = {}
    if isinstance(model, RewardModel):
        named = {
            "speed_error": "reward model: error of a speed, mixes not measured",
            "speed_error_of_the_mean": "the same, answering the mean",
            "host_error": "reward model: relative error of a host",
        }
        more = {named[key]: round(value, 4) for key, value in model.errors().items()}
    finish(policy, training, plot, json, more)


def _agent(
    task: "Task",
    output: Path,
    minutes: float,
    seed: int,
    name: str,
    plot: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    """Train an actor and a critic, and write the policy."""
    from alloc.learning.actor_critic.command import plan_of_minutes
    from alloc.learning.actor_critic.publishing import publish
    from alloc.learning.actor_critic.trainer import ActorCriticTraining

    training = ActorCriticTraining(task, plan_of_minutes(task, minutes), seed)
    hours = run(training, output, f"training {name}", quiet)
    command = f"alloc train {task.name} --minutes {minutes:g} --seed {seed} --name {name}"
    policy = publish(
        training,
        output / f"{name}.onnx",
        name=name,
        command=f"{command} --output {output.name or 'DIR'}",
        hours=hours,
    )
    finish(policy, training, plot, json)


def _assignment(text: str) -> tuple[str, Any]:
    """Return the field and the value of FIELD=VALUE; a value that is no JSON is a word."""
    field, equals, value = text.partition("=")
    if not equals or not field:
        raise InstanceError(f'--set "{text}": give FIELD=VALUE, such as discount=0.9.')
    try:
        return field, loads(value)
    except ValueError:
        return field, value


def check_name(name: str) -> None:
    """Refuse a name that no policy can have, before hours of training."""
    import re

    from alloc.schedulers.learned.model_card import NAME_PATTERN

    if not re.match(NAME_PATTERN, name):
        raise InstanceError(
            f'--name "{name}": a policy\'s name is of lower-case letters, digits, ".", "_" and '
            '"-", and begins with a letter or digit.'
        )


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


def finish(
    policy: "PolicyFile",
    trainer: "Trainer",
    plot: Path | None,
    json: bool,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Say what was trained, and `more` that is known of it; draw its curve."""
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
        **(more or {}),
    }
    if json:
        print_json({**facts_, "curve": trainer.curve.to_list()})
        return
    from alloc.cli.tables import facts

    show(facts(facts_.items()))
    say(f"`alloc policies add {policy.path}` puts it beside the other schedulers.")
