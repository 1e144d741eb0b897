r"""F4 Quadratic assignment: who goes where, when the cost lies between pairs.

Ranks to GPUs, when the traffic's total time on the links counts; any other facilities to locations.

Sets
----
i, k
    Facilities.
j, l
    Locations, as many.

Parameters
----------
a_ik
    Flow from facility i to facility k; bytes in a step, say.
b_jl
    Distance from location j to location l; seconds per byte, say.

Variables
---------
x_ij binary
    Whether facility i goes to location j.
w_ij >= 0 (Kaufman-Broeckx)
    What facility i pays if it goes to location j, 0 if it does not.

Objective
---------
min  sum_ijkl a_ik b_jl x_ij x_kl   (``cost``)

Constraints
-----------
(C1) sum_j x_ij = 1 for all i;  sum_i x_ij = 1 for all j
(C2) w_ij >= sum_kl a_ik b_jl x_kl - U_ij (1 - x_ij)  for all i, j; the objective is sum_ij w_ij.
     U_ij is the most that facility i can pay at j: largest flows against largest distances.

Size: n^2 binaries and n^2 continuous (Kaufman-Broeckx); CP-SAT: one permutation, an element
constraint for each pair that talks. Complexity: strongly NP-hard, no approximation. Both models are
for n <= 8 or so; `alloc.solving.quadratic_assignment.method` proves n = 12 to 20 by dual ascent of
the level-1 reformulation (Adams, Johnson 1994; Hahn, Grant 1998) with branch and bound, and
searches up to n = 100 by robust tabu search (Taillard 1991).

Literature: Koopmans, Beckmann, "Assignment problems and the location of economic activities",
Econometrica 25 (1957); Kaufman, Broeckx, "An algorithm for the quadratic assignment problem using
Benders' decomposition", EJOR 2 (1978); Adams, Johnson, "Improved linear programming-based lower
bounds for the quadratic assignment problem", DIMACS 16 (1994).
"""

from importlib import import_module
from typing import Any

_LAZY = {
    "build_cpsat": "alloc.models.quadratic_assignment.cpsat_model",
    "build_pyomo": "alloc.models.quadratic_assignment.pyomo_model",
}


def __getattr__(name: str) -> Any:
    """Load Pyomo and OR-Tools only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
