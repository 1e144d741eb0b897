"""F7 in operation: which nodes are on, and what runs where, against energy and tardiness.

At each decision (a job arrives or completes) every node is off or on as one of its types, and every
job runs on some GPUs of one node or waits. A node is charged until the first of its jobs completes:
then there is a new decision. Two models of one problem.

**In Pyomo** (`pyomo_model`), node by node, as ANDREAS and Path Relinking have it.

Sets: jobs j, nodes n, types v, GPUs g = 1..G_v. Parameters: t_jvg hours to completion; c_vu money
per hour of a node of type v with u GPUs in use; a_jvg cost of a run of its own (tardiness
w_j (now + t_jvg - d_j)^+; with the accounting ``whole-job`` also the job's share of the node);
b_j cost of waiting (rho w_j (now + H + max t_j - d_j)^+). Variables, binary but pi: w_n on, y_nv
type, r_nvu GPUs in use, x_jnvg runs, z_jn stands on n, alpha_jn completes first on n, q_j waits,
pi_jn charge of node n until j, its first, completes.

Objective: ``min sum_jn pi_jn + sum_jnvg a_jvg x_jnvg + sum_j b_j q_j``

Constraints:

- (C1) ``sum_v y_nv = w_n``, (C2) ``sum_n z_jn + q_j = 1``, (C3) ``sum_vg x_jnvg = z_jn``,
- (C4) ``x_jnvg <= y_nv``, (C5) ``sum_u r_nvu = y_nv``, ``sum_jg g x_jnvg = sum_u u r_nvu``,
- (C6) ``sum_j alpha_jn = w_n``, ``alpha_jn <= z_jn``,
- (C7) ``pi_jn >= c_vu t_jvg (alpha_jn + r_nvu + x_jnvg - 2)``,
- (C8) ``sum_nvu power_vu r_nvu <= cap``.

Which job is called the first is free: to call another one the first only costs more, so (C7) needs
no order among the completions. Size: J N V G^2 rows; ten jobs on four nodes are too much.

**Aggregated** (`arrays`). The remark just made takes the nodes out of the model: a node that is on
is *led* by the job called first, whose column carries the whole charge of the node, and a leader
needs to know of the others on its node only how many GPUs they take. Variables: l_jvgr job j leads
a node of type v with g GPUs and leaves r to followers (binary); f_jvk job j follows on k GPUs of
type v; q_j waits; s_vrk remainders of r GPUs that give a slot of k and leave r - k; n_pv nodes of
pool p that are of type v (integer).

``min sum (c_v(g+r) t_jvg + a_jvg) l_jvgr + sum a_jvk f_jvk + sum b_j q_j``

- (A1) ``sum l_j + sum f_j + q_j = 1`` for each job;
- (A2) ``sum_jg l_jvgr + sum_k s_v(r+k)k = sum_k s_vrk`` for each v and r >= 1: an arc flow of
  remainders (Valério de Carvalho 1999), equal to the patterns of all ways to split them;
- (A3) ``sum_j f_jvk <= sum_r s_vrk``, with equality where a node's rate can fall;
- (A4) ``sum_jgr l_jvgr <= sum_p n_pv``, (A5) ``sum_v n_pv <= N_p``, (A6) the power cap.

Any solution is a plan: remainders split into slots, followers take slots of their size in any way;
and its true cost is at most the model's, equal in an optimum. So the number of nodes does not
matter to its size: J V G (G + 3) / 2 columns, J + V (2 G - 1) + P rows. Its linear relaxation is
that of patterns (type, GPU counts, first to complete) priced by a dynamic program that may repeat
a job. Only l and f of one job are tied, so the relaxation is nearly integral.

With the accounting ``whole-job``, c is what the node costs beyond its jobs' shares, and a, b
contain the shares: the structure is the same.

References
----------
ANDREAS and Path Relinking (doi:10.1109/TSC.2022.3188440): `alloc.problems.operation.problem`.
J. M. Valério de Carvalho, "Exact solution of bin-packing problems using column generation and
branch-and-bound", Annals of Operations Research 86, 1999, doi:10.1023/A:1018952112615.
"""

from alloc.formulation import BuiltModel
from alloc.models.operation.arrays import OperationArrays as OperationArrays
from alloc.models.operation.arrays import operation_arrays as operation_arrays
from alloc.models.operation.data import OperationData as OperationData
from alloc.models.operation.data import operation_data as operation_data
from alloc.models.operation.unrolling import plan_of, values_of
from alloc.problems.operation.problem import OperationProblem


def build_arrays(problem: OperationProblem, objective: str = "operation-cost") -> BuiltModel:
    """Return the aggregated model as sparse arrays.

    Parameters
    ----------
    problem
        One decision: jobs, nodes that run, and prices.
    objective
        `operation-cost` or `expected-operation-cost`.
    """
    arrays = operation_arrays(operation_data(problem, objective))
    return BuiltModel(
        arrays.model,
        lambda values: plan_of(arrays, values),
        lambda plan: values_of(arrays, plan),
    )


def build_pyomo(problem: OperationProblem, objective: str = "operation-cost") -> BuiltModel:
    """Return the model of nodes in Pyomo, for a few jobs and nodes.

    Parameters
    ----------
    problem
        One decision: jobs, nodes that run, and prices.
    objective
        `operation-cost` or `expected-operation-cost`.
    """
    from alloc.models.operation.pyomo_model import pyomo_model, read_plan

    data = operation_data(problem, objective)
    drawn = pyomo_model(data)
    return BuiltModel(drawn, lambda values: read_plan(data, drawn.model, values))
