"""Peaks of use: what sorting finds is what a look at every moment finds."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alloc.verification import peaks as module
from alloc.verification.peaks import peaks_of


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((1, 7, 50_000)), st.booleans(), st.booleans())
def test_the_peaks_are_those_of_every_moment(
    seed: int, at_a_time: int, limited: bool, together: bool
) -> None:
    """However few demands are sorted at a time, and wherever use is limited."""
    rng = random.Random(seed)
    num, num_keys = rng.randint(0, 30), rng.randint(1, 6)
    keys = np.array([rng.randrange(num_keys) for _ in range(num)], dtype=np.int64)
    starts = [rng.choice((0.0, 1.0, 2.5, rng.random())) for _ in range(num)]
    spans = np.array([(s, s + rng.choice((0.5, 1.0, 1.5))) for s in starts]).reshape(-1, 2)
    if together and num:  # as in a round
        spans[:] = spans[0]
    demands = np.array([[rng.randint(0, 4), 0, rng.randint(0, 9)] for _ in range(num)])
    demands = demands.reshape(-1, 3).astype(np.int64)
    most = np.array([[rng.randint(0, 9) for _ in range(3)] for _ in range(num_keys)])
    use = np.zeros((num_keys, 3), dtype=np.int64)
    at: dict[tuple[int, int], set[float]] = {}
    for now_s in sorted({*spans.reshape(-1).tolist()}):
        runs = (spans[:, 0] <= now_s) & (now_s < spans[:, 1])
        for k in range(num_keys):
            held = demands[runs & (keys == k)].sum(axis=0)
            for r in range(3):
                if held[r] > use[k, r]:
                    use[k, r], at[k, r] = held[r], set()
                if held[r] == use[k, r]:
                    at.setdefault((k, r), set()).add(now_s)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MAX_DEMANDS", at_a_time)
        peaks, times = peaks_of(keys, spans, demands, num_keys, most if limited else None)
    assert (peaks == use).all()
    for k, r in np.argwhere(use > (most if limited else 0)).tolist():
        assert times[k, r] in at[k, r]
