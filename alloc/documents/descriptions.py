"""Descriptions: what the published schemas say of classes and fields, in the words of JSON.

Where the docstring of a dataclass says the same, nothing is said here: `alloc.documents.records`
reads it. Under "" stands what is said of the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alloc.capacity.demand import JobClass, JobOption, Scenario, Tightening
from alloc.capacity.goals import ServiceGoal
from alloc.capacity.offers import HostOffer, Owned
from alloc.capacity.operation import NodePlan, OperationPlan, OperationProblem, RunningJob
from alloc.capacity.operation_jobs import EarlyStop, OperationJob
from alloc.capacity.operation_nodes import NodePool, NodeType
from alloc.capacity.operation_result import OperationCosts, OperationResult
from alloc.capacity.plan import (
    CostBreakdown,
    MarginalValue,
    Order,
    Plan,
    PlanResult,
    Relief,
    Rental,
    Share,
    Unserved,
)
from alloc.capacity.problem import PlanningProblem
from alloc.capacity.sites import Site
from alloc.certificate import Certificate, Result
from alloc.instance import Affinity, Instance, Moves, Tenant
from alloc.solution import Allocation, Assignment, Run, Schedule, TaskPlacement
from alloc.topology.host import Domain, GpuLink, Host, HostType, NetworkLink
from alloc.topology.topology import Topology
from alloc.workload.configuration import Configuration, TaskGroup
from alloc.workload.job import Job
from alloc.workload.placement_rules import PlacementRules, Slice, Spread

DESCRIPTIONS: Mapping[Any, Mapping[str, str]] = {
    GpuLink: {
        "a": "Device within the host: gpu0, nvswitch0, numa0, nic0 ...",
        "b": "The other device.",
        "kind": "nvlink, nvswitch, pcie, upi ...",
        "bandwidth_gb_per_s": "Bandwidth in one direction, GB/s, more than 0.",
    },
    HostType: {
        "name": "Unique name, not empty.",
        "num_gpus": "Whole GPUs per host, 0 or more.",
        "gpu_type": "Name of the GPU type; null for hosts without GPUs.",
        "cpu_milli": "CPU for jobs, milli-cores (1000 = one core), 0 or more.",
        "memory_mib": "Host memory for jobs, MiB, 0 or more.",
        "links": "Links between the devices of the host.",
    },
    Host: {
        "": "A server.",
        "id": "Unique among hosts and domains.",
        "type": "Name of one of host_types.",
        "domain": "Id of the innermost domain it stands in.",
    },
    Domain: {
        "id": "Unique among hosts and domains.",
        "level": "One of levels.",
        "parent": "Id of the domain it lies in; null at the top.",
    },
    NetworkLink: {
        "a": "Id of a host or domain, or a device as host/device.",
        "b": "The other end.",
        "bandwidth_gb_per_s": "Bandwidth in one direction, GB/s, more than 0.",
    },
    Topology: {
        "": "A cluster: hosts in nested domains, joined by links.",
        "name": "Name for people.",
        "host_types": "The kinds of servers, names unique.",
        "hosts": "The servers, at least one.",
        "levels": "Domain levels, outermost first, without host and gpu.",
        "domains": "The domains of those levels.",
        "links": "Links of the fabric.",
    },
    TaskGroup: {
        "role": 'What the tasks do, for example "worker" or "ps"; not empty.',
        "gpu_milli": "GPU of one task, milli-GPU (1000 = one GPU): 0, a share from 10 to 999, or "
        "whole GPUs as a multiple of 1000, all on one host.",
        "cpu_milli": "CPU of one task, milli-cores (1000 = one core).",
        "gpu_memory_mib": "GPU memory of one task on each GPU that it holds or shares, MiB; 0: no "
        "statement.",
        "mig_profile": 'MIG slice of one task, for example "3g.20gb"; gpu_milli is then 0.',
    },
    Configuration: {
        "tasks": "Task groups, at least one, at most one per role; all run, or none.",
        "rate": "Work units per second, 0 or more.",
        "gpu_type": "GPU type that the tasks' hosts must have.",
        "within": 'Level ("host" or one of levels) that must hold all tasks in one domain.',
    },
    Slice: {
        "": "Tasks that belong together: every `size` of them stand in one domain of the level.",
        "level": 'Level whose domains hold the slices, "host" included.',
        "size": "Tasks in a slice, 1 or more; it divides their number.",
    },
    Spread: {
        "": "At most so many tasks of the job in any one domain of the level.",
        "level": 'Level, "host" included.',
    },
    PlacementRules: {
        "": "Rules about the domains that the tasks of a job stand in.",
        "required": "Level that must hold all tasks in one domain.",
        "preferred": "Level that should hold all tasks in one domain.",
    },
    Job: {
        "id": "Unique name, not empty.",
        "arrival_s": "Arrival, seconds since the start of the instance, 0 or more.",
        "work": "Total work, work units of the rates, more than 0.",
        "configurations": "Name of one of configuration_sets, or a list of configurations.",
        "weight": "Importance, more than 0.",
        "deadline_s": "Hard limit on the completion, seconds since the start.",
        "due_date_s": "Soft limit on the completion, seconds since the start; later is tardiness.",
        "tenant": "Tenant whose quota the job uses.",
        "elasticity": "malleable: may change its configuration while it runs; moldable: chooses "
        "one and keeps it; rigid: has exactly one.",
        "restart_cost_s": "Seconds without progress at each resumption or move, 0 or more.",
        "work_done": "Work already done at the start, work units, at least 0, less than work.",
        "model": 'What is trained, for example "resnet-50".',
    },
    Tenant: {
        "gpu_quota_milli": "Most GPU that its jobs may hold at any time without borrowing, "
        "milli-GPU.",
        "cohort": "Tenants of one cohort lend each other what they leave idle; null: none.",
        "borrowing_milli": "Most GPU beyond its quota that it may borrow from its cohort, "
        "milli-GPU.",
    },
    Affinity: {
        "kind": "together: their tasks stand in one domain of the level; apart: no domain of the "
        "level holds tasks of two of them.",
        "level": 'Level, "host" included.',
    },
    Moves: {
        "": "What an allocation may do to the jobs that run.",
        "budget": "Most tasks that may move; null: any number; 0 pins all.",
        "evict": "Whether running preemptible jobs may be stopped.",
    },
    TaskPlacement: {
        "role": "Role of the tasks.",
        "gpus": "For tasks that share a GPU or hold a MIG slice, the position on the host (from "
        "0) of each task's GPU; otherwise empty.",
        "starts": "For tasks with a MIG slice, the memory slice (from 0) at which each begins; "
        "otherwise empty.",
    },
    Assignment: {
        "configuration": "Position in the job's configurations, counted from 0.",
        "tasks": "Where its tasks are.",
    },
    Run: {
        "": "A stretch of time in which a job keeps a configuration and hosts.",
        "job": "Job id.",
        "configuration": "Position in the job's configurations, counted from 0.",
        "start_s": "Start, seconds since the start of the instance.",
        "end_s": "End, seconds since the start of the instance.",
        "tasks": "Where its tasks are.",
    },
    Allocation: {
        "": "The decision of one round: which jobs run, how and where.",
        "unplaced": "For jobs that do not run, the reason.",
    },
    Schedule: {
        "": "A plan over time: the runs of every job.",
        "runs": "The runs, in any order.",
        "unplaced": "For jobs that never run, the reason.",
    },
    Certificate: {
        "status": "optimal: gap at most 1e-6; feasible: an answer with a larger gap; infeasible: "
        "proved that there is none; no_solution: none found, nothing proved.",
        "objective": "Value of the answer as the judge recomputed it; null without an answer; "
        '"inf" if a job that counts never completes.',
        "bound": 'Proved bound on every solution\'s value; "-inf" (minimisation) or "inf" when '
        "nothing is proved.",
        "formulation": "What was solved.",
        "backend": "By what.",
        "backend_version": "Version of the backend.",
        "seed": "Random seed of the solver.",
        "workers": "Threads of the solver.",
        "seconds": "Wall time from the call to the answer, seconds.",
        "fingerprint": "Fingerprint of the instance, SHA-256 in hexadecimal.",
        "limit": "Why the search stopped early; null if it did not.",
        "bound_proof": "recomputed: evaluated again from multipliers; confirmed: a second run of "
        "the solver proves it too; claimed: the solver's word; none: there is no bound.",
    },
    Instance: {
        "": "A scheduling instance of alloc: a cluster, its jobs and the rules of time.",
        "name": "Name for people.",
        "jobs": "The jobs, at least one, ids unique.",
        "slot_s": "Length of a slot, seconds, more than 0; null for continuous time.",
        "horizon_s": "Time by which every job must be complete, seconds; null: open end.",
        "tenants": "Tenants with quotas, names unique.",
        "running": "What ran just before the start.",
        "moves": "What an allocation may do to the jobs in running; null: anything, as if none of "
        "them ran.",
        "description": "Where the instance comes from; not part of the problem.",
    },
    Result: {
        "": "A result of alloc: an answer with its certificate.",
        "solution": "The best solution found, or null.",
        "conflict": "For an infeasible instance, the requirements in conflict.",
        "stages": "For a goal of several levels, the certificate of each.",
    },
    Site: {
        "rack_units": "Height free for hosts, rack units; null without limit.",
        "ports": "Network ports free for hosts; null without limit.",
        "power_kw": "Most power with cooling and losses, kW; null without limit.",
        "pue": "Power usage effectiveness, 1 or more.",
        "energy_price_per_kwh": "Money per kWh: 1 value (always the same), 24 (hours of the day) "
        "or 168 (hours of the week).",
        "carbon_kg_per_kwh": "Carbon dioxide, kg per kWh: 1 value (always the same), 24 (hours of "
        "the day) or 168 (hours of the week).",
        "currency": "Currency of the energy price; null: that of the plan.",
    },
    HostOffer: {
        "terms": "How hosts are acquired.",
        "price": "Money per host (purchase), per host and quarter (reserved), per host and hour "
        "(on_demand, spot).",
        "sites": "Names of the sites where it is offered; empty: all.",
        "most_hosts": "Most hosts ordered for a site in a quarter, or in use at a site at a time "
        "(on_demand, spot); null without limit.",
        "lead_time_quarters": "Quarters from order to service.",
        "service_quarters": "Life of a bought host, term of a reservation, quarters.",
        "residual_fraction": "What a host new at the end of the plan is worth, as a fraction of "
        "its price.",
        "maintenance_per_quarter": "Money per bought host and quarter.",
        "idle_kw": "Power of a host without load, kW.",
        "busy_kw": "Power of a host under full load, kW.",
        "rack_units": "Height of a host, rack units.",
        "ports": "Network ports of a host.",
        "currency": "Currency of the prices; null: that of the plan.",
    },
    Owned: {
        "offer": "Name of an offer on the terms purchase or reserved.",
        "count": "Number of hosts, 1 or more.",
        "quarters_left": "Quarters until they retire, 1 or more.",
    },
    JobOption: {
        "": "One way to run a job.",
        "gpus": "GPUs held, 1 or more.",
        "hours": "Hours from start to completion, above 0.",
    },
    ServiceGoal: {
        "measure": "jct: arrival to completion; wait: arrival to start.",
        "fraction": "Fraction of jobs that keep to them, between 0 and 1; null: the mean does.",
    },
    JobClass: {
        "options": "The ways to run a job, at least one.",
        "goal": "What its jobs are promised; null: only that they are served.",
        "sites": "Names of the sites where its data may lie; empty: all.",
        "spot_overhead": "Work repeated on spot hosts, fraction of the work.",
        "critical": "Whether it is served even in a scenario that is waived.",
        "deferrable": "Whether its jobs may be shifted to other hours.",
        "hourly_profile": "Arrivals by hour in relation to each other: 1 value (always the same), "
        "24 (hours of the day) or 168 (hours of the week).",
        "loss_per_job": "What a job costs that is left unserved, money.",
        "tenant": "Name of its tenant.",
    },
    Scenario: {
        "arrivals": "For each job class its jobs per hour, one number a quarter.",
        "spot_availability": "Fraction of each spot offer's most_hosts to be had, one number a "
        "quarter; empty: all.",
    },
    Tightening: {
        "job_class": "Name of the class.",
        "gpu_type": "GPU type of the pool.",
        "site": "Site of the pool.",
        "factor": "Multiplies the headroom, 1 or more; from 1e5 on the class is kept out.",
        "margin": "GPUs that the pool keeps beyond the room for its load while jobs of the class "
        "are sent there.",
        "spot": "Whether the pool's spot hosts are meant.",
    },
    PlanningProblem: {
        "": "A planning problem of alloc: what can be had, what must be served, within which "
        "limits.",
        "currency": 'Currency of all money, for example "EUR".',
        "offers": "Hosts that can be had, at least one.",
        "sites": "Where they can stand, at least one.",
        "classes": "Classes of jobs, at least one.",
        "scenarios": "How the future may go, at least one.",
        "budget": "Most money over all quarters, not discounted, running costs as expected; null "
        "without limit.",
        "discount_rate": "Rate per quarter at which money is discounted.",
        "carbon_caps_kg": "Most carbon dioxide in each quarter, kg; empty without limit.",
        "failures": "Hosts that any pool can lose and still serve.",
        "epsilon": "Largest probability of scenarios that are waived.",
        "bands": "Most groups into which the hours of a week are put.",
        "utilisation": "Most load of a pool, as a fraction.",
        "pool_gpus": "GPUs a pool is taken to have in the queueing formula; null: from the load.",
    },
    Order: {
        "offer": "Name of the offer.",
        "site": "Name of the site.",
        "quarter": "Quarter of the order, counted from 0.",
    },
    Rental: {
        "scenario": "Name of the scenario.",
        "quarter": "Quarter, counted from 0.",
        "band": "Band of hours, counted from 0.",
        "offer": "Name of the offer.",
        "site": "Name of the site.",
    },
    Share: {
        "scenario": "Name of the scenario.",
        "quarter": "Quarter, counted from 0.",
        "band": "Band of hours, counted from 0.",
        "site": "Name of the site.",
    },
    Unserved: {
        "scenario": "Name of the scenario.",
        "quarter": "Quarter, counted from 0.",
        "band": "Band of hours; null for a deferrable class.",
        "jobs_per_hour": "Rate, mean over the hours of the band or quarter.",
    },
    Plan: {
        "orders": "What is bought and reserved.",
        "waived": "Names of the scenarios that are waived.",
        "unserved": "Jobs not served.",
    },
    CostBreakdown: {
        "purchase": "Hosts bought.",
        "reserved": "Hosts reserved.",
        "maintenance": "Maintenance.",
        "on_demand": "Hosts rented on demand.",
        "spot": "Spot hosts.",
        "energy": "Energy with cooling.",
        "carbon": "The carbon price on the energy.",
        "residual": "Worth at the end, 0 or less.",
        "loss": "Jobs left unserved.",
    },
    MarginalValue: {
        "": "What one more unit of something would save, in the relaxation.",
        "kind": "What there would be more of.",
        "name": "Site, offer or class.",
        "quarter": "Quarter; null: all together.",
        "unit": "Unit of which there would be one more.",
        "saving": "Expected discounted money saved, negative if it costs; null: no plan has one "
        "more. An estimate unless lower and upper are equal to it.",
        "lower": "Proved to be saved at least; null: nothing is proved.",
        "upper": "Proved to be saved at most; null: nothing is proved.",
    },
    Relief: {
        "": "One limit of an infeasible problem that is given way.",
        "kind": "Kind of limit.",
        "name": "Class, site or offer.",
        "scenario": "Scenario; null: all.",
        "quarter": "Quarter; null: all together.",
        "amount": "How much is missing.",
        "way": "Number of the way out that it belongs to; all reliefs of a way are needed "
        "together, one way is enough.",
        "least": "Whether less is proved not to be enough.",
    },
    PlanResult: {
        "": "A result of capacity planning: a plan with its certificate.",
        "plan": "The best plan found, or null.",
        "certificate": "What is proved about it.",
        "costs": "What the expected discounted cost is made of.",
        "assumptions": "What the plan takes for granted.",
        "marginals": "What one more unit would save.",
        "conflict": "For an infeasible problem, what is missing.",
        "reliefs": "The limits that may give way, see way.",
    },
    NodeType: {
        "": "What a node can be while it is on.",
        "price_per_h": "Money per hour with 1, 2, ... GPUs in use, never falling; empty: no price.",
        "power_w": "Watts with 1, 2, ... GPUs in use, never falling; empty: not modelled.",
        "currency": "Currency of the price.",
    },
    NodePool: {
        "name": "Unique name; its nodes are name-0, name-1 ...",
        "types": "Names of the types that each node can be switched on as.",
    },
    EarlyStop: {
        "": "A chance that a job ends before its work is done.",
        "fraction": "Part of the work after which it may end, 0 to 1.",
        "probability": "Chance that it ends just then, seen from now.",
    },
    OperationJob: {
        "duration_s": "By type of node, seconds of the remaining work on 1, 2, ... GPUs; null "
        "where it cannot run.",
        "due_date_s": "Completion beyond it is tardiness, seconds.",
        "arrival_s": "When it was submitted, seconds.",
        "restart_s": "Seconds lost at first unless it goes on as it runs now.",
        "stops": "Chances that it ends early, in order.",
    },
    RunningJob: {
        "": "A job that runs now.",
        "job": "Id of the job.",
        "node": "Id of the node.",
        "type": "What the node is switched on as.",
        "gpus": "GPUs that the job holds.",
    },
    OperationProblem: {
        "": "A decision in operation: nodes, jobs, what runs now, and what counts.",
        "name": "Name for people.",
        "types": "The types of nodes, names unique.",
        "jobs": "The jobs that are not complete, ids unique.",
        "now_s": "Time of the decision, seconds.",
        "replan_s": "Time to the next decision at the latest, seconds.",
        "postponement_factor": "Weight of the tardiness to be feared of jobs that wait, 0 or more.",
        "currency": "Currency of all money.",
        "energy_price_per_kwh": "Money per kWh, 0 or more.",
        "power_cap_w": "Most power of all nodes, watts; null: none.",
        "running": "What runs now.",
        "accounting": "What a plan is charged for its nodes: until the first completion, or each "
        "job its share until it completes.",
    },
    NodePlan: {
        "node": "Id of the node.",
        "jobs": "GPUs of each job on it, by id.",
    },
    OperationPlan: {
        "": "What is on and what runs until the next decision.",
    },
    OperationCosts: {
        "operating": "What its nodes are charged, money.",
    },
    OperationResult: {
        "": "A result of a decision in operation: a plan with its costs and certificate.",
        "plan": "The plan.",
        "certificate": "What is proved about it.",
    },
}
