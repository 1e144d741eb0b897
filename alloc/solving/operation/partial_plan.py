"""A board on which heuristics build plans: what each node holds, and what a further job adds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alloc.formulation import Array
from alloc.models.operation.data import OperationData, Whole
from alloc.models.operation.unrolling import Filled, name_nodes
from alloc.problems.operation.problem import OperationPlan

OFF = -1
"""No node, as an index of jobs and options, and no type, as that of a node: those count from 0."""
_TOLERANCE = 1e-9
"""Part of a power cap by which a sum of watts may exceed it through rounding."""


@dataclass(frozen=True)
class Options:
    """The ways to run a job on a board now, each with what it adds to the cost.

    Parameters
    ----------
    node
        Node of each option; `OFF` where a node would be switched on, shape (options,).
    type, gpus
        Type and GPUs, shape (options,).
    cost
        Added cost, shape (options,).
    """

    node: Whole
    type: Whole
    gpus: Whole
    cost: Array

    def __len__(self) -> int:
        return len(self.cost)


@dataclass(frozen=True)
class ShrinkMove:
    """Another job shrinks to `other_gpus`, and the job gets `gpus` beside it, for `cost` more."""

    other: int
    other_gpus: int
    gpus: int
    cost: float


class PartialPlan:
    """Nodes with the jobs on them, and the cost of it all, kept up to date."""

    def __init__(self, data: OperationData) -> None:
        self.data = data
        number = int(data.nodes_of.sum())
        self.pool = np.repeat(np.arange(len(data.nodes_of)), data.nodes_of)
        self.type = np.full(number, OFF)
        self.used = np.zeros(number, dtype=np.int64)
        self.first_hours = np.full(number, np.inf)
        self.members: list[dict[int, int]] = [{} for _ in range(number)]
        self.second_hours = self.first_hours.copy()
        self.node_of = np.full(data.num_jobs, OFF)
        self.gpus_of = np.zeros(data.num_jobs, dtype=np.int64)
        self.off = data.nodes_of.copy()
        self.power_w = 0.0
        self.cost = float(data.wait_cost.sum())

    def copy(self) -> PartialPlan:
        """Return a board of its own."""
        twin = object.__new__(PartialPlan)
        twin.data, twin.pool = self.data, self.pool
        twin.type, twin.used = self.type.copy(), self.used.copy()
        twin.first_hours, twin.second_hours = self.first_hours.copy(), self.second_hours.copy()
        twin.node_of, twin.gpus_of = self.node_of.copy(), self.gpus_of.copy()
        twin.members = [dict(held) for held in self.members]
        twin.off, twin.power_w, twin.cost = self.off.copy(), self.power_w, self.cost
        return twin

    def options(self, job: int) -> Options:
        """Return every way to run a job that waits."""
        data = self.data
        on = np.flatnonzero(self.type != OFF)
        # One node after the other, then each type that a node could still be switched on as.
        fresh = np.flatnonzero(data.offers[self.off > 0].any(axis=0))
        v = np.concatenate([self.type[on], fresh])[:, None]
        nothing = np.zeros(len(fresh))
        used = np.concatenate([self.used[on], nothing.astype(np.int64)])[:, None]
        first = np.concatenate([self.first_hours[on], nothing + np.inf])[:, None]
        gpus = np.arange(1, data.hours.shape[2])[None, :]
        hours = data.hours[job, v[:, 0], 1:]
        total = used + gpus
        fits = (total <= data.gpus[v]) & np.isfinite(hours)
        inside = np.minimum(total, data.hours.shape[2] - 1)
        if data.problem.power_cap_w is not None:
            power = self.power_w - data.power_w[v, used] + data.power_w[v, inside]
            fits &= power <= data.problem.power_cap_w * (1 + _TOLERANCE)
        row, column = np.nonzero(fits)
        kind, before, after = v[row, 0], used[row, 0], total[row, column]
        own = hours[row, column]
        charged = np.where(before > 0, data.node_rate[kind, before], 0.0)
        charged = charged * np.where(before > 0, first[row, 0], 0.0)
        cost = data.node_rate[kind, after] * np.minimum(first[row, 0], own) - charged
        cost = cost + data.run_cost[job, kind, column + 1]
        node = np.concatenate([on, np.full(len(fresh), OFF)])[row]
        return Options(node, kind, column + 1, cost)

    def shrink_move(self, job: int) -> ShrinkMove | None:
        """Return the cheapest way to run a job that waits on a full node, by shrinking one job.

        The job that shrinks gives up just the GPUs that are missing.
        """
        data = self.data
        other = np.flatnonzero(self.gpus_of > 1)
        if not len(other) or data.problem.power_cap_w is not None:
            return None
        node, held = self.node_of[other], self.gpus_of[other]
        v = self.type[node]
        full = data.gpus[v]
        gpus = np.arange(1, data.hours.shape[2])[None, :]
        missing = gpus - (full - self.used[node])[:, None]
        left = held[:, None] - missing
        hours = data.hours[job, v, 1:]
        fits = (missing > 0) & (left >= 1) & np.isfinite(hours)
        row, column = np.nonzero(fits)
        if not len(row):
            return None
        shrunk, kind, at = left[row, column], v[row], node[row]
        slower = data.hours[other[row], kind, shrunk]
        alone = data.hours[other[row], kind, held[row]] <= self.first_hours[at]
        rest = np.where(alone, self.second_hours[at], self.first_hours[at])
        first = np.minimum(np.minimum(rest, slower), hours[row, column])
        cost = data.node_rate[kind, full[row]] * first
        cost = cost - data.node_rate[kind, self.used[at]] * self.first_hours[at]
        cost = cost + data.run_cost[other[row], kind, shrunk]
        cost = cost - data.run_cost[other[row], kind, held[row]]
        cost = cost + data.run_cost[job, kind, column + 1]
        k = int(np.argmin(cost))
        if not np.isfinite(cost[k]):
            return None
        return ShrinkMove(int(other[row[k]]), int(shrunk[k]), int(column[k] + 1), float(cost[k]))

    def put_shrinking(self, job: int, shrink: ShrinkMove) -> None:
        """Run a job that waits beside one that shrinks.

        Parameters
        ----------
        job
            Number of the job that waits.
        shrink
            The move, as `shrink_move` returned it for this job and board.
        """
        node = int(self.node_of[shrink.other])
        v, before = int(self.type[node]), self._charge(node)
        for j, gpus in ((shrink.other, shrink.other_gpus), (job, shrink.gpus)):
            was = self.members[node].get(j)
            old = self.data.wait_cost[j] if was is None else self.data.run_cost[j, v, was]
            self.cost += float(self.data.run_cost[j, v, gpus] - old)
            self.members[node][j] = gpus
            self.node_of[j], self.gpus_of[j] = node, gpus
        self._refresh(node, before)

    def replacement(self, job: int) -> tuple[int, float] | None:
        """Return the running job whose place a waiting one takes best, and what that adds."""
        data = self.data
        other = np.flatnonzero(self.gpus_of)
        if not len(other):
            return None
        node, gpus = self.node_of[other], self.gpus_of[other]
        v = self.type[node]
        hours = data.hours[job, v, gpus]
        alone = data.hours[other, v, gpus] <= self.first_hours[node]
        rest = np.where(alone, self.second_hours[node], self.first_hours[node])
        change = np.minimum(rest, hours) - self.first_hours[node]
        cost = data.wait_cost[other] - data.run_cost[other, v, gpus] + data.run_cost[job, v, gpus]
        cost = cost + data.node_rate[v, self.used[node]] * np.where(np.isfinite(hours), change, 0.0)
        k = int(np.argmin(cost))
        return (int(other[k]), float(cost[k])) if np.isfinite(cost[k]) else None

    def replace(self, job: int, other: int) -> None:
        """Let a running job wait and run one that waits in its place.

        Parameters
        ----------
        job
            Number of the job that waits; it gets the node and the GPUs of the other.
        other
            Number of the job that runs.
        """
        node, gpus = int(self.node_of[other]), int(self.gpus_of[other])
        v, before = int(self.type[node]), self._charge(node)
        del self.members[node][other]
        self.members[node][job] = gpus
        self.node_of[other], self.gpus_of[other] = OFF, 0
        self.node_of[job], self.gpus_of[job] = node, gpus
        self.cost += float(self.data.wait_cost[other] - self.data.run_cost[other, v, gpus])
        self.cost += float(self.data.run_cost[job, v, gpus] - self.data.wait_cost[job])
        self._refresh(node, before)

    def put(self, job: int, options: Options, k: int) -> None:
        """Run a job that waits in one of its options.

        Parameters
        ----------
        job
            Number of the job that waits.
        options
            Its options, as `options` returned them for this board.
        k
            Which of them, 0 <= k < len(options).
        """
        node = int(options.node[k])
        if node == OFF:
            node = self._switch_on(int(options.type[k]))
        before = self._charge(node)
        self.members[node][job] = int(options.gpus[k])
        self.node_of[job], self.gpus_of[job] = node, options.gpus[k]
        self._refresh(node, before)
        self.cost += float(
            self.data.run_cost[job, self.type[node], options.gpus[k]] - self.data.wait_cost[job]
        )

    def take(self, job: int) -> None:
        """Let a job that runs wait."""
        node = int(self.node_of[job])
        before = self._charge(node)
        gpus = self.members[node].pop(job)
        self.node_of[job], self.gpus_of[job] = OFF, 0
        self.cost += float(
            self.data.wait_cost[job] - self.data.run_cost[job, self.type[node], gpus]
        )
        self._refresh(node, before)
        if not self.members[node]:
            self.type[node] = OFF
            self.off[self.pool[node]] += 1

    def set_node(self, node_type: int, members: dict[int, int]) -> bool:
        """Switch a node on with jobs that wait; return whether there was room for it.

        Parameters
        ----------
        node_type
            Number of the type that the node is switched on as.
        members
            GPUs of each job on it, at least 1, by the number of the job; together they fit.
        """
        if not self.data.offers[self.off > 0, node_type].any():
            return False
        cap = self.data.problem.power_cap_w
        power = self.data.power_w[node_type, sum(members.values())]
        if cap is not None and self.power_w + power > cap * (1 + _TOLERANCE):
            return False
        node = self._switch_on(node_type)
        for job, gpus in members.items():
            self.members[node][job] = gpus
            self.node_of[job], self.gpus_of[job] = node, gpus
            run = self.data.run_cost[job, node_type, gpus]
            self.cost += float(run - self.data.wait_cost[job])
        self._refresh(node, 0.0)
        return True

    def _switch_on(self, node_type: int) -> int:
        """Return a node that is off and can be of the type; the pool with least choice first."""
        able = np.flatnonzero((self.off > 0) & self.data.offers[:, node_type])
        pool = int(able[np.argmin(self.data.offers[able].sum(axis=1))])
        node = int(np.flatnonzero((self.pool == pool) & (self.type == OFF))[0])
        self.type[node] = node_type
        self.off[pool] -= 1
        return node

    def _charge(self, node: int) -> float:
        if not self.used[node]:
            return 0.0
        return float(self.data.node_rate[self.type[node], self.used[node]] * self.first_hours[node])

    def _refresh(self, node: int, before: float) -> None:
        """Recompute what a node holds after its members changed; `before` was its charge."""
        v, members = int(self.type[node]), self.members[node]
        drawn = float(self.data.power_w[v, self.used[node]])
        self.used[node] = sum(members.values())
        hours = sorted(float(self.data.hours[j, v, g]) for j, g in members.items())
        self.first_hours[node], self.second_hours[node] = [*hours, np.inf, np.inf][:2]
        self.power_w += float(self.data.power_w[v, self.used[node]]) - drawn
        self.cost += self._charge(node) - before

    def waiting(self) -> list[int]:
        """Return the jobs that wait."""
        return np.flatnonzero(self.node_of == OFF).tolist()

    def plan(self) -> OperationPlan:
        """Return the plan on the board."""
        filled: list[Filled] = [
            (int(self.pool[n]), int(self.type[n]), list(self.members[n].items()))
            for n in np.flatnonzero(self.type != OFF).tolist()
        ]
        return name_nodes(self.data, filled)
