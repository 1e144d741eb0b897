"""A week of ITP and one of a Philly virtual cluster, compared: the bound is below everyone.

The data is not part of the repository; ``test_real_traces.py`` says where it is looked for.
"""

from __future__ import annotations

import pytest
from needs import need_data

from alloc.comparison import compare
from alloc.instances.readers import read_instance
from benchmarks.data import data_folder

TRACES = data_folder("traces")
WINDOW = {"length_s": 7 * 86400.0, "slot_s": 1200.0}
ITP = ("itp", "microsoft-itp-2021/raw/cluster06.csv.gz")
PHILLY = ("philly", "microsoft-philly-2017/philly_jobs_pollux.csv.gz")


@pytest.fixture(autouse=True)
def _traces_are_there() -> None:
    need_data("traces")


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
    """The weeks of docs/benchmarks.md, whole: proved again in numpy, a few percent, below all."""
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
