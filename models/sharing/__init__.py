r"""F5 GPU sharing: requests for shares, MIG slices and whole GPUs on the GPUs of a cluster.

Which jobs run, and what does every GPU hold? A GPU is held whole, or shared by milli-GPU and GPU
memory, or cut into MIG instances. Patterns say what one GPU can hold; equal GPUs, equal hosts and
equal requests are counted, so that ten thousand requests on a thousand GPUs are a small integer
program.

Sets
----
k in K
    Job classes: n_k jobs with the same configurations, weight and tenant.
o in O_k
    Options: the configurations of a job of class k.
i in I
    Kinds of tasks: size, CPU, host memory, GPU type. I_s: those of size s.
s in S
    Sizes: a share (milli-GPU, GPU memory), a MIG profile, or a whole GPU.
h in H
    Host classes: n_h hosts with the same GPUs, CPU and memory. In the models every host is a
    class of its own; the method counts equal hosts.
g in G_h
    Groups of GPUs on hosts of class h that are cut into the same MIG instances now; n_g GPUs.
q in Q_g
    Patterns of a GPU of group g: a_qs tasks of each size. Shares: sum_s milli_s a_qs <= 1000 and
    sum_s memory_s a_qs <= the GPU's memory. MIG: a layout (`alloc.topology.mig.layouts`) has so
    many instances of each profile. Whole: one task. Only maximal patterns are needed.

Parameters
----------
w_k
    Weight of a job of class k.
d_oi
    Tasks of kind i in option o.
u_i
    GPUs that one task of kind i takes: 1, or the number of whole GPUs.
c_i, C_h
    CPU of a task and of a host, milli-cores.
m_i, M_h
    Host memory of a task and of a host, MiB.
r_gq in {0, 1}
    Whether a GPU of group g must be drained and cut anew for pattern q: its new instances do not
    fit beside those in use now.
e_ot, E_t
    Milli-GPU that option o counts against tenant t's quota, and the quota; or what it takes of a
    resource of the cluster (`alloc.resources`), and what there is of it.

Variables
---------
z_o integer, 0 <= z_o <= n_k
    Jobs that run in option o.
y_ih integer >= 0
    Tasks of kind i on hosts of class h (where GPU type, profile, memory and CPU allow).
x_gq integer >= 0
    GPUs of group g with pattern q.

Objective
---------
weight_placed:     max sum_k w_k sum_{o of k} z_o
gpus_placed:       max sum_o e_o z_o               with e_o the GPUs of option o, MIG not counted
gpus_used:         min sum_g sum_q x_gq            and every job runs
reconfigurations:  min sum_g sum_q r_gq x_gq       and every job runs

The method then makes the others small among the optima: weight, then GPUs, then reconfigurations.

Constraints
-----------
(C1) one option a job:   sum_{o of k} z_o <= n_k  (= n_k where every job runs)    for all k
(C2) tasks stand:        sum_h y_ih = sum_o d_oi z_o                              for all i
(C3) slots:              sum_{i in I_s} u_i y_ih <= sum_{g in G_h} sum_q a_qs x_gq   for all s, h
(C4) GPUs:               sum_q x_gq <= n_g                                        for all g
(C5) CPU, memory, ...:   sum_i c_ir y_ih <= n_h C_hr    for all h and resources r of hosts
(C6) quotas:             sum_o e_ot z_o <= E_t          for all t and resources of the cluster

With one host a class the model is exact. With n_h > 1 it is a relaxation that is exact when no
other resource of a host can run out before its GPUs do and no task takes several GPUs; otherwise
what it chooses is dealt out to hosts, and the gap says what that lost.

Size: |O| + |I| |H| + sum_g |Q_g| columns. An A100 has 298 layouts of its five main profiles, but
a handful of maximal patterns. Patterns of shares can be too many to list: they are generated
(Gilmore and Gomory) by an exact two-dimensional knapsack for every host class; the bound is then
that of the linear relaxation, recomputed from its dual prices.

Complexity: NP-hard (bin packing). With a fixed set of profiles and patterns the number of variables
is fixed, so it is polynomial in the number of requests (Lenstra); a vertex of the linear relaxation
has no more fractional variables than rows.

Literature: Gilmore, Gomory, "A linear programming approach to the cutting-stock problem",
Operations Research 9 (1961), doi:10.1287/opre.9.6.849; Tan et al., "Serving DNN models with
multi-instance GPUs: a case of the reconfigurable machine scheduling problem" (2021),
arXiv:2109.11067; Li et al., "MISO", SoCC 2022, doi:10.1145/3542929.3563510; Weng et al., "Beware of
fragmentation" (FGD), USENIX ATC 2023.
"""

from importlib import import_module
from typing import Any

from alloc.models.sharing.arrays import build_arrays as build_arrays
from alloc.models.sharing.data import SharingData as SharingData
from alloc.models.sharing.data import sharing_data as sharing_data

_LAZY = {"build_pyomo": "alloc.models.sharing.pyomo_model"}


def __getattr__(name: str) -> Any:
    """Load Pyomo only when its model is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
