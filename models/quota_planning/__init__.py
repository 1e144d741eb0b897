"""F7 for tenants: guaranteed quotas under uncertain demand, with borrowing in cohorts.

Sets
    i in I tenants, I_c those of cohort c; g in G GPU types; k in K outcomes: scenarios and periods,
    those of equal demand as one.

Parameters
----------
    d_kig demand, GPUs; p_k expected hours; K_g capacity, GPUs; b_i borrowing limit; w_i weight;
    u GPUs in a step of quota; q_min, q_max steps; e_i share of the time that may be exceeded.

Variables
    q_ig integer: quota in steps (first stage). Second stage, by outcome: o_kig GPUs of its own
    quota, r_kig GPUs borrowed; y_kig binary: the quota is all used (guarded tenants only);
    v_ki binary: the demand is not all met (goals that count time).

Objective
    expected_shortfall  min sum_k p_k sum_i w_i sum_g (d_kig - o_kig - r_kig)
    fair_service        lex max-min over i of  sum_kg p_k (o + r) / sum_kg p_k d
    fair_coverage       lex max-min over i of  1 - sum_k p_k v_ki / sum_k p_k
    least_quota         min sum_ig price_g u q_ig

Constraints
    (C1) sum_i u q_ig <= K_g                                              each g
    (C2) o_kig <= u q_ig;  o_kig + r_kig <= d_kig                          each k, i, g
    (C3) sum_{i in I_c} (o_kig + r_kig) <= sum_{i in I_c} u q_ig           each k, c, g
    (C4) sum_g r_kig <= b_i  (r = 0 outside cohorts)                       each k, i
    (C5) guarantee, o_kig = min(d_kig, u q_ig):  o_kig >= d_kig (1 - y_kig),
         o_kig >= u q_ig - u q_max (1 - y_kig)                             guarded i
    (C6) o_kig + r_kig >= d_kig (1 - v_ki)                                 goals that count time
    (C7) sum_k p_k v_ki <= e_i sum_k p_k                                   least_quota
    Lexicographic max-min, level n = 1 .. |I|: max n t_n - sum_i s_ni subject to
    t_n - s_ni <= level_i, s >= 0, and every earlier level's value kept: the sum of the n worst
    levels, which orders also integer problems correctly.

Recourse
    The second stage redistributes as the goal likes best within the rules: a tenant may always
    reclaim its quota (C5). A real scheduler lends by a simpler rule; `alloc.planning.plan_quotas`
    replays every plan with equal borrowing and reports both.

Where (C5) is left out
    For ``expected_shortfall`` with one weight in a cohort: moving a GPU from a borrower back to the
    tenant that it is guaranteed to changes no total. Outside cohorts nothing competes.

Size
    I G integers; 2 K I G continuous; up to K I (G + 1) binaries. Without cohorts ``least_quota`` of
    one type is a quantile per tenant.

Literature
    Two-stage stochastic programming with integer first stage: J. Birge and F. Louveaux,
    *Introduction to Stochastic Programming*, 2011. Chance constraints by sample average:
    J. Luedtke and S. Ahmed, SIAM J. Optim. 19(2), 2008. Lexicographic max-min by ordered sums:
    W. Ogryczak and T. Sliwinski, "On solving linear programs with the ordered weighted averaging
    objective", EJOR 148, 2003. Quotas, cohorts and borrowing: Kubernetes Kueue; VC quotas:
    H. Zhao et al., "HiveD", OSDI 2020.
"""

from alloc.formulation import BuiltModel
from alloc.models.quota_planning.arrays import Extra as Extra
from alloc.models.quota_planning.arrays import QuotaLayout as QuotaLayout
from alloc.models.quota_planning.arrays import array_model as array_model
from alloc.models.quota_planning.arrays import start_values as start_values
from alloc.models.quota_planning.data import QuotaData as QuotaData
from alloc.models.quota_planning.data import quota_data as quota_data
from alloc.problems.quota_planning.problem import QuotaProblem


def build_arrays(problem: QuotaProblem, objective: str = "") -> BuiltModel:
    """Return the model as sparse arrays; of a fair goal that of the worst tenant.

    Parameters
    ----------
    problem
        Its goal says what is optimised.
    objective
        Not needed: the goal is part of the problem.
    """
    layout = _layout(problem)
    return BuiltModel(array_model(layout), layout.plan, lambda plan: start_values(layout, plan))


def build_pyomo(problem: QuotaProblem, objective: str = "") -> BuiltModel:
    """Return the model in Pyomo; of a fair goal that of the worst tenant.

    Parameters
    ----------
    problem
        Its goal says what is optimised.
    objective
        Not needed: the goal is part of the problem.
    """
    from alloc.models.quota_planning.pyomo_model import pyomo_model

    layout = _layout(problem)
    return BuiltModel(pyomo_model(layout), layout.plan)


def _layout(problem: QuotaProblem) -> QuotaLayout:
    is_fair = problem.goal in ("fair_service", "fair_coverage")
    return QuotaLayout(quota_data(problem), Extra(level=int(is_fair)))
