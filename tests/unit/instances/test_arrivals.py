"""Arrivals follow the pattern that the instance claims."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alloc.errors import InstanceError
from alloc.instances.arrivals import (
    BURST_PERIOD_SLOTS,
    BURST_SHARE,
    PATTERNS,
    draw_arrival_slots,
    poisson,
    resampled,
)


def draw(pattern, num_jobs, per_slot, seed=0, slots_per_day=72.0):
    rng = np.random.default_rng(seed)
    return draw_arrival_slots(pattern, num_jobs, per_slot, rng, slots_per_day=slots_per_day)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_gives_each_job_a_slot_in_order(pattern):
    """Jobs are stored in order of arrival; schedulers break ties by it."""
    slots = draw(pattern, 50, 2.5)
    assert len(slots) == 50
    assert slots == sorted(slots)
    assert min(slots) >= 0


@pytest.mark.parametrize("pattern", PATTERNS)
def test_same_seed_same_arrivals(pattern):
    """A stored instance must be made again from its seed."""
    assert draw(pattern, 40, 1.7, seed=3) == draw(pattern, 40, 1.7, seed=3)


def test_start_puts_all_jobs_in_the_first_slot():
    """The classic offline case."""
    assert draw("start", 4, 1) == [0, 0, 0, 0]


def test_uniform_is_constant_also_at_rates_that_are_not_whole():
    """DL2's uniform pattern is the same number in every slot."""
    assert draw("uniform", 6, 2) == [0, 0, 1, 1, 2, 2]
    assert draw("uniform", 4, 0.5) == [0, 2, 4, 6]
    assert draw("uniform", 6, 1.5) == [0, 0, 1, 2, 2, 3]


def test_poisson_counts_have_equal_mean_and_variance():
    """4,000 slots at rate 3: the mean is within 0.15 of 3 (5 sigma), and so is the variance."""
    counts = np.zeros(4000)
    for slot, n in Counter(draw("poisson", 13000, 3, seed=5)).items():
        if slot < 4000:
            counts[slot] = n
    assert counts.mean() == pytest.approx(3, abs=0.15)
    assert counts.var() == pytest.approx(3, abs=0.4)


@pytest.mark.parametrize("mean", [0.01, 1, 40, 2000])
def test_poisson_draws_have_their_mean(mean):
    """Inversion must not lose the tail, nor fail where exp(-mean) is 0."""
    rng = np.random.default_rng(1)
    draws = [poisson(mean, rng) for _ in range(2000)]
    assert np.mean(draws) == pytest.approx(mean, abs=5 * (mean / 2000) ** 0.5)


def test_poisson_ends_when_the_uniform_draw_is_the_largest_below_one():
    """The sum of the terms may round to less than the draw; the loop must end all the same."""

    class Highest:
        def random(self):
            return 1 - 2**-53

    assert 3 < poisson(3.0, Highest()) <= 160  # type: ignore[arg-type]


def test_bursts_hold_their_share_of_the_jobs():
    """Three quarters of the jobs come in every sixth slot."""
    slots = draw("bursty", 6000, 2, seed=7)
    share = np.mean([slot % BURST_PERIOD_SLOTS == 0 for slot in slots])
    assert share == pytest.approx(BURST_SHARE, abs=0.03)


def test_diurnal_wave_has_its_day():
    """With a day of 12 slots the first half of a day must be busy and the second quiet."""
    slots = draw("diurnal", 6000, 5, seed=7, slots_per_day=12)
    # Over half a wave the mean of the sine is 2/pi, so the busy half holds 0.5 + 0.9/pi.
    assert np.mean([slot % 12 < 6 for slot in slots]) == pytest.approx(0.786, abs=0.03)


def test_unknown_pattern_suggests_the_nearest():
    """The sentence must name the cure."""
    with pytest.raises(InstanceError, match=r'pattern "poison"; did you mean "poisson"\?'):
        draw("poison", 3, 1)


@pytest.mark.parametrize(
    ("per_slot", "message"),
    [
        (0, r"arrivals_per_slot is 0; it must be more than 0"),
        (float("nan"), r"arrivals_per_slot is nan; give a finite number"),
        (1e-9, r"take more than a million slots to arrive; raise the rate"),
    ],
)
def test_rates_that_never_end_are_refused(per_slot, message):
    """A rate of almost 0 would loop for ever."""
    with pytest.raises(InstanceError, match=message):
        draw("uniform", 3, per_slot)


# Processes of one's own.


def every_third(rng):
    """Two jobs in every third slot."""
    while True:
        yield from (2, 0, 0)


def test_a_function_of_ones_own_says_when_jobs_arrive():
    assert draw(every_third, 5, 1.0) == [0, 0, 3, 3, 6]


def test_a_process_of_ones_own_draws_from_the_seed():
    def some(rng):
        while True:
            yield int(rng.random() * 4)

    assert draw(some, 30, 1.0, seed=1) == draw(some, 30, 1.0, seed=1)
    assert draw(some, 30, 1.0, seed=1) != draw(some, 30, 1.0, seed=2)


@pytest.mark.parametrize(
    ("process", "sentence"),
    [
        (lambda rng: 3, "gives 3; it must give the number of jobs"),
        (lambda rng: [1, 2], "ends after 3 of 9 jobs; let it go on"),
        (lambda rng: [1, -1], "gives -1 for slot 1; it must give the number of jobs"),
        (lambda rng: [0.5] * 99, "gives 0.5 for slot 0"),
        (lambda rng: [True] * 99, "gives True for slot 0"),
        (lambda rng: itertools.repeat(0), "takes more than a million slots for 9 jobs"),
    ],
)
def test_a_process_that_gives_something_else_is_refused(process, sentence):
    with pytest.raises(InstanceError, match=sentence):
        draw(process, 9, 1.0)


def test_a_resampled_trace_keeps_its_rate_and_its_bursts():
    """A trace of five jobs at once every ten slots."""
    trace = [600.0 * k for k in range(40) for _ in range(5)]
    counts = Counter(draw(resampled(trace, 60.0, block_s=600.0), 1000, 1.0))
    assert set(counts.values()) == {5}
    # 200 jobs in the 391 slots of the trace.
    assert max(counts) == pytest.approx(1000 * 391 / 200, rel=0.02)


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=40),
    st.floats(100, 1e4),
    st.floats(1, 50),
    st.integers(0, 9),
)
def test_a_resampled_trace_has_the_counts_of_the_trace(times, slot_s, blocks, seed):
    """Whatever the trace: no count that it does not have, in blocks that follow one another."""
    process = resampled(times, slot_s, block_s=blocks * slot_s)
    slots = [int((t - min(times)) // slot_s) for t in times]
    trace = [slots.count(k) for k in range(max(slots) + 1)]
    length = min(int(blocks * slot_s // slot_s), len(trace))
    drawn = list(itertools.islice(process(np.random.default_rng(seed)), 3 * length))
    twice = trace + trace
    for k in range(0, len(drawn), length):
        block = drawn[k : k + length]
        assert any(twice[f : f + length] == block for f in range(len(trace)))


@pytest.mark.parametrize(
    ("times", "slot_s", "block_s", "sentence"),
    [
        ([], 60, 600, "needs at least one arrival"),
        ([float("nan")], 60, 600, "every time finite"),
        ([0.0], 0, 600, "slot_s"),
        ([0.0], 60, 30, "block_s is 30; it must be at least a slot, 60 s"),
        (["noon"], 60, 600, "every time finite, in seconds"),
        ([0.0, 1e12], 60, 600, "more than a million slots"),
        ([0.0, 1e300], 1e-10, 600, "more than a million slots"),
    ],
)
def test_a_trace_that_cannot_be_resampled_is_refused(times, slot_s, block_s, sentence):
    with pytest.raises(InstanceError, match=sentence):
        resampled(times, slot_s, block_s=block_s)
