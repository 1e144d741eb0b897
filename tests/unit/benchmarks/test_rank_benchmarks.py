"""The benchmarks of rank mapping and of its core run, and say no when the answer is no."""

import numpy as np
import pytest

from benchmarks import qaplib, rank_mapping

RING = "4\n0 1 0 1\n1 0 1 0\n0 1 0 1\n1 0 1 0\n0 1 2 3\n1 0 1 2\n2 1 0 1\n3 2 1 0\n"


@pytest.fixture
def orlib(tmp_path, monkeypatch):
    """A library of one problem of our own: a ring of four on a line costs 12."""
    folder = tmp_path / "qap"
    folder.mkdir()
    (folder / "ring4.dat").write_text(RING)
    monkeypatch.setenv("ALLOC_ORLIB", str(tmp_path))

    def known(best: int) -> None:
        (folder / "optima.csv").write_text(
            f"instance,n,best_known,proven_optimal,lower_bound,source\nring4,4,{best},yes,{best},x\n"
        )

    return known


def test_a_problem_whose_best_known_value_is_reached_holds(orlib, capsys):
    orlib(12)
    assert qaplib.main(["--limit", "5"]) == 0
    out = capsys.readouterr().out
    assert "reached" in out
    assert "1 of 1 proved optimal" in out
    assert "holds (1 of 1)" in out


def test_a_bound_above_the_best_known_value_is_an_alarm(orlib):
    """Either the bound is wrong or the table is: no run may pass over it."""
    orlib(11)
    with pytest.raises(AssertionError, match=r"bound 12.0 is above 11.0"):
        qaplib.main(["--limit", "5"])


def test_unknown_names_and_folders_are_said(orlib, capsys, monkeypatch, tmp_path):
    orlib(12)
    assert qaplib.main(["nug99"]) == 1
    assert "no problem is called nug99" in capsys.readouterr().out
    monkeypatch.setenv("ALLOC_ORLIB", str(tmp_path / "elsewhere"))
    assert qaplib.main([]) == 1
    assert "set ALLOC_ORLIB" in capsys.readouterr().out


def test_the_mesh_has_six_nvlinks_a_gpu():
    """The published wiring: a wrong number would make another machine."""
    links = np.zeros(8, dtype=int)
    for (a, b), count in rank_mapping.NVLINKS.items():
        links[[a, b]] += count
    assert links.tolist() == [6] * 8
    assert rank_mapping.v100_mesh().num_gpus == 8


@pytest.mark.long
def test_the_mesh_is_proved_and_beats_the_naive_order(capsys):
    assert rank_mapping.main(["--only-mesh", "--limit", "30"]) == 0
    out = capsys.readouterr().out
    assert out.count("holds") == 4
    assert "MISSED" not in out


def test_a_case_is_measured_beside_three_other_orders():
    case = rank_mapping.cases()[0]
    answer, cpu, others = rank_mapping.measure(case, 30.0)
    assert answer.status == "optimal"
    assert cpu >= 0
    assert answer.objective <= min(others) * (1 + 1e-9)
    assert len(others) == 3
