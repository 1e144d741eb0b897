"""Inference sizing over mixes as sparse arrays, and the way back to a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alloc.formulation import ArrayModel
from alloc.model_builder import ModelBuilder
from alloc.models.inference_sizing.data import SizingData
from alloc.models.inference_sizing.frontier import Frontier, Mix
from alloc.models.inference_sizing.layout import largest_first, replica_groups
from alloc.problems.inference_sizing.plan import HostContents, InferencePlan, ReplicaGroup

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MixLayout:
    """Where each variable stands: v by model, period and mix, then X by period and pool, then h.

    Parameters
    ----------
    data
        The data.
    found
        The mixes.
    """

    data: SizingData
    found: Frontier

    @property
    def v(self) -> list[tuple[int, int, Mix]]:
        """Model, period class and mix of each v."""
        return [(m, t, mix) for (m, t), mixes in self.found.mixes.items() for mix in mixes]

    @property
    def used(self) -> list[tuple[int, int]]:
        """Period class and pool of each X."""
        pools = range(len(self.data.problem.pools))
        return [(t, p) for t in range(len(self.data.periods)) for p in pools]

    @property
    def held(self) -> list[int]:
        """Pools paid by holding."""
        pools = self.data.problem.pools
        return [p for p, pool in enumerate(pools) if pool.billing == "held"]

    def plan(self, values: Array) -> InferencePlan:
        """Turn values of the variables into a plan.

        Given the mixes and the hosts held, the cheapest pools are filled first.
        """
        v = self.v
        taken = [v[k] for k in np.flatnonzero(values[: len(v)] > 0.5)]
        held = dict(zip(self.held, np.rint(values[len(values) - len(self.held) :]), strict=True))
        groups: list[ReplicaGroup] = []
        standing: dict[tuple[int, str], Counter[int]] = {}
        for m, t, mix in taken:
            chosen = [(self.data.choices[c], j) for c, j in mix.columns]
            groups += replica_groups(self.data, m, t, chosen)
            for choice, j in chosen:
                option = self.data.problem.models[m].options[choice.option]
                counts = standing.setdefault((t, option.gpu_type), Counter())
                counts[option.gpus] += choice.columns[j].replicas
        contents: list[HostContents] = []
        most: Counter[int] = Counter()
        for (t, gpu_type), counts in standing.items():
            for p, hosts in self._filled(t, gpu_type, counts, held):
                most[p] = max(most[p], len(hosts))
                for held_by, number in sorted(Counter(hosts).items(), reverse=True):
                    for member in self.data.periods[t].members:
                        period = self.data.problem.periods[member].name
                        pool = self.data.problem.pools[p].name
                        contents.append(HostContents(period, pool, number, held_by))
        pools = self.data.problem.pools
        keeps = tuple((pools[p].name, most[p]) for p in self.held if most[p])
        return InferencePlan(tuple(groups), tuple(contents), keeps)

    def _filled(
        self, t: int, gpu_type: str, counts: Counter[int], held: dict[int, float]
    ) -> list[tuple[int, list[tuple[int, ...]]]]:
        """Fill the pools of a type, those already paid for first, then the cheapest."""
        data = self.data
        pools = [p for p, pool in enumerate(data.problem.pools) if pool.gpu_type == gpu_type]
        pools.sort(key=lambda p: (p not in held, data.price(p, t), p))
        hosts = largest_first(dict(counts), data.problem.pools[pools[0]].gpus_per_host)
        found = []
        for p in pools:
            number = min(data.hosts(p, t), int(held.get(p, data.hosts(p, t))))
            if here := hosts[:number]:
                found.append((p, here))
            hosts = hosts[number:]
        return found


def mix_model(layout: MixLayout) -> ArrayModel:
    """Return the integer program over mixes."""
    data, problem = layout.data, layout.data.problem
    v, used, held = layout.v, layout.used, layout.held
    first_x, first_h = len(v), len(v) + len(used)
    number = first_h + len(held)
    x_at = {key: first_x + k for k, key in enumerate(used)}
    builder = ModelBuilder("D1_one_mix", "D2_gpus", "D3_held")
    of: dict[tuple[int, int], list[int]] = {key: [] for key in layout.found.mixes}
    for k, (m, t, _) in enumerate(v):
        of[m, t].append(k)
    for members in of.values():
        builder.row("D1_one_mix", ((k, 1.0) for k in members), 1.0, 1.0)
    for t in range(len(data.periods)):
        for g, gpu_type in enumerate(layout.found.types):
            pools = [p for p, pool in enumerate(problem.pools) if pool.gpu_type == gpu_type]
            stand = [(x_at[t, p], 1.0) for p in pools]
            wanted = [
                (k, -float(mix.gpus[g]))
                for k, (_, period, mix) in enumerate(v)
                if period == t and mix.gpus[g]
            ]
            builder.row("D2_gpus", [*stand, *wanted], 0.0, 0.0)
    cost, upper = np.zeros(number), np.ones(number)
    integer = np.ones(number, dtype=bool)
    for (t, p), k in x_at.items():
        pool = problem.pools[p]
        upper[k] = pool.gpus_per_host * data.hosts(p, t)
        integer[k] = False
        if p in held:
            row = [(k, 1.0), (first_h + held.index(p), -float(pool.gpus_per_host))]
            builder.row("D3_held", row, upper=0.0)
        else:
            cost[k] = data.price(p, t)
    for k, p in enumerate(held):
        upper[first_h + k], cost[first_h + k] = data.max_held(p), data.held_price(p)
    builder.columns(number, upper, cost=cost, integer=integer)
    return builder.model("min")
