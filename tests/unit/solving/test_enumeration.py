"""Listing the profiles of a proof ends when time is up, wherever it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alloc.instances import generate_elastic
from alloc.models.malleable import slot_data
from alloc.models.malleable.profiles import Profile
from alloc.solving.malleable import enumeration
from alloc.solving.malleable.enumeration import enumerate_profiles


@pytest.mark.parametrize("allowed", [0, 1, 7, 40])
def test_no_profile_is_made_once_time_is_up(allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All profiles of a job were: up to 120,000 of them, two seconds past the limit."""
    made = 0

    def counted(*parts: Any) -> Profile:
        nonlocal made
        made += 1
        return Profile(*parts)

    monkeypatch.setattr(enumeration, "Profile", counted)
    instance = generate_elastic(
        "many", run_slots=(2.0, 4.0), seed=1, num_jobs=3, num_hosts=2, max_workers=2, max_ps=2
    )
    data = slot_data(instance, "weighted_jct")
    prices = np.zeros((12, len(data.rows.names)))

    def listed(stop):
        return enumerate_profiles(data, prices, 11.0, num_states=20, most=20_000, stop=stop)

    assert listed(lambda: made >= allowed) is None
    assert made <= allowed
    listed(lambda: False)
    assert made > 1_000
