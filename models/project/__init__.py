r"""F9 Projects: when, and in which mode, does each activity of a job's graph run?

Jobs are graphs of activities, which start when their predecessors have ended and take resources in
one of several modes: GPUs while they run, a budget for good. This is the multi-mode
resource-constrained project scheduling problem, MRCPSP (F. B. Talbot, Management Science 28(10),
1982, doi:10.1287/mnsc.28.10.1197), with jobs that have releases, weights and due dates.

Sets
----
i in A
    Activities, with a source 0 and a sink * added; P are the pairs (i, k) with i before k.
m in M_i
    Modes of an activity.
r in R, n in N
    Renewable resources, and those that are used up.
j in J
    Jobs; A_j are its activities.

Parameters
----------
d_im, u_imr, u_imn
    Duration and use of a mode; u_0r = u_*r = c_r.
c_r, c_n
    Capacities.
r_j, w_j, t_j
    Release, weight and due date of a job.
H
    A time by which some best schedule is done.

Variables
---------
y_im in {0, 1}
    Whether an activity runs in a mode.
S_i >= r_j for i in A_j
    Its start.
z_ik in {0, 1}
    Whether i ends before k starts.
f_ikr >= 0
    Units of r that k takes over from i.
C_j, T_j >= 0
    Completion and tardiness of a job; C, the makespan.

Objective
---------
min C   (``makespan``)
min sum_j w_j (C_j - r_j)   (``weighted_jct``)
min sum_j w_j T_j   (``weighted_tardiness``)

Constraints
-----------
(C1) mode:        sum_m y_im = 1
(C2) precedence:  S_i + sum_m d_im y_im <= S_k + H (1 - z_ik),   z_ik = 1 for (i, k) in P
(C3) one way:     z_ik + z_ki <= 1
(C4) flow out:    sum_k f_ikr = sum_m u_imr y_im
(C5) flow in:     sum_k f_kir = sum_m u_imr y_im
(C6) flow's way:  f_ikr <= min{max_m u_imr, max_m u_kmr} z_ik
(C7) budget:      sum_im u_imn y_im <= c_n
(C8) completion:  S_i + sum_m d_im y_im <= C_j for i in A_j,   C_j <= C,   C_j - t_j <= T_j

The flows are those of C. Artigues, P. Michelon, S. Reusser, "Insertion techniques for static and
dynamic resource-constrained project scheduling", EJOR 149(2), 2003
(doi:10.1016/S0377-2217(02)00758-0): they need no grid of times. CP-SAT has an interval for each
mode and a cumulative for each renewable resource. Most small projects are proved by neither, but by
plans that are begun in layers (`alloc.solving.project.layers`).

Size: O(|A|^2 |R|). Complexity: strongly NP-hard with one resource and one mode; with two budgets it
is NP-hard to find any choice of modes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_LAZY = {
    "build_cpsat": "alloc.models.project.cpsat_model",
    "build_pyomo": "alloc.models.project.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load Pyomo and OR-Tools only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
