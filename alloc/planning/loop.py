"""Plan and replay in turn, until the goals hold in the simulator as well as in the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from alloc.capacity.demand import JobClass, Tightening
from alloc.capacity.headroom import headroom, reference_gpus, tightening_factors
from alloc.capacity.plan import PlanResult
from alloc.capacity.problem import PlanningProblem
from alloc.planning.pools import Operation, Pool, fullest, operations_of
from alloc.planning.replay import Measured, ReplaySettings, gpus_needed, replay_all
from alloc.units import require_count

Outcome = Literal["holds", "missed", "impossible", "no plan"]
Solve = Callable[[PlanningProblem, PlanResult | None], PlanResult]
"""Solves a problem, given the result of the round before or None."""
Watch = Callable[[str], None]

# Least growth of a factor. It triples each time a pool misses again: work moves between pools, so
# that what one replay asks for may not be enough for the next.
_LEAST_GROWTH = 0.06
# Part of the last host needed that the room reaches into, so that it cannot be left out.
_PART = 0.05


@dataclass(frozen=True)
class Round:
    """One turn: a plan and what its replay measured.

    Parameters
    ----------
    tightening
        The room that was kept beyond the queueing formula.
    result
        The plan, with its certificate.
    measured
        What every class with a goal met in every pool replayed.
    """

    tightening: tuple[Tightening, ...]
    result: PlanResult
    measured: tuple[Measured, ...]

    @property
    def missed(self) -> tuple[Measured, ...]:
        """The goals that were missed."""
        return tuple(measured for measured in self.measured if not measured.holds)


@dataclass(frozen=True)
class Replayed:
    """Rounds of planning and replaying, and how they ended.

    Parameters
    ----------
    rounds
        The rounds, in order; the last one's plan is the answer.
    outcome
        ``holds``: every goal holds in the replay; ``missed``: some did not when the rounds were
        over; ``impossible``: with the room that the replay asks for, the problem is infeasible;
        ``no plan``: there was none to replay.
    sentence
        The outcome in words.
    """

    rounds: tuple[Round, ...]
    outcome: Outcome
    sentence: str

    @property
    def result(self) -> PlanResult:
        """The plan of the last round that has one, or else the last result."""
        for turn in reversed(self.rounds):
            if turn.result.plan is not None:
                return turn.result
        return self.rounds[-1].result


def plan_and_replay(
    problem: PlanningProblem,
    solve: Solve,
    settings: ReplaySettings,
    *,
    max_rounds: int = 5,
    watch: Watch | None = None,
) -> Replayed:
    """Solve, replay every pool where it is fullest, keep more room where goals are missed; repeat.

    How much more room is measured and not guessed: the pool that misses a goal is replayed with
    more hosts until it holds, and the headroom of its classes is raised by what the pool needs.

    Parameters
    ----------
    problem
        The problem; its tightening is where the first round begins.
    solve
        Solves it.
    settings
        How plans are replayed.
    max_rounds
        Most rounds, 1 or more.
    watch
        Told in a sentence what each step does.
    """
    require_count(max_rounds, "replay", "max_rounds", least=1)
    tell = watch or (lambda sentence: None)
    rounds: list[Round] = []
    previous: PlanResult | None = None
    misses: Counter[Pool] = Counter()
    for number in range(1, max_rounds + 1):
        tell(f"round {number}: solving the plan")
        result = solve(problem, previous)
        if result.plan is None:
            rounds.append(Round(problem.tightening, result, ()))
            return _without_plan(rounds)
        operations = fullest(operations_of(problem, result.plan), settings.regimes)
        tell(f"round {number}: replaying {len(operations)} regimes of pools")
        measured = replay_all(operations, settings)
        rounds.append(
            Round(problem.tightening, result, tuple(m for found in measured for m in found))
        )
        missed = rounds[-1].missed
        if not missed:
            return Replayed(tuple(rounds), "holds", _holds_sentence(rounds, settings))
        tell(f"round {number}: {_classes(missed)} missed the goal")
        if number < max_rounds:
            problem = problem.replace(
                tightening=_tightened(
                    problem, zip(operations, measured, strict=True), settings, misses
                )
            )
            previous = result
    return Replayed(
        tuple(rounds),
        "missed",
        f"after {max_rounds} rounds {_classes(rounds[-1].missed)} still missed the goal in the "
        f"replay with {settings.scheduler}; allow more rounds.",
    )


def _tightened(
    problem: PlanningProblem,
    replayed: Iterable[tuple[Operation, Sequence[Measured]]],
    settings: ReplaySettings,
    misses: Counter[Pool],
) -> tuple[Tightening, ...]:
    """Return the tightening with which each pool that missed gets the hosts it needs.

    All classes that may use the pool keep more room, for they share it; and no more room than makes
    the last host that is needed necessary, for hosts come whole and factors act everywhere. A pool
    that misses again and again gets more; `misses` counts how often it has.
    """
    factors = tightening_factors(problem)
    raised = dict(factors)
    pool_gpus = reference_gpus(problem)
    counted = set()
    for operation, measured in replayed:
        if all(m.holds for m in measured):
            continue
        pool = operation.pool
        if pool not in counted:
            counted.add(pool)
            misses[pool] += 1
        reserved = 0.0
        for stream in operation.streams:
            factor = headroom(problem, stream.job_class, stream.option, pool_gpus, pool.spot)
            key = (stream.job_class.name, pool.gpu_type, pool.site)
            reserved += stream.load * (factor or 1.0) * factors.get(key, 1.0)
        needed = gpus_needed(operation, settings)
        last_host = max(operation.hosts, default=1)
        growth = max(_LEAST_GROWTH, (needed - (1 - _PART) * last_host) / reserved - 1)
        growth *= 3 ** (misses[pool] - 1)
        for job_class in problem.classes:
            # Also those that are not there now: they would move in where they need less room.
            if _may_run(job_class, pool):
                key = (job_class.name, pool.gpu_type, pool.site)
                raised[key] = max(raised.get(key, 1.0), factors.get(key, 1.0) * (1 + growth))
    return tuple(Tightening(*key, factor) for key, factor in sorted(raised.items()))


def _may_run(job_class: JobClass, pool: Pool) -> bool:
    if pool.spot and not job_class.interruptible:
        return False
    return job_class.at(pool.site) and any(
        option.gpu_type == pool.gpu_type for option in job_class.options
    )


def _without_plan(rounds: Sequence[Round]) -> Replayed:
    result = rounds[-1].result
    why = result.conflict or f"the solver ended with status {result.certificate.status}"
    if len(rounds) == 1:
        return Replayed(tuple(rounds), "no plan", f"there is no plan: {why}")
    missed = rounds[-2].missed
    if result.certificate.status == "infeasible":
        return Replayed(
            tuple(rounds),
            "impossible",
            f"{_classes(missed)} missed the goal in the replay, and with the room that the replay "
            f"asks for there is no plan: {why}",
        )
    return Replayed(
        tuple(rounds),
        "missed",
        f"{_classes(missed)} missed the goal in the replay, and no tighter plan was found: {why}",
    )


def _holds_sentence(rounds: Sequence[Round], settings: ReplaySettings) -> str:
    goals = len(rounds[-1].measured)
    if not goals:
        return "no class has a goal, so there was nothing to replay."
    after = "at once" if len(rounds) == 1 else f"after {len(rounds)} rounds"
    return (
        f"all {goals} goals replayed with {settings.scheduler} hold {after}, in the "
        f"{settings.regimes} fullest regimes of every pool."
    )


def _classes(measured: Sequence[Measured]) -> str:
    names = sorted({m.job_class for m in measured})
    return ", ".join(f'"{name}"' for name in names)
