"""Operating a cluster: decide what is on and what runs, from Python objects or JSON documents.

The functions for the command line and the server: problems and results as documents, policies by
name, decisions with their certificate, and the same over a stream of jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar

from alloc.capacity.operation import OperationPlan, OperationProblem
from alloc.capacity.operation_instance import operation_from_instance as operation_from_instance
from alloc.capacity.operation_result import OperationResult
from alloc.certificate import OPTIMALITY_GAP
from alloc.documents.files import read_bytes, write_text
from alloc.documents.layout import layout
from alloc.documents.operation import (
    decode_operation,
    decode_operation_plan,
    decode_operation_result,
    encode_operation,
    encode_operation_plan,
    encode_operation_result,
)
from alloc.documents.parsing import parse_document
from alloc.errors import InstanceError
from alloc.planning.operation_simulation import simulate_operation as simulate_operation
from alloc.solving.capacity.operation import solve_operation
from alloc.solving.capacity.operation_policies import POLICIES, decide_operation
from alloc.solving.outcome import Settings
from alloc.verification.operation import verify_operation as verify_operation

Path = str | PathLike[str]
T = TypeVar("T")


def operate(
    problem: OperationProblem,
    policy: str = "exact",
    *,
    time_limit_s: float = 10.0,
    seed: int = 0,
    workers: int = 1,
    gap: float = OPTIMALITY_GAP,
    report: Callable[[str], None] | None = None,
) -> OperationResult:
    """Decide what is on and what runs until the next event.

    Parameters
    ----------
    problem
        The decision.
    policy
        Name of a policy, see `operation_policies`.
    time_limit_s
        Wall time, seconds.
    seed
        Random seed.
    workers
        Threads of the solver.
    gap
        Relative gap at which ``exact`` may stop.
    report
        Takes a line of progress; ``exact`` only.

    Raises
    ------
    InstanceError
        If there is no such policy.

    Examples
    --------
    >>> from alloc.instances.operation import generate_operation
    >>> result = operate(generate_operation(num_nodes=3, num_jobs=8))
    >>> result.certificate.gap <= 1e-6
    True
    """
    settings = Settings(time_limit_s, seed, workers)
    if policy == "exact":
        return solve_operation(problem, settings, gap=gap, report=report)
    return decide_operation(problem, policy, settings)


def operation_policies() -> dict[str, str]:
    """Return the title of each policy by name."""
    return {policy.name: policy.title for policy in POLICIES.values()}


def write_operation(problem: OperationProblem, path: Path | None = None) -> str:
    """Return a decision as a JSON document, and write it if a path is given."""
    return _written(encode_operation(problem), path)


def parse_operation(text: str | bytes) -> OperationProblem:
    """Read a decision from the text of a JSON document.

    Raises
    ------
    InstanceError
        If the document is malformed or the problem contradicts itself.
    """
    return decode_operation(parse_document(text, "operation"))


def load_operation(path: Path) -> OperationProblem:
    """Read a decision from a JSON file; see `parse_operation`."""
    return _loaded(path, parse_operation)


def write_operation_plan(plan: OperationPlan, path: Path | None = None) -> str:
    """Return a plan as a JSON document, and write it if a path is given."""
    return _written(encode_operation_plan(plan), path)


def parse_operation_plan(text: str | bytes) -> OperationPlan:
    """Read a plan from the text of a JSON document; the judge says whether it is feasible.

    Raises
    ------
    InstanceError
        If the document is malformed.
    """
    return decode_operation_plan(parse_document(text, "operation_plan"))


def load_operation_plan(path: Path) -> OperationPlan:
    """Read a plan from a JSON file; see `parse_operation_plan`."""
    return _loaded(path, parse_operation_plan)


def write_operation_result(result: OperationResult, path: Path | None = None) -> str:
    """Return a result as a JSON document, and write it if a path is given."""
    return _written(encode_operation_result(result), path)


def parse_operation_result(text: str | bytes) -> OperationResult:
    """Read a result from the text of a JSON document.

    Raises
    ------
    InstanceError
        If the document is malformed.
    """
    return decode_operation_result(parse_document(text, "operation_result"))


def load_operation_result(path: Path) -> OperationResult:
    """Read a result from a JSON file; see `parse_operation_result`."""
    return _loaded(path, parse_operation_result)


def _written(document: dict[str, Any], path: Path | None) -> str:
    text = layout(document)
    if path is not None:
        write_text(path, text)
    return text


def _loaded(path: Path, parse: Callable[[bytes], T]) -> T:
    """Read a file; what is wrong in it is said with its name."""
    data = read_bytes(path)
    try:
        return parse(data)
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}") from None
