"""``alloc simulate``."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from alloc.cli import completion, options
from alloc.cli.clusters import read_cluster
from alloc.cli.comparing import name_and_options, require_errors_seen
from alloc.cli.console import print_json, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode
from alloc.cli.failures import FailuresOption, with_failures_of
from alloc.cli.settings import parse_settings
from alloc.cli.sources import read_instance
from alloc.cli.topology import HostTypeOption, TopologyOption
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.schedulers.state import Knowledge
    from alloc.simulation import SimulationResult


def simulate_command(
    instance: options.InstanceArgument,
    scheduler: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"{options.SCHEDULER} Options may stand behind it, as in srtf(by=time).",
            autocompletion=completion.complete_scheduler,
            show_default=False,
        ),
    ],
    option: options.PairsOption = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    knowledge: options.KnowledgeOption = "exact",
    work_error: options.WorkErrorOption = 0.0,
    speed_error: options.SpeedErrorOption = 0.0,
    max_time: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Simulated time at which to stop.", show_default=False
        ),
    ] = None,
    failures: FailuresOption = None,
    seed: options.SeedOption = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"{options.OUTPUT} It is the schedule, for `alloc verify`.",
            show_default=False,
        ),
    ] = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Run a scheduler on an instance and say what happened."""
    require_writable(output)
    require_errors_seen(knowledge, work_error, speed_error)
    problem = read_instance(instance, read_cluster(topology, host_type))
    problem = with_failures_of(problem, failures)
    from alloc.schedulers import make_scheduler
    from alloc.simulation import simulate

    name, written = name_and_options(scheduler, "--scheduler")
    settings = parse_settings(option or [], "--option")
    if twice := sorted(written.keys() & settings.keys()):
        raise InstanceError(
            f'"{twice[0]}" is set twice, behind the name of the scheduler and with --option; set '
            "it once."
        )
    policy = make_scheduler(name, **written, **settings)
    with progress(f"simulating {scheduler}", quiet) as report:
        outcome = simulate(
            problem,
            policy,
            knowledge=cast("Knowledge", knowledge),
            work_error=work_error,
            speed_error=speed_error,
            rng=seed,
            max_time_s=max_time,
            progress=lambda done, total: report(f"{done} of {total} jobs complete"),
            keep_interrupted=True,
        )
    if output is not None:
        from alloc.documents.reading import save as save_document

        save(lambda path: save_document(outcome.schedule, path), output)
    summary = _summary(outcome)
    if json:
        print_json(summary)
    else:
        from alloc.cli.tables import drawn, facts
        from alloc.report.answers import tables_of

        show(facts(_for_people(summary)), *map(drawn, tables_of(outcome.schedule, problem)))
    if "interrupted" in outcome.notes:
        where = "" if output is None else f" and in {output}"
        say(
            f"error: interrupted at {outcome.end_s:g} s of simulated time; what happened until "
            f"then is above{where}."
        )
        return ExitCode.INTERRUPTED
    return ExitCode.SOLVED


def _summary(outcome: "SimulationResult") -> dict[str, Any]:
    """Return what happened as plain JSON values."""
    from alloc.simulation import metrics_of

    metrics = asdict(metrics_of(outcome))
    return {
        "instance": outcome.instance.name,
        "fingerprint": outcome.instance.fingerprint,
        "scheduler": outcome.scheduler,
        "knowledge": outcome.knowledge,
        "work_error": outcome.work_error,
        "speed_error": outcome.speed_error,
        **{name: value if math.isfinite(value) else None for name, value in metrics.items()},
        "unfinished": list(outcome.unfinished),
        "late": list(outcome.late),
        "notes": dict(outcome.notes),
        "verified": outcome.verified,
    }


def _for_people(summary: dict[str, Any]) -> Iterator[tuple[str, object]]:
    from alloc.comparison.measures import MEASURES

    for name, value in summary.items():
        measure = MEASURES.get(name)
        words = name.removesuffix("_s").replace("num_", "").replace("_", " ")
        if isinstance(value, list):
            yield words, ", ".join(value) or "none"
        elif isinstance(value, dict):
            yield from ((key.replace("_", " "), item) for key, item in value.items())
        elif measure is not None:
            yield measure.header, None if value is None else value * measure.scale
        elif name.endswith("_s"):
            yield f"{words} (s)", value
        elif name != "fingerprint":
            yield words, value
