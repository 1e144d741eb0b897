"""A place for one waiting job, found whenever there is one."""

from __future__ import annotations

from dataclasses import replace

from alloc.errors import UnsupportedFeatureError
from alloc.packing import HostPool
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.state import JobView
from alloc.solving.gang import Tree, decide
from alloc.workload import Elasticity, Job


def place_exactly(
    pool: HostPool, view: JobView, tree: Tree, room_milli: int | None
) -> Assignment | None:
    """Return a place for a waiting job and take its capacity, or None if there is none.

    Parameters
    ----------
    pool
        The free capacity; what the job gets is taken from it.
    view
        The job. Several task groups of which some share GPUs are packed by a best fit instead: the
        one case in which a place may be missed.
    tree
        The domains of the pool's topology.
    room_milli
        GPU that its tenant's quota leaves, milli-GPU, or None.
    """
    try:
        found = decide(
            pool, waiting_job(view), tree=tree, quota_left_milli=room_milli, explained=False
        ).assignment
    except UnsupportedFeatureError:
        return _fit(pool, view, room_milli)
    if found is not None:
        found = in_its_ways(view, found)
        pool.take(view.configurations[found.configuration], found.tasks)
    return found


def _fit(pool: HostPool, view: JobView, room_milli: int | None) -> Assignment | None:
    rules, ways = view.placement, view.configurations
    if rules.slices or rules.spread:
        return None
    for c in sorted(ways_of(view), key=lambda c: -ways[c].rate):
        if room_milli is None or ways[c].demand[0] <= room_milli:
            tasks = pool.place(ways[c], required=rules.required)
            if tasks is not None:
                return Assignment(view.id, c, tasks)
    return None


def job_of(view: JobView) -> Job:
    """Return the job of a view, as far as its placement needs it; it keeps its configuration."""
    return Job(
        view.id,
        0.0,
        1.0,
        view.configurations,
        tenant=view.tenant,
        elasticity="rigid" if len(view.configurations) == 1 else "moldable",
        preemptible=view.preemptible,
        placement=view.placement,
    )


def ways_of(view: JobView) -> list[int]:
    """Return the configurations that a waiting job may run in: if it began, the one it began in."""
    if view.bound_to is not None:
        return [view.bound_to]
    return [c for c, way in enumerate(view.configurations) if way.rate > 0]


def waiting_job(view: JobView) -> Job:
    """Return the job of a view that waits, with these configurations alone; see `in_its_ways`."""
    ways = tuple(view.configurations[c] for c in ways_of(view))
    elasticity: Elasticity = "rigid" if len(ways) == 1 else "moldable"
    return job_of(view).replace(configurations=ways, elasticity=elasticity)


def in_its_ways(view: JobView, found: Assignment) -> Assignment:
    """Return what was decided for a `waiting_job`, in the configurations of its view.

    Parameters
    ----------
    view
        The view that the job was made of.
    found
        Its assignment; the configuration is a position in `ways_of`.
    """
    return replace(found, configuration=ways_of(view)[found.configuration])
