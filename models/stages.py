r"""F9 Stages: when, in which configuration and on which hosts does each stage of each job run?

A job is a graph of stages. A stage arrives when those before it have ended, and runs on hosts as a
job would; the job completes with its last stage. Objectives count jobs.

The bound is that of a project (`alloc.models.project`), in which hosts are pooled: every schedule
in which each stage runs once is one of the project that costs no more. The schedule is the
project's plan, put on hosts stage by stage.

Sets
----
j in J
    Jobs; A_j are their stages, A all stages, P the pairs (i, k) with i before k.
c in C_k
    Configurations of a stage.
h in H
    Hosts; r are their resources.

Parameters
----------
W_k, rate_kc, a_kcr
    Work of a stage, rate and total demand of its configuration.
B_hr
    What a host has.
r_j, w_j, t_j
    Arrival, weight and due date of a job.

Variables
---------
y_kc in {0, 1}
    Whether a stage runs in a configuration.
S_k >= 0
    Its start.
n_khg
    Tasks of each group that it has on a host.

Objective
---------
min sum_j w_j (C_j - r_j)   (``weighted_jct``; ``mean_jct`` with w_j = 1 / |J|)
min max_j C_j   (``makespan``)
min sum_j w_j max(C_j - t_j, 0)   (``tardiness``)

Constraints
-----------
(C1) once:        sum_c y_kc = 1
(C2) arrival:     S_k >= r_j for k in A_j
(C3) precedence:  S_k >= S_i + sum_c y_ic W_i / rate_ic for (i, k) in P
(C4) completion:  C_j >= S_k + sum_c y_kc W_k / rate_kc for k in A_j
(C5) gangs:       sum_h n_khg = the group's tasks in the configuration chosen
(C6) hosts:       what the stages that run at a time hold of h is at most B_hr

The project keeps (C1) to (C4) and the sum of (C6) over all hosts, and over those of each GPU type.
Where GPUs take time to move from job to job (``move_s``), a stage that takes a GPU whose last job
was another runs that much longer. It is counted in the schedule, and left out of the bound, which
holds all the same.

In slots, or where stages may pause or change their configuration, longest paths and the work on the
resources still are bounds; the search for the plan is then a heuristic.

Size: as the project. Complexity: strongly NP-hard; finding hosts for gangs contains bin packing.

Literature
----------
H. Mao et al., "Learning scheduling algorithms for data processing clusters", SIGCOMM 2019,
doi:10.1145/3341302.3342080 (jobs as graphs of stages on a pool of executors). R. Grandl et al.,
"Graphene: packing and dependency-aware scheduling for data-parallel clusters", OSDI 2016. A.
Sprecher, R. Kolisch, A. Drexl, "Semi-active, active, and non-delay schedules for the
resource-constrained project scheduling problem", EJOR 80(1), 1995,
doi:10.1016/0377-2217(93)E0294-8 (schedules built one stage after the other).
"""
