r"""F5 Co-location: jobs that slow each other down on the GPUs that they share.

Which jobs run, and which of them share a GPU, so that the cluster does the most work? Speeds are
measured: `alloc.workload.InterferenceTable`. A *bundle* is what one GPU runs.

Sets
----
t in T
    Classes of jobs: of one kind and one weight.
b in B
    Bundles: up to m jobs that may share a GPU, by their classes.

Parameters
----------
n_t
    Jobs of class t.
n_bt
    Jobs of class t in bundle b.
v_b
    Worth of a bundle: the sum over its jobs of weight times speed, as a share of the speed alone.
G
    GPUs.

Variables
---------
x_b integer, 0 <= x_b <= G
    GPUs that run bundle b.

Objective
---------
max sum_b v_b x_b   (``speed``)

Constraints
-----------
(C1) jobs:  sum_b n_bt x_b <= n_t   for all t
(C2) GPUs:  sum_b x_b <= G

Size: |B| columns, up to (|T| + m choose m), and |T| + 1 rows.

Complexity: a maximum-weight b-matching, so polynomial, with at most two jobs a GPU; set packing,
so NP-hard, with three. The method prices bundles instead of listing them
(`alloc.solving.colocation.method`).

Literature: Edmonds, "Maximum matching and a polyhedron with 0,1-vertices", J. Res. NBS 69B (1965);
Narayanan et al., "Heterogeneity-aware cluster scheduling policies" (Gavel), OSDI 2020, section
4.3; Hu et al., "Lucid", ASPLOS 2023, doi:10.1145/3575693.3575705.
"""

from alloc.models.colocation.arrays import build_arrays as build_arrays
from alloc.models.colocation.pyomo_model import build_pyomo as build_pyomo
