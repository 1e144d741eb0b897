r"""F6 Admission: which jobs with deadlines to accept, and who runs in which configuration when.

A job may be promised or may be refused. Which ones can be accepted so that all that are complete by
their deadlines, and the accepted ones are worth most?

Sets
----
j in J
    Jobs. Those that may be refused and cannot complete in time alone on the cluster are left out.
    E are the best-effort jobs: without a deadline, and never refused; D are all others.
t in T_j
    Slots of job j, from its release r_j to the slot of its limit, or to the last slot T of the
    model.
c in C_j
    Configurations of job j, dominated ones left out.
r in R
    Capacity rows: a resource of the cluster, or of the hosts with a GPU type, or a tenant's quota.

Parameters
----------
rho_jc
    Work that configuration c gets done in a slot, work units. Tables of any shape.
Q_j
    Work left, work units; a billionth of the whole work is no work (`alloc.progress`).
f_jt
    Part of slot t that lies before the limit of j: 1, and less in the last slot.
w_j
    Weight: the value of an accepted job.
a_jcr, B_r
    Use of row r by configuration c; its capacity in every slot.
g_jc
    GPU time of a slot in configuration c, GPU h.
delta_j
    Restart cost, slots, at most 1; ``lost_jt = min(delta_j, f_jt)``.

Variables
---------
a_j binary
    Job j is accepted; 1 for every job that may not be refused.
x_jtc binary
    Job j holds configuration c in slot t.
b_jt, z_jtc in [0, 1]
    Whether j has started before slot t; whether it pays a restart there (only if delta_j > 0).
m_jc binary
    Whether j ever runs in c (only if it may not change its configuration).
s_jt in [0, 1]
    Whether j starts or resumes in slot t (only if it may not pause).
v_jtc, u_jt, e_jt, o_j
    Of best-effort jobs, as in F2: fraction of the slot that it works, whether it is unfinished
    after the slot (binary), fraction of the slot in which it is unfinished, work left over after
    the last slot.

Objective
---------
A goal of one or more levels, ``value then gpu_time then best_effort_jct``:

    value             max sum_j w_j a_j
    gpu_time          min sum_{j in D} sum_tc g_jc x_jtc      [GPU h]
    best_effort_jct   min sum_{j in E} w_j (C_j - arrival_j)  [s]

with ``C_j = r_j + sum_t e_jt + o_j / max_c rho_jc``.

Constraints
-----------
(C1) work:        sum_tc rho_jc (f_jt x_jtc - lost_jt z_jtc) >= Q_j a_j     for all j in D
(C2) one way:     sum_c x_jtc <= a_j                                        for all j, t
(C3) capacity:    sum_jc a_jcr x_jtc <= B_r                                 for all t, r
(C4) one choice:  x_jtc <= m_jc,  sum_c m_jc <= a_j                         for all j, t, c
(C5) no pause:    s_jt >= sum_c x_jtc - sum_c x_j,t-1,c,  sum_t s_jt <= a_j  for all j, t
                  sum_c x_j,t+1,c >= sum_c x_jtc + u_j,t+1 - 1 for j in E      for all j, t
(C6) restarts:    z_jtc >= x_jtc - x_j,t-1,c + b_jt - 1;  b_jt >= b_j,t-1;
                  b_jt >= sum_c x_j,t-1,c                                   for all j, t, c
(C7) best effort: (C1) to (C5) and (C7) of F2 with v, u, e and o            for all j in E
(C8) flow cuts:   sum_j a_j min area of j that must lie in S <= B_r |S|     for intervals S, rows r
(C9) hosts:       no conflict: gangs that fit (C3) and do not stand on the hosts  for all t
(C10) held:       an earlier level keeps what it reached, up to 1e-7 of it  for all levels

(C8) is implied, and holds the binaries a alone: what is left of Q_j when j runs as fast as it can
in all its slots outside S must be done in S, in the configuration with the least use of r for its
work (energetic reasoning; Baptiste, Le Pape, Nuijten 1999). A solver makes covers of it.

(C9) is added where an answer cannot be placed, as in F1 (`alloc.models.host_conflicts`). Hosts that
a job keeps from slot to slot are not modelled, so with restart costs on several hosts the program
stays a relaxation.

Linear tables: where every job may pause and change at no cost, the only row that binds is that of
the GPUs, tasks stand wherever a GPU is free, and a job runs on any whole number of GPUs up to a
largest one, each as fast as the first, the jobs of a set can all be accepted if and only if a
network carries their GPU slots: job j sends ``p_j = ceil(Q_j / rho_j1)`` units over arcs (j, t) of
capacity m_j into slots of capacity B. By max-flow min-cut that is, for all sets S of slots,

    sum_j a_j max(0, p_j - m_j |T_j minus S|) <= B |S|                                    (cuts)

so that what is left is a knapsack over a with these rows, separated by a maximum flow. The flow is
whole where the capacities are (`alloc.solving.admission.flow`).

Plans: where jobs may pause and change at no cost and only values count, a column may be one plan p
of one job, its configurations in all of its slots (Dantzig and Wolfe 1960):

    max sum_p w_p z_p,   sum_p a_ptr z_p <= B_r  for all t, r,   sum_{p of j} z_p <= 1  for all j

For any prices q >= 0 the value is at most ``sum_tr B_r q_tr + sum_j max(0, w_j - k_j(q))`` with
k_j(q) the price of the cheapest plan, a dynamic program over the work done
(`alloc.models.admission.plans`). Jobs of which no windows overlap share no row, so that a queue
falls into parts (`alloc.solving.admission.parts`).

Size: sum_j |T_j| |C_j| + |J| binaries; |J| with linear tables.

Complexity: NP-hard, already with one slot (knapsack) and for non-concave tables with equal values;
with linear tables and equal values on one interval polynomial.

Literature: Gu et al., "ElasticFlow: an elastic serverless training platform for distributed deep
learning", ASPLOS 2023 (minimum satisfactory share); Gao et al., "Chronus: a novel deadline-aware
scheduler for deep learning training jobs", SoCC 2021 (leases, an integer program); Horn, "Some
simple scheduling algorithms", Naval Research Logistics 21 (1974) (preemptive deadlines by flow);
Baptiste, Le Pape, Nuijten, "Satisfiability tests and time-bound adjustments for cumulative
scheduling problems", Annals of OR 92 (1999); Dantzig, Wolfe, "Decomposition principle for linear
programs", Operations Research 8 (1960).
"""

from importlib import import_module
from typing import Any

from alloc.models.admission.arrays import build_arrays as build_arrays
from alloc.models.admission.data import AdmissionData as AdmissionData
from alloc.models.admission.data import admission_data as admission_data

_LAZY = {"build_pyomo": "alloc.models.admission.pyomo_model"}


def __getattr__(name: str) -> Any:
    """Load Pyomo only when its model is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
