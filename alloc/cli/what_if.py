"""``alloc what-if``: of a planning problem, or of a cluster as it stands."""

import json as json_library
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alloc.cli import completion, options
from alloc.cli.console import print_json, print_text, progress, require_writable, show
from alloc.cli.door import say
from alloc.cli.exit_code import ExitCode, code_of_result, worst_code
from alloc.cli.planning import (
    ITERATIONS,
    IterationsOption,
    JobsOption,
    ReplayOption,
    SchedulerOption,
    code_of_report,
    limits_of,
    replay_of,
    require_replay,
    save_json,
    say_outcome,
    workers_of,
)
from alloc.cli.sources import name_of, read_problem
from alloc.errors import InstanceError

if TYPE_CHECKING:
    from alloc.planning.changes import Change
    from alloc.planning.differences import WhatIf
    from alloc.planning.replay import ReplaySettings
    from alloc.problems.allocation.instance import Instance
    from alloc.problems.right_sizing.problem import PlanningProblem
    from alloc.result import Limits
    from alloc.solving.placing.what_if import PlacementWhatIf, Queue

_MAX_NAMED = 12
"""Jobs or moves that a line names; --json lists all."""


def _list_changes(wanted: bool) -> None:
    """List what a change can be, and stop: no problem has to be named for that."""
    if not wanted:
        return
    from alloc.cli.tables import table
    from alloc.planning.change_text import GRAMMAR
    from alloc.solving.placing.change_text import GRAMMAR as PLACING

    team = ("team=FILE", "classes of jobs that join: a JSON object of classes and jobs_per_hour")
    show(table(("change", "meaning"), [*GRAMMAR, team], "Of a planning problem"))
    show(table(("change", "meaning"), PLACING, "Of a cluster as it stands (alloc snapshot)"))
    raise typer.Exit


def _change(text: str) -> "Change":
    """Return the change that a text means; a team is read from its file."""
    from alloc.planning.change_text import parse_change, read_change

    path = text.removeprefix("team=")
    if path == text:
        return parse_change(text)
    from alloc.documents.files import read_bytes
    from alloc.documents.parsing import describe, parse_file

    team = parse_file(read_bytes(path), path, path)
    if not isinstance(team, dict):
        raise InstanceError(
            f"{path}: is {describe(team)}; a team is a JSON object of classes and jobs_per_hour."
        )
    try:
        return read_change({**team, "change": "team"})
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None


def what_if_command(
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM",
            help="A planning problem, or a cluster as it stands (`alloc snapshot`): a JSON file, "
            "a stored id, or - for standard input.",
            autocompletion=completion.complete_problem,
            show_default=False,
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CHANGE...",
            help="Changes to apply, for example demand=+20%; `alloc what-if --changes` lists all.",
            show_default=False,
        ),
    ] = None,
    list_changes: Annotated[
        bool,
        typer.Option(
            "--changes",
            help="List what a change can be, and stop.",
            callback=_list_changes,
            is_eager=True,
        ),
    ] = False,
    each: Annotated[
        bool, typer.Option("--each", help="Make each change by itself, not all together.")
    ] = False,
    replay: ReplayOption = False,
    scheduler: SchedulerOption = None,
    other_scheduler: Annotated[
        str | None,
        typer.Option(
            help="Another scheduler for the changed plan; with --replay.",
            metavar="NAME",
            autocompletion=completion.complete_scheduler,
            show_default=False,
        ),
    ] = None,
    iterations: IterationsOption = None,
    replay_jobs: JobsOption = None,
    time_limit: options.TimeLimitOption = 60.0,
    gap: options.GapOption = 0.001,
    seed: options.SeedOption = 0,
    workers: options.WorkersOption = 1,
    parallel: options.ParallelOption = None,
    output: options.OutputOption = None,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> ExitCode:
    """Change a plan or a cluster and compare with the base: what if a rack is lost, a job comes?

    Of a planning problem the difference in cost is given with the range that is proved; of a
    cluster as it stands the GPUs in use, what starts, and for a job that is not submitted yet where
    it starts or why it cannot. Exit codes are those of `alloc plan` or `alloc place`, for the
    changed problem; of several the worst.
    """
    require_replay(
        replay,
        {
            "--scheduler": scheduler,
            "--other-scheduler": other_scheduler,
            "--iterations": iterations,
            "--replay-jobs": replay_jobs,
        },
    )
    require_writable(output)
    given = {
        "--replay": replay or None,
        "--parallel": parallel,
        "--workers": None if workers == 1 else workers,
    }
    from alloc.problems.allocation.instance import Instance
    from alloc.problems.right_sizing.problem import PlanningProblem

    asked = read_problem(problem)
    texts = changes or []
    if isinstance(asked, Instance):
        named = [option for option, value in given.items() if value is not None]
        if named:
            raise typer.BadParameter(
                f"{' and '.join(named)} {'are' if len(named) > 1 else 'is'} of a planning problem, "
                f"and {name_of(problem)} is an instance; leave that out"
            )
        return _of_cluster(asked, texts, each, limits_of(time_limit, gap, seed, 1), output, json,
                           quiet)  # fmt: skip
    if not isinstance(asked, PlanningProblem):
        from alloc.documents.formats import format_of_type
        from alloc.documents.kinds import title_of

        raise InstanceError(
            f"{name_of(problem)}: is {title_of(format_of_type(type(asked)).kind)}; what-if takes a "
            "planning problem, or an instance such as `alloc snapshot` writes."
        )
    limits = limits_of(time_limit, gap, seed, workers)
    settings = replay_of(scheduler, replay_jobs, seed, workers) if replay else None
    other = None
    if other_scheduler is not None:
        other = replay_of(other_scheduler, replay_jobs, seed, workers)
    return _of_plan(asked, texts, each, limits, (settings, other, iterations or ITERATIONS),
                    (parallel, workers), output, json, quiet)  # fmt: skip


def _of_plan(
    asked: "PlanningProblem",
    texts: list[str],
    each: bool,
    limits: "Limits",
    replays: "tuple[ReplaySettings | None, ReplaySettings | None, int]",
    workers: tuple[str | None, int],
    output: Path | None,
    json: bool,
    quiet: bool,
) -> ExitCode:
    """Plan a changed problem beside its base."""
    from alloc.planning.change_text import KINDS
    from alloc.planning.differences import what_if
    from alloc.planning.documents import encode_what_if
    from alloc.solving.placing.change_text import KINDS as PLACING_KINDS

    _require_own_kind(texts, KINDS, PLACING_KINDS, "a cluster", "a planning problem")
    parsed = [_change(text) for text in texts]
    together = [[change] for change in parsed] if each and len(parsed) > 1 else [parsed]
    found: list[WhatIf] = []
    replay, other, iterations = replays
    with progress(f"what if, {asked.name}", quiet) as watch, workers_of(*workers):
        for wanted in together:
            found.append(
                what_if(
                    asked,
                    wanted,
                    base=found[0].base if found else None,
                    limits=limits,
                    replay=replay,
                    changed_replay=other,
                    max_iterations=iterations,
                    progress=watch,
                )
            )
            if found[-1].changed.interrupted:
                break
    documents = [encode_what_if(one) for one in found]
    document: Any = documents if each else documents[0]
    save_json(document, output)
    if json:
        print_json(document)
    else:
        from alloc.cli.planning_tables import what_if_tables

        for one, shown in zip(found, documents, strict=True):
            show(*what_if_tables(one, shown))
    for one in found:
        say_outcome(one.changed)
    if len(found) < len(together):
        say(f"interrupted: {len(together) - len(found)} of {len(together)} what-ifs left out.")
    return worst_code(code_of_report(one.changed) for one in found)


def _of_cluster(
    asked: "Instance",
    texts: list[str],
    each: bool,
    limits: "Limits",
    output: Path | None,
    json: bool,
    quiet: bool,
) -> ExitCode:
    """Place the queue of a changed cluster beside that of its base."""
    from alloc.planning.change_text import KINDS as PLAN_KINDS
    from alloc.solving.placing.change_text import KINDS, parse_placing_change
    from alloc.solving.placing.what_if import what_if

    _require_own_kind(texts, KINDS, PLAN_KINDS, "a planning problem", "an instance")
    parsed = [parse_placing_change(text) for text in texts]
    together = [[change] for change in parsed] if each and len(parsed) > 1 else [parsed]
    left = limits.replace(seconds=limits.seconds / len(together))
    found: list[PlacementWhatIf] = []
    with progress(f"what if, {asked.name}", quiet) as watch:
        for wanted in together:
            found.append(what_if(asked, wanted, limits=left, progress=watch))
            if _code(found[-1]) is ExitCode.INTERRUPTED:
                break
    documents = [_document(one) for one in found]
    document: Any = documents if each else documents[0]
    save_json(document, output)
    if json:
        print_json(document)
    else:
        for one in found:
            _show(one)
    for one in found:
        if one.after is None:
            say(f"infeasible: {one.sentence}")
    if len(found) < len(together):
        say(f"interrupted: {len(together) - len(found)} of {len(together)} what-ifs left out.")
    return worst_code(map(_code, found))


def _require_own_kind(
    texts: list[str], own: Iterable[str], others: Iterable[str], whose: str, here: str
) -> None:
    """Refuse a change of a cluster to a plan, and the other way round, by its kind."""
    for text in texts:
        kind = re.split("[:=]", text.strip())[0]
        if kind in others and kind not in own:
            raise InstanceError(
                f'change "{text}": is of {whose}, and this is {here}; `alloc what-if --changes` '
                "lists the changes of both."
            )


def _show(found: "PlacementWhatIf") -> None:
    from alloc.cli.tables import table

    show(f"What if: {'; '.join(found.changes)}")
    if found.after is None:
        return
    show(found.sentence)
    before, after = found.before, found.after
    show(
        table(
            ("", "before", "after"),
            [
                ("GPUs in use", _in_use(before), _in_use(after)),
                ("waiting jobs that start", _starts(before), _starts(after)),
            ],
        )
    )
    stopped = frozenset(found.standing.stopped)
    for title, jobs in (
        ("starts then", after.started - before.started - stopped),
        ("starts no longer", before.started - after.started - found.standing.impossible.keys()),
        ("stops, and starts again elsewhere", stopped & after.started),
        ("stops, and waits", stopped - after.started - found.standing.impossible.keys()),
    ):
        if jobs:
            print_text(f"{title}: {_named(sorted(jobs))}")
    for job, reason in found.standing.impossible.items():
        print_text(f'job "{job}" fits nowhere then, not even the empty cluster: {reason}')
    for drained in found.standing.drained:
        assert drained.migration is not None  # otherwise there is no after
        moves = [str(move) for step in drained.migration.steps for move in step]
        print_text(f"moves first, in this order: {_named(moves, '; ')}")
    for one in found.submissions:
        if one.assignment is not None:
            hosts = ", ".join(f"{task.host} ({task.count})" for task in one.assignment.tasks)
            beside = one.job in after.started
            also = "and so it does beside the queue" if beside else "if it alone is started"
            print_text(f'job "{one.job}" can start now, {also}: tasks on {hosts}.')
        elif one.explanation is not None:
            print_text(one.explanation.sentence)
            for cure in one.explanation.relaxations:
                print_text(f"  - {cure.sentence}")
        if one.unsaid:
            print_text(
                f'job "{one.job}" has none of the rules of other jobs, so none keeps it out '
                f"({_named(list(one.unsaid))}); like:JOB gives it those of a job."
            )


def _in_use(queue: "Queue") -> str:
    return f"{queue.gpus:,.10g} of {queue.instance.topology.num_gpus:,}"


def _starts(queue: "Queue") -> str:
    return f"{len(queue.started)} of {len(queue.waiting)}"


def _named(names: list[str], between: str = ", ") -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return between.join(names[:_MAX_NAMED]) + more


def _document(found: "PlacementWhatIf") -> dict[str, Any]:
    """Return a what-if of a cluster as one JSON document."""

    def queue(one: "Queue | None") -> dict[str, Any] | None:
        if one is None:
            return None
        return {
            "gpus_in_use": one.gpus,
            "gpus": one.instance.topology.num_gpus,
            "starts": sorted(one.started),
            "result": json_library.loads(one.placement.result.to_json()),
        }

    return {
        "document": "placement-what-if",
        "changes": list(found.changes),
        "sentence": found.sentence,
        "difference": None
        if found.difference is None
        else [end if abs(end) < float("inf") else None for end in found.difference],
        "before": queue(found.before),
        "after": queue(found.after),
        "submitted": {
            one.job: {
                "starts": one.assignment is not None,
                **(
                    {}
                    if one.assignment is None
                    else {"tasks": [asdict(task) for task in one.assignment.tasks]}
                ),
                **({} if one.explanation is None else asdict(one.explanation)),
                "unsaid": list(one.unsaid),
            }
            for one in found.submissions
        },
        "stopped": list(found.standing.stopped),
        "impossible": dict(found.standing.impossible),
        "steps": [
            [asdict(move) for move in step]
            for drained in found.standing.drained
            if drained.migration is not None
            for step in drained.migration.steps
        ],
    }


def _code(found: "PlacementWhatIf") -> ExitCode:
    if found.after is not None:
        return code_of_result(found.after.placement.result)
    blocked = next(one for one in found.standing.drained if one.migration is None)
    proved = blocked.result.certificate.status in ("optimal", "infeasible")
    return ExitCode.INFEASIBLE if proved else ExitCode.NO_SOLUTION
