"""Runs about sizing: ``size-inference``, ``plan-quotas`` and ``operate``, in a worker process.

Parameters
----------
request
    What is asked.
tell
    Takes lines of progress.
limits
    What the server allows.
"""

from __future__ import annotations

from alloc.documents.reading import save
from alloc.errors import InstanceError, nearest
from alloc.planning.inference import require_requests, size_inference
from alloc.planning.operation import operate, operation_policies
from alloc.planning.quotas import plan_quotas
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.operation.problem import OperationProblem
from alloc.problems.quota_planning.problem import QuotaProblem
from alloc.result import Limits as SolveLimits
from alloc.server.operations import Limits, Tell
from alloc.server.problems import blame
from alloc.server.requests_sizing import (
    OperateRequest,
    PlanQuotasRequest,
    SizeInferenceRequest,
    SizingRequest,
)


def run_size_inference(request: SizeInferenceRequest, tell: Tell, limits: Limits) -> str:
    """Return the result document of a sizing."""
    with blame("/problem"):
        problem = InferenceProblem.from_json(request.document)
    with blame("/requests"):
        require_requests(request.requests)
    found = size_inference(
        problem,
        _limits(request, limits),
        replayed_requests=request.requests,
        max_iterations=request.rounds,
        what_if=request.what_if,
        progress=tell,
    )
    return save(found)


def run_plan_quotas(request: PlanQuotasRequest, tell: Tell, limits: Limits) -> str:
    """Return the result document of quotas."""
    with blame("/problem"):
        problem = QuotaProblem.from_json(request.document)
    found = plan_quotas(
        problem,
        _limits(request, limits),
        max_iterations=request.rounds,
        what_if=request.what_if,
        progress=tell,
    )
    return save(found)


def run_operate(request: OperateRequest, tell: Tell, limits: Limits) -> str:
    """Return the result document of a decision."""
    with blame("/policy"):
        known = ("exact", *operation_policies())
        if request.policy not in known:
            raise InstanceError(
                f'unknown policy "{request.policy}"{nearest(request.policy, known) or ";"} '
                f"known: {', '.join(known)}."
            )
    with blame("/problem"):
        problem = OperationProblem.from_json(request.document)
    found = operate(
        problem,
        request.policy,
        limits=_limits(request, limits),
        progress=tell,
    )
    return save(found)


def _limits(request: SizingRequest | OperateRequest, limits: Limits) -> SolveLimits:
    workers = min(request.workers, limits.threads)
    return SolveLimits(request.time_limit_s, seed=request.seed, workers=workers)
