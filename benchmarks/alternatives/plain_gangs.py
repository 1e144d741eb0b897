"""Moldable gangs as a CP-SAT model that one writes in an hour: an interval a task, way and node.

No energies, no order of pairs, no symmetry of nodes, no schedule to start from. Starts of a task
are tied to those of its ways, each way with a start of its own, as CP-SAT's cumulative wants it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from ortools.sat.python import cp_model

from alloc.problems.allocation.instance import Instance
from alloc.units import MILLI
from alloc.workload import Configuration, Job
from benchmarks.cpu_limits import stopped_at


@dataclass(frozen=True)
class PlainAnswer:
    """What the plain model says.

    Parameters
    ----------
    objective, bound
        In seconds; infinite without one.
    """

    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """Gap relative to the objective, infinite without a solution."""
        if math.isinf(self.objective):
            return math.inf
        return (self.objective - self.bound) / self.objective if self.objective else 0.0


def solve_plainly(
    instance: Instance,
    objective: str,
    seconds: float,
    workers: int,
    seed: int = 0,
    *,
    cpu_time: bool = False,
) -> PlainAnswer:
    """Solve gangs on one host each, times in whole seconds.

    Parameters
    ----------
    instance
        Gangs that run once, each within a host.
    objective
        ``makespan``, ``weighted_jct`` or ``tardiness``.
    seconds, workers, seed
        Of CP-SAT.
    cpu_time
        Whether the seconds are CPU time of this process, from now on.
    """
    model, topology = cp_model.CpModel(), instance.topology
    last = int(sum(max(_run_s(job, c) for c in job.configurations) for job in instance.jobs))
    last += int(max(job.arrival_s for job in instance.jobs))
    on: list[list[tuple[cp_model.IntervalVar, int]]] = [[] for _ in topology.hosts]
    ends = []
    for job in instance.jobs:
        start = model.new_int_var(int(job.arrival_s), last, "")
        end = model.new_int_var(0, last, "")
        chosen = []
        for c in job.configurations:
            for h, kind in enumerate(topology.gpu_types):
                if c.gpu_type not in (None, kind):
                    continue
                x, own = model.new_bool_var(""), model.new_int_var(int(job.arrival_s), last, "")
                length = _run_s(job, c)
                model.add(own == start).only_enforce_if(x)
                model.add(end == own + length).only_enforce_if(x)
                interval = model.new_optional_fixed_size_interval_var(own, length, x, "")
                on[h].append((interval, c.demand[0] // MILLI))
                chosen.append(x)
        model.add_exactly_one(chosen)
        ends.append(end)
    for h, own_host in enumerate(on):
        intervals, sizes = zip(*own_host, strict=True)
        model.add_cumulative(intervals, sizes, int(topology.capacity[h, 0]) // MILLI)
    if objective == "makespan":
        over = model.new_int_var(0, last, "")
        model.add_max_equality(over, ends)
        model.minimize(over)
    elif objective == "tardiness":
        late = []
        for job, end in zip(instance.jobs, ends, strict=True):
            if job.due_date_s is not None:
                late.append((int(job.weight), model.new_int_var(0, last, "")))
                model.add(late[-1][1] >= end - int(job.due_date_s))
        model.minimize(sum(weight * over for weight, over in late))
    else:
        model.minimize(
            sum(
                int(job.weight) * (end - int(job.arrival_s))
                for job, end in zip(instance.jobs, ends, strict=True)
            )
        )
    solver = cp_model.CpSolver()
    if not cpu_time:
        solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    solver.parameters.use_disjunctive_constraint_in_cumulative = False
    with stopped_at(solver, time.process_time() + seconds if cpu_time else math.inf):
        status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return PlainAnswer(math.inf, -math.inf)
    return PlainAnswer(solver.objective_value, solver.best_objective_bound)


def _run_s(job: Job, configuration: Configuration) -> int:
    return round(job.work / configuration.rate)
