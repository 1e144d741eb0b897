"""The program: its commands, and what holds for all of them."""

from typing import Annotated, ClassVar

import typer

from alloc.cli.lazily import Entry, LazyGroup

_COMMANDS = {
    "Solve and place": {
        "snapshot": (
            "snapshot:app",
            "A cluster as it stands, from Kubernetes or Slurm, as one instance.",
        ),
        "solve": (
            "solving:solve_command",
            "Solve a problem of any family, with a proof of how good the answer is.",
        ),
        "place": (
            "placing:place_command",
            "Place a queue on a cluster as it stands, with a proof of how good the placement is.",
        ),
        "admit": (
            "admitting:admit_command",
            "Accept or refuse jobs with deadlines, and say what each is promised or lacks.",
        ),
        "defrag": (
            "placing:defrag_command",
            "Re-place running jobs: let a gang in, empty hosts, or use fewer of them.",
        ),
        "explain": (
            "placing:explain_command",
            "Say why a job cannot start now, and what would let it.",
        ),
        "ranks": (
            "ranks:ranks_command",
            "Map the ranks of a large training job onto the GPUs of its placement.",
        ),
        "verify": (
            "verifying:verify_command",
            "Check an answer against every rule of its problem, without any solver.",
        ),
    },
    "Compare and learn": {
        "compare": (
            "comparing:compare_command",
            "Run schedulers on instances, against the certified bound of each instance.",
        ),
        "bench": (
            "bench:app",
            "Run solvers and schedulers over the library: `alloc bench placement-tiny`.",
        ),
        "simulate": (
            "simulating:simulate_command",
            "Run a scheduler on an instance and say what happened.",
        ),
        "train": ("training:app", "Train learned schedulers; needs PyTorch, `make install-learn`."),
        "policies": ("policies:app", "Learned policies: ONNX files with a model card."),
        "audit-reward": (
            "auditing:audit_reward_command",
            "Solve an agent's reward exactly and say what maximising it would do to mean JCT.",
        ),
    },
    "Plan capacity": {
        "plan": (
            "planning:plan_command",
            "Find the cheapest hosts to buy or rent for a forecast, with a proof.",
        ),
        "what-if": (
            "what_if:what_if_command",
            "Change a plan or a cluster and compare with the base: what if a rack is lost, a job "
            "comes?",
        ),
        "forecast": (
            "forecasting:forecast_command",
            "Put a forecast into a planning problem: from a history of weeks, or from rates.",
        ),
        "operate": (
            "sizing:operate_command",
            "Decide which nodes are on and what runs on them until the next event.",
        ),
        "size-inference": (
            "sizing:size_inference_command",
            "Find the cheapest replicas that serve every request within its latency goals, with a "
            "proof.",
        ),
        "plan-quotas": (
            "sizing:plan_quotas_command",
            "Find tenants' quotas under uncertain demand, with a proof of how good they are.",
        ),
        "serve": ("serving:app", "Serve over HTTP: solve, place, compare, explain and plan."),
    },
    "Look around": {
        "demo": (
            "demo:demo_command",
            "Prove the optimum of a small cluster, and show how far eight schedulers are from it.",
        ),
        "instances": ("instances:app", "Stored instances, generators and trace readers."),
        "topology": ("topology:app", "Topology files: show, convert, formats."),
        "models": ("models:app", "The formulations and their mathematics."),
        "schedulers": ("schedulers:app", "The scheduling policies."),
        "versions": (
            "versions:versions_command",
            "Print the versions of alloc, Python and the solvers, and the platform.",
        ),
    },
}
"""Where commands and groups of them are and what they do, by panel, as the help lists them."""


class Program(LazyGroup):
    """The root command."""

    entries: ClassVar = {
        name: Entry(where, text, panel, "planning_template:PlanCommand" if name == "plan" else None)
        for panel, commands in _COMMANDS.items()
        for name, (where, text) in commands.items()
    }


app = typer.Typer(
    name="alloc",
    cls=Program,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from alloc.release import alloc_version

        typer.echo(f"alloc {alloc_version()}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """How good could this GPU cluster's schedule have been, and how far off is your scheduler?

    Results go to standard output, progress and errors to standard error. Exit codes: 0 done,
    1 unexpected error, 2 bad input, 3 infeasible, 4 limit reached without a solution, 5 a plan that
    misses its goals when checked, 130 interrupted.
    """
