"""The comparison that the tests of reports share: it takes seconds to make."""

from __future__ import annotations

import pytest
from report_pages import make_instance

from alloc.comparison import Comparison, compare


@pytest.fixture(scope="session")
def comparison() -> Comparison:
    return compare(
        [make_instance("small-01"), make_instance("small-02", 3)],
        ["fifo", "drf"],
        seeds=(0, 1),
        time_limit_s=20,
    )
