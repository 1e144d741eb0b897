"""Requests about plans: the bodies of ``plan``, ``what-if`` and ``pareto``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from alloc.documents.building import built
from alloc.documents.models import Whole
from alloc.documents.typed import PlanningDocument
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.server.requests import DOCUMENT, STORED, Request, Seed, Threads

# A what-if is about a few changes, and every point of a front is a plan of its own to solve.
_MAX_CHANGES = 20
_MAX_POINTS = 20
_GOAL_POINTS = 6
"""Factors of a front of goals when none are given; `alloc.planning.fronts` has them, and solvers.
"""


def _problem_kind(value: Any) -> str:
    return STORED if isinstance(value, str) else DOCUMENT


ProblemField = Annotated[
    Annotated[str, Tag(STORED)] | Annotated[PlanningDocument, Tag(DOCUMENT)],
    Discriminator(_problem_kind),
]
"""A planning document, or the id of a stored problem such as ``planning-tiny``."""

SolveLimit = Annotated[
    float,
    Field(gt=0, description="Wall time of each solve; with a replay of each iteration's, seconds."),
]
Gap = Annotated[
    float, Field(ge=0, description="Relative gap between cost and bound at which to stop.")
]


class ReplayPart(Request):
    """How a plan is replayed in the simulator."""

    scheduler: str = Field("fifo", description="Scheduler of every pool, by name.")
    jobs: Annotated[Whole, Field(ge=20, le=20_000)] = Field(
        1000, description="Jobs of each replication."
    )
    rounds: Annotated[Whole, Field(ge=1, le=20)] = Field(
        5, description="Iterations of planning and replaying, at most."
    )


class PlanRequest(Request):
    """Find the cheapest hosts to buy or rent for a forecast, with a proof."""

    problem: ProblemField = Field(description="The problem, or the id of a stored one.")
    replay: ReplayPart | None = Field(
        None,
        description="Replay the plan and tighten it until the goals hold; left out: no replay.",
    )
    time_limit_s: SolveLimit = 20.0
    gap: Gap = 0.01
    seed: Seed = 0
    workers: Threads = 1

    @property
    def seconds(self) -> float:
        """Wall time of all its solves, seconds."""
        return self.time_limit_s * (1 if self.replay is None else self.replay.rounds)


class WhatIfRequest(PlanRequest):
    """Plan a changed problem and compare it with the base."""

    changes: list[str | dict[str, Any]] = Field(
        [],
        max_length=_MAX_CHANGES,
        description='Changes to apply, one a line, for example "demand=+20%"; programs may '
        'also send objects such as {"change": "demand", "factor": 1.2}.',
    )
    other_scheduler: str | None = Field(
        None, description="Another scheduler for the changed plan; needs a replay."
    )
    gap: Gap = 0.001

    @property
    def seconds(self) -> float:
        """Wall time of all its solves, seconds."""
        return 2 * super().seconds


class FrontRequest(Request):
    """Draw the front of a plan's cost against goals, energy or carbon."""

    problem: ProblemField = Field(description="The problem, or the id of a stored one.")
    axis: Literal["goals", "energy", "carbon"] = Field("goals", description="The other axis.")
    points: Annotated[Whole, Field(ge=2, le=_MAX_POINTS)] = Field(
        6, description="Points of a front of energy or carbon."
    )
    factors: list[Annotated[float, Field(gt=0)]] | None = Field(
        None,
        min_length=1,
        max_length=_MAX_POINTS,
        description="By what all goals are multiplied, for a front of goals.",
    )
    time_limit_s: SolveLimit = 10.0
    gap: Gap = 0.01
    seed: Seed = 0
    workers: Threads = 1

    @property
    def seconds(self) -> float:
        """Wall time of all its solves, seconds."""
        goals = self.axis == "goals"
        solves = len(self.factors or ()) or _GOAL_POINTS if goals else self.points
        return self.time_limit_s * solves


def planning_problem_of(part: PlanningDocument | str) -> PlanningProblem:
    """Return the planning problem that a field of a request stands for.

    Raises
    ------
    InstanceError
        If the problem contradicts itself, or none of that id is stored.
    """
    if not isinstance(part, str):
        problem: PlanningProblem = built(part)
        return problem
    from alloc.instances.stored_planning import load_stored_planning

    # Looked up among the ids, never opened: no text reaches a file.
    return load_stored_planning(part)
