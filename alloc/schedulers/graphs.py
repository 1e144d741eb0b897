"""Rules that know the graph of a job: what must still follow a stage, and what the job has left.

A job without stages is a graph of one. Running stages are left alone unless they are malleable and
may be paused, as by all rules (`Policy`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from alloc.schedulers.grant import Outcome
from alloc.schedulers.policy import Policy
from alloc.schedulers.round import Round
from alloc.schedulers.srtf import work_of
from alloc.schedulers.state import ClusterState, JobView, Knowledge
from alloc.units import MILLI

Cost = Callable[[JobView], float]


def stages_of(view: JobView) -> Sequence[JobView]:
    """Return all stages of the job that a stage is of; of a job without stages the job."""
    return view.stages or (view,)


def least_time_s(view: JobView) -> float:
    """Return the least time in which a stage does the work it has left, seconds; 0 if it ended."""
    if view.is_complete:
        return 0.0
    return work_of(view)[1] / max(c.rate for c in view.configurations)


def mean_time_s(view: JobView) -> float:
    """Return the mean over a stage's configurations of the time it still takes, seconds."""
    if view.is_complete:
        return 0.0
    rates = [c.rate for c in view.configurations if c.rate > 0]
    return work_of(view)[1] * sum(1 / rate for rate in rates) / len(rates)


def least_gpu_s(view: JobView) -> float:
    """Return the least GPU time that a stage still takes, GPU seconds; without GPUs its time."""
    if view.is_complete:
        return 0.0
    ways = [c for c in view.configurations if c.rate > 0]
    return work_of(view)[1] * min((c.demand[0] / MILLI or 1.0) / c.rate for c in ways)


def paths_of(stages: Sequence[JobView], cost: Cost) -> list[float]:
    """Return the longest path from the start of each stage to the end of its job.

    Parameters
    ----------
    stages
        All stages of a job.
    cost
        What each adds to a path.
    """
    return _ahead(stages, cost, lambda own, behind: own + behind)


def worst_ahead(stages: Sequence[JobView], cost: Cost) -> list[float]:
    """Return the highest cost of each stage and of all that wait for it.

    Parameters
    ----------
    stages
        All stages of a job.
    cost
        Cost of a stage by itself, 0 or more.
    """
    return _ahead(stages, cost, max)


def _ahead(
    stages: Sequence[JobView], cost: Cost, join: Callable[[float, float], float]
) -> list[float]:
    after: list[list[int]] = [[] for _ in stages]
    for k, view in enumerate(stages):
        for p in view.before:
            after[p].append(k)
    found: list[float | None] = [None] * len(stages)
    # Depth first, without recursion: a chain may be longer than Python's stack.
    for first in range(len(stages)):
        open_ = [first]
        while open_:
            k = open_[-1]
            missing = [s for s in after[k] if found[s] is None]
            open_ += missing
            if not missing:
                behind = max(
                    (value for s in after[k] if (value := found[s]) is not None), default=0
                )
                found[k] = join(cost(stages[k]), behind)
                open_.pop()
    return [value or 0.0 for value in found]


class GraphPolicy(Policy, ABC):
    """Serve stages by a key that looks at their jobs; who does not fit is passed over."""

    needs: Knowledge = "estimate"
    _skip = True

    def __init__(self) -> None:
        super().__init__()  # without the published rules of other policies

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        keys: dict[str, dict[str, tuple[float, ...]]] = {}
        for view in competing:
            if (name := view.job or view.id) not in keys:
                stages = stages_of(view)
                ids = [stage.id for stage in stages]
                keys[name] = dict(zip(ids, self._keys(stages, round_.state), strict=True))
        order = sorted(competing, key=lambda v: (keys[v.job or v.id][v.id], v.in_order))
        for view in order:
            round_.fill(view)

    @abstractmethod
    def _keys(self, stages: Sequence[JobView], state: ClusterState) -> list[tuple[float, ...]]:
        """Return the key of each stage of a job: the least is served first."""


class CriticalPath(GraphPolicy):
    """Serve the stage with the longest path to the end of its job first.

    A path is the sum of the least times of the stages on it. Ties go to the arrival of the job.

    References
    ----------
    Latest finish time first in the parallel schedule generation scheme: Kolisch, EJOR 90(2), 1996;
    for one machine type the critical-path rule of list scheduling, Kohler, IEEE TC 24(12), 1975.
    """

    name = "critical-path"
    information = "graphs of the jobs that have arrived, remaining work of their stages"

    def _keys(self, stages: Sequence[JobView], state: ClusterState) -> list[tuple[float, ...]]:
        return [(-path,) for path in paths_of(stages, least_time_s)]


class Heft(GraphPolicy):
    """Serve the stage with the highest upward rank first, each where it ends earliest.

    The upward rank is the longest path to the end of the job with the mean time of each stage over
    its configurations. The configuration is the one that ends earliest of those that fit now.

    References
    ----------
    Topcuoglu, Hariri, Wu, "Performance-effective and low-complexity task scheduling for
    heterogeneous computing", IEEE TPDS 13(3), 2002. Departures: it plans one job at its arrival and
    may let a stage wait for a better processor, or fill a gap in the plan; here stages of all jobs
    in the system are ranked together whenever there is room, and what fits starts.
    """

    name = "heft"
    information = "graphs of the jobs that have arrived, remaining work of their stages"

    def _keys(self, stages: Sequence[JobView], state: ClusterState) -> list[tuple[float, ...]]:
        return [(-path,) for path in paths_of(stages, mean_time_s)]


class ShortestJob(GraphPolicy):
    """Serve the job with the least work left first, in it the stage with the longest path.

    The work of a job is the least GPU time of all its stages that have not ended.

    References
    ----------
    The baseline "SJF-CP" of Decima: Mao et al., "Learning scheduling algorithms for data processing
    clusters", SIGCOMM 2019, section 7.1. Departure: there the work of the whole job, here what is
    left of it.
    """

    name = "shortest-job"
    information = "graphs of the jobs that have arrived, remaining work of their stages"

    def _keys(self, stages: Sequence[JobView], state: ClusterState) -> list[tuple[float, ...]]:
        left = sum(least_gpu_s(stage) for stage in stages)
        return [(left, -path) for path in paths_of(stages, least_time_s)]


class TroublesomeFirst(GraphPolicy):
    """Serve stages that are long and use much, and what leads to them, first.

    The trouble of a stage is its least time times the largest share of a resource of the cluster
    that it takes in its fastest configuration. A stage counts by the worst of itself and of those
    that wait for it. Ties go to the longest path.

    References
    ----------
    Grandl et al., "Graphene: packing and dependency-aware scheduling for data-parallel clusters",
    OSDI 2016, section 4. Departures: its search over which stages are troublesome and its order for
    each job, worked out before the job runs, are left out; here all stages are ranked by one score.
    """

    name = "troublesome-first"
    information = "graphs of the jobs that have arrived, remaining work and demands of their stages"

    def _keys(self, stages: Sequence[JobView], state: ClusterState) -> list[tuple[float, ...]]:
        totals = state.topology.totals.tolist()

        def trouble(view: JobView) -> float:
            fastest = max(view.configurations, key=lambda c: c.rate)
            shares = zip(fastest.demand, totals, strict=True)
            return least_time_s(view) * max((a / total for a, total in shares if total), default=0)

        worst, paths = worst_ahead(stages, trouble), paths_of(stages, least_time_s)
        return [(-score, -path) for score, path in zip(worst, paths, strict=True)]


class WeightedFair(Policy):
    """Give each job a share of the GPUs in proportion to its weight, its longest path first.

    Again and again the job that holds the least for its weight gets room for its next stage, in the
    fastest configuration within its share, or in its smallest one. What is then left goes to
    whoever can use it. Stages that run keep what they have.

    Parameters
    ----------
    alpha
        A job counts with its weight times its total work to this power: 0 is weighted fairness, 1
        shares in proportion to work, and below 0 small jobs get more.

    References
    ----------
    The baselines "fair" and "opt. weighted fair" of Decima: Mao et al., SIGCOMM 2019, section 7.1,
    which sweeps alpha from -2 to 2 and finds values near -1 best. Departure: gangs, so that a share
    is kept as far as configurations allow.
    """

    name = "weighted-fair"
    information = "graphs of the jobs that have arrived, work of their stages, what jobs hold"
    needs: Knowledge = "estimate"

    def __init__(self, *, alpha: float = 0.0) -> None:
        super().__init__()
        self._alpha = alpha

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        totals: dict[str, float] = {}
        held: dict[str, float] = {}
        ready: dict[str, list[JobView]] = {}
        for view in round_.state.jobs:
            name = view.job or view.id
            if name not in totals:
                totals[name] = view.weight * _total_work(stages_of(view)) ** self._alpha
                held[name] = 0.0
        for view, current in round_.pinned.values():
            held[view.job or view.id] += _gpus(view, current.configuration)
        for view in competing:
            ready.setdefault(view.job or view.id, []).append(view)
        for views in ready.values():
            stages = stages_of(views[0])
            paths = dict(zip((s.id for s in stages), paths_of(stages, least_time_s), strict=True))
            views.sort(key=lambda view: paths[view.id])  # taken from the end
        gpus, everyone = round_.state.topology.num_gpus, sum(totals.values())
        left: list[JobView] = []
        while ready:
            name = min(ready, key=lambda n: (held[n] / totals[n], ready[n][-1].in_order))
            view = ready[name].pop()
            if not ready[name]:
                del ready[name]
            taken = _give_within(round_, view, gpus * totals[name] / everyone - held[name])
            if taken is None:
                left.append(view)
            else:
                held[name] += taken
        for view in left:
            round_.fill(view)


def _total_work(stages: Sequence[JobView]) -> float:
    """Return the GPU time of a job's stages, also of those that have ended, GPU seconds."""
    return sum(
        work_of(view)[0]
        * min((c.demand[0] / MILLI or 1.0) / c.rate for c in view.configurations if c.rate > 0)
        for view in stages
    )


def _gpus(view: JobView, configuration: int) -> float:
    return view.configurations[configuration].demand[0] / MILLI


def _give_within(round_: Round, view: JobView, room: float) -> float | None:
    """Give a stage the fastest configuration within so many GPUs that fits; return its GPUs.

    None where nothing within them fits; the smallest configurations always count as within.
    """
    if view.bound_to is not None:
        ways = [view.bound_to]
    else:
        ways = [c for c, way in enumerate(view.configurations) if way.rate > 0]
    least = min(_gpus(view, c) for c in ways)
    within = [c for c in ways if _gpus(view, c) <= max(room, least)]
    for c in sorted(within, key=lambda c: -view.configurations[c].rate):
        if round_.give(view, c) is Outcome.GRANTED:
            return _gpus(view, c)
    return None
