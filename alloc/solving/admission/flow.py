"""Linear tables: who can be accepted is a maximum flow, and whom to accept a knapsack with cuts.

The network of the page of mathematics (`alloc.models.admission`): jobs send their GPU slots into
slots of the cluster's capacity. A set of jobs that the flow does not carry is cut off by the row of
its minimum cut, which holds for every set (Benders decomposition with feasibility cuts).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from alloc.backends import SolverOptions
from alloc.backends.linear_program import LinearProgram
from alloc.backends.second_proof import solve_and_prove
from alloc.backends.weak_duality import WeakDuality
from alloc.certificate import OPTIMALITY_GAP, BoundProof, is_within
from alloc.formulation import ArrayModel
from alloc.model_builder import ModelBuilder
from alloc.models.admission.data import AdmissionData
from alloc.models.malleable.data import Array, Index
from alloc.models.malleable.grid import Held
from alloc.objectives import WeightedSum
from alloc.solving.outcome import Progress, Settings
from alloc.units import MILLI

_UNITS = 1 << 10
"""Units of flow of a GPU slot where jobs are accepted in part."""
_MAX_FLOW = 2**31 - 1
"""SciPy counts flow in 32 bits."""
_VIOLATED = 1e-4
"""Part of a cut's limit by which jobs accepted in part must break it: less is rounding."""


@dataclass(frozen=True)
class Network:
    """Jobs with linear tables and the slots that they share.

    Parameters
    ----------
    need
        GPU slots of each job, shape (J,).
    most
        Most GPUs of each job at a time, shape (J,).
    start, stop
        First slot of each job, and the slot after its last one, shape (J,).
    capacity
        GPUs of the cluster.
    num_slots
        Slots.
    """

    need: Index
    most: Index
    start: Index
    stop: Index
    capacity: int
    num_slots: int

    def flow(self, share: Array) -> tuple[sparse.csr_array, npt.NDArray[np.bool_]]:
        """Return the largest flow when each job is accepted in part, and its minimum cut.

        Parameters
        ----------
        share
            Part of each job that is accepted, shape (J,).

        Returns
        -------
        flow
            Units that each job sends into each slot, shape (J, slots); GPU slots where all shares
            are 0 or 1.
        cut
            The slots on the side of the jobs, shape (slots,).
        """
        jobs = len(self.need)
        whole = bool(np.isin(share, (0.0, 1.0)).all())
        # No sum of the jobs' needs and no arc is larger than what SciPy counts.
        largest = max(int(self.need.sum()), self.capacity, int(self.most.max(initial=1)))
        units = 1 if whole else max(min(_UNITS, _MAX_FLOW // largest), 1)
        length = self.stop - self.start
        taken = np.flatnonzero((share > 0) & (length > 0))
        head = np.repeat(taken, length[taken])
        tail = np.concatenate(
            [np.arange(self.start[j], self.stop[j]) for j in taken] or [np.zeros(0, dtype=int)]
        ).astype(int)
        source, sink = jobs + self.num_slots, jobs + self.num_slots + 1
        supply = np.floor(share * self.need * units).astype(int)
        arc = np.floor(share * self.most * units).astype(int)
        slots = np.arange(self.num_slots)
        rows = np.concatenate([np.full(len(taken), source), head, jobs + slots])
        columns = np.concatenate([taken, jobs + tail, np.full(len(slots), sink)])
        values = np.concatenate(
            [supply[taken], arc[head], np.full(len(slots), self.capacity * units)]
        )
        graph = sparse.csr_matrix(
            (values.astype(np.int32), (rows, columns)), shape=(sink + 1, sink + 1)
        )
        found = maximum_flow(graph, source, sink)
        left = graph - found.flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        reached = breadth_first_order(left, source, return_predecessors=False)
        cut = np.zeros(sink + 1, dtype=bool)
        cut[reached] = True
        flow = sparse.csr_array(found.flow[:jobs, jobs : jobs + self.num_slots])
        flow.data = np.maximum(flow.data, 0)
        return flow, cut[jobs : jobs + self.num_slots]

    def cut(self, slots: npt.NDArray[np.bool_]) -> tuple[Array, float]:
        """Return the row of a set of slots: coefficients, shape (J,), and its limit."""
        inside = np.concatenate([[0], np.cumsum(slots)])
        outside = (self.stop - self.start) - (inside[self.stop] - inside[self.start])
        least = np.maximum(self.need - self.most * outside, 0).astype(float)
        return least, float(self.capacity * int(slots.sum()))


def network_of(data: AdmissionData) -> Network | None:
    """Return the network of an admission, None where its tables are not linear.

    Only jobs with a limit, each on 1 to m tasks of one GPU and nothing else, c times as fast on c
    of them, which may pause and change at no cost; limits at the end of a slot.
    """
    grid = data.grid
    rows = grid.data.rows
    if any(data.best_effort) or len(rows.names) != 1 or rows.tenant[0] is not None:
        return None
    if rows.gpu_type[0] is not None or rows.names[0] != "gpu_milli":
        return None
    linear: dict[int, float] = {}
    for j, job in enumerate(data.jobs):
        if job.elasticity != "malleable" or not job.preemptible or job.restart_cost_s:
            return None
        usable = data.usable(j)
        if len(usable) and usable[-1] < 1.0:
            return None
        table = int(grid.data.table_of[j])
        if table not in linear:
            own = [job.configurations[c] for c in grid.data.table(j).configuration.tolist()]
            tasks = [task for c in own for task in c.tasks]
            if any(c.within or c.gpu_type for c in own) or len(tasks) != len(own):
                return None
            if any(task.gpu_milli != MILLI for task in tasks):
                return None
            gpus, rate = data.gpus[j], grid.data.table(j).rate
            order = np.argsort(gpus)
            if not np.array_equal(gpus[order], np.arange(1, len(gpus) + 1)):
                return None
            if not np.allclose(rate[order], rate.min() * gpus[order], rtol=1e-12, atol=0.0):
                return None
            linear[table] = float(rate.min())
    single = np.array([linear[int(k)] for k in grid.data.table_of])
    spans = [data.slots(j) for j in range(len(data.jobs))]
    need = np.ceil(data.need / single * (1 - 1e-12))
    if need.sum() >= _MAX_FLOW or grid.num_slots * rows.capacity[0] / MILLI >= _MAX_FLOW:
        return None
    return Network(
        need=need.astype(np.int64),
        most=np.array([len(gpus) for gpus in data.gpus], dtype=np.int64),
        start=np.array([span.start for span in spans], dtype=np.int64),
        stop=np.array([span.stop for span in spans], dtype=np.int64),
        capacity=int(rows.capacity[0] // MILLI),
        num_slots=grid.num_slots,
    )


@dataclass
class Answer:
    """What the cuts prove, and the best answer met.

    Parameters
    ----------
    bound, bound_proof
        The bound on the level of the goal.
    held
        What the accepted jobs hold; None without an answer.
    accepted
        Their positions.
    infeasible
        Whether the jobs that may not be refused are proved to be too many.
    """

    bound: float
    bound_proof: BoundProof
    held: list[Held] | None = None
    accepted: tuple[int, ...] = ()
    infeasible: bool = False


class FlowCuts:
    """The search over whom to accept, by flow cuts.

    Parameters
    ----------
    data
        The admission.
    network
        Its network.
    settings
        Limits.
    report
        Takes a line of progress.
    """

    def __init__(
        self, data: AdmissionData, network: Network, settings: Settings, report: Progress
    ) -> None:
        self.data, self.network, self.settings, self.report = data, network, settings, report
        self.cost = self._level(data.level)
        self.sign = 1.0 if data.level.sense == "max" else -1.0
        limits = [data.accepts(j) for j in range(len(data.jobs))]
        self.lower = np.array([least for least, _ in limits])
        self.upper = np.array([most for _, most in limits])
        self.cuts: list[tuple[Array, float]] = []
        self.best: Array | None = None
        self.best_value = -math.inf
        self.bound = math.inf if data.level.sense == "max" else -math.inf
        self.proof: BoundProof = "none"

    def _level(self, level: WeightedSum) -> Array:
        """Return what accepting each job adds to a level, shape (J,)."""
        cost = np.zeros(len(self.data.jobs))
        weight = np.array([job.weight for job in self.data.jobs])
        hours = self.network.need * self.data.slot_h
        for factor, term in level.terms:
            sign = factor if term.sense == level.sense else -factor
            cost += sign * {"value": weight, "gpu_time": hours}.get(term.name, 0.0 * weight)
        return cost

    def master(self) -> ArrayModel:
        """Return the knapsack with the cuts that are known."""
        builder = ModelBuilder("cuts", "held")
        a = builder.columns(len(self.cost), self.upper, self.lower)
        for least, limit in self.cuts:
            touching = np.flatnonzero(least)
            unit = max(limit, 1.0)
            builder.row("cuts", [(a[touching], least[touching] / unit)], upper=limit / unit)
        for each in self.data.held:
            value = self._level(each.level)
            unit = float(np.abs(value).max(initial=0.0)) or 1.0
            is_max = each.level.sense == "max"
            builder.row(
                "held",
                [(a, value / unit)],
                lower=each.limit / unit if is_max else -np.inf,
                upper=np.inf if is_max else each.limit / unit,
            )
        return builder.model(self.data.level.sense, 0.0, cost=self.cost)

    def separate(self, share: Array) -> int:
        """Add the cuts that a choice breaks; return how many."""
        _, slots = self.network.flow(share)
        sets = [slots, *_stretches(slots)] if slots.any() else []
        # A capacity of no slots says that a job needs more than its own slots hold.
        found = 0
        # Coefficients are whole, and so is what a whole choice breaks a cut by.
        whole = bool(np.isin(share, (0.0, 1.0)).all())
        known = {(least.tobytes(), limit) for least, limit in self.cuts}
        for each in (*sets, *self._intervals(share)):
            least, limit = self.network.cut(each)
            if float(least @ share) > limit + (0.5 if whole else _VIOLATED * limit + 1e-6):
                key = (least.tobytes(), limit)
                if key not in known:
                    known.add(key)
                    self.cuts.append((least, limit))
                    found += 1
        return found

    def _intervals(self, share: Array) -> list[npt.NDArray[np.bool_]]:
        """Return the most broken interval of each of some beginnings."""
        net = self.network
        taken = np.flatnonzero(share > 0)
        if not len(taken):
            return []
        begins = np.unique(net.start[taken])
        ends = np.unique(net.stop[taken])
        begins = begins[np.linspace(0, len(begins) - 1, min(len(begins), 40)).astype(int)]
        found = []
        start, stop, need, most = (x[taken] for x in (net.start, net.stop, net.need, net.most))
        length = stop - start
        for begin in begins:
            later = ends[ends > begin]
            inside = np.minimum(stop[:, None], later) - np.maximum(start, begin)[:, None]
            outside = length[:, None] - np.maximum(inside, 0)
            least = np.maximum(need[:, None] - most[:, None] * outside, 0)
            over = share[taken] @ least - net.capacity * (later - begin)
            k = int(over.argmax())
            if over[k] > 0:
                slots = np.zeros(net.num_slots, dtype=bool)
                slots[begin : later[k]] = True
                found.append(slots)
        return found

    def take(self, chosen: Array) -> bool:
        """Keep the jobs of a choice that the flow carries; return whether it carries all."""
        flow, _ = self.network.flow(chosen)
        sent = np.asarray(flow.sum(axis=1)).ravel()
        carried = np.where((chosen > 0) & (sent >= self.network.need), 1.0, 0.0)
        complete = bool((carried >= chosen).all())
        if (carried < self.lower).any() or not self._keeps(carried):
            return complete
        value = self.sign * float(self.cost @ carried)
        if value > self.best_value:
            self.best, self.best_value = carried, value
        return complete

    def _keeps(self, chosen: Array) -> bool:
        for each in self.data.held:
            value = float(self._level(each.level) @ chosen)
            if value < each.limit if each.level.sense == "max" else value > each.limit:
                return False
        return True

    def run(self, starts: Sequence[Array] = ()) -> Answer:
        """Search until the best choice that the cuts allow is carried, or the time is up."""
        for start in starts:
            self.take(start)
        infeasible = self._relax()
        while not infeasible and not self.settings.time_is_up() and not self._is_proved():
            raw = solve_and_prove(self.master(), self._options())
            if raw.status == "infeasible":
                infeasible = True
                break
            if self.sign * raw.bound < self.sign * self.bound:
                self.bound, self.proof = raw.bound, raw.bound_proof
            if raw.values is None:
                break
            chosen = np.rint(raw.values)
            if self.take(chosen) or not self.separate(chosen):
                break
            self.report(
                f"{len(self.cuts)} flow cuts: bound {self.bound:g}, "
                f"value {self.sign * self.best_value:g}"
            )
        if infeasible and self.best is None:
            return Answer(self.bound, self.proof, infeasible=True)
        if self.best is None:
            return Answer(self.bound, self.proof)
        accepted = tuple(np.flatnonzero(self.best > 0).tolist())
        return Answer(self.bound, self.proof, self._held(self.best), accepted)

    def _relax(self) -> bool:
        """Add cuts to the linear relaxation; return whether it is proved to have no solution."""
        while not self.settings.time_is_up():
            model = self.master()
            program = LinearProgram(model)
            found = program.solve(self.settings.seconds_left())
            if found is None:
                return program.is_infeasible and not self.data.held
            self.bound = WeakDuality(model).bound(found.duals)
            self.proof = "recomputed"
            share = np.clip(found.values, self.lower, self.upper)
            share[share < 1e-9] = 0.0
            share[share > 1 - 1e-9] = 1.0
            added = self.separate(share)
            self.report(f"{len(self.cuts)} flow cuts: linear bound {self.bound:g}")
            if not added:
                self.take(np.floor(share + 1e-6))
                self.take(np.maximum(np.rint(share), self.lower))
                self.bound = self._rounded(self.bound)
                return False
        return False

    def _rounded(self, bound: float) -> float:
        """Return a bound at the next multiple of a step that every value is one of."""
        costs = np.abs(self.cost[self.cost != 0])
        if not len(costs):
            return bound
        step = float(costs.min())
        if max(abs(bound), float(costs.max())) > step * 2.0**40:
            return bound
        if (costs / step != np.rint(costs / step)).any():
            return bound
        steps = math.floor(self.sign * bound / step + 1e-6)
        return self.sign * step * steps

    def _is_proved(self) -> bool:
        return self.best is not None and is_within(
            self.sign * self.best_value, self.bound, OPTIMALITY_GAP
        )

    def _options(self) -> SolverOptions:
        settings = self.settings
        return SolverOptions(
            settings.seconds_left(),
            settings.seed,
            settings.workers,
            gap=OPTIMALITY_GAP / 2,
            start=self.best,
            stoppable=True,
        )

    def _held(self, chosen: Array) -> list[Held]:
        """Return what the jobs of a choice hold in each slot."""
        flow = cast(sparse.coo_array, self.network.flow(chosen)[0].tocoo())
        columns = [np.argsort(gpus) for gpus in self.data.gpus]
        return [
            (int(j), int(t), int(columns[j][int(gpus) - 1]))
            for j, t, gpus in zip(flow.row, flow.col, flow.data, strict=True)
            if gpus > 0
        ]


def _stretches(slots: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.bool_]]:
    """Return the stretches of slots that follow each other, each as a set of its own."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], slots.astype(np.int8), [0]])))
    found = []
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        part = np.zeros_like(slots)
        part[begin:end] = True
        found.append(part)
    return found if len(found) > 1 else []
