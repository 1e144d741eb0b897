"""Both fidelities of an inference plan: the closed form beside the simulation, goal by goal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from alloc.errors import InstanceError
from alloc.problems.inference_sizing.plan import InferencePlan, ReplicaGroup
from alloc.problems.inference_sizing.problem import InferenceProblem, RateTightening
from alloc.problems.inference_sizing.rates import load_of
from alloc.problems.inference_sizing.report import GoalCheck
from alloc.problems.inference_sizing.request_stream import RequestStream
from alloc.problems.inference_sizing.served import option_label
from alloc.problems.inference_sizing.serving import Latencies, Load, latencies, sustainable_rate
from alloc.simulation.serving import Served, draw_requests, serve

_STEPS = (0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2, 0.1, 0.01)
"""Shares of a rate to try, until the simulation keeps every goal at one."""
_ACCURACY = 0.01
"""Part of its rate to which the rate that a group keeps is searched; each halving simulates it."""
_WARM_UP = 0.1
"""Part of the requests that is not measured: the simulation begins with empty batches."""

Report = Callable[[str], None]


@dataclass
class Replayer:
    """Simulates groups of replicas, each kind of group once.

    Parameters
    ----------
    problem
        The problem; its tightenings are taken off the closed form's word.
    requests
        Requests to draw for each group.
    seed
        Seed; groups of as many replicas and the same batch cap have the same stream of it.
    """

    problem: InferenceProblem
    requests: int
    seed: int
    _seen: dict[tuple[Load, int, float], list[GoalCheck]] = field(default_factory=dict)

    def checks(self, plan: InferencePlan) -> list[GoalCheck]:
        """Return every goal of every group by both fidelities."""
        return [check for group in plan.groups for check in self.check(group)]

    def check(self, group: ReplicaGroup) -> list[GoalCheck]:
        """Return the goals of a group by both fidelities."""
        load = self.load(group)
        key = (load, group.replicas, round(group.rate_per_s, 9))
        if key not in self._seen:
            self._seen[key] = self._simulated(group, load, group.rate_per_s)
        return [_renamed(check, group) for check in self._seen[key]]

    def load(self, group: ReplicaGroup) -> Load:
        """Return what is asked of a replica of the group."""
        model = self.problem.model(group.model)
        t = [period.name for period in self.problem.periods].index(group.period)
        return load_of(model, t, model.option(group.key), group.batch_cap)

    def kept_rate(self, group: ReplicaGroup) -> float:
        """Return the rate at which the simulation of a group keeps every goal, requests/s."""
        load = self.load(group)

        def keeps(share: float) -> bool:
            checks = self._simulated(group, load, group.rate_per_s * share)
            return all(check.holds for check in checks)

        low, high = 0.0, 1.0
        for share in _STEPS:
            if keeps(share):
                low = share
                break
            high = share
        while low and high - low > _ACCURACY:
            middle = (low + high) / 2
            if keeps(middle):
                low = middle
            else:
                high = middle
        return low * group.rate_per_s

    def _simulated(self, group: ReplicaGroup, load: Load, rate: float) -> list[GoalCheck]:
        # The same draws whatever the rate: then less load is never worse by chance alone.
        rng = np.random.default_rng([self.seed, group.replicas, group.batch_cap])
        stream = draw_requests(load, rate, self.requests, rng)
        served = serve(load.option, load.batch_cap, group.replicas, stream, warm_up=_WARM_UP)
        return goal_checks(group, latencies(load, group.replicas, rate), served, rate)


def goal_checks(
    group: ReplicaGroup, state: Latencies, served: Served, rate_per_s: float
) -> list[GoalCheck]:
    """Put the closed form beside a simulation, for every goal of a group.

    Parameters
    ----------
    group
        Replicas of a model in a period.
    state
        How they do at this rate by the closed form.
    served
        How they did in the simulation.
    rate_per_s
        Requests to the group, per second.
    """
    found = []
    for kind, measure, predicted, allowed in state.goals():
        goal = kind.ttft if measure == "ttft" else kind.tpot
        assert goal is not None
        position = state.load.classes.index(kind)
        simulated, number = served.misses(position, measure, goal.seconds)
        found.append(
            GoalCheck(
                group.period,
                group.model,
                option_label(group.key),
                group.replicas,
                group.batch_cap,
                rate_per_s,
                kind.name,
                measure,
                goal.seconds,
                allowed,
                predicted,
                simulated,
                number,
            )
        )
    return found


def replay_stream(
    problem: InferenceProblem,
    plan: InferencePlan,
    model: str,
    period: str,
    stream: RequestStream,
    *,
    seed: int = 0,
) -> list[GoalCheck]:
    """Replay recorded requests on the replicas of a model in a period.

    Each request goes to a group at random, by the rates of the plan.

    Parameters
    ----------
    problem, plan
        The plan and its problem.
    model, period
        Names.
    stream
        The requests; `RequestStream.kind` counts the model's classes.
    seed
        Seed of the routing.

    Returns
    -------
    list of GoalCheck
        Every goal by the closed form, at the planned rate, and as the recorded requests met it.

    Raises
    ------
    InstanceError
        If the plan has no replicas of the model in the period, or the stream other classes.
    """
    groups = [g for g in plan.groups if (g.model, g.period) == (model, period)]
    if not groups:
        raise InstanceError(
            f'the plan has no replicas of model "{model}" in period "{period}"; name a model and a '
            "period that it serves."
        )
    classes = problem.model(model).classes
    if len(stream) and int(stream.kind.max()) >= len(classes):
        raise InstanceError(
            f"request stream: names class {int(stream.kind.max())}, and model "
            f'"{model}" has {len(classes)}; count its classes from 0.'
        )
    rates = np.array([group.rate_per_s for group in groups])
    target = np.random.default_rng(seed).choice(
        len(groups), size=len(stream), p=rates / rates.sum()
    )
    replayer = Replayer(problem, len(stream), seed)
    found = []
    for k, group in enumerate(groups):
        here = np.flatnonzero(target == k)
        part = RequestStream(
            stream.arrival_s[here],
            stream.input_tokens[here],
            stream.output_tokens[here],
            stream.kind[here],
        )
        load = replayer.load(group)
        served = serve(load.option, group.batch_cap, group.replicas, part, warm_up=0.0)
        state = latencies(load, group.replicas, group.rate_per_s)
        found += goal_checks(group, state, served, group.rate_per_s)
    return found


def tightenings(
    replayer: Replayer, plan: InferencePlan, checks: Iterable[GoalCheck], report: Report
) -> tuple[RateTightening, ...]:
    """Return how much less than it promises each group may be trusted with, where it misses.

    Parameters
    ----------
    replayer
        Simulates a group at other rates.
    plan
        The plan with the groups.
    checks
        What was seen of its goals.
    report
        Gets a line of text for each group that is simulated again.
    """
    missing = {(c.model, c.period, c.option) for c in checks if not c.holds}
    factors: dict[tuple[Load, int, float], float] = {}
    found = []
    for group in plan.groups:
        if (group.model, group.period, option_label(group.key)) not in missing:
            continue
        load = replayer.load(group)
        key = (load, group.replicas, round(group.rate_per_s, 9))
        if key not in factors:
            kept = replayer.kept_rate(group)
            # What it sustains by the closed form, which may be more than its share of the requests.
            promised = sustainable_rate(load, group.replicas)
            promised *= replayer.problem.factors.get((group.model, group.period, group.key), 1.0)
            factors[key] = min(max(kept / promised, 1e-3), 1.0)
            report(
                f'model "{group.model}", {group.replicas} x {option_label(group.key)} in period '
                f'"{group.period}": simulated, {kept:.4g} of {promised:.4g} requests/s keep every '
                "goal"
            )
        found.append(RateTightening(group.model, group.period, *group.key, factors[key]))
    return tuple(found)


def _renamed(check: GoalCheck, group: ReplicaGroup) -> GoalCheck:
    return replace(check, period=group.period, model=group.model)
