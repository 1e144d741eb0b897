"""The checker of inference plans: hosts, memory, batches, rates, latencies, losses, from scratch.

No solver: latencies in closed form (`alloc.problems.inference_sizing.serving`) and integer
arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from alloc.errors import InstanceError
from alloc.objectives import Measure, Value
from alloc.problems.inference_sizing.plan import InferencePlan, ReplicaGroup, plan_cost
from alloc.problems.inference_sizing.problem import InferenceProblem
from alloc.problems.inference_sizing.rates import (
    caps_that_fit,
    group_rate,
    load_of,
    loss_cases,
)
from alloc.problems.inference_sizing.served import ServedModel, option_label
from alloc.problems.inference_sizing.serving import latencies
from alloc.verification.violation import Violation

RATE_TOLERANCE = 5e-6
"""Relative: solvers keep rows to 1e-6."""


def objective(name: str) -> Measure:
    """Return the objective of a plan: its cost over all periods."""
    return Value(name, "min", plan_cost)


def verify_inference(problem: InferenceProblem, plan: InferencePlan) -> list[Violation]:
    """Return what is wrong with a plan; empty when it keeps every rule.

    Parameters
    ----------
    problem
        The models, their requests, and the pools of hosts.
    plan
        Replicas of each model in every period, and the hosts they are on.

    Raises
    ------
    InstanceError
        If it names models, pools, periods or options that the problem does not have.
    """
    _require_known(problem, plan)
    return [
        *_groups(problem, plan),
        *_rates(problem, plan),
        *_contents(problem, plan),
        *_hosts(problem, plan),
    ]


def _require_known(problem: InferenceProblem, plan: InferencePlan) -> None:
    periods = {period.name for period in problem.periods}
    for group in plan.groups:
        problem.model(group.model).option(group.key)
    for contents in plan.contents:
        problem.pool(contents.pool)
    for name, _ in plan.held:
        problem.pool(name)
    for period in (*(g.period for g in plan.groups), *(c.period for c in plan.contents)):
        if period not in periods:
            raise InstanceError(
                f'plan: names period "{period}", which the problem does not have; give the plan '
                "of this problem."
            )


def _groups(problem: InferenceProblem, plan: InferencePlan) -> Iterator[Violation]:
    """Yield groups that cannot run as they are, or miss a goal at their rate."""
    index = {period.name: t for t, period in enumerate(problem.periods)}
    for group in plan.groups:
        model = problem.model(group.model)
        option = model.option(group.key)
        where = _where(group)
        ids = (group.model, group.period)
        if group.replicas < 1 or group.rate_per_s < 0:
            yield Violation(
                "replicas", ids, group.replicas, "replicas", f"{where}: has {group.replicas}."
            )
            continue
        t = index[group.period]
        if group.batch_cap not in option.batches:
            yield Violation(
                "batch_cap",
                ids,
                group.batch_cap,
                "requests",
                f"{where}: batch cap {group.batch_cap} is none of {option.batches}.",
            )
            continue
        if group.batch_cap not in caps_that_fit(problem, model, t, option):
            yield Violation(
                "gpu_memory",
                ids,
                group.batch_cap,
                "requests",
                f"{where}: weights and a batch of {group.batch_cap} do not fit its GPUs.",
            )
        factor = problem.factors.get((model.name, group.period, option.key), 1.0)
        rate = group.rate_per_s / factor * (1 - RATE_TOLERANCE)
        load = load_of(model, t, option, group.batch_cap)
        if rate > 0 and not (state := latencies(load, group.replicas, rate)).meets_goals():
            if not state.is_stable:
                sentence = f"{where}: does not keep up with {group.rate_per_s:g} requests/s."
                yield Violation("rate", ids, group.rate_per_s, "requests/s", sentence)
            for kind, goal, missed, allowed in state.goals():
                if state.is_stable and missed > allowed:
                    yield Violation(
                        goal,
                        (*ids, kind.name),
                        missed - allowed,
                        "share of requests",
                        f'{where}: {100 * missed:.3g} % of class "{kind.name}" miss their goal '
                        f"for {goal}, and {100 * allowed:.3g} % may.",
                    )


def _rates(problem: InferenceProblem, plan: InferencePlan) -> Iterator[Violation]:
    """Yield models whose requests are not all routed, or not served after a loss."""
    for model in problem.models:
        losses = loss_cases(problem, model)
        for t, period in enumerate(problem.periods):
            groups = [g for g in plan.groups if (g.model, g.period) == (model.name, period.name)]
            demand = model.rate_per_s(t)
            where = f'model "{model.name}" in period "{period.name}"'
            ids = (model.name, period.name)
            twice = [key for key, count in Counter(g.key for g in groups).items() if count > 1]
            if twice:
                yield Violation(
                    "one_group",
                    ids,
                    len(twice),
                    "options",
                    f"{where}: has two groups of {option_label(twice[0])}; join them.",
                )
            routed = sum(group.rate_per_s for group in groups)
            if abs(routed - demand) > RATE_TOLERANCE * max(demand, 1e-9):
                yield Violation(
                    "routing",
                    ids,
                    demand - routed,
                    "requests/s",
                    f"{where}: {routed:g} of {demand:g} requests/s are routed.",
                )
            for loss in losses if any(map(any, losses)) else []:
                left = _after(problem, model, t, groups, loss)
                if left < demand * (1 - RATE_TOLERANCE):
                    yield Violation(
                        "availability",
                        ids,
                        demand - left,
                        "requests/s",
                        f"{where}: after losing {_lost(model, loss)} it keeps its goals up to "
                        f"{left:g} of {demand:g} requests/s.",
                    )


def _after(
    problem: InferenceProblem,
    model: ServedModel,
    t: int,
    groups: list[ReplicaGroup],
    loss: tuple[int, ...],
) -> float:
    lost = {option.key: n for option, n in zip(model.options, loss, strict=True)}
    return sum(
        group_rate(
            problem,
            model,
            t,
            model.option(group.key),
            group.batch_cap,
            group.replicas - lost[group.key],
        )
        for group in groups
    )


def _lost(model: ServedModel, loss: tuple[int, ...]) -> str:
    return ", ".join(
        f"{n} x {option.label}" for option, n in zip(model.options, loss, strict=True) if n
    )


def _contents(problem: InferenceProblem, plan: InferencePlan) -> Iterator[Violation]:
    """Yield replicas that stand nowhere, or that nobody asked for."""
    wanted: Counter[tuple[str, str, int]] = Counter()
    for group in plan.groups:
        wanted[group.period, group.gpu_type, group.gpus] += group.replicas
    standing: Counter[tuple[str, str, int]] = Counter()
    for contents in plan.contents:
        gpu_type = problem.pool(contents.pool).gpu_type
        for size in contents.replica_gpus:
            standing[contents.period, gpu_type, size] += contents.hosts
    for key in sorted(wanted.keys() | standing.keys()):
        missing = wanted[key] - standing[key]
        if missing:
            period, gpu_type, size = key
            yield Violation(
                "replicas_stand",
                (gpu_type, period),
                missing,
                "replicas",
                f'period "{period}": {standing[key]} replicas of {size} {gpu_type} stand on hosts, '
                f"and {wanted[key]} are planned.",
            )


def _hosts(problem: InferenceProblem, plan: InferencePlan) -> Iterator[Violation]:
    """Yield hosts that are too full, too many, or not held."""
    held = dict(plan.held)
    for contents in plan.contents:
        pool = problem.pool(contents.pool)
        excess = sum(contents.replica_gpus) - pool.gpus_per_host
        if excess > 0:
            yield Violation(
                "host_gpus",
                (pool.name, contents.period),
                excess,
                "GPUs",
                f'pool "{pool.name}" in period "{contents.period}": replicas of '
                f"{contents.replica_gpus} GPUs stand on a host of {pool.gpus_per_host}.",
            )
    for pool in problem.pools:
        always = min(pool.hosts_in(t) for t in range(len(problem.periods)))
        if pool.billing == "held" and held.get(pool.name, 0) > always:
            yield Violation(
                "held",
                (pool.name,),
                held[pool.name] - always,
                "hosts",
                f'pool "{pool.name}": {held[pool.name]} hosts are held and {always} are to be had '
                "in every period.",
            )
        for t, period in enumerate(problem.periods):
            most = pool.hosts_in(t)
            what = "to be had"
            if pool.billing == "held" and held.get(pool.name, 0) < most:
                most, what = held.get(pool.name, 0), "held"
            used = plan.hosts_used(period.name, pool.name)
            if used > most:
                yield Violation(
                    "hosts",
                    (pool.name, period.name),
                    used - most,
                    "hosts",
                    f'pool "{pool.name}" in period "{period.name}": {used} hosts are used and '
                    f"{most} are {what}.",
                )


def _where(group: ReplicaGroup) -> str:
    return (
        f'model "{group.model}" in period "{group.period}", {group.replicas} x '
        f"{option_label(group.key)}"
    )
