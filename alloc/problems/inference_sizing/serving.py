"""What replicas sustain: latencies of a group of replicas in closed form, and its largest rate.

A replica decodes up to a cap of requests in steps (continuous batching, [1]); a prompt that is
processed stops the steps (prefill first, as in vLLM). Requests wait in one queue, first come first
served; the first one goes to a replica that has room in its batch and processes no prompt. So a
request meets two queues:

- *prompts*: n servers, one a replica, with service ``X = overhead + input / prefill speed``;
- *batch places*: n b servers, with service ``S = X + step / 2 + decoding``; the decoding of
  ``output - 1`` tokens takes ``w = (output - 1) step`` of work, stretched by the prompts that come
  meanwhile: mean ``w / (1 - r)``, variance ``w l E[X^2] / (1 - r)^3`` with l the rate of prompts at
  a replica and ``r = l E[X]`` - the busy period of M/G/1 that starts with work w ([2]).

Both waits follow Allen and Cunneen; they are added as if independent. Every batch is taken to be as
slow as the slowest up to its cap. The time to the first token is the waits, the rest of the running
step (taken whole) and the prompt's own X; the time per output token is the stretched decoding over
its tokens, inverse Gaussian with the two moments above. Simulation tells how far this is off
(`alloc.simulation.serving`).

Parameters
----------
load
    What is asked of a replica, whatever the rate.
replicas
    Replicas in the group, 1 or more.
rate_per_s
    Requests to the whole group, per second, 0 or more.
kind
    A class of requests that is present in the load.
goal
    Seconds that a share of the class must keep.

References
----------
.. [1] G.-I. Yu et al., "Orca: A Distributed Serving System for Transformer-Based Generative
   Models", OSDI 2022; W. Kwon et al., "Efficient Memory Management for Large Language Model Serving
   with PagedAttention", SOSP 2023.
.. [2] L. Kleinrock, *Queueing Systems, Volume 1*, 1975, section 5.8 (delay busy periods).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass
from alloc.problems.inference_sizing.served import ReplicaOption, ServedModel
from alloc.workload.queueing import Wait, busy_period_exceeds, sum_exceeds, wait_in_queue

RATE_ACCURACY = 1e-5
"""Relative accuracy of `sustainable_rate`; the rate returned is on the safe side."""
_SPREADS = 3.0
"""Standard deviations of the tokens in a batch that the KV cache has room for."""


@dataclass(frozen=True)
class Moments:
    """Moments of a mix of requests on a replica: prompts X and decoding work w, seconds."""

    step_s: float
    prompt_s: float
    prompt_s2: float
    work_s: float
    work_s2: float
    product_s2: float


@dataclass(frozen=True)
class Load:
    """What the requests of a model ask of a replica of an option at a batch cap.

    Parameters
    ----------
    classes
        The request classes.
    mix
        Share of each among the requests; those of share 0 are left out of everything.
    option, batch_cap
        The replica.
    arrival_scv
        Squared coefficient of variation of the times between requests.
    """

    classes: tuple[RequestClass, ...]
    mix: tuple[float, ...]
    option: ReplicaOption
    batch_cap: int
    arrival_scv: float

    @cached_property
    def present(self) -> list[tuple[float, RequestClass]]:
        """The classes that come, with their shares."""
        return [(p, c) for p, c in zip(self.mix, self.classes, strict=True) if p > 0]

    @cached_property
    def moments(self) -> Moments:
        """Moments of the mix of requests on the replica."""
        option, step = self.option, self.option.slowest_step_s(self.batch_cap)
        sums = [0.0] * 5
        for share, kind in self.present:
            tokens, rate = kind.inputs, option.prefill_tokens_per_s
            x = option.prefill_overhead_s + tokens.mean / rate
            x2 = tokens.variance / rate**2 + x * x
            w = (kind.outputs.mean - 1) * step
            w2 = kind.outputs.variance * step * step + w * w
            # Input and output are independent within a class.
            for k, value in enumerate((x, x2, w, w2, x * w)):
                sums[k] += share * value
        return Moments(step, *sums)

    @cached_property
    def prompts_s(self) -> list[list[tuple[float, float]]]:
        """For each class that comes, how long its prompts take by themselves, with their shares."""
        return [
            [(prompt_s(self.option, n), p) for n, p in zip(c.inputs.tokens, c.inputs.shares,
                                                           strict=True)]
            for _, c in self.present
        ]  # fmt: skip

    @cached_property
    def max_per_replica(self) -> float:
        """A rate per replica that no number of replicas exceeds, requests/s; 0 if none will do.

        Stability, and the goals that depend on nothing but the rate at each replica.
        """
        most = _most_stable(self)
        if most <= 0 or not _keeps_tpot(self, most * 1e-9):
            return 0.0
        if _keeps_tpot(self, most * (1 - 1e-9)):
            return most
        low, high = most * 1e-9, most
        while high - low > RATE_ACCURACY * high / 10:
            middle = (low + high) / 2
            if _keeps_tpot(self, middle):
                low = middle
            else:
                high = middle
        return high


@dataclass(frozen=True)
class Latencies:
    """How a group of replicas does at a rate.

    Parameters
    ----------
    load
        What is asked of it.
    prompt_share
        Share of its time that a replica processes prompts.
    place_share
        Share of the batch places in use.
    prompt_wait, place_wait
        The two waits.
    prompt_rate_per_s
        Prompts per second at a replica.
    """

    load: Load
    prompt_share: float
    place_share: float
    prompt_wait: Wait
    place_wait: Wait
    prompt_rate_per_s: float

    @property
    def is_stable(self) -> bool:
        """Whether the replicas keep up."""
        return self.prompt_wait.is_stable and self.place_wait.is_stable

    def ttft_misses(self, kind: RequestClass, goal: LatencyGoal) -> float:
        """Return the share of a class whose first token comes later than the goal."""
        if not self.is_stable:
            return 1.0
        position = [c for _, c in self.load.present].index(kind)
        left = goal.seconds - self.load.moments.step_s
        missed = 0.0
        for own, share in self.load.prompts_s[position]:
            missed += share * sum_exceeds(self.prompt_wait, self.place_wait, left - own)
        return min(missed, 1.0)

    def tpot_misses(self, kind: RequestClass, goal: LatencyGoal) -> float:
        """Return the share of a class that takes longer per output token than the goal."""
        return tpot_misses(self.load, kind, goal, self.prompt_rate_per_s) if self.is_stable else 1.0

    def meets_goals(self) -> bool:
        """Return whether every class keeps its goals."""
        return self.is_stable and all(missed <= allowed for _, _, missed, allowed in self.goals())

    def goals(self) -> list[tuple[RequestClass, str, float, float]]:
        """Return class, goal, share of misses and share allowed, for each goal there is."""
        found = []
        for _, kind in self.load.present:
            if kind.tpot is not None:
                missed = self.tpot_misses(kind, kind.tpot)
                found.append((kind, "tpot", missed, kind.tpot.allowed))
            if kind.ttft is not None:
                missed = self.ttft_misses(kind, kind.ttft)
                found.append((kind, "ttft", missed, kind.ttft.allowed))
        return found

    @property
    def strain(self) -> float:
        """The largest share of misses over the share allowed; above 1 a goal is missed."""
        if not self.is_stable:
            return math.inf
        return max((missed / allowed for _, _, missed, allowed in self.goals()), default=0.0)


def tpot_misses(
    load: Load, kind: RequestClass, goal: LatencyGoal, prompt_rate_per_s: float
) -> float:
    """Return the share of a class that takes longer per output token than a goal.

    Nothing but the prompts per second at a replica matters.

    Parameters
    ----------
    prompt_rate_per_s
        Prompts at one replica, per second, 0 or more.
    """
    m = load.moments
    idle = 1 - prompt_rate_per_s * m.prompt_s
    if idle <= 0:
        return 1.0
    missed = 0.0
    for tokens, share in zip(kind.outputs.tokens, kind.outputs.shares, strict=True):
        if tokens > 1:
            work = (tokens - 1) * m.step_s
            variance = work * prompt_rate_per_s * m.prompt_s2 / idle**3
            missed += share * busy_period_exceeds(
                goal.seconds * (tokens - 1), work / idle, variance
            )
    return min(missed, 1.0)


def _keeps_tpot(load: Load, prompt_rate_per_s: float) -> bool:
    return all(
        tpot_misses(load, kind, kind.tpot, prompt_rate_per_s) <= kind.tpot.allowed
        for _, kind in load.present
        if kind.tpot is not None
    )


def latencies(load: Load, replicas: int, rate_per_s: float) -> Latencies:
    """Return how `replicas` replicas do when `rate_per_s` requests come to them."""
    m = load.moments
    per_replica = rate_per_s / replicas
    busy = per_replica * m.prompt_s
    idle = 1 - busy
    if idle <= 0:
        never = Wait(1.0, 0.0)
        return Latencies(load, busy, math.inf, never, never, per_replica)
    mean = m.prompt_s + m.step_s / 2 + m.work_s / idle
    stretched = m.work_s2 / idle**2 + m.work_s * per_replica * m.prompt_s2 / idle**3
    half = m.step_s / 2
    second = (
        m.prompt_s2 + 2 * m.product_s2 / idle + stretched
        + 2 * half * (m.prompt_s + m.work_s / idle) + half * half
    )  # fmt: skip
    places = replicas * load.batch_cap
    prompt_scv = max(m.prompt_s2 / m.prompt_s**2 - 1, 0.0) if m.prompt_s else 0.0
    return Latencies(
        load,
        busy,
        rate_per_s * mean / places,
        wait_in_queue(replicas, rate_per_s, m.prompt_s, prompt_scv, load.arrival_scv),
        wait_in_queue(places, rate_per_s, mean, max(second / mean**2 - 1, 0.0), load.arrival_scv),
        per_replica,
    )


@lru_cache(maxsize=1 << 16)
def sustainable_rate(load: Load, replicas: int) -> float:
    """Return the largest rate, requests/s, at which replicas keep every goal; 0 if at none.

    Accurate to `RATE_ACCURACY`, on the safe side.
    """
    if replicas <= 0 or not load.present:
        return 0.0
    most = load.max_per_replica * replicas
    if most <= 0:
        return 0.0

    def strain(rate: float) -> float:
        """Return the logarithm of the strain, within limits that a secant can use."""
        found = latencies(load, replicas, rate).strain
        return math.log(min(max(found, 1e-12), 1e12))

    low, high = most * 1e-9, most
    at_low, at_high = strain(low), strain(high)
    if at_high <= 0:
        return high
    if at_low > 0:
        return 0.0
    # Bracketed secant (Illinois) with a bisection whenever it has not halved the bracket.
    while high - low > RATE_ACCURACY * high:
        width = high - low
        for rate in ((low * at_high - high * at_low) / (at_high - at_low), None):
            # Just off the ends, so that both of them move.
            edge = RATE_ACCURACY * high / 4
            middle = (low + high) / 2 if rate is None else min(max(rate, low + edge), high - edge)
            at_middle = strain(middle)
            if at_middle <= 0:
                low, at_low, at_high = middle, at_middle, at_high / 2
            else:
                high, at_high, at_low = middle, at_middle, at_low / 2
            if high - low <= width / 2:
                break
    return low


def _most_stable(load: Load) -> float:
    """Return the rate per replica at which it just keeps up, requests/s."""
    m = load.moments
    # Stability of the batch places: rate (X + step/2 + w / (1 - rate X)) < b, a quadratic in rate.
    base, cap = m.prompt_s + m.step_s / 2, load.batch_cap
    if m.prompt_s <= 0:
        return cap / (base + m.work_s) if base + m.work_s > 0 else math.inf
    a, b, c = base * m.prompt_s, -(base + m.work_s + cap * m.prompt_s), float(cap)
    root = (-b - math.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a)
    return min(root, 1 / m.prompt_s)


def prompt_s(option: ReplicaOption, tokens: int) -> float:
    """Return how long a prompt takes by itself, seconds.

    Parameters
    ----------
    option
        How the replica runs.
    tokens
        Input tokens of the prompt, 1 or more.
    """
    return option.prefill_overhead_s + tokens / option.prefill_tokens_per_s


def batch_memory_mib(model: ServedModel, batch: int, mix: Sequence[float]) -> float:
    """Return the memory of a replica with a full batch, MiB.

    Weights, and the KV cache of the batch's mean tokens and three standard deviations more, or of
    the single largest request.

    Parameters
    ----------
    model
        Its weights, and the memory of a token in the KV cache.
    batch
        Requests in the batch, 1 or more.
    mix
        Share of each class of the model among the requests, from 0 to 1, sum 1.
    """
    present = [(p, c) for p, c in zip(mix, model.classes, strict=True) if p > 0]
    mean = sum(p * (c.inputs.mean + c.outputs.mean) for p, c in present)
    second = sum(
        p * (c.inputs.variance + c.outputs.variance + (c.inputs.mean + c.outputs.mean) ** 2)
        for p, c in present
    )
    spread = math.sqrt(max(second - mean * mean, 0.0) * batch)
    largest = max((c.inputs.largest + c.outputs.largest for _, c in present), default=0)
    tokens = max(batch * mean + _SPREADS * spread, largest)
    return model.memory_mib + model.kv_mib_per_token * tokens
