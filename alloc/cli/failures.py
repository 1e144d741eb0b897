"""``--failures``: hosts that fail, drawn or read from a table, on any instance."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alloc.cli.settings import parse_settings
from alloc.errors import InstanceError, nearest

if TYPE_CHECKING:
    from alloc.problems.allocation.instance import Instance

OPTION = "--failures"

FailuresOption = Annotated[
    str | None,
    typer.Option(
        OPTION,
        metavar="FILE|KEY=VALUE,...",
        help="Hosts fail: as a CSV file with the columns host, down and up says, or drawn, as in "
        "mtbf_s=2e6,repair_s=21600,seed=1 (parameters of alloc.instances.outages.with_failures). "
        "With checkpoint_s=1800,save_s=60 jobs save their state so often, in that time; otherwise "
        "a failed run is lost.",
        show_default=False,
    ),
]


def with_failures_of(problem: "Instance", asked: str | None) -> "Instance":
    """Return an instance with the failures that the command line asks for.

    Parameters
    ----------
    problem
        The instance.
    asked
        What --failures says: a file, KEY=VALUE settings, or both; None for no failures.

    Raises
    ------
    InstanceError
        If there is no such file, or a setting is unknown or out of range.
    """
    if asked is None:
        return problem
    import inspect

    from alloc.instances.outages import read_outages, with_checkpoints, with_failures

    parts = [part.strip() for part in asked.split(",") if part.strip()]
    files = [part for part in parts if "=" not in part]
    given = parse_settings([part for part in parts if "=" in part], OPTION)
    saves = {key: given.pop(key) for key in ("checkpoint_s", "save_s") if key in given}
    known = inspect.signature(with_failures).parameters.keys() - {"instance"}
    for key, value in (*given.items(), *saves.items()):
        if key not in known | saves.keys():
            options = sorted(known | {"checkpoint_s", "save_s"})
            raise InstanceError(
                f'{OPTION}: there is no "{key}"{nearest(key, options, ".")} '
                f"Known: {', '.join(options)}."
            )
        if key != "level" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InstanceError(f'{OPTION}: {key} is "{value}"; give a number.')
    if len(files) > 1 or (files and given):
        raise InstanceError(
            f"{OPTION} {asked}: give one CSV file, or how failures are drawn, not both; only "
            "checkpoint_s and save_s may stand beside a file."
        )
    if files:
        outages = read_outages(Path(files[0]), problem.topology)
        described = {**problem.description, "failures": Path(files[0]).name}
        problem = problem.replace(outages=outages, description=described)
    else:
        problem = with_failures(problem, **given)
    if "checkpoint_s" in saves:
        problem = with_checkpoints(problem, saves["checkpoint_s"], saves.get("save_s", 0.0))
    elif saves:
        raise InstanceError(f"{OPTION}: save_s needs checkpoint_s, the work between two saves.")
    return problem
