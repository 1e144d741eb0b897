"""Which rules of an instance a scheduler honours, said before it runs into the checker."""

from __future__ import annotations

from alloc.errors import UnsupportedFeatureError
from alloc.problems.allocation.instance import Instance
from alloc.schedulers.state import Scheduler

REQUIRED_LEVELS = "required levels"
"""The part of the placement rules that one domain must hold a gang; without slices and spreads."""

# Moves are a matter of single allocations, and a scheduler that never borrows keeps its quota.
_NEEDED = (
    "placement rules",
    REQUIRED_LEVELS,
    "affinities",
    "MIG slices",
    "GPU memory",
    "interference",
)


def rules_asked(instance: Instance) -> dict[str, str]:
    """Return what an instance asks of a scheduler beyond time and capacity, and who asks.

    Placement rules are only `REQUIRED_LEVELS` where no job has slices or a spread; a preferred
    level asks for nothing.
    """
    asked = {name: who for name, who in instance.features.items() if name in _NEEDED}
    if asked.pop("placement rules", None) is None:
        return asked
    for job in instance.jobs:
        if job.placement.slices or job.placement.spread:
            asked["placement rules"] = f'job "{job.id}"'
            break
    else:
        required = (job.id for job in instance.jobs if job.placement.required is not None)
        if (first := next(required, None)) is not None:
            asked[REQUIRED_LEVELS] = f'job "{first}"'
    return asked


def require_honoured(scheduler: Scheduler, instance: Instance) -> None:
    """Refuse a scheduler that does not look at rules which the instance has.

    A scheduler without ``features`` honours none.

    Parameters
    ----------
    scheduler
        Its attribute ``features`` names the rules that it honours.
    instance
        What it is to run on.

    Raises
    ------
    UnsupportedFeatureError
        If there is such a rule; the message names it, who asks for it and who honours it.
    """
    honoured = set(getattr(scheduler, "features", ()))
    if "placement rules" in honoured:
        honoured.add(REQUIRED_LEVELS)
    for rule, owner in rules_asked(instance).items():
        if rule not in honoured:
            raise UnsupportedFeatureError(
                f"scheduler {scheduler.name} does not look at {rule}, which {owner} asks for; "
                f"{_cure(rule)}."
            )


def _cure(rule: str) -> str:
    from alloc.schedulers.builtin import schedulers_with

    able = schedulers_with(rule)
    return f"take one that does: {', '.join(able)}" if able else "leave it out of the instance"
