"""FirstStageCompletion: from the integers of a first stage to all of its values."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from alloc.models.right_sizing.data import Array, SizingData
from alloc.models.right_sizing.first_stage import FirstStage
from alloc.problems.right_sizing.plan import Plan


class FirstStageCompletion:
    """Completes first stages of a problem."""

    def __init__(self, data: SizingData, first: FirstStage) -> None:
        self.data, self.first = data, first
        self._levels: dict[int, list[int]] = defaultdict(list)
        for i, level in enumerate(data.levels):
            self._levels[level.pool].append(i)

    def complete(self, values: Array) -> Array:
        """Return the best values for given integers, these rounded."""
        data, first = self.data, self.first
        found = np.zeros(len(first.cost))
        ordered = first.order[first.order >= 0]
        found[ordered] = np.round(values[ordered] * data.host_unit) / data.host_unit
        if len(first.waive):
            found[first.waive] = np.round(values[first.waive])
        found[first.sent] = np.round(values[first.sent])
        found[first.margin] = data.margins_kept(found[first.sent])
        hosts = np.zeros((len(data.host_groups), data.num_quarters))
        for k, group in enumerate(data.host_groups):
            hosts[k] = group.owned
            for t in range(data.num_quarters):
                if first.order[k, t] >= 0:
                    service = data.in_service(k, t)
                    hosts[k, service.start : service.stop] += found[first.order[k, t]]
        found[first.hosts] = hosts
        for p, levels in self._levels.items():
            for t in range(data.num_quarters):
                self._count(found, hosts, p, levels, t)
        return found

    def _count(self, found: Array, hosts: Array, pool: int, levels: list[int], t: int) -> None:
        """Count the hosts from the size downward that pays most."""
        data, first, switched = self.data, self.first, bool(self.data.spares)
        spares = data.problem.failures / data.host_unit
        standing = [float(sum(hosts[k, t] for k in data.levels[i].host_groups)) for i in levels]
        best, begin = 0.0, len(levels)
        for first_counted, i in enumerate(levels):
            gpus = sum(
                n * data.levels[j].gpus
                for n, j in zip(standing[first_counted:], levels[first_counted:], strict=True)
            )
            usable = gpus - spares * data.levels[i].gpus
            if usable > best:
                best, begin = usable, first_counted
        found[first.usable[pool, t]] = best
        if switched:
            for position, i in enumerate(levels):
                if position >= begin:
                    found[first.counted[i, t]] = standing[position]
                    found[first.open[i, t]] = 1.0

    def round_up(self, values: Array) -> Array:
        """Return the values with orders rounded up, or down at a site that would overflow."""
        first, found = self.first, values.copy()
        orders = first.order[first.order >= 0]
        found[orders] = np.minimum(np.ceil(values[orders] - 1e-6), first.upper[orders])
        found[first.sent] = np.ceil(values[first.sent] - 1e-6)
        if len(first.waive):
            found[first.waive] = self.waive(values[first.waive])
        complete = self.complete(found)
        rows = slice(first.rows["C2"].start, first.rows["C4"].stop)
        if (first.matrix[rows] @ complete > first.row_upper[rows] * (1 + 1e-9)).any():
            found[orders] = np.floor(values[orders] + 1e-6)
            complete = self.complete(found)
        return complete

    def waive(self, wish: Array) -> Array:
        """Return which scenarios are waived: the most wished for, as far as allowed."""
        problem = self.data.problem
        found = np.zeros(len(wish))
        left = problem.epsilon + 1e-9
        for w in np.argsort(-wish, kind="stable").tolist():
            chance = problem.scenarios[w].probability
            if wish[w] > 1e-6 and chance <= left:
                found[w] = 1.0
                left -= chance
        return found

    def from_plan(self, plan: Plan) -> Array:
        """Return the integers of a plan as values, those it knows."""
        data, first = self.data, self.first
        values = np.zeros(len(first.cost))
        host_groups = {(data.offer(s).name, s.site): k for k, s in enumerate(data.host_groups)}
        for order in plan.orders:
            site = data.problem.site_index.get(order.site, -1)
            group = host_groups.get((order.offer, site))
            if group is None or not 0 <= order.quarter < data.num_quarters:
                continue
            column = first.order[group, order.quarter]
            if column >= 0:
                count = order.count / data.host_unit
                values[column] = min(values[column] + count, first.upper[column])
        values[first.sent] = sent_to(data, plan)
        for name in plan.waived:
            if len(first.waive) and name in data.problem.scenario_index:
                values[first.waive[data.problem.scenario_index[name]]] = 1.0
        return values


def sent_to(data: SizingData, plan: Plan) -> Array:
    """Return 1 where a plan sends jobs to a destination in a quarter, (destinations, quarters).

    Parameters
    ----------
    data
        The problem.
    plan
        A plan; what it names that the problem does not know is passed over.
    """
    problem = data.problem
    of = {(c, d.pool, d.spot): i for i, d in enumerate(data.destinations) for c in d.job_classes}
    pools = {(p.gpu_type, problem.sites[p.site].name): i for i, p in enumerate(data.pools)}
    found = np.zeros((len(data.destinations), data.num_quarters))
    for share in plan.shares:
        c = problem.class_index.get(share.job_class, -1)
        if c < 0 or not 0 <= share.option < len(problem.classes[c].options):
            continue
        gpu_type = problem.classes[c].options[share.option].gpu_type
        at = of.get((c, pools.get((gpu_type, share.site), -1), share.spot))
        if at is not None and 0 <= share.quarter < data.num_quarters:
            found[at, share.quarter] = 1.0
    return found
