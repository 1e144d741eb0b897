"""Replicas under requests: by hand, against queueing theory, and beside the closed form."""

from typing import Any

import numpy as np
import pytest
from inference_problems import a_class, an_option

from alloc.errors import InstanceError
from alloc.problems.inference_sizing.request_stream import RequestStream
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass, TokenCounts
from alloc.problems.inference_sizing.served import ReplicaOption
from alloc.problems.inference_sizing.serving import Load, latencies, sustainable_rate
from alloc.simulation.serving import draw_requests, serve

# A prompt token takes 1 ms, a decoding step 100 ms whatever the batch.
PLAIN = ReplicaOption("g", 1, 1000.0, ((1, 10.0), (2, 20.0)))


def stream(*requests: tuple[float, int, int]) -> RequestStream:
    arrival, prompt, answer = zip(*requests, strict=True)
    return RequestStream(
        np.array(arrival, dtype=float),
        np.array(prompt),
        np.array(answer),
        np.zeros(len(arrival), dtype=np.int64),
    )


def test_a_request_alone_takes_its_prompt_and_its_steps():
    served = serve(PLAIN, 2, 1, stream((1.0, 500, 11)), warm_up=0.0)
    assert served.ttft_s.tolist() == pytest.approx([0.5])
    assert served.tpot_s.tolist() == pytest.approx([0.1])


def test_a_prompt_waits_for_the_running_step_and_stops_the_others():
    """The second request comes at 0.25 s, in the step from 0.2 to 0.3; its prompt takes 0.2 s.

    The first, of 11 tokens, decodes from 0.1 s, pauses from 0.3 to 0.5 s and ends at 1.3 s.
    """
    served = serve(PLAIN, 2, 1, stream((0.0, 100, 11), (0.25, 200, 1)), warm_up=0.0)
    assert served.ttft_s.tolist() == pytest.approx([0.1, 0.25])
    assert served.tpot_s[0] == pytest.approx((1.3 - 0.1) / 10)
    assert np.isnan(served.tpot_s[1])


def test_a_full_batch_makes_the_next_request_wait():
    """Two places, both taken until 1.2 s: the third prompt begins then."""
    served = serve(PLAIN, 2, 1, stream((0.0, 100, 11), (0.0, 100, 11), (0.1, 100, 2)), warm_up=0.0)
    # The first is paused by the second's prompt: 0.1 .. 0.2 prompt, then ten steps to 1.2 s.
    assert served.waited_s[2] == pytest.approx(1.1)
    assert served.ttft_s[2] == pytest.approx(1.2)


def test_the_smaller_batch_takes_the_next_request():
    two = serve(PLAIN, 2, 2, stream((0.0, 100, 100), (1.0, 100, 5)), warm_up=0.0)
    assert two.ttft_s.tolist() == pytest.approx([0.1, 0.1])
    assert two.tpot_s.tolist() == pytest.approx([0.1, 0.1])


def test_with_one_place_and_one_token_it_is_a_plain_queue():
    """M/G/1 by Pollaczek and Khinchine: the engine adds nothing of its own."""
    kind = RequestClass(
        "x", (1.0,), TokenCounts((200, 1000), (0.5, 0.5)), TokenCounts((1,), (1.0,))
    )
    load = Load((kind,), (1.0,), PLAIN, 1, 1.0)
    rate = 1.0
    served = serve(PLAIN, 1, 1, draw_requests(load, rate, 60_000, np.random.default_rng(0)))
    second = (0.2**2 + 1.0**2) / 2
    assert served.waited_s.mean() == pytest.approx(rate * second / (2 * (1 - rate * 0.6)), rel=0.06)


@pytest.mark.parametrize(("replicas", "cap"), [(1, 8), (2, 8), (4, 4), (12, 8)])
def test_the_closed_form_is_near_the_simulation_at_its_own_limit(replicas, cap):
    """Two fidelities: at the rate where the closed form misses exactly as much as it may, the
    simulation misses between a tenth and twice as much, and never more places are in use."""
    goals: dict[str, Any] = {"ttft": LatencyGoal(1.5, 95), "tpot": LatencyGoal(0.2, 95)}
    kind = a_class(1.0, **goals)
    load = Load((kind,), (1.0,), an_option(), cap, 1.0)
    rate = sustainable_rate(load, replicas)
    state = latencies(load, replicas, rate)
    served = serve(
        load.option, cap, replicas, draw_requests(load, rate, 20_000, np.random.default_rng(5))
    )
    assert served.place_share <= state.place_share * 1.05
    worst = max(predicted / allowed for _, _, predicted, allowed in state.goals())
    assert worst == pytest.approx(1.0, abs=1e-3)
    ratios = [
        served.misses(0, measure, goals[measure].seconds)[0] / allowed
        for _, measure, _, allowed in state.goals()
    ]
    assert 0.1 <= max(ratios) <= 2.0


def test_burstier_requests_wait_longer_in_both():
    kind = a_class(1.0)
    steady, bursty = (Load((kind,), (1.0,), an_option(), 8, scv) for scv in (1.0, 4.0))
    assert sustainable_rate(bursty, 2) < sustainable_rate(steady, 2)
    drawn = [draw_requests(x, 1.0, 20_000, np.random.default_rng(2)) for x in (steady, bursty)]
    assert drawn[1].arrival_scv == pytest.approx(4.0, rel=0.1)
    waits = [serve(an_option(), 8, 1, s).waited_s.mean() for s in drawn]
    assert waits[1] > waits[0]


def test_what_cannot_be_served_is_refused():
    with pytest.raises(InstanceError, match="at least one of each"):
        serve(PLAIN, 1, 0, stream((0.0, 1, 1)))
    with pytest.raises(InstanceError, match="none of 0 requests is left"):
        serve(PLAIN, 1, 1, stream((0.0, 1, 1)).between(5, 6))
    with pytest.raises(InstanceError, match="go back in time"):
        stream((1.0, 1, 1), (0.0, 1, 1))
