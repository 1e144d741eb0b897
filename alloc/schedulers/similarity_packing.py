"""Rounds in which jobs get the GPU type that suits them, and share GPUs with models that fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import networkx as nx
import numpy as np

from alloc.errors import InstanceError, nearest
from alloc.problems.allocation.slowdown import tables_of
from alloc.problems.allocation.solution import Assignment
from alloc.schedulers.grant import Outcome
from alloc.schedulers.policy import Policy
from alloc.schedulers.round import Round
from alloc.schedulers.srtf import remaining_time_s, work_of
from alloc.schedulers.state import ClusterState, JobView, Knowledge
from alloc.units import MILLI, require_count
from alloc.workload import InterferenceTable

Pairing = Literal["similarity", "matching", "none"]
_WORTH = 1.0
"""Two jobs share a GPU only where their speeds together, as fractions of those alone, are above
this: one after the other they would do as much."""


@dataclass(frozen=True)
class _Ways:
    """Positions of a job's configurations of one task: on a whole GPU, and on a share of one."""

    whole: int | None
    share: int | None

    @property
    def alone(self) -> int:
        """The one in which it has a GPU to itself."""
        found = self.share if self.whole is None else self.whole
        assert found is not None
        return found


@dataclass(frozen=True)
class _Single:
    """A job that has a GPU of a type to itself so far."""

    view: JobView
    gpu_type: str


class SimilarityPacking(Policy):
    """Give each job the GPU type that it gains most from, and pack further jobs beside others.

    In every slot the GPUs are given out anew, those of the fastest type first, to the jobs that
    would lose most time on the next type. Jobs that are left over join a GPU whose job is slowed
    down little: the pair with the largest sum of speeds, if that is above one job's. Speeds beside
    other jobs are known of some models only; any other is taken for the most similar of these, by
    its speeds alone on the GPU types. Which models fit on a GPU together is always known. Jobs that
    do not run on one GPU take the fastest configuration that fits, the longest first. Where nothing
    is said of interference, and in continuous time, no two jobs are packed.

    Parameters
    ----------
    pairing
        ``similarity``: each job in turn, the longest first, takes the best partner;
        ``matching``: the pairs with the largest sum of speeds (maximum-weight matching);
        ``none``: no two jobs share a GPU.
    measured_every
        Of the models in a table, in its order, every so many is known beside others; 1: all, with
        nothing left to similarity.

    References
    ----------
    Thanapol, Lavangnananda, Leprevost, Glad, Schleich, Bouvry, "Round-based mechanism and job
    packing with model-similarity-based policy for scheduling DL training in GPU cluster", Applied
    Sciences 14(6), 2024, doi:10.3390/app14062349. Rebuilt from its abstract: rounds, GPU types by
    similarity of models, and further jobs on GPUs that train small models. There similarity tells
    which GPU type suits a model that was not measured; here the rates alone are part of each job,
    and similarity tells which models get on with each other.
    """

    name = "similarity-packing"
    needs: Knowledge = "estimate"
    information = "remaining work, rates on each GPU type, slow-down of measured pairs of models"
    features = (*Policy.features, "interference")
    preemptive = True

    def __init__(self, *, pairing: Pairing = "similarity", measured_every: int = 2) -> None:
        super().__init__()
        if pairing not in get_args(Pairing):
            raise InstanceError(
                f'{self.name}: pairing is "{pairing}"'
                f"{nearest(str(pairing), get_args(Pairing), '.')} It must be "
                f"{', '.join(get_args(Pairing))}."
            )
        require_count(measured_every, f"scheduler {self.name}", "measured_every", least=1)
        self._pairing = pairing
        self._every = measured_every

    def _allot(self, round_: Round, competing: Sequence[JobView]) -> None:
        state = round_.state
        order = sorted(competing, key=lambda view: -remaining_time_s(view))
        ways: dict[str, dict[str, _Ways]] = {}
        if state.slot_s is not None and state.interference:
            ways = {view.id: found for view in order if (found := _ways(view, state))}
        for view in order:
            if view.id not in ways:
                _fill(round_, view)
        singles, waiting = self._dispatch(round_, [v for v in order if v.id in ways], ways)
        alone = {single.view.id: single for single in singles}
        for waits, single in self._pairs(state, singles, waiting, ways):
            pair = []
            for view in (single.view, waits):
                share = ways[view.id][single.gpu_type].share
                assert share is not None
                pair.append((view, share))
            if _on_one_gpu(round_, single.gpu_type, pair):
                del alone[single.view.id]
        for single in alone.values():
            own = ways[single.view.id][single.gpu_type]
            if own.whole is not None:
                round_.give(single.view, own.whole)
            elif own.share is not None:
                _on_one_gpu(round_, single.gpu_type, [(single.view, own.share)])

    def _dispatch(
        self, round_: Round, views: Sequence[JobView], ways: Mapping[str, Mapping[str, _Ways]]
    ) -> tuple[list[_Single], list[JobView]]:
        """Return who gets a GPU of which type to itself, and who gets none."""
        topology = round_.state.topology
        free: dict[str, int] = {}
        for gpu_type, milli in zip(topology.gpu_types, round_.pool.free[:, 0], strict=True):
            free[str(gpu_type)] = free.get(str(gpu_type), 0) + int(milli) // MILLI
        rates = {
            view.id: {t: view.configurations[w.alone].rate for t, w in ways[view.id].items()}
            for view in views
        }
        # By the mean of their speeds among the jobs, as fractions of each job's best.
        speed = {t: 0.0 for own in rates.values() for t in own}
        for own in rates.values():
            best = max(own.values())
            for gpu_type, rate in own.items():
                speed[gpu_type] += rate / best
        types = sorted(speed, key=lambda t: -speed[t])
        singles: list[_Single] = []
        waiting = list(views)
        for k, gpu_type in enumerate(types):

            def saved(view: JobView, gpu_type: str = gpu_type, k: int = k) -> float:
                """Return the time that a GPU of this type saves against the next best."""
                left, own = work_of(view)[1], rates[view.id]
                slower = [own[t] for t in types[k + 1 :] if t in own and free.get(t, 0)]
                later = left / max(slower) if slower else 2 * left / own[gpu_type]
                return later - left / own[gpu_type]

            able = [view for view in waiting if gpu_type in rates[view.id]]
            able.sort(key=lambda view: -saved(view))
            for view in able[: free.get(gpu_type, 0)]:
                singles.append(_Single(view, gpu_type))
                waiting.remove(view)
        return singles, waiting

    def _pairs(
        self,
        state: ClusterState,
        singles: Sequence[_Single],
        waiting: Sequence[JobView],
        ways: Mapping[str, Mapping[str, _Ways]],
    ) -> list[tuple[JobView, _Single]]:
        """Return who joins whom."""
        if self._pairing == "none" or not waiting:
            return []
        known = _Known(state.interference, self._every)
        worth: dict[tuple[int, int], float] = {}
        for i, waits in enumerate(waiting):
            for j, single in enumerate(singles):
                own = ways[waits.id].get(single.gpu_type)
                if own is None or own.share is None:
                    continue
                if ways[single.view.id][single.gpu_type].share is None:
                    continue
                together = known.together(single.gpu_type, waits.model, single.view.model)
                if together > _WORTH:
                    worth[i, j] = together
        if self._pairing == "matching":
            graph = nx.Graph()
            for (i, j), together in worth.items():
                graph.add_edge(("waits", i), ("single", j), weight=together - _WORTH)
            edges = [dict(edge) for edge in nx.max_weight_matching(graph)]
            chosen = sorted((edge["waits"], edge["single"]) for edge in edges)
        else:
            chosen, taken = [], set()
            for i in range(len(waiting)):
                able = [j for j in range(len(singles)) if (i, j) in worth and j not in taken]
                if able:
                    j = max(able, key=lambda j: (worth[i, j], -j))
                    chosen.append((i, j))
                    taken.add(j)
        return [(waiting[i], singles[j]) for i, j in chosen]


class _Known:
    """What a policy knows of models beside others, some by similarity."""

    def __init__(self, tables: Sequence[InterferenceTable], every: int) -> None:
        self._tables = tables_of(tables)
        self._every = every
        self._stand_ins: dict[tuple[str, str], int] = {}
        self._speeds: dict[str, dict[str, float]] = {}
        for table in tables:
            for kind, speed in zip(table.kinds, table.alone.tolist(), strict=True):
                self._speeds.setdefault(kind, {})[table.gpu_type] = math.log(speed)

    def together(self, gpu_type: str, one: str | None, other: str | None) -> float:
        """Return the sum of the speeds of two models on a GPU, as fractions of those alone.

        0 where one of them cannot share it, or nothing is measured.
        """
        table = self._tables.get(gpu_type)
        if table is None or one is None or other is None:
            return 0.0
        # Who fits into the memory of a GPU beside whom is known; how fast they run is not.
        a, b = table.position(one), table.position(other)
        if table.beside[a, b] <= 0 or table.beside[b, a] <= 0:
            return 0.0
        a, b = self._stand_in(table, one), self._stand_in(table, other)
        first, second = float(table.beside[a, b]), float(table.beside[b, a])
        return first + second if first > 0 and second > 0 else 0.0

    def _stand_in(self, table: InterferenceTable, model: str) -> int:
        """Return the position of the measured model that is most similar to another."""
        key = table.gpu_type, model
        if key not in self._stand_ins:
            own = table.position(model)
            measured = range(0, len(table.kinds), self._every)
            near = own if own % self._every == 0 else -1
            if near < 0:
                near = min(measured, key=lambda k: (self._apart(model, table.kinds[k]), k))
            self._stand_ins[key] = near
        return self._stand_ins[key]

    def _apart(self, one: str, other: str) -> float:
        """Return how far the speeds alone of two models are apart, over the GPU types of both."""
        mine, its = self._speeds[one], self._speeds[other]
        both = [gpu_type for gpu_type in mine if gpu_type in its]
        return float(np.sqrt(np.mean([(mine[t] - its[t]) ** 2 for t in both])))


def _ways(view: JobView, state: ClusterState) -> dict[str, _Ways]:
    """Return how a job runs on one GPU of each type; empty where it cannot, or is bound."""
    found: dict[str, _Ways] = {}
    if view.bound_to is not None or view.placement.required is not None:
        return found
    for gpu_type in dict.fromkeys(map(str, state.topology.gpu_types)):
        whole = share = None
        for c, configuration in enumerate(view.configurations):
            group = configuration.tasks[0]
            if configuration.gpu_type not in (None, gpu_type) or configuration.rate <= 0:
                continue
            if len(configuration.tasks) > 1 or group.count > 1 or group.mig_profile is not None:
                continue
            if group.gpu_milli == MILLI:
                whole = c
            elif 0 < group.gpu_milli <= MILLI // 2:
                share = c
        if whole is not None or share is not None:
            found[gpu_type] = _Ways(whole, share)
    return found


def _fill(round_: Round, view: JobView) -> None:
    """Give a job the fastest configuration that fits, and no shares where sharing has a price."""
    if not round_.state.interference:
        round_.fill(view)
        return
    ways = [
        c
        for c, configuration in enumerate(view.configurations)
        if view.bound_to in (None, c) and not any(g.shares_gpu for g in configuration.tasks)
    ]
    for c in sorted(ways, key=lambda c: -view.configurations[c].rate):
        if round_.give(view, c) is Outcome.GRANTED:
            return


def _on_one_gpu(round_: Round, gpu_type: str, jobs: Sequence[tuple[JobView, int]]) -> bool:
    """Put jobs on a GPU that nobody has, that of the first if it had one; return whether they fit.

    Parameters
    ----------
    round_
        The round.
    gpu_type
        Type of the GPU.
    jobs
        The jobs, each with a configuration of one task that takes a share.
    """
    pool, topology = round_.pool, round_.state.topology
    if not all(
        round_.allows(
            view, sum(v.configurations[c].demand[0] for v, c in jobs if v.tenant == view.tenant)
        )
        for view, _ in jobs
    ):
        return False
    first, share = jobs[0]
    here = {} if first.current is None else {t.host: t.gpus for t in first.current.tasks}
    hosts = np.flatnonzero(pool.hosts_of_type(gpu_type) & (pool.free[:, 0] >= MILLI)).tolist()
    for h in sorted(hosts, key=lambda h: topology.hosts[h].id not in here):
        before = here.get(topology.hosts[h].id, ())
        chosen = pool.share_gpus(h, first.configurations[share].tasks[0], 1)
        gpu = next((g for g in (*before, *chosen) if g not in pool.open_gpus.get(h, {})), None)
        if gpu is None:
            continue
        placed: list[Assignment] = []
        for view, c in jobs:
            configuration = view.configurations[c]
            task = pool.task(h, configuration.tasks[0].role, 1, (gpu,))
            if not pool.fits(configuration, (task,)):
                break
            pool.take(configuration, (task,))
            placed.append(Assignment(view.id, c, (task,)))
        for (view, c), assignment in zip(jobs, placed, strict=False):
            pool.release(view.configurations[c], assignment.tasks)
        if len(placed) == len(jobs):
            for (view, _), assignment in zip(jobs, placed, strict=True):
                round_.put(view, assignment)
            return True
    return False
