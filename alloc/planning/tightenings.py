"""What the model is asked for besides the problem: capacity buffers, prices of capacity, and walls.

All three are a `Tightening`. Prices say where classes go, walls keep them where a plan sends them,
and buffers say how many hosts there are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from alloc.planning.buffers import Knowledge, pool_of
from alloc.planning.capacity import reserved_gpus
from alloc.planning.pools import Operation, Pool, Regime, Stream
from alloc.problems.right_sizing.demand import JobClass, MarginKey, Tightening, TighteningKey
from alloc.problems.right_sizing.headroom import (
    ANY_POOL,
    KEPT_OUT,
    MAX_HEADROOM,
    headroom,
    reference_gpus,
)
from alloc.problems.right_sizing.problem import PlanningProblem


def tightened(
    problem: PlanningProblem, knowledge: Knowledge, stay: Collection[TighteningKey] | None
) -> PlanningProblem:
    """Return a problem with the buffers of the last plan's pools.

    Parameters
    ----------
    problem
        The problem as it was asked.
    knowledge
        What is known.
    stay
        The classes and pools where classes are to stay (a trust region), as from `keys_of`: what is
        required is known there. None: classes may go anywhere, and only buffers of pools that were
        measured are asked for.
    """
    parts = knowledge.parts()
    tightening = [
        _as_tightening(key, quarter, gpus, parts.get(pool_of(key), ()))
        for (key, quarter), gpus in knowledge.buffers.items()
        if gpus > 0 and (stay is not None or pool_of(key) in knowledge.measured)
    ]
    if stay is not None:
        # A class of which no pool is known may go anywhere: it has to go somewhere.
        names = {name for name, *_ in stay}
        out = {key for key in _everywhere(problem) - set(stay) if key[0] in names}
        tightening += [Tightening(*key[:3], factor=KEPT_OUT, spot=key[3]) for key in out]
    tightening.sort(key=lambda part: (part.key, part.beside or "", part.quarter or 0))
    return problem.replace(tightening=problem.tightening + tuple(tightening))


def priced(
    problem: PlanningProblem, knowledge: Knowledge, every: Sequence[Operation]
) -> PlanningProblem:
    """Return a problem in which load pays for the capacity that it requires in the pools of a plan.

    Required capacity is concave in the load: the first jobs in a pool need many GPUs, more jobs few
    more. A pool that keeps its load pays for all it requires, over its load; so what is left of a
    class in a pool by itself costs the more the less it is, and leaves (slope scaling [1]_).
    Jobs of classes that are not sent to a pool pay as if all of them came.

    Parameters
    ----------
    problem
        The problem as it was asked.
    knowledge
        What is known.
    every
        Every pool of the plan in every regime.

    References
    ----------
    .. [1] D. Kim, P. M. Pardalos, "A solution approach to the fixed charge network flow problem
       using a dynamic slope scaling procedure", Operations Research Letters 24(4), 1999.
    """
    mixes: dict[Pool, Operation] = {}
    for operation in every:
        if operation.load >= mixes.get(operation.pool, operation).load:
            mixes[operation.pool] = operation
    added = []
    for name, gpu_type, site, spot in sorted(_everywhere(problem)):
        pool = Pool(gpu_type, site, spot)
        streams = mixes[pool].streams if pool in mixes else ()
        if name not in {stream.job_class.name for stream in streams}:
            job_class = problem.classes[problem.class_index[name]]
            stream = _all_jobs(problem, job_class, gpu_type, spot)
            streams = streams if stream is None else (*streams, stream)
        mix = Operation(pool, Regime("", 0, 0), {}, streams)
        if mix.has_goal:
            factor = knowledge.required(mix) / reserved_gpus(problem, mix)
            factor = max(factor, 1.0) if factor < MAX_HEADROOM else KEPT_OUT
            added.append(Tightening(name, gpu_type, site, factor=factor, spot=spot))
    return problem.replace(tightening=problem.tightening + tuple(added))


def with_shared_pools(problem: PlanningProblem) -> PlanningProblem:
    """Return a problem without headroom for what is lost where pools are small.

    The headroom of a class by itself, in a pool of a size assumed before there is a plan, is what
    buffers say better: they know the sizes, and who shares the pools. A size that is given is kept.
    """
    return problem if problem.pool_gpus is not None else problem.replace(pool_gpus=ANY_POOL)


def keys_of(every: Sequence[Operation]) -> set[TighteningKey]:
    """Return the classes of jobs that are sent to pools, and the pools."""
    return {
        (s.job_class.name, o.pool.gpu_type, o.pool.site, o.pool.spot)
        for o in every
        for s in o.streams
    }


def _as_tightening(
    key: MarginKey, quarter: int, gpus: float, bands: tuple[float, ...]
) -> Tightening:
    name, *beside = sorted(key.job_classes)
    return Tightening(
        name,
        key.gpu_type,
        key.site,
        margin=gpus,
        spot=key.spot,
        beside=beside[0] if beside else None,
        quarter=quarter,
        bands=bands,
    )


def _all_jobs(
    problem: PlanningProblem, job_class: JobClass, gpu_type: str, spot: bool
) -> Stream | None:
    """Return all jobs of a class on a GPU type, as on average over scenarios, when most come.

    None if none come, or no option there is fast enough for the goal: the model sends none.
    """
    options = [
        k
        for k, option in enumerate(job_class.options)
        if option.gpu_type == gpu_type
        and headroom(problem, job_class, k, reference_gpus(problem), spot) is not None
    ]
    if not options:
        return None
    k = min(options, key=lambda k: job_class.options[k].gpu_hours)
    hours = job_class.options[k].hours * (1 + (job_class.spot_overhead if spot else 0.0))
    rate = max(
        sum(s.probability * s.arrivals[job_class.name][quarter] for s in problem.scenarios)
        for quarter in range(problem.num_quarters)
    )
    return Stream(job_class, k, hours, rate) if rate > 0 else None


def _everywhere(problem: PlanningProblem) -> set[TighteningKey]:
    """Return all classes with all pools that may be sent jobs of theirs."""
    found = set()
    for offer in problem.offers:
        for site in problem.sites:
            owned = any((h.offer, h.site) == (offer.name, site.name) for h in problem.owned)
            if not (offer.at(site.name) or owned):
                continue
            spot = offer.terms == "spot"
            for c in problem.classes:
                runs = any(option.gpu_type == offer.gpu_type for option in c.options)
                if runs and c.at(site.name) and (c.interruptible or not spot):
                    found.add((c.name, offer.gpu_type, site.name, spot))
    return found
