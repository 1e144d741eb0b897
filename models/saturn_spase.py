r"""Saturn's SPASE (F3 as published): strategy, node, GPUs and start of every task, makespan least.

The program of the paper, to hold stronger formulations against: `moldable` asks the same question
(`alloc.models.moldable`). A task (a job here) runs once, on GPUs of one node. Two changes are ours,
for the answer to be right: M is the least number that is large enough, where the published 1e10 is
beyond what solvers keep apart from rounding, and starts are not whole numbers.

Sets
----
i in I
    Tasks: the jobs.
s in S_i
    Strategies of a task: configurations on one node. Dominated ones are left out.
n in N
    Nodes: the hosts.
g in G_n
    GPUs of a node.

Parameters
----------
d_is
    Run time, seconds.
q_is
    GPUs.
a_i, b_i
    Arrival, and latest completion (deadline, horizon), infinite if none. The paper has all tasks
    there at the start and no deadlines.
M
    A time by which an optimal schedule is over; of GPUs, those of the largest node.

Variables
---------
B_is binary
    Whether task i runs by strategy s.
O_in binary
    Whether on node n.
P_ing binary
    Whether on GPU g of it.
A_ik binary, i < k
    Whether i goes before k where they share a GPU.
S_ing >= a_i
    Start of task i on a GPU; of a GPU that it does not use it says nothing.
T_i >= a_i
    Start of the gang.
C
    Makespan.

Objective
---------
min C

Constraints
-----------
(C1) one strategy:  sum_s B_is = 1,   sum_n O_in = 1                              for all i
(C2) GPUs:          sum_g P_ing >= q_is - M (2 - B_is - O_in)                     for all i, s, n
                    sum_g P_ing <= q_is + M (2 - B_is - O_in)
                    sum_g P_ing <= |G_n| O_in                                     for all i, n
                    B_is + O_in <= 1   where strategy s cannot run on node n
(C3) gang:          T_i - M (1 - P_ing) <= S_ing <= T_i + M (1 - P_ing)           for all i, n, g
(C4) makespan:      S_ing + d_is - M (2 - B_is - P_ing) <= C                      for all i, s, n, g
(C5) one at a time, for all i < k, n, g:
                    S_kng >= S_ing + d_is - M (4 - A_ik - B_is - P_ing - P_kng)   for all s in S_i
                    S_ing >= S_kng + d_ks - M (3 + A_ik - B_ks - P_ing - P_kng)   for all s in S_k
(C6) in time:       T_i + d_is <= b_i + M (1 - B_is)                              for all i, s

Size: |I| |N| |G| starts, |I|^2 |N| |G| |S| rows of (C5): 141 thousand at 24 tasks on 4 nodes of 8
GPUs, 2 million at 64 on 8.

Complexity: strongly NP-hard. Every M lets the relaxation run everything at once: its bound is that
of the longest task.

Literature: Nagrecha, Kumar, "Saturn: an optimized data system for multi-large-model deep learning
workloads", PVLDB 17 (2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyomo.environ as pyo

from alloc.errors import UnsupportedFeatureError
from alloc.formulation import BuiltModel, PyomoModel
from alloc.models.moldable.data import Array, MoldableData, moldable_data
from alloc.models.moldable.serial import by_choices
from alloc.models.named import Names, configuration_names, name_variables
from alloc.models.timed import TimedModel, timed
from alloc.objectives import Held
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Schedule
from alloc.units import MILLI

_SPAN = 1000.0
"""Of all times, in the model's units: what a tolerance of 1e-6 leaves of M is then a billionth."""


def build_pyomo(instance: Instance, objective: str, held: Sequence[Held] = ()) -> BuiltModel:
    """Build an instance as the published program.

    Parameters
    ----------
    instance
        Gangs on one node each, in continuous time.
    objective
        ``makespan``.
    held
        Earlier levels of a goal: none.

    Raises
    ------
    UnsupportedFeatureError
        In slots, and where a task is not GPUs of one node alone.
    """
    if instance.slot_s is not None:
        raise UnsupportedFeatureError(
            f'instance "{instance.name}": has slots, and family "saturn-spase" starts at any '
            'time; leave slot_s out, or take family "moldable".'
        )
    data = moldable_data(instance, objective, held, whole=True)
    nodes = _nodes(data)
    unit_s = math.ldexp(1.0, math.frexp(data.end_of_all / _SPAN)[1])
    last = data.end_of_all / unit_s
    model = TimedModel("saturn-spase")
    model.I = pyo.Set(initialize=range(data.num_jobs))
    model.IS = pyo.Set(initialize=[(i, s) for i in model.I for s in range(len(data.ways[i]))])
    model.N = pyo.Set(initialize=range(instance.topology.num_hosts))
    gpus = [int(n) // MILLI for n in instance.topology.capacity[:, 0]]
    model.NG = pyo.Set(initialize=[(n, g) for n in model.N for g in range(gpus[n])])
    most = max(gpus)
    d = {(i, s): data.ways[i][s].run_s / unit_s for i, s in model.IS}
    size = {
        (i, s): instance.jobs[i].configurations[data.ways[i][s].configuration].demand[0] // MILLI
        for i, s in model.IS
    }
    release = [float(a) / unit_s for a in data.release]

    model.B = pyo.Var(model.IS, domain=pyo.Binary)
    model.O = pyo.Var(model.I, model.N, domain=pyo.Binary)
    model.P = pyo.Var(model.I, model.NG, domain=pyo.Binary)
    pairs = [(i, k) for i in model.I for k in model.I if i < k]
    model.A = pyo.Var(pairs, domain=pyo.Binary)
    model.S = pyo.Var(model.I, model.NG, bounds=timed(lambda _, i, n, g: (release[i], last)))
    model.T = pyo.Var(model.I, bounds=lambda _, i: (release[i], last))
    model.C = pyo.Var(bounds=(0, last))

    @model.Constraint(model.I)
    def C1_one_strategy(m: pyo.ConcreteModel, i: int) -> Any:
        return pyo.quicksum(m.B[i, s] for s in range(len(data.ways[i]))) == 1

    @model.Constraint(model.I)
    def C1_one_node(m: pyo.ConcreteModel, i: int) -> Any:
        return pyo.quicksum(m.O[i, n] for n in m.N) == 1

    def used(m: pyo.ConcreteModel, i: int, n: int) -> Any:
        return pyo.quicksum(m.P[i, n, g] for g in range(gpus[n]))

    @model.Constraint(model.IS, model.N)
    def C2_enough(m: pyo.ConcreteModel, i: int, s: int, n: int) -> Any:
        if n not in nodes[i, s]:
            return m.B[i, s] + m.O[i, n] <= 1
        return used(m, i, n) >= size[i, s] - most * (2 - m.B[i, s] - m.O[i, n])

    @model.Constraint(model.IS, model.N)
    def C2_no_more(m: pyo.ConcreteModel, i: int, s: int, n: int) -> Any:
        if n not in nodes[i, s]:
            return pyo.Constraint.Skip
        return used(m, i, n) <= size[i, s] + most * (2 - m.B[i, s] - m.O[i, n])

    @model.Constraint(model.I, model.N)
    def C2_on_its_node(m: pyo.ConcreteModel, i: int, n: int) -> Any:
        return used(m, i, n) <= gpus[n] * m.O[i, n] if gpus[n] else pyo.Constraint.Skip

    @model.Constraint(model.I, model.NG)
    def C3_not_before(m: pyo.ConcreteModel, i: int, n: int, g: int) -> Any:
        return m.S[i, n, g] >= m.T[i] - last * (1 - m.P[i, n, g])

    @model.Constraint(model.I, model.NG)
    def C3_not_after(m: pyo.ConcreteModel, i: int, n: int, g: int) -> Any:
        return m.S[i, n, g] <= m.T[i] + last * (1 - m.P[i, n, g])

    @model.Constraint(model.IS, model.NG)
    def C4_makespan(m: pyo.ConcreteModel, i: int, s: int, n: int, g: int) -> Any:
        slack = 2 - m.B[i, s] - m.P[i, n, g]
        return m.S[i, n, g] + d[i, s] - (last + d[i, s]) * slack <= m.C

    both = [*pairs, *((k, i) for i, k in pairs)]
    keys = [(i, s, k) for i, k in both for s in range(len(data.ways[i]))]

    @model.Constraint(keys, model.NG)
    def C5_one_at_a_time(m: pyo.ConcreteModel, i: int, s: int, k: int, n: int, g: int) -> Any:
        """Say that k starts on a GPU once i is over there, if i goes first and both use it."""
        first = m.A[i, k] if i < k else 1 - m.A[k, i]
        slack = 4 - first - m.B[i, s] - m.P[i, n, g] - m.P[k, n, g]
        return m.S[k, n, g] >= m.S[i, n, g] + d[i, s] - (last + d[i, s]) * slack

    @model.Constraint(model.IS)
    def C6_in_time(m: pyo.ConcreteModel, i: int, s: int) -> Any:
        limit = float(data.deadline[i]) / unit_s
        if math.isinf(limit):
            return pyo.Constraint.Skip
        return m.T[i] + d[i, s] <= limit + (last + d[i, s]) * (1 - m.B[i, s])

    model.makespan = pyo.Objective(expr=unit_s * model.C)
    _name(data, model)
    strategies, places = list(model.IS), [(i, n) for i in model.I for n in model.N]

    def extract(values: Array) -> Schedule:
        of_strategy, of_place, start = np.split(
            values, [len(strategies), len(strategies) + len(places)]
        )
        taken = {i: s for (i, s), v in zip(strategies, of_strategy, strict=True) if v > 0.5}
        place = {i: n for (i, n), v in zip(places, of_place, strict=True) if v > 0.5}
        choice = [(taken[i], nodes[i, taken[i]][place[i]]) for i in model.I]
        runs = [data.ways[i][taken[i]].run_s for i in model.I]
        order = np.lexsort((np.array(runs), start))
        return by_choices(data, order.tolist(), choice).schedule(data)

    variables = (
        *(model.B[key] for key in strategies),
        *(model.O[key] for key in places),
        *(model.T[i] for i in model.I),
    )
    return BuiltModel(PyomoModel(model, variables, "min"), extract)


def _name(data: MoldableData, model: TimedModel) -> None:
    """Offer strategies and nodes by the names of jobs, configurations and hosts."""
    jobs, hosts = data.instance.jobs, data.instance.topology.hosts
    names = [configuration_names(job.configurations) for job in jobs]
    strategy: dict[Names, Any] = {
        (jobs[i].id, names[i][data.ways[i][s].configuration]): model.B[i, s] for i, s in model.IS
    }
    name_variables(model, "strategy", strategy, "job, configuration: whether it runs so")
    node: dict[Names, Any] = {
        (jobs[i].id, hosts[n].id): model.O[i, n] for i in model.I for n in model.N
    }
    name_variables(model, "node", node, "job, host: whether it runs there")


def _nodes(data: MoldableData) -> dict[tuple[int, int], dict[int, int]]:
    """Return the nodes on which each strategy of each task can run, with the placement there."""
    topology = data.instance.topology
    at = {host.id: h for h, host in enumerate(topology.hosts)}
    found: dict[tuple[int, int], dict[int, int]] = {}
    for i, ways in enumerate(data.ways):
        job = data.instance.jobs[i]
        for s, way in enumerate(ways):
            demand = job.configurations[way.configuration].demand
            alone = all(
                len(placement.use) == 1 and placement.use[0][1] == demand[0]
                for placement in way.placements
            )
            if not demand[0] or any(demand[1:]) or not alone:
                raise UnsupportedFeatureError(
                    f'job "{job.id}": configuration {way.configuration} takes more than GPUs of '
                    'one host, and family "saturn-spase" knows nothing else; set within="host" '
                    'and leave CPUs, memory and quotas out, or take family "moldable".'
                )
            found[i, s] = {at[p.tasks[0].host]: k for k, p in enumerate(way.placements)}
    return found
