"""F7 for inference: replicas of models on GPU types for request rates and latencies.

Sets
    m in M models; t in T periods (those that are alike are one); o in O_m options (GPU type,
    tensor- and pipeline-parallel degree) of s_o GPUs; j in J_mto columns, each a number of replicas
    n_j at a batch cap b_j; f in F_m losses, replicas f_o lost of each option; p in P pools with
    hosts of H_p GPUs; s in S_p sizes of replicas; q in Q_p patterns, the fullest contents of a
    host, with c_qs replicas of size s.

Parameters
----------
    l_mt requests/s (all classes; their mix is the same for every replica); r_jk requests/s that
    column j sustains with k replicas lost, every latency goal of every class kept
    (`alloc.problems.inference_sizing.serving`), at most l_mt; B_pt hosts of a pool; w_t hours; a_pt
    price of a GPU-hour; P_used, P_held the pools paid by use and by holding.

Variables
    z_mtoj binary: column j is taken; x_pts integer: replicas of size s on pool p; y_ptq integer:
    hosts of pool p with contents q; h_p integer: hosts held (p in P_held).

Objective
    min  sum_t w_t sum_{p in P_used} a_pt sum_s s x_pts
         + sum_{p in P_held} h_p H_p sum_t w_t a_pt

Constraints
    (C1) sum_j z_mtoj <= 1                                      each m, t, o
    (C2) sum_o sum_j r_{j,f_o} z_mtoj >= l_mt                    each m, t, f in F_m
    (C3) sum_{p of type g} x_pts = sum_{m, o of type g, s_o = s} sum_j n_j z_mtoj    each t, g, s
    (C4) x_pts <= sum_q c_qs y_ptq                               each t, p, s
    (C5) sum_q y_ptq <= B_pt, and <= h_p for p in P_held         each t, p
    h_p <= min_t B_pt.

Why columns
    The rate that n replicas sustain grows faster than n: pooling shortens waits. A linear covering
    row ``sum rate x n >= demand`` would promise too much of few replicas or too little of many. A
    binary for each count takes the table as it is, whatever its shape; a column that another with
    no more replicas equals at every loss is left out, and the columns end at the first that serves
    all by itself. With r_jk cut at l_mt, (C2) is as tight as single columns can make it.

    Requests are split over options at random (thinned Poisson streams are Poisson), so what each
    group sustains does not depend on the others.

Models
    Pyomo: as above. Arrays: where the sizes on a pool divide one another and the host, (C4, C5)
    become ``sum_s s x_pts <= H_p B_pt`` (or ``H_p h_p``), exact by largest-first packing, and no
    patterns are needed. Mixes: `alloc.models.inference_sizing.frontier`, the strong model.

Size
    Columns: M x T x sum_o |J| binaries, and T x P x (S + Q) integers; rows: M x T x (O + F) and
    T x P x (S + 1). Only (C5) of held pools ties periods together; without them every period is
    solved alone.

Literature
    Covering integer programs with nonlinear service: G. Nemhauser and L. Wolsey, *Integer and
    Combinatorial Optimization*, 1988, section I.1.4 (discrete alternatives). Provisioning of
    inference over GPU types by MILP: Melange (T. Griggs et al., 2024), Splitwise (P. Patel et al.,
    ISCA 2024) and DynamoLLM (J. Stojkovic et al., HPCA 2025). Queueing:
    `alloc.problems.inference_sizing.serving`.
"""

from alloc.formulation import BuiltModel, ProvedInfeasible
from alloc.models.inference_sizing.arrays import array_model as array_model
from alloc.models.inference_sizing.data import SizingData as SizingData
from alloc.models.inference_sizing.data import sizing_data as sizing_data
from alloc.models.inference_sizing.frontier import frontier as frontier
from alloc.models.inference_sizing.layout import Layout
from alloc.models.inference_sizing.mixes import MixLayout as MixLayout
from alloc.models.inference_sizing.mixes import mix_model as mix_model
from alloc.problems.inference_sizing.problem import InferenceProblem


def build_arrays(problem: InferenceProblem, objective: str = "cost") -> BuiltModel:
    """Return the model by columns as sparse arrays.

    Parameters
    ----------
    problem
        Models to serve, periods, pools, and the losses to survive.
    objective
        `cost`, the only one of the family.
    """
    layout = _layout(problem)
    return BuiltModel(array_model(layout), layout.plan)


def build_pyomo(problem: InferenceProblem, objective: str = "cost") -> BuiltModel:
    """Return the model by columns in Pyomo.

    Parameters
    ----------
    problem
        Models to serve, periods, pools, and the losses to survive.
    objective
        `cost`, the only one of the family.
    """
    from alloc.models.inference_sizing.pyomo_model import pyomo_model

    layout = _layout(problem)
    return BuiltModel(pyomo_model(layout), layout.plan)


def _layout(problem: InferenceProblem) -> Layout:
    """Return the columns of a problem.

    Raises
    ------
    ProvedInfeasible
        If a model with requests has none: an empty row is not a row.
    """
    data = sizing_data(problem)
    if (missing := data.without_columns()) is not None:
        raise ProvedInfeasible(f'no number of replicas serves the requests of "{missing}"')
    return Layout(data)
