r"""F2 Malleable jobs over time: a time-indexed program, and profiles.

Who runs in which configuration in every slot, so that jobs complete early?

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

Objective
---------
min sum_j w_j (r_j - arrival_j + sum_t e_jt + o_j / max_c rho_jc)       [slots; reported in seconds]

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

(C6) and (C9) hold for every schedule and only strengthen the relaxation. (C9): the mean time at
which a job's work is done lies at least half of its least processing time before its completion
(Goemans, Queyranne, Schulz, Skutella, Wang 2002); the last slot may be used in part, which moves
the mean of its work by at most an eighth of a slot's share.

(C13) is added where an answer cannot be placed, as in F1 (`alloc.models.host_conflicts`): what does
not stand in one slot stands in none. Hosts that a job keeps from slot to slot are not modelled, so
with restart costs on several hosts the program stays a relaxation.

Size: sum_j |T_j| |C_j| binaries.

Complexity: strongly NP-hard, already for one resource and rigid jobs.

Profiles: choosing one *profile* (the slots and configurations of a whole job) per job within (C8)
is the same problem; its linear relaxation is stronger than this one and is solved by column
generation (`alloc.solving.malleable.method`), priced by the dynamic program of
`alloc.models.malleable.profiles`.

Literature: Du, Leung, "Complexity of scheduling parallel task systems", SIAM J. Disc. Math. 2
(1989); Goemans et al., "Single machine scheduling with release dates", SIAM J. Disc. Math. 15
(2002); Dyer, Wolsey, "Formulating the single machine sequencing problem with release dates", DAM 26
(1990); Peng et al., "DL2", TPDS 2021, whose world this is.
"""

from importlib import import_module
from typing import Any

from alloc.models.malleable.arrays import build_arrays as build_arrays
from alloc.models.malleable.data import SlotData as SlotData
from alloc.models.malleable.data import slot_data as slot_data
from alloc.models.malleable.profiles import lagrangian_bound as lagrangian_bound

_LAZY = {
    "build_cpsat": "alloc.models.malleable.cpsat_model",
    "build_pyomo": "alloc.models.malleable.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load Pyomo and OR-Tools only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
