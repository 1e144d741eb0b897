"""Our FGD, best-fit and random against FGD's published allocation ratios, on openb itself.

The data is not part of the repository. It is looked for in the folder that the environment variable
``ALLOC_TRACES`` names, or in ``../shared/data/traces`` beside the repository.
"""

from __future__ import annotations

from typing import Any

import pytest
from needs import need_data

from alloc.instances.inflation import inflated_arrivals
from alloc.schedulers.placement import BestFit, Fgd, FirstFit, RandomFit
from alloc.schedulers.placement.sequence import place_in_order
from alloc.solving.sharing.offline_packing import pack_offline
from benchmarks import openb

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trace() -> openb.Trace:
    return openb.read_trace(need_data("traces", "alibaba-gpu-v2023-openb").parent)


def test_the_trace_is_the_published_one(trace: openb.Trace) -> None:
    """8,152 pods, 1,523 hosts of which 1,213 have GPUs, 6,212 GPUs; FGD's 95.23 % at 100 %."""
    assert (len(trace.pods), trace.all_hosts.num_hosts, trace.gpu_hosts.num_hosts) == (
        *(8152, 1523, 1213),
    )
    assert trace.gpu_hosts.num_gpus == trace.all_hosts.num_gpus == 6212
    assert trace.published["fgd"][100] == pytest.approx(95.23, abs=0.01)


def test_published_ratios_are_reproduced(trace: openb.Trace) -> None:
    """Three seeds of each rule lie within half a point of the published mean of ten."""
    mix = openb.mix_of(trace.pods)
    rules: dict[str, Any] = {
        "random-fit": RandomFit,
        "best-fit": BestFit,
        "fgd": lambda: Fgd(mix=mix),
    }
    lines = openb.replay(trace.gpu_hosts, trace.pods, rules, (42, 43, 44), bounded=False)
    for name, line in lines.items():
        for percent in openb.POINTS:
            assert line.mean(percent) == pytest.approx(
                trace.published[name][percent], abs=openb.TARGET_POINTS
            ), name


def test_the_offline_bound_is_nearly_reached(trace: openb.Trace) -> None:
    """What 100 % demand allows is bounded by prices, and an allocation comes within 0.5 %."""
    instance = inflated_arrivals(trace.gpu_hosts, trace.pods, seed=42)
    arrived = openb.arrived_by(place_in_order(instance, FirstFit()), 100)
    certificate = pack_offline(arrived, time_limit_s=90).certificate
    assert certificate.bound_proof == "recomputed"
    assert certificate.bound == pytest.approx(6023, abs=3)
    assert certificate.gap is not None
    assert certificate.gap <= 5e-3
