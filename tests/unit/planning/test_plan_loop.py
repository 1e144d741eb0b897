"""Planning and replaying in turn says no more than is proved."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest
from planning_worlds import small_pools as problem

from alloc.certificate import Limit
from alloc.errors import InstanceError
from alloc.planning.buffers import Knowledge
from alloc.planning.iteration_solves import Solve
from alloc.planning.loop import Replayed, plan_and_replay
from alloc.planning.pools import operations_of, tightest
from alloc.planning.replay import ReplaySettings, replay, replay_all
from alloc.planning.report import PlanReport, plan, solve_plan
from alloc.problems.right_sizing import (
    JobClass,
    JobOption,
    Plan,
    PlanningProblem,
    Scenario,
    ServiceGoal,
    Tightening,
)
from alloc.problems.right_sizing.headroom import KEPT_OUT, margins
from alloc.result import Limits, Result
from alloc.verification.right_sizing import verify_plan

EXACT = Limits(seconds=20.0, gap=1e-6)
INF = float("inf")
REPLAY = ReplaySettings(jobs=100, replications=2, regimes=1)


@pytest.fixture(scope="module")
def base() -> PlanReport:
    return plan(problem(), limits=EXACT)


@pytest.fixture(scope="module")
def replayed() -> PlanReport:
    return plan(problem(), limits=EXACT, replay=REPLAY)


@pytest.mark.long
def test_the_loop_ends_where_the_goals_hold_in_the_simulator(
    base: PlanReport, replayed: PlanReport
) -> None:
    assert replayed.replayed is not None
    first, answer = replayed.replayed.iterations[0], replayed.replayed.answer
    assert first.missed
    assert replayed.replayed.outcome == "holds"
    assert replayed.holds
    assert not answer.missed
    assert 2 <= len(replayed.replayed.iterations) <= 5
    # Capacity for the replay costs money, and the checker agrees that it is there.
    assert replayed.result.certificate.objective > base.result.certificate.objective
    tight = replayed.certified_problem
    assert tight.tightening == answer.tightening
    assert tight.fingerprint == replayed.result.certificate.fingerprint
    assert verify_plan(tight, replayed.result.require_solution()) == []
    # It is another problem than what was asked, and the report says so.
    assert tight != problem()
    number = replayed.replayed.iterations.index(answer) + 1
    about = f"its bound is of the model with the capacity buffers of iteration {number}"
    assert about in replayed.replayed.sentence


@pytest.mark.long
def test_with_buffers_classes_stay_where_an_earlier_plan_sends_them() -> None:
    """There it is known what they require; the cheapest of those plans is the one replayed."""
    everywhere = {(c.name, o.gpu_type) for c in problem().classes for o in c.options}
    seen: list[set[tuple[str, str]]] = []
    costs: dict[str, float] = {}

    def places(found: Result[Plan]) -> set[tuple[str, str]]:
        classes, index = problem().classes, problem().class_index
        return {
            (share.job_class, classes[index[share.job_class]].options[share.option].gpu_type)
            for share in found.require_solution().shares
        }

    def solve(
        tightened: PlanningProblem, last: Result[Plan] | None, seconds: float | None
    ) -> Result[Plan]:
        if margins(tightened):
            out = {(t.job_class, t.gpu_type) for t in tightened.tightening if t.factor >= KEPT_OUT}
            assert everywhere - out in seen
        found = solve_plan(tightened, EXACT, last)
        seen.append(places(found))
        costs[tightened.fingerprint] = found.certificate.objective or INF
        return found

    found = plan_and_replay(problem(), solve, REPLAY)
    assert found.outcome == "holds"
    assert len(found.iterations) > 2
    for one in found.iterations:
        assert one.cost == costs[one.problem.fingerprint]


def test_where_buffers_leave_no_plan_those_that_were_measured_are_asked_for() -> None:
    """Whether the solver gives up or proves it: a plan with less capacity may hold all the same."""
    cheap, none = solve_plan(problem(), EXACT), solve_plan(problem(budget=1.0), EXACT)
    assert none.certificate.status == "infeasible"
    given_up = dataclasses.replace(none.certificate, status="no_solution", limit="time")
    lasts: list[Result[Plan]] = [none, Result(None, given_up)]
    for last in lasts:
        asked: list[PlanningProblem] = []
        # No plan at prices of the capacity that is required, nor with the buffers, nor with less.
        answer = _scripted([cheap, none, none, last])

        def solve(
            tightened: PlanningProblem,
            before: Result[Plan] | None,
            seconds: float | None,
            asked: list[PlanningProblem] = asked,
            answer: Solve = answer,
        ) -> Result[Plan]:
            asked.append(tightened)
            return answer(tightened, before, seconds)

        ended = plan_and_replay(problem(), solve, REPLAY)
        assert ended.outcome == "missed"
        assert "no plan with more capacity was found" in ended.sentence
        assert len(asked) == 4
        every, measured = (margins(one) for one in asked[2:])
        assert measured.keys() <= every.keys()
        for key, gpus in measured.items():
            assert all(less <= more for less, more in zip(gpus, every[key], strict=True))
        # What was not measured is left out.
        missed = {(m.pool.gpu_type, m.pool.site) for m in ended.iterations[0].missed}
        assert {(t.gpu_type, t.site) for t in measured} == missed


@pytest.mark.parametrize("limit", ["time", "interrupt"])
def test_a_plan_is_kept_if_with_more_capacity_there_is_none(
    monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    """By the formula it has too little, but the formula is not what is believed."""
    monkeypatch.setattr("alloc.planning.iteration_solves.raise_buffers", lambda *given: True)
    cheap = solve_plan(problem(), EXACT)
    certificate = dataclasses.replace(cheap.certificate, status="no_solution", limit=limit)
    none: Result[Plan] = Result(None, dataclasses.replace(certificate, objective=None))
    ended = plan_and_replay(
        problem(), _scripted([cheap, cheap, cheap, none]), REPLAY, max_iterations=2
    )
    assert [one.result for one in ended.iterations] == [cheap, cheap]
    assert bool(ended.iterations[1].measured) == (limit == "time")
    assert ended.outcome == ("missed" if limit == "time" else "interrupted")


def test_more_capacity_is_replayed_however_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is known to lack capacity would miss goals; whether time made it dear is unknown.

    So it is where its jobs cannot stay, and nothing of it is given back.
    """
    monkeypatch.setattr("alloc.planning.iteration_solves.settled", lambda *known: None)
    monkeypatch.setattr("alloc.planning.loop.lessened", lambda *known: None)
    monkeypatch.setattr("alloc.planning.iteration_solves.raise_buffers", lambda *given: True)
    cheap, roomy = solve_plan(problem(), EXACT), _roomy(40.0)
    dear = roomy.replace(certificate=roomy.certificate.replace(limit="time"))
    solve = _scripted([cheap, cheap, cheap, dear])
    ended = plan_and_replay(problem(), solve, REPLAY, max_iterations=2)
    assert [one.result for one in ended.iterations] == [cheap, dear]


@pytest.mark.parametrize("limit", ["time", None])
def test_a_plan_that_ended_by_its_time_is_near_enough_at_more(limit: Limit | None) -> None:
    """The next solve would end by its time too: 3 % above the first bound is near enough then."""
    cheap, roomy = solve_plan(problem(), EXACT), _roomy(40.0)
    cost = 1.03 * cheap.certificate.bound
    given = {"status": "feasible", "limit": limit, "objective": cost, "bound": cost / 1.1}
    near = roomy.replace(certificate=roomy.certificate.replace(**given))
    ended = plan_and_replay(problem(), _scripted([cheap, cheap, near]), REPLAY)
    assert ended.outcome == "holds"
    assert (len(ended.iterations) == 2) == (limit == "time")
    said = "costs 3.0 % more than the first bound: no cheaper one is sought" in ended.sentence
    assert said == (limit == "time")


@pytest.mark.parametrize("gang", [8, 32])
def test_a_class_without_a_goal_in_a_pool_smaller_than_its_jobs_is_said_not_to_be_served(
    gang: int,
) -> None:
    """No goal of it is missed, and no job of it starts."""
    loose = ServiceGoal("wait", 1000.0, 0.5)
    classes = (
        JobClass("train", (JobOption("a100", 8, 4.0),), goal=loose),
        JobClass("tune", (JobOption("h100", gang, 1.0),)),
    )
    arrivals = {"train": (0.8, 0.9), "tune": (4.0 / gang, 4.0 / gang)}
    asked = problem(classes=classes, scenarios=(Scenario("1", 1.0, arrivals),))
    found = plan(asked, limits=EXACT, replay=REPLAY).replayed
    assert found is not None
    assert found.outcome == "holds"
    said = (
        'not served while their pool is smaller than a job of theirs: "tune" (32 GPUs a job, 8 in'
    )
    assert (said in found.sentence) == (gang == 32)


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("with_plan", [True, False])
def test_an_interrupt_at_prices_keeps_the_plan_there_was(which: int, with_plan: bool) -> None:
    """The cheaper of the solve that it ended and the one before: newer than what was replayed."""
    solved: list[tuple[PlanningProblem, Result[Plan]]] = []

    def solve(
        tightened: PlanningProblem, last: Result[Plan] | None, seconds: float | None
    ) -> Result[Plan]:
        found = solve_plan(tightened, EXACT, last)
        if len(solved) == which:
            plan = found.solution if with_plan else None
            objective = found.certificate.objective if with_plan else None
            ended = dataclasses.replace(
                found.certificate, limit="interrupt", status="no_solution", objective=objective
            )
            found = dataclasses.replace(found, solution=plan, certificate=ended)
        solved.append((tightened, found))
        return found

    ended = plan_and_replay(problem(), solve, REPLAY)
    assert len(solved) == which + 1
    kept = [one for one in solved[1:] if one[1].solution is not None]
    best = min(kept, key=lambda one: one[1].certificate.objective or INF) if kept else solved[-1]
    assert ended.outcome == "interrupted"
    assert [(one.problem, one.result) for one in ended.iterations] == [solved[0], best]
    assert ended.result is (best if kept else solved[0])[1]
    assert ("was not replayed yet" in ended.sentence) == bool(kept)


@pytest.mark.parametrize("last", range(1, 4))
def test_an_interrupt_keeps_the_best_plan_of_its_iteration(
    monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """Not whatever was solved last: one with what its pools require, and then the cheapest."""
    known = Knowledge()
    monkeypatch.setattr("alloc.planning.loop.Knowledge", lambda: known)
    dear, solved = _roomy(200.0), list[Result[Plan]]()

    def solve(
        tightened: PlanningProblem, before: Result[Plan] | None, seconds: float | None
    ) -> Result[Plan]:
        found = solve_plan(tightened, EXACT, before)
        if len(solved) == last:
            # It had no time for better.
            own = tightened.fingerprint
            ended = dataclasses.replace(dear.certificate, limit="interrupt", fingerprint=own)
            found = dataclasses.replace(dear, certificate=ended)
        solved.append(found)
        return found

    def order(found: Result[Plan]) -> tuple[bool, float]:
        every = operations_of(problem(), found.require_solution())
        lacks = any(o.has_goal and known.required(o) > o.gpus + 1 for o in tightest(every))
        return lacks, found.certificate.objective or INF

    ended = plan_and_replay(problem(), solve, REPLAY, max_iterations=2)
    assert ended.outcome == "interrupted"
    assert len(solved) == last + 1
    assert order(ended.iterations[-1].result) == min(map(order, solved[1:]))
    assert ended.iterations[-1].problem.fingerprint == ended.result.certificate.fingerprint


@pytest.mark.parametrize("status", ["no_solution", "infeasible"])
def test_a_plan_at_prices_is_replayed_if_with_buffers_there_is_none(
    status: Literal["no_solution", "infeasible"],
) -> None:
    """It was made for the formula too, and its certificate is about the problem with prices."""
    asked: list[PlanningProblem] = []
    none: list[Result[Plan]] = []

    def solve(
        tightened: PlanningProblem, last: Result[Plan] | None, seconds: float | None
    ) -> Result[Plan]:
        asked.append(tightened)
        found = solve_plan(tightened, EXACT, last)
        if not margins(tightened):
            return found
        certificate = dataclasses.replace(found.certificate, status=status, objective=None)
        none.append(Result(None, certificate))
        return none[-1]

    ended = plan_and_replay(problem(), solve, REPLAY, max_iterations=2)
    assert none
    second = ended.iterations[1]
    assert second.measured
    assert second.problem in asked
    assert {part.margin for part in second.tightening} == {0.0}
    assert second.result.certificate.fingerprint == second.problem.fingerprint
    assert verify_plan(second.problem, second.result.require_solution()) == []


def test_the_sentence_says_what_the_bound_is_of_whatever_was_asked_for_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Margins that the problem came with are no capacity buffers of an iteration."""

    def judge(operations: object, settings: ReplaySettings, *, draw: int) -> object:
        found = replay_all(operations, settings, draw=draw)  # type: ignore[arg-type]
        return tuple(tuple(dataclasses.replace(m, holds=draw > 1) for m in one) for one in found)

    monkeypatch.setattr("alloc.planning.verdicts.replay_all", judge)
    asked = problem(tightening=(Tightening("tune", "a100", "hall", margin=1.0),))

    def without_buffers(
        tightened: PlanningProblem, last: Result[Plan] | None, seconds: float | None
    ) -> Result[Plan]:
        found = solve_plan(tightened, EXACT, last)
        if margins(tightened) == margins(asked):
            return found
        certificate = dataclasses.replace(
            found.certificate, status="no_solution", objective=None, limit="time"
        )
        return Result(None, certificate)

    ended = plan_and_replay(asked, without_buffers, REPLAY, max_iterations=2)
    assert ended.outcome == "holds"
    assert "its bound is of the model with the prices of capacity of iteration 2" in ended.sentence
    assert "buffers" not in ended.sentence
    monkeypatch.undo()
    at_once = plan_and_replay(asked, _scripted([_roomy(80.0)]), REPLAY)
    assert at_once.outcome == "holds"
    assert "its bound" not in at_once.sentence


@pytest.mark.long
def test_a_class_too_rare_to_be_replayed_is_said_not_to_be_measured() -> None:
    """A job in a hundred years is served by the plan; that its goal holds nobody has seen."""
    goal = ServiceGoal("wait", 1.0, 0.9)
    small = problem()
    rare = small.replace(
        classes=(*small.classes, JobClass("rare", (JobOption("a100", 1, 2.0),), goal=goal)),
        scenarios=tuple(
            dataclasses.replace(one, arrivals={**one.arrivals, "rare": (1e-6, 1e-6)})
            for one in small.scenarios
        ),
    )
    ended = plan(rare, limits=EXACT, replay=REPLAY).replayed
    assert ended is not None
    assert ended.outcome == "holds"
    assert not any(m.job_class == "rare" for m in ended.answer.measured)
    said = 'not measured, for too few jobs come to replay: "rare" (a100 at hall)'
    assert said in ended.sentence


def test_a_later_plan_that_is_dearer_is_never_the_answer() -> None:
    """However little time its solve had: of those whose goals hold the cheapest is kept."""
    dear, dearer = _roomy(40.0), _roomy(80.0)
    (first,) = plan_and_replay(problem(), _scripted([dear]), REPLAY).iterations
    assert first.holds
    later = dataclasses.replace(first, result=dearer)
    missed = dataclasses.replace(
        later, measured=(dataclasses.replace(first.measured[0], holds=False),)
    )
    for iterations in ((first, later), (later, first), (missed, later, first, missed)):
        assert Replayed(iterations, "holds", "").result is dear


def _roomy(margin: float) -> Result[Plan]:
    """Return a plan whose goals hold in the replay."""
    out = Tightening("train", "h100", "hall", factor=KEPT_OUT)
    kept = Tightening("train", "a100", "hall", margin=margin)
    return solve_plan(problem(tightening=(kept, out)), EXACT)


def _scripted(results: list[Result[Plan]]) -> Solve:
    """Return a solver that answers in this order, whatever is asked; the last answer again."""
    left = list(results)
    return lambda tightened, last, seconds: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.long
def test_the_answer_is_the_cheapest_plan_that_held_and_not_the_last() -> None:
    """Less is asked for once the goals hold; where they then miss, nothing is lost."""
    cheap = solve_plan(problem(), EXACT)
    dear, dearer = _roomy(40.0), _roomy(80.0)
    ended = plan_and_replay(problem(), _scripted([cheap, cheap, dear, cheap]), REPLAY)
    assert [one.holds for one in ended.iterations][:3] == [False, True, False]
    assert ended.outcome == "holds"
    assert ended.result is dear
    assert "hold in iteration 2 (" in ended.sentence
    assert "this plan is the cheapest that holds" in ended.sentence
    ended = plan_and_replay(problem(), _scripted([cheap, cheap, dearer, dear]), REPLAY)
    assert [one.holds for one in ended.iterations][:3] == [False, True, True]
    assert ended.result is dear


@pytest.mark.long
def test_no_plan_is_judged_by_the_draws_that_it_was_made_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[int] = []
    sized: list[int] = []

    def judge(*given: object, draw: int) -> object:
        # What missed is measured by the draws of its verdict too, but only after it.
        assert draw not in sized
        judged.append(draw)
        return replay_all(*given, draw=draw)  # type: ignore[arg-type]

    def size(*given: object, draw: int, enough_jobs: int) -> object:
        sized.append(draw)
        return replay(*given, draw=draw, enough_jobs=enough_jobs)  # type: ignore[arg-type]

    monkeypatch.setattr("alloc.planning.verdicts.replay_all", judge)
    monkeypatch.setattr("alloc.planning.capacity.replay", size)
    ended = plan_and_replay(
        problem(), lambda tightened, last, seconds: solve_plan(tightened, EXACT, last), REPLAY
    )
    assert judged == list(range(1, len(ended.iterations) + 1))
    assert 0 in sized
    assert set(sized) <= {0, *judged}


@pytest.mark.long
def test_a_loop_that_may_not_buy_says_what_would_let_it() -> None:
    """The base is feasible within the budget; what the replay asks for is not."""
    cheapest = plan(problem(), limits=EXACT).result.certificate.objective
    assert cheapest is not None
    tight = problem(budget=cheapest * 1.01)
    report = plan(tight, limits=EXACT, replay=REPLAY)
    assert report.replayed is not None
    assert report.replayed.outcome == "missed"
    assert not report.holds
    sentence = report.replayed.sentence
    assert '"train" (' in sentence
    assert "% promised in a100 at hall) missed the goal in the replay with fifo" in sentence
    assert "repair: " in sentence  # What would cure it, not only that it cannot be.
    assert report.result.solution is not None  # The last plan that there was is kept.


def test_iterations_that_run_out_and_problems_without_a_plan_are_said() -> None:
    once = plan(problem(), limits=EXACT, replay=REPLAY, max_iterations=1)
    assert once.replayed is not None
    assert once.replayed.outcome == "missed"
    assert "allow more iterations" in once.replayed.sentence
    none = plan(problem(budget=1.0), limits=EXACT, replay=REPLAY)
    assert none.replayed is not None
    assert none.replayed.outcome == "no plan"
    assert not none.holds


def test_a_solver_that_gives_up_is_not_taken_for_a_proof() -> None:
    """The plan before is kept, and the sentence says that none was found, not that none is."""
    solved: list[Result[Plan]] = []

    def solve(
        tightened: PlanningProblem, last: Result[Plan] | None, seconds: float | None
    ) -> Result[Plan]:
        if last is not None:
            certificate = dataclasses.replace(
                last.certificate, status="no_solution", objective=None, limit="time"
            )
            return Result(None, certificate)
        solved.append(solve_plan(tightened, EXACT))
        return solved[0]

    ended = plan_and_replay(problem(), solve, REPLAY)
    assert ended.outcome == "missed"
    assert "no plan with more capacity was found" in ended.sentence
    assert ended.result is solved[0]


def test_a_plan_that_holds_is_kept_where_the_next_one_cannot_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is found is not lost with an error; without a plan that holds the error is said."""

    def refuse(*given: object, surely: bool) -> None:
        raise InstanceError("misses the goal with any number of hosts")

    monkeypatch.setattr("alloc.planning.loop.learn", refuse)
    cheap = solve_plan(problem(), EXACT)
    with pytest.raises(InstanceError, match="any number of hosts"):
        plan_and_replay(problem(), _scripted([cheap]), REPLAY)
    roomy = _roomy(40.0)
    monkeypatch.setattr("alloc.planning.loop._worth_another", lambda *known: True)
    ended = plan_and_replay(problem(), _scripted([roomy]), REPLAY)
    assert ended.outcome == "holds"
    assert ended.result is roomy
