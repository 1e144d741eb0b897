"""The benchmark of foreign worlds: the same instances for all, and ratios that are paired."""

from __future__ import annotations

import pytest

from alloc.instances.dl2 import SERVER
from benchmarks import foreign_worlds
from benchmarks.foreign_worlds import compared, foreign


def test_a_seed_makes_one_instance_and_seeds_differ() -> None:
    """Also in what no training world has: what the tasks of a job take."""
    assert foreign(3) == foreign(3)
    drawn = [foreign(seed) for seed in range(8)]
    tasks = {
        (group.gpu_milli, group.cpu_milli)
        for instance in drawn
        for job in instance.jobs
        for group in job.configurations[-1].tasks
    }
    assert len(tasks) > 4
    assert all(t == SERVER for instance in drawn for t in instance.topology.host_types)


def test_pairs_are_compared_instance_by_instance() -> None:
    """A steady loss of a tenth shows, though instances differ tenfold."""
    said = compared([1.1, 11.0, 110.0], [1.0, 10.0, 100.0])
    assert said == "1.100 [1.100, 1.100], 1.100 to 1.100, better on 0 of 3"
    assert compared([0.5, 2.0], [1.0, 1.0]).startswith("1.000 [")


@pytest.mark.long
def test_every_instance_and_pair_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(foreign_worlds, "SCHEDULERS", ("set-rule", "drf"))
    assert foreign_worlds.main(["--seeds", "0:2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["0", "1"]
    assert lines[-1].startswith("set-rule over drf: 0.")
    assert lines[-1].endswith("better on 2 of 2")
