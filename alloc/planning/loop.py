"""Plan and replay in turn, until the goals hold in the simulator as well as in the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from alloc.errors import InstanceError
from alloc.planning.pools import fullest, operations_of
from alloc.planning.replay import Measured, ReplaySettings, replay_all
from alloc.planning.room import keys_of
from alloc.planning.settling import is_crowded, settled
from alloc.planning.tightening import (
    Learned,
    halfway,
    loosened,
    margins_kept,
    relaxed,
    tightened,
    with_margins,
)
from alloc.problems.right_sizing.demand import Tightening
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Result
from alloc.solving.outcome import Progress
from alloc.units import require_count

Outcome = Literal["holds", "missed", "impossible", "no plan", "unmeasured", "interrupted"]
Solve = Callable[[PlanningProblem, Result[Plan] | None], Result[Plan]]
"""Solves a problem, given the result of the round before or None."""

# Part by which a plan that holds may be dearer than any can be cheap, and no cheaper one is sought.
_NEAR = 0.02
# Part of the cost that a round must have saved for another to be worth its time.
_LITTLE = 0.005


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
    result: Result[Plan]
    measured: tuple[Measured, ...]

    @property
    def cost(self) -> float:
        """The cost of the plan; infinite if there is none."""
        cost = self.result.certificate.objective
        return math.inf if cost is None else cost

    @property
    def holds(self) -> bool:
        """Whether there is a plan, goals were measured, and none was missed."""
        return self.result.solution is not None and bool(self.measured) and not self.missed

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
        The rounds, in order.
    outcome
        ``holds``: every goal holds in the replay of the answer; ``missed``: in no round did all
        hold; ``impossible``: nor did they, and with the room that the replay asks for the problem
        is proved infeasible; ``no plan``: there was none to replay; ``unmeasured``: no job of a
        class with a goal came in any replay; ``interrupted``: Ctrl-C came before any of these.
    sentence
        The outcome in words.
    """

    rounds: tuple[Round, ...]
    outcome: Outcome
    sentence: str

    @property
    def answer(self) -> Round:
        """The cheapest round whose goals hold; else the last with a plan; else the last."""
        held = [turn for turn in self.rounds if turn.holds]
        if held:
            return min(held, key=lambda turn: turn.cost)
        return _last_plan(self.rounds) or self.rounds[-1]

    @property
    def result(self) -> Result[Plan]:
        """The plan of the answer, with its certificate."""
        return self.answer.result


def plan_and_replay(
    problem: PlanningProblem,
    solve: Solve,
    settings: ReplaySettings,
    *,
    max_iterations: int = 5,
    progress: Progress | None = None,
) -> Replayed:
    """Solve, replay every pool where it is fullest, keep more room where goals are missed; repeat.

    How much more room is measured and not guessed: the pool that misses a goal is replayed with
    more hosts until it holds, and the headroom of the classes that are to blame is raised by what
    the pool needs (`alloc.planning.room`). Where there are too many pools to learn about, classes
    stay in those that the first plan sends them to (`alloc.planning.settling`). Once every goal
    holds, room that turns out to be too much is given back, and the cheapest plan whose goals hold
    is the answer. Every round draws jobs of its own, and rooms are sized by other draws: no plan is
    judged by what it was made for.

    Parameters
    ----------
    problem
        The problem; its tightening is where the first round begins.
    solve
        Solves it.
    settings
        How plans are replayed.
    max_iterations
        Most rounds, 1 or more.
    progress
        Takes a sentence on what each step does.

    Returns
    -------
    Replayed
        At an interrupt (Ctrl-C) with the rounds until then, and what was found of the last one.

    Raises
    ------
    InstanceError
        If no class has a goal: there would be nothing to measure.
    KeyboardInterrupt
        If it comes before anything was found.
    """
    if all(job_class.goal is None for job_class in problem.classes):
        raise InstanceError(
            f'replay: no class of "{problem.name}" has a goal, so there is nothing to measure and '
            "the plan promises no waiting time; give the classes a goal (alloc forecast --history "
            '... --goal "*=wait 4h 95%", or the field goal of a class), or plan without a replay.'
        )
    require_count(max_iterations, "replay", "max_iterations", least=1)
    rounds: list[Round] = []
    try:
        proof = _take_turns(
            problem, solve, settings, max_iterations, progress or (lambda sentence: None), rounds
        )
    except KeyboardInterrupt:
        if not rounds:
            raise
        return _interrupted(rounds)
    return _ended(rounds, settings, proof)


def _take_turns(
    problem: PlanningProblem,
    solve: Solve,
    settings: ReplaySettings,
    max_iterations: int,
    tell: Progress,
    rounds: list[Round],
) -> Round | None:
    """Add round after round; return the one that proves that there is no plan, if any does."""
    learned = Learned()
    asked, proof = problem, None
    for number in range(1, max_iterations + 1):
        tell(f"round {number}: solving the plan")
        last = _last_plan(rounds)
        result = solve(problem, None if last is None else last.result)
        # What is known of the round should the replay be interrupted.
        rounds.append(Round(problem.tightening, result, ()))
        if result.certificate.limit == "interrupt":
            raise KeyboardInterrupt
        every = () if result.solution is None else operations_of(problem, result.solution)
        operations = fullest(every, settings.regimes)
        learned.sent |= {key for operation in every for key in keys_of(operation)}
        if operations:
            tell(f"round {number}: replaying {len(operations)} regimes of pools")
        measured = replay_all(operations, settings, draw=number)
        turn = Round(problem.tightening, result, tuple(m for found in measured for m in found))
        rounds[-1] = turn
        guesses = learned.guessed & margins_kept(problem).keys()
        if result.certificate.status == "infeasible" and not guesses:
            proof = turn
        if turn.missed:
            tell(f"round {number}: {_misses(turn.missed)} missed the goal")
        if number == max_iterations or not _worth_another(rounds):
            break
        if last is not None and result.solution is None:
            tell(f"round {number}: no plan with so much room; trying less")
            kept = {k: gpus for k, gpus in margins_kept(problem).items() if k not in guesses}
            if learned.settled:
                kept = loosened(problem, learned)
            elif not guesses:
                kept = halfway(problem, asked.replace(tightening=last.tightening))
        elif turn.missed:
            tell(f"round {number}: measuring the room that is missing")
            found = tuple(zip(operations, measured, strict=True))
            last_time = number == max_iterations - 1 and not any(before.holds for before in rounds)
            if is_crowded(problem):
                kept = settled(problem, every, found, settings, learned, last=last_time)
            else:
                kept = tightened(problem, found, settings, learned, last=last_time)
        else:
            tell(f"round {number}: all goals hold; measuring the room that is too much")
            kept = relaxed(problem, asked, operations, settings, learned)
        following = with_margins(asked, kept)
        if following == problem:
            break
        problem = following
    return proof


def _interrupted(rounds: Sequence[Round]) -> Replayed:
    """Return what was found until an interrupt: the cheapest plan that holds, else the last one."""
    ended = tuple(rounds)
    answer = Replayed(ended, "interrupted", "").answer
    number = next(i for i, turn in enumerate(ended, start=1) if turn is answer)
    if answer.result.solution is None:
        kept = "no plan was found yet"
    elif answer.holds:
        kept = f"the plan of round {number} is kept, and all goals replayed hold in it"
    elif answer.measured:
        kept = f"the plan of round {number} is kept; {_misses(answer.missed)} missed the goal in it"
    else:
        kept = f"the plan of round {number} is kept, and it was not replayed yet"
    again = "run it again to go on, with fewer rounds or jobs if that takes too long"
    return Replayed(ended, "interrupted", f"interrupted in round {len(ended)}: {kept}; {again}.")


def _last_plan(rounds: Sequence[Round]) -> Round | None:
    return next((turn for turn in reversed(rounds) if turn.result.solution is not None), None)


def _worth_another(rounds: Sequence[Round]) -> bool:
    """Return whether another round may meet the goals, or make the answer cheaper."""
    turn = rounds[-1]
    held = [before.cost for before in rounds[:-1] if before.holds]
    if turn.result.solution is None:
        # Once the goals hold, less room than no plan can have is not looked for.
        return len(rounds) > 1 and not held
    if turn.missed:
        return True
    if held and turn.cost > (1 - _LITTLE) * min(held):
        return False
    return turn.cost > (1 + _NEAR) * rounds[0].result.certificate.bound


def _ended(rounds: Sequence[Round], settings: ReplaySettings, proof: Round | None) -> Replayed:
    ended = tuple(rounds)
    if any(turn.holds for turn in ended):
        return Replayed(ended, "holds", _holds_sentence(ended, settings))
    without = next((turn for turn in reversed(ended) if turn.result.solution is None), None)
    last = _last_plan(ended)
    if last is not None and not last.missed:
        sentence = (
            "no job of a class with a goal came in any pool replayed, so there was nothing to "
            "measure and no waiting time is promised; replay more jobs, or give goals to classes "
            "of which more jobs come."
        )
        return Replayed(ended, "unmeasured", sentence)
    if last is None:
        return Replayed(ended, "no plan", f"there is no plan: {_why(ended[0].result)}")
    missed = f"{_misses(last.missed)} missed the goal in the replay with {settings.scheduler}"
    if without is None:
        count = f"{len(ended)} round{'s' if len(ended) > 1 else ''}"
        return Replayed(ended, "missed", f"after {count} {missed}; allow more rounds.")
    if proof is not None:
        return Replayed(
            ended,
            "impossible",
            f"{missed}, and with the room that the replay asks for there is no plan: "
            f"{_why(proof.result)}",
        )
    # Not proved: where the classes were not seen yet, they might have needed less.
    why = _why(without.result)
    return Replayed(ended, "missed", f"{missed}, and no tighter plan was found: {why}")


def _why(result: Result[Plan]) -> str:
    """Return why there is no plan, and the cheapest cure."""
    if result.conflict is None:
        return f"the solver ended with status {result.certificate.status}."
    cures = [f"; relief: {option}" for option in result.repair_options[:1]]
    return "".join([result.conflict.rstrip("."), *cures])


def _holds_sentence(rounds: tuple[Round, ...], settings: ReplaySettings) -> str:
    best = Replayed(rounds, "holds", "").answer
    goals = len(best.measured)
    number = next(i for i, turn in enumerate(rounds, start=1) if turn is best)
    after = "at once" if number == 1 else f"in round {number}"
    more = f" ({len(rounds)} rounds; this plan is the cheapest that holds)" * (len(rounds) > number)
    return (
        f"all {goals} goals replayed with {settings.scheduler} hold {after}{more}, in the "
        f"{settings.regimes} fullest regimes of every pool, by draws that the plan was not made by."
    )


def _misses(measured: Sequence[Measured]) -> str:
    """Return who missed and, at worst, by how much."""
    worst: dict[str, Measured] = {}
    for one in measured:
        if one.job_class not in worst or _shortfall(one) > _shortfall(worst[one.job_class]):
            worst[one.job_class] = one
    return ", ".join(
        f'"{name}" ({_figures(one)} in {one.pool})' for name, one in sorted(worst.items())
    )


def _shortfall(measured: Measured) -> float:
    gap = measured.value.mean - measured.wanted
    return gap if measured.in_hours else -gap


def _figures(measured: Measured) -> str:
    if measured.in_hours:
        return f"{measured.value.mean:.3g} h on average, {measured.wanted:.3g} h promised"
    return f"{100 * measured.value.mean:.3g} % of jobs, {100 * measured.wanted:.3g} % promised"
