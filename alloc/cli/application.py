"""The program: its commands, and what holds for all of them."""

from collections.abc import Callable
from typing import Annotated

import typer

from alloc.cli import (
    bench,
    instances,
    models,
    policies,
    schedulers,
    serving,
    snapshot,
    topology,
    training,
)
from alloc.cli.admitting import admit_command
from alloc.cli.auditing import audit_reward_command
from alloc.cli.comparing import compare_command
from alloc.cli.demo import demo_command
from alloc.cli.door import ErrorHandlingGroup
from alloc.cli.forecasting import forecast_command
from alloc.cli.placing import defrag_command, explain_command, place_command
from alloc.cli.planning import plan_command
from alloc.cli.planning_template import PlanCommand
from alloc.cli.ranks import ranks_command
from alloc.cli.simulating import simulate_command
from alloc.cli.sizing import operate_command, plan_quotas_command, size_inference_command
from alloc.cli.solving import solve_command
from alloc.cli.verifying import verify_command
from alloc.cli.versions import versions_command
from alloc.cli.what_if import what_if_command

app = typer.Typer(
    name="alloc",
    cls=ErrorHandlingGroup,
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


_COMMANDS: dict[str, dict[str, typer.Typer | Callable[..., object]]] = {
    "Solve and place": {
        "snapshot": snapshot.app,
        "solve": solve_command,
        "place": place_command,
        "admit": admit_command,
        "defrag": defrag_command,
        "explain": explain_command,
        "ranks": ranks_command,
        "verify": verify_command,
    },
    "Compare and learn": {
        "compare": compare_command,
        "bench": bench.app,
        "simulate": simulate_command,
        "train": training.app,
        "policies": policies.app,
        "audit-reward": audit_reward_command,
    },
    "Plan capacity": {
        "plan": plan_command,
        "what-if": what_if_command,
        "forecast": forecast_command,
        "operate": operate_command,
        "size-inference": size_inference_command,
        "plan-quotas": plan_quotas_command,
        "serve": serving.app,
    },
    "Look around": {
        "demo": demo_command,
        "instances": instances.app,
        "topology": topology.app,
        "models": models.app,
        "schedulers": schedulers.app,
        "versions": versions_command,
    },
}
"""Commands, and groups of them, as the help lists them."""

for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_panel)
        else:
            _cls = PlanCommand if _name == "plan" else None
            app.command(_name, rich_help_panel=_panel, cls=_cls)(_command)
