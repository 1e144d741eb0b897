"""Answers as tables: what a solution of any family says, for terminals and pages alike.

A solution that is a dataclass shows itself: its numbers and names as facts, its lists as tables.
`tables_of` knows those that are better read in other words, by the paths of their classes: who
shows one loads no other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alloc.documents.shapes import as_record
from alloc.families import Family
from alloc.family import path_of
from alloc.progress import completions
from alloc.result import Result

if TYPE_CHECKING:
    from alloc.problems.allocation.solution import Allocation, Schedule
    from alloc.problems.colocation import Packing
    from alloc.problems.inference_sizing.plan import InferencePlan
    from alloc.problems.operation.problem import OperationPlan
    from alloc.problems.pipeline.problem import PipelinePlan
    from alloc.problems.project import ProjectPlan
    from alloc.problems.quota_planning.problem import QuotaPlan

Row = Sequence[object]
_PLAIN = (str, bool, int, float, type(None))


@dataclass(frozen=True)
class Table:
    """A table for people.

    Parameters
    ----------
    columns
        Headings.
    rows
        Cells: text, numbers, flags, or None where there is nothing.
    title
        Heading of the table.
    note
        What is said below it.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    title: str = ""
    note: str = ""


def result_tables(family: Family, problem: Any, result: Result[Any]) -> list[Table]:
    """Return what a result says beside its certificate: levels, solution, sensitivities.

    Parameters
    ----------
    family
        The family of the problem.
    problem
        What was asked.
    result
        The answer.
    """
    found = []
    if result.stages:
        rows = [(s.objective_name, s.status, s.objective, s.bound) for s in result.stages]
        found.append(Table(("level", "status", "objective", "bound"), rows, "Levels"))
    if result.solution is not None:
        found += tables_of(result.solution, problem)
    if result.sensitivities:
        name = result.certificate.objective_name
        what = f"{_words(name)}, {family.unit(problem, name)}".rstrip(", ")
        found.append(sensitivity_table(result, what))
    return found


def sensitivity_table(result: Result[Any], what: str) -> Table:
    """Return what a little more of each thing would change, by solving again.

    Parameters
    ----------
    result
        The answer.
    what
        What it changes, in words, with the unit.
    """
    one = {"host": "one more host", "gpu": "one more GPU"}
    rows = [
        (
            one.get(change.kind, f"{change.amount:g} {change.unit}"),
            change.name,
            "no plan" if change.value is None else change.value,
            change.is_exact,
        )
        for change in result.sensitivities
    ]
    columns = ("what if", "which", f"adds to the {what}", "proved")
    return Table(columns, rows, "A little more, solved again")


_IN_OTHER_WORDS: dict[str, Callable[[Any, Any], list[Table]]] = {}


def tables_of(solution: Any, problem: Any) -> list[Table]:
    """Return the tables of a solution of any family.

    Parameters
    ----------
    solution
        The solution.
    problem
        What it answers.
    """
    for path in map(path_of, type(solution).__mro__):
        if path in _IN_OTHER_WORDS:
            return _IN_OTHER_WORDS[path](solution, problem)
    record = as_record(solution, "solution")
    facts: list[Row] = []
    tables = []
    for name, value in _members(record):
        if isinstance(value, _PLAIN):
            facts.append((_words(name), value))
        elif isinstance(value, Mapping):
            rows = [(key, _cell(item)) for key, item in value.items()]
            tables.append(Table(("name", _words(name)), rows))
        elif value and dataclasses.is_dataclass(value[0]):
            columns = [_words(member) for member, _ in _members(value[0])]
            cells = [[_cell(cell) for _, cell in _members(item)] for item in value]
            tables.append(Table(columns, cells, _words(name).capitalize()))
        else:
            rows = [(number, _cell(item)) for number, item in enumerate(value)]
            if rows:
                tables.append(Table(("number", _words(name)), rows))
    return [*([Table(("what", "value"), facts)] if facts else []), *tables]


def _allocation(allocation: Allocation, problem: Any) -> list[Table]:
    rows = [
        (
            a.job,
            problem.job(a.job).configurations[a.configuration].label,
            ", ".join(dict.fromkeys(task.host for task in a.tasks)) or None,
        )
        for a in allocation.assignments
    ]
    waiting = len(problem.jobs) - len(rows)
    note = (
        "no job waits" if not waiting else f"{waiting} job{'s wait' if waiting > 1 else ' waits'}"
    )
    return [Table(("job", "runs as", "hosts"), rows, note=note)]


def _schedule(schedule: Schedule, problem: Any) -> list[Table]:
    problem = problem.unfolded
    ends = completions(problem, schedule)
    rows: list[Row] = []
    for job in problem.jobs:
        runs = schedule.runs_of.get(job.id, ())
        used = dict.fromkeys(job.configurations[run.configuration].label for run in runs)
        end = ends[job.id]
        rows.append(
            (
                job.id,
                job.arrival_s,
                runs[0].start_s if runs else None,
                end,
                None if end is None else end - job.arrival_s,
                ", then ".join(used) or schedule.unplaced.get(job.id),
            )
        )
    return [Table(("job", "arrival s", "start s", "end s", "JCT s", "runs as"), rows)]


def _operation_plan(plan: OperationPlan, problem: Any) -> list[Table]:
    rows = [
        (node.node, node.type, ", ".join(f"{job} ({gpus})" for job, gpus in node.jobs))
        for node in plan.nodes
    ]
    note = f"Postponed: {', '.join(plan.postponed)}" if plan.postponed else ""
    return [Table(("node", "type", "jobs (GPUs)"), rows, "Nodes that are on", note)]


def _inference_plan(plan: InferencePlan, problem: Any) -> list[Table]:
    rows = [
        (
            group.period,
            group.model,
            f"{group.gpu_type} x {group.tensor_parallel} x {group.pipeline_parallel}",
            group.replicas,
            group.batch_cap,
            f"{group.rate_per_s:.4g}",
        )
        for group in plan.groups
    ]
    columns = ("period", "model", "GPUs x TP x PP", "replicas", "batch", "requests/s")
    return [Table(columns, rows, "Replicas")]


def _quota_plan(plan: QuotaPlan, problem: Any) -> list[Table]:
    rows = [(q.tenant, q.gpu_type, q.gpu_milli / 1000) for q in plan.quotas]
    return [Table(("tenant", "GPU type", "GPUs"), rows, "Quotas")]


def _pipeline_plan(plan: PipelinePlan, problem: Any) -> list[Table]:
    from alloc.problems.pipeline.timetable import timetable

    times, memory = plan.pass_s(problem), plan.peak_mib(problem)
    ends = (*plan.first_layers[1:], len(problem.layers))
    num = len(problem.devices)
    rows = [
        (s, s % num, f"{first} to {ends[s] - 1}", *times[s], memory[s % num])
        for s, first in enumerate(plan.first_layers)
    ]
    step = timetable(problem, plan)
    note = (
        f"A step of {problem.num_micro_batches} micro-batches ({problem.order}) takes "
        f"{step.step_s:.4g} s, of which devices wait {100 * step.bubble_fraction:.1f} %."
    )
    columns = ("stage", "device", "layers", "forward s", "backward s", "device's peak MiB")
    return [Table(columns, rows, "Stages", note)]


def _project_plan(plan: ProjectPlan, problem: Any) -> list[Table]:
    rows: list[Row] = []
    for run in sorted(plan.runs, key=lambda run: run.start_s):
        activity = problem.activities[problem.position[run.activity]]
        mode = activity.modes[run.mode]
        uses = ", ".join(f"{amount} {name}" for name, amount in mode.uses.items() if amount)
        end = run.start_s + mode.duration_s
        rows.append((run.activity, activity.job or None, run.start_s, end, run.mode, uses or None))
    columns = ("activity", "job", "start s", "end s", "mode", "uses")
    return [Table(columns, rows, "Runs")]


def _packing(packing: Packing, problem: Any) -> list[Table]:
    rows = [
        (number, ", ".join(f"{problem.kinds[j]} ({j})" for j in bundle), problem.worth(bundle))
        for number, bundle in enumerate(packing.gpus)
    ]
    note = f"{len(packing.left_out)} jobs do not run"
    return [Table(("GPU", "kinds (jobs)", "speed"), rows, "Jobs that share a GPU", note)]


_IN_OTHER_WORDS |= {
    "alloc.problems.allocation.solution:Allocation": _allocation,
    "alloc.problems.allocation.solution:Schedule": _schedule,
    "alloc.problems.operation.problem:OperationPlan": _operation_plan,
    "alloc.problems.inference_sizing.plan:InferencePlan": _inference_plan,
    "alloc.problems.quota_planning.problem:QuotaPlan": _quota_plan,
    "alloc.problems.pipeline.problem:PipelinePlan": _pipeline_plan,
    "alloc.problems.project:ProjectPlan": _project_plan,
    "alloc.problems.colocation:Packing": _packing,
}
"""What makes the tables of a solution, by the path of its class."""


def _members(record: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values of the fields of a record, those of a record in it one by one."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value):
            yield from _members(value, f"{before}{field.name} ")
        else:
            yield before + field.name, value


def _cell(value: Any) -> object:
    """Return what stands in a cell for a value that may be a list."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_cell(item)}" for key, item in value.items())
    if dataclasses.is_dataclass(value):
        return ", ".join(f"{_words(name)} {_cell(item)}" for name, item in _members(value))
    return ", ".join(str(_cell(item)) for item in value)


def _words(name: str) -> str:
    return name.replace("_", " ")
