r"""F4 Topology-aware gang placement: counts of tasks on hosts.

Which jobs run, in which configuration, and on which hosts do their tasks stand?

Sets
----
k in K
    Job classes: equal jobs whose tasks counts can deal out afterwards (`classes`), most often a
    single job; N_k jobs.
v in V_k
    Ways of a class: the configurations that its jobs may run in. A running job that is not
    malleable keeps its own.
i in I_v
    Task groups of a way: n_i tasks of one gang each. Slices and spreads count those with GPUs.
h in H
    Hosts.
d in D_l
    Domains of level l; H_d hosts in a domain. Hosts in no domain of a level that a rule names
    cannot keep it, so y is 0 there; where domains are counted, each is a place by itself.
r in R
    Resources.

Parameters
----------
a_ir, B_hr
    What one task of group i takes of resource r; what host h has (milli-GPU, milli-cores, MiB).
u_ih
    Most tasks of group i on host h by themselves: 0 where GPU type or GPU memory do not suit.
o_krh
    Tasks of role r of class k that run on host h now.
q_t, g_v
    Quota of a tenant (with what it may borrow) or a cohort; GPU of a gang.

Variables
---------
x_v integer, 0 <= x_v <= N_k
    Gangs that run in way v.
y_ih integer, 0 <= y_ih <= u_ih
    Tasks of group i on host h.
w_vd integer
    Gangs of way v that stand in domain d, for every level that must hold a gang.
p_kd binary
    Whether a job may have tasks in domain d (presence), for every level where it is asked.
m_krh >= 0
    Tasks of a running class that leave host h.

Objective
---------
A level of a goal: a weighted sum of the objectives below, each wanted in its own sense, so that
auxiliary variables are held from one side. Goals of several levels are solved level by level, the
earlier ones held (`alloc.solving.lexicographic`).

Constraints
-----------
(C1) one way:    sum_{v in V_k} x_v <= N_k; = N_k if the class must keep running       for all k
(C2) gang:       sum_h y_ih = n_i x_v                                               for all v, i
(C3) capacity:   sum_i a_ir y_ih <= B_hr                                            for all h, r
(C4) required:   sum_d w_vd = x_v;  sum_{h in H_d} y_ih = n_i w_vd                  for all i, d
(C5) slices:     sum_{h in H_d} y_ih = s q_id, q integer              for all i, d; slice size s
(C6) spread:     sum_{i ruled} sum_{h in H_d} y_ih <= most                          for all v, d
(C7) together:   sum_d p_d <= 1;  sum_{h in H_d} y_ih <= n_i p_d     for all i of the jobs and d
(C8) apart:      sum_k p_kd <= 1                                      for all d, over the jobs k
(C9) presence:   sum_{h in H_d} y_ih <= n_i p_kd;  p_kd <= sum_v x_v;  sum_d p_kd >= sum_v x_v
(C10) quotas:    sum_v g_v x_v <= q_t                           for all tenants t, cohorts,
                                                                 and resources of the cluster
(C11) moves:     m_krh + sum_{i of role r} y_ih >= o_krh;  sum m <= budget;
                 a pinned class has m = 0

and what the objectives need:

(C12) hosts used:   y_ih <= u_ih o_h;  sum_i a_ir y_ih <= B_hr o_h
(C13) balance:      b_hr >= sum_i a_ir y_ih / B_hr - mean_h' (sum_i a_ir y_ih' / B_h'r)
(C14) bandwidth:    for every width b_t in the cluster, hosts joined at b_t or wider form parts P_t.
                    e_kt = 1 only if all GPUs of gang k stand in one part and no host joins two of
                    them at less; the gang's bandwidth is sum_t (b_t - b_(t-1)) e_kt. Exact where
                    the widths form a tree.
(C15) fragments:    for every task shape s of frequency f_s: t_sh <= free GPUs of h,
                    t_sh <= B_h a_sh, and a_sh = 1 only if h has room for s; the expected unusable
                    GPU is sum_h (free_h - sum_s f_s t_sh)
(C16) largest gang: L <= free GPUs of the place chosen

Size: sum_i |H| integers y, |K| + |I| + |H||R| rows, and those of the rules. Equal single tasks are
one row, also with moves: what leaves a host is max(0, o - y), whichever jobs the tasks belong to.

Complexity: strongly NP-hard, already for one resource and one-task jobs (bin packing). Buddy sizes
(powers of two) on equal hosts pack exactly by first-fit decreasing (Coffman, Garey, Johnson 1987).

What the models do not have: shares of GPUs and MIG slices (formulation "sharing"), and the
objectives mean_bandwidth, all_to_all_bandwidth and all_to_all_mean_bandwidth, which are quadratic.

Literature: Coffman, Garey, Johnson, "Bin packing with divisible item sizes", J. Complexity 3
(1987); Weng et al., "Beware of Fragmentation", USENIX ATC 2023; Zhao et al., "HiveD", OSDI 2020;
Kumar et al., "Optimizing Resource Allocation in Hyperscale Datacenters" (Rebalancer), OSDI 2024.
"""

from importlib import import_module
from typing import Any

from alloc.models.placement.arrays import build_arrays as build_arrays
from alloc.models.placement.data import Group as Group
from alloc.models.placement.data import PlacementData as PlacementData
from alloc.models.placement.facts import Facts as Facts

_LAZY = {
    "build_cpsat": "alloc.models.placement.cpsat_model",
    "build_pyomo": "alloc.models.placement.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load Pyomo and OR-Tools only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
