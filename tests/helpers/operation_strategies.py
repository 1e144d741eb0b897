"""Random decisions in operation: ``from operation_strategies import operation_problems``."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from alloc.problems.operation.problem import (
    EarlyStop,
    NodePool,
    NodeType,
    OperationJob,
    OperationProblem,
    RunningJob,
)


@st.composite
def operation_problems(draw: Any, *, most_jobs: int = 3, most_gpus: int = 2) -> OperationProblem:
    """Random decisions of up to three jobs on up to two nodes, with all that a problem can have."""
    types = []
    for k in range(draw(st.integers(1, 2))):
        gpus = draw(st.integers(max(1, most_gpus - k), most_gpus))
        table = sorted(draw(st.lists(st.integers(0, 20), min_size=gpus, max_size=gpus)))
        power = sorted(draw(st.lists(st.integers(1, 900), min_size=gpus, max_size=gpus)))
        types.append(NodeType(f"t{k}", gpus, tuple(map(float, table)), tuple(map(float, power))))
    names = [t.name for t in types]
    pools = [
        NodePool(f"p{k}", 1, tuple(draw(st.lists(st.sampled_from(names), min_size=1, unique=True))))
        for k in range(draw(st.integers(1, 2)))
    ]
    offered = sorted({name for pool in pools for name in pool.types})
    gpus_of = {t.name: t.num_gpus for t in types}
    now = float(draw(st.integers(0, 2)) * 1800)
    jobs, running = [], []
    for k in range(draw(st.integers(1, most_jobs))):
        must = draw(st.sampled_from(offered))
        duration = {}
        whole = st.integers(1, 20)
        for name in sorted({must, *draw(st.lists(st.sampled_from(names), max_size=2))}):
            length = gpus_of[name]
            times = draw(st.lists(whole | whole | st.none(), min_size=length, max_size=length))
            if name == must and times.count(None) == len(times):
                times[0] = 7
            duration[name] = tuple(None if t is None else t * 600.0 for t in times)
        stops: tuple[EarlyStop, ...] = ()
        if draw(st.booleans()):
            stops = (EarlyStop(0.5, draw(st.sampled_from((0.25, 0.5, 1.0)))),)
        job = OperationJob(
            f"j{k}",
            duration,
            due_date_s=draw(st.integers(1, 12)) * 600.0,
            tardiness_cost_per_h=float(draw(st.integers(0, 9)) * 10),
            restart_s=draw(st.sampled_from((0.0, 0.0, 600.0))),
            stops=stops,
        )
        jobs.append(job)
        pool = draw(st.sampled_from(pools))
        if draw(st.booleans()) and k == 0:
            kind = draw(st.sampled_from(pool.types))
            running.append(RunningJob(job.id, pool.nodes[0], kind, gpus_of[kind]))
    capped = draw(st.integers(0, 3)) == 3
    return OperationProblem(
        "random",
        tuple(types),
        tuple(pools),
        tuple(jobs),
        now_s=now,
        replan_s=draw(st.sampled_from((3600.0, 0.0))),
        postponement_factor=float(draw(st.sampled_from((10, 10, 1, 0)))),
        energy_price_per_kwh=draw(st.sampled_from((0.0, 0.5, 2.0))),
        power_cap_w=float(draw(st.integers(300, 1800))) if capped else None,
        running=tuple(running),
        accounting=draw(st.sampled_from(("first-completion", "whole-job"))),
    )
