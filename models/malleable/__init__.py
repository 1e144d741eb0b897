r"""F2 Malleable jobs over time: a time-indexed program, and profiles.

Who runs in which configuration in every slot, so that jobs complete early, in time, or fairly?

Sets
----
j in J
    Jobs.
t in T_j
    Slots of job j, from its release r_j (the first slot that starts at or after its arrival) to the
    last slot T of the model, or the slot of its limit.
c in C_j
    Configurations of job j, dominated ones left out.
r in R
    Capacity rows: a resource of the cluster, or of the hosts with a GPU type, or a tenant's quota.

Parameters
----------
rho_jc
    Work that configuration c gets done in a slot, work units. Tables of any shape.
Q_j
    Work left, work units.
w_j
    Weight.
arrival_j, d_j
    Arrival; due date, infinite if none. In slots, as l_j below.
a_jcr, B_r
    Use of row r by configuration c; its capacity in every slot.
l_j
    Latest completion (deadline or horizon), slots; infinite if none.
delta_j
    Restart cost, slots, at most 1.
p_j = Q_j / max_c rho_jc
    Least processing time, slots.

Variables
---------
x_jtc binary
    Job j holds configuration c in slot t.
v_jtc in [0, 1]
    Fraction of slot t in which it works in c.
u_jt in [0, 1]
    Whether j is unfinished at the start of slot t.
e_jt in [0, 1]
    Fraction of slot t in which j is unfinished.
o_j >= 0
    Work left over after the last slot, done at full speed and free of charge. It makes the program
    a relaxation of the problem without an end, so that its bound holds for any T; it is exact when
    the optimum leaves nothing over.
b_jt, z_jt in [0, 1]
    Whether j has started before slot t; whether it pays a restart in t (only if delta_j > 0).
m_jc binary
    Whether j ever runs in c (only if it may not change its configuration).
q_j >= 0
    Late part of the slot that the due date splits, or of o_j (only if d_j splits either).
z_k >= LB_k
    Peak k, at least what the load proves of it (`alloc.models.malleable.costs.peak_floor`).

Objective
---------
A goal has one or more levels, ``makespan then mean_jct``: the first is minimised, then the second
among the optima of the first, and so on. A level is a weighted sum of objectives, each a function
of the completions ``C_j = r_j + sum_t e_jt + o_j / max_c rho_jc``:

    weighted_jct    sum_j w_j (C_j - arrival_j)                                     [s]
    mean_jct        sum_j (C_j - arrival_j) / |J|                                   [s]
    tardiness       sum_j w_j max(C_j - d_j, 0), over the jobs with a due date      [s]
    makespan        max_j C_j                                                       [s]
    max_slowdown    max_j (C_j - arrival_j) / p'_j                                  [times]

with ``p'_j = Q_j / max rate`` over all configurations of the job's table, its least run time alone.
The reciprocal of a job's slowdown is its normalised rate over its life, so the least largest
slowdown is the largest smallest rate: max-min fairness (Gavel), and Themis' finish-time fairness
rho with the whole cluster as a job's share.

All of them never fall in any completion (they are *regular*), and each level is ``sum_j f_j(C_j) +
sum_k max_j g_kj(C_j)`` with f_j convex and piecewise linear, ``f_j(C) = base_j + rate_j C + late_j
max(C - d_j, 0)``, and g_kj linear, ``slope_kj (C - origin_kj)``; makespan and slowdown are the
*peaks* k. So

min sum_j [f_j(r_j) + sum_t cost_jt e_jt + over_j o_j / max_c rho_jc + late_j q_j] + sum_k z_k

with cost_jt = rate_j, and rate_j + late_j in slots after the due date; over_j likewise.

Constraints
-----------
(C1) work:        sum_tc rho_jc v_jtc + o_j >= Q_j                        for all j
(C2) alive:       sum_c x_jtc <= u_jt                                    for all j, t
(C3) working:     v_jtc <= x_jtc; with restarts also
                  sum_c v_jtc <= sum_c x_jtc - delta_j z_jt              for all j, t, c
(C4) monotone:    u_j,t+1 <= u_jt                                        for all j, t
(C5) time:        e_jt >= u_j,t+1,  e_jt >= sum_c v_jtc + delta_j z_jt   for all j, t
(C6) unfinished:  Q_j u_j,t+1 >= Q_j - sum_{t' <= t} sum_c rho_jc v_jt'c  for all j, t
(C7) left over:   o_j <= Q_j u_j,T+1                                     for all j
(C8) capacity:    sum_jc a_jcr x_jtc <= B_r                              for all t, r
(C9) mean busy time:  sum_t e_jt + o_j / max rho >= sum_tc rho_jc v_jtc (t - r_j + 1/2) / Q_j
                  + o_j (T + 1 - r_j) / Q_j + p_j / 2 - 1 / (8 p_j)        for all j
(C10) restarts:   z_jt >= x_jtc - x_j,t-1,c + b_jt - 1;  b_jt >= b_j,t-1;
                  b_jt >= sum_c x_j,t-1,c                                for all j, t, c
(C11) one choice: x_jtc <= m_jc,  sum_c m_jc <= 1                        for all j, t, c
(C12) no pause:   sum_c x_j,t+1,c >= sum_c x_jtc + u_j,t+1 - 1           for all j, t
(C13) hosts:      no conflict: gangs that fit (C8) and do not stand on the hosts     for all t
(C14) late part:  q_j >= e_jt - (d_j - t) in the slot t of d_j;
                  q_j >= o_j / max rho - (d_j - T - 1) if it lies beyond         for all j with q_j
(C15) peaks:      z_k >= slope_kj (C_j - origin_kj)                                for all k, j
(C16) held:       an earlier level <= what it reached, up to 1e-7 of it            for all levels

(C6) and (C9) hold for every schedule and only strengthen the relaxation. (C9): the mean time at
which a job's work is done lies at least half of its least processing time before its completion
(Goemans, Queyranne, Schulz, Skutella, Wang 2002); the last slot may be used in part, which moves
the mean of its work by at most an eighth of a slot's share.

An earlier level that is a single peak needs no (C16): it is a deadline for every job, ``l_j <=
origin_kj + value / slope_kj``, which is stronger.

(C13) is added where an answer cannot be placed, as in F1 (`alloc.models.host_conflicts`): what does
not stand in one slot stands in none. Hosts that a job keeps from slot to slot are not modelled, so
with restart costs on several hosts the program stays a relaxation.

Size: sum_j |T_j| |C_j| binaries.

Complexity: strongly NP-hard for every objective, already for one resource and rigid jobs.

Profiles: choosing one *profile* (the slots and configurations of a whole job) per job within (C8)
is the same problem; its linear relaxation is stronger than this one and is solved by column
generation (`alloc.solving.malleable.method`), priced by the dynamic program of
`alloc.models.malleable.profiles`. Its prices for capacity, for (C15) and for (C16) make one cost
table of the objective and of what is held, again of the form of f_j: for prices p, shares pi_kj >=
0 with sum_j pi_kj <= 1, and multipliers mu_h >= 0,

    sum_j min over profiles [f_j(C) + sum_k pi_kj g_kj(C) + sum_h mu_h f_hj(C) + price of its slots]
    + sum_k (1 - sum_j pi_kj) LB_k - sum_h mu_h limit_h - sum_tr p_tr B_r

is at most the value of every schedule that keeps what is held. (The peaks of a held level count
likewise, with mu_h in place of 1.) Nothing in the bound is special to one objective but the closed
pricing of one-configuration jobs side by side, which needs a weighted sum of completions and is
left out for others.

Literature: Du, Leung, "Complexity of scheduling parallel task systems", SIAM J. Disc. Math. 2
(1989); Goemans et al., "Single machine scheduling with release dates", SIAM J. Disc. Math. 15
(2002); Dyer, Wolsey, "Formulating the single machine sequencing problem with release dates", DAM 26
(1990); Peng et al., "DL2", TPDS 2021, whose world this is; Narayanan et al., "Heterogeneity-aware
cluster scheduling policies for deep learning workloads" (Gavel), OSDI 2020; Mahajan et al.,
"Themis", NSDI 2020; Bender, Chakrabarti, Muthukrishnan, "Flow and stretch metrics for scheduling
continuous job streams", SODA 1998 (largest slowdown); Fisher, "A dual algorithm for the one-machine
scheduling problem", Math. Programming 11 (1976) (prices for capacity under regular objectives).
"""

from importlib import import_module
from typing import Any

from alloc.models.malleable.arrays import build_arrays as build_arrays
from alloc.models.malleable.data import SlotData as SlotData
from alloc.models.malleable.data import slot_data as slot_data
from alloc.models.malleable.labels import lagrangian_bound as lagrangian_bound

_LAZY = {
    "build_cpsat": "alloc.models.malleable.cpsat_model",
    "build_pyomo": "alloc.models.malleable.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load Pyomo and OR-Tools only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
