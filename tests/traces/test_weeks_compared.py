"""A week of ITP and one of a Philly virtual cluster, compared: the bound is below everyone.

The data is not part of the repository; ``test_real_traces.py`` says where it is looked for.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alloc.comparison import compare
from alloc.instances.readers import read_instance

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("ALLOC_TRACES", ROOT.parent / "shared" / "data" / "traces"))
WINDOW = {"length_s": 7 * 86400.0, "slot_s": 1200.0}
ITP = ("itp", "microsoft-itp-2021/raw/cluster06.csv.gz")
PHILLY = ("philly", "microsoft-philly-2017/philly_jobs_pollux.csv.gz")


@pytest.fixture(autouse=True)
def _traces_are_there() -> None:
    if not TRACES.is_dir():
        pytest.skip(
            f"WEEKS OF REAL TRACES ARE NOT COMPARED: there is no folder {TRACES}. "
            "Set ALLOC_TRACES to the folder of the trace extracts."
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "options", "num_jobs"),
    [
        (ITP, {"start_s": 1_814_400.0, "cluster_gpus": 112}, 339),
        (PHILLY, {"vc": "6c71a0", "start": "2017-10-09", "cluster_gpus": 64}, 410),
    ],
    ids=["itp-week", "philly-vc"],
)
def test_bound_of_a_trace_week_is_below_every_scheduler(
    source: tuple[str, str], options: dict[str, object], num_jobs: int
) -> None:
    """The windows of the README, end to end: proved again in numpy, a few percent, below all."""
    kind, path = source
    instance, account = read_instance(kind, TRACES / path, **WINDOW, **options)
    assert len(instance.jobs) == num_jobs
    assert account.rows_skipped == 0
    comparison = compare([instance], ["fifo", "srtf"], time_limit_s=45.0)
    assert comparison.failures == ()
    bound = comparison.bounds[instance.fingerprint]
    assert bound.certificate is not None
    assert bound.certificate.verified
    assert bound.certificate.bound_proof == "recomputed"
    assert bound.certificate.gap is not None
    assert bound.certificate.gap <= 0.10
    assert bound.value is not None
    below = [row.objective > bound.value for row in comparison.rows]
    assert below == [True, True, True]
