r"""F4 Rank mapping: the ranks of one job onto the GPUs of its placement.

Which GPU runs which tensor-, pipeline-, data- and expert-parallel rank, so that a step communicates
for as short a time as possible? By counts on a tree of domains, and as a quadratic assignment on a
general graph. The times are those of `alloc.problems.rank_mapping`.

1. Counts on a tree
===================

On a tree, the time of a group depends only on its blocks: c_l divides the group's ranks in every
domain of level l (`alloc.problems.rank_mapping`). So fix, for each level, the blocks of the tensor
groups and of the data groups (expert groups are runs of a data group). What is left is where
*cells* go: a cell of level l is a block of tensor ranks times a block of data ranks of one stage.
Cells of a level are alike, and cells of inner levels fill those of outer ones, so only their
numbers matter.

Sets
----
l in 0..L-1
    Levels, outermost first; level 0 is one domain, level L-1 holds GPUs directly.
v in V_l
    Domains of level l; u in children(v) are those of level l + 1 inside v.
p in 1..P
    Stages. Boundary b lies between stages b and b + 1.

Parameters
----------
s_l
    Ranks in a cell of level l; s_0 = T D, a whole stage. s_{l+1} divides s_l.
N_l = s_0 / s_l
    Cells of a stage at level l.
G_v
    GPUs of a domain of the last level.
f_l
    Seconds of one transfer between stages that meet at level l; never falling outwards.
M
    Micro-batches.

Variables
---------
x_vp integer, 0 <= x_vp <= N_l
    Cells of level l of stage p in domain v of it.
y_lb binary, l >= 1
    Whether some rank's transfer over boundary b leaves a domain of level l.
z_l binary, l >= 1
    Whether any boundary is cut at level l.

Objective
---------
min  2 (P - 1 + M - 1) f_{L-1} + 2 sum_{l >= 1} (f_{l-1} - f_l) (sum_b y_lb + (M - 1) z_l)
     [seconds: fill and drain pass all boundaries, the rest comes at the pace of the slowest]

Constraints
-----------
(C1) everything is placed:  x_root,p = 1                                        for all p
(C2) cells fill cells:      sum_{u in children(v)} x_up = (s_l / s_{l+1}) x_vp  for all v, p
(C3) room:                  s_{L-1} sum_p x_vp <= G_v                           for v in V_{L-1}
(C4) uncut is unmoved:      |x_v,b+1 - x_vb| <= N_l y_lb                        for all v, b
(C5) cuts nest:             y_lb <= y_{l+1,b}                                   for all l >= 1, b
(C6) the slowest counts:    y_lb <= z_l                                         for all l, b

Why counts are enough: label the cells of stage 1 as they lie. Where boundary b is not cut at level
l, every domain of the level holds as many cells before and after it, so the same labels may stay;
where it is cut, labels are dealt anew inside the innermost domain that is not cut. So a pipeline
leaves a domain only where y says so (`CountProblem.places` does this).

Over the blocks, `alloc.solving.rank_mapping.method` goes best first. A
mapping whose tensor (data, expert)
groups all take at most tau has every group's blocks among the chains of time at most tau, hence all
of them are multiples of the greatest common divisors m(tau) of these chains, level by level: room
for the cells m(tau) is necessary. There are few distinct m(tau). The first candidate whose cells
fit and whose mapping takes the time promised is optimal; otherwise the bound says what is open.

Size: sum_l |V_l| P integers, (L - 1) P binaries. Complexity: strongly NP-hard (runs of stages of
different lengths into domains of different sizes are bin packing); with runs of equal length, or
without pipelines, counting from the inside out decides it in linear time.

2. On a graph
=============

The traffic's total time on the links is a quadratic assignment: ranks go to GPUs, flows are bytes
and distances seconds per byte. See `alloc.models.quadratic_assignment`.

Literature: Bokhari, "On the mapping problem", IEEE Trans. Computers C-30 (1981); Narayanan et al.,
"Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021, whose
rank order is the naive one here.
"""

from importlib import import_module
from typing import Any

from alloc.models.rank_mapping.counts import CountProblem as CountProblem
from alloc.models.rank_mapping.counts import DomainTree as DomainTree

_LAZY = {
    "cpsat_counts": "alloc.models.rank_mapping.cpsat_model",
    "pyomo_counts": "alloc.models.rank_mapping.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load Pyomo and OR-Tools only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
