"""Replicas under requests, event by event.

The second opinion on `alloc.problems.inference_sizing.serving`.

Replicas decode in steps; a prompt that a replica takes in stops its steps from the end of the
running one (prefill first). Requests wait in one queue, first come first served; the first goes to
the replica with the smallest batch among those that have a place and process no prompt. Steps of an
unchanged batch are skipped over, so that a request costs a few events however long it is.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from alloc.errors import InstanceError
from alloc.problems.inference_sizing.request_stream import RequestStream
from alloc.problems.inference_sizing.requests import RequestClass
from alloc.problems.inference_sizing.served import ReplicaOption
from alloc.problems.inference_sizing.serving import Load, prompt_s

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Served:
    """What a simulation measured, request by request.

    Parameters
    ----------
    kind
        Position of each request's class, shape (requests,).
    ttft_s
        Time to the first token, seconds, shape (requests,).
    tpot_s
        Time per output token after the first, seconds; NaN for requests of one token.
    waited_s
        Time in the queue, seconds.
    place_share
        Share of the batch places in use, mean over time.
    """

    kind: Whole
    ttft_s: Array
    tpot_s: Array
    waited_s: Array
    place_share: float

    def misses(self, kind: int, measure: str, seconds: float) -> tuple[float, int]:
        """Return the share of a class above a latency, and of how many requests.

        Parameters
        ----------
        kind
            Position of the class.
        measure
            ``"ttft"`` or ``"tpot"``.
        seconds
            The latency.
        """
        values = (self.ttft_s if measure == "ttft" else self.tpot_s)[self.kind == kind]
        number = len(values)
        late = int((values > seconds * (1 + 1e-9)).sum())  # NaN compares as not late
        return (late / number if number else 0.0), number


@dataclass
class _Replica:
    """A replica: its batch, and the steps it has made."""

    active: list[tuple[int, int]] = field(default_factory=list)
    """Heap of (step at whose end a request finishes, request)."""
    steps: int = 0
    since_s: float = 0.0
    """When the step after `steps` began."""
    prompt: int | None = None
    """The request whose prompt is processed or waits for the end of a step."""
    version: int = 0
    """Raised when an event planned for the replica no longer holds."""


class _Engine:
    """The event loop of a group of replicas."""

    def __init__(self, option: ReplicaOption, batch_cap: int, replicas: int) -> None:
        self.option, self.cap = option, batch_cap
        self.step_s = [0.0] + [option.step_s(k) for k in range(1, batch_cap + 1)]
        self.replicas = [_Replica() for _ in range(replicas)]
        self.queue: deque[int] = deque()
        self.events: list[tuple[float, int, int, str]] = []

    def run(self, stream: RequestStream) -> tuple[Array, Array, Array]:
        """Serve a stream; return when prompts begin, first tokens come, and requests finish."""
        number = len(stream)
        self.inputs = stream.input_tokens.tolist()
        self.outputs = stream.output_tokens.tolist()
        self.begun = [math.nan] * number
        self.first = [math.nan] * number
        self.done = [math.nan] * number
        arrivals = stream.arrival_s.tolist()
        following = 0
        while following < number or self.events:
            if self.events and (following == number or self.events[0][0] <= arrivals[following]):
                now, r, version, what = heapq.heappop(self.events)
                replica = self.replicas[r]
                if version != replica.version:
                    continue
                if what == "first token":
                    self._first_token(r, now)
                else:
                    self._finish(r, now)
                self._take_in(now)
            else:
                now = arrivals[following]
                self.queue.append(following)
                following += 1
                self._take_in(now)
        return np.array(self.begun), np.array(self.first), np.array(self.done)

    def _take_in(self, now: float) -> None:
        """Hand waiting requests to replicas with a place and no prompt."""
        while self.queue:
            best = -1
            fewest = self.cap
            for r, replica in enumerate(self.replicas):
                if replica.prompt is None and len(replica.active) < fewest:
                    best, fewest = r, len(replica.active)
            if best < 0:
                return
            self._begin_prompt(best, self.queue.popleft(), now)

    def _begin_prompt(self, r: int, request: int, now: float) -> None:
        """Let the running step end, then process the prompt."""
        replica = self.replicas[r]
        start = now
        if replica.active:
            step = self.step_s[len(replica.active)]
            made = math.ceil(max(now - replica.since_s, 0.0) / step - 1e-9)
            # A request that finishes at that very step does so before the prompt.
            start = max(replica.since_s + made * step, now)
            replica.steps += made
        replica.prompt = request
        replica.version += 1
        self.begun[request] = now
        end = start + prompt_s(self.option, self.inputs[request])
        while replica.active and replica.active[0][0] <= replica.steps:
            self.done[heapq.heappop(replica.active)[1]] = start
        heapq.heappush(self.events, (end, r, replica.version, "first token"))

    def _first_token(self, r: int, now: float) -> None:
        """Let a request whose prompt is processed join the batch."""
        replica = self.replicas[r]
        request = replica.prompt
        assert request is not None
        replica.prompt = None
        self.first[request] = now
        if self.outputs[request] > 1:
            last = replica.steps + self.outputs[request] - 1
            heapq.heappush(replica.active, (last, request))
        else:
            self.done[request] = now
        self._go_on(r, now)

    def _finish(self, r: int, now: float) -> None:
        """Let the requests finish whose last step ends now."""
        replica = self.replicas[r]
        replica.steps = replica.active[0][0]
        while replica.active and replica.active[0][0] == replica.steps:
            self.done[heapq.heappop(replica.active)[1]] = now
        self._go_on(r, now)

    def _go_on(self, r: int, now: float) -> None:
        """Decode from now on, and plan the end of the shortest request."""
        replica = self.replicas[r]
        replica.since_s = now
        replica.version += 1
        if replica.active:
            steps = replica.active[0][0] - replica.steps
            end = now + steps * self.step_s[len(replica.active)]
            heapq.heappush(self.events, (end, r, replica.version, "finish"))


def serve(
    option: ReplicaOption,
    batch_cap: int,
    replicas: int,
    stream: RequestStream,
    *,
    warm_up: float = 0.1,
) -> Served:
    """Serve a stream of requests with replicas that are alike.

    Parameters
    ----------
    option
        How a replica runs.
    batch_cap
        Most requests that it decodes at once.
    replicas
        Replicas, 1 or more.
    stream
        The requests.
    warm_up
        Share of the requests, from the first, that are served but not measured.

    Raises
    ------
    InstanceError
        If there is no replica or no request to measure.
    """
    if replicas < 1 or batch_cap < 1:
        raise InstanceError(
            f"serving: {replicas} replicas of batch cap {batch_cap}; give at least one of each."
        )
    skipped = int(len(stream) * warm_up)
    if skipped >= len(stream):
        raise InstanceError(
            f"serving: none of {len(stream)} requests is left to measure; give more requests or "
            "a warm_up below 1."
        )
    begun, first, done = _Engine(option, batch_cap, replicas).run(stream)
    kept = slice(skipped, None)
    tokens = stream.output_tokens - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        tpot = np.where(tokens > 0, (done - first) / tokens, np.nan)
    span = max(float(done.max() - stream.arrival_s[0]), 1e-9)
    share = float((done - begun).sum()) / (span * replicas * batch_cap)
    return Served(
        stream.kind[kept],
        (first - stream.arrival_s)[kept],
        tpot[kept],
        (begun - stream.arrival_s)[kept],
        share,
    )


def draw_requests(
    load: Load, rate_per_s: float, number: int, rng: np.random.Generator
) -> RequestStream:
    """Draw requests at random from the classes of a load.

    Times between arrivals are gamma distributed with the squared coefficient of variation of the
    load (exponential at 1); input and output are independent within a class.

    Parameters
    ----------
    load
        The classes and their mix; the replica in it is not used.
    rate_per_s
        Requests per second, more than 0.
    number
        Requests, 1 or more.
    rng
        Source of randomness.
    """
    shape = 1 / load.arrival_scv
    gaps = rng.standard_gamma(shape, number) / (shape * rate_per_s)
    mix = np.array(load.mix)
    kind = rng.choice(len(mix), size=number, p=mix / mix.sum())
    inputs = np.ones(number, dtype=np.int64)
    outputs = np.ones(number, dtype=np.int64)
    for k, request_class in enumerate(load.classes):
        here = np.flatnonzero(kind == k)
        inputs[here], outputs[here] = _draw_tokens(request_class, len(here), rng)
    return RequestStream(np.cumsum(gaps), inputs, outputs, kind.astype(np.int64))


def _draw_tokens(
    request_class: RequestClass, number: int, rng: np.random.Generator
) -> tuple[Whole, Whole]:
    drawn = []
    for counts in (request_class.inputs, request_class.outputs):
        shares = np.array(counts.shares)
        drawn.append(rng.choice(np.array(counts.tokens), size=number, p=shares / shares.sum()))
    return drawn[0], drawn[1]
