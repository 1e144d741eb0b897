"""Options that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from alloc.cli import completion

InstanceArgument = Annotated[
    str,
    typer.Argument(
        metavar="INSTANCE",
        help="A JSON file, a stored instance such as elastic-small/01, or - for standard input.",
        autocompletion=completion.complete_instance,
        show_default=False,
    ),
]
ProblemArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="A problem of any family: a JSON file, a stored one such as elastic-small/01 or "
        "planning-tiny, or - for standard input.",
        autocompletion=completion.complete_problem,
        show_default=False,
    ),
]
FamilyOption = Annotated[
    str | None,
    typer.Option(
        "--family",
        "--formulation",
        metavar="NAME",
        help="What is solved; `alloc models list` lists the families. By default that of the "
        "problem; of an instance malleable.",
        autocompletion=completion.complete_problem_family,
        show_default=False,
    ),
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--backend",
        "--method",
        metavar="NAME",
        help="auto for the family's own exact method, the name of another of its methods, or a "
        "general solver: highs, pyomo, cpsat.",
        autocompletion=completion.complete_method,
    ),
]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        help="What is optimised; by default the formulation's own objective.",
        autocompletion=completion.complete_objective,
        show_default=False,
    ),
]
BackendOption = Annotated[
    str,
    typer.Option(
        help="Solver: auto for the formulation's own exact method, or highs, pyomo, cpsat.",
        autocompletion=completion.complete_backend,
    ),
]
SECONDS, GAP = 60.0, 1e-6
"""Defaults of `alloc.result.Limits`, which takes numpy along: help has to do without."""
TimeLimitOption = Annotated[
    float, typer.Option(help="Wall time of a solve.", metavar="SECONDS", min=0.001)
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the answer to a JSON file (compressed if its name ends in .gz).",
        show_default=False,
    ),
]
ParallelOption = Annotated[
    str | None,
    typer.Option(
        metavar="loky|dask|ray",
        help="Where the processes at work are: on this machine (loky), or of a Dask or Ray "
        "cluster, named by DASK_SCHEDULER_ADDRESS or RAY_ADDRESS, else started here.",
        autocompletion=lambda: ["loky", "dask", "ray"],
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document to standard output, no table.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
LogFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write what happens to a log file.", show_default=False),
]
KnowledgeOption = Annotated[
    str,
    typer.Option(
        metavar="exact|estimate|none",
        help="What schedulers are told of the work of a job.",
        autocompletion=lambda: ["exact", "estimate", "none"],
    ),
]
WorkErrorOption = Annotated[
    float,
    typer.Option(
        metavar="FRACTION",
        help="Largest relative error in the work that schedulers see, with --knowledge estimate.",
    ),
]
SpeedErrorOption = Annotated[
    float,
    typer.Option(metavar="FRACTION", help="Largest relative error in the speeds they see."),
]
MoveBudgetOption = Annotated[
    int | None,
    typer.Option(help="Most running tasks that may move.", min=0, show_default=False),
]
EvictOption = Annotated[
    bool, typer.Option("--evict", help="Let running preemptible jobs be stopped.")
]
