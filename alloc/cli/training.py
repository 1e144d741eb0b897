"""``alloc train``: learned schedulers, trained on the package's own simulator.

Parameters
----------
output
    The folder to write to.
minutes
    Time to train, minutes, above 0.
seed
    Random seed, 0 or more.
"""

from collections.abc import Callable
from json import dumps, loads
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import completion, options
from alloc.cli.policies import PlotOption
from alloc.cli.training_run import (
    OWN,
    Begun,
    FolderOption,
    MinutesOption,
    NameOption,
    Wanted,
    train_policy,
)
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.learning.actor_critic.task import Task
    from alloc.learning.dl2.trainer import DL2Trainer
    from alloc.schedulers.learned.policy_file import PolicyFile

app = typer.Typer(
    help="Train learned schedulers; needs PyTorch, `make install-learn`.",
    no_args_is_help=True,
)

Begin = Callable[[Path, float, int], Begun]
"""Begins a training in a folder, for so many minutes, with a seed."""


def _timed(command: str, default: float) -> Callable[[Begin], Begin]:
    """Return what makes a command of a training that is told how many minutes to take."""

    def add(begin: Begin) -> Begin:
        @app.command(command, help=begin.__doc__)
        def timed(
            output: FolderOption,
            minutes: MinutesOption = default,
            seed: options.SeedOption = 0,
            name: NameOption = f"{OWN}{command}",
            plot: PlotOption = None,
            workers: options.ProcessesOption = None,
            parallel: options.ParallelOption = None,
            json: options.JsonOption = False,
            quiet: options.QuietOption = False,
        ) -> None:
            train_policy(
                Wanted(output, seed, name, plot, json, quiet, workers, parallel),
                [command, "--minutes", f"{minutes:g}"],
                lambda: begin(output, minutes, seed),
            )

        return begin

    return add


@_timed("set-policy", 30.0)
def set_policy(output: Path, minutes: float, seed: int) -> Begun:
    """Train a policy over the set of all jobs, from the optimum and then by reward.

    Three stages: imitation of the exact optimum of each round, imitation of the optimum over all
    rounds to come, and evolution by the simulated mean JCT. The best policy in validation is
    written to DIR/NAME.onnx. Interrupted at any moment, the same command goes on and ends in the
    same policy.
    """
    from alloc.learning.imitation.training import Plan, SetPolicyTraining

    return Begun(SetPolicyTraining(output, Plan.of_minutes(minutes), seed=seed))


@app.command("window-policy")
def window_policy(
    output: FolderOption,
    teacher: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=options.TEACHER, autocompletion=completion.complete_scheduler
        ),
    ] = "exact-progress",
    iterations: options.IterationsOption = 12,
    encoding: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How jobs are shown: released, rescaled or paper.",
            autocompletion=lambda: ["released", "rescaled", "paper"],
        ),
    ] = "released",
    seed: options.SeedOption = 0,
    name: NameOption = f"{OWN}window-policy",
    plot: PlotOption = None,
    workers: options.ProcessesOption = None,
    parallel: options.ParallelOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train DL2's own network from the optimum: what its reward costs, and what its window.

    Every state that the network comes to is labelled with the next step towards what the teacher
    would give out. Interrupted at any moment, the same command goes on and ends in the same policy.
    """

    def begin() -> Begun:
        from alloc.learning.dl2.settings import changed, preset
        from alloc.learning.imitation.windowed import WindowPlan, WindowTraining

        settings = changed(preset("released"), {"encoding": encoding})
        plan = WindowPlan(dl2=settings, teacher=teacher, iterations=iterations)
        return Begun(WindowTraining(output, plan, seed=seed))

    given = ["--teacher", teacher, "--iterations", str(iterations), "--encoding", encoding]
    wanted = Wanted(output, seed, name, plot, json, quiet, workers, parallel)
    train_policy(wanted, ["window-policy", *given], begin)


@app.command("dl2")
def dl2(
    output: FolderOption,
    seed: options.SeedOption = 0,
    preset: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="released, as DL2's code is; released-experiment, as the template of its "
            "experiments is; paper, as the paper says.",
            autocompletion=lambda: ["released", "released-experiment", "paper"],
        ),
    ] = "released",
    ablation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Leave something out, such as no-critic; may be repeated."
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{options.TEACHER} In the supervised phase; by default DRF.",
            autocompletion=completion.complete_scheduler,
            show_default=False,
        ),
    ] = None,
    updates: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Updates of actor and critic, by default 6,000.", show_default=False
        ),
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
    name: NameOption = f"{OWN}dl2",
    plot: PlotOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train DL2 as published: imitation of a scheduler, then actor and critic.

    The policy that does best on validation traces is written to DIR/NAME.onnx and judged on traces
    held out (DIR/outcome.json); DIR/curve.csv and DIR/curve.json hold the training curve.
    Interrupted at any moment, the same command goes on and ends in the same policy.
    """
    changes = dict(_assignment(text) for text in change or ())
    if teacher is not None:
        changes["teacher"] = teacher
    if updates is not None:
        changes["updates"] = updates
    held_out: dict[str, float] = {}

    def begin() -> Begun:
        from alloc.learning.dl2.settings import changed
        from alloc.learning.dl2.settings import preset as settings_of
        from alloc.learning.dl2.trainer import DL2Trainer

        settings = changed(settings_of(preset, *(ablation or ())), changes)
        return Begun(DL2Trainer(settings, seed), lambda: held_out, judge)

    def judge(trainer: "DL2Trainer", path: Path, **said: Any) -> "PolicyFile":
        from alloc.documents.files import write_text
        from alloc.learning.dl2.outcome import curve_csv, outcome_of
        from alloc.learning.publishing import publish

        outcome = outcome_of(trainer, said["hours"])
        policy = publish(trainer, path, limits=(outcome.limit,), **said)
        write_text(output / "curve.csv", curve_csv(trainer.curve))
        write_text(output / "outcome.json", dumps(outcome.to_dict(), indent=1) + "\n")
        held_out["mean JCT on held-out traces, slots, drawn actions"] = mean(outcome.drawn)
        held_out["the same, likeliest actions"] = mean(outcome.likeliest)
        return policy

    given = ["--preset", preset, *(word for a in ablation or () for word in ("--ablation", a))]
    for field, value in changes.items():
        given += ["--set", f"{field}={value if isinstance(value, str) else dumps(value)}"]
    train_policy(Wanted(output, seed, name, plot, json, quiet), ["dl2", *given], begin)


@_timed("selector", 5.0)
def selector(output: Path, minutes: float, seed: int) -> Begun:
    """Train a policy selector: which of several policies takes the next decision (MARS).

    Actor and critic, by minus the number of jobs in the system. The best in validation is written
    to DIR/NAME.onnx. Interrupted at any moment, the same command goes on and ends in the same
    policy.
    """
    from alloc.learning.actor_critic.selector import selector_task

    return _agent(selector_task(), minutes, seed)


@_timed("two-level", 5.0)
def two_level(output: Path, minutes: float, seed: int) -> Begun:
    """Train a scheduler of rigid jobs in two levels: pick or reserve, then backfill (DRAS).

    Actor and critic, by utilisation and waiting. The best in validation is written to
    DIR/NAME.onnx. Interrupted at any moment, the same command goes on and ends in the same policy.
    """
    from alloc.learning.actor_critic.two_level import two_level_task

    return _agent(two_level_task(), minutes, seed)


@_timed("placement-agent", 1.0)
def placement_agent(output: Path, minutes: float, seed: int) -> Begun:
    """Train an agent that places jobs on hosts where they slow each other least (Harmony).

    Actor and critic with replay, by a learned model of the speeds of co-located jobs. The best in
    validation is written to DIR/NAME.onnx. Interrupted at any moment, the same command goes on and
    ends in the same policy.
    """
    from alloc.learning.actor_critic.placement_agent import PlacementPlan, PlacementTraining
    from alloc.learning.actor_critic.placement_reward import RewardModel

    training = PlacementTraining(PlacementPlan.of_minutes(minutes), seed)

    def errors() -> dict[str, float]:
        named = {
            "speed_error": "reward model: error of a speed, mixes not measured",
            "speed_error_of_the_mean": "the same, answering the mean",
            "host_error": "reward model: relative error of a host",
        }
        model = training.reward
        found = model.errors() if isinstance(model, RewardModel) else {}
        return {named[key]: round(value, 4) for key, value in found.items()}

    return Begun(training, errors)


@_timed("decima", 10.0)
def decima(output: Path, minutes: float, seed: int) -> Begun:
    """Train an agent for jobs that are graphs of stages (Decima), and a tree that tells its ways.

    A network over graphs, by minus the weight of the jobs in the system. The best in validation is
    written to DIR/NAME.onnx, and a decision tree distilled from it to DIR/NAME-tree.json.
    Interrupted at any moment, the same command goes on and ends in the same policy.
    """
    from alloc.learning.decima.trainer import DecimaTraining, Plan

    told: dict[str, Any] = {}

    def write(trainer: DecimaTraining, path: Path, **said: Any) -> "PolicyFile":
        from alloc.learning.decima.distilling import Growing, distil
        from alloc.learning.publishing import publish
        from alloc.schedulers.learned.stage_tree import write_tree

        policy = publish(trainer, path, **said)
        tree = distil(
            trainer.best(), may_wait=trainer.plan.may_wait, growing=Growing(), seed=trainer.seed
        )
        file = path.with_name(f"{path.stem}-tree.json")
        write_tree(tree, file)
        told.update({"tree": str(file), "leaves": tree.num_leaves})
        return policy

    return Begun(DecimaTraining(Plan.of_minutes(minutes), seed), lambda: told, write)


def _agent(task: "Task", minutes: float, seed: int) -> Begun:
    """Begin the training of an actor and a critic."""
    from alloc.learning.actor_critic.trainer import ActorCriticTraining, Plan

    return Begun(ActorCriticTraining(task, Plan.of_minutes(task, minutes), seed))


def _assignment(text: str) -> tuple[str, Any]:
    """Return the field and the value of FIELD=VALUE; a value that is no JSON is a word."""
    field, equals, value = text.partition("=")
    if not equals or not field:
        raise InstanceError(f'--set "{text}": give FIELD=VALUE, such as discount=0.9.')
    try:
        return field, loads(value)
    except ValueError:
        return field, value
