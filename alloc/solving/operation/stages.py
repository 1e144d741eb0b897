"""STS: sizing a job stage by stage when it may stop early.

Early stopping ends most jobs before their last epoch, so few GPUs are enough at first, and more are
worth their energy once a job has survived long enough for tardiness to be likely. The work of a job
is cut into stages at its chances to stop; each stage has a way to run (type of node, GPUs), and the
expected cost is ``sum_k S_k e_k + sum_k p_k w (now + T_k - d)^+``: S_k the chance to reach stage k,
e_k what the GPUs of stage k cost (their share of a full node), p_k the chance to end with stage k,
T_k the time until then. A dynamic program over (stage, way, time) with dominance finds the best
sequence exactly: less time at less cost is never worse afterwards.

References
----------
F. Filippini et al., stochastic scheduling of training jobs with early termination, IEEE Trans.
Cloud Computing, 2024 (HAL hal-04337856); the program here is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.models.operation.data import OperationData, operation_data
from alloc.problems.operation.problem import OperationJob, OperationProblem
from alloc.solving.operation.partial_plan import PartialPlan
from alloc.solving.operation.rules import cheapest_insertion, pressure_order
from alloc.solving.operation.search import reinsert
from alloc.units import HOUR_S


@dataclass(frozen=True)
class StagePlan:
    """How to run a job stage by stage, as long as it does not stop.

    Parameters
    ----------
    ways
        Type and GPUs of each stage.
    expected_cost
        Of GPUs and tardiness, money.
    expected_hours
        Mean time until it ends, hours.
    late_probability
        Chance that it ends after its due date.
    """

    ways: tuple[tuple[str, int], ...]
    expected_cost: float
    expected_hours: float
    late_probability: float


@dataclass(frozen=True)
class _Ways:
    """The ways to run a job: type, GPUs, hours of all its work, hours before it, money per hour."""

    types: tuple[str, ...]
    gpus: tuple[int, ...]
    work: Array
    delay: Array
    rate: Array


@dataclass(frozen=True)
class _Labels:
    """Partial sequences: time and cost so far, the last way, and the label before it."""

    hours: Array
    cost: Array
    way: npt.NDArray[np.int64]
    parent: npt.NDArray[np.int64]

    def only(self, some: npt.NDArray[np.int64]) -> _Labels:
        return _Labels(self.hours[some], self.cost[some], self.way[some], self.parent[some])


def _ways(problem: OperationProblem, job: OperationJob) -> _Ways:
    offered = {name for pool in problem.pools for name in pool.types}
    types, gpus, numbers = [], [], []
    for name, times in job.duration_s.items():
        if name not in offered:
            continue
        node_type = problem.type(name)
        share = min(problem.rate_per_h(node_type, u) / u for u in range(1, node_type.num_gpus + 1))
        for g, time in enumerate(times, 1):
            if time is not None:
                delay = (problem.duration(job, name, g) or time) - time
                types.append(name)
                gpus.append(g)
                numbers.append((time / HOUR_S, delay / HOUR_S, share * g))
    work, delays, rate = np.array(numbers).T
    return _Ways(tuple(types), tuple(gpus), work, delays, rate)


def _stages(job: OperationJob) -> tuple[Array, Array, Array]:
    """Return each stage's part of the work, the chance to reach it, and to end with it."""
    ends = np.array([*(stop.fraction for stop in job.stops), 1.0])
    ending = np.array([stop.probability for stop in job.stops])
    ending = np.append(ending, max(1.0 - ending.sum(), 0.0))
    reach = np.maximum(1.0 - np.concatenate([[0.0], np.cumsum(ending)[:-1]]), 0.0)
    return np.diff(ends, prepend=0.0), reach, ending


def _sequences(
    problem: OperationProblem, job: OperationJob, ways: _Ways, first: npt.NDArray[np.int64]
) -> list[_Labels]:
    """Return the labels of each stage, of sequences that begin with one of some ways."""
    part, reach, ending = _stages(job)
    slack = (job.due_date_s - problem.now_s) / HOUR_S
    restart = job.restart_s / HOUR_S

    def extended(
        hours: Array, cost: Array, added: Array, k: int, way: npt.NDArray[np.int64]
    ) -> tuple[Array, Array]:
        until = hours + added
        late = job.tardiness_cost_per_h * np.maximum(until - slack, 0.0)
        return until, cost + reach[k] * ways.rate[way] * added + ending[k] * late

    zero = np.zeros(len(first))
    hours, cost = extended(zero, zero, ways.delay[first] + part[0] * ways.work[first], 0, first)
    stages = [_Labels(hours, cost, first, np.full(len(first), -1))]
    every = np.arange(len(ways.work))
    for k in range(1, len(part)):
        last = stages[-1]
        parent, way = (a.ravel() for a in np.meshgrid(np.arange(len(last.cost)), every))
        added = part[k] * ways.work[way] + restart * (way != last.way[parent])
        hours, cost = extended(last.hours[parent], last.cost[parent], added, k, way)
        stages.append(_undominated(_Labels(hours, cost, way, parent), restart > 0))
    return stages


def _undominated(labels: _Labels, by_way: bool) -> _Labels:
    """Keep the labels that no other beats in time and cost; of the same way if changing costs."""
    kept = []
    for way in np.unique(labels.way) if by_way else [None]:
        own = np.arange(len(labels.way)) if way is None else np.flatnonzero(labels.way == way)
        order = own[np.lexsort((labels.cost[own], labels.hours[own]))]
        best = np.minimum.accumulate(labels.cost[order])
        better = np.concatenate([[True], labels.cost[order][1:] < best[:-1]])
        kept.append(order[better])
    return labels.only(np.concatenate(kept))


def stage_plan(problem: OperationProblem, job_id: str) -> StagePlan:
    """Return the best way to run a job stage by stage, all GPUs at its disposal.

    Parameters
    ----------
    problem
        The decision.
    job_id
        One of its jobs.

    Returns
    -------
    StagePlan
        Exact: no sequence of ways has a lower expected cost.
    """
    job = problem.jobs[problem.job_index[job_id]]
    ways = _ways(problem, job)
    stages = _sequences(problem, job, ways, np.arange(len(ways.work)))
    at = int(np.argmin(stages[-1].cost))
    cost, sequence, ends = float(stages[-1].cost[at]), [], []
    for labels in reversed(stages):
        sequence.append(int(labels.way[at]))
        ends.append(float(labels.hours[at]))
        at = int(labels.parent[at])
    _, _, ending = _stages(job)
    until = np.array(ends[::-1])
    late = until > (job.due_date_s - problem.now_s) / HOUR_S + 1e-9
    return StagePlan(
        tuple((ways.types[w], ways.gpus[w]) for w in reversed(sequence)),
        cost,
        float(ending @ until),
        float(ending[late].sum()),
    )


def first_stage_costs(problem: OperationProblem, job: OperationJob) -> dict[tuple[str, int], float]:
    """Return, for each way to run the first stage, the least expected cost of what begins so.

    Parameters
    ----------
    problem
        The decision.
    job
        A job of it, with its chances to stop.
    """
    ways = _ways(problem, job)
    return {
        (ways.types[w], ways.gpus[w]): float(
            _sequences(problem, job, ways, np.array([w]))[-1].cost.min()
        )
        for w in range(len(ways.work))
    }


def stage_by_stage(data: OperationData) -> PartialPlan:
    """Run each job where it adds least to the expected cost of all its stages.

    A run costs what the best sequence that begins with it is expected to cost; the rest of a
    node's rate is charged until its first completion. Insertion by pressure, then improvement job
    by job. With the next stage comes a new decision, seen from there: a job that has survived has
    less chance to stop, and is given more GPUs where its due date asks for them.
    """
    problem = data.problem.replace(accounting="whole-job")
    seen = operation_data(problem, "expected-operation-cost")
    run_cost = np.full_like(seen.run_cost, np.inf)
    for j, job in enumerate(problem.jobs):
        for (name, gpus), cost in first_stage_costs(problem, job).items():
            run_cost[j, problem.type_index[name], gpus] = cost
    board = cheapest_insertion(replace(seen, run_cost=run_cost), pressure_order(seen))
    reinsert(board, np.random.default_rng(0), lambda: False, passes=1)
    return board
