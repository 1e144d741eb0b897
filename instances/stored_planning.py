"""Planning problems by id: the examples of the documentation, and those of the library.

Ids without a slash are examples, made by recipe; ``planning-small/01`` and its like have best known
bounds in the manifest, to measure solvers on.
"""

from __future__ import annotations

from alloc.errors import InstanceError, nearest
from alloc.instances.planning import generate_planning
from alloc.instances.recipes.planning import EXAMPLES as EXAMPLES
from alloc.instances.stored import load_problem, manifest
from alloc.problems.right_sizing import PlanningProblem

PLANNING = "planning"
"""Kind of their documents."""


def stored_planning_ids() -> tuple[str, ...]:
    """Return the ids of all planning problems: the examples, small ones first, and the stored."""
    return (*EXAMPLES, *(entry.id for entry in manifest(PLANNING)))


def load_stored_planning(problem_id: str) -> PlanningProblem:
    """Return the planning problem of an id.

    Raises
    ------
    InstanceError
        If there is none, its file was changed, or it cannot be generated as it was.

    Examples
    --------
    >>> load_stored_planning("planning-tiny").num_quarters
    2
    """
    if problem_id in EXAMPLES:
        line, arguments = EXAMPLES[problem_id]
        problem = generate_planning(problem_id, **arguments)
        return problem.replace(description={**problem.description, "about": line})
    known = stored_planning_ids()
    if problem_id not in known:
        raise InstanceError(
            f'no stored planning problem "{problem_id}"{nearest(problem_id, known) or ";"} '
            f"known: {', '.join(known)}."
        )
    found: PlanningProblem = load_problem(problem_id)
    return found
