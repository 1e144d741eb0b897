"""Why an inference problem has no plan, and the least changes of which each gives it one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alloc.problems.inference_sizing.plan import InferencePlan, plan_cost
from alloc.problems.inference_sizing.problem import GpuPool, InferenceProblem
from alloc.problems.inference_sizing.rates import caps_that_fit, load_of
from alloc.problems.inference_sizing.requests import LatencyGoal, RequestClass
from alloc.problems.inference_sizing.served import ServedModel
from alloc.problems.inference_sizing.serving import Latencies, Load, batch_memory_mib, latencies
from alloc.result import Repair
from alloc.solving.inference_sizing.pieces import solve_all
from alloc.solving.outcome import Settings
from alloc.units import format_number
from alloc.verification.inference_sizing import verify_inference

_IDLE = 1e-9
"""Share of its time that a replica which is all but idle is at work."""
_MARGINS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
"""By what the latencies of idle replicas are multiplied until replicas at work keep them."""
_MAX_HOSTS = 1 << 16
"""More hosts in one pool than a cluster has: where they do not do, hosts are not what is short."""
_ACCURACY = 0.01
"""To which part bisection finds a share or a factor: cures are stated to the percent."""
_MAX_LOOSENED = 64.0
"""Times the latency goals: a goal so far off is not loosened but given up, which is no cure."""


Missed = tuple[RequestClass, str, float]
"""A class that misses its goal for a measure, and the latency that it gets instead, seconds."""


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a problem.

    Parameters
    ----------
    conflict
        The requirements in conflict, in a sentence.
    repairs
        Changes of which each is enough, the least first.
    """

    conflict: str
    repairs: tuple[Repair, ...]


def diagnose(problem: InferenceProblem, settings: Settings) -> Diagnosis:
    """Explain an infeasible problem.

    Parameters
    ----------
    problem
        A problem without a plan.
    settings
        Limits for the solves that look for changes; what is not found in time is left out.
    """
    for model in problem.models:
        for t in range(len(problem.periods)):
            if model.rate_per_s(t) > 0:
                found = _memory(problem, model, t) or _goals(problem, model, t, settings)
                if found is not None:
                    return found
    return _shortage(problem, settings)


def _memory(problem: InferenceProblem, model: ServedModel, t: int) -> Diagnosis | None:
    if any(caps_that_fit(problem, model, t, option) for option in model.options):
        return None
    best, need, have = math.inf, 0.0, 0.0
    label = ""
    for option in model.options:
        wanted = batch_memory_mib(model, option.batches[0], model.mix(t))
        offered = option.gpus * problem.gpu_memory_mib(option.gpu_type)
        if wanted - offered < best:
            best, need, have, label = wanted - offered, wanted, float(offered), option.label
    sentence = (
        f'model "{model.name}": weights and the smallest batch need {need:.0f} MiB, and the GPUs '
        f"of {label} have {have:.0f} MiB, the nearest of its options"
    )
    return Diagnosis(
        sentence,
        (
            Repair(
                "memory",
                f"{model.name}, {label}",
                need - have,
                "MiB",
                f"offer replicas with {need:.0f} MiB or more: a higher degree of parallelism or "
                "GPUs of more memory",
                before=have,
                after=need,
            ),
        ),
    )


def _goals(
    problem: InferenceProblem, model: ServedModel, t: int, settings: Settings
) -> Diagnosis | None:
    """Explain goals that idle replicas miss already."""
    nearest_gap: float = math.inf
    best: tuple[str, list[Missed]] | None = None
    for option in model.options:
        for cap in caps_that_fit(problem, model, t, option):
            state = _idle(load_of(model, t, option, cap))
            if state.meets_goals():
                return None
            missed = [
                (kind, measure, _attained(_state_goal(kind, measure), kind, measure, model, t, cap,
                                          option.key))
                for kind, measure, share, allowed in state.goals()
                if share > allowed
            ]  # fmt: skip
            gap = max(
                seconds / _state_goal(kind, measure).seconds for kind, measure, seconds in missed
            )
            if gap < nearest_gap:
                nearest_gap, best = gap, (option.label, missed)
    assert best is not None  # _memory found a cap that fits
    label, missed = best
    margin = _margin(problem, model, missed, settings)
    more, least = (margin, "") if margin else (1.0, "at least ")
    parts = [
        f'class "{kind.name}" asks for {measure} within {goal.seconds:g} s at percentile '
        f"{goal.percentile:g} and gets {format_number(seconds, 4)} s"
        for kind, measure, seconds in missed
        for goal in [_state_goal(kind, measure)]
    ]
    allow = " and ".join(
        f'class "{kind.name}" {format_number(seconds * more, 4, up=True)} s for {measure}'
        for kind, measure, seconds in missed
    )
    only = missed[0] if len(missed) == 1 else None
    before = _state_goal(only[0], only[1]).seconds if only else 1.0
    allowed = before * nearest_gap * more
    repair = Repair(
        "goal",
        f"{model.name}, {only[0].name}, {only[1]}"
        if only
        else f"{model.name}, {len(missed)} goals",
        allowed - before,
        "s" if only else "times",
        f'allow, in model "{model.name}", {least}{allow}; or offer an option that is faster',
        before=before,
        after=allowed,
    )
    sentence = (
        f'model "{model.name}": no number of replicas keeps its goals; on idle replicas of '
        f"{label}, the nearest of its options, {' and '.join(parts)}"
    )
    return Diagnosis(sentence, (repair,))


def _margin(
    problem: InferenceProblem, model: ServedModel, missed: Sequence[Missed], settings: Settings
) -> float | None:
    """Return by what latencies of idle replicas are multiplied until a plan keeps them.

    None if no plan was found: something else is wrong as well, or the time was up.
    """
    for margin in _MARGINS:
        if settings.seconds_left() <= 0:
            break
        classes = {kind.name: kind for kind in model.classes}
        for other, measure, seconds in missed:
            goal = LatencyGoal(seconds * margin, _state_goal(other, measure).percentile)
            kind = classes[other.name]
            classes[kind.name] = (
                dataclasses.replace(kind, ttft=goal)
                if measure == "ttft"
                else dataclasses.replace(kind, tpot=goal)
            )
        slower = dataclasses.replace(model, classes=tuple(classes.values()))
        models = tuple(slower if one is model else one for one in problem.models)
        if _solvable(problem.replace(models=models), settings):
            return margin
    return None


def _idle(load: Load) -> Latencies:
    """Return how a replica does that is all but idle: what no number of replicas betters."""
    one = load.moments
    return latencies(load, 1, _IDLE / (one.prompt_s + one.step_s + one.work_s))


def _state_goal(kind: RequestClass, measure: str) -> LatencyGoal:
    """Return the goal of a class for a measure it has one for."""
    goal = kind.ttft if measure == "ttft" else kind.tpot
    assert goal is not None
    return goal


def _attained(
    goal: LatencyGoal,
    kind: RequestClass,
    measure: str,
    model: ServedModel,
    t: int,
    cap: int,
    key: tuple[str, int, int],
) -> float:
    """Return the latency that an idle replica attains at the percentile of a goal, seconds."""
    state = _idle(load_of(model, t, model.option(key), cap))
    misses = state.ttft_misses if measure == "ttft" else state.tpot_misses
    high = goal.seconds
    while misses(kind, LatencyGoal(high, goal.percentile)) > goal.allowed:
        high *= 2
    low = high / 2
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        if misses(kind, LatencyGoal(middle, goal.percentile)) > goal.allowed:
            low = middle
        else:
            high = middle
    return high


def _shortage(problem: InferenceProblem, settings: Settings) -> Diagnosis:
    """Explain a lack of GPUs: in which period, of which models, and what would be enough."""
    short = [t for t in range(len(problem.periods)) if not _solvable(_only(problem, [t]), settings)]
    if not short:
        return Diagnosis(
            "each period has a plan by itself, and no hosts held throughout serve all of them; "
            "offer more hosts, or pay by use",
            _repairs(problem, problem, settings),
        )
    worst = max(short, key=lambda t: sum(model.rate_per_s(t) for model in problem.models))
    period = problem.periods[worst]
    alone = [
        model.name
        for model in problem.models
        if model.rate_per_s(worst) > 0
        and not _solvable(_only(problem, [worst]).replace(models=(_kept(model, [worst]),),
                                                         tightened=()), settings)
    ]  # fmt: skip
    names = alone or [model.name for model in problem.models if model.rate_per_s(worst) > 0]
    quoted = " and ".join(f'"{name}"' for name in names)
    who = f"model {quoted}" if len(names) == 1 else f"models {quoted}"
    together = "" if alone else " together"
    hosts = ", ".join(f'{pool.hosts_in(worst)} in pool "{pool.name}"' for pool in problem.pools)
    rate = sum(m.rate_per_s(worst) for m in problem.models if m.name in names)
    others = f" (and {len(short) - 1} more periods)" if len(short) > 1 else ""
    repairs = _repairs(problem, _only(problem, short), settings)
    by = next((r for r in repairs if r.kind == "rate"), None)
    amount = "" if by is None else f", {_percent(_relative(by))} of them too many"
    return Diagnosis(
        f'period "{period.name}"{others}: the hosts ({hosts}) do not serve the '
        f"{format_number(rate)} requests/s of {who}{together} within their goals{amount}",
        repairs,
    )


def _repairs(
    whole: InferenceProblem, problem: InferenceProblem, settings: Settings
) -> tuple[Repair, ...]:
    """Return the least changes of each kind, the least of all first.

    Parameters
    ----------
    whole
        The problem.
    problem
        The problem in the periods that are short.
    settings
        Limits.
    """
    found = [_fewer_requests(whole, problem, settings), _looser_goals(whole, problem, settings)]
    found += [_more_hosts(whole, problem, pool, settings) for pool in whole.pools]
    found += [_fewer_failures(whole, problem, settings)]
    given = sorted((repair for repair in found if repair is not None), key=_relative)
    return tuple(dataclasses.replace(repair, option=number) for number, repair in enumerate(given))


def _relative(repair: Repair) -> float:
    """Return how large a change is in relation to what was there; where nothing was, to 1."""
    return repair.amount / (repair.before or 1.0)


def _fewer_requests(
    whole: InferenceProblem, problem: InferenceProblem, settings: Settings
) -> Repair | None:
    share = _largest(lambda x: _scaled(problem, x), settings)
    if share is None:
        return None
    names = {period.name for period in problem.periods}
    rate = max(sum(m.rate_per_s(t) for m in problem.models) for t in range(len(problem.periods)))
    cost = _cost(_scaled(whole, share, names), settings)
    return Repair(
        "rate",
        "all models",
        rate * (1 - share),
        "requests/s",
        f"turn away {_percent(1 - share)} of the requests of every model in the periods that are "
        "short",
        before=rate,
        after=rate * share,
        cost=cost,
    )


def _percent(share: float) -> str:
    """Return a share that is enough, in words."""
    return f"{format_number(100 * share, 3, up=True)} %"


def _looser_goals(
    whole: InferenceProblem, problem: InferenceProblem, settings: Settings
) -> Repair | None:
    if not any(c.ttft or c.tpot for m in problem.models for c in m.classes):
        return None
    if not _solvable(_loosened(problem, _MAX_LOOSENED), settings):
        return None
    low, high = 1.0, _MAX_LOOSENED
    while high / low > 1 + _ACCURACY and settings.seconds_left() > 0:
        middle = math.sqrt(low * high)
        if _solvable(_loosened(problem, middle), settings):
            high = middle
        else:
            low = middle
    return Repair(
        "goal",
        "all latency goals",
        high - 1,
        "times",
        f"allow every latency {format_number(high, 3, up=True)} times as long",
        before=1.0,
        after=high,
        cost=_cost(_loosened(whole, high), settings),
    )


def _more_hosts(
    whole: InferenceProblem, problem: InferenceProblem, pool: GpuPool, settings: Settings
) -> Repair | None:
    extra = 1
    while not _solvable(_with_hosts(problem, pool, extra), settings):
        extra *= 2
        if extra > _MAX_HOSTS or settings.seconds_left() <= 0:
            return None
    low, high = extra // 2, extra
    while high - low > 1 and settings.seconds_left() > 0:
        middle = (low + high) // 2
        if _solvable(_with_hosts(problem, pool, middle), settings):
            high = middle
        else:
            low = middle
    most = max(pool.hosts_in(t) for t in range(len(whole.periods)))
    return Repair(
        "hosts",
        pool.name,
        high,
        "hosts",
        f'{high} more host{"s" if high > 1 else ""} in pool "{pool.name}"',
        before=most,
        after=most + high,
        cost=_cost(_with_hosts(whole, pool, high), settings),
    )


def _fewer_failures(
    whole: InferenceProblem, problem: InferenceProblem, settings: Settings
) -> Repair | None:
    most = max(model.failures for model in problem.models)
    for fewer in range(most - 1, -1, -1):
        if _solvable(_surviving(problem, fewer), settings):
            return Repair(
                "failures",
                "all models",
                most - fewer,
                "failures",
                f"plan for {fewer} failures at once instead of {most}",
                before=most,
                after=fewer,
                cost=_cost(_surviving(whole, fewer), settings),
            )
    return None


def _largest(make: Callable[[float], InferenceProblem], settings: Settings) -> float | None:
    """Return the largest share at which a problem has a plan, to 1 %; None if at none."""
    low, high = 0.0, 1.0
    while high - low > _ACCURACY and settings.seconds_left() > 0:
        middle = (low + high) / 2
        if _solvable(make(middle), settings):
            low = middle
        else:
            high = middle
    return low or None


def _solvable(problem: InferenceProblem, settings: Settings) -> bool:
    """Return whether a plan is found; prices are dropped, any plan will do."""
    free = tuple(dataclasses.replace(pool, price_per_gpu_hour=0.0) for pool in problem.pools)
    limit = max(settings.seconds_left(), 0.1)
    return _plan(problem.replace(pools=free), limit, settings) is not None


def _cost(problem: InferenceProblem, settings: Settings) -> float | None:
    limit = max(settings.seconds_left(), 0.1)
    plan = _plan(problem, limit, settings)
    return None if plan is None else plan_cost(problem, plan)


def _plan(problem: InferenceProblem, seconds: float, settings: Settings) -> InferencePlan | None:
    """Return a plan that keeps every rule, or None if none is found."""
    part = solve_all(problem, Settings(seconds, settings.seed, settings.workers), "mixes")
    if part.limit == "interrupt":
        raise KeyboardInterrupt
    if part.plan is None or verify_inference(problem, part.plan):
        return None
    return part.plan


def _kept(model: ServedModel, periods: Sequence[int]) -> ServedModel:
    classes = tuple(
        dataclasses.replace(c, rate_per_s=tuple(c.rate_per_s[t] for t in periods))
        for c in model.classes
    )
    return dataclasses.replace(model, classes=classes)


def _only(problem: InferenceProblem, periods: Sequence[int]) -> InferenceProblem:
    """Return a problem in some of its periods; pools paid by holding are no longer tied."""
    names = {problem.periods[t].name for t in periods}

    def some(pool: GpuPool) -> GpuPool:
        return dataclasses.replace(
            pool,
            hosts=tuple(pool.hosts_in(t) for t in periods),
            price_per_gpu_hour=tuple(pool.price_in(t) for t in periods),
            billing="used" if len(periods) == 1 else pool.billing,
        )

    return InferenceProblem(
        tuple(_kept(model, periods) for model in problem.models),
        tuple(some(pool) for pool in problem.pools),
        tuple(problem.periods[t] for t in periods),
        problem.name,
        tuple(x for x in problem.tightened if x.period in names),
    )


def _scaled(
    problem: InferenceProblem, factor: float, periods: set[str] | None = None
) -> InferenceProblem:
    """Return a problem with the rates of some periods multiplied."""
    scale = [
        factor if periods is None or period.name in periods else 1.0 for period in problem.periods
    ]

    def scaled(model: ServedModel) -> ServedModel:
        classes = tuple(
            dataclasses.replace(
                c, rate_per_s=tuple(r * f for r, f in zip(c.rate_per_s, scale, strict=True))
            )
            for c in model.classes
        )
        return dataclasses.replace(model, classes=classes)

    return problem.replace(models=tuple(map(scaled, problem.models)))


def _loosened(problem: InferenceProblem, factor: float) -> InferenceProblem:
    def looser(goal: LatencyGoal | None) -> LatencyGoal | None:
        return None if goal is None else LatencyGoal(goal.seconds * factor, goal.percentile)

    def loosened(model: ServedModel) -> ServedModel:
        classes = tuple(
            dataclasses.replace(c, ttft=looser(c.ttft), tpot=looser(c.tpot)) for c in model.classes
        )
        return dataclasses.replace(model, classes=classes)

    return problem.replace(models=tuple(map(loosened, problem.models)))


def _with_hosts(problem: InferenceProblem, pool: GpuPool, extra: int) -> InferenceProblem:
    def more(other: GpuPool) -> GpuPool:
        if other.name != pool.name:
            return other
        hosts = other.hosts
        grown = tuple(n + extra for n in hosts) if isinstance(hosts, tuple) else hosts + extra
        return dataclasses.replace(other, hosts=grown)

    return problem.replace(pools=tuple(map(more, problem.pools)))


def _surviving(problem: InferenceProblem, failures: int) -> InferenceProblem:
    return problem.replace(
        models=tuple(
            dataclasses.replace(model, failures=min(model.failures, failures))
            for model in problem.models
        )
    )
