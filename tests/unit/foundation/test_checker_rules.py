"""The checker, rule by rule: a case by hand where it binds, and one where it just does not."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from work_counts import counted

from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import (
    Allocation,
    Assignment,
    Run,
    Schedule,
    Solution,
    TaskPlacement,
)
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification import Violation, verify
from alloc.workload import Configuration, InterferenceTable, Job, TaskGroup

# Three hosts: two in one leaf of pod-0, one in no leaf; 2 GPUs, 8 cores, 1 GiB each.
BOX = HostType("box", 2, "v100", 8000, 1024, resources={"nvme_gib": 10})
OLD = HostType("old", 2, "k80", 8000, 1024)
CLUSTER = Topology(
    "three",
    (BOX, OLD),
    (Host("h0", "box", "leaf-0"), Host("h1", "box", "leaf-0"), Host("h2", "old")),
    ("leaf",),
    (Domain("leaf-0", "leaf"),),
    resources={"licence": 3},
)


def tasks(
    count: int = 1, gpu: int = 1000, cpu: int = 0, memory: int = 0, role: str = "worker"
) -> TaskGroup:
    """Return a task group in short."""
    return TaskGroup(role, count, gpu, cpu, memory)


def asking(count: int, **resources: int) -> Configuration:
    """Return a configuration of one-GPU tasks that ask for named resources."""
    return Configuration((TaskGroup("worker", count, 1000, resources=resources),), float(count))


ONE = Configuration((tasks(),), 1.0)
TWO = Configuration((tasks(2),), 2.0)
SHARE = Configuration((tasks(gpu=600),), 1.0)
HALVES = Configuration((tasks(2, gpu=500),), 1.0)
H0 = (TaskPlacement("h0", "worker", 1),)


def job(job_id: str = "a", **fields: Any) -> Job:
    """Return a job of 10 work units that runs on one GPU at rate 1, or two at rate 2."""
    return Job(job_id, **{"arrival_s": 0.0, "work": 10.0, "configurations": (ONE, TWO), **fields})


def on(host: str, count: int = 1, gpus: tuple[int, ...] = (), role: str = "worker") -> Any:
    """Return tasks on one host."""
    return (TaskPlacement(host, role, count, gpus),)


def run(
    start: float = 0.0,
    end: float = 10.0,
    where: Sequence[TaskPlacement] = H0,
    job_id: str = "a",
    configuration: int = 0,
) -> Run:
    """Return a run of job a on one GPU of host h0, for as long as its work takes."""
    return Run(job_id, configuration, start, end, tuple(where))


@dataclass(frozen=True)
class Case:
    """Jobs and a solution, with the codes that the checker must find, each once."""

    jobs: tuple[Job, ...]
    solution: Solution
    codes: tuple[str, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict)


def plan(jobs: Job | tuple[Job, ...], *runs: Run, codes: Any = (), **fields: Any) -> Case:
    """Return a case with a schedule."""
    jobs = jobs if isinstance(jobs, tuple) else (jobs,)
    return Case(jobs, Schedule(runs), (codes,) if isinstance(codes, str) else codes, fields)


def now(jobs: Job | tuple[Job, ...], *where: Assignment, codes: Any = (), **fields: Any) -> Case:
    """Return a case with an allocation."""
    jobs = jobs if isinstance(jobs, tuple) else (jobs,)
    return Case(jobs, Allocation(where), (codes,) if isinstance(codes, str) else codes, fields)


def licensed(a: int, b: int) -> tuple[Job, ...]:
    """Return two jobs of one task that ask for licences."""
    amounts = {"a": a, "b": b}
    return tuple(job(k, configurations=(asking(1, licence=n),)) for k, n in amounts.items())


def both(*models: str) -> tuple[Job, ...]:
    """Return jobs a and b of two models, each on half a GPU."""
    half = (Configuration((tasks(gpu=500),), 1.0),)
    return tuple(job(k, configurations=half, model=m) for k, m in zip("ab", models, strict=True))


def beside(start: float, end: float, job_id: str = "a") -> Run:
    """Return a run on half of the first GPU."""
    return run(start, end, on("h0", 1, (0,)), job_id)


_TABLE = InterferenceTable("v100", ("x", "y"), np.ones(2), np.array([[0.5, 0.0], [0.0, 0.5]]))
SLOWED = {"slot_s": 5.0, "interference": (_TABLE,)}
A, B = job(), job("b")
MAY_REFUSE = job(refusable=True, deadline_s=15.0)
RED = {"tenants": (Tenant("red", 1000),)}
PAUSED = (run(0, 4), run(5, 11))
RUNNING = {"running": (Assignment("a", 0, H0),)}
GONE_ON = job(restart_cost_s=2.0)

CASES = {
    # Placement
    "a job of the instance": now(A, Assignment("a", 0, H0)),
    "a job of another instance": now(A, Assignment("z", 0, H0), codes="unknown_job"),
    "a run of another instance's job": plan(
        A, run(), run(job_id="z"), codes="unknown_job"
    ),
    "the last configuration": now(A, Assignment("a", 1, on("h0", 2))),
    "one past the last": now(A, Assignment("a", 2, on("h0", 2)), codes="unknown_configuration"),
    "counted from the end": now(A, Assignment("a", -1, on("h0", 2)), codes="unknown_configuration"),
    "an unknown host": now(A, Assignment("a", 0, on("h9")), codes="unknown_host"),
    "a gang over two hosts": now(A, Assignment("a", 1, on("h0") + on("h1"))),
    "a task missing": now(A, Assignment("a", 1, on("h0")), codes="gang"),
    "no task at all": now(A, Assignment("a", 0), codes="gang"),
    "a task too many": now(A, Assignment("a", 0, on("h0", 2)), codes="gang"),
    "a role it does not have": now(A, Assignment("a", 0, H0 + on("h0", role="ps")), codes="gang"),
    "minus one and two": now(A, Assignment("a", 0, on("h0", 2) + on("h1", -1)), codes="gang"),
    "an absurd count": now(
        A, Assignment("a", 0, on("h0", 10**30)), codes=("gang", "host_capacity")
    ),
    "the right GPU type": now(
        job(configurations=(Configuration((tasks(),), 1.0, "k80"),)), Assignment("a", 0, on("h2"))
    ),
    "the wrong GPU type": now(
        job(configurations=(Configuration((tasks(),), 1.0, "k80"),)),
        Assignment("a", 0, H0),
        codes="gpu_type",
    ),
    "one host": now(
        job(configurations=(Configuration((tasks(2),), 1.0, within="host"),)),
        Assignment("a", 0, on("h0", 2)),
    ),
    "two hosts for one": now(
        job(configurations=(Configuration((tasks(2),), 1.0, within="host"),)),
        Assignment("a", 0, on("h0") + on("h1")),
        codes="level",
    ),
    "one leaf": now(
        job(configurations=(Configuration((tasks(2),), 1.0, within="leaf"),)),
        Assignment("a", 0, on("h0") + on("h1")),
    ),
    "half outside the leaf": now(
        job(configurations=(Configuration((tasks(2),), 1.0, within="leaf"),)),
        Assignment("a", 0, on("h0") + on("h2")),
        codes="level",
    ),
    "outside any leaf": now(
        job(configurations=(Configuration((tasks(2),), 1.0, within="leaf"),)),
        Assignment("a", 0, on("h2", 2)),
        codes="level",
    ),
    "allocated twice": now(A, Assignment("a", 0, H0), Assignment("a", 0, on("h1")), codes="twice"),
    "allocated once each": now((A, B), Assignment("a", 0, H0), Assignment("b", 0, on("h1"))),
    # Shared GPUs
    "a share with its position": now(
        job(configurations=(SHARE,)), Assignment("a", 0, on("h0", 1, (1,)))
    ),
    "a share without position": now(
        job(configurations=(SHARE,)), Assignment("a", 0, H0), codes="gpu_position"
    ),
    "a share on the third GPU of two": now(
        job(configurations=(SHARE,)), Assignment("a", 0, on("h0", 1, (2,))),
        codes="gpu_position",
    ),
    "two halves on one GPU": now(
        job(configurations=(HALVES,)), Assignment("a", 0, on("h0", 2, (0, 0)))
    ),
    "six tenths twice on one GPU": now(
        (job(configurations=(SHARE,)), job("b", configurations=(SHARE,))),
        Assignment("a", 0, on("h0", 1, (0,))), Assignment("b", 0, on("h0", 1, (0,))),
        codes="gpu_capacity",
    ),
    "six tenths twice on two GPUs": now(
        (job(configurations=(SHARE,)), job("b", configurations=(SHARE,))),
        Assignment("a", 0, on("h0", 1, (0,))), Assignment("b", 0, on("h0", 1, (1,))),
    ),
    "a whole GPU beside a share": now(
        (job(configurations=(SHARE,)), B),
        Assignment("a", 0, on("h0", 1, (0,))), Assignment("b", 0, H0),
    ),
    # 1,800 of 2,000 milli-GPU in sum, but no whole GPU is left beside shares on both.
    "a whole GPU beside shares on both": now(
        (job(configurations=(Configuration((tasks(2, gpu=400),), 1.0),)), B),
        Assignment("a", 0, on("h0", 2, (0, 1))), Assignment("b", 0, H0),
        codes="gpu_capacity",
    ),
    # Capacity
    "full GPUs": now((A, B), Assignment("a", 0, H0), Assignment("b", 0, H0)),
    "a GPU too few": now(
        (A, B), Assignment("a", 1, on("h0", 2)), Assignment("b", 0, H0), codes="host_capacity"
    ),
    "all cores": now(
        job(configurations=(Configuration((tasks(2, cpu=4000),), 1.0),)),
        Assignment("a", 0, on("h0", 2)),
    ),
    "a core too few": now(
        job(configurations=(Configuration((tasks(2, cpu=4010),), 1.0),)),
        Assignment("a", 0, on("h0", 2)),
        codes="host_capacity",
    ),
    "all memory": now(
        job(configurations=(Configuration((tasks(2, memory=512),), 1.0),)),
        Assignment("a", 0, on("h0", 2)),
    ),
    "a MiB too few": now(
        job(configurations=(Configuration((tasks(2, memory=513),), 1.0),)),
        Assignment("a", 0, on("h0", 2)),
        codes="host_capacity",
    ),
    "all of a disk": now(
        job(configurations=(asking(2, nvme_gib=5),)), Assignment("a", 0, on("h0", 2))
    ),
    "a disk too small": now(
        job(configurations=(asking(2, nvme_gib=6),)),
        Assignment("a", 0, on("h0", 2)),
        codes="host_capacity",
    ),
    "all licences, on any hosts": now(
        licensed(2, 1),
        Assignment("a", 0, H0), Assignment("b", 0, on("h2")),
    ),
    "a licence too few": now(
        licensed(2, 2),
        Assignment("a", 0, H0), Assignment("b", 0, on("h2")),
        codes="cluster_capacity",
    ),
    "a licence after another": plan(
        licensed(3, 1),
        run(0, 10), run(10, 20, on("h1"), "b"),
    ),
    "a licence before it is given back": plan(
        licensed(3, 1),
        run(0, 10), run(9, 19, on("h1"), "b"),
        codes="cluster_capacity",
    ),
    "one after the other": plan(
        (job(configurations=(TWO,)), job("b", configurations=(TWO,))),
        run(0, 5, on("h0", 2)), run(5, 10, on("h0", 2), "b"),
    ),
    "together for a moment": plan(
        (job(configurations=(TWO,)), job("b", configurations=(TWO,))),
        run(0, 5, on("h0", 2)), run(4.5, 10, on("h0", 2), "b"),
        codes="host_capacity",
    ),
    "shares one after the other": plan(
        (job(configurations=(SHARE,)), job("b", configurations=(SHARE,))),
        run(0, 10, on("h0", 1, (0,))), run(10, 20, on("h0", 1, (0,)), "b"),
    ),
    "a share after a whole GPU": plan(
        (job(configurations=(TWO,)), job("b", configurations=(SHARE,))),
        run(0, 5, on("h0", 2)), run(5, 15, on("h0", 1, (0,)), "b"),
    ),
    "a share before a whole GPU is free": plan(
        (job(configurations=(TWO,)), job("b", configurations=(SHARE,))),
        run(0, 5, on("h0", 2)), run(4, 14, on("h0", 1, (0,)), "b"),
        codes=("gpu_capacity", "host_capacity"),
    ),
    # Quotas
    "at the quota": now(job(tenant="red"), Assignment("a", 0, H0), **RED),
    "over the quota": now(job(tenant="red"), Assignment("a", 1, on("h0", 2)), codes="quota", **RED),
    "over it together": now(
        (job(tenant="red"), job("b", tenant="red")),
        Assignment("a", 0, H0), Assignment("b", 0, on("h1")),
        codes="quota", **RED,
    ),
    "another tenant": now(
        (job(tenant="red"), job("b", tenant="blue")),
        Assignment("a", 0, H0), Assignment("b", 1, on("h1", 2)),
        **RED,
    ),
    "the quota in turns": plan(
        (job(tenant="red"), job("b", tenant="red")),
        run(), run(10, 20, on("h1"), "b"),
        **RED,
    ),
    # Time
    "at its arrival": plan(job(arrival_s=3.0), run(3, 13)),
    "before its arrival": plan(job(arrival_s=3.0), run(2, 13), codes="before_arrival"),
    "a run of no length": plan(A, run(), run(10, 10), codes="empty_run"),
    "a run backwards": plan(A, run(), run(12, 11), codes="empty_run"),
    "a run that never ends": plan(A, run(0, math.inf), codes="not_finite"),
    "a run that never ends, in slots": plan(A, run(0, math.inf), codes="not_finite", slot_s=5.0),
    "a run at no time": plan(A, run(math.nan, 10), codes=("not_finite", "incomplete")),
    "back to back": plan(A, run(0, 4), run(4, 10)),
    "twice at once": plan(A, run(0, 6), run(5, 10), codes="overlap"),
    "on the slot": plan(A, run(0, 15), slot_s=5.0),
    "off the slot": plan(A, run(0, 12), codes="off_slot", slot_s=5.0),
    "on a slot that is no round number": plan(
        job(work=0.3), run(0.1 * 3, 0.1 * 7), slot_s=0.1
    ),
    "all work done": plan(A, run(0, 10)),
    "a second too short": plan(A, run(0, 9), codes="incomplete"),
    "never run": plan(A, codes="incomplete"),
    "never run, with the reason": Case((A,), Schedule((), {"a": "no room"}), ("incomplete",)),
    "refused": Case((MAY_REFUSE,), Schedule((), {"a": "no room"})),
    "refused without a reason": plan(MAY_REFUSE, codes="incomplete"),
    "refused and begun": Case(
        (MAY_REFUSE,), Schedule((run(0, 5),), {"a": "no room"}), ("incomplete",)
    ),
    "accepted and late": plan(MAY_REFUSE, run(8, 18), codes="deadline"),
    "by the deadline": plan(job(deadline_s=10.0), run()),
    "after the deadline": plan(job(deadline_s=9.5), run(), codes="deadline"),
    "held beyond the deadline": plan(job(deadline_s=10.0), run(0, 15)),
    "by the horizon": plan(A, run(), horizon_s=10.0),
    "after the horizon": plan(A, run(1, 11), codes="horizon", horizon_s=10.0),
    "after the due date": plan(job(due_date_s=1.0), run()),
    # Elasticity
    "malleable": plan(A, run(0, 4), run(4, 7, on("h0", 2), configuration=1)),
    "moldable, one configuration": plan(job(elasticity="moldable"), *PAUSED),
    "moldable, two configurations": plan(
        job(elasticity="moldable"), run(0, 4), run(4, 7, on("h0", 2), configuration=1),
        codes="elasticity",
    ),
    "moldable, another one before the start": plan(
        job(elasticity="moldable"), run(0, 5, on("h0", 2), configuration=1),
        codes="elasticity", **RUNNING,
    ),
    "rigid": plan(job(elasticity="rigid", configurations=(ONE,)), *PAUSED),
    # Preemption
    "paused": plan(A, *PAUSED),
    "paused against its will": plan(job(preemptible=False), *PAUSED, codes="preempted"),
    "not paused": plan(job(preemptible=False), run(0, 4), run(4, 10)),
    "not paused twice": plan(job(preemptible=False), run(0, 3), run(3, 6), run(6, 10)),
    "late start": plan(job(preemptible=False), run(3, 13)),
    "late start of what runs": plan(
        job(preemptible=False), run(3, 13), codes="preempted", **RUNNING
    ),
    "what runs goes on": plan(job(preemptible=False), run(), **RUNNING),
    # Restarts: 10 units of work take 12 s when one restart costs 2 s.
    "first start is free": plan(GONE_ON, run()),
    "going on is free": plan(GONE_ON, run(0, 4), run(4, 10)),
    "a pause costs": plan(GONE_ON, run(0, 4), run(5, 11), codes="incomplete"),
    "a pause is paid": plan(GONE_ON, run(0, 4), run(5, 13)),
    "a move costs": plan(GONE_ON, run(0, 4), run(4, 10, on("h1")), codes="incomplete"),
    "a move is paid": plan(GONE_ON, run(0, 4), run(4, 12, on("h1"))),
    "what ran elsewhere costs": plan(GONE_ON, run(0, 10, on("h1")), codes="incomplete", **RUNNING),
    "what ran here is free": plan(GONE_ON, run(), **RUNNING),
    # Interference: at half the speed beside one's own model; x and y cannot share.
    "half as fast": plan(both("x", "x"), beside(0, 20), beside(0, 20, "b"), **SLOWED),
    "half as fast, and too short": plan(
        both("x", "x"), beside(0, 15), beside(0, 15, "b"), codes="incomplete", **SLOWED
    ),
    "models apart": plan(both("x", "y"), beside(0, 10), beside(10, 20, "b"), **SLOWED),
    "models that cannot share": plan(
        both("x", "y"), beside(0, 20), beside(0, 5, "b"), beside(20, 30, "b"),
        codes="interference", **SLOWED,
    ),
}  # fmt: skip


def check(case: Case) -> list[Violation]:
    """Return what the checker finds."""
    return verify(Instance("case", CLUSTER, case.jobs, **case.fields), case.solution)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rule(case: Case) -> None:
    """A checker that is too strict loses optima, one that is too lax certifies nonsense."""
    found = check(case)
    assert sorted({violation.code for violation in found}) == sorted(case.codes)
    for violation in found:
        assert violation.amount > 0 or violation.code == "empty_run" or math.isnan(violation.amount)
        assert str(violation) == violation.sentence


def test_every_rule_binds_somewhere() -> None:
    """A code that no case above reaches is a rule without a test."""
    import re
    from pathlib import Path

    import alloc.verification

    folder = Path(alloc.verification.__file__).parent
    source = "".join(
        (folder / name).read_text()
        for name in ("__init__.py", "capacity.py", "placement.py", "quotas.py", "time.py")
    )
    codes = set(re.findall(r'Violation\(\s*"(\w+)"', source)) | {"deadline", "horizon"}
    codes -= {"cohort"}  # tests/unit/verification/test_placement_rules.py
    assert codes == {code for case in CASES.values() for code in case.codes}


AMOUNTS = {
    "a task missing": (1, "tasks", ("a",), "runs 2 worker, but 1 worker tasks are placed instead"),
    "a GPU too few": (1000, "milli-GPU", ("h0", "gpu_milli"), "over its gpu_milli by 1000"),
    "a core too few": (20, "milli-cores", ("h0", "cpu_milli"), "at 0 s: 8020 used of 8000"),
    "a MiB too few": (2, "MiB", ("h0", "memory_mib"), "by 2 MiB"),
    "together for a moment": (2000, "milli-GPU", ("h0", "gpu_milli"), "at 4.5 s: 4000 used"),
    "six tenths twice on one GPU": (200, "milli-GPU", ("h0", "gpu0"), "shared to 1200 milli-GPU"),
    "a whole GPU beside shares on both": (1, "GPU", ("h0",), "1 whole and 2 shared GPUs at 0 s"),
    "over the quota": (1000, "milli-GPU", ("red",), 'tenant "red" holds 2 GPUs at 0 s, 1 over'),
    "before its arrival": (1, "s", ("a",), "runs from 2 s but arrives at 3 s"),
    "off the slot": (2, "s", ("a",), "at 12 s, which is not a multiple of the slot 5 s"),
    "a second too short": (1, "work units", ("a",), "has 1 of 10 work units left after its last"),
    "after the deadline": (0.5, "s", ("a",), "completes at 10 s, 0.5 s after its deadline_s 9.5"),
    "after the horizon": (1, "s", ("a",), "completes at 11 s, 1 s after its horizon_s 10"),
    "twice at once": (1, "s", ("a",), "runs twice at 5 s"),
    "paused against its will": (1, "s", ("a",), "not preemptible but pauses from 4 s to 5 s"),
    "moldable, two configurations": (1, "configurations", ("a",), "is moldable but uses 2"),
    "a job of another instance": (1, "job", ("z",), "is the solution for another one?"),
    "one past the last": (1, "configuration", ("a",), "configuration 2 is not one of its 2"),
    "an unknown host": (1, "host", ("a", "h9"), 'on host "h9", which is not in the topology'),
    "the wrong GPU type": (1, "tasks", ("a", "h0"), 'needs GPU type "k80", but host "h0" has v100'),
    "two hosts for one": (2, "domains", ("a",), "must lie in one host, but its tasks span 2"),
    "a share without position": (1, "tasks", ("a", "h0"), "must name one of the host's 2 GPUs"),
    "allocated twice": (1, "job", ("a",), 'job "a" is allocated twice'),
    "a run of no length": (0, "s", ("a",), "a run from 10 s to 10 s"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), AMOUNTS.items(), ids=AMOUNTS)
def test_amount_and_sentence(name: str, expected: tuple[float, str, tuple[str, ...], str]) -> None:
    """People fix a schedule by the amounts and names that the checker gives."""
    amount, unit, ids, words = expected
    (violation,) = check(CASES[name])
    assert violation.amount == pytest.approx(amount)
    assert violation.unit == unit
    assert violation.ids == ids
    assert words in violation.sentence


def test_a_solution_for_another_instance_is_not_searched_for_near_names(monkeypatch) -> None:
    """Looking for near names for each of thousands of unknown jobs took minutes."""
    looked = counted(monkeypatch, difflib, "get_close_matches")
    jobs = tuple(job(f"job-{k}") for k in range(3000))
    assignments = tuple(Assignment(f"other-{k}", 0, on("elsewhere")) for k in range(3000))
    found = verify(Instance("big", CLUSTER, jobs), Allocation(assignments))
    assert len(looked) < 10
    assert len(found) == 3000
