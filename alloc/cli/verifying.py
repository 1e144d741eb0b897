"""``alloc verify``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from alloc.cli import options
from alloc.cli.console import print_json, show
from alloc.cli.exit_code import ExitCode
from alloc.cli.sources import STDIN, STDIN_NAME, read_answer, read_instance, solution_of, with_moves
from alloc.cli.topology import HostTypeOption, TopologyOption, on_topology
from alloc.result import Result


def verify_command(
    instance: options.InstanceArgument,
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
    """Check an answer against every rule of its instance, without any solver.

    An answer of `alloc place` is checked with the --move-budget, --evict and --topology that it was
    asked for with.

    Exit code: 0 if it is feasible, 3 if it breaks a rule or claims too much.
    """
    problem = on_topology(read_instance(instance), topology, host_type)
    found = read_answer(answer)
    placed = isinstance(found, Result) and found.certificate.formulation == "placement"
    if placed or move_budget is not None or evict:
        problem = with_moves(problem, move_budget, evict)
    from alloc.verification import check_claims, verify

    violations = verify(problem, solution_of(found, answer))
    if isinstance(found, Result):
        violations += check_claims(problem, found)
    if json:
        print_json(
            {
                "instance": problem.name,
                "fingerprint": problem.fingerprint,
                "feasible": not violations,
                "violations": [asdict(violation) for violation in violations],
            }
        )
    elif violations:
        from alloc.cli.tables import table

        rows = [(v.code, v.sentence) for v in violations]
        show(table(("rule", "violation"), rows), f"{len(rows)} violations.")
    else:
        name = STDIN_NAME if str(answer) == STDIN else answer
        claims = ", and its claims hold" if isinstance(found, Result) else ""
        show(f"feasible: {name} keeps every rule of {problem.name}{claims}.")
    return ExitCode.INFEASIBLE if violations else ExitCode.SOLVED
