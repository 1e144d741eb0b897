"""The reader of QAPLIB's files: its odd corners, its sentences, and the library itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import need_data

from alloc.errors import InstanceError
from alloc.instances.qaplib import (
    parse_qaplib,
    parse_qaplib_solution,
    read_qaplib,
    read_qaplib_solution,
)
from alloc.problems.quadratic_assignment import QuadraticAssignment

ROOT = Path(__file__).parents[3]

# A file of our own: flows of a ring of three, lengths of a line, numbers over odd line ends.
RING = " 3\n\n 0 4 0\n 0 0 4 4 0\n 0\n\n 0 1 2\n 1 0 1\n 2 1 0\n"


def test_a_problem_is_its_two_matrices_wherever_lines_end(tmp_path):
    path = tmp_path / "ring3.dat"
    path.write_text(RING)
    problem = read_qaplib(path)
    assert problem.name == "ring3"
    assert problem.flow.tolist() == [[0, 4, 0], [0, 0, 4], [4, 0, 0]]
    assert problem.distance.tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    assert problem.cost([0, 1, 2]) == 4 * (1 + 1 + 2)


def test_a_known_value_beside_the_size_is_passed_over():
    """Some esc problems carry it; read as a number of the matrix it would shift all others."""
    plain, valued = parse_qaplib(RING), parse_qaplib(RING.replace(" 3\n", " 3 16\n", 1))
    assert valued.flow.tolist() == plain.flow.tolist()
    assert valued.distance.tolist() == plain.distance.tolist()


def test_one_number_too_many_elsewhere_is_an_error():
    with pytest.raises(InstanceError, match="holds 19 numbers after its size 3"):
        parse_qaplib(RING + "7")


def test_a_solution_is_read_whichever_way_its_permutation_runs():
    """QAPLIB's own files disagree on it."""
    rng = np.random.default_rng(1)
    problem = QuadraticAssignment("p", rng.integers(0, 9, (4, 4)), rng.integers(0, 9, (4, 4)))  # type: ignore[arg-type]
    order = np.array([1, 2, 0, 3])
    value = problem.cost(order)
    assert problem.cost(np.argsort(order)) != value
    for written in (order, np.argsort(order)):
        text = f"4 {value:.0f}\n" + ",".join(str(k + 1) for k in written)
        found = parse_qaplib_solution(text, problem)
        assert found.value == value
        assert problem.cost(found.permutation) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("x 1 2", 'line 1: starts with "x"'),
        ("0", "whole number from 1 to 1000"),
        ("99999999999999999999", "whole number from 1"),
        ("2 0 1 1 0 0 1", "holds 6 numbers after its size 2"),
        ("2 0 1 1 0\n0 one 1 0", 'line 2: "one" is not a number'),
        ("1 nan 0", "is not a number"),
    ],
)
def test_malformed_problems_name_the_line(text, said):
    with pytest.raises(InstanceError, match=said):
        parse_qaplib(text, "bad.dat")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4 1 1 2 3 4", "is for 4 facilities"),
        ("3 16 1 2", "a value and a permutation are 4"),
        ("3 16 1 2 2", "no permutation of 1 to 3"),
        ("3 17 1 2 3", "states 17, but its permutation costs 16"),
    ],
)
def test_malformed_solutions_are_refused(text, said):
    with pytest.raises(InstanceError, match=said):
        parse_qaplib_solution(text, parse_qaplib(RING), "bad.sln")


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(InstanceError, match="cannot be read"):
        read_qaplib(tmp_path / "none.dat")


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0123456789 .,-eE\nnaif\x00ä", max_size=60))
def test_whatever_the_text_the_reader_answers_or_refuses(text):
    """Files come from anywhere; nothing but the reader's own error may leave it."""
    try:
        problem = parse_qaplib(text)
    except InstanceError:
        return
    assert np.isfinite(problem.flow).all()
    assert np.isfinite(problem.distance).all()


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.integers(-99, 99), min_size=2 * n * n, max_size=2 * n * n)
    )
)
def test_what_is_written_is_read(numbers):
    n = int((len(numbers) // 2) ** 0.5)
    text = f"{n}\n" + "\n".join(map(str, numbers))
    problem = parse_qaplib(text)
    assert [*problem.flow.ravel(), *problem.distance.ravel()] == numbers


def test_every_published_solution_has_the_value_it_states():
    """68 solutions by many hands: the reading of both files is right or this fails."""
    files = sorted(need_data("orlib", "qap").glob("*.sln"))
    for path in files:
        problem = read_qaplib(path.with_suffix(".dat"))
        assert read_qaplib_solution(path, problem).value > -1
    assert len(files) == 68
