"""``alloc admit``."""

import json as json_library
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from alloc.cli import options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import print_text, progress, require_writable, save, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_result
from alloc.cli.sources import read_instance
from alloc.cli.topology import HostTypeOption, TopologyOption


def admit_command(
    instance: options.InstanceArgument,
    job: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A job that asks to be let in beside all jobs of the instance.",
            show_default=False,
        ),
    ] = None,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    time_limit: options.TimeLimitOption = 60.0,
    seed: options.SeedOption = 0,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Accept or refuse jobs with deadlines, and say what each is promised or lacks.

    With --job, one job is held against all others, which are promised: none of them is refused for
    it. Without, all jobs of the instance that may be refused are decided on together, for the
    greatest value. Exit code 3 if the promises cannot all be kept.
    """
    require_writable(output)
    problem = read_instance(instance, read_cluster(topology, host_type))
    from alloc.documents.formats import record_format
    from alloc.result import Limits
    from alloc.solving.admission.admit import admit
    from alloc.workload import Job

    asking = None if job is None else record_format(Job, "job").load(job)
    with progress(f"admitting to {problem.name}", quiet) as report:
        limits = Limits(seconds=time_limit, seed=seed)
        found = admit(problem, asking, limits=limits, progress=report)
    if output is not None:
        save(found.result.to_json, output)
    if json:
        document = {
            "answers": [asdict(answer) for answer in found.answers],
            "result": json_library.loads(found.result.to_json()),
        }
        print_text(json_library.dumps(document, indent=2))
    else:
        from alloc.cli.tables import certificate_table

        for answer in found.answers:
            print_text(answer.sentence)
        # The value comes first; what later levels reached is in the result.
        shown = (*found.result.stages, found.result.certificate)[0]
        show(certificate_table(shown, ""))
    if found.result.conflict is not None:
        say(f"infeasible: {found.result.conflict}")
    return code_of_result(found.result)
