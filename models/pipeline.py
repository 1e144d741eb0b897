r"""F9 Pipeline stages: which consecutive layers does each device of a row run?

A training step goes through the row of devices micro-batch by micro-batch, forwards and backwards.
In the long run it moves at the pace of the slowest stage or link: the bottleneck. The order of the
passes says how many micro-batches a device holds at once, and so what fits in its memory.

Sets
----
s in {0, ..., S - 1}
    Stages; stage s is on device s modulo p.
(s, i, j) in A, i < j
    Stage s runs the layers i, ..., j - 1.
k in K, q in Q_k
    Devices, and the moments at which a device holds most: q_s micro-batches of its stage s.

Parameters
----------
f_i, b_i, w_i, a_i, o_i
    Forward and backward time, weights, activations and output of a layer.
v_k, M_k, l_k
    Speed, memory and bandwidth of a device.
c_sij
    Time of a stage for a micro-batch: max{(f_i + b_i + ... + f_{j-1} + b_{j-1}) / v, o_{j-1} / l}.

Variables
---------
x_sij in {0, 1}
    Whether stage s runs the layers i, ..., j - 1.
T >= 0
    The bottleneck.

Objective
---------
min T   (``bottleneck``)

Constraints
-----------
(C1) begin:    sum_j x_00j = 1
(C2) go on:    sum_i x_sij = sum_h x_{s+1,j,h}   for each stage but the last, each layer j
(C3) pace:     sum_ij c_sij x_sij <= T   for each stage
(C4) memory:   sum_{s on k} sum_ij (w_i + ... + q_s (a_i + ... + a_{j-1})) x_sij <= M_k
               for each device and each of its moments

Arcs of a stage that alone breaks (C4) are left out; with one stage a device, (C4) says no more. A
time below every bottleneck (the shortest arc of some stage, or some layer on the fastest device)
counts as that: it changes no optimum, and what is left is of one size.

Size: O(S n^2) columns, S n rows. Complexity: without (C4) across the stages of a device, a
bottleneck path, found by dynamic programming in O(S n^2) (D. Narayanan et al., "PipeDream", SOSP
2019, section 3.1, doi:10.1145/3341301.3359646; S. H. Bokhari, "Partitioning problems in parallel,
pipelined, and distributed computing", IEEE Trans. Computers 37(1), 1988, doi:10.1109/12.75137); its
labels prove the bound. With it (``interleaved`` and memory) the dynamic program is a relaxation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alloc.clock import check_time
from alloc.errors import UnsupportedFeatureError
from alloc.formulation import Array, ArrayModel, BuiltModel, ProvedInfeasible, PyomoModel
from alloc.problems.pipeline.problem import PipelinePlan, PipelineProblem
from alloc.units import GB_PER_MIB

_MAX_ARCS = 500_000
"""Columns that a general solver still takes in; the method takes models of any length."""

MAX_RANGE = 2.0**20
"""Times of stages that HiGHS tells apart, the longest in shares of the least bottleneck: up to 1e8
no false answer is known, beyond it calls feasible programs infeasible."""


class StageTimes:
    """What stages of consecutive layers take, as arrays.

    Parameters
    ----------
    problem
        The pipeline.
    """

    def __init__(self, problem: PipelineProblem) -> None:
        self.problem, layers = problem, problem.layers
        self.num_layers = len(layers)
        work = np.array([layer.forward_s + layer.backward_s for layer in layers])
        # Row i: sums from layer i on. Differences would lose short layers behind a long one.
        self._work = np.triu(np.broadcast_to(work, (self.num_layers, self.num_layers)))
        np.cumsum(self._work, axis=1, out=self._work)
        self._weights = _sums([layer.weights_mib for layer in layers])
        self._activations = _sums([layer.activations_mib for layer in layers])
        # Nothing is sent after the last layer.
        self._sent = np.array([0.0, *(layer.output_mib * GB_PER_MIB for layer in layers)])
        self._sent[-1] = 0.0

    def of(self, stage: int) -> tuple[slice, slice, Array]:
        """Return the arcs of a stage.

        Parameters
        ----------
        stage
            The stage.

        Returns
        -------
        tuple
            The first layers i and the ends j there are, as slices, and c_sij in seconds, shape
            (i, j); infinite where j is not after i, or the stage alone does not fit.
        """
        later = self.problem.num_stages - stage - 1
        begins = slice(stage, self.num_layers - later) if stage else slice(0, 1)
        ends = slice(stage + 1, self.num_layers - later + 1)
        if not later:
            ends = slice(self.num_layers, self.num_layers + 1)
        device = self.problem.device_of(stage)
        times = self._work[begins, ends.start - 1 : ends.stop - 1] / device.speed
        if device.link_gb_per_s is not None and len(self.problem.devices) > 1:
            times = np.maximum(times, self._sent[ends] / device.link_gb_per_s)
        for need, memory_mib in self.memory(stage, begins, ends):
            times[need > memory_mib] = np.inf
        i, j = np.ogrid[begins, ends]
        times[j <= i] = np.inf
        return begins, ends, times

    @property
    def range_s(self) -> tuple[float, float]:
        """The least bottleneck that single stages and layers allow, and the longest arc, seconds.

        A stage takes its shortest arc at least, a layer its time on the fastest device. The first
        is infinite where no arc of a stage fits.
        """
        of_layers = np.full(self.num_layers, np.inf)
        least = longest = 0.0
        for stage in range(self.problem.num_stages):
            check_time()
            _, _, cost = self.of(stage)
            least = max(least, float(cost.min()))
            longest = max(longest, float(cost[np.isfinite(cost)].max(initial=0.0)))
            alone = self._work.diagonal() / self.problem.device_of(stage).speed
            of_layers = np.minimum(of_layers, alone)
        return max(least, float(of_layers.max())), longest

    def memory(self, stage: int, begins: slice, ends: slice) -> list[tuple[Array, int]]:
        """Return what a stage takes at each moment of its device, and what the device has, MiB.

        Parameters
        ----------
        stage
            The stage.
        begins, ends
            As `of` returns them.
        """
        number = stage % len(self.problem.devices)
        memory_mib = self.problem.devices[number].memory_mib
        if memory_mib is None:
            return []
        weights = self._between(self._weights, begins, ends)
        activations = self._between(self._activations, begins, ends)
        return [(weights + m[stage] * activations, memory_mib) for m in self.problem.held[number]]

    @staticmethod
    def _between(sums: Array, begins: slice, ends: slice) -> Array:
        return sums[None, ends] - sums[begins, None]


def _sums(values: list[float] | list[int]) -> Array:
    return np.concatenate([[0.0], np.cumsum(values, dtype=float)])


class _Arcs:
    """The arcs of all stages: stage, first layer, end and time of each."""

    def __init__(self, problem: PipelineProblem, between: tuple[float, float]) -> None:
        n, stages = len(problem.layers), problem.num_stages
        slack = n - stages + 1
        if stages * slack * slack // 2 > _MAX_ARCS:
            raise UnsupportedFeatureError(
                f"{problem.name}: {n} layers on {stages} stages are more than a model of all "
                'stages holds; use the method "auto", which takes any number.'
            )
        times = StageTimes(problem)
        # Shorter arcs than any bottleneck count as that, or a wide range would hide in tolerances.
        floor, longest = max(between[0], times.range_s[0]), between[1]
        if np.isinf(floor):
            raise ProvedInfeasible("some stage fits in the memory of its device with no layer")
        found: list[list[Array]] = []
        self.moments: list[list[Array]] = []
        for s in range(stages):
            check_time()
            begins, ends, cost = times.of(s)
            i, j = np.nonzero(np.isfinite(cost) & (cost <= longest))
            pace = np.maximum(cost[i, j], floor)
            found.append([np.full(len(i), s), i + begins.start, j + ends.start, pace])
            self.moments.append([need[i, j] for need, _ in times.memory(s, begins, ends)])
        self.stage, self.first, self.end, self.cost = map(np.concatenate, zip(*found, strict=True))
        if (most := self.cost.max(initial=0.0)) > MAX_RANGE * floor:
            raise UnsupportedFeatureError(
                f"{problem.name}: a stage takes from {floor:g} to {most:g} s, a range in which "
                'general solvers lose the short ones; use the method "auto".'
            )

    def plan(self, values: Array) -> PipelinePlan:
        """Return the plan that the first columns of a solution say."""
        chosen = np.flatnonzero(values[: len(self.cost)] > 0.5)
        return PipelinePlan(tuple(int(i) for i in np.sort(self.first[chosen])))

    def values(self, plan: PipelinePlan, n: int) -> Array:
        """Return the columns of a plan, the bottleneck last."""
        ends = (*plan.first_layers[1:], n)
        wanted = set(enumerate(zip(plan.first_layers, ends, strict=True)))
        x = np.array([(s, (i, j)) in wanted for s, i, j in self.keys()], dtype=float)
        return np.append(x, (self.cost * x).max(initial=0.0))

    def keys(self) -> list[tuple[int, int, int]]:
        """Return stage, first layer and end of each arc."""
        return list(zip(self.stage.tolist(), self.first.tolist(), self.end.tolist(), strict=True))


def _shared_memory(problem: PipelineProblem) -> list[tuple[int, int]]:
    """Return device and moment of each row of (C4) that says more than the arcs left out."""
    return [
        (k, q)
        for k, device in enumerate(problem.devices)
        if device.memory_mib is not None and problem.chunks > 1
        for q in range(len(problem.held[k]))
    ]


def build_arrays(
    problem: PipelineProblem,
    objective: str = "bottleneck",
    between: tuple[float, float] = (0.0, np.inf),
) -> BuiltModel:
    """Return the model in matrix form.

    Parameters
    ----------
    problem
        The layers, and the devices in their row.
    objective
        `bottleneck`, the only one of the family.
    between
        A bound on the bottleneck, and the longest arc that there is to be, seconds.
    """
    from scipy import sparse

    arcs = _Arcs(problem, between)
    n, stages = len(problem.layers), problem.num_stages
    num, columns = len(arcs.cost), np.arange(len(arcs.cost))
    # Row of the node "layer i begins stage s"; the begin of all is (C1), the end has no row.
    into, out = arcs.end < n, arcs.stage * n + arcs.first
    flow = sparse.csr_array(
        (
            np.concatenate([np.ones(num), -np.ones(int(into.sum()))]),
            (
                np.concatenate([out, (arcs.stage[into] + 1) * n + arcs.end[into]]),
                np.concatenate([columns, columns[into]]),
            ),
        ),
        shape=(stages * n, num + 1),
    )
    used = np.unique(np.concatenate([[0], flow.nonzero()[0]]))
    pace = sparse.csr_array(
        (
            np.concatenate([arcs.cost, -np.ones(stages)]),
            (
                np.concatenate([arcs.stage, np.arange(stages)]),
                np.concatenate([columns, np.full(stages, num)]),
            ),
        ),
        shape=(stages, num + 1),
    )
    shared = _shared_memory(problem)
    memory = sparse.lil_array((len(shared), num + 1))
    starts = np.searchsorted(arcs.stage, np.arange(stages + 1))
    for row, (k, q) in enumerate(shared):
        check_time()
        for s in range(k, stages, len(problem.devices)):
            memory[[row], starts[s] : starts[s + 1]] = arcs.moments[s][q][None]
    begin = np.zeros(len(used))
    begin[0] = 1.0
    limits = [float(problem.devices[k].memory_mib or 0) for k, _ in shared]
    model = ArrayModel(
        sense="min",
        cost=np.append(np.zeros(num), 1.0),
        matrix=sparse.csr_array(sparse.vstack([flow[used], pace, memory.tocsr()])),
        row_lower=np.concatenate([begin, np.full(stages + len(shared), -np.inf)]),
        row_upper=np.concatenate([begin, np.zeros(stages), limits]),
        lower=np.zeros(num + 1),
        upper=np.append(np.ones(num), arcs.cost.max(initial=0.0)),
        integer=np.append(np.ones(num, dtype=bool), False),
        rows={
            "C1_begin": slice(0, 1),
            "C2_go_on": slice(1, len(used)),
            "C3_pace": slice(len(used), len(used) + stages),
            "C4_memory": slice(len(used) + stages, len(used) + stages + len(shared)),
        },
    )
    return BuiltModel(model, arcs.plan, lambda plan: arcs.values(plan, n))


def build_pyomo(problem: PipelineProblem, objective: str = "bottleneck") -> BuiltModel:
    """Return the model in Pyomo: sets STAGES, ARCS, parameter c, variables x and T.

    Parameters
    ----------
    problem
        The layers, and the devices in their row.
    objective
        `bottleneck`, the only one of the family.
    """
    import pyomo.environ as pyo

    from alloc.models.timed import TimedModel

    arcs = _Arcs(problem, (0.0, np.inf))
    n, keys = len(problem.layers), arcs.keys()
    model: Any = TimedModel(problem.name)
    model.STAGES = pyo.RangeSet(0, problem.num_stages - 1, doc="stages, in order")
    model.ARCS = pyo.Set(initialize=keys, dimen=3, doc="stage, first layer, layer after the last")
    model.c = pyo.Param(
        model.ARCS, initialize=dict(zip(keys, arcs.cost.tolist(), strict=True)), doc="time, s"
    )
    model.x = pyo.Var(model.ARCS, domain=pyo.Binary, doc="the stage runs these layers")
    longest = float(arcs.cost.max(initial=0.0))
    model.T = pyo.Var(bounds=(0.0, longest), doc="bottleneck, s")
    model.bottleneck = pyo.Objective(expr=model.T)
    out: dict[tuple[int, int], list[Any]] = {}
    into: dict[tuple[int, int], list[Any]] = {}
    of: dict[int, list[tuple[int, int, int]]] = {s: [] for s in model.STAGES}
    for s, i, j in keys:
        out.setdefault((s, i), []).append(model.x[s, i, j])
        into.setdefault((s + 1, j), []).append(model.x[s, i, j])
        of[s].append((s, i, j))
    model.C1_begin = pyo.Constraint(expr=pyo.quicksum(out[0, 0]) == 1)
    inner = sorted((out.keys() | into.keys()) - {(0, 0), (problem.num_stages, n)})
    model.CUTS = pyo.Set(initialize=inner, dimen=2, doc="stage, and the layer that it begins with")

    @model.Constraint(model.CUTS)
    def C2_go_on(m: Any, s: int, j: int) -> Any:
        return pyo.quicksum(into.get((s, j), [])) == pyo.quicksum(out.get((s, j), []))

    @model.Constraint(model.STAGES)
    def C3_pace(m: Any, s: int) -> Any:
        return pyo.quicksum(m.c[a] * m.x[a] for a in of[s]) <= m.T

    model.MOMENTS = pyo.Set(
        initialize=_shared_memory(problem), dimen=2, doc="device, and when it holds most"
    )

    @model.Constraint(model.MOMENTS)
    def C4_memory(m: Any, k: int, q: int) -> Any:
        there = range(k, problem.num_stages, len(problem.devices))
        used = pyo.quicksum(
            float(need) * m.x[a]
            for s in there
            for a, need in zip(of[s], arcs.moments[s][q], strict=True)
        )
        return used <= problem.devices[k].memory_mib

    variables = (*(model.x[a] for a in keys), model.T)
    return BuiltModel(
        PyomoModel(model, variables, "min"), lambda values: arcs.plan(np.asarray(values))
    )
