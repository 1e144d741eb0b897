"""Metrics of the server, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """Counters and gauges of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "alloc_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "alloc_http_request_seconds",
            "Time to the end of an answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.jobs = Counter(
            "alloc_jobs", "Jobs that ended.", ("operation", "state"), registry=self.registry
        )
        self.submitted = Counter(
            "alloc_jobs_submitted", "Jobs accepted.", ("operation",), registry=self.registry
        )
        self.job_seconds = Histogram(
            "alloc_job_seconds",
            "Time that jobs spent in a worker.",
            ("operation",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.wait_seconds = Histogram(
            "alloc_job_wait_seconds",
            "Time that jobs waited for a worker.",
            ("operation",),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Report a number that is asked for when metrics are read.

        Parameters
        ----------
        name
            Its name, such as ``alloc_queue_length``.
        help_text
            What it counts, one sentence.
        value
            Returns the number now.
        """
        Gauge(name, help_text, registry=self.registry).set_function(value)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
