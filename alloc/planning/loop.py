"""Plan and replay in turn, until the goals hold in the simulator as well as in the model."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from alloc.errors import InstanceError
from alloc.planning.buffers import Knowledge, fit, learn
from alloc.planning.iteration_solves import IterationSolves, Solve
from alloc.planning.lessening import Judged, lessened
from alloc.planning.pools import (
    goals_of,
    operations_of,
    tightest,
    too_large,
)
from alloc.planning.replay import Measured, ReplaySettings
from alloc.planning.tightenings import with_shared_pools
from alloc.planning.verdicts import Verdicts
from alloc.problems.right_sizing.demand import Tightening
from alloc.problems.right_sizing.headroom import KEPT_OUT, margins
from alloc.problems.right_sizing.plan import Plan
from alloc.problems.right_sizing.problem import PlanningProblem
from alloc.result import Result
from alloc.solving.outcome import Progress
from alloc.units import require_count

Outcome = Literal["holds", "missed", "no plan", "unmeasured", "interrupted"]

# Part by which a plan that holds may be dearer than the first bound, and no cheaper one is sought:
# the gap of a plan twice, for the first plan and the answer. The first bound is of goals class by
# class; a plan with buffers may undercut it. Where the solve of the plan ended by its time, so
# would the next, and tell no smaller gains from luck.
_NEAR = 0.02
_NEAR_BY_TIME = 0.04
# Times the limit of an iteration after which it is late. On problems of a thousand hosts two
# iterations take as long; on smaller ones four, and the later ones save a tenth.
_LATE = 3.0
# Solves at prices of capacity that the first plan takes before buffers: the first charges bits of
# classes for the capacity of pools that others then leave, the second knows who is left.
_FIRST_PRICES = 2
# Iterations until jobs stay where they are, if plans end by their time and still miss goals: each
# solve moves jobs, and what pools require of others was not measured. Once goals hold, the
# iterations that are left seek cheaper plans by solves again.
_TRIES = 2
# Part of the cost that an iteration must have saved for another to be worth its time: half of the
# gap to which plans are solved.
_LITTLE = 0.005


@dataclass(frozen=True)
class Iteration:
    """A plan and what its replay measured.

    Parameters
    ----------
    problem
        The problem that was solved: with the capacity buffers known by then, or, where no plan with
        them was found, at prices of capacity.
    result
        The plan, with its certificate.
    measured
        What every class with a goal met in every pool replayed.
    """

    problem: PlanningProblem
    result: Result[Plan]
    measured: tuple[Measured, ...]

    @property
    def tightening(self) -> tuple[Tightening, ...]:
        """The capacity buffers, and what was asked for besides."""
        return self.problem.tightening

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
    """Iterations of planning and replaying, and how they ended.

    Parameters
    ----------
    iterations
        In order.
    outcome
        ``holds``: every goal holds in the replay of the answer, by the mean of the replications;
        ``missed``: in no iteration did all hold, which proves nothing of other plans;
        ``no plan``: there was none to replay; ``unmeasured``: no job of a class with a goal came in
        any replay; ``interrupted``: Ctrl-C came before any of these.
    sentence
        The outcome in words.
    """

    iterations: tuple[Iteration, ...]
    outcome: Outcome
    sentence: str

    @property
    def answer(self) -> Iteration:
        """The cheapest iteration whose goals hold; else the last with a plan; else the last."""
        held = [one for one in self.iterations if one.holds]
        if held:
            return min(held, key=lambda one: one.cost)
        return _last_plan(self.iterations) or self.iterations[-1]

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
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Solve, replay every pool where it is tightest, keep the capacity that is required; repeat.

    The first plan takes goals class by class, as the model does. In the second iteration load pays
    for the capacity that it requires in the pools of the plan before, and classes choose their
    pools by that (`alloc.planning.tightenings.priced`). From several of these plans on they stay
    there, and the model keeps capacity buffers: what the classes that share a pool require together
    by a queueing formula, corrected by what the simulator measures in the pools of the plans, up or
    down. The cheapest of these is replayed. If the last plan but one misses a goal, the last stays
    in its places, and whoever missed a goal there, or nearly did, is given a host more; so it is
    where a plan misses and nothing else would change. The answer is the cheapest plan whose goals
    hold. Every iteration draws jobs of its own, and capacity is measured by draws of before: no
    plan is judged by what it was made for.

    Parameters
    ----------
    problem
        The problem; its tightening is kept in every iteration.
    solve
        Solves it.
    settings
        How plans are replayed.
    max_iterations
        Most iterations, 1 or more.
    seconds
        Wall time of all solves of an iteration together; None: any.
    progress
        Takes a sentence on what each step does.

    Returns
    -------
    Replayed
        At an interrupt (Ctrl-C) with the iterations until then, and what was found of the last.

    Raises
    ------
    InstanceError
        If no class has a goal: there would be nothing to measure; or if, before any plan holds,
        the scheduler misses a goal with any number of hosts.
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
    iterations: list[Iteration] = []
    try:
        tell = progress or (lambda sentence: None)
        _iterate(problem, solve, settings, max_iterations, seconds, tell, iterations)
    except KeyboardInterrupt:
        if not iterations:
            raise
        return _interrupted(iterations)
    return _ended(iterations, settings)


def _iterate(
    problem: PlanningProblem,
    solve: Solve,
    settings: ReplaySettings,
    max_iterations: int,
    seconds: float | None,
    tell: Progress,
    iterations: list[Iteration],
) -> None:
    """Add one iteration after another."""
    began = time.monotonic()

    def is_late() -> bool:
        return seconds is not None and time.monotonic() - began > _LATE * seconds

    knowledge, shared = Knowledge(), with_shared_pools(problem)
    measured_only = made_sure = False
    verdicts = Verdicts(settings)
    for number in range(1, max_iterations + 1):
        tell(f"iteration {number}: solving the plan")
        last = _last_plan(iterations)
        solves = IterationSolves(problem, shared, knowledge, solve, settings, seconds)
        is_last = number == max_iterations or made_sure
        is_last_chance = (
            last is not None
            and bool(last.missed)
            and (is_last or (number > _TRIES and last.result.certificate.limit == "time"))
        )
        try:
            now, result = _solved(solves, last, number, measured_only, is_last_chance, is_last)
        except KeyboardInterrupt:
            # The best of what was solved is kept, at prices or with buffers.
            best = solves.best()
            if best is not None:
                iterations.append(Iteration(*best, ()))
            raise
        # What is known of the iteration should the replay be interrupted.
        iterations.append(Iteration(now, result, ()))
        every = () if result.solution is None else solves.operations(result)
        operations = tightest(every, settings.regimes)
        say = _for_iteration(tell, number)
        found: Judged = tuple(zip(operations, verdicts.of(operations, number, say), strict=True))
        iterations[-1] = _judged(now, result, found)
        if number > 1 and iterations[-1].holds and result.certificate.limit == "time":
            part = solves.settling_seconds()
            less = lessened(shared, knowledge, result, found, verdicts, number, part, say)
            if less is not None:
                (result, found), now = less, shared
                every = solves.operations(result)
                iterations[-1] = _judged(now, result, found)
        done = iterations[-1]
        if done.missed:
            say(f"{_misses(done.missed)} missed the goal")
        if result.solution is None:
            if last is None or measured_only or any(before.holds for before in iterations):
                return
            measured_only = True
            say("no plan with so much capacity; asking for what was measured")
            fit(knowledge, shared, solves.operations(last.result))
        elif number == max_iterations or not _worth_another(iterations, is_late()):
            return
        else:
            say("measuring the capacity that is required")
            asked = margins(now).keys()
            has_missed = bool(done.missed)
            ways = sorted({has_missed and number + 1 == max_iterations, has_missed})
            # If what was learnt changes nothing, the next plan is made sure as if it were the last.
            for made_sure in ways:
                try:
                    learn(
                        knowledge, shared, asked, every, found, settings, number, surely=made_sure
                    )
                except InstanceError:
                    if not any(before.holds for before in iterations):
                        raise
                    # What no number of hosts cures in this plan is no fault of the one that holds.
                    return
                # A plan whose jobs stayed has no buffers, and gets a host for each that it lacks.
                is_settled = now == shared
                if (
                    number == 1
                    or is_settled
                    or solves.tightened(result, anywhere=measured_only) != now
                ):
                    break
            else:
                return


def _for_iteration(tell: Progress, number: int) -> Progress:
    return lambda sentence: tell(f"iteration {number}: {sentence}")


def _judged(problem: PlanningProblem, result: Result[Plan], found: Judged) -> Iteration:
    return Iteration(problem, result, tuple(m for _, measured in found for m in measured))


def _solved(
    solves: IterationSolves,
    last: Iteration | None,
    number: int,
    measured_only: bool,
    is_last_chance: bool,
    is_last: bool,
) -> tuple[PlanningProblem, Result[Plan]]:
    """Return the problem of an iteration and its result, from the last iteration with a plan.

    The last chance of a plan that holds is not where nothing was measured: classes stay.
    """
    if last is None:
        return solves.problem, solves.of(solves.problem, None)
    if measured_only:
        found = solves.with_buffers(last.result, anywhere=True)
        return found.problem, found.result
    if is_last_chance and number > 2:
        return solves.in_places_of(last.result, is_last=is_last)
    return solves.cheapest(last.result, _FIRST_PRICES if number == 2 else 0)


def _interrupted(iterations: Sequence[Iteration]) -> Replayed:
    """Return what was found until an interrupt: the cheapest plan that holds, else the last one."""
    ended = tuple(iterations)
    answer = Replayed(ended, "interrupted", "").answer
    number = next(i for i, one in enumerate(ended, start=1) if one is answer)
    plan = f"the plan of iteration {number} is kept"
    if answer.result.solution is None:
        kept = "no plan was found yet"
    elif answer.holds:
        kept = f"{plan}, and all goals replayed hold in it"
    elif answer.measured:
        kept = f"{plan}; {_misses(answer.missed)} missed the goal in it"
    else:
        kept = f"{plan}, and it was not replayed yet"
    again = "run it again to go on, with fewer iterations or jobs if that takes too long"
    sentence = f"interrupted in iteration {len(ended)}: {kept}; {again}."
    return Replayed(ended, "interrupted", sentence)


def _last_plan(iterations: Sequence[Iteration]) -> Iteration | None:
    return next((one for one in reversed(iterations) if one.result.solution is not None), None)


def _worth_another(iterations: Sequence[Iteration], is_late: bool) -> bool:
    """Return whether another iteration may meet the goals, or make the answer cheaper.

    Late, a plan whose solve ended by its time is as cheap as it gets.
    """
    one = iterations[-1]
    held = [before.cost for before in iterations[:-1] if before.holds]
    if one.result.solution is None:
        # Once the goals hold, what no plan can have is not asked for again.
        return len(iterations) > 1 and not held
    if one.missed:
        # Where one holds that costs no more, what is missing would only be dearer.
        return not held or one.cost < (1 - _LITTLE) * min(held)
    if held and one.cost > (1 - _LITTLE) * min(held):
        return False
    if is_late and len(iterations) > 1 and one.result.certificate.limit == "time":
        # It has given back what its pools do not need. The next would be sought as short of time.
        return False
    return not _is_near(iterations)


def _is_near(iterations: Sequence[Iteration]) -> bool:
    """Return whether the last plan is so near the first bound that no cheaper one is sought."""
    last = iterations[-1]
    near = _NEAR_BY_TIME if last.result.certificate.limit == "time" else _NEAR
    return last.cost <= (1 + near) * iterations[0].result.certificate.bound


def _ended(iterations: Sequence[Iteration], settings: ReplaySettings) -> Replayed:
    ended = tuple(iterations)
    if any(one.holds for one in ended):
        return Replayed(ended, "holds", _holds_sentence(ended, settings))
    without = next((one for one in reversed(ended) if one.result.solution is None), None)
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
        count = f"{len(ended)} iteration{'s' if len(ended) > 1 else ''}"
        return Replayed(ended, "missed", f"after {count} {missed}; allow more iterations.")
    # Not proved: pools that were not measured might require less.
    why = _why(without.result)
    return Replayed(ended, "missed", f"{missed}, and no plan with more capacity was found: {why}")


def _why(result: Result[Plan]) -> str:
    """Return why there is no plan, and the cheapest repair."""
    if result.conflict is None:
        return f"the solver ended with status {result.certificate.status}."
    cures = [f"; repair: {option}" for option in result.repair_options[:1]]
    return "".join([result.conflict.rstrip("."), *cures])


def _holds_sentence(iterations: tuple[Iteration, ...], settings: ReplaySettings) -> str:
    best = Replayed(iterations, "holds", "").answer
    goals, sure = len(best.measured), sum(one.is_sure for one in best.measured)
    counts = sorted({one.value.count for one in best.measured})
    replications = " to ".join(f"{count}" for count in counts[:1] + counts[1:][-1:])
    number = next(i for i, one in enumerate(iterations, start=1) if one is best)
    after = "at once" if number == 1 else f"in iteration {number}"
    count, near = len(iterations), ""
    more = f" ({count} iterations; this plan is the cheapest that holds)" if count > number else ""
    if number == count > 1 and _is_near(iterations):
        bound = iterations[0].result.certificate.bound
        dearer = max(best.cost / bound - 1, 0.0) if bound > 0 else 0.0
        near = (
            f"; it costs {100 * dearer:.1f} % more than the first bound: no cheaper one is sought"
        )
    return (
        f"all {goals} goals replayed with {settings.scheduler} hold {after}{more}, by the mean of "
        f"{replications} replications, {sure} of them in its whole 95 % interval, in the "
        f"{settings.regimes} tightest regimes of every pool, and the tightest of each class that "
        f"comes in none of these, by draws that the plan was not made "
        f"by{near}{_about(iterations[0], number, best)}{_not_replayed(best)}{_never_start(best)}."
    )


def _about(first: Iteration, number: int, one: Iteration) -> str:
    """Return which problem the bound of an iteration is about, if not the one asked."""
    if not math.isfinite(one.result.certificate.bound):
        return (
            "; its jobs stay where an earlier solve sent them, but for those that full pools had "
            "no hosts for, and no bound is proved of it"
        )
    if one.problem == first.problem:
        return ""
    added = [part for part in one.tightening if part not in first.tightening]
    is_walled = any(part.factor >= KEPT_OUT for part in added)
    kept = ", in which classes are kept out of pools" if is_walled else ""
    if any(part.margin > 0 for part in added):
        what = " with the capacity buffers"
    elif any(1.0 < part.factor < KEPT_OUT for part in added):
        what = " with the prices of capacity"
    else:
        what = ""
    return f"; its bound is of the model{what} of iteration {number}{kept}"


def _not_replayed(one: Iteration) -> str:
    """Return which classes with a goal were not measured in pools that the plan sends them to."""
    measured = {(m.job_class, m.pool) for m in one.measured}
    left = [
        f'"{name}" ({pool})'
        for name, pool in goals_of(one.problem, one.result.require_solution())
        if (name, pool) not in measured
    ]
    if not left:
        return ""
    return f"; not measured, for too few jobs come to replay: {', '.join(left)}"


def _never_start(one: Iteration) -> str:
    """Return which classes a plan sends to pools of fewer GPUs than a job of theirs takes."""
    found = too_large(operations_of(one.problem, one.result.require_solution()))
    if not found:
        return ""
    said = [
        f'"{name}" ({gpus} GPUs a job, {had} in {pool})'
        for (name, pool), (gpus, had) in sorted(found.items())
    ]
    return f"; not served while their pool is smaller than a job of theirs: {', '.join(said)}"


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
