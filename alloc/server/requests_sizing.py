"""Requests about sizing: the bodies of ``size-inference``, ``plan-quotas`` and ``operate``.

Their problems are the documents of the command line; a worker reads them, and says what is wrong.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from alloc.documents.models import Whole
from alloc.server.requests import Request, Seed, Threads, TimeLimit

_MAX_REQUESTS = 100_000
"""Of each group of replicas: shares of missed goals are then exact to some thousandths."""


def _document(kind: str, about: str) -> Any:
    extra: Any = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
    return Field(description=about, json_schema_extra=extra)


Rounds = Annotated[
    Whole, Field(ge=1, le=20, description="Most rounds of solving and checking the answer.")
]
WhatIf = Annotated[bool, Field(description="Whether to solve with a little more of everything.")]


class SizingRequest(Request):
    """Base of the requests whose problem is read by the worker."""

    problem: dict[str, Any]
    time_limit_s: TimeLimit = 60.0
    seed: Seed = 0
    workers: Threads = 1

    @property
    def document(self) -> str:
        """The problem as JSON text."""
        return json.dumps(self.problem)


class SizeInferenceRequest(SizingRequest):
    """Find the cheapest replicas that serve every request within its latency goals."""

    problem: dict[str, Any] = _document("inference_problem", "An inference problem document.")
    requests: Annotated[Whole, Field(ge=0, le=_MAX_REQUESTS)] = Field(
        10_000, description="Requests to simulate for each group of replicas; 0: none."
    )
    rounds: Rounds = 5
    what_if: WhatIf = True


class PlanQuotasRequest(SizingRequest):
    """Find tenants' quotas under uncertain demand."""

    problem: dict[str, Any] = _document("quota_problem", "A quota problem document.")
    rounds: Rounds = 5
    what_if: WhatIf = True


class OperateRequest(SizingRequest):
    """Decide which nodes are on and what runs on them until the next event."""

    problem: dict[str, Any] = _document("operation", "An operation document.")
    policy: str = Field("exact", description="exact, or a policy: edf, greedy, path-relinking ...")
    time_limit_s: TimeLimit = 10.0
