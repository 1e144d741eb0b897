"""Queues in closed form, held against the literature, scipy and simulation."""

import math

import numpy as np
import pytest
from scipy.special import gammaincc
from scipy.stats import invgauss

from alloc.workload.queueing import (
    Wait,
    busy_period_exceeds,
    erlang_b,
    erlang_c,
    sum_exceeds,
    wait_in_queue,
)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (10, 8.0), (500, 470.0), (4096, 4000.0)])
def test_erlang_agrees_with_the_incomplete_gamma_function(servers, load):
    """B(c, a) = a^c e^-a / (c! Q(c + 1, a)): another route to the same number."""
    log_b = servers * math.log(load) - load - math.lgamma(servers + 1)
    blocked = math.exp(log_b) / gammaincc(servers + 1, load)
    assert erlang_b(servers, load) == pytest.approx(blocked, rel=1e-8)
    waits = blocked / (1 - load / servers * (1 - blocked))
    assert erlang_c(servers, load) == pytest.approx(waits, rel=1e-8)


def test_one_server_waits_as_pollaczek_and_khinchine_say():
    """M/G/1: mean wait lambda E[S^2] / (2 (1 - rho)); Allen and Cunneen are exact there."""
    rate, mean, scv = 0.7, 1.0, 2.5
    wait = wait_in_queue(1, rate, mean, scv)
    assert wait.mean_s == pytest.approx(rate * (scv + 1) * mean**2 / (2 * (1 - rate * mean)))


def test_servers_that_cannot_keep_up_are_told_apart():
    assert not wait_in_queue(2, 2.0, 1.0, 1.0).is_stable
    assert wait_in_queue(2, 2.0, 1.0, 1.0).exceeds(1e9) == 1.0
    assert wait_in_queue(2, 0.0, 1.0, 1.0).exceeds(0.0) == 0.0


@pytest.mark.parametrize("drains", [(1.0, 3.0), (2.0, 2.0), (2.0, 2.0000001)])
def test_the_sum_of_two_waits_is_that_of_drawn_ones(drains):
    """Equal rates are a limit that the formula of different ones cannot reach."""
    first, second = Wait(0.4, drains[0]), Wait(0.7, drains[1])
    rng = np.random.default_rng(1)
    number = 400_000
    drawn = [
        np.where(rng.random(number) < w.probability, rng.exponential(1 / w.drain_per_s, number), 0)
        for w in (first, second)
    ]
    for seconds in (0.1, 0.5, 2.0):
        share = float((drawn[0] + drawn[1] > seconds).mean())
        assert sum_exceeds(first, second, seconds) == pytest.approx(share, abs=0.004)


@pytest.mark.parametrize(
    ("seconds", "mean", "variance"), [(1.5, 1, 0.1), (1.2, 1, 0.001), (3, 1, 2), (400, 399, 0.5)]
)
def test_busy_periods_are_inverse_gaussian(seconds, mean, variance):
    shape = mean**3 / variance
    expected = invgauss.sf(seconds, mean / shape, scale=shape)
    assert busy_period_exceeds(seconds, mean, variance) == pytest.approx(expected, rel=1e-6)


def test_a_busy_period_without_variance_is_a_step():
    assert busy_period_exceeds(1.0, 1.0, 0.0) == 0.0
    assert busy_period_exceeds(0.99, 1.0, 0.0) == 1.0
