"""The longest way through a run with several workers."""

import pytest

from benchmarks.workers import Run


def test_a_search_beside_others_is_as_long_as_it_works_and_waits() -> None:
    run = Run(30.0, 10.0, 20.0, 5, 12.0, 1.0, 0.1, ())
    assert run.longest_way_s == pytest.approx(10.0 + 12.0)
    assert run.work_s == pytest.approx(10.0 + 20.0)
