"""Philly: virtual clusters, wall-clock windows, machine lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alloc.errors import InstanceError
from alloc.instances.readers import (
    philly_instance,
    read_philly,
    read_philly_machines,
    read_philly_vcs,
)

DATA = Path(__file__).parents[2] / "data" / "traces"
PHILLY = DATA / "philly.csv"
VCS = DATA / "philly-vcs.csv"
MACHINES = DATA / "machines.csv"


def test_every_row_is_read_or_counted_with_its_reason() -> None:
    """The blank last line of the published file is not a row."""
    jobs, report = read_philly(PHILLY)
    assert [(j.id, j.tenant, j.num_gpus) for j in jobs] == [
        ("philly-2", "aaa111", 1),
        ("philly-3", "aaa111", 8),
        ("philly-4", "bbb222", 2),
        ("philly-5", "aaa111", 64),
    ]
    assert jobs[0].submit_s - jobs[1].submit_s == 7200.0
    assert report.rows_read == 4
    assert {t.reason: t.count for t in report.skipped} == {
        "timestamp is not YYYY-MM-DD HH:MM:SS": 2,
        "gpu_time is not duration times num_gpus": 1,
        "cluster is empty": 1,
    }


def test_a_virtual_cluster_has_its_jobs_and_its_hosts() -> None:
    """Two hosts of 8: the gang of 64 is dropped, the other VC's job is left out, both counted."""
    instance, report = philly_instance(PHILLY, vc="aaa111", vcs=VCS)
    assert [(j.id, j.arrival_s, j.work) for j in instance.jobs] == [
        ("philly-3", 0.0, 7200.0),
        ("philly-2", 7200.0, 3600.0),
    ]
    assert instance.topology.num_gpus == 16
    assert {t.reason: t.count for t in report.dropped} == {
        "of another virtual cluster": 1,
        "larger than the cluster of 16 GPUs": 1,
    }
    assert report.rows_read == len(instance.jobs) + report.num_dropped
    # Only the published file has a source and a licence: any table may have its columns.
    assert "none of its files" in instance.description["source"]
    assert "licence" not in instance.description
    # The broken rows of the VC table are shown as well.
    assert report.also[0].rows_skipped == 2


def test_all_virtual_clusters_together_share_all_their_hosts() -> None:
    """Without a VC the cluster has the hosts of all VCs in the table, and jobs keep their VC."""
    instance, _ = philly_instance(PHILLY, vcs=VCS)
    assert instance.topology.num_hosts == 6
    assert {job.tenant for job in instance.jobs} == {"aaa111", "bbb222"}


def test_machine_lists_are_the_whole_cluster() -> None:
    """Hosts of 2 and 8 GPUs; machines without GPUs are counted; blanks after commas are no text."""
    topology, report = read_philly_machines(MACHINES)
    assert {h.id: h.type for h in topology.hosts} == {
        "m0": "2-gpu-12GB",
        "m1": "8-gpu-24GB",
        "m4": "8-gpu-24GB",
    }
    assert topology.num_gpus == 18
    assert [t.reason for t in report.dropped] == ["machine without GPUs"]
    assert report.rows_skipped == 2
    instance, report = philly_instance(PHILLY, machines=MACHINES)
    assert instance.topology == topology
    assert [job.id for job in instance.jobs] == ["philly-3", "philly-2", "philly-4"]
    revised, _ = read_philly_machines(DATA / "machines-revised.csv")
    assert revised.num_gpus == 12


def test_the_window_is_given_by_the_wall_clock() -> None:
    """People know the trace by its dates."""
    instance, report = philly_instance(
        PHILLY, start="2017-10-09", length_s=2 * 3600.0, num_hosts=8, slot_s=600.0
    )
    assert [(j.id, j.arrival_s) for j in instance.jobs] == [("philly-2", 3600.0)]
    assert report.dropped[0].count == 3
    instance, _ = philly_instance(PHILLY, start="2017-10-09 01:30:00", cluster_gpus=64)
    assert instance.jobs[0].arrival_s == 1800.0


def test_vc_tables_are_read_or_counted() -> None:
    """A VC of no hosts and a VC twice are errors of the table."""
    vcs, report = read_philly_vcs(VCS)
    assert vcs == {"aaa111": 2, "bbb222": 4}
    assert [t.reason for t in report.skipped] == [
        "node num is not between 1 and 1000000",
        "vc appears before",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vc": "aaa11"}, 'vc "aaa11" has no jobs.*did you mean "aaa111"'),
        ({"vc": "aaa111", "machines": MACHINES}, "machines describes the whole cluster"),
        ({"vcs": VCS, "num_hosts": 3}, "vcs and num_hosts both"),
        ({"vcs": VCS, "load": 0.5}, "more than one of"),
        ({"start": "yesterday"}, 'start is "yesterday"; give local time'),
        ({"start": "2017-10-09T00:00:00+00:00"}, "local time without a zone"),
        ({"start": "2016-01-01", "length_s": 60.0}, "no job is submitted"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """Each in a sentence with the value and the cure."""
    with pytest.raises(InstanceError, match=message):
        philly_instance(PHILLY, **options)


def test_a_vc_without_a_number_of_hosts_is_said(tmp_path: Path) -> None:
    """Four of the fifteen VCs in the trace are not in the table of hosts."""
    vcs = tmp_path / "vcs.csv"
    vcs.write_text("vc,node num\nbbb222,4\n")
    with pytest.raises(InstanceError, match='how many hosts vc "aaa111" has'):
        philly_instance(PHILLY, vc="aaa111", vcs=vcs)


def test_a_machine_list_without_gpus_is_refused(tmp_path: Path) -> None:
    """A cluster needs a GPU."""
    path = tmp_path / "machines.csv"
    path.write_text("machineId,number of GPUs\nm0,0\n")
    with pytest.raises(InstanceError, match="lists no machine with a GPU"):
        read_philly_machines(path)
