"""Streams of requests, recorded or drawn, and the classes that describe them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass, TokenCounts

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RequestStream:
    """Requests in order of arrival.

    Parameters
    ----------
    arrival_s
        Arrivals, seconds, not decreasing, shape (requests,).
    input_tokens, output_tokens
        Tokens of each, 1 or more, shape (requests,).
    kind
        Position of each request's class, shape (requests,).
    """

    arrival_s: Array
    input_tokens: Whole
    output_tokens: Whole
    kind: Whole

    def __post_init__(self) -> None:
        number = len(self.arrival_s)
        for name in ("input_tokens", "output_tokens", "kind"):
            if len(getattr(self, name)) != number:
                raise InstanceError(
                    f"request stream: has {number} arrivals and {len(getattr(self, name))} "
                    f"{name}; give one per request."
                )
        if not np.isfinite(self.arrival_s).all():
            raise InstanceError("request stream: an arrival is missing (NaN); leave it out.")
        if number and (np.diff(self.arrival_s) < 0).any():
            raise InstanceError("request stream: arrivals go back in time; sort them.")
        for name, least in (("input_tokens", 1), ("output_tokens", 1), ("kind", 0)):
            if number and (lowest := int(getattr(self, name).min())) < least:
                raise InstanceError(
                    f"request stream: {name} is {lowest}; it must be {least} or more."
                )

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.arrival_s)

    @property
    def rate_per_s(self) -> float:
        """Mean requests per second between the first and the last; 0 of fewer than two."""
        span = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) > 1 else 0.0
        return (len(self) - 1) / span if span > 0 else 0.0

    @property
    def arrival_scv(self) -> float:
        """Squared coefficient of variation of the times between requests; 1 of Poisson ones."""
        gaps = np.diff(self.arrival_s)
        mean = float(gaps.mean()) if len(gaps) else 0.0
        return float(gaps.var()) / mean**2 if mean > 0 else 1.0

    def between(self, start_s: float, end_s: float) -> RequestStream:
        """Return the requests that arrive from `start_s` on and before `end_s`.

        Parameters
        ----------
        start_s, end_s
            Times, seconds.
        """
        here = (self.arrival_s >= start_s) & (self.arrival_s < end_s)
        return RequestStream(
            self.arrival_s[here], self.input_tokens[here], self.output_tokens[here], self.kind[here]
        )

    def request_class(
        self,
        name: str,
        *,
        ttft: LatencyGoal | None = None,
        tpot: LatencyGoal | None = None,
        periods: int = 1,
    ) -> RequestClass:
        """Return the class that describes these requests: their rate and their tokens.

        Parameters
        ----------
        name
            Name of the class.
        ttft, tpot
            Its goals.
        periods
            Periods with this rate.

        Raises
        ------
        InstanceError
            If there are fewer than two requests.
        """
        if len(self) < 2:
            raise InstanceError(
                f'request class "{name}": the stream has {len(self)} requests; a rate needs two or '
                "more."
            )
        return RequestClass(
            name,
            (self.rate_per_s,) * periods,
            TokenCounts.of(self.input_tokens.tolist()),
            TokenCounts.of(self.output_tokens.tolist()),
            ttft,
            tpot,
        )
