"""Data frames: what results, comparisons, plans and topologies hold, as tables of columns.

A dataclass shows itself: each list in it is a table with the fields of its items as columns, its
single values together are a table of one row. `frames_of` knows those that are better read in
another way. Cells are the values themselves, in the units of the fields; `alloc.report.answers` is
the same for people.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, singledispatch
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from alloc.certificate import Certificate
from alloc.comparison import Comparison
from alloc.documents.shapes import as_record
from alloc.errors import InstanceError, missing_extra, nearest
from alloc.objectives import objective
from alloc.planning.documents import encode_report
from alloc.planning.report import PlanReport
from alloc.problems.operation.problem import OperationPlan
from alloc.result import Result
from alloc.simulation import SimulationResult
from alloc.topology import Topology

if TYPE_CHECKING:
    import pandas
    import polars

Row = dict[str, Any]
_PLAIN = (str, bool, int, float, type(None))
_UNITS = {
    "gb_per_s": "GB/s",
    "per_s": "1/s",
    "per_hour": "1/h",
    "gpu_milli": "milli-GPU",
    "cpu_milli": "milli-core",
    "mib": "MiB",
    "gib": "GiB",
    "kwh": "kWh",
    "kw": "kW",
    "kg": "kg",
    "hours": "h",
    "seconds": "s",
    "s": "s",
}
"""Units by the last words of a column's name, the longest first."""


@dataclass(frozen=True)
class Frame:
    """A table of columns.

    Parameters
    ----------
    name
        What `to_pandas` is asked for.
    columns
        The cells of each column, by its name; all of one length.
    units
        Units of columns beside those that their names say.
    num_left_out
        Rows that there are beyond those in the columns.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    units: Mapping[str, str] = field(default_factory=dict)
    num_left_out: int = 0

    @property
    def num_rows(self) -> int:
        """Number of rows, with those that are left out."""
        return len(next(iter(self.columns.values()), ())) + self.num_left_out

    def all_units(self) -> dict[str, str]:
        """Return the unit of each column that has one."""
        found = {name: unit_of(name) for name in self.columns} | dict(self.units)
        return {name: unit for name, unit in found.items() if unit}


def unit_of(column: str) -> str:
    """Return the unit that the end of a column's name says, or nothing."""
    return next((u for end, u in _UNITS.items() if f"_{column}".endswith(f"_{end}")), "")


def to_pandas(value: Any, table: str | None = None) -> pandas.DataFrame:
    """Return a table of a value as a data frame of pandas; see `alloc.tabular.Tabular`.

    Parameters
    ----------
    value
        What has tables.
    table
        Which of them; by default the first.
    """
    library = _library("pandas")
    frame = _chosen(value, table)
    made: pandas.DataFrame = library.DataFrame(dict(frame.columns))
    made.attrs["units"] = frame.all_units()
    return made


def to_polars(value: Any, table: str | None = None) -> polars.DataFrame:
    """Return a table of a value as a data frame of Polars; see `alloc.tabular.Tabular`.

    Parameters
    ----------
    value
        What has tables.
    table
        Which of them; by default the first.
    """
    library = _library("polars")
    made: polars.DataFrame = library.DataFrame(dict(_chosen(value, table).columns), strict=False)
    return made


def _library(name: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise missing_extra(f"a data frame of {name} needs it", name, error) from error


def _chosen(value: Any, table: str | None) -> Frame:
    if table is None and isinstance(value, Result):
        value.require_solution()
    frames = {frame.name: frame for frame in frames_of(value)}
    if table is None:
        return next(iter(frames.values()))
    if table not in frames:
        raise InstanceError(
            f'{type(value).__name__} has no table "{table}"{nearest(table, frames, ".")} '
            f"It has {', '.join(frames)}."
        )
    return frames[table]


@singledispatch
def frames_of(value: Any, max_items: int | None = None) -> list[Frame]:
    """Return the tables of a value, the main one first.

    Parameters
    ----------
    value
        A result, a solution, a comparison, a plan, a report, a simulation or a topology.
    max_items
        Of longer lists only so many items are made into rows, 1 or more, and the others counted:
        of a schedule of many runs the first are wanted at once. None: all of them.
    """
    record = as_record(value, "solution") if isinstance(value, np.ndarray) else value
    frames: list[Frame] = []
    single: Row = {}
    kinds = get_type_hints(type(record))
    for part in dataclasses.fields(record):
        inner = getattr(record, part.name)
        if isinstance(inner, Result):
            frames += frames_of(inner, max_items)
        elif isinstance(inner, Mapping):
            frames.append(
                Frame(
                    part.name,
                    {"name": list(inner), part.name: [_cell(one) for one in inner.values()]},
                )
            )
        elif isinstance(inner, _PLAIN) or dataclasses.is_dataclass(inner):
            single |= _single(inner, part.name)
        else:
            frames.append(_list_frame(part.name, _sliceable(inner), kinds[part.name], max_items))
    return frames + ([_frame("facts", [single])] if single else [])


@frames_of.register
def _(result: Result, max_items: int | None = None) -> list[Frame]:  # type: ignore[type-arg]
    frames = [] if result.solution is None else frames_of(result.solution, max_items)
    frames.append(_frame("certificate", [_certificate_row(result.certificate)]))
    if result.stages:
        frames.append(_frame("stages", [_certificate_row(one) for one in result.stages]))
    for name in ("repairs", "sensitivities"):
        if getattr(result, name):
            frames.append(
                _frame(name, [row for one in getattr(result, name) for row in _flat(one)])
            )
    return frames


@frames_of.register
def _(comparison: Comparison, max_items: int | None = None) -> list[Frame]:
    unit = objective(comparison.settings.objective).unit
    rows = []
    for one in comparison.rows:
        row = {name: v for name, v in vars(one).items() if not isinstance(v, Mapping)}
        row |= one.metrics
        rows.append(row | {f"note_{name}": value for name, value in one.notes.items()})
    bounds = [
        {"instance": b.instance, "fingerprint": b.fingerprint, "error": b.error}
        | ({} if b.certificate is None else _certificate_row(b.certificate))
        for b in comparison.bounds.values()
    ]
    units = {"objective": unit, "bound": unit}
    return [_frame("rows", rows, units), _frame("bounds", bounds, units)]


@frames_of.register
def _(found: SimulationResult, max_items: int | None = None) -> list[Frame]:
    rows = []
    for job in found.instance.jobs:
        end_s = found.completion_s[job.id]
        rows.append(
            {
                "job": job.id,
                "arrival_s": job.arrival_s,
                "start_s": found.start_s[job.id],
                "completion_s": end_s,
                "jct_s": None if end_s is None else end_s - job.arrival_s,
                "late": job.id in found.late,
            }
        )
    return [_frame("jobs", rows), *frames_of(found.schedule, max_items)]


@frames_of.register
def _(plan: OperationPlan, max_items: int | None = None) -> list[Frame]:
    rows = [
        {"node": node.node, "type": node.type, "job": job, "gpus": gpus}
        for node in plan.nodes
        for job, gpus in node.jobs or [(None, 0)]
    ]
    return [_frame("nodes", rows), Frame("postponed", {"job": list(plan.postponed)})]


@frames_of.register
def _(report: PlanReport, max_items: int | None = None) -> list[Frame]:
    document = encode_report(report)
    hosts, account = [], document["account"]
    for one in () if account is None else account["hosts"]:
        place = {name: one[name] for name in ("offer", "site", "terms")}
        for quarter, count in enumerate(one["hosts"]):
            hosts.append(place | {"quarter": quarter, "hosts": count, "gpus": one["gpus"] * count})
    costs = [{"part": part, "money": money} for part, money in (document["costs"] or {}).items()]
    found = [_frame("hosts", hosts)] if hosts else []
    found += [_frame("costs", costs, {"money": report.problem.currency})] if costs else []
    return found + frames_of(report.result, max_items)


@frames_of.register
def _(topology: Topology, max_items: int | None = None) -> list[Frame]:
    domains = {domain.id: domain for domain in topology.domains}
    types = {kind.name: kind for kind in topology.host_types}
    rows = []
    for host in topology.hosts:
        kind = types[host.type]
        row: Row = {"host": host.id, "type": host.type}
        row |= dict.fromkeys(topology.levels)
        inside = host.domain
        while inside is not None:
            row[domains[inside].level] = inside
            inside = domains[inside].parent
        row |= {"num_gpus": kind.num_gpus, "gpu_type": kind.gpu_type}
        row |= {"cpu_milli": kind.cpu_milli, "memory_mib": kind.memory_mib}
        rows.append(row | dict(kind.resources))
    return [
        _frame("hosts", rows),
        *(
            _list_frame(name, getattr(topology, name), get_type_hints(Topology)[name], max_items)
            for name in ("host_types", "domains", "links")
        ),
    ]


def _frame(name: str, rows: Sequence[Row], units: Mapping[str, str] | None = None) -> Frame:
    """Return rows as columns, in the order in which their names come; None where a row has none."""
    names = dict.fromkeys(column for row in rows for column in row)
    return Frame(name, {column: [row.get(column) for row in rows] for column in names}, units or {})


def _list_frame(name: str, items: Sequence[Any], kind: Any, max_items: int | None) -> Frame:
    """Return a list as a table, also an empty one: its type says the columns."""
    shown, others = items[:max_items], () if max_items is None else items[max_items:]
    if len(items) and not dataclasses.is_dataclass(items[0]):
        columns = {"number": list(range(len(shown))), name: [_cell(i) for i in shown]}
        return Frame(name, columns, num_left_out=len(others))
    if len(items):
        frame = _frame(name, [row for item in shown for row in _flat(item)])
        return dataclasses.replace(frame, num_left_out=sum(map(_num_rows, others)))
    inner = _item_class(kind)
    names = ["number", name] if inner is None else list(_empty_row(inner))
    return Frame(name, {column: [] for column in names})


def _sliceable(items: Any) -> Sequence[Any]:
    return items if isinstance(items, tuple | list) else list(items)


def _num_rows(record: Any) -> int:
    """Return how many rows `_flat` makes of a dataclass."""
    kind: Any = type(record)  # as in `_flat`
    several = _list_of_records(kind)
    return 1 if several is None else max(1, sum(map(_num_rows, getattr(record, several[0]))))


def _flat(record: Any) -> list[Row]:
    """Return a dataclass as rows: one for each item of the first list of dataclasses in it.

    One in all where it has no such list, or an empty one. Another list is text in a cell: rows for
    each pair of items would count both more than once. Fields of a record in it have its name
    before theirs; items in the list have it only where a field before them has the same.
    """
    kind: Any = type(record)  # mypy takes a class of anything for one that has no hash
    several = _list_of_records(kind)
    rows: list[Row] = [{}]
    for part in dataclasses.fields(record):
        value = getattr(record, part.name)
        if several is not None and part.name == several[0]:
            items = [one for item in value for one in _flat(item)] or [_empty_row(several[1])]
        else:
            items = [_single(value, part.name)]
        rows = [row | _renamed(item, row, part.name) for row in rows for item in items]
    return rows


def _single(value: Any, name: str) -> Row:
    """Return a field's value as cells: one, or one for each field or key in it."""
    if dataclasses.is_dataclass(value):
        parts = {p.name: getattr(value, p.name) for p in dataclasses.fields(value)}
        cells = [_single(one, f"{name}_{part}") for part, one in parts.items()]
        return dict(cell for row in cells for cell in row.items())
    if isinstance(value, Mapping):
        return {f"{name}_{key}": _cell(one) for key, one in value.items()}
    return {name: _cell(value)}


@cache
def _list_of_records(kind: Any) -> tuple[str, Any] | None:
    """Return the name of a class's first field that is a list of dataclasses, and their class."""
    hints = get_type_hints(kind)
    for part in dataclasses.fields(kind):
        inner = _item_class(hints[part.name])
        if inner is not None:
            return part.name, inner
    return None


def _item_class(hint: Any) -> Any:
    """Return the dataclass of the items, if the type of a field is a list of such."""
    origin = get_origin(hint)
    if not (isinstance(origin, type) and issubclass(origin, Sequence)):
        return None
    return next((one for one in get_args(hint) if dataclasses.is_dataclass(one)), None)


def _empty_row(kind: Any) -> Row:
    """Return the row of a class without its values; of mappings no key is known."""
    hints, several = get_type_hints(kind), _list_of_records(kind)
    row: Row = {}
    for part in dataclasses.fields(kind):
        hint = hints[part.name]
        cells: Row = {part.name: None}
        if several is not None and part.name == several[0]:
            cells = _empty_row(several[1])
        elif dataclasses.is_dataclass(hint):
            cells = {f"{part.name}_{name}": None for name in _empty_row(hint)}
        elif get_origin(hint) is Mapping:
            cells = {}
        row |= _renamed(cells, row, part.name)
    return row


def _renamed(row: Row, taken: Row, before: str) -> Row:
    return {f"{before}_{name}" if name in taken else name: v for name, v in row.items()}


def _certificate_row(certificate: Certificate) -> Row:
    row = {part.name: getattr(certificate, part.name) for part in dataclasses.fields(certificate)}
    return {**row, "gap": certificate.gap}


def _cell(value: Any) -> Any:
    """Return what stands in a cell: a plain value, a list of such of one type, or else text."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        cells = [_cell(one) for one in value]
        if len({type(one) for one in cells}) <= 1 and all(isinstance(c, _PLAIN) for c in cells):
            return cells
        return "; ".join(map(_text, cells))
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, tuple | list):
        return " ".join(map(_text, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _text({p.name: getattr(value, p.name) for p in dataclasses.fields(value)})
    return str(value)
