"""The reader of Gavel's co-location tables, on a fixture of our own and on the real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from needs import need_data

from alloc.errors import InstanceError
from alloc.instances.readers.interference import read_gavel_interference
from alloc.problems.colocation import ColocationProblem
from alloc.solving import solve

ALONE = """file,worker_type,gpu,consolidated,job_type,scale_factor,steps_per_second
simulation_throughputs,v100,v100,1,quick,1,10.0
simulation_throughputs,v100,v100,1,slow,1,2.0
simulation_throughputs,v100,v100,1,slow,2,3.0
simulation_throughputs,v100,v100,1,too large,1,0.0
simulation_throughputs,k80,k80,1,quick,1,1.0
"""
PAIRS = """file,worker_type,gpu,consolidated,job_type_a,scale_factor_a,job_type_b,scale_factor_b,\
steps_per_second_a,steps_per_second_b
simulation_throughputs,v100,v100,1,quick,1,slow,1,8.0,1.0
simulation_throughputs,v100,v100,1,slow,1,slow,1,0.0,0.0
simulation_throughputs,v100,v100,1,quick,1,quick,1,6.0,6.0
simulation_throughputs,v100,v100,1,quick,1,slow,2,1.0,1.0
simulation_throughputs,v100,v100,1,quick,1,too large,1,1.0,1.0
simulation_throughputs,v100,v100,1,slow,1,quick,1,many,8.0
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    alone, pairs = tmp_path / "alone.csv", tmp_path / "pairs.csv"
    alone.write_text(ALONE)
    pairs.write_text(PAIRS)
    return alone, pairs


def test_speeds_become_fractions_of_the_speed_alone(files: tuple[Path, Path]) -> None:
    """Rows of other GPUs and of several GPUs are passed over; an unreadable one is counted."""
    table, report = read_gavel_interference(*files)
    assert table.kinds == ("quick", "slow")
    assert np.allclose(table.alone, [10, 2])
    assert np.allclose(table.beside, [[0.6, 0.8], [0.5, 0.0]])
    assert table.speeds(["slow", "slow"]) is None
    assert "1 unreadable" in str(report)


def test_an_unknown_gpu_is_answered_with_the_known_ones(files: tuple[Path, Path]) -> None:
    with pytest.raises(InstanceError, match=r'no speed of one-GPU jobs on "p100".*k80, v100'):
        read_gavel_interference(*files, worker_type="p100")


def test_the_real_tables_pack_a_thousand_jobs() -> None:
    """26 kinds on a V100: 636 of 676 ordered pairs can share (research notes, section 3)."""
    derived = need_data("traces", "gavel", "derived")
    table, report = read_gavel_interference(
        derived / "throughputs_isolated.csv.gz", derived / "throughputs_colocated.csv.gz"
    )
    assert len(table.kinds) == 26
    assert int((table.beside > 0).sum()) == 636
    assert "0 unreadable" in str(report)
    kinds = np.random.default_rng(0).choice(table.kinds, 1000).tolist()
    packing = solve(ColocationProblem(kinds, table, 500))
    assert packing.status == "optimal"
    # Each GPU does more than one job alone would.
    assert packing.objective > 500
