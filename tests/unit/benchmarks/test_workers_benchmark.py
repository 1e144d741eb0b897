"""The longest way through a run with several workers."""

from dataclasses import replace

import pytest

from benchmarks.workers import Run, longest_way

RUN = Run(30.0, 10.0, 20.0, 5, 12.0, 4.0, 1.0, 0.1, ())


def test_a_search_beside_others_is_as_long_as_it_works_and_waits() -> None:
    assert longest_way(RUN, False, 2) == pytest.approx(10.0 + 12.0)


def test_who_waits_for_blocks_shares_them_but_for_those_solved_beside() -> None:
    assert longest_way(RUN, True, 2) == pytest.approx(10.0 + (20.0 - 4.0) / 2)


def test_no_run_is_shorter_than_an_even_share_of_its_work() -> None:
    assert longest_way(replace(RUN, beside_s=20.0), True, 2) == pytest.approx(15.0)
