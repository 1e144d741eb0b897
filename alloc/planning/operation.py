"""Operating a cluster: decide what is on and what runs, from Python objects or JSON documents.

The functions for the command line and the server: problems and results as documents, policies by
name, decisions with their certificate, and the same over a stream of jobs.
"""

from __future__ import annotations

from alloc.documents.formats import format_of
from alloc.planning.operation_simulation import simulate_operation as simulate_operation
from alloc.problems.operation.from_instance import (
    operation_from_instance as operation_from_instance,
)
from alloc.problems.operation.problem import OperationProblem
from alloc.problems.operation.report import OperationReport
from alloc.result import Limits
from alloc.solving.operation.policies import POLICIES, decide_operation
from alloc.solving.outcome import Progress, Settings
from alloc.solving.solver import solve
from alloc.verification.operation import operation_costs
from alloc.verification.operation import verify_operation as verify_operation


def operate(
    problem: OperationProblem,
    policy: str = "exact",
    *,
    limits: Limits = Limits(seconds=10.0),
    progress: Progress | None = None,
) -> OperationReport:
    """Decide what is on and what runs until the next event.

    An interrupt (Ctrl-C) of ``exact`` is a result, with what was found until then.

    Parameters
    ----------
    problem
        The decision.
    policy
        Name of a policy, see `operation_policies`.
    limits
        Time, seed and threads; the gap at which ``exact`` may stop.
    progress
        Takes a line of progress; ``exact`` only.

    Raises
    ------
    InstanceError
        If there is no such policy.

    Examples
    --------
    >>> from alloc.instances.operation import generate_operation
    >>> report = operate(generate_operation(num_nodes=3, num_jobs=8))
    >>> report.result.gap <= 1e-6
    True
    """
    if policy == "exact":
        result = solve(problem, limits=limits, progress=progress)
    else:
        result = decide_operation(problem, policy, Settings.of(limits))
    if result.solution is None:
        raise KeyboardInterrupt  # every job may wait, so only an interrupt leaves no plan
    costs = operation_costs(problem, result.solution, result.certificate.objective_name)
    return OperationReport(result, costs)


def operation_policies() -> dict[str, str]:
    """Return the title of each policy by name."""
    return {policy.name: policy.title for policy in POLICIES.values()}


_DECISION = format_of("operation")
_PLAN = format_of("operation_plan")
_REPORT = format_of("operation_report")

write_operation, parse_operation, load_operation = _DECISION.write, _DECISION.parse, _DECISION.load
# Whether a plan is feasible is for the checker to say.
write_operation_plan, parse_operation_plan = _PLAN.write, _PLAN.parse
load_operation_plan = _PLAN.load
write_operation_report, parse_operation_report = _REPORT.write, _REPORT.parse
load_operation_report = _REPORT.load
