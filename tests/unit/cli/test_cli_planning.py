"""Planning at the command line: answers, proofs, pictures, and sentences with a cure."""

import gzip
import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from alloc.cli.exit_code import ExitCode, worst_code
from alloc.documents import format_of
from alloc.documents.reading import load
from alloc.instances.stored_planning import load_stored_planning, stored_planning_ids
from alloc.planning import report as planning_report
from alloc.planning.change_text import GRAMMAR
from alloc.planning.loop import Iteration, Replayed
from alloc.planning.report import PlanReport
from alloc.plotting.plans import plot_hosts
from alloc.problems.allocation.instance import Instance
from alloc.problems.right_sizing import ServiceGoal
from alloc.problems.right_sizing.accounting import mean_hosts
from alloc.problems.right_sizing.plan_tables import count_of, plan_tables
from alloc.server.pages.plans import plan_view
from alloc.topology import HostType
from alloc.topology.topology import flat_cluster
from alloc.workload import Job, rigid_gang

TINY = "planning-tiny"


@pytest.fixture
def hopeless(tmp_path):
    """Return the file of a problem whose budget buys nothing."""
    path = tmp_path / "hopeless.json"
    load_stored_planning(TINY).replace(budget=1.0).to_json(path)
    return path


@pytest.mark.long
def test_a_plan_is_shown_with_its_proof_and_what_it_takes_for_granted(run):
    result = run("plan", TINY, "-q")
    assert result.exit_code == 0, result.stderr
    for words in ("bound", "discounted", "in service", "Marginal", "Assumptions:"):
        assert words in result.stdout


def test_a_plan_for_programs_is_one_document_and_the_file_the_same(run, tmp_path):
    path = tmp_path / "plan.json"
    result = run("plan", TINY, "--json", "-q", "-o", path)
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document == json.loads(path.read_text())
    found = format_of("result").decode(document["result"])
    assert found.certificate.verified
    assert found.certificate.bound <= found.certificate.objective


def cells(text: str) -> list[str]:
    """Return the words of a page's or a terminal's text, in order."""
    return html.unescape(re.sub(r"<[^>]*>", " ", text)).split()


def in_order(wanted: list[str], words: list[str]) -> bool:
    """Return whether some words stand one after the other somewhere in a text."""
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words)))


@pytest.mark.long
@pytest.mark.parametrize("name", ["planning-small", "planning-chance"])
def test_terminal_report_page_and_document_show_the_same_plan(run, tmp_path, name):
    """The report once left out 144 rented GPUs that the page had, beside the money for them."""
    file, page = tmp_path / "plan.json", tmp_path / "plan.html"
    shown = run("plan", name, "-q", "-o", file, "--report", page)
    assert shown.exit_code == 0, shown.stderr
    document = json.loads(file.read_text())
    tables = plan_tables(document)
    view = plan_view(document)
    texts = (cells(shown.stdout), cells(page.read_text()))
    for table in tables:
        assert [row for one in view.tables if one.caption == table.title for row in one.rows]
        for row in table.rows:
            assert row in [r for one in view.tables for r in one.rows]
            for words in texts:
                assert in_order(" ".join(row).split(), words), row
    # Nothing that is paid for is missing: what is rented, in every quarter.
    problem = load_stored_planning(name)
    plan = format_of("result").decode(document["result"]).solution
    rented = {rental.offer for rental in plan.rentals}
    assert rented
    hosts = next(table for table in tables if table.title.startswith("Hosts, by quarter"))
    assert rented <= {row[0] for row in hosts.rows}
    for offer, _ in mean_hosts(problem, plan):
        assert offer in {row[0] for row in hosts.rows}
    gpus = sum(
        problem.offers[problem.offer_index[offer]].gpus * counts[0]
        for (offer, _), counts in mean_hosts(problem, plan).items()
    )
    assert hosts.rows[-1][-1].split()[0] == count_of(gpus)
    labels = [bar.get_label() for bar in plot_hosts(plan_of(problem)).containers]
    assert {label.rpartition(" @ ")[0] for label in labels} >= rented


def plan_of(problem) -> PlanReport:
    return planning_report.plan(problem)


@pytest.mark.long
def test_a_replayed_plan_reports_both_fidelities_on_a_page_of_its_own(run, tmp_path):
    """The page needs nothing else: no address of another document."""
    page = tmp_path / "plan.html"
    result = run("plan", TINY, "--replay", "--replay-jobs", 60, "-q", "--report", page)
    assert result.exit_code in (0, 3, 5), result.stderr
    assert "goals in the replay" in result.stdout
    text = page.read_text()
    assert text.partition("<script>")[0].count("<svg") == 3
    assert "What the plan takes for granted" in text
    assert not re.search(r"<script src|https?://(?!www\.w3\.org)| src=", text)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("holds", 0),
        ("no plan", 4),
        ("missed", 5),
        ("unmeasured", 5),
        ("interrupted", 130),
    ],
)
def test_the_exit_code_tells_a_plan_that_holds_from_one_that_does_not(
    run, monkeypatch, outcome, code
):
    """Until then a plan whose goals the simulator missed was exit 0, like one that holds."""
    whole = planning_report.plan

    def replayed(problem, *, limits, replay, **options):
        found = whole(problem, limits=limits)
        result = found.result
        if outcome == "no plan":
            certificate = result.certificate.replace(status="no_solution", objective=None)
            result = result.replace(solution=None, certificate=certificate)
        turns = Replayed((Iteration(problem, result, ()),), outcome, "as it was.")
        return PlanReport(problem, result, turns)

    monkeypatch.setattr(planning_report, "plan", replayed)
    done = run("plan", TINY, "--replay", "-q", "--json")
    assert done.exit_code == code
    assert json.loads(done.stdout)["result"]
    assert ("replay: as it was." in done.stderr) == (outcome not in ("holds", "no plan"))


def test_of_several_what_ifs_the_worst_is_the_exit_code():
    codes = [ExitCode.MISSED, ExitCode.SOLVED, ExitCode.INFEASIBLE]
    assert worst_code(codes) is ExitCode.INFEASIBLE
    assert worst_code([*codes, ExitCode.NO_SOLUTION]) is ExitCode.NO_SOLUTION
    assert worst_code([ExitCode.SOLVED, ExitCode.MISSED]) is ExitCode.MISSED
    assert worst_code([]) is ExitCode.SOLVED


def test_names_of_anybody_do_not_become_markup(run, tmp_path):
    problem = load_stored_planning(TINY).replace(name="<script>alert(1)</script>")
    path, page = tmp_path / "p.json", tmp_path / "p.html"
    problem.to_json(path)
    assert run("plan", path, "-q", "--report", page).exit_code == 0
    assert "<script>alert" not in page.read_text()


def test_a_forecast_that_no_plan_serves_says_what_would_relieve_it(run, hopeless, tmp_path):
    page = tmp_path / "plan.html"
    result = run("plan", hopeless, "-q", "--report", page)
    assert result.exit_code == 3
    assert "infeasible: " in result.stderr
    assert "repair: " in result.stderr
    assert "The cheapest repairs" in page.read_text()


def test_an_answer_whose_file_ends_in_gz_is_compressed(run, tmp_path):
    path = tmp_path / "plan.json.gz"
    assert run("plan", TINY, "-q", "-o", path).exit_code == 0
    assert json.loads(gzip.decompress(path.read_bytes()))["document"] == "plan-report"


@pytest.mark.long
def test_a_limit_that_left_nothing_is_said(run):
    result = run("plan", "planning-large", "--time-limit", 0.001, "-q")
    assert result.exit_code == 4
    assert "no plan was found within the limits" in result.stderr


def test_a_front_of_nothing_says_what_is_missing(run, hopeless):
    result = run("plan", hopeless, "--pareto", "energy", "-q")
    assert result.exit_code == 3
    assert "infeasible: no plan serves the forecast" in result.stderr
    assert "repair: the plan needs " in result.stderr


@pytest.mark.long
@pytest.mark.parametrize("axis", ["goals", "energy"])
def test_fronts_are_tables_or_documents(run, axis, tmp_path):
    path = tmp_path / "front.json"
    result = run("plan", TINY, "--pareto", axis, "--points", 2, "-q", "-o", path)
    assert result.exit_code == 0, result.stderr
    assert f"Cost against {axis}" in result.stdout
    assert json.loads(path.read_text())["axis"] == axis
    assert run("plan", TINY, "--pareto", axis, "--points", 2, "-q", "--json").stdout.startswith("{")


def test_a_what_if_gives_the_proved_difference(run):
    result = run("what-if", TINY, "demand=+20%", "-q")
    assert result.exit_code == 0, result.stderr
    assert "What if: +20 % all jobs" in result.stdout
    assert "proved" in result.stdout


def test_each_change_by_itself_shares_the_base(run):
    result = run(
        "what-if", TINY, "demand=+20%", "price:reserve h100=+10%", "--each", "--json", "-q"
    )
    first, second = json.loads(result.stdout)
    assert first["changes"] != second["changes"]
    assert first["base"] == second["base"]


def test_the_worst_outcome_is_the_exit_code(run):
    result = run("what-if", TINY, "budget=1", "-q")
    assert result.exit_code == 3
    assert "infeasible: " in result.stderr


def test_what_a_change_can_be_is_listed(run):
    """As the help says: no problem has to be named for it."""
    result = run("what-if", "--changes")
    assert result.exit_code == 0, result.stderr
    for example, _ in GRAMMAR:
        assert example.split(",")[0] in result.stdout


def test_a_team_joins_from_its_file(run, tmp_path):
    team = tmp_path / "team.json"
    robots = {"name": "robots", "options": [{"gpu_type": "a100", "gpus": 4, "hours": 6.0}]}
    team.write_text(json.dumps({"classes": [robots], "jobs_per_hour": {"robots": [0.5, 0.8]}}))
    result = run("what-if", TINY, f"team={team}", "-q")
    assert result.exit_code == 0, result.stderr
    assert 'What if: a new team with "robots"' in result.stdout
    for text, sentence in (
        ("[]", "a team is a JSON object"),
        ("{}", 'team.json: change "team": field "classes" is missing'),
        ("{", "ends too early"),
    ):
        team.write_text(text)
        result = run("what-if", TINY, f"team={team}", "-q")
        assert result.exit_code == 2
        assert sentence in result.stderr


@pytest.mark.long
def test_another_policy_is_replayed(run):
    result = run(
        "what-if",
        TINY,
        "--replay",
        "--other-scheduler",
        "srtf",
        "--replay-jobs",
        40,
        "-q",
        "--iterations",
        1,
    )
    assert "What if: policy srtf" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan", "planning-tinny"), 'did you mean "planning-tiny"'),
        (("plan", "no-such.json"), "no-such.json"),
        (("plan", TINY, "--pareto", "goal"), 'did you mean "goals"'),
        (("plan", TINY, "--pareto", "goals", "--replay"), "of a plan, not of a front"),
        (("plan", TINY, "--pareto", "goals", "--held-out", TINY), "of a plan, not of a front"),
        (("plan", TINY, "--replay", "--scheduler", "fifoo"), "fifo"),
        (("plan", TINY, "-o", "/no/such/folder/x.json"), "make it first"),
        (("what-if", TINY), "nothing is changed"),
        (("what-if", TINY, "demnd=1"), 'did you mean "demand"'),
        (("what-if", TINY, "without:dgx"), 'unknown offer "dgx"'),
        (("what-if", TINY, "demand=x2", "--other-scheduler", "srtf"), "needs --replay"),
        (("plan", TINY, "--scheduler", "srtf"), "--scheduler needs --replay"),
        (("plan", TINY, "--iterations", 2, "--replay-jobs", 50), "--replay-jobs need --replay"),
        (("what-if", TINY, "demand=+20%", "--scheduler", "srtf"), "--scheduler needs --replay"),
        (("what-if", TINY, "demand=20"), "write demand=+20% for 20 % more"),
        (("what-if", TINY, "demand=-100%"), "write more than -100%"),
        (("forecast", TINY), "one of the two"),
        (("forecast", TINY, "--rate", "x=1", "--hold-out", 1), "go together"),
        (("forecast", TINY, "--rate", "x=1"), 'unknown class "x"'),
        (("forecast", TINY, "--rate", "x=much"), "is not a number"),
        (("forecast", TINY, "--rate", "x"), "write NAME=NUMBER"),
        (("forecast", TINY, "--history", "elastic-tiny/01"), "--template mine.json"),
        (("forecast", TINY, "--rate", "x=1", "--goal", "x=none"), "go with --history"),
    ],
)
def test_wrong_input_is_one_sentence_with_a_cure(run, arguments, sentence):
    result = run(*arguments, "-q")
    assert result.exit_code == 2, (result.stdout, result.stderr)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr


def own_prices(run, folder):
    """Return the file of a problem that is the user's own: a template of the sample."""
    mine = folder / "mine.json"
    result = run("plan", TINY, "--template", mine)
    assert result.exit_code == 0, result.stderr
    assert "put in your offers, prices, sites and the hosts that you own" in result.stderr
    return mine


def a_history(folder, weeks=2.1):
    """Return the file of a history: short jobs of 1 GPU by day, long ones of 8 at any hour."""
    jobs = []
    for day in range(int(7 * weeks) + 1):
        for k in range(24):
            hour = 24 * day + 8 + k / 3
            jobs.append(
                Job(f"s{day}-{k}", 3600.0 * hour, 1800.0, (rigid_gang(1),), elasticity="rigid")
            )
            jobs.append(
                Job(
                    f"l{day}-{k}",
                    3600.0 * (24 * day + k),
                    36_000.0,
                    (rigid_gang(8),),
                    elasticity="rigid",
                )
            )
    path = folder / "history.json"
    Instance("h", flat_cluster("c", HostType("h", 8, "a100"), 4), tuple(jobs)).to_json(path)
    return path


def test_a_forecast_keeps_what_classes_are_promised(run, tmp_path):
    """Goals, interruptible and deferrable of the problem were dropped without a word."""
    mine, history, out = own_prices(run, tmp_path), a_history(tmp_path), tmp_path / "f.json"
    again = ("--history", history, "--speed", "a100=1", "--scenarios", 3, "-q", "-o", out)
    said = run(
        *("forecast", mine, *again, "--goal", "1-gpu*=wait 15h mean", "--goal", "8-gpu*=none"),
        *("--interruptible", "8-*", "--deferrable", "*8-48h"),
    )
    assert said.exit_code == 0, said.stderr
    assert "classes of the problem are not in the history and are left out" in said.stderr
    assert "had no goal" not in said.stderr
    short, long = load(out).classes
    assert (short.goal, short.interruptible, short.deferrable) == (
        ServiceGoal("wait", 15.0, None), False, False,
    )  # fmt: skip
    assert (long.goal, long.interruptible, long.deferrable) == (None, True, True)
    # By day and at any hour: 8 busy hours of 24, and all of them.
    assert short.hourly_profile == (0.0,) * 8 + (3.0,) * 8 + (0.0,) * 8
    assert long.hourly_profile == (1.0,) * 24
    # The next forecast for the same problem keeps them; what had none gets the default, said.
    edited = load(out)
    edited = edited.replace(
        classes=tuple(
            replace(c, critical=True, tenant="t", spot_overhead=0.1) for c in edited.classes
        )
    )
    edited.to_json(out)
    said = run("forecast", out, *again)
    assert said.exit_code == 0, said.stderr
    assert "1 of 2 classes had no goal" in said.stderr
    kept = load(out).classes
    for before, after in zip(edited.classes, kept, strict=True):
        assert replace(after, goal=before.goal) == before
    assert kept[0].goal == short.goal
    assert kept[1].goal == ServiceGoal("wait", 10.0, 0.95)
    wrong = run("forecast", out, *again, "--goal", "9-gpu*=none")
    assert wrong.exit_code == 2
    assert "fits no class of the history; its classes are 1-gpu 0-1h, 8-gpu 8-48h" in wrong.stderr


@pytest.mark.long
def test_a_forecast_of_goals_is_held_in_the_replay(run, tmp_path):
    """From history to a plan that is measured; without goals the replay is refused, not passed."""
    mine, history, out = own_prices(run, tmp_path), a_history(tmp_path), tmp_path / "f.json"
    again = ("--history", history, "--speed", "a100=1", "--scenarios", 2, "-q", "-o", out)
    assert run("forecast", mine, *again, "--goal", "*=none").exit_code == 0
    refused = run("plan", out, "--replay", "-q")
    assert refused.exit_code == 2
    assert "give the classes a goal (alloc forecast --history" in refused.stderr
    assert run("forecast", mine, *again).exit_code == 0
    held = run("plan", out, "--replay", "--replay-jobs", 200, "-q", "--json")
    document = json.loads(held.stdout)
    assert held.exit_code == (0 if document["holds"] else 5)
    assert document["replay"]["rounds"][0]["measured"]


def test_a_history_becomes_scenarios_ready_to_plan(run, tmp_path):
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 3.5 * 604_800, 200))
    jobs = tuple(
        Job(f"{i}", float(t), 7200.0, (rigid_gang(int(rng.choice([1, 8]))),), elasticity="rigid")
        for i, t in enumerate(times)
    )
    cluster = flat_cluster("c", HostType("h", 8, "a100"), 4)
    history, forecast = tmp_path / "history.json", tmp_path / "forecast.json"
    Instance("history", cluster, jobs).to_json(history)
    mine = own_prices(run, tmp_path)
    result = run(
        *("forecast", mine, "--history", history, "--speed", "a100=1", "--keep", 3),
        *("--hold-out", 1, "--held-out-output", tmp_path / "later.json", "-o", forecast),
    )
    assert result.exit_code == 0, result.stderr
    assert "3 scenarios over 2 quarters" in result.stdout
    assert "left out: " in result.stderr
    problem = load(forecast)
    assert [c.name for c in problem.classes] == ["1-gpu 1-8h", "8-gpu 1-8h"]
    # Nothing of the sample's is the user's but what the file says, and its origin is repeated.
    assert (problem.owned, problem.budget) == ((), None)
    assert "2 of 2 classes had no goal" in result.stderr
    assert all(c.goal == ServiceGoal("wait", 2.0, 0.95) for c in problem.classes)
    result = run("plan", forecast, "-q", "--held-out", tmp_path / "later.json")
    assert result.exit_code == 0
    assert "of held-out futures" in result.stdout
    assert f'made up, of the sample "{TINY}"' in result.stdout
    document = json.loads(
        run("plan", forecast, "-q", "--held-out", tmp_path / "later.json", "--json").stdout
    )
    assert 0 <= document["out_of_sample"]["share"] <= 1
    # Blocks longer than the history were silently made shorter.
    long = ("forecast", mine, "--history", history, "--speed", "a100=1", "--block-weeks", 4)
    result = run(*long, "-q")
    assert result.exit_code == 2
    assert "the history has 3 weeks; draw shorter blocks" in result.stderr


def test_rates_become_scenarios(run):
    names = [c.name for c in load_stored_planning(TINY).classes]
    rates = [part for name in names for part in ("--rate", f"{name}=2")]
    result = run("forecast", TINY, *rates, "--variation", 0.2, "--scenarios", 4)
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["scenarios"]) == 4


def test_stored_problems_are_offered_by_completion_and_load():
    assert stored_planning_ids()[0] == TINY
    for problem_id in stored_planning_ids()[:6]:
        assert load_stored_planning(problem_id).name == problem_id
