"""Data frames and notebook views: whatever a value holds is in its tables, in both libraries."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from problems_of_families import answered

import alloc
from alloc.comparison import compare
from alloc.errors import AllocError, BackendUnavailableError, InstanceError
from alloc.families import FAMILIES
from alloc.instances import load
from alloc.instances.stored_planning import load_stored_planning
from alloc.problems.allocation.solution import Allocation, Run, Schedule, TaskPlacement
from alloc.report import frames
from alloc.report.frames import frames_of, unit_of
from alloc.schedulers import make_scheduler
from alloc.topology import Domain, Host, HostType, NetworkLink, Topology

HOSTILE = '<script>alert("x")</script>&'


def leaves(value: Any) -> Iterator[Any]:
    """The plain values in a record, whatever it is made of."""
    if dataclasses.is_dataclass(value):
        for part in dataclasses.fields(value):
            yield from leaves(getattr(value, part.name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from leaves(inner)
    elif isinstance(value, tuple | list | np.ndarray):
        for inner in value:
            yield from leaves(inner)
    elif value is not None:
        yield value


def cells(value: Any) -> set[str]:
    """What a reader of the tables finds."""
    found: set[str] = set()
    for frame in frames_of(value):
        for name, column in frame.columns.items():
            found.add(name)
            for cell in column:
                found |= set(map(str, cell)) if isinstance(cell, list) else {str(cell)}
                found |= set(str(cell).split())
    return found


@cache
def solved(name: str) -> alloc.Result:
    [(_, result)] = answered(name)
    return result


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_nothing_of_a_solution_is_lost_in_the_tables_of_its_family(name):
    result = solved(name)
    told = cells(result)
    assert [one for one in leaves(result.solution) if str(one) not in told] == []
    for table in result.table_names:
        frame = result.to_pandas(table)
        assert len(frame) == frames_of(result)[result.table_names.index(table)].num_rows
        assert frame.attrs["units"].keys() <= set(frame.columns)
    assert 'class="alloc"' in result._repr_html_()
    if result.solution is not None and not isinstance(result.solution, np.ndarray):
        pd.testing.assert_frame_equal(result.to_pandas(), result.solution.to_pandas())


@pytest.mark.polars
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_polars_has_the_cells_of_pandas(name):
    result = solved(name)
    for table, frame in zip(result.table_names, frames_of(result), strict=True):
        made = result.to_polars(table)
        assert made.columns == list(frame.columns)
        told = {name: made[name].to_list() for name in made.columns}
        assert told == {name: list(column) for name, column in frame.columns.items()}


@pytest.fixture(scope="module")
def comparison():
    return compare([load("elastic-tiny/01")], ["fifo", "srtf"], seeds=(0, 1), time_limit_s=20)


def test_the_metrics_of_a_comparison_are_columns_with_units(comparison):
    frame = comparison.to_pandas()
    assert list(frame["scheduler"]) == [row.scheduler for row in comparison.rows]
    for row, (_, told) in zip(comparison.rows, frame.iterrows(), strict=True):
        for name, value in row.metrics.items():
            assert told[name] == value
        for name, value in row.notes.items():
            assert told[f"note_{name}"] == value
        assert told["objective"] == row.objective
    assert frame.attrs["units"]["mean_jct_s"] == "s"
    assert frame.attrs["units"]["objective"] == frame.attrs["units"]["bound"] == "s"
    bounds = comparison.to_pandas("bounds")
    assert list(bounds["bound"]) == [bound.value for bound in comparison.bounds.values()]
    # No metric is hidden behind a field of its name.
    fields = {part.name for part in dataclasses.fields(comparison.rows[0])}
    assert not fields & {name for row in comparison.rows for name in row.metrics}


def test_a_simulation_is_a_table_of_its_jobs():
    instance = load("elastic-tiny/01")
    frame = alloc.simulate(instance, make_scheduler("fifo")).to_pandas()
    assert list(frame["job"]) == [job.id for job in instance.jobs]
    assert list(frame["jct_s"]) == list(frame["completion_s"] - frame["arrival_s"])


@pytest.mark.long
def test_a_plan_is_a_table_of_its_hosts_with_its_costs_beside_it():
    problem = load_stored_planning("planning-tiny")
    report = alloc.planning.plan(problem)
    costs = report.to_pandas("costs")
    assert costs.attrs["units"] == {"money": problem.currency}
    assert costs["money"].sum() == pytest.approx(report.result.objective)
    assert report.table_names[0] == "hosts"
    ordered = report.to_pandas("orders")
    assert ordered["count"].sum() == sum(order.count for order in report.result.solution.orders)
    assert "Hosts, by quarter" in report._repr_html_()
    nothing = dataclasses.replace(report, result=report.result.replace(solution=None))
    assert nothing.table_names[0] == "certificate"


def fabric(name: str = "pod") -> Topology:
    kind = HostType("dgx", 8, "h100", 64_000, 2048, resources={"nvme_gib": 3500})
    return Topology(
        name,
        (kind,),
        tuple(Host(f"{name}-{i}", "dgx", f"{name}-rack{i // 2}") for i in range(12)),
        ("hall", "rack"),
        (
            Domain(f"{name}-hall", "hall"),
            *(Domain(f"{name}-rack{i}", "rack", f"{name}-hall") for i in range(6)),
        ),
        (NetworkLink(f"{name}-0", f"{name}-1", 50.0),),
    )


def test_a_topology_is_a_table_of_hosts_with_a_column_for_each_level():
    topology = fabric()
    frame = topology.to_pandas()
    assert list(frame["rack"]) == [f"pod-rack{i // 2}" for i in range(12)]
    assert set(frame["hall"]) == {"pod-hall"}
    assert frame["num_gpus"].sum() == topology.num_gpus
    assert frame.attrs["units"] == {
        "cpu_milli": "milli-core",
        "memory_mib": "MiB",
        "nvme_gib": "GiB",
    }
    assert topology.to_pandas("links").attrs["units"] == {"bandwidth_gb_per_s": "GB/s"}
    view = topology._repr_html_()
    assert "12 hosts, 96 GPUs (host in rack in hall)" in view
    assert "2 more rows" in view
    assert "pod-9" in view
    assert "pod-10" not in view


def test_a_run_has_a_row_for_each_host_and_an_empty_schedule_has_its_columns():
    tasks = (TaskPlacement("a", "worker", 2), TaskPlacement("b", "worker", 1))
    one = Schedule((Run("j", 0, 0.0, 60.0, tasks),), {"k": "no room"})
    frame = one.to_pandas()
    assert list(frame["host"]) == ["a", "b"]
    assert list(frame["job"]) == ["j", "j"]
    assert list(one.to_pandas("unplaced")["unplaced"]) == ["no room"]
    assert list(Schedule(()).to_pandas().columns) == list(frame.columns)
    alone = Schedule((Run("j", 0, 0.0, 60.0),)).to_pandas()
    assert list(alone["job"]) == ["j"]
    assert list(alone.columns) == list(frame.columns)
    assert list(Allocation(()).to_pandas().columns)[:2] == ["job", "configuration"]


@dataclasses.dataclass(frozen=True)
class Place:
    host: str
    count: int


@dataclasses.dataclass(frozen=True)
class Move:
    job: str
    size: Place
    count: int = 1
    before: tuple[Place, ...] = ()
    after: tuple[Place, ...] = ()


@dataclasses.dataclass(frozen=True)
class Moves:
    moves: tuple[Move, ...]
    worst: Move


def test_the_items_of_two_lists_are_not_paired():
    places = tuple(Place(f"h{i}", i) for i in range(3))
    move = Move("j", places[0], 1, places, places)
    main, facts = frames_of(Moves((move, Move("k", places[1], 1, (), places)), move))
    # The first list makes rows, each once; the other is in a cell, and so is all of a single value.
    assert main.columns["host"] == ["h0", "h1", "h2", None]
    assert main.columns["before_count"] == [0, 1, 2, None]
    assert main.columns["after"][3] == [f"host: h{i}, count: {i}" for i in range(3)]
    assert facts.num_rows == 1
    assert facts.columns["worst_size_host"] == ["h0"]
    [empty, _] = frames_of(Moves((), move))
    assert list(empty.columns) == list(main.columns)


@pytest.mark.parametrize(
    ("column", "unit"),
    [("start_s", "s"), ("rate_per_s", "1/s"), ("bandwidth_gb_per_s", "GB/s"), ("gpus", "")],
)
def test_a_unit_is_the_end_of_a_name(column, unit):
    assert unit_of(column) == unit


def test_hostile_names_are_text_in_a_notebook(comparison):
    views = [
        fabric(HOSTILE)._repr_html_(),
        Schedule((), {HOSTILE: HOSTILE})._repr_html_(),
        alloc.Result(
            Allocation((), {HOSTILE: "x"}),
            comparison.bound("elastic-tiny/01").certificate.replace(objective_name=HOSTILE),
        )._repr_html_(),
    ]
    for view in views:
        assert "<script" not in view
        assert "&lt;script&gt;" in view
    assert "fifo" in comparison._repr_html_()


def test_what_cannot_be_had_is_said_in_a_sentence(monkeypatch, comparison):
    with pytest.raises(InstanceError, match=r'no table "row"; did you mean "rows"\? It has rows'):
        comparison.to_pandas("row")
    certificate = comparison.bound("elastic-tiny/01").certificate
    with pytest.raises(AllocError, match="there is no solution: no host"):
        alloc.Result(None, certificate, conflict="no host").to_pandas()
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(BackendUnavailableError, match=rf'pip install "\.\[{name}\]"'):
            getattr(comparison, f"to_{name}")()


@pytest.mark.parametrize("max_items", [1, 2, 100])
def test_the_first_rows_are_those_of_all_and_the_others_are_counted(max_items):
    """Runs have a row for each host: items and rows are not as many."""
    runs = tuple(
        Run(f"job-{k}", 0, float(k), k + 1.0,
            tuple(TaskPlacement(f"h{i}", "worker", 1) for i in range(k % 4)))
        for k in range(30)
    )  # fmt: skip
    whole = frames_of(Schedule(runs))[0]
    first = frames_of(Schedule(runs), max_items)[0]
    assert first.num_rows == whole.num_rows
    assert whole.num_left_out == 0
    for name, cells in first.columns.items():
        assert list(cells) == list(whole.columns[name])[: len(cells)]
        assert len(cells) + first.num_left_out == whole.num_rows


def test_a_notebook_makes_no_more_rows_of_a_schedule_than_it_shows(monkeypatch):
    """A cell of a hundred thousand runs is there at once."""
    made = []
    flat = frames._flat
    monkeypatch.setattr(frames, "_flat", lambda record: made.append(record) or flat(record))
    runs = tuple(Run(f"job-{k}", 0, float(k), k + 1.0) for k in range(5_000))
    view = Schedule(runs)._repr_html_()
    assert "4,990 more rows" in view
    assert "job-9" in view
    assert "job-10" not in view
    assert len(made) == 10
