"""The numbers of a decision in operation, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from alloc.formulation import Array
from alloc.problems.operation.problem import OperationProblem
from alloc.units import HOUR_S
from alloc.verification.operation import require_operation_objective

Whole = npt.NDArray[np.int64]

_ROUNDING = 1e-12
"""Relative difference of numbers that are equal but for rounding."""


@dataclass(frozen=True)
class OperationData:
    """A decision as arrays over jobs j, types v and GPUs g (position g; 0 GPUs are position 0).

    Parameters
    ----------
    problem
        The decision.
    gpus
        GPUs of a node of each type, shape (V,).
    nodes_of
        Nodes of each pool, shape (P,).
    offers
        Whether a pool offers a type, shape (P, V).
    hours
        Time that a job runs, hours; infinite where it cannot, shape (J, V, G + 1).
    run_cost
        What a job's run costs apart from its node: tardiness, and with the accounting
        ``whole-job`` its share of the node; infinite where it cannot run, shape (J, V, G + 1).
    wait_cost
        What it costs to postpone a job, shape (J,).
    node_rate
        Money per hour of a node with u GPUs in use until its first completion; infinite beyond
        its GPUs, shape (V, G + 1).
    power_w
        Power of a node with u GPUs in use, shape (V, G + 1).
    """

    problem: OperationProblem
    gpus: Whole
    nodes_of: Whole
    offers: npt.NDArray[np.bool_]
    hours: Array
    run_cost: Array
    wait_cost: Array
    node_rate: Array
    power_w: Array

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return len(self.wait_cost)

    @property
    def num_types(self) -> int:
        """Number of types."""
        return len(self.gpus)

    @cached_property
    def max_nodes(self) -> Whole:
        """Most nodes that can be of each type, shape (V,)."""
        return self.nodes_of @ self.offers.astype(np.int64)

    @cached_property
    def falls_never(self) -> bool:
        """Whether the rate of no node falls when more of its GPUs are in use.

        Then a GPU kept free is never dearer than one in use, and dearer ways to run a job with
        more GPUs can be left out.
        """
        return all(
            bool((np.diff(rate[1 : g + 1]) >= -1e-12).all())
            for rate, g in zip(self.node_rate, self.gpus, strict=True)
        )


def operation_data(problem: OperationProblem, objective: str = "operation-cost") -> OperationData:
    """Return the numbers of a decision for an objective of the checker.

    Parameters
    ----------
    problem
        The decision.
    objective
        ``operation-cost`` or ``expected-operation-cost``.
    """
    expected = require_operation_objective(objective) == "expected-operation-cost"
    gpus = np.array([t.num_gpus for t in problem.types], dtype=np.int64)
    most = int(gpus.max())
    offers = np.array([[t.name in pool.types for t in problem.types] for pool in problem.pools])
    work, delay = _durations(problem, np.asarray(offers.any(axis=0)), most)
    mean, late = _mean_and_late(problem, work, delay, expected)
    tardiness = np.array([job.tardiness_cost_per_h for job in problem.jobs])
    hours = mean / HOUR_S
    can = np.isfinite(hours)
    run_cost = np.where(can, np.where(can, late, 0.0) / HOUR_S * tardiness[:, None, None], np.inf)
    rate = _table(problem, most, "rate")
    power_w = _table(problem, most, "power")
    worst = np.array([problem.worst_duration(job) for job in problem.jobs])
    due = np.array([job.due_date_s for job in problem.jobs])
    fear = np.maximum(problem.now_s + problem.replan_s + worst - due, 0.0) / HOUR_S
    wait_cost = problem.postponement_factor * tardiness * fear
    if problem.accounting == "whole-job":
        number = np.arange(most + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nanmin(np.where(number > 0, rate / number, np.nan), axis=1)
        own = np.where(can, share[:, None] * number * np.where(can, hours, 0.0), np.inf)
        wait_cost = wait_cost + own.min(axis=(1, 2))
        run_cost = run_cost + own
        # Where the two are equal, rounding leaves a difference: a free remainder must not become a
        # gain, nor a coefficient as small as the tolerances of a solver.
        shared = share[:, None] * number
        rate = np.where(rate - shared <= _ROUNDING * shared, 0.0, rate - shared)
    nodes_of = np.array([pool.count for pool in problem.pools], dtype=np.int64)
    return OperationData(problem, gpus, nodes_of, offers, hours, run_cost, wait_cost, rate, power_w)


def _durations(
    problem: OperationProblem, offered: npt.NDArray[np.bool_], most: int
) -> tuple[Array, Array]:
    """Return the time of the work itself and the time before it, seconds, shape (J, V, G + 1)."""
    shape = (len(problem.jobs), len(problem.types), most + 1)
    work, delay = np.full(shape, np.inf), np.zeros(shape)
    for j, job in enumerate(problem.jobs):
        delay[j] = job.restart_s
        for name, times in job.duration_s.items():
            v = problem.type_index[name]
            if offered[v]:
                work[j, v, 1 : len(times) + 1] = [np.inf if t is None else t for t in times]
    for running in problem.running:
        j, v = problem.job_index[running.job], problem.type_index[running.type]
        delay[j, v, running.gpus] = 0.0
    return work, delay


def _mean_and_late(
    problem: OperationProblem, work: Array, delay: Array, expected: bool
) -> tuple[Array, Array]:
    """Return how long jobs run and how late they are, seconds, in the mean over their stops."""
    due = np.array([job.due_date_s for job in problem.jobs])[:, None, None]
    stages = max((len(job.stops) for job in problem.jobs), default=0) if expected else 0
    can = np.isfinite(work)
    work = np.where(can, work, 0.0)
    mean, late = np.zeros_like(work), np.zeros_like(work)
    left = np.ones((len(problem.jobs), 1, 1))
    for k in range(stages + 1):
        fraction, probability = np.ones_like(left), left
        if k < stages:
            stops = [job.stops[k : k + 1] for job in problem.jobs]
            fraction = np.array([s[0].fraction if s else 1.0 for s in stops])[:, None, None]
            probability = np.array([s[0].probability if s else 0.0 for s in stops])[:, None, None]
        time = delay + fraction * work
        mean += probability * time
        late += probability * np.maximum(problem.now_s + time - due, 0.0)
        left = left - probability
    return np.where(can, mean, np.inf), np.where(can, late, np.inf)


def _table(problem: OperationProblem, most: int, what: str) -> Array:
    """Return rate or power by type and GPUs in use, infinite beyond a node's GPUs."""
    table = np.full((len(problem.types), most + 1), np.inf)
    for v, node_type in enumerate(problem.types):
        for u in range(node_type.num_gpus + 1):
            power = node_type.power_at(u)
            table[v, u] = power if what == "power" else problem.rate_per_h(node_type, u)
    return table
