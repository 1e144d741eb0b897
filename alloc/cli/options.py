"""Options that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from alloc.cli import completion

# First sentences of the help of options that mean the same everywhere and more in some places.
OBJECTIVE = "What to optimise."
TIME_LIMIT = "Wall time for solving."
WORKERS = "Cores to use: threads of a solver, processes of everything else."
ITERATIONS = "Iterations at most."
SCHEDULER = (
    "A scheduler: a name of `alloc schedulers list`, a policy or agent in a file (.onnx, .pt, "
    ".zip), or a class or function of your own (./rule.py:MyRule or package.module:MyRule)."
)
TEACHER = "Scheduler that is imitated."
NAME = "Name of what is made."
MEMORY = "Memory that solving may take."
OUTPUT = "Write the answer to a JSON file (compressed if its name ends in .gz)."
PAIRS = "An option of what is read or made; may be repeated."
SCHEDULERS = (
    "Schedulers: names, policies and agents (.onnx, .pt, .zip), own functions and classes "
    "(./rule.py:MyRule or package.module:MyRule), or all; options stand in parentheses, as in "
    '"drf(rules=dl2),optimus".'
)

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
        help="A problem of any kind: a JSON file, a stored one such as elastic-small/01 or "
        "planning-tiny, or - for standard input.",
        autocompletion=completion.complete_problem,
        show_default=False,
    ),
]
FormulationOption = Annotated[
    str | None,
    typer.Option(
        "--formulation",
        "-f",
        metavar="NAME",
        help="What is solved; `alloc models list` lists the formulations. By default that of "
        "the problem; of an instance malleable.",
        autocompletion=completion.complete_problem_family,
        show_default=False,
    ),
]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="OBJECTIVE",
        help=f"{OBJECTIVE} By default the formulation's own.",
        autocompletion=completion.complete_objective,
        show_default=False,
    ),
]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="How it is solved: auto for the formulation's own exact method, another of its "
        "methods by name, or a general solver: highs, pyomo, cpsat.",
        autocompletion=completion.complete_method,
    ),
]
SECONDS, GAP = 60.0, 1e-6
"""Defaults of `alloc.result.Limits`, which takes numpy along: help has to do without."""
TimeLimitOption = Annotated[
    float, typer.Option("--time-limit", help=TIME_LIMIT, metavar="SECONDS", min=0.001)
]
TotalTimeLimitOption = Annotated[
    float,
    typer.Option(
        "--time-limit", help=f"{TIME_LIMIT} All solves together.", metavar="SECONDS", min=0.001
    ),
]
GapOption = Annotated[
    float,
    typer.Option(
        "--gap",
        metavar="FRACTION",
        help="Stop at this relative gap between the answer and the proved bound, where the method "
        "can stop early.",
        min=0.0,
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of everything random.", min=0)
]
WorkersOption = Annotated[int, typer.Option("--workers", metavar="N", help=WORKERS, min=1)]
IterationsOption = Annotated[int, typer.Option("--iterations", metavar="N", help=ITERATIONS, min=1)]
HeldOutOption = Annotated[
    Path | None,
    typer.Option(
        "--held-out",
        metavar="FILE",
        help="Check the answer in the scenarios of this problem, which are not used for planning.",
        show_default=False,
    ),
]
SeedsOption = Annotated[
    int, typer.Option("--seeds", metavar="N", help="Run with each of N seeds.", min=1)
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FILE|URL",
        help="Keep finished work in this SQLite file or database, and go on from what is there.",
        show_default=False,
    ),
]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
PairsOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-O", metavar="KEY=VALUE", help=PAIRS, show_default=False),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=OUTPUT,
        show_default=False,
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write a report for people, an HTML page with plots.",
        show_default=False,
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help=f"{WORKERS} -1 for all there are.  [default: 1; of a cluster all]",
        min=-1,
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
        help="What schedulers know of the work of a job.",
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
    typer.Option(
        metavar="N", help="Running tasks that may move, at most.", min=0, show_default=False
    ),
]
EvictOption = Annotated[
    bool, typer.Option("--evict", help="Let running preemptible jobs be stopped.")
]
