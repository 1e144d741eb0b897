"""Requests, replicas and pools: what they compute and what they refuse."""

import dataclasses

import numpy as np
import pytest
from inference_problems import a_class, a_problem, an_option

from alloc.errors import InstanceError
from alloc.problems.inference_sizing.problem import GpuPool, Period
from alloc.problems.inference_sizing.request_stream import RequestStream
from alloc.problems.inference_sizing.requests import (
    LatencyGoal,
    RequestClass,
    TokenCounts,
    TokenSummary,
)
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel
from alloc.problems.inference_sizing.serving import batch_memory_mib


def test_a_summary_keeps_its_mean_and_its_percentile():
    counts = TokenSummary(1000, 99, 4000).counts()
    assert counts.mean == pytest.approx(1000, rel=0.005)
    below = sum(p for n, p in zip(counts.tokens, counts.shares, strict=True) if n <= 4000)
    assert below == pytest.approx(0.99, abs=0.011)


def test_many_observations_are_binned_without_losing_the_mean():
    observed = [n for n in range(1, 2001) for _ in range(2)]
    counts = TokenCounts.of(observed)
    assert len(counts.tokens) <= 15
    assert counts.mean == pytest.approx(1000.5, rel=1e-3)


def test_few_values_are_kept_as_they_are():
    counts = TokenCounts.of([5, 5, 9, 1])
    assert counts == TokenCounts((1, 5, 9), (0.25, 0.5, 0.25))


@pytest.mark.parametrize("wrong", [0, -5])
def test_a_request_without_tokens_is_refused_among_many_too(wrong):
    """In a bin with others it would vanish, and the mean with it."""
    with pytest.raises(InstanceError, match=f"smallest observation is {wrong}; it must be 1"):
        TokenCounts.of([wrong, *range(1, 400)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrival_s": [0.0, np.nan, 2.0]}, "an arrival is missing"),
        ({"arrival_s": [0.0, 2.0, 1.0]}, "go back in time"),
        ({"arrival_s": [0.0, 1.0]}, "give one per request"),
        ({"input_tokens": [5, 0, 5]}, "input_tokens is 0; it must be 1 or more"),
        ({"output_tokens": [5, -1, 5]}, "output_tokens is -1"),
        ({"kind": [0, -1, 0]}, "kind is -1; it must be 0 or more"),
    ],
)
def test_a_stream_holds_requests(changes, message):
    """A class counted from the end, or a gap in time, would be replayed as if it were meant."""
    good = {
        "arrival_s": [0.0, 1.0, 2.0],
        "input_tokens": [5, 5, 5],
        "output_tokens": [5, 5, 5],
        "kind": [0, 0, 0],
    }
    with pytest.raises(InstanceError, match=message):
        RequestStream(**{name: np.array(column) for name, column in {**good, **changes}.items()})


def test_a_batch_between_two_sizes_takes_the_time_of_the_larger():
    """Tabulated, never interpolated: here a batch of 8 is even quicker than one of 4."""
    option = ReplicaOption("g", 1, 1000.0, ((1, 10.0), (4, 20.0), (8, 80.0)))
    assert option.step_s(2) == option.step_s(4) == 0.2
    assert option.step_s(8) == 0.1
    assert option.slowest_step_s(8) == 0.2


def test_the_cache_of_a_batch_leaves_room_for_its_spread():
    model = ServedModel("m", 1000, (a_class(1.0),), (an_option(),), kv_mib_per_token=0.5)
    mean = model.classes[0].inputs.mean + model.classes[0].outputs.mean
    assert batch_memory_mib(model, 1, (1.0,)) > 1000 + 0.5 * mean
    larger = batch_memory_mib(model, 64, (1.0,))
    assert 1000 + 0.5 * 64 * mean < larger < 1000 + 0.5 * 64 * mean * 1.5


GOOD = a_problem(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenCounts((1, 2), (0.5, 0.4)), "sum to 0.9; divide them"),
        (lambda: TokenCounts((2, 1), (0.5, 0.5)), "not in increasing order"),
        (lambda: TokenCounts((0,), (1.0,)), "tokens is 0; it must be 1 or more"),
        (lambda: TokenSummary(100, 99, 9000), "give a histogram instead"),
        (lambda: TokenSummary(100, 40, 100), "give one above 50"),
        (lambda: LatencyGoal(1.0, 100), "no finite number of GPUs"),
        (lambda: LatencyGoal(0.0, 99), "must be more than 0"),
        (lambda: a_class(-1.0), "rate_per_s is -1; it must be 0 or more"),
        (lambda: RequestClass("x", (), TokenCounts((1,), (1.0,)), TokenCounts((1,), (1.0,))),
         "rate_per_s is empty"),
        (lambda: ReplicaOption("g", 1, 1.0, ()), "decode_tokens_per_s is empty"),
        (lambda: ReplicaOption("g", 1, 1.0, ((4, 1.0), (4, 2.0))), "batch 4 after 4"),
        (lambda: an_option(max_batch=0), "max_batch is 0"),
        (lambda: a_problem(1.0, failures=9), "at most 4 at once"),
        (lambda: GpuPool("p", "g", 8, -1, 1.0, 1000), "hosts is -1"),
        (lambda: GpuPool("p", "g", 8, 1, -1.0, 1000), "price_per_gpu_hour is -1"),
        (lambda: GpuPool("p", "g", 8, 1, 1.0, 1000, billing="use"), 'did you mean "used"'),  # type: ignore[arg-type]
        (lambda: Period("p", 0.0), "hours is 0"),
        (lambda: a_problem(1.0, options=(an_option("h10"),)), 'did you mean "h100"'),
        (lambda: a_problem(1.0, options=(an_option(tensor=8),)), "largest host has 4"),
        (lambda: GOOD.replace(periods=(Period("a", 1.0), Period("b", 1.0))),
         "has 1 numbers for 2 periods"),
        (lambda: GOOD.replace(pools=(*GOOD.pools, dataclasses.replace(
            GOOD.pools[0], name="b", currency="EUR"))), "convert them to one currency"),
        (lambda: GOOD.replace(pools=(*GOOD.pools, dataclasses.replace(
            GOOD.pools[0], name="b", gpu_memory_mib=1))), "different names"),
        (lambda: GOOD.replace(models=GOOD.models * 2), 'has model "chatbot" twice'),
        (lambda: GOOD.model("chatbt"), 'did you mean "chatbot"'),
        (lambda: GOOD.models[0].option(("h100", 2, 1)), 'has no option "h100 TP2"'),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_with_the_cure(make, message):
    with pytest.raises(InstanceError, match=message):
        make()


def test_a_share_in_place_of_a_percentage_is_refused_with_the_percentage():
    """0.95 was read as the 0.95th percentile: a goal that nearly all requests may miss."""
    with pytest.raises(InstanceError, match=r"percentile is 0\.95.* so write 95 for"):
        LatencyGoal(2.0, 0.95)
