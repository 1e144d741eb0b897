"""Queues in closed form: Erlang's formulas, waiting times of M/G/c, busy periods.

Plain Python, no solver and no simulation: the model, its tables and the checker all use these.

References
----------
.. [1] A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in
   automatic telephone exchanges", 1917; as in D. Gross et al., *Fundamentals of Queueing Theory*,
   4th ed., 2008, section 2.4.
.. [2] A. O. Allen, *Probability, Statistics, and Queueing Theory with Computer Science
   Applications*, 2nd ed., 1990, section 5.3: the Allen-Cunneen approximation of the mean wait of
   G/G/c, ``W = C(c, a) / (c mu - lambda) * (c_a^2 + c_s^2) / 2``.
.. [3] J. Abate, G. L. Choudhury, W. Whitt, "Exponential approximations for tail probabilities in
   queues, I: waiting times", Operations Research 43(5), 1995: waits are close to exponential.
.. [4] D. P. Heyman, "An approximation for the busy period of the M/G/1 queue using a diffusion
   model", Journal of Applied Probability 11, 1974: the busy period that starts with given work is
   about inverse Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


def erlang_b(servers: int, load: float) -> float:
    """Return the share of calls that find all servers busy and leave (Erlang B).

    Parameters
    ----------
    servers
        Servers, 0 or more.
    load
        Offered load, Erlang (rate times mean service time), more than 0.
    """
    # 1 / B = sum_j c! / ((c - j)! a^j): all terms positive, and the late ones negligible.
    term = inverse = 1.0
    for k in range(servers, 0, -1):
        term *= k / load
        inverse += term
        if k < load and term < 1e-17 * inverse:
            break
        if inverse > 1e300:  # no call is ever lost
            return 0.0
    return 1.0 / inverse


def erlang_c(servers: int, load: float) -> float:
    """Return the probability to wait in M/M/c (Erlang C); 1 when the servers cannot keep up.

    Parameters
    ----------
    servers
        Servers c, 1 or more.
    load
        Offered load a, Erlang, 0 or more.
    """
    if load <= 0:
        return 0.0
    if load >= servers:
        return 1.0
    blocked = erlang_b(servers, load)
    return blocked / (1 - (load / servers) * (1 - blocked))


@dataclass(frozen=True)
class Wait:
    """The waiting time of a queue: none, or else exponential.

    Parameters
    ----------
    probability
        Probability of having to wait.
    drain_per_s
        Rate of the exponential, 1/s; 0 when the queue grows without end.
    """

    probability: float
    drain_per_s: float

    @property
    def is_stable(self) -> bool:
        """Whether the servers keep up."""
        return self.drain_per_s > 0

    @property
    def mean_s(self) -> float:
        """Mean wait, seconds."""
        return self.probability / self.drain_per_s if self.is_stable else math.inf

    def exceeds(self, seconds: float) -> float:
        """Return the probability of a wait longer than this."""
        if seconds < 0:
            return 1.0
        if self.probability == 0:
            return 0.0
        return self.probability * math.exp(-self.drain_per_s * seconds)


def wait_in_queue(
    servers: int, rate_per_s: float, mean_s: float, service_scv: float, arrival_scv: float = 1.0
) -> Wait:
    """Return the waiting time of G/G/c, first come first served ([2], with the tail of [3]).

    Parameters
    ----------
    servers
        Servers, 1 or more.
    rate_per_s
        Arrivals per second.
    mean_s
        Mean service time, seconds.
    service_scv, arrival_scv
        Squared coefficients of variation of the service times and of the times between arrivals.
    """
    load = rate_per_s * mean_s
    if load >= servers:
        return Wait(1.0, 0.0)
    if load <= 0:
        return Wait(0.0, math.inf)
    spread = max((arrival_scv + service_scv) / 2, 1e-9)
    return Wait(erlang_c(servers, load), (servers / mean_s - rate_per_s) / spread)


def sum_exceeds(first: Wait, second: Wait, seconds: float) -> float:
    """Return the probability that two independent waits together are longer than this.

    Parameters
    ----------
    first, second
        Two waiting times, independent of each other.
    seconds
        Time; below 0 every sum is longer.
    """
    if seconds < 0:
        return 1.0
    if not (first.is_stable and second.is_stable):
        return 1.0
    p, a = first.probability, first.drain_per_s
    q, b = second.probability, second.drain_per_s
    tail_a = math.exp(-a * seconds) if p else 0.0
    tail_b = math.exp(-b * seconds) if q else 0.0
    both = 0.0
    if p and q:
        if abs(a - b) <= 1e-6 * max(a, b):
            # The limit of two equal rates: an Erlang distribution of two phases.
            both = (1 + a * seconds) * tail_a
        else:
            both = (b * tail_a - a * tail_b) / (b - a)
    return min(p * (1 - q) * tail_a + q * (1 - p) * tail_b + p * q * both, 1.0)


def busy_period_exceeds(seconds: float, mean_s: float, variance_s2: float) -> float:
    """Return the probability that a busy period of known mean and variance is longer than this.

    The inverse Gaussian with these two moments ([4]).

    Parameters
    ----------
    seconds
        Time.
    mean_s
        Mean, seconds, 0 or more.
    variance_s2
        Variance, seconds squared, 0 or more.
    """
    if variance_s2 <= 1e-12 * mean_s * mean_s:
        return 1.0 if mean_s > seconds * (1 + 1e-12) else 0.0
    if seconds <= 0:
        return 1.0
    shape = mean_s**3 / variance_s2
    root = math.sqrt(shape / seconds)
    ratio = seconds / mean_s
    upper = 0.5 * math.erfc(root * (ratio - 1) / math.sqrt(2))
    # e^(2 shape/mean) Phi(-z): the two factors alone would overflow and underflow.
    z = root * (ratio + 1) / math.sqrt(2)
    rest = 0.5 * _scaled_erfc(z) * math.exp(-((root * (ratio - 1)) ** 2) / 2)
    return min(max(upper - rest, 0.0), 1.0)


def _scaled_erfc(x: float) -> float:
    """Return ``exp(x^2) erfc(x)`` for x above 0."""
    if x < 20:
        return math.exp(x * x) * math.erfc(x)
    square = 1 / (x * x)
    return (1 - square / 2 + 0.75 * square * square) / (x * math.sqrt(math.pi))
