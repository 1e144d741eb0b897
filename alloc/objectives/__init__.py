"""Objectives: one definition each, used by models, checker, simulator and report alike."""

from __future__ import annotations

from alloc.errors import InstanceError, nearest
from alloc.objectives.admission import ADMISSION_OBJECTIVES as ADMISSION_OBJECTIVES
from alloc.objectives.admission import AdmissionObjective as AdmissionObjective
from alloc.objectives.admission import in_time as in_time
from alloc.objectives.admission import is_best_effort as is_best_effort
from alloc.objectives.admission import limit_of as limit_of
from alloc.objectives.admission import without_late as without_late
from alloc.objectives.base import Measure as Measure
from alloc.objectives.base import Objective as Objective
from alloc.objectives.base import Sense as Sense
from alloc.objectives.base import Value as Value
from alloc.objectives.goals import Goal as Goal
from alloc.objectives.goals import Held as Held
from alloc.objectives.goals import WeightedSum as WeightedSum
from alloc.objectives.goals import is_kept as is_kept
from alloc.objectives.goals import parse_goal as parse_goal
from alloc.objectives.goals import parse_level as parse_level
from alloc.objectives.placed import Placed as Placed
from alloc.objectives.placed import moved_tasks as moved_tasks
from alloc.objectives.placement import PLACEMENT_OBJECTIVES as PLACEMENT_OBJECTIVES
from alloc.objectives.placement import PlacementObjective as PlacementObjective
from alloc.objectives.rounds import ROUND_UTILITIES as ROUND_UTILITIES
from alloc.objectives.rounds import RoundUtility as RoundUtility
from alloc.objectives.rounds import checked_utility as checked_utility
from alloc.objectives.rounds import require_slot as require_slot
from alloc.objectives.schedules import SCHEDULE_OBJECTIVES as SCHEDULE_OBJECTIVES
from alloc.objectives.schedules import ScheduleObjective as ScheduleObjective
from alloc.objectives.schedules import due_dates as due_dates
from alloc.objectives.sharing import SHARING_OBJECTIVES as SHARING_OBJECTIVES
from alloc.plugins import loaded

OBJECTIVES: dict[str, Objective] = {
    o.name: o
    for o in (
        *SCHEDULE_OBJECTIVES,
        *ADMISSION_OBJECTIVES,
        *ROUND_UTILITIES,
        *PLACEMENT_OBJECTIVES,
        *SHARING_OBJECTIVES,
    )
}
"""Every objective by name."""

# A package announces an `Objective`; a round utility is maximised like those of alloc.
OBJECTIVES |= {
    name: checked_utility(found) if isinstance(found, RoundUtility) else found
    for name, found in loaded("alloc.objectives", Objective, OBJECTIVES).items()
}


def objective(name: str) -> Objective:
    """Return the objective of that name, or the weighted sum of a goal of one level.

    Raises
    ------
    InstanceError
        If there is none.
    """
    if name not in OBJECTIVES and any(sign in name for sign in "+* "):
        return parse_level(name)
    if name not in OBJECTIVES:
        raise InstanceError(
            f'unknown objective "{name}"{nearest(name, OBJECTIVES, ";")} '
            f"known: {', '.join(OBJECTIVES)}."
        )
    return OBJECTIVES[name]


def round_utility(name: str) -> RoundUtility:
    """Return the round utility of that name.

    Raises
    ------
    InstanceError
        If there is none.
    """
    found = objective(name)
    if not isinstance(found, RoundUtility):
        known = [o.name for o in OBJECTIVES.values() if isinstance(o, RoundUtility)]
        raise InstanceError(f'"{name}" is not a round utility. Known: {", ".join(known)}.')
    return found
