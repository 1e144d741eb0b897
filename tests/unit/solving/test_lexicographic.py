"""Goals of several levels: what was reached is held, and no limit loses an answer."""

from __future__ import annotations

import math

import pytest

from alloc.certificate import Certificate
from alloc.documents import format_of
from alloc.documents.reading import save
from alloc.errors import InstanceError
from alloc.models.placement.data import PlacementData
from alloc.objectives import Held, objective, parse_goal, parse_level
from alloc.problems.allocation.instance import Instance
from alloc.problems.allocation.solution import Allocation, Assignment, Solution, TaskPlacement
from alloc.result import Limits, Result
from alloc.solving import solve
from alloc.solving.lexicographic import solve_levels
from alloc.solving.outcome import Settings
from alloc.solving.placement.compiling import Problem
from alloc.solving.placement.incumbent import Incumbent
from alloc.topology import Domain, Host, HostType, Topology
from alloc.verification.claims import check_claims
from alloc.workload import Configuration, Job, TaskGroup

CLUSTER = Topology(
    "four",
    (HostType("k", 2, "a100", 8000, 8192),),
    tuple(Host(f"h{n}", "k", f"r{n // 2}") for n in range(4)),
    ("rack",),
    (Domain("r0", "rack"), Domain("r1", "rack")),
)
PAIR = (Configuration((TaskGroup("w", 2, 1000),), 1.0),)
INSTANCE = Instance(
    "i", CLUSTER, tuple(Job(f"j{n}", 0.0, 1.0, PAIR, elasticity="rigid") for n in range(2))
)
LEVELS = ("gpus_placed", "hosts_used", "domains_spanned")
GOAL = " then ".join(LEVELS)


def on(*hosts: tuple[str, ...]) -> Allocation:
    """Place the workers of job n on the hosts of entry n."""
    return Allocation(
        tuple(
            Assignment(
                f"j{n}",
                0,
                tuple(TaskPlacement(h, "w", names.count(h)) for h in dict.fromkeys(names)),
            )
            for n, names in enumerate(hosts)
        )
    )


TIGHT, WIDE = on(("h0", "h0"), ("h1", "h1")), on(("h0", "h1"), ("h2", "h3"))


def certified(
    name: str, solution: Solution | None, bound: float, status: str = "feasible"
) -> Result:
    """Return a result of one level."""
    level = parse_level(name)
    value = None if solution is None else level.evaluate(INSTANCE, solution)
    certificate = Certificate(
        status,  # type: ignore[arg-type]
        value,
        bound,
        level.sense,
        name,
        "placement",
        "stub",
        "1",
        0,
        1,
        0.0,
        INSTANCE.fingerprint,
    )
    return Result(solution, certificate)


def run(answers: dict[str, Result]) -> tuple[Result, list[Settings]]:
    """Solve the levels with given answers; return what was asked, too."""
    asked: list[Settings] = []

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        asked.append(settings)
        return answers[name]

    names = list(answers)
    return solve_levels(INSTANCE, names, Settings(60.0), None, attempt, lambda line: None), asked


def test_each_level_is_proved_and_kept() -> None:
    """Two pairs on two hosts of one rack each: every level has its certificate."""
    result = solve(INSTANCE, "placement", "highs", objective=GOAL)
    assert [stage.objective for stage in result.stages] == [4.0, 2.0, 0.0]
    assert [stage.objective_name for stage in result.stages] == list(LEVELS)
    assert all(stage.status == "optimal" and stage.verified for stage in result.stages)
    assert result.certificate == result.stages[-1]
    assert check_claims(INSTANCE, result) == []
    assert any("level 2 of 3: hosts_used" in line for line in result.log)


def test_a_single_level_has_no_stages() -> None:
    """Its certificate names the goal as it is written."""
    result = solve(INSTANCE, "placement", "highs", objective="gpus_placed + .5 moves")
    assert result.stages == ()
    assert result.certificate.objective_name == "gpus_placed + 0.5 moves"
    assert check_claims(INSTANCE, result) == []


def test_an_answer_that_loses_an_earlier_level_is_not_taken() -> None:
    """One pair fewer needs one host fewer: better on its level, and no answer to the goal."""
    fewer = on(("h0", "h0"))
    names = ("gpus_placed", "hosts_used")
    result, _ = run(
        {
            names[0]: certified(names[0], TIGHT, 4.0, "optimal"),
            names[1]: certified(names[1], fewer, 1.0, "optimal"),
        }
    )
    assert result.solution == TIGHT
    assert [stage.objective for stage in result.stages] == [4.0, 2.0]
    assert [stage.status for stage in result.stages] == ["optimal", "feasible"]


def test_stages_survive_their_file_and_are_held_against_the_solution() -> None:
    """A document that claims more for an earlier level is found out."""
    result = solve(INSTANCE, "placement", "highs", objective=GOAL)
    assert format_of("result").parse(save(result)) == result
    lie = result.stages[1].replace(objective=1.0, bound=3.0)
    stages = (result.stages[0], lie, result.stages[2])
    found = check_claims(INSTANCE, result.replace(stages=stages))
    assert [violation.code for violation in found] == ["objective", "bound"]
    assert "says hosts_used 1.0, but the solution has 2" in found[0].sentence


def test_a_level_that_finds_nothing_keeps_the_answer_before_it() -> None:
    """A time limit in the second level must not lose the first level's placement."""
    answers = {
        "gpus_placed": certified("gpus_placed", WIDE, 4.0, "optimal"),
        "hosts_used": certified("hosts_used", None, 2.0, "no_solution"),
    }
    result, asked = run(answers)
    assert result.solution == WIDE
    assert [s.status for s in result.stages] == ["optimal", "feasible"]
    assert result.certificate.objective_name == "hosts_used"
    assert (result.certificate.objective, result.certificate.bound) == (4.0, 2.0)
    assert asked[0].held == ()
    assert asked[1].held == (Held(parse_level("gpus_placed"), 4.0),)
    assert asked[0].time_limit_s == pytest.approx(30.0, abs=1.0)
    assert asked[1].time_limit_s == pytest.approx(60.0, abs=1.0)


def test_a_level_that_finds_worse_keeps_the_answer_before_it() -> None:
    """Its own search may stop at a worse answer than the one it started from."""
    answers = {
        "gpus_placed": certified("gpus_placed", TIGHT, 4.0, "optimal"),
        "hosts_used": certified("hosts_used", WIDE, 2.0),
    }
    result, _ = run(answers)
    assert result.solution == TIGHT
    assert result.certificate.status == "optimal"
    assert result.certificate.objective == 2.0


def test_the_first_level_that_is_not_proved_speaks_for_the_answer() -> None:
    """A proof of the last level says nothing while the first is open."""
    answers = {
        "gpus_placed": certified("gpus_placed", TIGHT, 5.0),
        "hosts_used": certified("hosts_used", TIGHT, 2.0, "optimal"),
    }
    result, _ = run(answers)
    assert result.certificate.objective_name == "gpus_placed"
    assert result.certificate.gap == pytest.approx(0.25)


def test_a_later_level_is_never_infeasible() -> None:
    """The answer before it is a solution; rounding of what is held may make a solver say so."""
    answers = {
        "gpus_placed": certified("gpus_placed", TIGHT, 4.0, "optimal"),
        "hosts_used": certified("hosts_used", None, float("inf"), "infeasible"),
    }
    result, _ = run(answers)
    assert result.solution == TIGHT
    assert result.certificate.status == "feasible"
    assert result.certificate.bound == -float("inf")
    assert result.certificate.bound_proof == "none"


def test_a_first_level_without_an_answer_ends_it() -> None:
    """There is nothing to hold."""
    answers = {
        "gpus_placed": certified("gpus_placed", None, -float("inf"), "infeasible"),
        "hosts_used": certified("hosts_used", TIGHT, 2.0),
    }
    result, asked = run(answers)
    assert result.solution is None
    assert result.certificate.status == "infeasible"
    assert len(asked) == 1
    assert len(result.stages) == 1


def test_the_worst_value_that_counts_as_kept_is_a_rounding_away() -> None:
    """In the sense of the level."""
    assert Held(parse_level("gpus_placed"), 40.0).limit == pytest.approx(40.0 - 4e-6, abs=1e-9)
    assert Held(parse_level("hosts_used"), 0.0).limit == pytest.approx(1e-7)


def test_objectives_are_found_by_name_or_as_one_level() -> None:
    """Certificates name weighted sums, and the checker computes them again."""
    assert objective("balance + 0.05 moves").sense == "min"
    with pytest.raises(InstanceError, match="has 2 levels, which have no value together"):
        objective("gpus_placed then moves")
    assert parse_goal("2*balance+moves then hosts_used").text == (
        "2 balance + moves then hosts_used"
    )


@pytest.mark.parametrize("weight", [1.0000001, 0.1 + 0.2, 1e-13, 123456789.5, 1e22, 0.05, 2.0])
def test_goals_that_differ_in_any_digit_have_names_that_differ(weight: float) -> None:
    """Six digits gave two goals one name, and so one value; what is written is read back."""
    level = parse_level(f"balance + {weight!r} moves")
    assert parse_level(level.name).terms == level.terms
    other = parse_level(f"balance + {math.nextafter(weight, 0.0)!r} moves")
    assert other.name != level.name


@pytest.mark.parametrize("scale", [1e-15, 1e-9, 1.0, 1e9])
def test_an_improvement_counts_in_the_unit_of_its_goal(scale: float) -> None:
    """Below 1e-12 nothing was better than anything."""
    level = parse_level(f"{scale!r} domains_spanned + {0.1 * scale!r} hosts_used")
    known = Incumbent(Problem(PlacementData.of(INSTANCE)), level, ())
    assert known.offer(WIDE)
    assert known.offer(TIGHT)
    assert not known.offer(WIDE)
    assert known.allocation == TIGHT
    assert known.cost == pytest.approx(level.evaluate(INSTANCE, TIGHT), rel=1e-12, abs=0.0)


@pytest.mark.parametrize("weight", [1e-300, 5e-324, 1e-294, 1e-9])
def test_the_tiniest_weight_is_solved_by_cpsat(weight: float) -> None:
    """The scale that makes it whole overflowed."""
    goal = f"{weight!r} gpus_placed"
    certificate = solve(INSTANCE, "placement", "cpsat", objective=goal).certificate
    assert certificate.bound >= 4 * weight * (1 - 1e-6)
    if weight > 1e-310:  # below that, double precision has few digits left
        assert certificate.objective == pytest.approx(4 * weight, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("raised", [False, True])
def test_an_interrupt_ends_the_levels_after_it_and_loses_nothing(raised: bool) -> None:
    """Whether the level's own search returned at Ctrl-C, or it came between two of them."""
    asked: list[str] = []

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        asked.append(name)
        result = certified(name, WIDE, 4.0, "optimal")
        if len(asked) == 2 and raised:
            raise KeyboardInterrupt
        if len(asked) == 2:
            cut = result.certificate.replace(status="feasible", bound=1.0, limit="interrupt")
            return result.replace(certificate=cut)
        return result

    result = solve_levels(INSTANCE, list(LEVELS), Settings(60.0), None, attempt, lambda line: None)
    assert result.solution == WIDE
    assert asked == list(LEVELS[:2])
    assert [stage.limit for stage in result.stages] == [None, "interrupt", "interrupt"]
    assert [stage.objective for stage in result.stages] == [4.0, 4.0, 2.0]
    assert result.certificate.limit == "interrupt"
    assert check_claims(INSTANCE, result) == []


def test_a_start_as_good_to_the_first_level_is_kept_for_the_second() -> None:
    """The first level found another answer of the same value, and the second one nothing."""

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        if settings.held:
            return certified(name, None, 2.0, "no_solution")
        return certified(name, WIDE, 4.0, "optimal")

    result = solve_levels(
        INSTANCE, list(LEVELS[:2]), Settings(60.0), TIGHT, attempt, lambda line: None
    )
    assert result.solution == TIGHT
    assert [stage.objective for stage in result.stages] == [4.0, 2.0]


@pytest.mark.parametrize("backend", ["auto", "highs", "pyomo", "cpsat"])
def test_no_backend_loses_the_start_of_a_goal(backend: str) -> None:
    """There is no time to find it again."""
    limits = Limits(seconds=1e-3)
    result = solve(INSTANCE, "placement", backend, objective=GOAL, limits=limits, warm_start=TIGHT)
    assert [stage.objective for stage in result.stages] == [4.0, 2.0, 0.0]


def test_without_time_a_later_level_is_left_as_it_is() -> None:
    """Each level took what reading, checking and certifying take, however late it was."""
    asked: list[str] = []

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        asked.append(name)
        return certified(name, WIDE, 4.0, "optimal")

    result = solve_levels(INSTANCE, list(LEVELS), Settings(0.0), None, attempt, lambda line: None)
    assert asked == ["gpus_placed"]
    assert [stage.objective_name for stage in result.stages] == list(LEVELS)
    assert [stage.objective for stage in result.stages] == [4.0, 4.0, 2.0]
    assert [stage.status for stage in result.stages] == ["optimal", "feasible", "feasible"]
    assert [stage.bound_proof for stage in result.stages[1:]] == ["none", "none"]
    assert result.certificate.limit == "time"
    assert check_claims(INSTANCE, result) == []


def test_time_that_later_levels_leave_goes_to_the_first_that_is_not_proved() -> None:
    """The answer of its second try is better, so the level after it is solved again as well."""
    asked: list[tuple[str, float]] = []

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        asked.append((name, settings.seconds_left()))
        solution = WIDE if len(asked) == 1 else TIGHT
        if name == LEVELS[1] and len(asked) > 2:
            return certified(name, solution, 2.0, "optimal")
        result = certified(name, solution, 0.0 if name == LEVELS[1] else 4.0)
        return result.replace(certificate=result.certificate.replace(limit="time"))

    result = solve_levels(
        INSTANCE, list(LEVELS[:2]), Settings(60.0), None, attempt, lambda line: None
    )
    assert [name for name, _ in asked] == [LEVELS[0], LEVELS[1], LEVELS[1]]
    assert [round(seconds) for _, seconds in asked] == [30, 60, 60]
    assert [stage.status for stage in result.stages] == ["optimal", "optimal"]
    assert [stage.objective for stage in result.stages] == [4.0, 2.0]


@pytest.mark.parametrize("again", [1.0, 3.0])
def test_a_level_that_is_solved_again_keeps_the_better_bound(again: float) -> None:
    """Of hosts in use, 2 are proved at first; what is proved with more time may say less."""
    bounds = [2.0, again, again]

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        if name == "gpus_placed":
            return certified(name, WIDE, 4.0, "optimal")
        result = certified(name, WIDE, bounds.pop(0))
        return result.replace(certificate=result.certificate.replace(limit="time"))

    names = ["hosts_used", "gpus_placed"]
    result = solve_levels(INSTANCE, names, Settings(60.0), None, attempt, lambda line: None)
    assert bounds == []
    assert result.stages[0].bound == max(again, 2.0)


@pytest.mark.parametrize("hosts", [2.0, 4.0])
def test_a_bound_holds_only_while_no_level_before_it_is_worse(hosts: float) -> None:
    """The second pair asks for more hosts: what the first few allowed no longer bounds the rest."""
    one, two = on(("h0", "h1")), TIGHT if hosts == 2.0 else WIDE
    answers = [
        ("gpus_placed", one, 4.0, "time"),
        ("hosts_used", one, 2.0, None),
        ("domains_spanned", one, -0.5, "time"),
        ("gpus_placed", two, 4.0, None),
        ("hosts_used", two, hosts, None),
        ("domains_spanned", two, -1.0, "time"),
    ]
    if hosts == 2.0:  # the second level is still proved, and is not solved again
        del answers[4]

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        asked, solution, bound, limit = answers.pop(0)
        assert name == asked
        result = certified(name, solution, bound)
        if not answers:  # much is left, but not for a third time
            monkeypatch.setattr("alloc.solving.lexicographic._MUCH", 2.0)
        return result.replace(certificate=result.certificate.replace(limit=limit))

    with pytest.MonkeyPatch.context() as monkeypatch:
        result = solve_levels(
            INSTANCE, list(LEVELS), Settings(60.0), None, attempt, lambda line: None
        )
    assert not answers
    assert [stage.objective for stage in result.stages][:2] == [4.0, hosts]
    assert result.stages[2].bound == (-0.5 if hosts == 2.0 else -1.0)


def test_a_level_that_is_solved_again_keeps_its_bound_where_rounding_says_infeasible() -> None:
    """An answer is known, so what says that there is none says nothing."""
    statuses = ["feasible", "infeasible", "infeasible"]

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        if name == "gpus_placed":
            return certified(name, WIDE, 4.0, "optimal")
        status = statuses.pop(0)
        result = certified(name, WIDE, 2.0 if status == "feasible" else math.inf, status)
        return result.replace(certificate=result.certificate.replace(limit="time"))

    names = ["hosts_used", "gpus_placed"]
    result = solve_levels(INSTANCE, names, Settings(60.0), None, attempt, lambda line: None)
    assert statuses == []
    assert (result.stages[0].status, result.stages[0].bound) == ("feasible", 2.0)


def test_an_interrupt_between_two_rounds_leaves_the_last_one() -> None:
    """It comes when a level was solved again, and a better answer is not yet proved of any."""
    asked: list[str] = []

    def attempt(name: str, settings: Settings, start: Solution | None) -> Result:
        asked.append(name)
        result = certified(name, WIDE if len(asked) < 3 else TIGHT, 0.0 if len(asked) < 3 else 1.0)
        return result.replace(certificate=result.certificate.replace(limit="time"))

    def pressed(*_: object) -> bool:
        raise KeyboardInterrupt

    def report(line: str) -> None:
        if len(asked) == 2:  # the second round begins
            patch.setattr("alloc.solving.lexicographic._all_kept", pressed)

    names = ["hosts_used", "domains_spanned"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alloc.solving.lexicographic._is_better", lambda *_: len(asked) == 3)
        result = solve_levels(INSTANCE, names, Settings(60.0), None, attempt, report)
    assert asked == ["hosts_used", "domains_spanned", "hosts_used"]
    assert result.solution == WIDE
    assert [(stage.objective, stage.bound) for stage in result.stages] == [(4.0, 0.0), (2.0, 0.0)]
    assert [stage.limit for stage in result.stages] == ["interrupt", "interrupt"]
