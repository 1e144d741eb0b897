"""Operations: what the server can be asked to do, by name.

To add one, write its request (a `Request`), the function that runs it, and a line here. The
function lives in a module that workers load when they start, so it may load solvers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from alloc.errors import InstanceError
from alloc.server.problems import blame
from alloc.server.requests import (
    CompareRequest,
    ExplainRequest,
    PlaceRequest,
    Request,
    SolveRequest,
)
from alloc.server.requests_files import InspectFilesRequest, ReadFilesRequest
from alloc.server.requests_planning import FrontRequest, PlanRequest, WhatIfRequest
from alloc.server.requests_sizing import (
    OperateRequest,
    PlanQuotasRequest,
    SizeInferenceRequest,
)

Tell = Callable[[str], None]
"""Takes a line about how far the work is."""


@dataclass(frozen=True)
class Limits:
    """What a job may use.

    Parameters
    ----------
    job_limit_s
        Most wall time of a job, seconds.
    threads
        Most threads of a solver.
    max_body_bytes
        Largest body of a request, bytes; what is made to be sent back as one is no larger.
    """

    job_limit_s: float
    threads: int
    max_body_bytes: int = 32 * 2**20


@dataclass(frozen=True)
class Operation:
    """Something that the server can be asked to do.

    Parameters
    ----------
    name
        Its address under ``/v1/``.
    summary
        What it does, in a line.
    request
        The model of its body.
    run
        ``module:function`` of ``(request, tell, limits) -> document``: JSON text or plain values.
    returns
        What the result is, in a line.
    seconds
        Wall time that a request asks for, or None if it has no bound but the server's. A request
        that asks for more than the server allows is refused.
    simulates
        Whether a request simulates beside its solves: then its bound is the server's, too. Any
        other job is stopped soon after the time that it asks for.
    """

    name: str
    summary: str
    request: type[Request]
    run: str
    returns: str
    seconds: Callable[[Any], float | None] = lambda request: None
    simulates: Callable[[Any], bool] = lambda request: False

    def execute(self, request: Request, tell: Tell, limits: Limits) -> bytes:
        """Run it; return the JSON document of the result.

        Parameters
        ----------
        request
            The request, an instance of `request` of the operation.
        tell
            Takes lines of progress.
        limits
            What the job may use.
        """
        module, _, function = self.run.partition(":")
        document = getattr(import_module(module), function)(request, tell, limits)
        if isinstance(document, str):
            return document.encode()
        return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()

    def require_time(self, request: Request, limits: Limits) -> float | None:
        """Return the wall time that a request asks for, seconds; None if it has no bound.

        Parameters
        ----------
        request
            The request.
        limits
            What the job may use.

        Raises
        ------
        ProblemError
            If it is more than the server allows.
        """
        wanted = self.seconds(request)
        if wanted is not None and wanted > limits.job_limit_s:
            with blame("/time_limit_s", "invalid-request"):
                raise InstanceError(
                    f"time_limit_s asks for {wanted:g} s, and this server runs a job for at most "
                    f"{limits.job_limit_s:g} s; ask for less."
                )
        return wanted

    def stop_after(self, request: Request, limits: Limits) -> float | None:
        """Return the wall time soon after which a job is stopped, seconds; None: the server's.

        Parameters
        ----------
        request
            The request.
        limits
            What the job may use.

        Raises
        ------
        ProblemError
            If the request asks for more than the server allows.
        """
        seconds = self.require_time(request, limits)
        return None if self.simulates(request) else seconds


def _time_limit(request: Any) -> float:
    return float(request.time_limit_s)


def _all_solves(request: Any) -> float:
    return float(request.seconds)


def _replays(request: Any) -> bool:
    return request.replay is not None


OPERATIONS: Sequence[Operation] = (
    Operation(
        "solve",
        "Solve a problem of any family, with a proof of how good the answer is.",
        SolveRequest,
        "alloc.server.runs:run_solve",
        "A result document.",
        _time_limit,
    ),
    Operation(
        "place",
        "Place a queue on a cluster as it stands.",
        PlaceRequest,
        "alloc.server.runs:run_place",
        "A result document, and what was broken before.",
        _time_limit,
    ),
    Operation(
        "explain",
        "Say why waiting jobs cannot start now, and what would let them.",
        ExplainRequest,
        "alloc.server.runs:run_explain",
        "For each job whether it starts, the reason if not, and the cures.",
    ),
    Operation(
        "compare",
        "Run schedulers on instances, against the certified bound.",
        CompareRequest,
        "alloc.server.runs:run_compare",
        "A comparison document.",
    ),
    Operation(
        "plan",
        "Find the cheapest hosts to buy or rent for a forecast, with a proof.",
        PlanRequest,
        "alloc.server.runs_planning:run_plan",
        "A plan report: the plan with its certificate, and what the replay measured.",
        _all_solves,
        _replays,
    ),
    Operation(
        "what-if",
        "Plan a changed problem and compare it with the base.",
        WhatIfRequest,
        "alloc.server.runs_planning:run_what_if",
        "A what-if document: the proved difference, the base and the changed plan.",
        _all_solves,
        _replays,
    ),
    Operation(
        "pareto",
        "Draw the front of a plan's cost against goals, energy or carbon.",
        FrontRequest,
        "alloc.server.runs_planning:run_front",
        "A front: the cheapest plan within each limit, each with its certificate.",
        _all_solves,
    ),
    Operation(
        "size-inference",
        "Find the cheapest replicas that serve every request within its latency goals.",
        SizeInferenceRequest,
        "alloc.server.runs_sizing:run_size_inference",
        "An inference result document: replicas with their certificate, and what was simulated.",
        _time_limit,
        lambda request: True,
    ),
    Operation(
        "plan-quotas",
        "Find tenants' quotas under uncertain demand.",
        PlanQuotasRequest,
        "alloc.server.runs_sizing:run_plan_quotas",
        "A quota result document: quotas with their certificate, and what tenants get.",
        _time_limit,
        lambda request: True,
    ),
    Operation(
        "operate",
        "Decide which nodes are on and what runs on them until the next event.",
        OperateRequest,
        "alloc.server.runs_sizing:run_operate",
        "An operation result document: the decision with its certificate.",
        _time_limit,
    ),
    Operation(
        "inspect-files",
        "Say what uploaded files are, and which column of a job table is what.",
        InspectFilesRequest,
        "alloc.server.runs_files:run_inspect_files",
        "An inspection: the role of each file, columns, and the options of reading them.",
        _time_limit,
    ),
    Operation(
        "read-files",
        "Make an instance, or a cluster, of uploaded files.",
        ReadFilesRequest,
        "alloc.server.runs_files:run_read_files",
        "A reading: an instance or a topology, with the account of what was left out.",
        _time_limit,
    ),
)


def operations(modules: Sequence[str] = ()) -> Mapping[str, Operation]:
    """Return all operations by name, also those of other modules.

    Raises
    ------
    InstanceError
        If a module cannot be loaded, or two operations have the same name.
    """
    found: dict[str, Operation] = {}
    for operation in (*OPERATIONS, *(one for module in modules for one in _offered_by(module))):
        if operation.name in found:
            raise InstanceError(f'two operations are called "{operation.name}"; rename one.')
        found[operation.name] = operation
    return found


def _offered_by(module: str) -> Sequence[Operation]:
    try:
        offered: Sequence[Operation] = import_module(module).OPERATIONS
    except (ImportError, AttributeError) as error:
        raise InstanceError(
            f'server: operations of "{module}" cannot be loaded ({error}); name a module that '
            "Python finds, with OPERATIONS in it."
        ) from error
    return offered
