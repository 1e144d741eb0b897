"""Placement rules: where the tasks of a job may, should and must not stand."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from alloc.errors import InstanceError
from alloc.units import require_count


@dataclass(frozen=True)
class Slice:
    """Tasks that belong together: every `size` of them stand in one domain of the level.

    A job of 32 tasks with slices of 16 per rack runs in one rack or two, 16 + 16, and never 24 + 8.

    Parameters
    ----------
    level
        Level whose domains hold the slices, "host" included.
    size
        Tasks in a slice, 1 or more; it divides their number.
    """

    level: str
    size: int

    def __post_init__(self) -> None:
        require_count(self.size, f"slice in {self.level}", "size", least=1)


@dataclass(frozen=True)
class Spread:
    """At most so many tasks of the job in any one domain of the level.

    Parameters
    ----------
    level
        Level, "host" included.
    most
        Most tasks per domain, 1 or more.
    """

    level: str
    most: int

    def __post_init__(self) -> None:
        require_count(self.most, f"spread over {self.level}", "most", least=1)


@dataclass(frozen=True)
class PlacementRules:
    """Rules about the domains that the tasks of a job stand in.

    Slices and spreads count the tasks that hold GPUs (of a job without GPUs, all tasks); the
    required and the preferred level concern every task.

    Parameters
    ----------
    required
        Level that must hold all tasks of the job in a single domain, or None. A configuration's
        own ``within`` holds besides.
    preferred
        Level that should hold them in a single domain; objectives count the domains beyond the
        first. None: no preference.
    slices
        Nested slices, coarsest first; each size divides the one before it.
    spread
        Limits on the tasks per domain.
    """

    required: str | None = None
    preferred: str | None = None
    slices: tuple[Slice, ...] = ()
    spread: tuple[Spread, ...] = ()

    def __post_init__(self) -> None:
        for coarse, fine in pairwise(self.slices):
            if coarse.size % fine.size:
                raise InstanceError(
                    f"slices: {fine.size} tasks per {fine.level} do not divide the "
                    f"{coarse.size} per {coarse.level}; nested slices divide the coarser ones."
                )
        levels = [limit.level for limit in self.spread]
        if len(set(levels)) != len(levels):
            raise InstanceError(
                f"spread: a level appears twice ({', '.join(levels)}); keep its smaller limit."
            )

    @property
    def levels(self) -> tuple[str, ...]:
        """Every level that a rule names."""
        named = (self.required, self.preferred)
        return (
            *(level for level in named if level is not None),
            *(cut.level for cut in self.slices),
            *(limit.level for limit in self.spread),
        )


NO_RULES = PlacementRules()
"""The rules of a job that may stand anywhere."""
