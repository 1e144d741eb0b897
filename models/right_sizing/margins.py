"""Margins of pools, numbered: what a pool keeps while jobs of one or two classes are sent there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from alloc.problems.right_sizing.headroom import margin_parts, margins
from alloc.problems.right_sizing.problem import PlanningProblem


@dataclass(frozen=True)
class Destination:
    """A pool and classes of jobs whose being sent there is a decision, for it may need a margin.

    Parameters
    ----------
    job_classes
        Positions of the classes. Those with the same margins share a binary: once one of them is
        sent to the pool, the others ask for nothing more.
    pool, spot
        Position, and the kind of hosts.
    """

    job_classes: tuple[int, ...]
    pool: int
    spot: bool


@dataclass(frozen=True)
class Margin:
    """What a pool keeps beyond the room for its load in some quarters; the largest counts.

    Parameters
    ----------
    destinations
        Positions of one or two destinations in the pool: it is kept when jobs are sent to all.
    gpus
        The margin, GPUs, quarter by quarter.
    """

    destinations: tuple[int, ...]
    gpus: tuple[float, ...]


def margins_of(
    problem: PlanningProblem,
    pool_of: Mapping[tuple[str, int], int],
    may_run: Collection[tuple[int, int, bool]],
    unit: float = 1.0,
) -> tuple[tuple[Destination, ...], tuple[Margin, ...]]:
    """Return where sending jobs may need a margin, and the margins.

    Parameters
    ----------
    problem
        The problem.
    pool_of
        Position of each pool, by GPU type and position of the site.
    may_run
        Positions of class and pool, and whether on spot hosts, where a class may run; a margin of
        classes that may not is left out.
    unit
        GPUs in the unit in which margins are counted.
    """
    # Of each class in a pool its margins, by the class beside it or -1.
    found: dict[tuple[int, int, bool], dict[int, tuple[float, ...]]] = defaultdict(dict)
    for key, gpus in margins(problem).items():
        pool = pool_of.get((key.gpu_type, problem.site_index[key.site]), -1)
        classes = sorted(problem.class_index[name] for name in key.job_classes)
        if all((c, pool, key.spot) in may_run for c in classes):
            for c in classes:
                (beside,) = [d for d in classes if d != c] or [-1]
                found[c, pool, key.spot][beside] = tuple(each / unit for each in gpus)
    alike: dict[tuple[int, bool, tuple[tuple[int, tuple[float, ...]], ...]], list[int]]
    alike = defaultdict(list)
    for (c, pool, spot), kept in sorted(found.items()):
        alike[pool, spot, tuple(sorted(kept.items()))].append(c)
    destinations = tuple(
        Destination(tuple(classes), pool, spot) for (pool, spot, _), classes in alike.items()
    )
    of = {(c, d.pool, d.spot): i for i, d in enumerate(destinations) for c in d.job_classes}
    # A pair is met twice, once from each class: it is one margin.
    kept_by: dict[Margin, None] = {}
    for i, (pool, spot, profile) in enumerate(alike):
        for beside, gpus in profile:
            other = () if beside < 0 else (of[beside, pool, spot],)
            kept_by[Margin(tuple(sorted((i, *other))), gpus)] = None
    return destinations, tuple(kept_by)


def parts_of(
    problem: PlanningProblem,
    num_bands: int,
    pool_of: Mapping[tuple[str, int], int],
    with_margin: Iterable[tuple[int, bool]],
) -> tuple[tuple[float, ...], ...]:
    """Return the part of its margin that each pool with one keeps in each band of hours.

    Parameters
    ----------
    problem
        The problem.
    num_bands
        Number of bands.
    pool_of
        Position of each pool, by GPU type and position of the site.
    with_margin
        Positions of pools with a margin, and whether it is for their spot hosts.
    """
    found = {
        (pool_of.get((gpu_type, problem.site_index[site]), -1), spot): parts
        for (gpu_type, site, spot), parts in margin_parts(problem, num_bands).items()
    }
    return tuple(found[at] for at in with_margin)
