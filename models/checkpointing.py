r"""F12 Checkpointing: after which phases of a run is its state saved?

Saving costs time; not saving costs the work since the last save whenever a machine fails. Phases
need not be alike: states grow and shrink, and some points are cheaper to save at than others.

Sets
----
i, j in {0, ..., n}
    Points between phases: 0 is the beginning of the run, n its end.
(i, j) in A, i < j
    Stretches from one saved state to the next.

Parameters
----------
w_j, c_j, r_j
    Work of the phase before point j, time to save there, time to recover from there (r_0: restart).
M, D
    Mean time between failures, downtime.
t_ij
    Expected time of a stretch: (M + D) exp(r_i / M) (exp((w_{i+1} + ... + w_j + c_j) / M) - 1).

Variables
---------
x_ij in {0, 1}
    Whether the state is saved at i and at j and nowhere between.

Objective
---------
min sum_ij t_ij x_ij   (``expected_time``)

Constraints
-----------
(C1) start:     sum_j x_0j = 1
(C2) go on:     sum_i x_ik = sum_j x_kj   for 0 < k < n

Stretches longer than 400 M are left out, and from the arrays those dearer than saving at every
point: no best plan has one. A constraint of one's own that forbids to save for so long leaves no
plan.

Size: n (n + 1) / 2 columns, n rows. Complexity: a shortest path, so the linear relaxation is
integral; the method finds it by dynamic programming in O(n^2) (S. Toueg, O. Babaoglu, "On the
optimum checkpoint selection problem", SIAM J. Computing 13(3), 1984, doi:10.1137/0213039), and its
labels are a dual solution, so that the bound needs no solver. For equal phases the interval comes
near sqrt(2 C M) (J. W. Young, CACM 17(9), 1974; J. T. Daly, FGCS 22(3), 2006).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import Array, ArrayModel, BuiltModel, PyomoModel
from alloc.problems.checkpointing import CheckpointPlan, CheckpointProblem

_MAX_ATTEMPT = 400.0
"""Longest stretch in mean times between failures: exp(400) is far above n exp(2 * 50), which saving
everywhere takes at most, and far below the largest number there is."""
_MAX_STRETCHES = 2_000_000
"""Columns that a general solver still takes in; the method takes runs of any length."""


class Stretches:
    """The expected times t_ij of a run's stretches.

    Parameters
    ----------
    problem
        The run.
    """

    def __init__(self, problem: CheckpointProblem) -> None:
        phases = problem.phases
        self._lost_s = problem.mtbf_s + problem.downtime_s
        # In mean times between failures: work up to each point, saves, and exp(r_i / M).
        done = np.cumsum([0.0, *(phase.work_s for phase in phases)]) / problem.mtbf_s
        save = np.array([0.0, *(phase.checkpoint_s for phase in phases)]) / problem.mtbf_s
        self._begins, self._ends = done, done + save
        recovery = [problem.restart_s, *(phase.recovery_s for phase in phases)]
        self._recovery = np.exp(np.array(recovery) / problem.mtbf_s)

    def to(self, j: int) -> tuple[int, Array]:
        """Return the stretches that end at point j, 1 to n.

        Returns
        -------
        tuple
            The first point i from which a stretch is not left out, and t_ij from there, seconds.
        """
        first = int(np.searchsorted(self._begins[:j], self._ends[j] - _MAX_ATTEMPT))
        attempt = self._ends[j] - self._begins[first:j]
        return first, self._lost_s * self._recovery[first:j] * np.expm1(attempt)


def _arcs(problem: CheckpointProblem, limit_s: float) -> tuple[Array, Array, Array]:
    """Return the stretches that are not left out, none dearer than a limit: i, j and t_ij."""
    n = len(problem.phases)
    if n * (n + 1) // 2 > _MAX_STRETCHES:
        raise UnsupportedFeatureError(
            f"{problem.name}: {n} phases are more than a model of all stretches holds; use the "
            'method "auto", which takes any number.'
        )
    stretches = Stretches(problem)
    found = [(j, *stretches.to(j)) for j in range(1, n + 1)]
    tail = np.concatenate([np.arange(first, j) for j, first, _ in found])
    head = np.concatenate([np.full(j - first, j) for j, first, _ in found])
    times = np.concatenate([times for _, _, times in found])
    kept = times <= limit_s
    return tail[kept], head[kept], times[kept]


def _plan(tail: Array, head: Array, values: Array) -> CheckpointPlan:
    return CheckpointPlan(tuple(int(j) - 1 for j in np.sort(head[values > 0.5])))


def build_arrays(problem: CheckpointProblem, objective: str = "expected_time") -> BuiltModel:
    """Return the model in matrix form.

    Parameters
    ----------
    problem
        The phases, and what saving and failing cost.
    objective
        `expected_time`, the only one of the family.
    """
    from scipy import sparse

    everywhere = CheckpointPlan(tuple(range(len(problem.phases)))).expected_s(problem)
    # Up to rounding: the stretches of that plan itself stay.
    tail, head, times = _arcs(problem, everywhere * (1 + 1e-9))
    n, columns = len(problem.phases), np.arange(len(times))
    inner = head < n
    row = np.concatenate([tail, head[inner]])
    column = np.concatenate([columns, columns[inner]])
    sign = np.concatenate([np.ones(len(times)), -np.ones(int(inner.sum()))])
    leaves = np.zeros(n)
    leaves[0] = 1.0
    model = ArrayModel(
        sense="min",
        cost=times,
        matrix=sparse.csr_array((sign, (row, column)), shape=(n, len(times))),
        row_lower=leaves,
        row_upper=leaves,
        lower=np.zeros(len(times)),
        upper=np.ones(len(times)),
        integer=np.ones(len(times), dtype=bool),
        rows={"C1_start": slice(0, 1), "C2_go_on": slice(1, n)},
    )
    return BuiltModel(model, lambda values: _plan(tail, head, values))


def build_pyomo(problem: CheckpointProblem, objective: str = "expected_time") -> BuiltModel:
    """Return the model in Pyomo: sets POINTS and STRETCHES, parameter t, variable x.

    Parameters
    ----------
    problem
        The phases, and what saving and failing cost.
    objective
        `expected_time`, the only one of the family.
    """
    import pyomo.environ as pyo

    from alloc.models.timed import TimedModel

    tail, head, times = _arcs(problem, np.inf)
    n = len(problem.phases)
    arcs = list(zip(tail.tolist(), head.tolist(), strict=True))
    model: Any = TimedModel(problem.name)
    model.POINTS = pyo.RangeSet(0, n, doc="between phases: 0 begins the run, n ends it")
    model.STRETCHES = pyo.Set(initialize=arcs, dimen=2, doc="from one saved state to the next")
    model.t = pyo.Param(
        model.STRETCHES, initialize=dict(zip(arcs, times.tolist(), strict=True)), doc="expected, s"
    )
    model.x = pyo.Var(model.STRETCHES, domain=pyo.Binary, doc="saved at both ends, not between")
    model.expected_time = pyo.Objective(expr=pyo.quicksum(model.t[a] * model.x[a] for a in arcs))
    into: dict[int, list[Any]] = {k: [] for k in range(n + 1)}
    out: dict[int, list[Any]] = {k: [] for k in range(n + 1)}
    for i, j in arcs:
        out[i].append(model.x[i, j])
        into[j].append(model.x[i, j])
    model.C1_start = pyo.Constraint(expr=pyo.quicksum(out[0]) == 1)
    model.INNER = pyo.RangeSet(1, n - 1, doc="points within the run")

    @model.Constraint(model.INNER)
    def C2_go_on(m: Any, k: int) -> Any:
        return pyo.quicksum(into[k]) == pyo.quicksum(out[k])

    variables = tuple(model.x[a] for a in arcs)
    return BuiltModel(
        PyomoModel(model, variables, "min"), lambda values: _plan(tail, head, np.asarray(values))
    )
