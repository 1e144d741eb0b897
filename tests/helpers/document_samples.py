"""A sample of every kind of document, and the same with one thing wrong in it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from communication_trees import symmetric_tree
from inference_problems import a_problem
from quota_problems import a_quota_problem

from alloc.certificate import Certificate
from alloc.instances.operation import generate_operation
from alloc.instances.planning import generate_planning
from alloc.problems.allocation.instance import Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule, TaskPlacement
from alloc.problems.checkpointing import CheckpointPlan, CheckpointProblem, Phase
from alloc.problems.colocation import ColocationProblem, Packing
from alloc.problems.inference_sizing.plan import HostContents, InferencePlan, ReplicaGroup
from alloc.problems.inference_sizing.report import GoalCheck, InferenceReport
from alloc.problems.operation.problem import NodePlan, OperationPlan
from alloc.problems.operation.report import OperationCosts, OperationReport
from alloc.problems.pipeline.problem import Device, Layer, PipelinePlan, PipelineProblem
from alloc.problems.project import (
    Activity,
    ActivityRun,
    Mode,
    ProjectJob,
    ProjectPlan,
    ProjectProblem,
    Resource,
)
from alloc.problems.quadratic_assignment import QuadraticAssignment
from alloc.problems.quota_planning.problem import Quota, QuotaPlan, QuotaTenant
from alloc.problems.quota_planning.report import QuotaReport, TenantOutlook
from alloc.problems.rank_mapping import RankMapping, RankMappingProblem, StepTime
from alloc.problems.right_sizing import (
    Order,
    Owned,
    Plan,
    Rental,
    Share,
    Tightening,
    Unserved,
)
from alloc.result import Repair, Result, Sensitivity
from alloc.topology import Domain, GpuLink, Host, HostType, NetworkLink, Topology
from alloc.workload import Configuration, Job, PlacementRules, Slice, Spread, TaskGroup
from alloc.workload.interference import InterferenceTable
from alloc.workload.parallelism import Parallelism

CERTIFICATE = Certificate(
    "feasible", 2.0, -math.inf, "min", "cost", "f", "b", "1", 0, 1, 1.5, "ab", "time", True
)
CLUSTER = Topology(
    "lab",
    (HostType("dgx", 8, "v100", 64000, 100000, (GpuLink("gpu0", "gpu1", "nvlink", 300.0),)),),
    (Host("h0", "dgx", "leaf-0"), Host("h1", "dgx", "leaf-1")),
    ("leaf",),
    (Domain("leaf-0", "leaf"), Domain("leaf-1", "leaf")),
    (NetworkLink("leaf-0", "leaf-1", 100.0),),
)
ELASTIC = tuple(Configuration((TaskGroup("worker", n, 1000),), n**0.5) for n in (1, 2))
RULES = PlacementRules("leaf", None, (Slice("host", 1),), (Spread("host", 2),))
ONE = (Configuration((TaskGroup("worker", 1, 1000, 1000),), 1.5, within="leaf"),)
PLACED = (TaskPlacement("h0", "worker", 1),)
INSTANCE = Instance(
    "week",
    CLUSTER,
    (
        Job("a", 0.0, 10.0, ELASTIC, model="resnet", tenant="red"),
        Job("b", 1.5, 20.0, ELASTIC, model="resnet", deadline_s=1e5),
        Job("c", 2.0, 5.0, ONE, elasticity="rigid", placement=RULES),
    ),
    slot_s=60.0,
    tenants=(Tenant("red", 8000, "co", 2000),),
    running=(Assignment("a", 0, PLACED),),
    affinities=(Affinity("apart", "leaf", ("a", "b")),),
    moves=Moves(3, True),
    description={"by": "me"},
)
ALLOCATION = Allocation(
    (Assignment("a", 0, (TaskPlacement("h0", "worker", 1, (0,), (1,)),)),), {"b": "no room"}
)
SCHEDULE = Schedule((Run("a", 0, 0.0, 10.0, PLACED),), {"c": "too large"})
FORECAST = generate_planning("written", num_classes=1, num_scenarios=1, seed=1)
FORECAST = FORECAST.replace(
    tightening=(Tightening("vision-1", "a100", "room-1", 1.5),),
    owned=(Owned(FORECAST.offers[0].name, FORECAST.sites[0].name, 2, 3),),
)
PLAN = Plan(
    (Order("buy", "room", 0, 3),),
    ("bad luck",),
    (Rental("s", 0, 0, "rent", "room", 0.5),),
    (Share("s", 0, 0, "work", 0, "room", False, 2.0),),
    (Unserved("bad luck", 0, None, "work", 1.0),),
)
OPERATION_PLAN = OperationPlan((NodePlan("n-0", "k80x4", (("job-0", 2), ("job-1", 1))),), ("j",))
INFERENCE_PLAN = InferencePlan(
    (ReplicaGroup("p", "m", "h100", 1, 1, 2, 8, 1.5),),
    (HostContents("p", "own", 1, (2,)),),
    (("own", 1),),
)
QUOTA_PLAN = QuotaPlan((Quota("a", "v100", 1000),))
PACKING = Packing(((0, 1), (2,)), (3,))
CHECKPOINTS = CheckpointPlan((0, 2))
STAGES = PipelinePlan((0, 1))
PROJECT_PLAN = ProjectPlan((ActivityRun("a", 0, 1.5),))
MAPPING = RankMapping(("h/gpu0",), StepTime(1.0, 0.5, 0.25, 0.0), 2.0)
SPEEDS = InterferenceTable("v100", ("a", "b"), np.ones(2), np.array([[0.5, 0.75], [0.25, 0.0]]))
TREE = symmetric_tree((("leaf", 2), ("host", 2)), {"leaf": 50.0, "host": 450.0}, 1e-6)
SAMPLES: dict[str, list[Any]] = {
    "instance": [INSTANCE],
    "topology": [CLUSTER],
    "solution": [ALLOCATION, SCHEDULE],
    "result": [
        Result(ALLOCATION, CERTIFICATE, ("1 s",), "why", (CERTIFICATE,)),
        Result(SCHEDULE, CERTIFICATE),
        Result(
            PLAN,
            CERTIFICATE,
            repairs=(Repair("demand", "work", 1.0, "jobs/h", "too much", "s", 0, 3.0, 2.0, 1),),
            sensitivities=(Sensitivity("budget", "", 1.0, "EUR", -0.1, 0, -0.2, 0.0, True),),
            assumptions=("All is well.",),
        ),
        Result(OPERATION_PLAN, CERTIFICATE),
        Result(INFERENCE_PLAN, CERTIFICATE),
        Result(QUOTA_PLAN, CERTIFICATE),
        Result(PACKING, CERTIFICATE),
        Result(CHECKPOINTS, CERTIFICATE),
        Result(STAGES, CERTIFICATE),
        Result(PROJECT_PLAN, CERTIFICATE),
        Result(MAPPING, CERTIFICATE),
    ],
    "inference_plan": [INFERENCE_PLAN],
    "quota_plan": [QUOTA_PLAN],
    "packing": [PACKING],
    "checkpoint_plan": [CHECKPOINTS],
    "pipeline_plan": [STAGES],
    "project_plan": [PROJECT_PLAN],
    "project_problem": [
        ProjectProblem(
            "query",
            (
                Activity("scan", (Mode(3.0, {"gpu": 1}), Mode(2.0, {"gpu": 2, "eur": 5})), (), "q"),
                Activity("join", (Mode(1.5),), ("scan",), "q"),
            ),
            (Resource("gpu", 4), Resource("eur", 9, False)),
            (ProjectJob("q", 1.0, 2.0, 30.0),),
        )
    ],
    "rank_mapping": [MAPPING],
    "permutation": [np.array([1, 0, 2])],
    "checkpoint_problem": [CheckpointProblem("run", (Phase(60.0, 5.0, 2.5), Phase(30.0)), 3600.0)],
    "pipeline_problem": [
        PipelineProblem(
            "row",
            (Layer(1.0, 2.0, 9, 3, 0.5),) * 4,
            (Device(0.5, 80, 25.0), Device()),
            4,
            "interleaved",
            2,
        )
    ],
    "colocation_problem": [ColocationProblem(("a", "b"), SPEEDS, 1, weights=(1.0, 2.0))],
    "quadratic_assignment": [
        QuadraticAssignment("pair", np.array([[0, 2], [0, 0]]), np.array([[0, 3], [5, 0]]))
    ],
    "rank_mapping_problem": [
        RankMappingProblem(TREE, Parallelism(data=2, data_bytes=1e9), "ring"),
        RankMappingProblem(TREE.graph(), Parallelism(tensor=4, tensor_bytes=1.0)),
    ],
    "planning": [FORECAST],
    "plan": [PLAN],
    "operation": [generate_operation(num_nodes=2, num_jobs=2, kind="own", stops=True)],
    "operation_plan": [OPERATION_PLAN],
    "operation_report": [
        OperationReport(Result(OPERATION_PLAN, CERTIFICATE), OperationCosts(1.0, 2.0, 0.5, 3.5))
    ],
    "inference_problem": [a_problem(1.0, failures=1)],
    "inference_report": [
        InferenceReport(
            Result(INFERENCE_PLAN, CERTIFICATE),
            (GoalCheck("p", "m", "o", 2, 8, 1.5, "chat", "ttft", 0.5, 0.05, 0.01, 0.02, 50),),
            2,
            True,
        )
    ],
    "quota_problem": [a_quota_problem([QuotaTenant("a")], [[2]], 4)],
    "quota_report": [
        QuotaReport(
            Result(None, CERTIFICATE, stages=(CERTIFICATE,), conflict="too little"),
            (TenantOutlook("a", "in", 0.5, 0.75, 1.5),),
        )
    ],
}
VALUES: tuple[Any, ...] = (None, True, "x", 3, -1, 2.5, 10**30, [], {}, [3], {"a": 1})
"""What a program or a person may write where something else belongs."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the members of a JSON value are; of a list only the first two."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(min(len(value), 2))
        for key in keys:
            yield (*path, key)
            yield from places(value[key], (*path, key))


def mutants(raw: Any) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield documents with one member replaced, dropped, misspelled or put in quotes."""
    for path in places(raw):
        *above, last = path
        for name, change in (
            *((f"= {value}", lambda o, k, value=value: o.update({k: value})) for value in VALUES),
            ("dropped", lambda o, k: o.pop(k)),
            ("misspelled", lambda o, k: o.update({f"{k}x": o.pop(k)})),
            ("quoted", lambda o, k: o.update({k: json.dumps(o[k])})),
        ):
            changed = copy.deepcopy(raw)
            holder = changed
            for step in above:
                holder = holder[step]
            if isinstance(holder, dict):
                change(holder, last)
                yield path, name, changed
