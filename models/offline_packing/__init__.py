r"""Offline packing: how many GPUs could a whole arrival sequence have held?

All jobs of a sequence are known at once; each is one task with CPU, memory and whole GPUs or a
share of one. Which of them are placed, and where, so that the most GPUs are held?

Sets
----
c in C
    Classes of equal hosts (size and GPU type), N_c of them, each with G_c GPUs, CPU A_c and memory
    M_c.
k in K
    Kinds of equal jobs, n_k of them, each with g_k whole GPUs or a share s_k of one GPU (milli),
    CPU a_k and memory m_k; v_k is its GPU in all. q_ck: most of them on one empty host (0: not
    allowed there).
s in S
    The different shares. P: patterns of one GPU, multisets of shares with
    sum_s s b_ps <= 1000.

Variables
---------
x_ck >= 0, at most N_c q_ck
    Jobs of kind k on hosts of class c.
y_cp >= 0
    GPUs of class c that carry pattern p.

Objective
---------
max sum_c sum_k v_k x_ck

Constraints
-----------
(C1) copies:   sum_c x_ck <= n_k                                              for all k
(C2) CPU:      sum_k a_k x_ck <= N_c A_c                                      for all c
(C3) memory:   sum_k m_k x_ck <= N_c M_c                                      for all c
(C4) GPUs:     sum_(k whole) g_k x_ck + sum_p y_cp <= N_c G_c                 for all c
(C5) places:   sum_(k: s_k = s) x_ck <= sum_p b_ps y_cp                       for all c, s

The relaxation pools CPU, memory and GPUs over the hosts of a class but packs every GPU, which is
where the plain linear program (shares added up) is weak: eleven tasks of 810 need eleven GPUs, not
nine. P is exponential, so patterns are priced: the most valuable set of shares for one GPU at given
prices is an integer knapsack (`gpu_patterns.best_gpu`, dynamic programming). When none is left, the
linear program is solved over all of P. Its optimum bounds every policy, online or not, whatever it
knows; the bound reported is the one that the prices prove by weak duality in plain arithmetic
(`gpu_patterns.proved_bound`), for which it does not matter that a solver found them.

An answer needs patterns of whole hosts (`host_patterns`): z_cq hosts of class c carry content q,

max sum v z - sum_k v_k d_k,  sum_cq q_k z_cq - d_k <= n_k,  sum_q z_cq <= N_c,  z, d integer,

with contents priced by a knapsack over CPU, memory and GPU patterns.

Size: |C| |K| + |C| |P'| columns for the P' generated, |K| + 3 |C| + |C| |S| rows.

Complexity: strongly NP-hard (bin packing); the relaxation is polynomial in the number of kinds,
pseudo-polynomial in the pricing.

Literature: Gilmore, Gomory, "A linear programming approach to the cutting-stock problem",
Operations Research 9 (1961); Farley, "A note on bounding a class of linear programming problems",
Operations Research 38 (1990); the problem: Weng et al., "Beware of Fragmentation", USENIX ATC 2023.
"""

from alloc.models.offline_packing.data import PackingData as PackingData
