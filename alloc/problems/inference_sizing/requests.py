"""Requests to a served model: how many tokens they have, how fast they come, what they want."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from alloc.errors import InstanceError
from alloc.units import require_non_negative, require_positive

QUANTILES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1)
"""Edges of the bins in which distributions of tokens are kept: narrow where percentiles look."""

_SHARES_SUM = 1e-6
"""How far from 1 shares may sum: with seven digits they pass, with two they do not."""
_MAX_TOKENS = 100_000_000
"""Tokens of one request: no context window holds as many, so more are surely those of a day."""


@dataclass(frozen=True)
class TokenCounts:
    """A distribution of tokens per request, as a histogram.

    Parameters
    ----------
    tokens
        Numbers of tokens, 1 or more each, strictly increasing.
    shares
        Share of the requests that have each, more than 0; they sum to 1.
    """

    tokens: tuple[int, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        where = "token histogram"
        if not self.tokens or len(self.tokens) != len(self.shares):
            raise InstanceError(
                f"{where}: has {len(self.tokens)} tokens and {len(self.shares)} shares; give one "
                "share for each, and at least one."
            )
        for value in self.tokens:
            require_tokens(value, where, "tokens")
        if any(a >= b for a, b in pairwise(self.tokens)):
            raise InstanceError(f"{where}: tokens are not in increasing order; sort them.")
        for share in self.shares:
            require_positive(share, where, "shares")
        if abs(sum(self.shares) - 1) > _SHARES_SUM:
            raise InstanceError(
                f"{where}: shares sum to {sum(self.shares):g}; divide them so that they sum to 1."
            )

    @cached_property
    def mean(self) -> float:
        """Mean tokens per request."""
        return sum(n * p for n, p in zip(self.tokens, self.shares, strict=True))

    @cached_property
    def second_moment(self) -> float:
        """Mean of the square of the tokens per request."""
        return sum(n * n * p for n, p in zip(self.tokens, self.shares, strict=True))

    @property
    def variance(self) -> float:
        """Variance of the tokens per request."""
        return max(self.second_moment - self.mean**2, 0.0)

    @property
    def largest(self) -> int:
        """Most tokens of the histogram; of many observed, the mean of the largest 0.1 %."""
        return self.tokens[-1]

    def counts(self) -> TokenCounts:
        """Return the histogram itself."""
        return self

    @staticmethod
    def of(observed: Sequence[int]) -> TokenCounts:
        """Return the histogram of observed requests.

        Up to 15 bins between the `QUANTILES`, each at its rounded mean; fewer values are kept as
        they are.

        Raises
        ------
        InstanceError
            If there are none, or one is not positive.
        """
        if not len(observed):
            raise InstanceError("token histogram: no request was observed; give at least one.")
        ordered = np.sort(np.asarray(observed, dtype=np.int64))
        require_tokens(int(ordered[0]), "token histogram", "smallest observation")
        values, number = np.unique(ordered, return_counts=True)
        if len(values) >= len(QUANTILES):
            edges = [round(q * len(ordered)) for q in QUANTILES]
            bins = [ordered[a:b] for a, b in pairwise(edges) if a < b]
            values = np.array([round(float(part.mean())) for part in bins])
            number = np.array([len(part) for part in bins])
        shares: dict[int, float] = {}
        for value, count in zip(values.tolist(), number.tolist(), strict=True):
            shares[value] = shares.get(value, 0.0) + count / len(ordered)
        return TokenCounts(tuple(shares), tuple(shares.values()))


@dataclass(frozen=True)
class TokenSummary:
    """A distribution of tokens per request of which only the mean and one percentile are known.

    The log-normal distribution with these two is taken, in bins between the `QUANTILES`.

    Parameters
    ----------
    mean
        Mean tokens per request, 1 or more.
    percentile
        Which percentile is known, above 50 and below 100.
    value
        Tokens that this percentage of the requests does not exceed, the mean or more.
    """

    mean: float
    percentile: float
    value: float

    def __post_init__(self) -> None:
        where = "token summary"
        require_tokens(self.mean, where, "mean")
        require_tokens(self.value, where, "value")
        if not 50 < self.percentile < 100:
            raise InstanceError(
                f"{where}: percentile is {self.percentile:g}; give one above 50 and below 100, "
                "such as 95."
            )
        most = self.mean * math.exp(self._z**2 / 2)
        if not self.mean <= self.value <= most:
            raise InstanceError(
                f"{where}: percentile {self.percentile:g} is {self.value:g} tokens and the mean "
                f"{self.mean:g}; a log-normal distribution has it between {self.mean:g} and "
                f"{most:.4g}, so give a histogram instead."
            )

    @property
    def _z(self) -> float:
        return NormalDist().inv_cdf(self.percentile / 100)

    @cached_property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        # ln value = ln mean - sigma^2/2 + z sigma; of the two roots the one with less variance.
        return self._z - math.sqrt(max(self._z**2 - 2 * math.log(self.value / self.mean), 0.0))

    def counts(self) -> TokenCounts:
        """Return the histogram."""
        normal = NormalDist()
        shares: dict[int, float] = {}
        for low, high in pairwise(QUANTILES):
            # Mean of the log-normal between two quantiles, in closed form.
            below = [
                0.0 if q == 0 else 1.0 if q == 1 else normal.cdf(normal.inv_cdf(q) - self.sigma)
                for q in (low, high)
            ]
            inside = self.mean * (below[1] - below[0]) / (high - low)
            tokens = max(round(inside), 1)
            shares[tokens] = shares.get(tokens, 0.0) + (high - low)
        return TokenCounts(tuple(shares), tuple(shares.values()))


@dataclass(frozen=True)
class LatencyGoal:
    """A latency that a percentage of the requests must keep.

    Parameters
    ----------
    seconds
        The latency, seconds, more than 0.
    percentile
        Percentage of the requests that must not exceed it, 1 or more and below 100.
    """

    seconds: float
    percentile: float

    def __post_init__(self) -> None:
        where = "latency goal"
        require_positive(self.seconds, where, "seconds")
        if 0 < self.percentile < 1:
            raise InstanceError(
                f"{where}: percentile is {self.percentile:g}; it is a percentage, so write "
                f"{100 * self.percentile:g} for a share of {self.percentile:g}."
            )
        if not 1 <= self.percentile < 100:
            raise InstanceError(
                f"{where}: percentile is {self.percentile:g}; give one from 1 to below 100, "
                "such as 99 (no finite number of GPUs keeps a latency for all requests)."
            )

    @property
    def allowed(self) -> float:
        """Share of the requests that may exceed the latency."""
        return 1 - self.percentile / 100


@dataclass(frozen=True)
class RequestClass:
    """Requests of one kind: their rate, their sizes and their goals.

    Parameters
    ----------
    name
        Name, unique in the model.
    rate_per_s
        Mean requests per second in each period, 0 or more.
    input_tokens
        Prompt tokens per request.
    output_tokens
        Generated tokens per request.
    ttft
        Goal for the time to the first token, or None.
    tpot
        Goal for the time per output token after the first, or None.
    """

    name: str
    rate_per_s: tuple[float, ...]
    input_tokens: TokenCounts | TokenSummary
    output_tokens: TokenCounts | TokenSummary
    ttft: LatencyGoal | None = None
    tpot: LatencyGoal | None = None

    def __post_init__(self) -> None:
        where = f'request class "{self.name}"'
        if not self.name:
            raise InstanceError("a request class has no name; name it.")
        if not self.rate_per_s:
            raise InstanceError(f"{where}: rate_per_s is empty; give one rate per period.")
        for rate in self.rate_per_s:
            require_non_negative(rate, where, "rate_per_s")

    @cached_property
    def inputs(self) -> TokenCounts:
        """Histogram of the prompt tokens."""
        return self.input_tokens.counts()

    @cached_property
    def outputs(self) -> TokenCounts:
        """Histogram of the generated tokens."""
        return self.output_tokens.counts()


def require_tokens(value: float, where: str, field: str) -> None:
    """Refuse token counts below 1 or beyond belief.

    Parameters
    ----------
    value
        Tokens of one request.
    where, field
        Whose number it is and what it is called, for the message.
    """
    if not value >= 1:
        raise InstanceError(f"{where}: {field} is {value:g}; it must be 1 or more.")
    if value > _MAX_TOKENS:
        raise InstanceError(
            f"{where}: {field} is {value:g}, more than {_MAX_TOKENS:,} tokens; count tokens per "
            "request, not per day."
        )
