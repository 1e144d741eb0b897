"""Descriptions: what the published schemas say of classes and fields, in the words of JSON.

Where the docstring of a dataclass says the same, nothing is said here: `alloc.documents.records`
reads it. Under "" stands what is said of the class.
"""

from __future__ import annotations

from collections.abc import Mapping

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "alloc.topology.host:GpuLink": {
        "kind": "nvlink, nvswitch, pcie, upi ...",
    },
    "alloc.topology.host:HostType": {
        "name": "Unique name, not empty.",
        "links": "Links between the devices of the host.",
        "resources": "Other resources that one host offers, whole amounts by name.",
    },
    "alloc.topology.host:Host": {
        "": "A server.",
        "domain": "Id of the innermost domain it stands in.",
    },
    "alloc.topology.host:Domain": {
        "id": "Unique among hosts and domains.",
        "level": "One of levels.",
    },
    "alloc.topology.host:NetworkLink": {
        "a": "Id of a host or domain, or a device as host/device.",
        "b": "The other end.",
    },
    "alloc.topology.topology:Topology": {
        "": "A cluster: hosts in nested domains, joined by links.",
        "hosts": "The servers, at least one.",
        "levels": "Domain levels, outermost first, without host and gpu.",
        "domains": "The domains of those levels.",
        "links": "Links of the fabric.",
        "resources": "What the cluster offers and no host by itself, whole amounts by name.",
    },
    "alloc.workload.configuration:TaskGroup": {
        "mig_profile": 'MIG slice of one task, for example "3g.20gb"; gpu_milli is then 0.',
        "resources": "Other resources of one task, whole amounts by name: of its host, or of the "
        "cluster.",
    },
    "alloc.workload.configuration:Configuration": {
        "rate": "Work units per second, 0 or more.",
        "gpu_type": "GPU type that the tasks' hosts must have.",
        "technique": "Name of the parallelism that reaches the rate, for people.",
        "within": 'Level ("host" or one of levels) that must hold all tasks in one domain.',
    },
    "alloc.workload.placement_rules:PlacementRules": {
        "required": "Level that must hold all tasks in one domain.",
        "preferred": "Level that should hold all tasks in one domain.",
    },
    "alloc.workload.job:Job": {
        "work": "Total work, work units of the rates, more than 0; left out of a job with stages.",
        "configurations": "Name of one of configuration_sets, or a list of configurations; left "
        "out of a job with stages.",
        "weight": "Importance, more than 0.",
        "tenant": "Tenant whose quota the job uses.",
        "restart_cost_s": "Seconds without progress at each resumption or move, 0 or more.",
        "model": 'What is trained, for example "resnet-50".',
    },
    "alloc.problems.allocation.terms:Tenant": {
        "cohort": "Tenants of one cohort lend each other what they leave idle; null: none.",
    },
    "alloc.problems.allocation.terms:Affinity": {
        "kind": "together: their tasks stand in one domain of the level; apart: no domain of the "
        "level holds tasks of two of them.",
    },
    "alloc.problems.allocation.terms:Moves": {
        "": "What a placement may do to the jobs that run; without it they stay.",
        "evict": "Whether running preemptible jobs may be stopped.",
    },
    "alloc.problems.allocation.outages:Outage": {
        "": "A stretch of time in which a host is down.",
        "end_s": "When it is back, seconds since the start of the instance; null: never.",
    },
    "alloc.problems.allocation.solution:TaskPlacement": {
        "role": "Role of the tasks.",
        "gpus": "For tasks that share a GPU or hold a MIG slice, the position on the host (from "
        "0) of each task's GPU; otherwise empty.",
        "starts": "For tasks with a MIG slice, the memory slice (from 0) at which each begins; "
        "otherwise empty.",
    },
    "alloc.problems.allocation.solution:Assignment": {
        "tasks": "Where its tasks are.",
    },
    "alloc.problems.allocation.solution:Run": {
        "": "A stretch of time in which a job keeps a configuration and hosts.",
        "start_s": "Start, seconds since the start of the instance.",
        "end_s": "End, seconds since the start of the instance.",
    },
    "alloc.problems.allocation.solution:Schedule": {
        "runs": "The runs, in any order.",
    },
    "alloc.certificate:Certificate": {
        "status": "optimal: gap at most 1e-6; feasible: an answer with a larger gap; infeasible: "
        "proved that there is none; no_solution: none found, nothing proved.",
        "objective": "Value of the answer as the checker recomputed it; null without an answer; "
        '"inf" if a job that counts never completes.',
        "bound": 'Proved bound on every solution\'s value; "-inf" (minimisation) or "inf" when '
        "nothing is proved.",
        "bound_proof": "recomputed: evaluated again from multipliers; confirmed: a second run, "
        "or a second solver, proves it too; claimed: the solver's word; none: there is no bound.",
    },
    "alloc.problems.allocation.instance:Instance": {
        "": "A scheduling instance of alloc: a cluster, its jobs and the rules of time.",
        "name": "Name for people.",
        "slot_s": "Length of a slot, seconds, more than 0; null for continuous time.",
        "tenants": "Tenants with quotas, names unique.",
        "running": "What ran just before the start.",
        "description": "Where the instance comes from; not part of the problem.",
    },
    "alloc.result:Result": {
        "": "A result of alloc: an answer with its certificate.",
        "stages": "For a goal of several levels, the certificate of each.",
        "solution": "The best solution found, of a kind for each family; null without one.",
    },
    "alloc.problems.right_sizing.sites:Site": {
        "pue": "Power usage effectiveness, 1 or more.",
        "energy_price_per_kwh": "Money per kWh: 1 value (always the same), 24 (hours of the day) "
        "or 168 (hours of the week).",
    },
    "alloc.problems.right_sizing.offers:HostOffer": {
        "terms": "How hosts are acquired.",
        "lead_time_quarters": "Quarters from order to service.",
        "service_quarters": "Life of a bought host, term of a reservation, quarters.",
        "residual_fraction": "What a host new at the end of the plan is worth, as a fraction of "
        "its price.",
        "idle_kw": "Power of a host without load, kW.",
        "busy_kw": "Power of a host under full load, kW.",
        "rack_units": "Height of a host, rack units.",
        "ports": "Network ports of a host.",
    },
    "alloc.problems.right_sizing.offers:Owned": {
        "offer": "Name of an offer on the terms purchase or reserved.",
        "quarters_left": "Quarters until they retire, 1 or more.",
    },
    "alloc.problems.right_sizing.demand:JobOption": {
        "": "One way to run a job.",
    },
    "alloc.problems.right_sizing.demand:JobClass": {
        "spot_overhead": "Work repeated on spot hosts, fraction of the work.",
        "hourly_profile": "Arrivals by hour in relation to each other: 1 value (always the same), "
        "24 (hours of the day) or 168 (hours of the week).",
    },
    "alloc.problems.right_sizing.demand:Scenario": {
        "arrivals": "For each job class its jobs per hour, one number a quarter.",
        "spot_availability": "Fraction of each spot offer's most_hosts to be had, one number a "
        "quarter; empty: all.",
    },
    "alloc.problems.right_sizing.demand:Tightening": {
        "factor": "Multiplies the headroom, 1 or more; from 1e5 on the class is kept out.",
        "margin": "GPUs that the pool keeps beyond the room for its load while jobs of the class "
        "are sent there.",
        "beside": "Another class: the margin is kept only while jobs of that class are sent there "
        "too; null: whatever else is sent there.",
        "quarter": "The only quarter in which the margin is kept, counted from 0; null: in every "
        "quarter.",
        "spot": "Whether the pool's spot hosts are meant.",
        "bands": "Part of the margin that the pool keeps in each band of hours, 1 in one of them; "
        "empty: all of it in every band. Of all margins of a pool the largest part counts.",
    },
    "alloc.problems.right_sizing.problem:PlanningProblem": {
        "": "A planning problem of alloc: what can be had, what must be served, within which "
        "limits.",
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
    "alloc.problems.right_sizing.plan:Order": {
        "quarter": "Quarter of the order, counted from 0.",
    },
    "alloc.problems.right_sizing.plan:Plan": {
        "orders": "What is bought and reserved.",
        "waived": "Names of the scenarios that are waived.",
        "unserved": "Jobs not served.",
    },
    "alloc.problems.operation.nodes:NodeType": {
        "": "What a node can be while it is on.",
        "price_per_h": "Money per hour with 1, 2, ... GPUs in use, never falling; empty: no price.",
        "power_w": "Watts with 1, 2, ... GPUs in use, never falling; empty: not modelled.",
        "currency": "Currency of the price.",
    },
    "alloc.problems.operation.nodes:NodePool": {
        "types": "Names of the types that each node can be switched on as.",
    },
    "alloc.problems.operation.jobs:EarlyStop": {
        "": "A chance that a job ends before its work is done.",
        "fraction": "Part of the work after which it may end, 0 to 1.",
        "probability": "Chance that it ends just then, seen from now.",
    },
    "alloc.problems.operation.jobs:OperationJob": {
        "duration_s": "By type of node, seconds of the remaining work on 1, 2, ... GPUs; null "
        "where it cannot run.",
        "due_date_s": "Completion beyond it is tardiness, seconds.",
        "arrival_s": "When it was submitted, seconds.",
        "restart_s": "Seconds lost at first unless it goes on as it runs now.",
        "stops": "Chances that it ends early, in order.",
    },
    "alloc.problems.operation.problem:RunningJob": {
        "": "A job that runs now.",
    },
    "alloc.problems.operation.problem:OperationProblem": {
        "types": "The types of nodes, names unique.",
        "jobs": "The jobs that are not complete, ids unique.",
        "now_s": "Time of the decision, seconds.",
        "replan_s": "Time to the next decision at the latest, seconds.",
        "postponement_factor": "Weight of the tardiness to be feared of jobs that wait, 0 or more.",
        "currency": "Currency of all money.",
        "energy_price_per_kwh": "Money per kWh, 0 or more.",
        "running": "What runs now.",
        "accounting": "What a plan is charged for its nodes: until the first completion, or each "
        "job its share until it completes.",
    },
    "alloc.problems.operation.problem:NodePlan": {
        "jobs": "GPUs of each job on it, by id.",
    },
    "alloc.problems.operation.problem:OperationPlan": {
        "": "What is on and what runs until the next decision.",
    },
    "alloc.problems.operation.report:OperationCosts": {
        "operating": "What its nodes are charged, money.",
    },
}
