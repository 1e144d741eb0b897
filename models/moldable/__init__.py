r"""F3 Moldable gangs: each job runs once, in one configuration, on hosts that it keeps.

Which configuration and which hosts does each job get, and when does it start? Rigid and moldable
gangs on hosts, pools and GPU types, in continuous time or on slots, with release dates, deadlines,
quotas and due dates. Saturn's joint choice of parallelism, GPUs, node and start (SPASE) is the case
``within="host"`` with all jobs there at the start. Jobs that may pause or change their
configuration are asked to run through like all others: schedules that let them pause may be better
(F2).

Sets
----
j in J
    Jobs.
m in M_j
    Modes of job j: a configuration and a placement of its tasks on hosts, its GPU type and level
    kept. Dominated configurations are left out.
r in R
    Rows: a resource of a host, or of the cluster, or the quota of a tenant. Pooled rows sum the
    resources of all hosts, and of those of each GPU type.

Parameters
----------
p_jm
    Run time, seconds: work left over rate, and the restart cost of a job with work done before.
h_jm
    Time for which the mode is held: p_jm, or in slots the least multiple of the slot from p_jm on.
a_j, d_j
    Arrival (or the start of the next slot); latest completion (deadline, horizon), infinite if
    none.
u_jmr, B_r
    Use of row r by mode m; its capacity.

Variables
---------
x_jm binary
    Whether job j runs in mode m.
S_j >= a_j
    Start, a multiple of the slot if there are slots.
C_j = S_j + sum_m p_jm x_jm
    Completion.

Objective
---------
min sum_j f_j(C_j) + sum_k max_j g_kj(C_j), for weighted and mean JCT, tardiness, makespan,
slowdown, weighted sums and levels of them, exactly as in F2 (`alloc.models.malleable`).

Constraints
-----------
(C1) one mode:    sum_m x_jm = 1                                            for all j
(C2) capacity:    sum over jobs that run at t of u_jmr x_jm <= B_r          for all t, r
(C3) in time:     C_j <= d_j                                                for all j
(C4) held:        an earlier level <= what it reached, up to 1e-7 of it     for all levels

CP-SAT: an optional interval a mode, with a start of its own, and a cumulative a row; pooled rows
besides, which (C2) implies and which make the bound. Times are rounded down, which keeps every
schedule (`cpsat_model`). Of hosts that are alike, job number n uses no more than the first hosts
that n jobs can reach.

Arrays and Pyomo, in slots: x_jmt binary, job j starts in slot t in mode m,

    (C1) sum_mt x_jmt = 1,   (C2) sum_jm sum_{t - h_jm < t' <= t} u_jmr x_jmt' <= B_r for all t, r.

The cost of a start in a slot is that of its completion, so due dates need no variables in the
arrays. Hosts that are alike are named as in CP-SAT.

Pyomo, in continuous time: flows of capacity from job to job (Artigues, Michelon, Reusser, 2003).
y_jk = 1 if j is over when k starts, f_jkr >= 0 what k takes over from j of row r; 0 is a source and
a sink with all capacity.

    (C2) S_k >= S_j + sum_m h_jm x_jm - M (1 - y_jk),   f_jkr <= min(U_jr, U_kr) y_jk,
         sum_k f_jkr = sum_k f_kjr = sum_m u_jmr x_jm,   sum_k f_0kr <= B_r.

Size: sum_j |M_j| binaries and intervals; |R| cumulatives.

Complexity: strongly NP-hard, for makespan too, and with one GPU type and rigid jobs.

Bounds: prices of time and energy in windows, with rows of dual feasible functions (`bounds`), and
sequences of the units of a row (`sequences`), all evaluated in numpy; and the word of CP-SAT. Where
hosts are units of one resource each (`host_classes`), what hosts exceed a bound by adds up, and all
schedules near it are listed host by host.

Literature: Nagrecha, Kumar, "Saturn: an optimized data system for multi-large-model deep learning
workloads", PVLDB 17 (2024), whose SPASE this is; Turek, Wolf, Yu, SPAA 1992; Ludwig, Tiwari, SODA
1994; Held, Karp, "A dynamic programming approach to sequencing problems", J. SIAM 10 (1962);
Gilmore, Gomory, Operations Research 9 (1961); Baldacci, Christofides, Mingozzi, Math. Programming
115 (2008); Artigues, Michelon, Reusser, "Insertion techniques for static and dynamic resource-
constrained project scheduling", EJOR 149 (2003); Fekete, Schepers, Math. Programming 91 (2001); Du,
Leung, "Complexity of scheduling parallel task systems", SIAM J. Disc. Math. 2 (1989); Zhuk,
"Approximate algorithms to pack rectangles into several strips", Discrete Math. Appl. 16 (2006): no
ratio below 2 on several nodes unless P = NP.
"""

from importlib import import_module
from typing import Any

from alloc.models.moldable.data import MoldableData as MoldableData
from alloc.models.moldable.data import moldable_data as moldable_data

_LAZY = {
    "build_arrays": "alloc.models.moldable.arrays",
    "build_cpsat": "alloc.models.moldable.cpsat_model",
    "build_pyomo": "alloc.models.moldable.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load what builds a model only when it is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
