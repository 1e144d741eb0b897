r"""F1 Round allocation: a multi-dimensional multiple-choice knapsack.

Which configuration does each job get for the coming slot?

Sets
----
j in J
    Jobs in the system. Equal jobs (same configurations, work, weight) form one class k with n_k
    jobs.
c in C_k
    Configurations of a job of class k, dominated ones left out; with (C3), only those are dominated
    whose tasks include all tasks of a faster one.
r in R
    Capacity rows: a resource of the cluster, or of the hosts with a GPU type, or a tenant's quota.

Parameters
----------
u_kc
    Utility of one job of class k in configuration c for the slot (see `alloc.objectives`).
a_kcr
    What configuration c takes of row r (milli-GPU, milli-cores, MiB).
B_r
    Capacity of row r.
n_k
    Number of jobs in class k.

Variables
---------
x_kc integer, 0 <= x_kc <= n_k
    Number of jobs of class k that run in configuration c.

Objective
---------
max sum_k sum_c u_kc x_kc

Constraints
-----------
(C1) one configuration a job:  sum_c x_kc <= n_k               for all k
(C2) capacity:                 sum_k sum_c a_kcr x_kc <= B_r   for all r
(C3) hosts:                    no conflict: gangs that fit (C2) and do not stand on the hosts

(C2) sums the hosts up, so (C1) and (C2) are a relaxation. Where an answer cannot be placed, the
fewest of its gangs that cannot stand together are a conflict; its rows are added (see
`alloc.models.host_conflicts`), and the program is solved again until its answer stands.

Size: sum_k |C_k| columns, |K| + |R| rows.

Complexity: NP-hard; pseudo-polynomial for one row (dynamic program). A vertex of
the LP relaxation has at most |R| jobs with fractional configurations, so the gap is below the
utility of |R| jobs. No EPTAS for |R| >= 2 unless FPT = W[1].

Literature: Kellerer, Pferschy, Pisinger, *Knapsack Problems* (2004), chapter 11; Kulik, Shachnai,
"There is no EPTAS for two-dimensional knapsack", IPL 110 (2010). The utilities: Peng et al.,
"Optimus", EuroSys 2018; Peng et al., "DL2", TPDS 2021; Qiao et al., "Pollux", OSDI 2021.
"""

from importlib import import_module
from typing import Any

from alloc.models.round.arrays import build_arrays as build_arrays
from alloc.models.round.data import RoundData as RoundData
from alloc.models.round.data import round_data as round_data

_LAZY = {
    "build_cpsat": "alloc.models.round.cpsat_model",
    "build_pyomo": "alloc.models.round.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load Pyomo and OR-Tools only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
