"""Scaling tables: measured rates become configurations, gaps are counted, nothing is invented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import (
    ScalingPoint,
    read_elasticflow_table,
    read_pollux_placements,
    read_scaling_tables,
    scaling_configurations,
)
from alloc.topology import HostType
from alloc.topology.topology import flat_cluster

DATA = Path(__file__).parents[2] / "data" / "traces"
ALPHA = DATA / "elasticflow" / "alpha.csv"
GAMMA = DATA / "pollux" / "gamma"


def sizes_of(configurations: Any) -> list[tuple[int, str | None, float]]:
    """Return workers, level and rounded rate of each configuration."""
    return [(c.num_tasks("worker"), c.within, round(c.rate, 4)) for c in configurations]


def test_elasticflow_cells_are_read_or_counted() -> None:
    """Zero, empty and nan cells are sizes without a rate; other nonsense spoils its row."""
    table, report = read_elasticflow_table(ALPHA)
    assert table.model == "alpha"
    assert table.points(64) == (
        ScalingPoint(1, 3.0),
        ScalingPoint(2, 5.0),
        ScalingPoint(4, 8.0),
    )
    assert [point.num_gpus for point in table.points(128)] == [1, 2]
    assert table.points(96) == ()
    assert report.rows_read == 2
    assert {t.reason: t.count for t in report.skipped} == {
        "global_batch_size is not a number": 1,
        "global_batch_size appears before": 1,
        "has no rate above 0": 1,
        "a rate is not between 0 and 1e+09": 1,
        "2 is not a number": 1,
    }
    (altered,) = report.altered
    assert altered.count == 3
    assert altered.examples == (
        "alpha line 2: 8 GPUs",
        "alpha line 3: 4 GPUs",
        "alpha line 3: 8 GPUs",
    )


def test_elasticflow_rates_become_configurations_without_a_level() -> None:
    """The table does not say where it was measured, so no level is claimed."""
    table, _ = read_elasticflow_table(ALPHA)
    assert sizes_of(scaling_configurations(table, 64)) == [
        (1, None, 3.0),
        (2, None, 5.0),
        (4, None, 8.0),
    ]


def test_rates_may_be_in_samples() -> None:
    """Samples per second are iterations per second times the global batch size."""
    table, _ = read_elasticflow_table(ALPHA)
    configurations = scaling_configurations(table, 128, unit="samples", gpu_type="a100")
    assert [c.rate for c in configurations] == [256.0, 448.0]
    assert {c.gpu_type for c in configurations} == {"a100"}
    with pytest.raises(InstanceError, match='unit is "epochs"'):
        scaling_configurations(table, 128, unit="epochs")  # type: ignore[arg-type]


def test_a_batch_size_never_measured_has_no_configurations() -> None:
    """Rates are measured, never guessed."""
    table, _ = read_elasticflow_table(ALPHA)
    assert scaling_configurations(table, 96) == ()


@pytest.mark.parametrize(
    "header", ["global_batch_size,1,two", "global_batch_size,0", "global_batch_size,-1"]
)
def test_columns_that_are_no_numbers_of_gpus_are_refused(header: str, tmp_path: Path) -> None:
    """A Gavel table put in the folder by mistake is found out at once."""
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n64,1,2\n")
    with pytest.raises(InstanceError, match="is not a number of GPUs"):
        read_elasticflow_table(path)


def test_pollux_placements_are_read_or_counted() -> None:
    """Ten measurements on five placements; four rows that are none."""
    table, report = read_pollux_placements(GAMMA / "placements.csv")
    assert table.model == "gamma"
    assert {name: (p.num_gpus, p.num_hosts) for name, p in table.placements.items()} == {
        "1": (1, 1),
        "2": (2, 1),
        "11": (2, 2),
        "22": (4, 2),
        "13": (4, 2),
    }
    assert report.rows_read == 10
    assert {t.reason: t.count for t in report.skipped} == {
        "placement is not one digit from 1 to 9 per host": 2,
        "placement and local_bsz appear before": 1,
        "step_time is not above 0": 1,
        "step_time is below 1e-09": 1,
    }


def test_pollux_scalability_has_hosts_and_replicas() -> None:
    """Twelve replicas on six nodes; four replicas cannot be on eight."""
    table, report = read_pollux_placements(GAMMA / "scalability.csv", model="other")
    assert table.model == "other"
    (times,) = table.placements.values()
    assert (times.num_gpus, times.num_hosts, times.step_times_s) == (12, 6, (0.5, 0.6))
    assert [t.reason for t in report.skipped] == ["num_replicas is less than num_nodes"]


def test_one_host_and_several_hosts_are_two_configurations() -> None:
    """At batch 16 two GPUs of one host take 0.12 s a step, of two hosts 0.16 s."""
    table, _ = read_pollux_placements(GAMMA / "placements.csv")
    assert sizes_of(scaling_configurations(table, 16)) == [
        (1, None, 5.0),
        (2, None, 6.25),
        (2, "host", 8.3333),
    ]


def test_the_rate_without_a_level_is_the_slowest_measured() -> None:
    """At batch 32 four GPUs do 4 steps/s as 2+2 and 5 as 1+3: 4 is kept wherever they land."""
    table, _ = read_pollux_placements(GAMMA / "placements.csv")
    assert (4, None, 4.0) in sizes_of(scaling_configurations(table, 32))


def test_step_times_are_interpolated_inside_the_measured_range_only() -> None:
    """Batch 23 is 12 per GPU on two GPUs, half way; one GPU would need 23, beyond what ran."""
    table, _ = read_pollux_placements(GAMMA / "placements.csv")
    assert sizes_of(scaling_configurations(table, 23)) == [
        (2, None, round(1 / 0.21, 4)),
        (2, "host", round(1 / 0.17, 4)),
    ]


def test_sizes_that_no_host_or_no_cluster_holds_are_left_out() -> None:
    """Hosts of one GPU cannot keep two together; two hosts of them cannot hold four."""
    table, _ = read_pollux_placements(GAMMA / "placements.csv")
    small = flat_cluster("small", HostType("one", 1, "a100"), 3)
    assert sizes_of(scaling_configurations(table, 16, small)) == [(1, None, 5.0), (2, None, 6.25)]
    assert scaling_configurations(table, 32, small, gpu_type="h100") == ()
    assert [c.num_tasks("worker") for c in scaling_configurations(table, 32, small)] == [2]


def test_folders_of_both_layouts_are_read(tmp_path: Path) -> None:
    """A folder is what a trace comes with; the account is of all its files."""
    tables, report = read_scaling_tables(DATA / "elasticflow")
    assert sorted(tables) == ["alpha", "beta"]
    assert report.files == ("alpha.csv", "beta.csv")
    tables, report = read_scaling_tables(DATA / "pollux")
    assert list(tables) == ["gamma"]
    assert report.files == ("gamma/placements.csv", "gamma/scalability.csv")
    assert tables["gamma"].points(96) == (ScalingPoint(12, 2.0, 6),)
    with pytest.raises(InstanceError, match="holds no scaling tables"):
        read_scaling_tables(tmp_path)
    with pytest.raises(InstanceError, match="is not a folder"):
        read_scaling_tables(ALPHA)
