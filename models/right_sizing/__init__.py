r"""F7 Right-sizing: what to buy or rent, where and when, for a forecast of work.

A two-stage stochastic program. First, once for all scenarios: which hosts are ordered, for which
site, in which quarter. Then, in every scenario and quarter: where and how the jobs run, and which
hosts are rented by the hour. Everything is served in every scenario, except in those that a chance
constraint lets waive.

Sets
----
o in O, s in S, t in 0..T-1
    Offers, sites, quarters. An offer is a purchase, a reservation, or by the hour: on demand, spot.
p = (g, s) in P
    Pools: the GPUs of type g at site s; firm and spot hosts apart.
i in levels(p)
    Sizes of the hosts of a pool, largest first.
c in C, k in options(c)
    Classes of jobs, and the modes in which one can run: n_ck GPUs of type g_ck for h_ck hours.
b in B
    Bands: hours of the week in which prices and arrivals are (about) the same.
w in W
    Scenarios.

Parameters
----------
lambda_cwt [jobs/h], phi_cb
    Arrivals, and those of a band over the mean; H_b [h]: hours of a band in a quarter, H = sum H_b.
pi_w, epsilon, delta_t
    Probability of a scenario; how much may be waived; what money in quarter t counts.
G_o, K
    GPUs of a host; spare hosts of a pool. G_i, and G'_i = G_i - G_{i+1}, for a level.
rho_ckp >= 1
    Headroom: GPUs needed for a busy one so that the class's goal is kept, by Erlang's formula for
    waiting times (`alloc.problems.right_sizing.headroom`), times any tightening; 1 / utilisation
    without goal.
mu_Cpt, sigma_pb
    Margin: GPUs that a pool keeps beyond the room for its load in a quarter in which jobs of all
    classes in C, one or two, are sent there; 0 without `Tightening`. Part of its margin that a pool
    keeps in a band, 1 if not given. Dbar_cb: most demand of a class in a band.
eta_c
    1 plus the overhead on spot hosts; 1 on firm ones.
price_o, maintenance_o, residual_ot, space_o, ports_o, idle_o, busy_o [kW]
    Of a host. lead_o, life_o [quarters].
energy_sb, carbon_sb, pue_s, space_s, ports_s, power_s
    Money and kg per kWh (with the carbon price in the money), efficiency and limits of a site.
max_o, spot_wt
    Hosts that can be had, and the fraction of them in a scenario, for spot offers.
B, B_t [money], Q_t [kg]
    Budgets; carbon caps.

Variables
---------
x_ost integer >= 0
    Hosts ordered.
n_ost >= 0
    Hosts in service.
u_pt >= 0
    GPUs of the firm pool that can be counted on.
m_it >= 0, y_it binary (K > 0 only)
    Hosts of a level that are counted; whether any of this or a larger size is.
z_cpt binary (mu_Cpt > 0 with c in C only), f_pt >= 0
    Whether jobs of a class are sent to a pool in a quarter; the margin that the pool keeps; firm
    and spot apart.
v_w binary (epsilon > 0 only)
    Whether the scenario is waived.
a_ckpbwt >= 0
    GPUs of the pool busy with jobs of the class, firm and spot apart.
d_osbwt >= 0
    Hosts rented by the hour, on average.
e_qbwt >= 0
    GPUs busy on hosts of a power kind q = (pool, kW per busy GPU); where all firm hosts of a pool
    are of one kind and none are rented, energy goes by a instead.
r_cbwt >= 0
    Demand left unserved, in GPUs of the class's leanest option.

Objective
---------
min  sum_t delta_t [ sum_os purchase price_o x_ost + reserved price_o n_ost + maintenance_o n_ost
                     + idle_o pue_s sum_b H_b energy_sb n_ost
                     + sum_w pi_w sum_b H_b ( sum price_o d_osbwt + sum kw_q energy_sb e_qbwt
                                              + sum loss_c r_cbwt ) ]
     - delta_T sum_ost residual_ot x_ost                                     [expected money]

Constraints
-----------
(C1)  service:    n_ost = owned_ost + sum_{q <= t, arrived and not retired} x_osq
(C2)  space:      sum_o space_o n_ost <= space_s                 for every site and quarter
(C3)  ports:      sum_o ports_o n_ost <= ports_s
(C4)  power:      pue_s sum_o busy_o n_ost <= power_s            (full load: what a breaker sees)
(C5)  usable:     u_pt <= sum_i G_i m_it - K sum_i G'_i y_it     (K = 0: u_pt <= sum_o G_o n_ost)
(C6)  counted:    m_it <= sum_{o of size i} (n_ost - (1 - y_it) owned_ost)       (K > 0 only)
(C7)  open:       m_it <= M_i y_it,  y_it <= y_{i+1,t}
(C8)  chance:     sum_w pi_w v_w <= epsilon
(C9)  demand:     sum_{k,p} a_ckpbwt / (n_ck h_ck eta_c) >= phi_cb lambda_cwt - r_cbwt    for all b;
                  a deferrable class only on the mean over the bands, weighted with H_b / H
(C10) firm room:  sum_ck rho_ckp a_ckpbwt + sigma_pb f_pt <= u_pt + sum_{on demand} G_o d_osbwt
(C11) spot room:  sum_ck rho_ckp a_ckpbwt + sigma_pb f_pt <= sum_{spot} G_o d_osbwt
(C12) busy:       sum_ck a_ckpbwt <= sum_{q in p} e_qbwt + sum_{on demand} G_o d_osbwt
(C13) kinds:      e_qbwt <= sum_{o in q} G_o n_ost
(C14) carbon:     sum_b H_b carbon_sb (idle power + power of the busy GPUs) <= Q_t     for all w, t
(C15) waived:     r_cbwt <= phi_cb lambda_cwt v_w, 0 for critical classes
(C16) budgets:    money of a quarter (of all), not discounted, running costs as expected <= B_t (B)
(C17) margin:     f_pt >= mu_Cpt (sum_{c in C} z_cpt - |C| + 1)        (where mu_Cpt > 0)
(C18) sent:       sum_k a_ckpbwt / (n_ck h_ck eta_c) <= Dbar_cb z_cpt
      d_osbwt <= max_o (times spot_wt), x_ost <= max_overdue

What is exact and what is not: (C5)-(C7) are exact for "a pool serves its share with any K of its
hosts down" when hosts are as large as the largest counted. The queueing formula looks at a class
alone in a pool of a size fixed before the plan is known; `alloc.problems.right_sizing.headroom`
says on which side that errs, and the replay in the simulator corrects it (`Tightening`). Within a
band, load is taken at its mean. Rented hosts are counted in fractions.

Classes with the same margins in a pool share z: the largest counts, so that one binary says it all.
On spot hosts f_pt is at most the GPUs to be had in the scenario with fewest, as (C11) implies in
a band in which all of it is kept.
What runs of a class whose largest demand is less than a GPU is counted in about that demand (a
power of two), for a solver's tolerance would else be all of it. So are all GPUs where all demand
together is less than one or more than 2^26; in the latter case hosts too, and then they are not
whole: bounds leave out whole numbers and spare hosts, orders are rounded up and get both.
Of G_o only what the pool may ever be asked for counts: whichever K hosts fail, such a pool serves
the same, and a billionth of a host no longer serves a billionth of the demand. Where hosts of
several sizes are in a pool of which two or more may fail, (C5) would say more than it does of whole
hosts, so all of G_o counts, or where the pool is asked for less than their common divisor, as much
of all as makes that divisor what it is asked for: what is left over is a multiple of it.

Size: |O||S|T integers, |levels| T + |destinations| T + |W| binaries, and for every scenario and
quarter a linear program of about |modes| |B| columns, all with the same matrix. Complexity:
strongly NP-hard, also with one scenario, quarter, site and class (variable-sized bin covering by
counts is
knapsack cover; with spare hosts or margins it is capacitated facility location).

Models: `arrays` (the extensive form as sparse arrays), `pyomo_model` (the Pyomo model), and the
decomposition in `alloc.solving.right_sizing.decomposition`: masters over the first stage,
blocks for the second. A dual solution of any block is one of all blocks (same matrix and costs), so
each is a cut for every scenario and quarter.

Literature: Birge, Louveaux, *Introduction to Stochastic Programming*, 2nd ed., 2011 (two stages,
L-shaped method, chance constraints); Van Slyke, Wets, SIAM J. Appl. Math. 17(4), 1969; Luss,
"Operations research and capacity expansion problems: a survey", Operations Research 30(5), 1982;
Gross et al., *Fundamentals of Queueing Theory*, 4th ed., 2008 (Erlang C); Chaisiri, Lee, Niyato,
"Optimization of resource provisioning cost in cloud computing", IEEE Trans. Services Computing
5(2), 2012 (reserved and on-demand hosts by stochastic programming); Filippini et al., "A path
relinking method for the joint online scheduling and capacity allocation of DL training workloads
in GPU as a service systems", IEEE Trans. Services Computing 16(3), 2023.
"""

from importlib import import_module
from typing import Any

from alloc.models.right_sizing.data import SizingData as SizingData

_LAZY = {
    "build_arrays": "alloc.models.right_sizing.arrays",
    "build_pyomo": "alloc.models.right_sizing.pyomo_model",
    "extensive": "alloc.models.right_sizing.arrays",
}


def __getattr__(name: str) -> Any:
    """Load SciPy and Pyomo only when one of their models is asked for."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
