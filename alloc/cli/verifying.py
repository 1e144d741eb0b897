"""``alloc verify``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from alloc.cli import options
from alloc.cli.clusters import read_cluster
from alloc.cli.console import print_json, show
from alloc.cli.exit_code import ExitCode
from alloc.cli.sources import name_of, read_answer, read_problem, solution_of
from alloc.cli.topology import HostTypeOption, TopologyOption
from alloc.errors import InstanceError


def verify_command(
    problem: options.ProblemArgument,
    answer: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWER",
            help="A solution or a result, or - for standard input; of a result the claims are "
            "checked as well.",
            show_default=False,
        ),
    ],
    move_budget: options.MoveBudgetOption = None,
    evict: options.EvictOption = False,
    topology: TopologyOption = None,
    host_type: HostTypeOption = None,
    json: options.JsonOption = False,
) -> ExitCode:
    """Check an answer against every rule of its problem, without any solver.

    An answer of `alloc place` is checked with the --move-budget, --evict and --topology that it was
    asked for with.

    Exit code: 0 if it is feasible, 3 if it breaks a rule or claims too much.
    """
    from alloc.problems.allocation.instance import Instance
    from alloc.result import Result

    asked = read_problem(problem, read_cluster(topology, host_type))
    found = read_answer(answer)
    if isinstance(asked, Instance):
        asked = asked.with_moves(move_budget, evict)
    elif move_budget is not None or evict:
        raise typer.BadParameter(
            f"--move-budget and --evict are of instances, and {name_of(problem)} is another "
            f"problem ({asked.kind}): leave them out"
        )
    from alloc.families import family_of, family_of_result
    from alloc.verification import check_claims

    claims = isinstance(found, Result)
    family = family_of_result(asked, found.certificate) if claims else family_of(asked)
    solution = solution_of(found, answer)
    try:
        violations = family.check(asked, solution)
    except InstanceError as error:
        raise InstanceError(f"{name_of(answer)}: {error}") from None
    if claims:
        violations += check_claims(asked, found, family.measure_of)
    if json:
        print_json(
            {
                "instance": asked.name,
                "fingerprint": asked.fingerprint,
                "feasible": not violations,
                "violations": [asdict(violation) for violation in violations],
            }
        )
    elif violations:
        from alloc.cli.tables import table

        rows = [(v.code, v.sentence) for v in violations]
        show(table(("rule", "violation"), rows), f"{len(rows)} violations.")
    else:
        more = ", and its claims hold" if claims else ""
        show(f"feasible: {name_of(answer)} keeps every rule of {asked.name}{more}.")
    return ExitCode.INFEASIBLE if violations else ExitCode.SOLVED
